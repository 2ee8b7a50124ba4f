"""Functions from a positive tensor to its dual coordinates theta and eta and back; KL, entropy and psi.

On Omega+ (the sample space without the bottom) theta and eta are each a complete coordinate system (the paper's
Section 2.2). Here they are grids of X's shape: theta holds -psi at the bottom and 0 outside Omega, eta holds 1 at the
bottom. Where the bottom is not in Omega, theta on Omega has one coordinate too many; it is fixed by psi = 0. Grids are
arrays of the library that the argument came from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidTensor
from legendre.core.origin import device_of
from legendre.core.sums.zeta import moebius, moebius_adjoint, zeta, zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.data.checks import check_numeric, support_mask
from legendre.data.dense import Dense

__all__ = ["entropy", "from_eta", "from_theta", "kl", "psi", "to_eta", "to_theta"]

ROUNDING = 1e-12  # a difference of expectations that is below 0 by at most this is a probability of 0


def to_theta(P: ArrayLike, support: str | ArrayLike = "all") -> Any:
    """Compute all theta of a positive tensor by Möbius inversion of ``log p = zeta(theta)``, eq. (2).

    Parameters
    ----------
    P
        Positive on the support; normalised first.
    support
        As in `decompose`.

    See Also
    --------
    legendre.dual.from_theta : The tensor with these natural parameters.
    legendre.dual.to_eta : Expectations of a tensor.

    Examples
    --------
    >>> to_theta([[1, 2], [3, 5]]).round(6).tolist()
    [[-2.397895, 0.693147], [1.098612, -0.182322]]
    """
    p, mask = read_point("P", P, support)
    zeros = np.argwhere(mask & (p == 0))
    if len(zeros):
        raise InvalidTensor(
            f"P{cell_name(zeros[0])} = 0 on the support: theta is finite for positive tensors only. "
            "Leave zeros out with support='nonzero'."
        )
    log_p = np.log(np.where(mask, p, 1.0))
    return device_of(P).bring(moebius(log_p) if mask.all() else _solve_triangular(log_p, mask))


def from_theta(theta: ArrayLike, support: str | ArrayLike = "all") -> Any:
    """Compute the probabilities with these theta, eq. (1); the entry at the bottom is not used.

    See Also
    --------
    legendre.dual.to_theta : Natural parameters of a tensor.
    legendre.dual.psi : The logarithm of the normaliser.

    Examples
    --------
    >>> from_theta(to_theta([[1, 2], [3, 6]])).round(6).tolist()
    [[0.083333, 0.166667], [0.25, 0.5]]
    """
    from scipy.special import logsumexp

    log_q = _log_density(theta, support)
    return device_of(theta).bring(np.exp(log_q - logsumexp(log_q)))


def psi(theta: ArrayLike, support: str | ArrayLike = "all") -> float:
    """Compute the normaliser ``log sum over Omega of exp(zeta(theta))``; the entry at the bottom is not used.

    See Also
    --------
    legendre.dual.from_theta : The tensor with these natural parameters.
    legendre.dual.to_theta : Natural parameters of a tensor.

    Examples
    --------
    >>> round(psi(np.zeros((2, 3))), 6)
    1.791759
    """
    from scipy.special import logsumexp

    return float(logsumexp(_log_density(theta, support)))


def to_eta(P: ArrayLike, support: str | ArrayLike = "all") -> Any:
    """Compute eta of every cell: the probability of all cells at or above it, eq. (3).

    See Also
    --------
    legendre.dual.from_eta : The tensor with these expectations.
    legendre.dual.to_theta : Natural parameters of a tensor.

    Examples
    --------
    >>> to_eta([[1, 2], [3, 4]]).round(12).tolist()
    [[1.0, 0.6], [0.7, 0.4]]
    """
    return device_of(P).bring(zeta_adjoint(read_point("P", P, support)[0]))


def from_eta(eta: ArrayLike, support: str | ArrayLike = "all") -> Any:
    """Compute the probabilities with these eta; the entry at the bottom is taken to be 1.

    See Also
    --------
    legendre.dual.to_eta : Expectations of a tensor.
    legendre.dual.from_theta : The tensor with these natural parameters.

    Examples
    --------
    >>> from_eta([[1.0, 0.6], [0.7, 0.4]]).round(6).tolist()
    [[0.1, 0.2], [0.3, 0.4]]
    """
    grid, mask = _read_grid(eta, support)
    grid[(0,) * grid.ndim] = 1.0
    # eta sums over the cells above: its inverse is that of `to_theta` on the reversed grid
    q = moebius_adjoint(grid) if mask.all() else np.flip(_solve_triangular(np.flip(grid), np.flip(mask)))
    lowest = np.unravel_index(int(q.argmin()), q.shape)
    if q[lowest] < -ROUNDING:
        raise InvalidTensor(f"no tensor has these eta: cell {cell_name(lowest)} would get probability {q[lowest]:g}.")
    return device_of(eta).bring(np.maximum(q, 0.0))


def kl(P: ArrayLike, Q: ArrayLike) -> float:
    """Compute the Kullback-Leibler divergence ``sum p log(p / q)`` in nats; both tensors are normalised first.

    See Also
    --------
    legendre.dual.entropy : The entropy of a tensor.

    Examples
    --------
    >>> round(kl([1, 3], [1, 1]), 6)
    0.130812
    """
    from scipy.special import rel_entr

    p, q = read_point("P", P)[0], read_point("Q", Q)[0]
    if p.shape != q.shape:
        raise InvalidTensor(f"P has shape {p.shape}, Q has shape {q.shape}; they must be equal.")
    return max(float(rel_entr(p, q).sum()), 0.0)


def entropy(P: ArrayLike) -> float:
    """Compute the entropy ``-sum p log p`` in nats; P is normalised first.

    See Also
    --------
    legendre.dual.kl : The divergence between two tensors.

    Examples
    --------
    >>> round(entropy([1, 1, 1, 1]), 6)
    1.386294
    """
    from scipy.special import entr

    return float(entr(read_point("P", P)[0]).sum())


def read_point(name: str, tensor: ArrayLike, support: str | ArrayLike = "all") -> tuple[FloatArray, BoolArray]:
    """Check a tensor and return it as probabilities, 0 outside the support, and the support as a mask.

    There is no limit on the ratio of its entries, unlike for X: the tensor may be a fitted Q.
    """
    values = check_numeric(tensor, name, InvalidTensor)
    wrong = np.argwhere(~(np.isfinite(values) & (values >= 0)))
    if len(wrong):
        entry = f"{name}{cell_name(wrong[0])} = {values[tuple(wrong[0])]:g}"
        raise InvalidTensor(f"{entry}: entries must be finite and not negative.")
    mask = _read_mask(values, support)
    p = np.where(mask, values, 0)
    if not p.any():
        raise InvalidTensor(f"{name} is zero everywhere.")
    return np.asarray(p / p.sum(dtype=np.float64)), mask


def _read_mask(values: AnyArray, support: str | ArrayLike) -> BoolArray:
    """Read the argument `support` as a mask, all True for the full grid."""
    mask = support_mask(values, None, support)
    return np.ones(values.shape, dtype=np.bool_) if mask is None else mask


def probabilities(data: Dense) -> FloatArray:
    """Return P on the grid: X over its sum, 0 outside the support."""
    mask = True if data.support.mask is None else data.support.mask
    return np.divide(data.values, data.total, out=np.zeros(data.values.shape), where=mask, dtype=np.float64)


def _read_grid(grid: ArrayLike, support: str | ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Check a grid of theta or eta; return a copy that is 0 outside the support, and the support as a mask."""
    values = check_numeric(grid, "theta or eta", InvalidTensor)
    if not np.isfinite(values).all():
        raise InvalidTensor("theta and eta are grids of finite numbers.")
    mask = _read_mask(values, support)
    return np.where(mask, values, 0.0), mask


def _log_density(theta: ArrayLike, support: str | ArrayLike) -> FloatArray:
    """Compute log q + psi at every cell, eq. (2); -inf outside the support."""
    grid, mask = _read_grid(theta, support)
    grid[(0,) * grid.ndim] = 0.0
    return np.where(mask, zeta(grid), -np.inf)


def _solve_triangular(values: FloatArray, mask: BoolArray) -> FloatArray:
    """Solve ``sum of x_u over u <= v in Omega = values_v`` for x: Möbius inversion on a support that is not a grid.

    Cells with the same sum of coordinates are incomparable, so the cells of each such level are solved for at once,
    from the lowest level to the highest. `from_eta` passes reversed grids, because its sums run over cells above.
    """
    level = np.indices(values.shape).sum(axis=0)
    x = np.zeros(values.shape)
    for height in range(int(level.max()) + 1):
        chosen = mask & (level == height)
        if chosen.any():
            x[chosen] = values[chosen] - zeta(x)[chosen]  # x is still 0 on this level, so zeta sums those below
    return x
