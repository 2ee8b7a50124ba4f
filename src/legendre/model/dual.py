"""Functions from a positive tensor to its dual coordinates theta and eta and back; and KL.

Theta and eta are each a complete coordinate system of the positive tensors that sum to 1 (the paper's Section 2.2).
Here they are grids of the tensor's shape: theta holds -psi at the bottom, eta holds 1 there. Grids are arrays of the
library that the argument came from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name, first_cell
from legendre.core.errors import InvalidTensor
from legendre.core.origin import device_of
from legendre.core.sums.zeta import moebius, moebius_adjoint, zeta, zeta_adjoint
from legendre.core.types import FloatArray
from legendre.data.checks import check_numeric

__all__ = ["from_eta", "from_theta", "kl", "to_eta", "to_theta"]

ROUNDING = 1e-12  # a difference of expectations that is below 0 by at most this is a probability of 0


def to_theta(P: ArrayLike) -> Any:
    """Compute all theta of a positive tensor by Möbius inversion of ``log p = zeta(theta)``, eq. (2).

    P is normalised first. A result has theta on its basis alone, see `Decomposition.theta_tensor`.

    See Also
    --------
    legendre.dual.from_theta : The tensor with these natural parameters.
    legendre.dual.to_eta : Expectations of a tensor.

    Examples
    --------
    >>> to_theta([[1, 2], [3, 5]]).round(6).tolist()
    [[-2.397895, 0.693147], [1.098612, -0.182322]]
    """
    p = read_point("P", P)
    if zero := first_cell(p == 0):
        raise InvalidTensor(
            f"P{cell_name(zero)} = 0: theta is finite for positive tensors only. A fit can leave zeros out: "
            "ld.decompose(P, 'full', support='nonzero').theta_tensor()."
        )
    return device_of(P).bring(moebius(np.log(p)))


def from_theta(theta: ArrayLike) -> Any:
    """Compute the probabilities with these theta, eq. (1); the entry at the bottom is not used.

    See Also
    --------
    legendre.dual.to_theta : Natural parameters of a tensor.

    Examples
    --------
    >>> from_theta(to_theta([[1, 2], [3, 6]])).round(6).tolist()
    [[0.083333, 0.166667], [0.25, 0.5]]
    """
    from scipy.special import softmax

    return device_of(theta).bring(softmax(zeta(_read_grid(theta, bottom=0.0))))


def to_eta(P: ArrayLike) -> Any:
    """Compute eta of every cell: the probability of all cells at or above it, eq. (3). P is normalised first.

    See Also
    --------
    legendre.dual.from_eta : The tensor with these expectations.
    legendre.dual.to_theta : Natural parameters of a tensor.

    Examples
    --------
    >>> to_eta([[1, 2], [3, 4]]).round(12).tolist()
    [[1.0, 0.6], [0.7, 0.4]]
    """
    return device_of(P).bring(zeta_adjoint(read_point("P", P)))


def from_eta(eta: ArrayLike) -> Any:
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
    q = moebius_adjoint(_read_grid(eta, bottom=1.0))
    lowest = np.unravel_index(int(q.argmin()), q.shape)
    if q[lowest] < -ROUNDING:
        raise InvalidTensor(f"no tensor has these eta: cell {cell_name(lowest)} would get probability {q[lowest]:g}.")
    return device_of(eta).bring(np.maximum(q, 0.0))


def kl(P: ArrayLike, Q: ArrayLike) -> float:
    """Compute the Kullback-Leibler divergence ``sum p log(p / q)`` in nats; both tensors are normalised first.

    See Also
    --------
    legendre.dual.to_theta : Natural parameters of a tensor.

    Examples
    --------
    >>> round(kl([1, 3], [1, 1]), 6)
    0.130812
    """
    from scipy.special import rel_entr

    p, q = read_point("P", P), read_point("Q", Q)
    if p.shape != q.shape:
        raise InvalidTensor(f"P has shape {p.shape}, Q has shape {q.shape}; they must be equal.")
    return max(float(rel_entr(p, q).sum()), 0.0)


def read_point(name: str, tensor: ArrayLike) -> FloatArray:
    """Check a caller's tensor, which errors call `name`, and return it divided by its sum.

    There is no limit on the ratio of its entries, unlike for X: the tensor may be a fitted Q.
    """
    values = check_numeric(tensor, name, InvalidTensor)
    if wrong := first_cell(~(np.isfinite(values) & (values >= 0))):
        raise InvalidTensor(f"{name}{cell_name(wrong)} = {values[wrong]:g}: entries must be finite and not negative.")
    if not values.any():
        raise InvalidTensor(f"{name} is zero everywhere.")
    return np.asarray(values / values.sum(dtype=np.float64))


def _read_grid(grid: ArrayLike, bottom: float) -> FloatArray:
    """Check a caller's grid of theta or eta; return a copy in double precision with `bottom` as its first entry."""
    values = check_numeric(grid, "theta or eta", InvalidTensor).astype(np.float64)
    if not np.isfinite(values).all():
        raise InvalidTensor("theta and eta are grids of finite numbers.")
    values[(0,) * values.ndim] = bottom
    return values
