"""The problem: a model and what the data say about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

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
    data
        X and its sample space.
    model
        The sample space and the basis, merged.
    eta_hat
        The expectations of P on the basis, eq. (3).

    Examples
    --------
    >>> from legendre.intake import observe
    >>> problem = Problem.of(observe([[1, 2], [3, 4]]), np.array([[1, 0]]))
    >>> problem.eta_hat.tolist(), problem.mass.tolist()
    ([0.7], [[0.3], [0.7]])
    """

    data: Observation
    model: Model
    eta_hat: FloatArray

    @classmethod
    def of(cls, data: Observation, basis: IntArray) -> Problem:
        """Merge the data along the basis: one pass over X."""
        model = Model.of(data.support, data.base, basis)
        mass = _merged_mass(data, model)
        eta_hat = zeta_adjoint(mass)[tuple(model.positions.T)]
        problem = cls(data, model, frozen(eta_hat))
        problem.__dict__["mass"] = mass
        return problem

    @cached_property
    def mass(self) -> FloatArray:
        """P summed over each merged cell."""
        return _merged_mass(self.data, self.model)

    def reduced(self, alive: BoolArray | None, columns: IntArray) -> Problem:
        """Keep the merged cells of a face and independent parameters only."""
        if alive is None and len(columns) == self.model.n_params:
            return self
        small = replace(
            self, model=self.model.on_face(alive).with_columns(columns), eta_hat=frozen(self.eta_hat[columns])
        )
        if "mass" in self.__dict__:
            small.__dict__["mass"] = self.mass
        return small


def _merged_mass(data: Observation, model: Model) -> FloatArray:
    mask = data.support.mask
    values = data.values if mask is None else np.where(mask, data.values, 0)
    return frozen(model.quotient.merge(values) / data.total)
