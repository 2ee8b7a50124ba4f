"""The information geometry of the model: geodesics, Pythagoras' theorem for KL divergences, and their pictures.

Both projections are `decompose`: the m-projection of P onto the model is ``decompose(P, basis)``, and the e-projection
of R onto the tensors that share P's eta on B is ``decompose(P, basis, base=R)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name, first_cell, freeze
from legendre.core.errors import InvalidSetting, InvalidTensor
from legendre.core.figures import BLUE, GREY, ORANGE, axes_for, style_axes
from legendre.core.origin import read_array
from legendre.core.types import FloatArray, frozen
from legendre.model.dual import ROUNDING, kl, read_point
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from legendre.tasks.loglinear.anova import Anova

__all__ = ["Triangle", "e_geodesic", "m_geodesic", "plot_ladder", "plot_triangle", "pythagoras"]


def e_geodesic(P: ArrayLike, Q: ArrayLike, t: ArrayLike) -> FloatArray:
    """Return points on the line from P to Q that is straight in theta: ``p^(1-t) q^t``, normalised.

    Parameters
    ----------
    P, Q
        Nonnegative tensors of one shape; normalised first.
    t
        Where on the line: 0 is P, 1 is Q, and the line continues beyond both. A number, or an array of them.

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
    The line is defined on the cells where both P and Q are positive. If P has more positive cells, then t = 0 is P
    restricted to the common cells, the limit as t goes to 0.

    Examples
    --------
    >>> e_geodesic([1, 1, 2], [4, 1, 2], 0.5).round(6).tolist()
    [0.4, 0.2, 0.4]
    """
    p, q, times = _read_line(P, Q, t)
    common = (p > 0) & (q > 0)
    if not common.any():
        raise InvalidTensor(
            f"P and Q have disjoint supports: {np.count_nonzero(p)} and {np.count_nonzero(q)} positive cells, none in "
            "common. An e-geodesic needs cells where both are positive; m_geodesic joins any two tensors."
        )
    log_p, log_q = np.log(p[common]), np.log(q[common])
    log_density = log_p + times[..., None] * (log_q - log_p)
    # t.shape + (number of common cells,); minus the largest, so that exp does not overflow for t far from 0 and 1
    density = np.exp(log_density - log_density.max(axis=-1, keepdims=True))
    out = np.zeros(times.shape + p.shape)
    out[..., common] = density / density.sum(axis=-1, keepdims=True)
    return out


def m_geodesic(P: ArrayLike, Q: ArrayLike, t: ArrayLike) -> FloatArray:
    """Return points on the line from P to Q that is straight in eta: the mixture ``(1-t) p + t q``.

    Parameters
    ----------
    P, Q
        Nonnegative tensors of one shape; normalised first.
    t
        Where on the line: 0 is P, 1 is Q; beyond them only as far as no cell is negative. A number, or an array.

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
    p, q, times = _read_line(P, Q, t)
    out = p + times.reshape(times.shape + (1,) * p.ndim) * (q - p)  # t.shape + P.shape, by broadcasting
    if out.min(initial=0.0) < -ROUNDING:
        raise InvalidSetting(
            f"the m-geodesic leaves the simplex at t = {times.min():g} or t = {times.max():g}: a probability would be "
            "negative. Between 0 and 1 none is."
        )
    return np.maximum(out, 0.0)


@frozen
class Triangle:
    """P, its projection Q onto a model, and R: three tensors and the divergences between them.

    Parameters
    ----------
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

    P: FloatArray
    Q: FloatArray
    R: FloatArray
    kl_pq: float
    kl_qr: float
    kl_pr: float

    @property
    def defect(self) -> float:
        """``KL(P, R) - KL(P, Q) - KL(Q, R)``: 0 up to rounding if R is in the model.

        It equals ``sum (p - q) log(q / r)``, the inner product of the m-geodesic from Q to P with the e-geodesic from R
        to Q in the Fisher metric at Q: it is 0 if the angle at Q is a right angle.
        """
        return self.kl_pr - self.kl_pq - self.kl_qr

    def __repr__(self) -> str:
        return (
            f"<Triangle: KL(P, R) = {self.kl_pr:.6g}, KL(P, Q) + KL(Q, R) = {self.kl_pq:.6g} + {self.kl_qr:.6g}, "
            f"defect {self.defect:.1e}>"
        )


def pythagoras(fit: Decomposition, R: ArrayLike | None = None) -> Triangle:
    """Check ``KL(P, R) = KL(P, Q) + KL(Q, R)``, where Q is the decomposition of P and R is any member of the model.

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
        found = type(fit).__name__
        raise InvalidSetting(f"pythagoras takes a decomposition, got {found}: pythagoras(decompose(P, basis), R).")
    p, inside = fit._observed.in_memory("pythagoras").probabilities, fit.model.support.on_grid()
    q = np.where(inside, tensor(fit, extend=False) / fit.total, 0.0)
    # the member with theta = 0: constant on the sample space, or the base measure there
    at_zero = np.where(inside, 1.0 if fit.model.base is None else fit.model.base, 0.0)
    r = read_point("R", at_zero if R is None else R)
    if r.shape != p.shape:
        raise InvalidTensor(f"R has shape {r.shape}, the decomposition has shape {p.shape}; they must be equal.")
    if missed := first_cell((r == 0) & (q > 0)):
        where = cell_name(missed)
        raise InvalidTensor(f"R{where} = 0 where Q{where} > 0, so KL(Q, R) is infinite. R must be positive there.")
    return Triangle(freeze(p), freeze(q), freeze(r), kl(p, q), kl(q, r), kl(p, r))


