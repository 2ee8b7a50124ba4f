"""Pictures of triangles and of nested fits; matplotlib is imported when one is drawn."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from legendre.core.arguments import expect
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidSetting
from legendre.core.figures import axes_for
from legendre.core.types import FloatArray, IntArray
from legendre.model.dual import ROUNDING
from legendre.tasks.geometry.triangle import Triangle, e_geodesic, m_geodesic
from legendre.tasks.loglinear.anova import Anova

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RED, BLUE, GREY = "#b2182b", "#2166ac", "0.45"
RIGHT = 1e-6
"""A defect above this share of KL(P, R) is more than rounding: the angle at Q is not right."""
CORNERS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 3**0.5 / 2, 0.0], [0.5, 3**0.5 / 6, (2 / 3) ** 0.5]])
"""A regular tetrahedron: the simplex of four probabilities."""


def plot_triangle(triangle: Triangle, ax: Axes | None = None) -> Axes:
    """Draw Pythagoras to scale, for tensors of any size: the sides are the square roots of 2 KL.

    Parameters
    ----------
    triangle
        What `pythagoras` returned, for an R in the model.
    ax
        Where to draw; a new figure by default.

    See Also
    --------
    legendre.geometry.pythagoras : The right angle at a projection, in numbers.
    legendre.geometry.plot_simplex : Draw the triangle of a 2 x 2 table in its simplex.

    Examples
    --------
    >>> import legendre as ld
    >>> from matplotlib.figure import Figure
    >>> triangle = ld.geometry.pythagoras(ld.decompose(np.arange(1, 9).reshape(2, 2, 2), "B1"))
    >>> plot_triangle(triangle, Figure().add_subplot())
    <Axes: >
    """
    _check_right_angle("plot_triangle", triangle)
    ax = axes_for("plot_triangle", ax)
    a, b = np.sqrt(2 * triangle.kl_pq), np.sqrt(2 * triangle.kl_qr)
    mark = 0.07 * max(a, b)
    ax.plot([0, 0], [0, a], color=RED, linewidth=2)
    ax.plot([0, b], [0, 0], color=BLUE, linewidth=2)
    ax.plot([0, b], [a, 0], color=GREY, linewidth=1.5)
    ax.plot([0, mark, mark], [mark, mark, 0], color="black", linewidth=1)
    for name, x, y, shift in (("P", 0, a, (0, 7)), ("Q", 0, 0, (-9, -14)), ("R", b, 0, (9, -14))):
        ax.plot([x], [y], "o", color="black", markersize=5)
        ax.annotate(name, (x, y), xytext=shift, textcoords="offset points", ha="center", fontsize=12)
    sides = (
        (f"KL(P, Q) =\n{triangle.kl_pq:.4g}", (0, a / 2), (-8, 0), "right", RED),
        (f"KL(Q, R) = {triangle.kl_qr:.4g}", (b / 2, 0), (0, -14), "center", BLUE),
        (f"KL(P, R) = {triangle.kl_pr:.4g}", (b / 2, a / 2), (8, 6), "left", GREY),
    )
    for text, middle, shift, side, color in sides:
        ax.annotate(text, middle, xytext=shift, textcoords="offset points", ha=side, va="center", color=color)
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_axis_off()
    return ax


def plot_simplex(triangle: Triangle, ax: Axes | None = None) -> Axes:
    """Draw the triangle in the simplex of four cells, with the surface of a model of two parameters.

    The m-geodesic from P to Q is straight; the e-geodesic from Q to R runs in the surface if R is in the model. The
    mark at Q is a square in the Fisher metric.

    Parameters
    ----------
    triangle
        What `pythagoras` returned for four cells and a basis of two, such as a 2 x 2 table and B1.
    ax
        Axes with ``projection="3d"``; a new figure by default.

    See Also
    --------
    legendre.geometry.pythagoras : The right angle at a projection, in numbers.
    legendre.geometry.plot_triangle : Draw the triangle to scale.

    Examples
    --------
    >>> import legendre as ld
    >>> from matplotlib.figure import Figure
    >>> triangle = ld.geometry.pythagoras(ld.decompose([[1, 2], [3, 4]], "B1"))
    >>> plot_simplex(triangle, Figure().add_subplot(projection="3d"))
    <Axes3D: ...>
    """
    _check_right_angle("plot_simplex", triangle)
    inside = triangle.fit.model.support.cells()
    if len(inside) != 4 or triangle.fit.n_params != 2 or (triangle.Q[tuple(inside.T)] == 0).any():
        raise InvalidSetting(
            f"plot_simplex draws a positive Q on four cells and a model of two parameters, such as a 2 x 2 table and "
            f"B1; here Q has {np.count_nonzero(triangle.Q)} positive cells out of {len(inside)}, and the model "
            f"{triangle.fit.n_params} parameters. plot_triangle draws any."
        )
    axes: Any = axes_for("plot_simplex", ax, projection="3d")
    if not hasattr(axes, "plot_surface"):
        raise InvalidSetting("plot_simplex needs axes of three dimensions: figure.add_subplot(projection='3d').")
    P, Q, R = (cells / cells.sum() for cells in (T[tuple(inside.T)] for T in (triangle.P, triangle.Q, triangle.R)))
    _draw_model(axes, triangle, inside)
    t = np.linspace(0.0, 1.0, 60)
    for line, style, label in (
        (m_geodesic(P, Q, t), {"color": RED, "linewidth": 2.2}, "m-geodesic from P to Q"),
        (e_geodesic(Q, R, t), {"color": BLUE, "linewidth": 2.2}, "e-geodesic from Q to R"),
        (m_geodesic(Q, R, t), {"color": RED, "linewidth": 1, "linestyle": ":"}, "m-geodesic from Q to R"),
        (_square_at_q(P, Q, R), {"color": "black", "linewidth": 1}, "right angle (Fisher metric)"),
    ):
        axes.plot(*(line @ CORNERS).T, label=label, **style)
    centre = (P + Q + R) / 3 @ CORNERS
    for name, point in (("P", P @ CORNERS), ("Q", Q @ CORNERS), ("R", R @ CORNERS)):
        axes.scatter(*point, color="black", s=18)
        away = (point - centre) / max(float(np.linalg.norm(point - centre)), ROUNDING)
        axes.text(*(point + 0.07 * away), name, fontsize=12, ha="center", va="center")
    axes.computed_zorder = False  # the surface is clear enough to see what lies behind it
    axes.view_init(elev=24, azim=46)
    axes.set_box_aspect((1, 3**0.5 / 2, (2 / 3) ** 0.5), zoom=1.2)
    axes.set_axis_off()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=2, fontsize=8, frameon=False)
    return cast("Axes", axes)


def plot_ladder(nested: Anova, ax: Axes | None = None) -> Axes:
    """Draw what each of several nested fits explains as a staircase, from KL(P, Q) of the first down to what is left.

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
    expect(nested, Anova, f"plot_ladder draws what anova returns, got {type(nested).__name__}.")
    ax = axes_for("plot_ladder", ax)
    names, levels = nested.names, nested.kl.tolist()
    ax.bar([0], levels[:1], color="0.8")
    for k, (explained, share) in enumerate(zip(nested.explained, nested.share, strict=True), start=1):
        ax.bar([k], [explained], bottom=levels[k], color=BLUE)
        ax.bar([k], [levels[k]], color="0.8")
        ax.plot([k - 1.4, k + 0.4], [levels[k - 1]] * 2, color=GREY, linewidth=0.8)
        said = f"{100 * share:.3g} %" if share > 1e-5 else "< 0.001 %"
        ax.annotate(said, (k, levels[k - 1]), xytext=(0, 3), textcoords="offset points", ha="center")
    ax.set_xticks(range(len(names)), names, rotation=20, ha="right")
    ax.set_ylabel("KL(P, Q), nats")
    ax.margins(y=0.1)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _check_right_angle(name: str, triangle: Triangle) -> None:
    found = type(triangle).__name__
    expect(triangle, Triangle, f"{name} draws a triangle, got {found}: {name}(pythagoras(fit, R)).")
    if abs(triangle.defect) > ROUNDING + RIGHT * triangle.kl_pr:
        raise InvalidSetting(
            f"the angle at Q is not right: KL(P, R) - KL(P, Q) - KL(Q, R) = {triangle.defect:g}. R is not in the "
            "model, or the fit has not converged. A member near R is decompose(R, basis).tensor()."
        )


