"""The picture of effects: modes as lines, pairs of modes as maps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, DIVERGING, GREY, LIGHT, colour_bar, heading, panels
from legendre.core.labels import Labels
from legendre.core.text_table import shortened
from legendre.core.ticks import factor_ticks, is_ordered, level_ticks, plain
from legendre.core.types import BoolArray, FloatArray
from legendre.results.effects import Effect, Measure
from legendre.results.plots.pair import vanishing_told
from legendre.results.plots.scarce import is_scarce

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.decomposition import Decomposition

FEW_LEVELS = 31  # levels up to which every one gets a dot
PIXELS = 2_000  # levels of a mode that a map shows at most
ACROSS = 3  # pictures side by side
LONGEST = 30  # letters of the modes' names in a title


def draw(fit: Decomposition, measure: Measure, most: int) -> Figure:
    """Draw the effects with the largest shares."""
    if not is_whole(most, 1):
        raise InvalidQuery(f"plot.effects: most={most!r}; it must be an integer >= 1.")
    found = fit.effects(measure=measure, max_order=2)
    if not len(found):
        raise InvalidQuery(
            "plot.effects: the model has no parameter that tells levels apart, so no effects. "
            "A basis with some, such as ld.decompose(X, 'interactions(1)'), shows what each mode does."
        )
    drawn = sorted(sorted(found, key=lambda e: -e.share)[:most], key=lambda e: (len(e.modes), -e.share))
    figure, axes = panels("plot.effects", len(drawn), ACROSS)
    scarce = [is_scarce(fit, fit.data, effect) for effect in drawn]
    for ax, effect, marked in zip(axes, drawn, scarce, strict=True):
        (_line if len(effect.modes) == 1 else _map)(ax, effect, fit.labels, marked)
        ax.set_title(f"{shortened(effect.name, LONGEST)}: {100 * effect.share:.1f} %")
    notes = [f"{gone}, whatever these factors say"] if (gone := vanishing_told(fit)) else []
    if any(marked.any() for marked in scarce):
        few = f"fewer than {limits.FEW_COUNTS:g} counts, too few for a factor"
        zero = few if fit.data is not None and fit.data.counts else "Q is 0"
        notes.append(f"grey: {zero if fit.n_vanishing else 'nothing was observed there'}")
    heading(figure, "\n".join(["Factors on the fitted values, with shares of the variance of log Q", *notes]))
    return figure


def _line(ax: Axes, effect: Effect, labels: Labels, scarce: BoolArray) -> None:
    """Draw the factor of each level of one mode: as a line, or as dots where levels have no order.

    Levels with hardly any data are hollow, and do not decide how far the axis reaches.
    """
    few = np.repeat(scarce, effect.lengths[0])
    factors = np.exp(effect.arranged)
    places, ordered = np.arange(len(factors)), is_ordered(labels, effect.modes[0])
    ax.axhline(1, color=GREY, linewidth=0.8)
    if not ordered:
        ax.vlines(places[~few], 1, factors[~few], color=BLUE, linewidth=1, alpha=0.5)
    style = "o" if not ordered else "o-" if len(factors) <= FEW_LEVELS else "-"
    steps = "steps-mid" if style == "-" else "default"
    shown = np.where(few, np.nan, factors)
    ax.plot(places, shown, style, color=BLUE, markersize=5, linewidth=2, drawstyle=steps)
    factor_ticks(ax)
    level_ticks(ax, "x", labels, effect.modes[0], np.where(few, 0.0, np.abs(effect.arranged)))
    ax.set_ylabel("factor")
    if few.any():
        at = np.clip(factors[few], *ax.get_ylim())
        (dots,) = ax.plot(places[few], at, "o", color=GREY, markersize=5, clip_on=False, scaley=False)
        dots.set_markerfacecolor("white")


def _map(ax: Axes, effect: Effect, labels: Labels, scarce: BoolArray) -> None:
    """Draw the factor of each pair of levels beyond those of its modes; pairs with hardly any data are grey."""
    from matplotlib import colormaps

    shown = np.where(scarce, np.nan, effect.merged)
    values, (rows, columns) = _pixels(effect, shown), effect.labels.shape
    most = float(np.nanmax(np.abs(shown))) or 1.0
    image = ax.imshow(
        values,
        cmap=colormaps[DIVERGING].with_extremes(bad=LIGHT),
        vmin=-most,
        vmax=most,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    bar = colour_bar(ax, image, ticks=[-most, 0, most])
    bar.ax.set_yticklabels([f"x {plain(float(f'{math.exp(v):.2g}'))}" for v in (-most, 0, most)])
    for axis, along in (("x", 1), ("y", 0)):
        sizes = np.repeat(np.where(scarce, 0.0, np.abs(effect.merged)).max(axis=1 - along), effect.lengths[along])
        level_ticks(ax, axis, labels, effect.modes[along], sizes)


def _pixels(effect: Effect, merged: FloatArray) -> FloatArray:
    """Return the values of a pair of modes; of long modes at levels at equal distances, as many as a picture shows."""
    index = []
    for lengths in effect.lengths:
        ends, n = np.cumsum(lengths), int(lengths.sum())
        levels = np.arange(n) if n <= PIXELS else np.linspace(0, n - 1, PIXELS).astype(np.int64)
        index.append(np.searchsorted(ends, levels, side="right"))
    return np.asarray(merged[np.ix_(*index)])
