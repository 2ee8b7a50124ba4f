"""The problem: a model and what the data say about it. After this stage X is no longer needed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from legendre.arrays import BoolArray, FloatArray, IntArray, frozen
from legendre.intake import Observation
from legendre.model import Model
from legendre.zeta import zeta_adjoint


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``psi(theta) - theta . eta_hat`` over theta: the convex form of eq. (4).

    Parameters
    ----------
    model
        The sample space and the basis.
    mass
        P summed over each merged cell.
    eta_hat
        The expectations of P on the basis, eq. (3).

    Examples
    --------
    >>> from legendre.intake import observe
    >>> problem = Problem.of(observe([[1, 2], [3, 4]]), np.array([[1, 0]]))
    >>> problem.eta_hat.tolist(), problem.model.quotient.merged_shape
    ([0.7], (2, 1))
    """

    model: Model
    mass: FloatArray
    eta_hat: FloatArray

    @classmethod
    def of(cls, data: Observation, basis: IntArray) -> Problem:
        """Merge the data along the basis: one pass over X."""
        model = Model.of(data.support, data.base, basis)
        mask = data.support.mask
        values = data.values if mask is None else np.where(mask, data.values, 0)
        mass = model.quotient.merge(values) / data.total
        eta_hat = zeta_adjoint(mass)[tuple(model.positions.T)]
        return cls(model, frozen(mass), frozen(eta_hat))

    def reduced(self, alive: BoolArray, columns: IntArray) -> Problem:
        """Keep the merged cells of a face and independent parameters only."""
        model = self.model.on_face(alive).with_columns(columns)
        return replace(self, model=model, eta_hat=self.eta_hat[columns])
