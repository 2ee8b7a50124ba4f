"""The picture of residuals: what was observed against what was fitted, and the worst cells by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, GREY, MEDIUM, ORANGE, SMALL, axes_for, colour_bar
from legendre.core.text_table import shortened
from legendre.core.ticks import plain
from legendre.core.types import FloatArray
from legendre.results.plots.pair import Cells, Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_CELLS = 3_000  # cells up to which each is a dot; more are drawn as a map of how many lie where
WIDE = 30.0  # largest over smallest positive entry from which axes are logarithmic
BOXES = 70  # boxes of that map along each axis
PALE = 0.2  # cells in a box whose colour is white: one cell can be seen
EXACT = 1e-6  # residuals up to this, of counts in standard deviations, else in largest entries, are rounding errors
APART = 0.035  # share of the axes' width by which numbers of cells are kept apart
LONGEST, MOST_LINES = 44, 3  # letters of a line of a cell's name; lines


def draw(pair: Pair, ax: Axes | None, most: int) -> Axes:
    """Draw every cell, X against Q; number the worst ones and name them beside the picture."""
    if not is_whole(most, 0):
        raise InvalidQuery(f"plot.residuals: most={most!r}; it must be an integer >= 0.")
    found = pair.listed("plot.residuals")
    residuals = pair.residuals(found.x, found.q)
    sizes = np.nan_to_num(np.abs(residuals), posinf=np.inf)
    worst = np.argsort(-sizes, kind="stable")[:most]
    worst = worst[sizes[worst] > (EXACT if pair.counts else EXACT * found.x.max(initial=0.0))]
    ax = axes_for("plot.residuals", ax, (10.5, 5.2))
    ax.use_sticky_edges = False  # the worst cells lie at the edges
    _scale(ax, found, pair.counts)
    if len(found.x) <= FEW_CELLS:
        ax.plot(found.q, found.x, "o", color=BLUE, markersize=4, alpha=0.6, markeredgewidth=0)
    else:
        _density(ax, found, pair.counts)
    high = float(max(found.x.max(initial=0.0), found.q.max(initial=0.0)))
    low = 0.0 if ax.get_xscale() != "log" else float(min(found.x.min(), found.q.min()))
    ax.plot([low, high], [low, high], color=GREY, linewidth=1)
    _number(ax, found, worst.tolist())
    for rank, i in enumerate(worst.tolist(), start=1):
        label = f"{_name(pair, found, i)}\n{_numbers(pair, found, float(residuals[i]), i)}"
        ax.plot([], [], marker=f"${rank}$", color=ORANGE, markersize=10, linestyle="", label=label)
    if len(worst):
        title = "worst cells (sd: standard deviations)" if pair.counts else "worst cells"
        beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.02, 1.0), "alignment": "left"}
        ax.legend(title=title, fontsize=SMALL, title_fontsize=SMALL, frameon=False, **beside)
    notes = ["none is off by more than rounding errors"] if most and not len(worst) else []
    notes += [note for note in (found.left_out, pair.cells_told()) if note]
    ax.set(xlabel=pair.made, ylabel=pair.seen, title="; ".join([f"{len(found.x):,} cells", *dict.fromkeys(notes)]))
    return ax


def _scale(ax: Axes, found: Cells, counts: bool) -> None:
    """Make both axes logarithmic where entries differ much, linear below 1 (counts) or below the small ones, for 0."""
    from matplotlib.ticker import FuncFormatter

    both = np.concatenate([found.x, found.q])
    positive = found.x[found.x > 0] if (both == 0).any() else both
    if not positive.size or positive.max() < WIDE * positive.min():
        return
    linear = 1.0 if counts else float(np.quantile(positive, 0.02))
    how: dict[str, Any] = {"linthresh": linear, "linscale": 0.6} if (both == 0).any() else {}
    for name, axis in (("x", ax.xaxis), ("y", ax.yaxis)):
        getattr(ax, f"set_{name}scale")("symlog" if how else "log", **how)
        axis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))


def _density(ax: Axes, found: Cells, counts: bool) -> None:
    """Draw how many cells lie in each box of the picture."""
    from matplotlib.colors import LogNorm

    edges = [_edges(ax, values) for values in (found.q, found.x)]
    if counts:  # no box between whole numbers
        edges[1] = np.unique(np.concatenate([[-0.5], np.floor(edges[1]) + 0.5]))
    counted, _, _ = np.histogram2d(found.q, found.x, bins=edges)
    colours = LogNorm(PALE, max(float(counted.max()), 2.0))
    mesh = ax.pcolormesh(*edges, np.ma.masked_equal(counted.T, 0), norm=colours, cmap="Blues")
    bar = colour_bar(ax, mesh, "cells in a box", orientation="horizontal", shrink=0.5, aspect=30)
    bar.ax.set_xlim(1)


def _number(ax: Axes, found: Cells, cells: list[int]) -> None:
    """Ring some cells and put their ranks beside them, further off where others are already."""
    ax.plot(found.q[cells], found.x[cells], "o", color=ORANGE, markersize=7, fillstyle="none", markeredgewidth=1.5)
    taken: list[tuple[float, float]] = []
    ax.set(xlim=ax.get_xlim(), ylim=ax.get_ylim())  # places in the picture are known from here on
    for rank, i in enumerate(cells, start=1):
        x, y = ax.transAxes.inverted().transform(ax.transData.transform((found.q[i], found.x[i])))
        aside = APART if x < 0.3 else -APART
        x, y = float(x) + aside, float(y)
        while any(abs(x - a) < APART and abs(y - b) < 1.5 * APART for a, b in taken):
            x += aside
        taken.append((x, y))
        words: dict[str, Any] = {"ha": "center", "va": "center", "color": ORANGE, "fontsize": MEDIUM, "weight": "bold"}
        ax.annotate(str(rank), (x, y), xycoords="axes fraction", **words)


def _edges(ax: Axes, values: FloatArray) -> FloatArray:
    """Cut the range of an axis into boxes of the same width in the picture."""
    change = ax.xaxis.get_transform()
    low, high = (float(change.transform(v)) for v in (values.min(), values.max()))
    edges = np.asarray(change.inverted().transform(np.linspace(low, max(high, low + 1e-9), BOXES + 1)))
    edges[0], edges[-1] = min(edges[0], values.min()), max(edges[-1], values.max())
    return np.unique(edges)


def _name(pair: Pair, found: Cells, i: int) -> str:
    """Name a cell, in several lines where it has many modes."""
    lines: list[str] = []
    for part in shortened(pair.labels.cell(found.cells[i]), MOST_LINES * LONGEST).split(", "):
        if lines and len(lines[-1]) + len(part) + 2 <= LONGEST:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return ",\n".join(shortened(line, LONGEST) for line in lines)


def _numbers(pair: Pair, found: Cells, residual: float, i: int) -> str:
    off = f"{residual:+.3g} {'sd' if pair.counts else ''}".rstrip()
    return f"{plain(found.x[i])} {pair.seen}, {plain(found.q[i])} {pair.made} ({off})"