def plot_triangle(triangle: Triangle, ax: Axes | None = None) -> Axes:
    """Draw the triangle of P, Q and R to scale, with a right angle at Q: its sides are the square roots of 2 KL.

    KL is half a squared distance to second order, so Pythagoras' theorem for KL is the usual one for these sides.

    Parameters
    ----------
    triangle
        What `pythagoras` returned, for an R in the model.
    ax
        Where to draw; a new figure by default.

    See Also
    --------
    legendre.geometry.pythagoras : The right angle at a projection, in numbers.

    Examples
    --------
    >>> import legendre as ld
    >>> from matplotlib.figure import Figure
    >>> triangle = ld.geometry.pythagoras(ld.decompose(np.arange(1, 9).reshape(2, 2, 2), "B1"))
    >>> plot_triangle(triangle, Figure().add_subplot())
    <Axes: >
    """
    if not isinstance(triangle, Triangle):
        found = type(triangle).__name__
        raise InvalidSetting(f"plot_triangle draws a triangle, got {found}: plot_triangle(pythagoras(fit, R)).")
    # beyond rounding errors and the tolerance of a fit, there is no such triangle
    if abs(triangle.defect) > ROUNDING + 1e-6 * triangle.kl_pr:
        raise InvalidSetting(
            f"the angle at Q is not right: KL(P, R) - KL(P, Q) - KL(Q, R) = {triangle.defect:g}. R is not in the "
            "model, or the fit has not converged. A member near R is decompose(R, basis).tensor()."
        )
    ax = axes_for("plot_triangle", ax)
    a, b = np.sqrt(2 * triangle.kl_pq), np.sqrt(2 * triangle.kl_qr)  # the legs, from Q to P and from Q to R
    mark = 0.07 * max(a, b)  # the side of the small square that marks the right angle
    ax.plot([0, mark, mark], [mark, mark, 0], color="black", linewidth=1)
    corners = {"P": (0.0, a), "Q": (0.0, 0.0), "R": (b, 0.0)}
    sides = (("P", "Q", triangle.kl_pq, ORANGE), ("Q", "R", triangle.kl_qr, BLUE), ("P", "R", triangle.kl_pr, GREY))
    for one, other, value, colour in sides:
        label = f"KL({one}, {other}) = {value:.4g}"
        ax.plot(*np.transpose([corners[one], corners[other]]), color=colour, linewidth=2, label=label)
    for (name, corner), shift in zip(corners.items(), [(0, 12), (-9, -9), (9, -9)], strict=True):
        ax.plot(*corner, "o", color="black", markersize=5)
        ax.annotate(name, corner, xytext=shift, textcoords="offset points", ha="center", va="center", fontsize=12)
    ax.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.0))  # below, where no side is
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_axis_off()
    return ax


def plot_ladder(nested: Anova, ax: Axes | None = None) -> Axes:
    """Draw how KL(P, Q) falls along several nested fits, as a staircase: what each explains beyond the one before.

    A grey bar is KL(P, Q) of a fit; the blue part above it is what the fit explains, with its share in percent.

    Parameters
    ----------
    nested
        What `anova` returned.
    ax
        Where to draw; a new figure by default.

    See Also
    --------
    anova : Compare nested fits.

    Examples
    --------
    >>> import legendre as ld
    >>> from matplotlib.figure import Figure
    >>> fits = [ld.decompose([[1, 2], [3, 4]], basis) for basis in ("empty", "B1")]
    >>> plot_ladder(ld.anova(*fits), Figure().add_subplot()).get_ylabel()
    'KL(P, Q), nats'
    """
    if not hasattr(nested, "explained"):
        raise InvalidSetting(f"plot_ladder draws what anova returns, got {type(nested).__name__}.")
    ax = style_axes(axes_for("plot_ladder", ax))
    places = range(len(nested.kl))
    ax.bar(places, nested.kl, color="0.8")
    bars = ax.bar(places[1:], nested.explained, bottom=nested.kl[1:], color=BLUE)
    ax.bar_label(bars, [f"{100 * share:.3g} %" if share > 1e-5 else "< 0.001 %" for share in nested.share], padding=3)
    ax.set_xticks(places, nested.names, rotation=20, ha="right")
    ax.set_ylabel("KL(P, Q), nats")
    ax.margins(y=0.1)
    return ax


def _read_line(P: ArrayLike, Q: ArrayLike, t: ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Check the arguments of a geodesic; return P and Q as probabilities, and t as an array of floats."""
    p, q, times = read_point("P", P), read_point("Q", Q), read_array(t, "t", InvalidSetting)
    if p.shape != q.shape:
        raise InvalidTensor(f"P has shape {p.shape}, Q has shape {q.shape}; they must be equal.")
    if times.dtype.kind not in "iuf" or not np.isfinite(times).all():
        raise InvalidSetting(f"t must be a finite number or an array of them, got {t!r}.")
    return p, q, times.astype(np.float64)
