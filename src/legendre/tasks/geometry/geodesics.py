"""The two straight lines between tensors: one in theta, one in eta."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import rectangular
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidSetting, InvalidTensor
from legendre.core.types import FloatArray
from legendre.model.dual import ROUNDING, probabilities, read_as


def e_geodesic(P: ArrayLike, Q: ArrayLike, t: ArrayLike) -> FloatArray:
    """Walk from P to Q straight in theta: ``p^(1-t) q^t``, normalised.

    Parameters
    ----------
    P, Q
        Nonnegative tensors of one shape; normalised first.
    t
        Where on the line: 0 is P, 1 is Q, and the line goes on beyond both. A number, or an array of them.

    Returns
    -------
    FloatArray
        Of shape ``t.shape + P.shape``.

    Notes
    -----
    The line lives on the cells where both P and Q are positive. If P has more of them, then t = 0 is P restricted to
    the common cells: the limit for t to 0.

    Examples
    --------
    >>> e_geodesic([1, 1, 2], [4, 1, 2], 0.5).round(6).tolist()
    [0.4, 0.2, 0.4]
    """
    p, q = _pair(P, Q)
    common = (p > 0) & (q > 0)
    if not common.any():
        raise InvalidTensor(
            f"P and Q have disjoint supports: {np.count_nonzero(p)} and {np.count_nonzero(q)} positive cells, none in "
            "common. An e-geodesic needs cells where both are positive; m_geodesic joins any two tensors."
        )
    times = _times(t)
    slope = np.log(q[common]) - np.log(p[common])
    # relative to the cell that wins far out, so that no power overflows however large t is
    best = np.where(times > 0, slope.max(), slope.min())
    with np.errstate(over="ignore"):
        log_density = np.log(p[common]) + times[..., None] * (slope - best[..., None])
    density = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    out = np.zeros(times.shape + p.shape)
    out[..., common] = density / density.sum(axis=-1, keepdims=True)
    return out


def m_geodesic(P: ArrayLike, Q: ArrayLike, t: ArrayLike) -> FloatArray:
    """Walk from P to Q straight in eta: the mixture ``(1-t) p + t q``.

    Parameters
    ----------
    P, Q
        Nonnegative tensors of one shape; normalised first.
    t
        Where on the line: 0 is P, 1 is Q; beyond both only as far as no cell gets negative. A number, or an array.

    Returns
    -------
    FloatArray
        Of shape ``t.shape + P.shape``.

    Examples
    --------
    >>> m_geodesic([1, 1, 2], [4, 0, 0], 0.5).tolist()
    [0.625, 0.125, 0.25]
    """
    p, q = _pair(P, Q)
    times = _times(t)
    steps = times.reshape(times.shape + (1,) * p.ndim)
    out = p + steps * (q - p)
    lowest = np.unravel_index(int(out.argmin()), out.shape) if out.size else ()
    if out.size and out[lowest] < -ROUNDING:
        first, last = _limits(p, q)
        raise InvalidSetting(
            f"at t = {times[lowest[: times.ndim]]:g} the m-geodesic has left the simplex: cell "
            f"{cell_name(lowest[times.ndim :])} would get probability {out[lowest]:g}. "
            f"Between these tensors t may run from {first:g} to {last:g}."
        )
    return np.maximum(out, 0.0)


def normalised(P: ArrayLike, name: str) -> FloatArray:
    """Read a tensor as probabilities; errors call it by its name here."""
    data = read_as(name, P)
    if data.missing is not None:
        raise InvalidTensor(
            f"{name} has {int(data.missing.sum())} missing cells (NaN); a point of the geometry has none."
        )
    return probabilities(data)


def _pair(P: ArrayLike, Q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    p, q = normalised(P, "P"), normalised(Q, "Q")
    if p.shape != q.shape:
        raise InvalidTensor(f"P has shape {p.shape}, Q has shape {q.shape}; they must be equal.")
    return p, q


def _times(t: ArrayLike) -> FloatArray:
    times = rectangular(t, "t", InvalidSetting)
    if times.dtype.kind not in "iuf" or not np.isfinite(times).all():
        raise InvalidSetting(f"t must be a finite number or an array of them, got {t!r}.")
    return times.astype(np.float64)


def _limits(p: FloatArray, q: FloatArray) -> tuple[float, float]:
    """Return the first and the last t at which no cell is negative; P and Q differ."""
    rising, falling = q > p, q < p
    first = np.max(-p[rising] / (q[rising] - p[rising]))
    last = np.min(p[falling] / (p[falling] - q[falling]))
    return float(first), float(last)