def _draw_model(axes: Any, triangle: Triangle, cells: IntArray) -> None:
    """Draw the edges of the simplex, its corners' names and the surface of the model."""
    for i, j in combinations(range(4), 2):
        axes.plot(*CORNERS[[i, j]].T, color="0.75", linewidth=0.8)
    for corner, cell in zip(CORNERS, cells, strict=True):
        axes.text(*(corner + 0.12 * (corner - CORNERS.mean(axis=0))), cell_name(cell), color=GREY, ha="center")
    surface = np.moveaxis(members(triangle, cells) @ CORNERS, -1, 0)
    axes.plot_surface(*surface, color="#92c5de", alpha=0.35, linewidth=0, shade=False)
    axes.plot_wireframe(*surface, color="#4393c3", alpha=0.35, linewidth=0.5, rcount=12, ccount=12)


def members(triangle: Triangle, cells: IntArray, n: int = 40) -> FloatArray:
    """Members of the model on the four cells, n x n x 4: the logistic of both parameters is evenly spaced."""
    fit, share = triangle.fit, np.linspace(0.001, 0.999, n)
    below = np.asarray((fit.basis[:, None, :] <= cells).all(axis=-1), dtype=np.float64)  # zeta, basis x cells
    below = below if fit.ties is None else fit.ties.matrix().T @ below
    theta = np.log(share / (1.0 - share))
    base = np.ones(4) if fit.model.base is None else fit.model.base[tuple(cells.T)]
    q: FloatArray = base * np.exp(theta[:, None, None] * below[0] + theta[:, None] * below[1])
    return np.asarray(q / q.sum(axis=-1, keepdims=True))


def _square_at_q(P: FloatArray, Q: FloatArray, R: FloatArray, side: float = 0.12) -> FloatArray:
    """Three corners of a square at Q, a side along each geodesic, measured in the Fisher metric."""
    log_ratio = np.log(R / Q)
    ways = P - Q, Q * (log_ratio - Q @ log_ratio)
    along_m, along_e = (side * way / max(float(np.sqrt((way**2 / Q).sum())), ROUNDING) for way in ways)
    return np.stack([Q + along_m, Q + along_m + along_e, Q + along_e])
