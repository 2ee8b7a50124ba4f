"""The straight lines between two tensors, one in theta and one in eta; and Pythagoras' theorem for KL divergences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import expect
from legendre.core.cells import cell_name, frozen
from legendre.core.errors import InvalidSetting, InvalidTensor
from legendre.core.origin import rectangular
from legendre.core.text import NamedValues, fragment
from legendre.core.types import FloatArray
from legendre.data.dense import in_memory
from legendre.model.dual import ROUNDING, kl, probabilities, read_as
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor


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

    See Also
    --------
    legendre.geometry.m_geodesic : The line that is straight in eta.
    legendre.geometry.pythagoras : The right angle at a projection, in numbers.

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

    See Also
    --------
    legendre.geometry.e_geodesic : The line that is straight in theta.
    legendre.geometry.pythagoras : The right angle at a projection, in numbers.

    Examples
    --------
    >>> m_geodesic([1, 1, 2], [4, 0, 0], 0.5).tolist()
    [0.625, 0.125, 0.25]
    """
    p, q = _pair(P, Q)
    times = _times(t)
    out = p + times.reshape(times.shape + (1,) * p.ndim) * (q - p)
    lowest = np.unravel_index(int(out.argmin()), out.shape) if out.size else ()
    if out.size and out[lowest] < -ROUNDING:
        rising, falling = q > p, q < p
        first = np.max(-p[rising] / (q[rising] - p[rising]))
        last = np.min(p[falling] / (p[falling] - q[falling]))
        raise InvalidSetting(
            f"at t = {times[lowest[: times.ndim]]:g} the m-geodesic has left the simplex: cell "
            f"{cell_name(lowest[times.ndim :])} would get probability {out[lowest]:g}. "
            f"Between these tensors t may run from {first:g} to {last:g}."
        )
    return np.maximum(out, 0.0)


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

    See Also
    --------
    legendre.geometry.pythagoras : The right angle at a projection, in numbers.
    legendre.geometry.plot_triangle : Draw the triangle to scale.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[4, 1], [1, 4]], "B1")
    >>> triangle = ld.geometry.pythagoras(fit, [[1, 2], [2, 4]])
    >>> abs(triangle.kl_pr - triangle.kl_pq - triangle.kl_qr) < 1e-12
    True
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

    def _repr_html_(self) -> str:
        """Return the three divergences for a notebook."""
        names = ("KL(P, R)", "KL(P, Q)", "KL(Q, R)", "defect")
        values = (self.kl_pr, self.kl_pq, self.kl_qr, self.defect)
        rows = [(name, f"{value:.6g}") for name, value in zip(names, values, strict=True)]
        return fragment([NamedValues("Pythagorean triangle", rows)], [self.fit.certificate().text()])

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
        If R is not in the model, the theorem does not hold, and `Triangle.defect` is the difference.

    See Also
    --------
    legendre.geometry.Triangle : What `pythagoras` returns.
    legendre.geometry.plot_triangle : Draw the triangle to scale.
    legendre.geometry.plot_simplex : Draw the triangle of a 2 x 2 table in its simplex.

    Examples
    --------
    >>> import legendre as ld
    >>> triangle = pythagoras(ld.decompose([[4, 1], [2, 3]], "B1"), np.outer([1, 3], [2, 1]))
    >>> triangle
    <Triangle: KL(P, R) = 0.239858, KL(P, Q) + KL(Q, R) = 0.0863046 + 0.153553, defect ...>
    >>> abs(triangle.defect) < 1e-12
    True
    """
    found = type(fit).__name__
    expect(fit, Decomposition, f"pythagoras takes a decomposition, got {found}: pythagoras(decompose(P, basis), R).")
    if fit.data is None:
        raise InvalidSetting("pythagoras needs X, and a decomposition from a file comes without it; fit it anew.")
    p = probabilities(in_memory(fit.data, "pythagoras"))
    inside = True if fit.model.support.mask is None else fit.model.support.mask
    q = np.where(inside, tensor(fit, extend=False) / fit.total, 0.0)
    if R is None:
        R = np.where(inside, np.ones(fit.shape) if fit.model.base is None else fit.model.base, 0.0)
    r = _normalised(R, "R")
    if r.shape != p.shape:
        raise InvalidTensor(f"R has shape {r.shape}, the decomposition has shape {p.shape}; they must be equal.")
    missed = np.argwhere((r == 0) & (q > 0))
    if len(missed):
        where = cell_name(missed[0])
        raise InvalidTensor(f"R{where} = 0 where Q{where} > 0, so that KL(Q, R) is infinite. R must be positive there.")
    return Triangle(fit, frozen(p), frozen(q), frozen(r), kl(p, q), kl(q, r), kl(p, r))


def _normalised(P: ArrayLike, name: str) -> FloatArray:
    """Read a tensor as probabilities; `name` is what errors call it."""
    data = read_as(name, P)
    if data.missing is not None:
        raise InvalidTensor(
            f"{name} has {int(data.missing.sum())} missing cells (NaN); a point of the geometry has none."
        )
    return probabilities(data)


def _pair(P: ArrayLike, Q: ArrayLike) -> tuple[FloatArray, FloatArray]:
    p, q = _normalised(P, "P"), _normalised(Q, "Q")
    if p.shape != q.shape:
        raise InvalidTensor(f"P has shape {p.shape}, Q has shape {q.shape}; they must be equal.")
    return p, q


def _times(t: ArrayLike) -> FloatArray:
    times = rectangular(t, "t", InvalidSetting)
    if times.dtype.kind not in "iuf" or not np.isfinite(times).all():
        raise InvalidSetting(f"t must be a finite number or an array of them, got {t!r}.")
    return times.astype(np.float64)
