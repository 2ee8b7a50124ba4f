"""The picture of boxes: which levels of each mode a parameter acts on, and its factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, LIGHT, ORANGE, SMALL, heading, new_figure, readable
from legendre.core.labels import Labels
from legendre.core.text_table import shortened
from legendre.core.ticks import level_ticks
from legendre.core.types import IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.decomposition import Decomposition

MOST_MODES = 6  # that are drawn side by side
ALL_TICKS = 12  # levels of an arranged mode that all have a tick; of more, each bar names its own
PANEL, WIDE = 2.8, 4.2  # inches of a mode; of one whose bars have names
ROW, HIGH = 0.32, 0.5  # inches of a row; of one in which bars have names
LONGEST = 26  # letters of such a name: half of a wide panel


def draw(fit: Decomposition, most: int) -> Figure:
    """Draw a row for each of the boxes with the largest factors, and a column for each mode."""
    if not is_whole(most, 1):
        raise InvalidQuery(f"plot.boxes(most={most!r}): most must be an integer >= 1.")
    ties = fit.model.ties
    if ties is None or ties.boxes is None or not fit.n_params:
        raise InvalidQuery("plot.boxes: no parameter of this fit acts on a box; fit with boxes(...).")
    if len(fit.shape) > MOST_MODES:
        raise InvalidQuery(f"plot.boxes draws up to {MOST_MODES} modes; this fit has {len(fit.shape)}.")
    theta, (lo, hi) = fit.theta, np.hsplit(ties.boxes, 2)
    chosen = np.argsort(-np.abs(theta), kind="stable")[:most]
    listed = [fit.labels.order_of(k) is not None and n > ALL_TICKS for k, n in enumerate(fit.shape)]
    widths = [WIDE if named else PANEL for named in listed]
    figure = new_figure("plot.boxes", (2.0 + sum(widths), 1.6 + (HIGH if any(listed) else ROW) * len(chosen)))
    grid = figure.add_gridspec(1, len(widths), width_ratios=widths)
    colours = [ORANGE if theta[i] > 0 else BLUE for i in chosen]
    rows, first = np.arange(len(chosen)), None
    for k, n in enumerate(fit.shape):
        ax = readable(figure.add_subplot(grid[k], sharey=first))
        first = ax if first is None else first
        ax.barh(rows, n, left=-0.5, height=0.12, color=LIGHT)
        ax.barh(rows, hi[chosen, k] - lo[chosen, k], left=lo[chosen, k] - 0.5, height=0.62, color=colours)
        ax.set(xlim=(-0.5, n - 0.5))
        if listed[k]:
            _name_levels(ax, fit.labels, k, lo[chosen, k], hi[chosen, k])
        else:
            level_ticks(ax, "x", fit.labels, k)
        ax.tick_params(axis="y", length=0, labelleft=k == 0)
        ax.spines["left"].set_visible(False)
    assert first is not None
    with np.errstate(over="ignore"):
        first.set_yticks(rows, [f"× {np.exp(theta[i]):.3g}" for i in chosen], fontsize=SMALL)
    first.invert_yaxis()
    left = len(theta) - len(chosen)
    more = f": the {len(chosen)} largest factors of {len(theta)}" if left else ""
    heading(figure, f"What each box multiplies{more}")
    return figure


def _name_levels(ax: Axes, labels: Labels, k: int, lo: IntArray, hi: IntArray) -> None:
    """Write the levels of each bar above it: a few ticks of an arranged mode would not say what lies between them."""
    n = labels.shape[k]
    for row, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        left = first + end <= n
        text = "all" if end - first == n else shortened(labels.together(k, first, end), LONGEST)
        at, side = (first if left else end) - 0.5, "left" if left else "right"
        ax.text(at, row - 0.33, text, ha=side, va="bottom", fontsize=SMALL - 1)
    ax.set_xticks([])
    ax.set_xlabel(f"{labels.mode(k)}, {n} levels as arranged")
