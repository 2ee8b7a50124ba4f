"""Pictures of a decomposition, in addition to those that every result has: effects, graph, boxes, odds ratios, path."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from legendre.core.arguments import check_choice, check_int
from legendre.core.errors import InvalidQuery, InvalidSetting
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
    draw_literally,
    format_number,
    is_ordered,
    level_ticks,
    make_panels,
    new_figure,
    set_factor_ticks,
    set_integer_ticks,
    style_axes,
)
from legendre.core.labels import Labels, Mode
from legendre.core.text import shorten
from legendre.core.types import BoolArray, FloatArray
from legendre.results.effects import Effect, Measure, center_log_means, notes_of
from legendre.results.plots.plots import Plots
from legendre.results.views import FEW_COUNTS, scarce_levels, thin_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.result import Inference

By = Literal["gain", "share", "kl"]
Quantity = Literal["kl", "rmse", "aic", "bic", "held_out"]
QUANTITIES = {
    "kl": "KL(P, Q) in nats",
    "rmse": "root mean square error",
    "aic": "AIC",
    "bic": "BIC",
    "held_out": "loss on what was held out",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FitPlots(Plots):
    """Pictures of a decomposition: those of `Plots`, and what needs its parameters.

    ``.effects()``, ``.graph()``, ``.odds()``, ``.boxes()`` and ``.path()``.
    """

    fit: Decomposition
    tests: Inference | None = None  # by default those of X

    @draw_literally
    def effects(self, *, measure: Measure = "fitted", most: int = 6) -> Figure:
        """Draw the effects of modes as lines and of pairs of modes as maps; see `Decomposition.effects`.

        A line shows the factor by which a level multiplies the probability, on a logarithmic scale (dots, where levels
        have no order), beside the observed means; a map the factor of a pair of levels beyond those of its modes, on
        one scale for all maps. Titles give the share of the variance of log Q. The heading says where joint effects put
        levels in another order than their observed means.

        Parameters
        ----------
        measure
            What effects are centred under.
        most
            How many effects are drawn: those with the largest shares.

        Examples
        --------
        >>> import legendre as ld
        >>> figure = ld.decompose([[1, 2], [3, 12]], ld.full()).plot.effects()
        >>> [ax.get_title() for ax in figure.axes[:3]]
        ['mode 0: 56.2 %', 'mode 1: 42.1 %', 'modes 0 and 1: 1.7 %']
        """
        fit = self.fit
        check_int(most, "plot.effects: most", 1, InvalidQuery)
        found = fit.effects(measure=measure, max_order=2)
        if not len(found):
            raise InvalidQuery(
                "plot.effects: the model has no parameter that distinguishes levels, so there are no effects. "
                "A basis with some, such as ld.decompose(X, 'interactions(1)'), shows what each mode does."
            )
        largest = sorted(found, key=lambda e: -e.share)
        largest = [e for e in largest[:most] if e.share >= 0.0005] or largest[:1]  # 0.0 % is not worth a picture
        drawn = sorted(largest, key=lambda e: (len(e.modes), -e.share))
        figure, axes = make_panels("plot.effects", len(drawn), 3)
        scarce = [scarce_levels(fit, effect) for effect in drawn]
        maps = [np.abs(e.merged[~few]) for e, few in zip(drawn, scarce, strict=True) if len(e.modes) == 2]
        # one scale for all maps; one in 100 is beyond it
        span = float(np.nanquantile(np.concatenate(maps), 0.99)) or 1.0 if maps else 1.0
        for ax, effect, few in zip(axes, drawn, scarce, strict=True):
            if len(effect.modes) == 1:
                _draw_line(ax, effect, fit.labels, few, center_log_means(fit, effect.modes[0], measure))
            else:
                _draw_map(ax, effect, fit.labels, few, span)
            ax.set_title(f"{shorten(effect.name, 30)}: {100 * effect.share:.1f} %")
        notes = ["Factors on the fitted values, with shares of the variance of log Q"]
        if fit.data is not None and len(drawn[0].modes) == 1:
            notes.append("orange: observed means")
        if any(few.any() for few in scarce):
            counts = fit.data is not None and fit.data.counts
            why = f"fewer than {FEW_COUNTS} counts, too few for a factor" if counts else "Q is 0"
            notes.append(f"grey: {why if fit.n_vanishing else 'nothing was observed there'}")
        lines = ["; ".join(notes), *notes_of(fit, measure, found)]
        figure.suptitle("\n".join(fill(line, 45 * min(len(drawn), 3)) for line in lines), fontsize=LARGE)
        return figure

    @draw_literally
    def odds(
        self,
        first: Mode,
        second: Mode,
        given: Mapping[Any, Any] | None = None,
        *,
        contrasts: Literal["local", "treatment"] = "local",
        confidence: float = 0.95,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw the odds ratios of two variables, with their intervals; see `Inference.odds`. X must hold counts.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], ld.full()).plot.odds(0, 1)
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['mode 0[1/0]:mode 1[1/0]']
        """
        tests = self.fit.inference() if self.tests is None else self.tests
        found = tests.odds(first, second, given, contrasts=contrasts, confidence=confidence)
        if len(found) > 60:
            raise InvalidQuery(f"plot.odds: {len(found)} odds ratios; at most 60 can be read. Use given=.")
        ax = axes_for("plot.odds", ax, (7.6, 1.6 + 0.32 * len(found)))
        ax.axvline(1.0, color=GREY, linewidth=1)
        rows, known = np.arange(len(found)), np.isfinite(found.standard_error)
        ends = np.abs(np.stack([found.lower, found.upper]) - found.estimate)[:, known]
        ax.errorbar(found.estimate[known], rows[known], xerr=ends, fmt="o", color=BLUE, capsize=3)
        words = {np.inf: "infinite →", -np.inf: "← 0"}
        for i in np.flatnonzero(~known).tolist():
            text = words.get(float(found.estimate[i]), "open")
            ax.text(0.5, i, text, ha="center", va="center", transform=ax.get_yaxis_transform(), color=BLUE)
        set_factor_ticks(ax, "x")
        ax.set_yticks(rows, list(found.names))
        labels = tests.fit.labels
        names = " and ".join(labels.mode(labels.find_mode(key, "odds")) for key in (first, second))
        ax.set(xlabel=f"odds ratio, with its {100 * confidence:g} % interval", title=names)
        ax.set_ylim(len(found) - 0.4, -0.6)
        return ax

    @draw_literally
    def graph(self, ax: Axes | None = None, *, by: By | None = None, measure: Measure = "fitted") -> Axes:
        """Draw modes as boxes and the joint effects of pairs as lines, the stronger the thicker.

        Parameters
        ----------
        ax
            Where to draw; a new figure by default.
        by
            "share", the default: by the share of the variance of log Q. "kl": by how much KL(P, Q) rises without the
            pair, and all larger sets that hold it; the model is fitted again for each line. "gain", the default for
            `legendre.graph`: by what an edge gained; of more than 60 modes those of the strongest edges are drawn.
        measure
            What effects are centred under.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[1, 2], [3, 12]], ld.full()).plot.graph()
        >>> [text.get_text().split() for text in ax.texts]
        [['1.7', '%'], ['mode', '0', '56.2', '%'], ['mode', '1', '42.1', '%']]
        """
        return _draw_graph(self.fit, ax, by, measure)

    @draw_literally
    def boxes(self, *, most: int = 15) -> Figure:
        """Draw which levels of each mode the parameters of `legendre.boxes` act on, and their factors.

        A row is a box, its bars the levels that it holds: orange where it raises the probability, blue where it lowers
        it. Levels are in the order in which the boxes grew: those that were arranged are named at the bars.

        Parameters
        ----------
        most
            How many boxes are drawn: those with the largest factors, or the smallest.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> X = np.ones((6, 8)); X[2:4, 3:7] = 5
        >>> figure = ld.decompose(X, ld.boxes(1)).plot.boxes()
        >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        ['× 5']
        """
        fit = self.fit
        check_int(most, "plot.boxes: most", 1, InvalidQuery)
        theta, ties = fit.theta, fit.model.ties
        if ties is None or ties.boxes is None or not len(theta):
            raise InvalidQuery("plot.boxes: no parameter of this fit acts on a box; fit with boxes(...).")
        if len(fit.shape) > 6:
            raise InvalidQuery(f"plot.boxes draws up to 6 modes; this fit has {len(fit.shape)}.")
        lo, hi = np.hsplit(ties.boxes, 2)
        chosen = np.argsort(-np.abs(theta), kind="stable")[:most]
        figure = new_figure("plot.boxes", (2.0 + 4.2 * len(fit.shape), 1.6 + 0.5 * len(chosen)))
        axes: Any = figure.subplots(1, len(fit.shape), sharey=True, squeeze=False)[0]
        colours, rows = [ORANGE if theta[i] > 0 else BLUE for i in chosen], np.arange(len(chosen))
        for k, n in enumerate(fit.shape):
            ax, low, high = style_axes(axes[k]), lo[chosen, k], hi[chosen, k]
            ax.barh(rows, n, left=-0.5, height=0.12, color=LIGHT)
            ax.barh(rows, high - low, left=low - 0.5, height=0.62, color=colours)
            for row, (first, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
                text = "all" if end - first == n else shorten(fit.labels.name_levels(k, first, end), 26)
                side = "left" if first + end <= n else "right"
                ax.text((first if side == "left" else end) - 0.5, row - 0.33, text, ha=side, fontsize=SMALL - 1)
            arranged = " as arranged" if fit.labels.order_of(k) is not None else ""
            ax.set(xlim=(-0.5, n - 0.5), xticks=[], xlabel=f"{fit.labels.mode(k)}, {n} levels{arranged}")
            ax.tick_params(axis="y", length=0)
            ax.spines["left"].set_visible(False)
        axes[0].set_yticks(rows, [f"× {np.exp(theta[i]):.3g}" for i in chosen], fontsize=SMALL)
        axes[0].invert_yaxis()
        more = f": the {len(chosen)} largest factors of {len(theta)}" if len(chosen) < len(theta) else ""
        figure.suptitle(f"What each box multiplies{more}", fontsize=LARGE)
        return figure

    @draw_literally
    def path(self, ax: Axes | None = None, *, quantity: Quantity | None = None) -> Any:
        """Draw how an adaptive fit improved as its basis grew, with the size that was chosen.

        Parameters
        ----------
        ax
            Where to draw one quantity, "kl" unless another is named.
        quantity
            "kl", "rmse", "aic", "bic" or "held_out", the loss by which ``adaptive("cv")`` chose. Default: a figure of
            the first two and, where they say something, of "bic" and "held_out".

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose(np.arange(1, 28).reshape(3, 3, 3), "adaptive(6)")
        >>> [ax.get_ylabel() for ax in fit.plot.path().axes]
        ['KL(P, Q) in nats', 'root mean square error', 'BIC']
        """
        fit = self.fit
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
        figure.suptitle("How the fit improved as its basis grew", fontsize=LARGE)
        return figure


def _draw_line(ax: Axes, effect: Effect, labels: Labels, scarce: BoolArray, observed: FloatArray | None) -> None:
    """Draw the factor of each level of one mode, as a line, or as dots where levels have no order; observed means too.

    Levels with hardly any data are hollow, and do not decide how far the axis reaches.
    """
    few, factors = np.repeat(scarce, effect.lengths[0]), np.exp(effect.arranged)
    places, long = np.arange(len(factors)), len(factors) > 31
    ax.axhline(1, color=GREY, linewidth=0.8)
    style = "-" if long else "o-"
    if not is_ordered(labels, effect.modes[0]):
        ax.vlines(places[~few], 1, factors[~few], color=BLUE, linewidth=1, alpha=0.5)
        style = "o"
    steps = "steps-mid" if style == "-" else "default"
    ax.plot(places, np.where(few, np.nan, factors), style, color=BLUE, markersize=5, linewidth=2, drawstyle=steps)
    if observed is not None:
        seen = np.where(few | np.isinf(observed), np.nan, np.exp(observed))
        ax.plot(places, seen, "D", color=ORANGE, markersize=3 if long else 4.5, fillstyle="none", zorder=3)
    set_factor_ticks(ax)
    level_ticks(ax, "x", labels, effect.modes[0])
    ax.set_ylabel("factor")
    if few.any():
        at = np.clip(factors[few], *ax.get_ylim())
        ax.plot(places[few], at, "o", color=GREY, markerfacecolor="white", markersize=5, clip_on=False, scaley=False)


def _draw_map(ax: Axes, effect: Effect, labels: Labels, scarce: BoolArray, span: float) -> None:
    """Draw the factor of each pair of levels beyond those of its modes; pairs with hardly any data are grey."""
    from matplotlib import colormaps

    shown = np.where(scarce, np.nan, effect.merged)
    rows, columns = effect.labels.shape
    colours, extent = colormaps[DIVERGING].with_extremes(bad=LIGHT), (-0.5, columns - 0.5, rows - 0.5, -0.5)
    style: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "extent": extent}
    image = ax.imshow(thin_out(effect, shown, 2_000)[0], colours, vmin=-span, vmax=span, **style)
    bar = add_colour_bar(ax, image, ticks=[-span, 0, span], extend="both")
    bar.ax.set_yticklabels([f"× {format_number(math.exp(v))}" for v in (-span, 0, span)])
    level_ticks(ax, "x", labels, effect.modes[1])
    level_ticks(ax, "y", labels, effect.modes[0])


