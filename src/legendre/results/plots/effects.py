"""Pictures of a model: effects, boxes, odds ratios, how a basis grew, and how a fit converged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.arguments import check_choice, check_int
from legendre.core.errors import InvalidQuery
from legendre.core.figures import (
    BLUE,
    DIVERGING,
    GREY,
    LARGE,
    LIGHT,
    ORANGE,
    SMALL,
    add_colour_bar,
    axes_for,
    is_ordered,
    level_ticks,
    make_panels,
    new_figure,
    plain_number,
    set_factor_ticks,
    set_integer_ticks,
    style_axes,
)
from legendre.core.labels import Labels, Mode
from legendre.core.text import shortened
from legendre.core.types import BoolArray, IntArray
from legendre.results.effects import Effect, Measure
from legendre.results.views import FEW_COUNTS, FitPair, scarce_levels, thin_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.base import Result
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

QUANTITIES = {
    "kl": "KL(P, Q) in nats",
    "rmse": "root mean square error",
    "aic": "AIC",
    "bic": "BIC",
    "held_out": "loss on what was held out",
}


def draw_effects(fit: Decomposition, measure: Measure, most: int) -> Figure:
    """Draw the effects with the largest shares."""
    check_int(most, "plot.effects: most", 1, InvalidQuery)
    found = fit.effects(measure=measure, max_order=2)
    if not len(found):
        raise InvalidQuery(
            "plot.effects: the model has no parameter that tells levels apart, so no effects. "
            "A basis with some, such as ld.decompose(X, 'interactions(1)'), shows what each mode does."
        )
    drawn = sorted(sorted(found, key=lambda e: -e.share)[:most], key=lambda e: (len(e.modes), -e.share))
    figure, axes = make_panels("plot.effects", len(drawn), 3)
    scarce = [scarce_levels(fit, fit.data, effect) for effect in drawn]
    for ax, effect, marked in zip(axes, drawn, scarce, strict=True):
        (_draw_line if len(effect.modes) == 1 else _draw_map)(ax, effect, fit.labels, marked)
        ax.set_title(f"{shortened(effect.name, 30)}: {100 * effect.share:.1f} %")
    notes = ["Factors on the fitted values, with shares of the variance of log Q"]
    if gone := FitPair(fit.labels, fit, fit.data).note:
        notes.append(f"{gone}, whatever these factors say")
    if any(marked.any() for marked in scarce):
        counts = fit.data is not None and fit.data.counts
        why = f"fewer than {FEW_COUNTS} counts, too few for a factor" if counts else "Q is 0"
        notes.append(f"grey: {why if fit.n_vanishing else 'nothing was observed there'}")
    figure.suptitle("\n".join(notes), fontsize=LARGE)
    return figure


def _draw_line(ax: Axes, effect: Effect, labels: Labels, scarce: BoolArray) -> None:
    """Draw the factor of each level of one mode: as a line, or as dots where levels have no order.

    Levels with hardly any data are hollow, and do not decide how far the axis reaches.
    """
    few, factors = np.repeat(scarce, effect.lengths[0]), np.exp(effect.arranged)
    places, ordered = np.arange(len(factors)), is_ordered(labels, effect.modes[0])
    ax.axhline(1, color=GREY, linewidth=0.8)
    if not ordered:
        ax.vlines(places[~few], 1, factors[~few], color=BLUE, linewidth=1, alpha=0.5)
    style = "o" if not ordered else "o-" if len(factors) <= 31 else "-"
    steps = "steps-mid" if style == "-" else "default"
    ax.plot(places, np.where(few, np.nan, factors), style, color=BLUE, markersize=5, linewidth=2, drawstyle=steps)
    set_factor_ticks(ax)
    level_ticks(ax, "x", labels, effect.modes[0], np.where(few, 0.0, np.abs(effect.arranged)))
    ax.set_ylabel("factor")
    if few.any():
        at = np.clip(factors[few], *ax.get_ylim())
        (dots,) = ax.plot(places[few], at, "o", color=GREY, markersize=5, clip_on=False, scaley=False)
        dots.set_markerfacecolor("white")


def _draw_map(ax: Axes, effect: Effect, labels: Labels, scarce: BoolArray) -> None:
    """Draw the factor of each pair of levels beyond those of its modes; pairs with hardly any data are grey."""
    from matplotlib import colormaps

    shown = np.where(scarce, np.nan, effect.merged)
    rows, columns = effect.labels.shape
    most = float(np.nanmax(np.abs(shown))) or 1.0
    image = ax.imshow(
        thin_out(effect, shown, 2_000)[0],
        cmap=colormaps[DIVERGING].with_extremes(bad=LIGHT),
        vmin=-most,
        vmax=most,
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
    )
    bar = add_colour_bar(ax, image, ticks=[-most, 0, most])
    bar.ax.set_yticklabels([f"x {plain_number(float(f'{math.exp(v):.2g}'))}" for v in (-most, 0, most)])
    for axis, along in (("x", 1), ("y", 0)):
        sizes = np.repeat(np.where(scarce, 0.0, np.abs(effect.merged)).max(axis=1 - along), effect.lengths[along])
        level_ticks(ax, axis, labels, effect.modes[along], sizes)


def draw_boxes(fit: Decomposition, most: int, max_modes: int = 6) -> Figure:
    """Draw a row for each of the boxes with the largest factors, and a column for each mode."""
    check_int(most, "plot.boxes: most", 1, InvalidQuery)
    theta, ties = fit.theta, fit.model.ties
    if ties is None or ties.boxes is None or not len(theta):
        raise InvalidQuery("plot.boxes: no parameter of this fit acts on a box; fit with boxes(...).")
    if len(fit.shape) > max_modes:
        raise InvalidQuery(f"plot.boxes draws up to {max_modes} modes; this fit has {len(fit.shape)}.")
    lo, hi = np.hsplit(ties.boxes, 2)
    chosen = np.argsort(-np.abs(theta), kind="stable")[:most]
    # a few ticks of a long arranged mode would not say which levels lie between them: each bar names its own
    named = [fit.labels.order_of(k) is not None and n > 12 for k, n in enumerate(fit.shape)]
    widths = [4.2 if own else 2.8 for own in named]
    figure = new_figure("plot.boxes", (2.0 + sum(widths), 1.6 + (0.5 if any(named) else 0.32) * len(chosen)))
    axes: Any = figure.subplots(1, len(widths), sharey=True, squeeze=False, width_ratios=widths)[0]
    colours = [ORANGE if theta[i] > 0 else BLUE for i in chosen]
    rows = np.arange(len(chosen))
    for k, n in enumerate(fit.shape):
        ax, low, high = style_axes(axes[k]), lo[chosen, k], hi[chosen, k]
        ax.barh(rows, n, left=-0.5, height=0.12, color=LIGHT)
        ax.barh(rows, high - low, left=low - 0.5, height=0.62, color=colours)
        ax.set(xlim=(-0.5, n - 0.5))
        if named[k]:
            _name_bars(ax, fit.labels, k, low, high)
        else:
            level_ticks(ax, "x", fit.labels, k)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    with np.errstate(over="ignore"):
        axes[0].set_yticks(rows, [f"× {np.exp(theta[i]):.3g}" for i in chosen], fontsize=SMALL)
    axes[0].invert_yaxis()
    more = f": the {len(chosen)} largest factors of {len(theta)}" if len(chosen) < len(theta) else ""
    figure.suptitle(f"What each box multiplies{more}", fontsize=LARGE)
    return figure


def _name_bars(ax: Axes, labels: Labels, k: int, low: IntArray, high: IntArray) -> None:
    """Write the levels of each bar above it."""
    n = labels.shape[k]
    for row, (first, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        left = first + end <= n
        text = "all" if end - first == n else shortened(labels.together(k, first, end), 26)
        at, side = (first if left else end) - 0.5, "left" if left else "right"
        ax.text(at, row - 0.33, text, ha=side, va="bottom", fontsize=SMALL - 1)
    ax.set_xticks([])
    ax.set_xlabel(f"{labels.mode(k)}, {n} levels as arranged")


def draw_odds(
    tests: Inference,
    pair: tuple[Mode, Mode],
    given: Mapping[Any, Any] | None,
    contrasts: Any,
    confidence: float,
    ax: Axes | None,
    most: int = 60,
) -> Axes:
    """Draw a dot and a line for each odds ratio; an arrow where it is infinite."""
    found = tests.odds(*pair, given, contrasts=contrasts, confidence=confidence)
    if len(found) > most:
        raise InvalidQuery(f"plot.odds: {len(found)} odds ratios; at most {most} can be read. Use given=.")
    ax = axes_for("plot.odds", ax, (7.6, 1.6 + 0.32 * len(found)))
    ax.set_xscale("log")
    ax.axvline(1.0, color=GREY, linewidth=1)
    rows, known = np.arange(len(found)), np.isfinite(found.standard_error)
    ends = np.stack([found.shown - found.lower, found.upper - found.shown])[:, known]
    ax.errorbar(found.shown[known], rows[known], xerr=ends, fmt="o", color=BLUE, markersize=5, capsize=3, linewidth=1.6)
    for i in np.flatnonzero(~known).tolist():
        words = {np.inf: (0.98, "right", "infinite →"), -np.inf: (0.02, "left", "← 0")}
        place, side, text = words.get(float(found.estimate[i]), (0.5, "center", "open"))
        style: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "color": BLUE, "fontsize": SMALL}
        ax.text(place, i, text, ha=side, va="center", **style)
    if not known.all():
        ax.margins(x=0.25)
    ax.xaxis.set_major_formatter(plain_number)
    ax.xaxis.set_minor_formatter(lambda v, _: plain_number(v) if f"{v:.0e}"[0] in "25" else "")
    ax.tick_params(which="minor", labelsize=SMALL)
    ax.set_yticks(rows, list(found.names))
    labels = tests.fit.labels
    names = " and ".join(labels.mode(labels.find_mode(key, "odds")) for key in pair)
    ax.set(ylim=(len(found) - 0.4, -0.6), xlabel=f"odds ratio, with its {100 * confidence:g} % interval", title=names)
    return ax


def draw_path(fit: Decomposition, ax: Axes | None, quantity: str | None) -> Axes | Figure:
    """Draw one quantity against the number of parameters; with neither axes nor quantity all that say something."""
    if quantity is not None:
        check_choice(quantity, "plot.path: quantity", tuple(QUANTITIES), InvalidQuery)
    if not fit.path:
        raise InvalidQuery("plot.path: this basis was not grown, so it has no path; fit with adaptive(...).")
    if ax is not None or quantity is not None:
        return _draw_quantity(fit, axes_for("plot.path", ax), quantity or "kl")
    counts = fit.data is not None and fit.data.counts
    wanted = ["kl", "rmse", *(["bic"] if counts else []), "held_out"]
    wanted = [name for name in wanted if not np.isnan([getattr(step, name) for step in fit.path]).all()]
    figure, axes = make_panels("plot.path", len(wanted), len(wanted))
    for part, name in zip(axes, wanted, strict=True):
        _draw_quantity(fit, part, name)
    figure.suptitle("How the fit got better as its basis grew", fontsize=LARGE)
    return figure


def _draw_quantity(fit: Decomposition, ax: Axes, quantity: str) -> Axes:
    sizes = [step.n_params for step in fit.path]
    values = [getattr(step, quantity) for step in fit.path]
    ax.plot(sizes, values, "o-", color=BLUE, markersize=4, linewidth=2)
    if quantity == "held_out":
        ax.errorbar(sizes, values, yerr=[step.spread for step in fit.path], fmt="none", ecolor=BLUE, linewidth=1)
    ax.plot(sizes[-1:], values[-1:], "o", color=ORANGE, markersize=10)
    words: dict[str, Any] = {"ha": "right", "color": ORANGE, "fontsize": SMALL, "textcoords": "axes fraction"}
    line = {"arrowstyle": "-", "color": ORANGE, "linewidth": 0.8, "shrinkB": 5}
    ax.annotate(f"{sizes[-1]:,} parameters", (sizes[-1], values[-1]), xytext=(0.98, 0.9), arrowprops=line, **words)
    ax.set(xlabel="parameters", ylabel=QUANTITIES[quantity])
    set_integer_ticks(ax)
    return ax


def draw_history(result: Result, name: str, ax: Axes | None) -> Axes:
    """Draw the residual after each step, and the tolerance."""
    ax = axes_for("plot.history", ax)
    tol, solver = getattr(result, "tol", 0.0), getattr(result, "solver", "")
    residuals = [max(step.residual, np.finfo(np.float64).tiny) for step in result.history]
    ax.semilogy([step.iteration for step in result.history], residuals, "o-", color=BLUE, markersize=5, linewidth=2)
    if tol > 0:
        ax.axhline(tol, color=ORANGE, linewidth=1.5)
        words: dict[str, Any] = {"xytext": (6, 5), "textcoords": "offset points", "color": ORANGE, "fontsize": SMALL}
        ax.annotate(f"tol = {tol:g}", (0, tol), xycoords=ax.get_yaxis_transform(), **words)
    status = result.status.name
    ax.set(xlabel="step", ylabel=name, title=f"{solver}: {status}" if solver else status)
    set_integer_ticks(ax)
    return ax
