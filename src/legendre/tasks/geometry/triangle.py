"""Pythagoras' theorem for the KL divergence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name, frozen
from legendre.core.errors import InvalidSetting, InvalidTensor
from legendre.core.types import FloatArray
from legendre.data.dense import in_memory
from legendre.model.dual import kl, probabilities
from legendre.results.decomposition import Decomposition
from legendre.results.tensor import tensor
from legendre.tasks.geometry.geodesics import normalised


@dataclass(frozen=True, eq=False)
class Triangle:
    """P, its projection Q onto a model, and R: three tensors and the divergences between them.

    Parameters
    ----------
    fit
        The decomposition that made Q out of P.
    P, Q, R
        Probabilities on the grid.
    kl_pq, kl_qr, kl_pr
        KL(P, Q), KL(Q, R) and KL(P, R) in nats.
    """

    fit: Decomposition
    P: FloatArray
    Q: FloatArray
    R: FloatArray
    kl_pq: float
    kl_qr: float
    kl_pr: float

    @property
    def defect(self) -> float:
        """``KL(P, R) - KL(P, Q) - KL(Q, R)``: 0 but for rounding if R is in the model.

        It equals ``sum (p - q) log(q / r)``, the inner product of the m-geodesic from Q to P with the e-geodesic from R
        to Q in the Fisher metric at Q: the angle at Q is right when it is 0.
        """
        return self.kl_pr - self.kl_pq - self.kl_qr

    def __repr__(self) -> str:
        return (
            f"<Triangle: KL(P, R) = {self.kl_pr:.6g}, KL(P, Q) + KL(Q, R) = {self.kl_pq:.6g} + {self.kl_qr:.6g}, "
            f"defect {self.defect:.1e}>"
        )


def pythagoras(fit: Decomposition, R: ArrayLike | None = None) -> Triangle:
    """Check ``KL(P, R) = KL(P, Q) + KL(Q, R)``, Q being the decomposition of P and R any member of the same model.

    Parameters
    ----------
    fit
        What `decompose` returned for P.
    R
        A tensor of P's shape; normalised first. By default the member with theta = 0: uniform, or the base measure.
        If R is not in the model, the theorem does not hold and `Triangle.defect` tells by how much.

    Examples
    --------
    >>> import legendre as ld
    >>> triangle = pythagoras(ld.decompose([[4, 1], [2, 3]], "B1"), np.outer([1, 3], [2, 1]))
    >>> triangle
    <Triangle: KL(P, R) = 0.239858, KL(P, Q) + KL(Q, R) = 0.0863046 + 0.153553, defect ...>
    >>> abs(triangle.defect) < 1e-12
    True
    """
    if not isinstance(fit, Decomposition):
        raise InvalidSetting(
            f"pythagoras takes a decomposition, got {type(fit).__name__}: pythagoras(decompose(P, basis), R)."
        )
    if fit.data is None:
        raise InvalidSetting("pythagoras needs X, and a decomposition from a file comes without it; fit it anew.")
    mask = fit.model.support.mask
    p = probabilities(in_memory(fit.data, "pythagoras"))
    q = tensor(fit, extend=False) / fit.total
    if mask is not None:
        q = np.where(mask, q, 0.0)
    r = _member_at_zero(fit) if R is None else normalised(R, "R")
    if r.shape != p.shape:
        raise InvalidTensor(f"R has shape {r.shape}, the decomposition has shape {p.shape}; they must be equal.")
    missed = np.argwhere((r == 0) & (q > 0))
    if len(missed):
        where = cell_name(missed[0])
        raise InvalidTensor(f"R{where} = 0 where Q{where} > 0, so that KL(Q, R) is infinite. R must be positive there.")
    return Triangle(fit, frozen(p), frozen(q), frozen(r), kl(p, q), kl(q, r), kl(p, r))


def _member_at_zero(fit: Decomposition) -> FloatArray:
    """Take theta = 0: the base measure on the support, or 1."""
    r = np.ones(fit.shape) if fit.model.base is None else fit.model.base
    inside = r if fit.model.support.mask is None else np.where(fit.model.support.mask, r, 0.0)
    return np.asarray(inside / inside.sum())
