"""The picture of boxes: which levels of each mode a parameter acts on, and its factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.box_features import boxes_of
from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, LIGHT, ORANGE, SMALL, heading, new_figure, readable
from legendre.core.ticks import level_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from legendre.results.decomposition import Decomposition

MOST_MODES = 6  # that are drawn side by side


def draw(fit: Decomposition, most: int) -> Figure:
    """Draw a row for each of the boxes with the largest factors, and a column for each mode."""
    if not is_whole(most, 1):
        raise InvalidQuery(f"plot.boxes(most={most!r}): most must be an integer >= 1.")
    places, lo, hi = boxes_of(fit.model.terms, fit.shape)
    if not len(places):
        raise InvalidQuery("plot.boxes: no parameter of this fit acts on a box; fit with boxes(...).")
    if len(fit.shape) > MOST_MODES:
        raise InvalidQuery(f"plot.boxes draws up to {MOST_MODES} modes; this fit has {len(fit.shape)}.")
    theta = fit.theta[places]
    chosen = np.argsort(-np.abs(theta), kind="stable")[:most]
    figure = new_figure("plot.boxes", (2.0 + 2.8 * len(fit.shape), 1.6 + 0.32 * len(chosen)))
    colours = [ORANGE if theta[i] > 0 else BLUE for i in chosen]
    rows, first = np.arange(len(chosen)), None
    for k, n in enumerate(fit.shape):
        ax = readable(figure.add_subplot(1, len(fit.shape), k + 1, sharey=first))
        first = ax if first is None else first
        ax.barh(rows, n, left=-0.5, height=0.12, color=LIGHT)
        ax.barh(rows, hi[chosen, k] - lo[chosen, k], left=lo[chosen, k] - 0.5, height=0.62, color=colours)
        ax.set(xlim=(-0.5, n - 0.5), xlabel=fit.labels.mode(k))
        level_ticks(ax, "x", fit.labels, k)
        ax.tick_params(axis="y", length=0, labelleft=k == 0)
        ax.spines["left"].set_visible(False)
    assert first is not None
    with np.errstate(over="ignore"):
        first.set_yticks(rows, [f"× {np.exp(theta[i]):.3g}" for i in chosen], fontsize=SMALL)
    first.invert_yaxis()
    left = len(places) - len(chosen)
    more = f": the {len(chosen)} largest factors of {len(places)}" if left else ""
    heading(figure, f"What each box multiplies{more}")
    return figure