def _draw_quantity(fit: Decomposition, ax: Axes, quantity: str) -> Axes:
    sizes = [step.n_params for step in fit.path]
    values = [getattr(step, quantity) for step in fit.path]
    spread = [step.spread for step in fit.path] if quantity == "held_out" else None
    ax.errorbar(sizes, values, yerr=spread, fmt="o-", color=BLUE, markersize=4, linewidth=2, elinewidth=1)
    ax.plot(sizes[-1:], values[-1:], "o", color=ORANGE, markersize=10, zorder=3)
    ax.text(0.98, 0.9, f"{sizes[-1]:,} parameters", transform=ax.transAxes, ha="right", color=ORANGE, fontsize=SMALL)
    ax.set(xlabel="parameters", ylabel=QUANTITIES[quantity])
    set_integer_ticks(ax)
    return ax


def _draw_graph(fit: Decomposition, ax: Axes | None, by: By | None, measure: Measure, most: int = 60) -> Axes:
    """Draw modes and their joint effects, the stronger the thicker; up to 15 lines have their numbers.

    Of a graph that was found with more than `most` modes, those of the strongest edges are drawn.
    """
    choices = ("share", "kl") if fit.graph is None else ("gain", "share", "kl")
    unit = check_choice(by or choices[0], "plot.graph: by", choices, InvalidQuery)
    if find_spec("networkx") is None:
        raise InvalidSetting("plot.graph needs networkx. Install it with: pip install 'legendre[plot]'")
    import networkx

    modes, alone = list(range(len(fit.shape))), dict[int, float]()
    if unit == "gain" and fit.graph is not None:
        gained = sorted(zip(fit.graph.gains.tolist(), fit.graph.ends.tolist(), strict=True), reverse=True)
        if len(modes) > most:
            modes = list(dict.fromkeys(k for _, pair in gained for k in pair))[:most]
        edges = {(a, b): gain for gain, (a, b) in gained if a in modes and b in modes}
        words = f"lines: nats of log-likelihood that an edge gained; {len(modes)} of {len(fit.shape)} modes"
    else:
        effects = fit.effects(measure=measure, max_order=2)
        alone = {e.modes[0]: e.share for e in effects if len(e.modes) == 1}
        edges = {(e.modes[0], e.modes[1]): e.share for e in effects if len(e.modes) == 2}
        words = "shares of the variance of log Q"
        if unit == "kl":
            edges = {pair: effects.kl_lost(pair) for pair in edges}
            words = "lines: KL(P, Q) lost without the pair, in nats"
    many = len(modes) > 30 or not alone
    ax = axes_for("plot.graph", ax, (11.0, 9.0) if many else (7.0, 5.4))
    graph = networkx.Graph()
    graph.add_nodes_from(modes)
    graph.add_edges_from(edges)
    # few modes and chains, which begin at an end, on a circle, coupled ones next to each other; others by springs
    if len(modes) <= 30 or max(degree for _, degree in graph.degree) <= 2:
        start = [k for end in sorted(graph, key=graph.degree) for k in networkx.dfs_preorder_nodes(graph, end)]
        places = networkx.circular_layout(list(dict.fromkeys(start)))
    else:
        places = networkx.spring_layout(graph, seed=0, iterations=200)
    pairs = sorted(edges, key=edges.__getitem__)  # the strongest are drawn last
    strengths = np.array([edges[pair] for pair in pairs]) / (max(edges.values(), default=0.0) or 1.0)
    style: dict[str, Any] = {"edge_color": BLUE, "width": 0.6 + 9 * strengths, "alpha": 0.35 + 0.5 * strengths}
    networkx.draw_networkx_edges(graph, places, pairs, ax=ax, **style)
    if len(edges) <= 15:
        texts = {pair: f"{100 * v:.1f} %" if unit == "share" else f"{v:.3g}" for pair, v in edges.items()}
        part = 0.5 if len(modes) < 4 else 0.76  # of a line, where its number stands: lines cross in the middle
        style = {"font_color": ORANGE, "font_size": SMALL, "rotate": False, "label_pos": part}
        networkx.draw_networkx_edge_labels(graph, places, texts, ax=ax, **style)
    names = {k: shorten(str(k) if many and fit.labels.names is None else fit.labels.mode(k), 14) for k in graph}
    if not many:
        names = {k: f"{name}\n{100 * alone.get(k, 0.0):.1f} %" for k, name in names.items()}
    box = {"boxstyle": f"round,pad={0.2 if many else 0.5}", "facecolor": LIGHT, "edgecolor": GREY}
    networkx.draw_networkx_labels(graph, places, names, font_size=7 if many else SMALL, bbox=box, ax=ax)
    ax.update_datalim(list(places.values()))
    ax.autoscale_view()
    ax.set_axis_off()
    ax.margins(0.15)
    ax.set_title(f"Modes and their joint effects\n{words}" if edges else "Modes; no two have a joint effect")
    return ax
