"""Pictures of results: those that compare X with Q, which every result has, and more for decompositions.

matplotlib is imported when a picture is drawn, because it is optional and slow to import.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from sys import float_info
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from legendre.core import limits
from legendre.core.arguments import check_choice, check_installed, check_int, entries
from legendre.core.errors import InvalidQuery, refuse_attribute
from legendre.core.figures import (
    BLUE,
    DIVERGING,
    GREY,
    LARGE,
    LIGHT,
    MEDIUM,
    ORANGE,
    RISING,
    SMALL,
    add_colour_bar,
    add_factor_bar,
    axes_for,
    draw_literally,
    format_number,
    level_ticks,
    make_panels,
    make_room,
    set_factor_ticks,
    set_integer_ticks,
    write_ticks,
)
from legendre.core.labels import Event, Labels, Mode
from legendre.core.text import list_words, shorten
from legendre.core.types import FloatArray, IntArray, Modes, Shape, frozen
from legendre.results.effects import FEW_COUNTS, Effect, notes_of, values_shown
from legendre.results.inference.counts import p_text, why_no_inference
from legendre.results.views import EXACT, Pair, PairTable, find_worst, residuals_of, slice_modes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.base import Result
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


@frozen
class Plots:
    """Pictures of a result: ``.slices()``, ``.residuals()``, ``.margins()``, ``.mosaic()``, ``.history()``.

    A picture with one panel is drawn into ``ax=`` if that is given, otherwise into a new figure; its axes are returned.
    A picture with several panels returns its figure. Modes and levels are named by their labels.
    """

    result: Result
    pair: Pair
    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute

    @draw_literally
    def slices(self, mode: Mode | None = None, *, most: int = 3) -> Figure:
        """Draw slices of X, of Q and of the residuals side by side; a matrix is drawn in one piece.

        The slices with the largest totals and with the largest residuals are drawn. If X has more than three modes,
        three are shown, and entries are sums over the others. Residuals of counts are in standard deviations. A
        completion without a basis also has the widths of the 90 % intervals of missing cells, if X has at most three
        modes.

        Parameters
        ----------
        mode
            The mode to slice along, by name or number. Default: the shortest of the three longest.
        most
            How many slices.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> figure = ld.decompose(np.arange(60).reshape(3, 4, 5) ** 2, "B1").plot.slices(mode=0, most=1)
        >>> [ax.get_title() for ax in figure.axes[:3]]
        ['mode 0, level 2: observed', 'mode 0, level 2: fitted', 'mode 0, level 2: residual']
        """
        pair, labels = self.pair, self.pair.labels
        check_int(most, "plot.slices: most", 1)
        if labels.n_modes < (2 if mode is None else 3):
            raise InvalidQuery(
                "plot.slices: X with one mode has no slices (plot.margins() draws it), and a matrix is drawn in one "
                "piece: mode= is for three modes and more."
            )
        modes = slice_modes(labels.shape, None if mode is None else labels.find_mode(mode, "plot.slices"))
        # slices x rows x columns; a matrix is a single slice
        x, q = (part.reshape(-1, *part.shape[-2:]) for part in pair.table(modes))
        largest = float(np.nanmax(x))
        chosen = _choose_slices(x, q, most)
        x, q = x[chosen], q[chosen]
        residuals = residuals_of(pair, x, q)
        residuals[np.isinf(residuals)] = np.nan  # no scale of colours could show them
        # a few large residuals would turn the others white: one in 200 is beyond the scale
        span = max(float(np.nanquantile(np.abs(residuals), 0.995)), EXACT * largest) or 1.0
        rising, diverging = _colours(np.concatenate([x, q])), {"cmap": DIVERGING, "vmin": -span, "vmax": span}
        unit, difference = ("count", "standard deviations") if pair.counts else ("entry", "difference")
        # a column of panels for each: its name, the slices, the colours, and the unit at the colour bar
        columns = [
            (pair.x_name, x, rising, unit),
            (pair.q_name, q, rising, unit),
            ("residual", residuals, diverging, difference),
        ]
        if pair.width is not None and len(modes) == labels.n_modes and np.isfinite(pair.width).any():
            width = pair.width.transpose(modes).reshape(-1, *x.shape[1:])
            columns.append(("width of 90 % interval", width[chosen], _colours(width), unit))
        figure, axes = make_panels("plot.slices", len(columns) * len(chosen), len(columns), (4.6, 3.3))
        level = ", level" if labels.names is None else ""
        for column, (name, slices, colours, bar_label) in enumerate(columns):
            column_axes = axes[column :: len(columns)]
            for row, ax in enumerate(column_axes):
                image = _draw_table(ax, slices[row], x.shape[1:], colours)
                level_ticks(ax, "x", labels, modes[-1])
                level_ticks(ax, "y", labels, modes[-2])
                place = f"{labels.mode(modes[0])}{level} {labels.level(modes[0], chosen[row])}"
                ax.set_title(name if len(modes) == 2 else fill(f"{shorten(place, 28)}: {name}", 38))
                ax.label_outer()
                if name == pair.q_name and x[row].size <= 2_500:  # few enough to see single entries
                    # crosses where Q vanishes, dots where X is missing and Q is not
                    for marker, marked in (("x", q[row] == 0), (".", np.isnan(x[row]) & ~np.isnan(q[row]))):
                        down, across = np.nonzero(marked)
                        ax.plot(across, down, marker, color="white", markersize=5, linestyle="")
            if column:  # X has the colours of Q
                beyond = "both" if name == "residual" else "neither"
                add_colour_bar(column_axes, image, bar_label, extend=beyond, pad=0.02, aspect=40)
        summed = [labels.mode(k) for k in range(labels.n_modes) if k not in modes]
        notes = [
            f"{pair.x_name.capitalize()}, {pair.q_name} and residual",
            f"summed over {', '.join(summed) if len(summed) <= 3 else f'{len(summed)} other modes'}" if summed else "",
            pair.note,
            "grey: no entry" if np.isnan(x).any() else "",
            "crosses: vanishing" if (q == 0).any() else "",
        ]
        figure.suptitle("; ".join(filter(None, notes)), fontsize=LARGE)
        return figure

    @draw_literally
    def residuals(self, ax: Axes | None = None, *, most: int = 5, max_dots: int = 200_000) -> Axes:
        """Draw X against Q, cell by cell, on logarithmic axes if entries differ much; name the worst cells.

        The worst are those with the largest residuals: for counts in standard deviations (signed square roots of the
        terms of the deviance), otherwise in X's units. If there are more than `max_dots` cells, every n-th is drawn.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], "B1").plot.residuals(most=1)
        >>> ax.texts[-1].get_text().splitlines()[2:]
        ['1  [1, 0]', '    6 observed, 12 fitted (-1.92 sd)']
        """
        pair = self.pair
        check_int(most, "plot.residuals: most", 0)
        check_int(max_dots, "plot.residuals: max_dots", 1)
        found, places, residuals = find_worst(pair, most)
        worst = places.tolist()
        ax = axes_for("plot.residuals", ax, (10.5, 5.2))
        ax.use_sticky_edges = False  # the worst cells lie at the edges
        step = -(-len(found.x) // max_dots) or 1  # draw every step-th cell, at most max_dots
        _draw_dots(ax, pair, found.x, found.q, step)
        ax.plot(found.q[worst], found.x[worst], "o", color=ORANGE, markersize=7, fillstyle="none", markeredgewidth=1.5)
        listed = ["worst cells (sd: standard deviations)" if pair.counts else "worst cells"]
        # offsets in points: the number of a cell is left, right, above or below in turn, to avoid overlap of neighbours
        sides = ((-15, -4), (8, -4), (-4, 8), (-4, -15))
        for rank, i in enumerate(worst, start=1):
            ax.annotate(
                str(rank), (found.q[i], found.x[i]), xytext=sides[rank % 4], textcoords="offset points", color=ORANGE,
                fontsize=MEDIUM, weight="bold",
            )  # fmt: skip
            name = fill(shorten(pair.labels.cell(found.cell(i)), 132), 44, subsequent_indent="    ")
            numbers = f"{format_number(found.x[i])} {pair.x_name}, {format_number(found.q[i])} {pair.q_name}"
            listed.append(f"{rank}  {name}\n    {numbers} ({residuals[i]:+.3g}{' sd' if pair.counts else ''})")
        if worst:
            ax.text(1.02, 1.0, "\n\n".join(listed), transform=ax.transAxes, va="top", fontsize=SMALL)
        notes = [f"{len(found.x):,} cells" + (f", one in {step} drawn" if step > 1 else ""), found.note, pair.note]
        notes += ["no residual is larger than rounding errors"] if most and not worst else []
        ax.set_title("; ".join(filter(None, notes)))
        return ax

    @draw_literally
    def margins(self, modes: Sequence[Any] | None = None, *, most: int = 6) -> Figure:
        """Draw sums of X and of Q over all modes but one or two; titles say which share of the total is misplaced.

        Misplaced is what lies in other entries in Q than in X: half the sum of absolute differences. Single modes are
        drawn as an area (X) with a line or dots (Q), pairs of modes as X against Q.

        Parameters
        ----------
        modes
            Modes and pairs of modes, e.g. ``["hour", ("carrier", "dest")]``. Default: those with the largest misplaced
            shares.
        most
            The largest number of modes, and of pairs, that are drawn by default.

        Examples
        --------
        >>> import legendre as ld
        >>> figure = ld.decompose([[18, 7], [6, 19]], "B1").plot.margins()
        >>> [ax.get_title() for ax in figure.axes]
        ['mode 0: 0 % misplaced', 'mode 1: 0 % misplaced', 'mode 0 and mode 1: 24.0 % misplaced']
        """
        pair = self.pair
        check_int(most, "plot.margins: most", 1)
        if modes is not None:
            tables = {group: pair.table(group) for group in _read_groups(pair.labels, modes)}
        else:
            shape = pair.labels.shape
            tables = _choose_misplaced(pair, [(k,) for k in range(len(shape))], most)
            # all pairs of few modes; of more than 8, pairs of those that were chosen, to limit the sums over X
            among = range(len(shape)) if len(shape) <= 8 else sorted(k for (k,) in tables)
            couples = [(i, j) for i, j in combinations(among, 2) if shape[i] * shape[j] <= limits.LARGEST_GRID]
            tables |= _choose_misplaced(pair, couples, most)
        figure, axes = make_panels("plot.margins", len(tables), 3 if len(tables) != 4 else 2)  # four: 2 x 2
        for ax, (group, table) in zip(axes, tables.items(), strict=True):
            if len(group) == 1:
                _draw_single(ax, pair, group[0], table)
            else:
                inside = ~np.isnan(table.x)
                _draw_dots(ax, pair, table.x[inside], table.q[inside])
            share = table.misplaced
            amount = f"{100 * share:.1f} %" if share >= 0.0005 else "0 %" if share < 1e-8 else "< 0.1 %"
            ax.set_title(f"{shorten(list_words([pair.labels.mode(k) for k in group]), 30)}: {amount} misplaced")
        handles, names = axes[0].get_legend_handles_labels()  # none if the first panel is that of a pair
        if handles:
            figure.legend(handles, names, loc="outside lower center", ncols=2, fontsize=SMALL, frameon=False)
        head = f"Sums over all other modes; misplaced: what lies elsewhere in the {pair.q_name} ones"
        figure.suptitle(f"{head}\n{pair.note}".rstrip(), fontsize=LARGE)
        return figure

    @draw_literally
    def mosaic(
        self, modes: Mode | Sequence[Mode] | None = None, ax: Axes | None = None, *, kind: str = "pearson"
    ) -> Axes:
        """Draw a mosaic plot: a tile for each cell, whose area is the count and whose shade is the residual of the fit.

        The first mode splits the square from left to right, the second from top to bottom, and so on. Shades begin
        where a residual is beyond 2, and are darker beyond 4 (Friendly 1994). The legend has the range of the residuals
        and the p-value of X2. A cell without counts is a sliver; a cell outside the support, a structural zero, has a
        dashed outline.

        Parameters
        ----------
        modes
            Up to four modes, by name or number, in the order of the splits; others are summed over. Default: all.
        ax
            Where to draw; a new figure by default.
        kind
            "pearson" or "adjusted" residuals, see `Inference.residuals`; adjusted ones are those of all modes.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], "B1").plot.mosaic()
        >>> len(ax.patches), ax.get_xlabel(), ax.get_ylabel()
        (4, 'mode 0', 'mode 1')
        """
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import BoundaryNorm, ListedColormap
        from matplotlib.patches import Rectangle

        check_choice(kind, "plot.mosaic: kind", ("pearson", "adjusted"))
        pair, fit, tests = self.pair, getattr(self, "fit", None), getattr(self, "tests", None)
        if tests is None and pair.counts and fit is not None and not why_no_inference(fit):
            tests = fit.inference()
        kept = tuple(pair.labels.find_modes(range(pair.labels.n_modes) if modes is None else modes, "plot.mosaic"))
        labels = pair.labels.part(kept)
        if not 0 < len(kept) <= 4 or math.prod(labels.shape) > 600:
            raise InvalidQuery(
                f"plot.mosaic: {len(kept)} variables with {math.prod(labels.shape):,} tiles; at most 4 variables and "
                "600 tiles can be read. Name some: plot.mosaic(['a', 'b']); the others are summed over."
            )
        table = pair.table(kept)
        if kind == "adjusted" and (tests is None or len(kept) < pair.labels.n_modes):
            raise InvalidQuery("plot.mosaic: adjusted residuals need counts, and every mode: leave modes out.")
        residuals = _tile_residuals(pair, kept, table, tests if kind == "adjusted" else None)
        starts, lengths = split_square(np.nan_to_num(table.x))
        ax = axes_for("plot.mosaic", ax, (8.4, 6.8))
        # five shades: grey between -2 and 2, one for unusual residuals and a dark one beyond 4, for each sign
        steps = colormaps[DIVERGING]([0.06, 0.27, 0.5, 0.73, 0.94])
        steps[2] = 0.9, 0.9, 0.9, 1.0
        shades = ScalarMappable(BoundaryNorm([-4, -2, 2, 4], 5, extend="both"), ListedColormap(steps))
        for cell in np.ndindex(table.x.shape):
            tile = Rectangle(tuple(starts[:, *cell]), *lengths[:, *cell], edgecolor=GREY, linewidth=0.8)
            if np.isnan(table.x[cell]):  # a structural zero
                tile.set(fill=False, linestyle="--", edgecolor="0.2", linewidth=1.2)
            else:
                tile.set(facecolor=shades.to_rgba(residuals[cell]))
            ax.add_patch(tile)
        _name_levels(ax, starts, starts + lengths, labels)
        ax.set(xlim=(-0.004, 1.004), ylim=(1.004, -0.004))  # room for the lines at the edges; y runs downwards
        ax.spines[:].set_visible(False)
        name = f"{kind.capitalize()} residual" if pair.counts else "difference"
        name += f", {np.nanmin(residuals):.3g} to {np.nanmax(residuals):.3g}"
        # without degrees of freedom there is no p-value
        name += f"; p = {p_text(tests.x2_p_value)}".replace("= <", "< ") if tests is not None and tests.df else ""
        add_colour_bar([ax], shades, name, shrink=0.7, pad=0.12)
        names = shorten(list_words([labels.mode(k) for k in range(len(kept))]), 30)
        ax.set_title(fill(f"{names} (areas: {pair.x_name}; shades: residuals)", 60))
        return ax

    @draw_literally
    def history(self, ax: Axes | None = None) -> Axes:
        """Draw the residual, which is 0 at the minimum, after each step, and the tolerance that it had to reach.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").plot.history().get_ylabel()
        'residual'
        """
        ax, history, tol = axes_for("plot.history", ax), self.result.history, self.result.tol
        residuals = [max(step.residual, float_info.min) for step in history]  # 0 has no logarithm
        ax.semilogy([step.iteration for step in history], residuals, "o-", color=BLUE, markersize=5, linewidth=2)
        ax.axhline(tol, color=ORANGE, linewidth=1.5)
        ax.text(0, tol, f"tol = {tol:g}", va="bottom", color=ORANGE, fontsize=SMALL)
        ax.set(xlabel="step", ylabel="residual", title=self.result.status.name)
        set_integer_ticks(ax)
        return ax


@frozen(kw_only=True)
class FitPlots(Plots):
    """Pictures of a decomposition: those of `Plots`, and those that need its parameters.

    ``.effects()``, ``.graph()``, ``.odds()``, ``.boxes()`` and ``.path()``.
    """

    fit: Decomposition
    tests: Inference | None = None  # for `odds`; by default ``fit.inference()``

    @draw_literally
    def effects(self, *, most: int = 6) -> Figure:
        """Draw the effects of modes as lines and of pairs of modes as maps; see `Decomposition.effects`.

        A line (dots, if levels have no order) shows the factor by which each level multiplies the probability, on a
        logarithmic scale, beside the observed means. A map shows the factor of each pair of levels beyond the factors
        of the two levels; all maps have the same colour scale. Titles give the share of the variance of log Q. Notes
        below the panels say if the fitted order of a mode's levels differs from that of their observed means.

        Parameters
        ----------
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
        check_int(most, "plot.effects: most", 1)
        found = fit.effects(max_order=2)
        if not len(found):
            raise InvalidQuery(
                "plot.effects: the model has no parameter that distinguishes levels, so there are no effects. "
                "A basis with some, such as ld.decompose(X, 'interactions(1)'), shows what each mode does."
            )
        largest = sorted(found, key=lambda e: -e.share)
        largest = [e for e in largest[:most] if e.share >= 0.0005] or largest[:1]  # 0.0 % is not worth a picture
        drawn = sorted(largest, key=lambda e: len(e.modes))  # single modes first, each by share
        figure, axes = make_panels("plot.effects", len(drawn), 3)
        shown = [values_shown(fit, effect, 2_000) for effect in drawn]
        maps = [np.abs(values[~np.isnan(values)]) for values, _, _ in shown if values.ndim == 2]
        # one scale for all maps, from exp(-span) to exp(span); one entry in 100 is beyond it
        span = float(np.nanquantile(np.concatenate(maps), 0.99)) or 1.0 if maps else 1.0
        for ax, effect, (values, places, means) in zip(axes, drawn, shown, strict=True):
            if len(effect.modes) == 1:
                _draw_line(ax, effect.modes[0], fit.labels, places[0], values, means)
            else:
                _draw_map(ax, effect, fit.labels, values, span)
            ax.set_title(f"{shorten(effect.name, 30)}: {100 * effect.share:.1f} %")
        title = "Factors on the fitted values, with shares of the variance of log Q"
        if fit.data is not None and len(drawn[0].modes) == 1:
            title += "; orange: observed means"
        notes = notes_of(fit, "fitted", found)
        if any(np.isnan(values).any() for values, _, _ in shown):
            why = f"fewer than {FEW_COUNTS} counts, too few for a factor" if self.pair.counts else "Q is 0"
            notes.append(f"left out: {why if fit.n_vanishing else 'nothing was observed there'}")
        # about 45 letters of the title have room above each panel, and 60 of the notes below it
        columns = min(len(drawn), 3)
        figure.suptitle(fill(title, 45 * columns), fontsize=LARGE)
        below = "\n".join(fill(note, 60 * columns) for note in notes)
        figure.supxlabel(below, x=0.01, horizontalalignment="left", fontsize=SMALL)
        make_room(figure, axes)
        return figure

    @draw_literally
    def odds(self, first: Mode, second: Mode, given: Event | None = None, *, ax: Axes | None = None) -> Axes:
        """Draw the odds ratios of two variables, with 95 % intervals; see `Inference.odds`. X must hold counts.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], ld.full()).plot.odds(0, 1)
        >>> [text.get_text() for text in ax.get_yticklabels()]
        ['mode 0[1/0]:mode 1[1/0]']
        """
        tests = self.fit.inference() if self.tests is None else self.tests
        found = tests.odds(first, second, given)
        if len(found) > 60:
            raise InvalidQuery(f"plot.odds: {len(found)} odds ratios; at most 60 can be read. Use given=.")
        ax = axes_for("plot.odds", ax, (7.6, 1.6 + 0.32 * len(found)))  # inches: 0.32 for each row
        ax.axvline(1.0, color=GREY, linewidth=1)
        rows, known = np.arange(len(found)), np.isfinite(found.standard_error)
        ends = np.abs(np.stack([found.lower, found.upper]) - found.estimate)[:, known]
        ax.errorbar(found.estimate[known], rows[known], xerr=ends, fmt="o", color=BLUE, capsize=3)
        # an odds ratio without a standard error has a word instead of a dot
        words = {np.inf: "infinite →", 0.0: "← 0"}
        for i in np.flatnonzero(~known).tolist():
            text = words.get(float(found.estimate[i]), "open")
            ax.text(0.5, i, text, ha="center", va="center", transform=ax.get_yaxis_transform(), color=BLUE)
        set_factor_ticks(ax, "x")
        ax.set_yticks(rows, list(found.names))
        part = tests.fit.labels.part(tests.fit.labels.find_modes((first, second), "plot.odds"))
        ax.set(xlabel="odds ratio, with its 95 % interval", title=f"{part.mode(0)} and {part.mode(1)}")
        ax.set_ylim(len(found) - 0.4, -0.6)  # the first row is at the top
        return ax

    @draw_literally
    def graph(self, ax: Axes | None = None, *, by: By | None = None) -> Axes:
        """Draw modes as boxes and joint effects of pairs as lines, thicker if stronger; with numbers if at most 15.

        Parameters
        ----------
        ax
            Where to draw; a new figure by default.
        by
            What the strength of a line is. "share", the default: the share of the variance of log Q. "kl": how much
            KL(P, Q) rises without the pair and all larger sets that contain it; the model is refitted for each line.
            "gain", the default for `legendre.graph`: how much log-likelihood the edge gained; if there are more than 60
            modes, those of the strongest edges are drawn.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[1, 2], [3, 12]], ld.full()).plot.graph()
        >>> [text.get_text().split() for text in ax.texts]
        [['1.7', '%'], ['mode', '0', '56.2', '%'], ['mode', '1', '42.1', '%']]
        """
        fit = self.fit
        choices = ("share", "kl") if fit.graph is None else ("gain", "share", "kl")
        unit = check_choice(choices[0] if by is None else by, "plot.graph: by", choices)
        check_installed("plot.graph", ["networkx"], "'legendre[plot]'")
        import networkx

        edges, alone, words = _edge_strengths(fit, unit)
        pairs, modes = sorted(edges, key=edges.__getitem__), list(range(len(fit.shape)))  # the strongest are drawn last
        if unit == "gain" and len(modes) > 60:  # more boxes could not be read
            modes = list(dict.fromkeys(k for pair in pairs[::-1] for k in pair))[:60]
            pairs = [pair for pair in pairs if {*pair} <= {*modes}]
            words += f"; {len(modes)} of {len(fit.shape)} modes"
        many = len(modes) > 30 or not alone  # then boxes are small, and hold the name alone
        ax = axes_for("plot.graph", ax, (11.0, 9.0) if many else (7.0, 5.4))
        graph = networkx.Graph()
        graph.add_nodes_from(modes)
        graph.add_edges_from(pairs)
        # few modes are put on a circle, so that no box hides a line, and so are chains, which springs would curl
        if len(modes) <= 30 or max(degree for _, degree in graph.degree) <= 2:
            places = networkx.circular_layout(graph)
        else:
            places = networkx.spring_layout(graph, seed=0, iterations=200)
        strengths = np.array([edges[pair] for pair in pairs]) / (max(edges.values(), default=0.0) or 1.0)
        networkx.draw_networkx_edges(
            graph, places, pairs, ax=ax, edge_color=BLUE, width=0.6 + 9 * strengths, alpha=0.35 + 0.5 * strengths
        )
        if len(pairs) <= 15:
            texts = {pair: f"{100 * v:.1f} %" if unit == "share" else f"{v:.3g}" for pair, v in edges.items()}
            # a number stands at the middle of its line; with more modes lines cross there, so nearer to one end
            along = 0.5 if len(modes) < 4 else 0.76
            networkx.draw_networkx_edge_labels(
                graph, places, texts, ax=ax, font_color=ORANGE, font_size=SMALL, rotate=False, label_pos=along
            )
        names = {k: shorten(str(k) if many and fit.labels.names is None else fit.labels.mode(k), 14) for k in graph}
        if not many:
            names = {k: f"{name}\n{100 * alone.get(k, 0.0):.1f} %" for k, name in names.items()}
        box = {"boxstyle": f"round,pad={0.2 if many else 0.5}", "facecolor": LIGHT, "edgecolor": GREY}
        networkx.draw_networkx_labels(graph, places, names, font_size=7 if many else SMALL, bbox=box, ax=ax)
        ax.update_datalim(list(places.values()))  # of boxes without a line too
        ax.autoscale_view()
        ax.set_axis_off()
        ax.margins(0.15)
        ax.set_title(f"Modes and their joint effects\n{words}" if edges else "Modes; no two have a joint effect")
        return ax

    @draw_literally
    def boxes(self, *, most: int = 15) -> Figure:
        """Draw which levels of each mode the parameters of `legendre.boxes` act on, and their factors.

        There is a panel for each mode and a row for each box. A bar shows the levels that the box holds: orange if it
        raises the probability, blue if it lowers it. Levels are in the order that they had when the boxes grew, which
        is not that of X for modes that were arranged; the text above a bar names the levels.

        Parameters
        ----------
        most
            How many boxes are drawn: those whose factors are furthest from 1.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> X = np.ones((6, 8)); X[2:4, 3:7] = 5
        >>> figure = ld.decompose(X, ld.boxes(1)).plot.boxes()
        >>> [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
        ['× 5']
        """
        fit = self.fit
        check_int(most, "plot.boxes: most", 1)
        theta, ties = fit.theta, fit.model.ties
        if ties is None or ties.boxes is None or not len(theta):
            raise InvalidQuery("plot.boxes: no parameter of this fit acts on a box; fit with boxes(...).")
        if len(fit.shape) > 6:
            raise InvalidQuery(f"plot.boxes draws up to 6 modes; this fit has {len(fit.shape)}.")
        chosen, n_modes = np.argsort(-np.abs(theta), kind="stable")[:most], len(fit.shape)
        lo, hi = np.hsplit(ties.boxes[chosen], 2)  # box i holds the levels lo[i, k] to hi[i, k] - 1 of mode k
        figure, axes = make_panels("plot.boxes", n_modes, n_modes, (4.2 + 2.0 / n_modes, 1.6 + 0.5 * len(chosen)))
        colours, rows = [ORANGE if theta[i] > 0 else BLUE for i in chosen], np.arange(len(chosen))
        for k, (ax, n, low, high) in enumerate(zip(axes, fit.shape, lo.T, hi.T, strict=True)):
            ax.barh(rows, n, left=-0.5, height=0.12, color=LIGHT)  # all levels, as a thin bar
            ax.barh(rows, high - low, left=low - 0.5, height=0.62, color=colours)
            for row, (first, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
                text = "all" if end - first == n else shorten(fit.labels.name_levels(k, first, end), 26)
                ax.text(-0.5, row - 0.33, text, fontsize=SMALL - 1)
            ax.set(xlim=(-0.5, n - 0.5), xticks=[], xlabel=f"{fit.labels.mode(k)}, {n} levels", yticks=[])
            ax.set_ylim(len(rows) - 0.5, -0.7)  # the first row at the top, with room for its text
            ax.tick_params(axis="y", length=0)
            ax.spines["left"].set_visible(False)
        axes[0].set_yticks(rows, [f"× {np.exp(theta[i]):.3g}" for i in chosen])
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
            the first two, of "bic" for counts, and of "held_out" if it was measured.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> fit = ld.decompose(np.arange(1, 28).reshape(3, 3, 3), "adaptive(6)")
        >>> [ax.get_ylabel() for ax in fit.plot.path().axes]
        ['KL(P, Q) in nats', 'root mean square error', 'BIC']
        """
        fit = self.fit
        if quantity is not None:
            check_choice(quantity, "plot.path: quantity", tuple(QUANTITIES))
        if not fit.path:
            raise InvalidQuery("plot.path: this basis was not grown, so it has no path; fit with adaptive(...).")
        if ax is not None or quantity is not None:
            return _draw_quantity(fit, axes_for("plot.path", ax), quantity or "kl")
        wanted = ["kl", "rmse", *(["bic"] if self.pair.counts else []), "held_out"]
        wanted = [name for name in wanted if not np.isnan([getattr(step, name) for step in fit.path]).all()]
        figure, axes = make_panels("plot.path", len(wanted), len(wanted))
        for panel, name in zip(axes, wanted, strict=True):
            _draw_quantity(fit, panel, name)
        figure.suptitle("How the fit improved as its basis grew", fontsize=LARGE)
        return figure


def _choose_slices(x: FloatArray, q: FloatArray, most: int) -> list[int]:
    """Choose at most `most` slices of two arrays (slices x rows x columns); return their indices in rising order.

    The one with the largest misfit is chosen first, then the one with the largest total, then the second of each, ...
    """
    ranked = [np.argsort(-np.nansum(part, axis=(1, 2)), kind="stable") for part in (np.abs(x - q), x)]
    return sorted(list(dict.fromkeys(np.stack(ranked, axis=1).ravel().tolist()))[:most])


def _colours(values: FloatArray) -> dict[str, Any]:
    """Choose a scale of colours for entries >= 0, as arguments of `imshow`.

    If a few entries are far larger than the median of the positive ones, all others would have nearly the same colour
    on a linear scale. Colours then follow square roots (largest entry more than 4 times the median), or fourth roots
    (more than 300 times).
    """
    from matplotlib.colors import PowerNorm

    high, positive = float(np.nanmax(values)) or 1.0, values[values > 0]
    skew = high / float(np.median(positive)) if positive.size else 1.0
    return {"cmap": RISING, "norm": PowerNorm(1.0 if skew <= 4 else 0.5 if skew <= 300 else 0.25, 0.0, high)}


def _draw_table(ax: Axes, values: FloatArray, shape: Shape, colours: dict[str, Any]) -> Any:
    """Draw a table of numbers as an image, NaN in grey; return the image.

    Cells are square, unless one side of the image would then be more than three times the other. `shape` is how many
    rows and columns the axes have. `values` may have fewer, if only some levels are drawn (`values_shown`): the image
    is then stretched, so that ticks are at the right levels. `colours` are arguments of `imshow`.
    """
    rows, columns = shape
    square = min(rows, columns) > 1 and max(rows, columns) <= 3 * min(rows, columns)
    ax.set_facecolor(LIGHT)
    return ax.imshow(
        np.ma.masked_invalid(values),
        aspect="equal" if square else "auto",
        interpolation="nearest",
        extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),  # level i is centred at i
        **colours,
    )


def _draw_dots(ax: Axes, pair: Pair, x: FloatArray, q: FloatArray, step: int = 1) -> None:
    """Draw every `step`-th entry as a dot, X upwards and Q to the right, with the line on which both are equal.

    If the largest entry of X is at least 30 times the smallest of Q, or the smallest positive one of X, both axes are
    logarithmic, but linear near 0, so that zeros are shown. Dots are paler if there are more of them, so that one can
    see where they overlap.
    """
    positive, high = x[x > 0], max(x.max(initial=0.0), q.max(initial=0.0))
    if positive.size and positive.max() >= 30 * min(positive.min(), q.min()):
        # the linear part reaches up to the smallest count, 1, or to about the smallest entries
        linear = 1.0 if pair.counts else float(np.quantile(positive, 0.02))
        for scale, axis in ((ax.set_xscale, ax.xaxis), (ax.set_yscale, ax.yaxis)):
            scale("symlog", linthresh=linear, linscale=0.6)
            axis.set_major_formatter(format_number)
    opacity = max(0.6 * min(1.0, 500 / max(len(x), 1)) ** 0.35, 0.05)  # 0.6 up to 500 entries, then down to 0.05
    ax.plot(q[::step], x[::step], "o", color=BLUE, markersize=4, alpha=opacity, markeredgewidth=0)
    ax.plot([0.0, high], [0.0, high], color=GREY, linewidth=1)
    ax.set(xlabel=pair.q_name, ylabel=pair.x_name)


def _read_groups(labels: Labels, modes: Sequence[Any]) -> list[Modes]:
    """Read the argument `modes` of `Plots.margins`: return a tuple of one or two numbers for each mode or pair."""
    groups = [tuple(labels.find_modes(group, "plot.margins")) for group in entries(modes) or []]
    if not groups or any(len(group) not in (1, 2) for group in groups):
        raise InvalidQuery(f"plot.margins: modes={modes!r}; list modes and pairs of modes, e.g. [0, (0, 1)].")
    return groups


def _choose_misplaced(pair: Pair, groups: Sequence[Modes], most: int) -> dict[Modes, PairTable]:
    """Sum X and Q onto each set of modes in `groups`; return the `most` tables with the largest misplaced shares.

    The tables are in the order of their modes, not of the shares.
    """
    tables = {group: pair.table(group) for group in groups}
    kept = sorted(sorted(groups, key=lambda group: -tables[group].misplaced)[:most])
    return {group: tables[group] for group in kept}


def _edge_strengths(fit: Decomposition, unit: str) -> tuple[dict[Any, float], dict[int, float], str]:
    """Return for `FitPlots.graph` the strength of each edge by its two modes, and what it is, as words of the title.

    `unit` is "gain", "share" or "kl". The second value has the share of each single mode; it is empty for gains.
    """
    if unit == "gain" and fit.graph is not None:
        words = "lines: nats of log-likelihood that an edge gained"
        return dict(zip(map(tuple, fit.graph.ends.tolist()), fit.graph.gains, strict=True)), {}, words
    effects = fit.effects(max_order=2)
    edges = {e.modes: e.share for e in effects if len(e.modes) == 2}
    words = "shares of the variance of log Q"
    if unit == "kl":
        edges = {pair: effects.kl_lost(pair) for pair in edges}
        words = "lines: KL(P, Q) lost without the pair, in nats"
    return edges, {e.modes[0]: e.share for e in effects if len(e.modes) == 1}, words


def _level_style(labels: Labels, k: int, many: int = 40) -> str:
    """Return matplotlib's format for a number at each level of mode k: dots, or a line if levels have an order.

    The line has dots too, unless there are more than `many` levels.
    """
    return "o" if not labels.is_ordered(k) else "o-" if labels.shape[k] <= many else "-"


def _draw_single(ax: Axes, pair: Pair, k: int, table: PairTable) -> None:
    """Draw the margin of mode k: X as an area with a step for each level, Q as dots or a line (see `_level_style`).

    The area is one patch, so that a mode may have many levels.
    """
    places = np.arange(len(table.x))
    ax.stairs(np.nan_to_num(table.x), np.arange(len(places) + 1) - 0.5, fill=True, color=LIGHT, label=pair.x_name)
    ax.plot(places, table.q, _level_style(pair.labels, k), color=BLUE, markersize=4, linewidth=1.8, label=pair.q_name)
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="y", nbins=4)
    ax.yaxis.set_major_formatter(format_number)
    level_ticks(ax, "x", pair.labels, k)


def _draw_line(
    ax: Axes, k: int, labels: Labels, places: IntArray, values: FloatArray, means: FloatArray | None
) -> None:
    """Draw the effect of mode k: the factor of each level, as a line, or as dots if levels have no order.

    `places`, `values` and observed `means` are as in `values_shown`; the means are drawn as orange diamonds.
    """
    ax.axhline(1, color=GREY, linewidth=0.8)
    ax.plot(places, np.exp(values), _level_style(labels, k), color=BLUE, markersize=5, linewidth=2)
    if means is not None:
        factors = np.where(np.isinf(means), np.nan, np.exp(means))
        ax.plot(places, factors, "D", color=ORANGE, markersize=4, fillstyle="none", zorder=3)
    set_factor_ticks(ax)
    level_ticks(ax, "x", labels, k)
    ax.set_ylabel("factor")


def _draw_map(ax: Axes, effect: Effect, labels: Labels, values: FloatArray, span: float) -> None:
    """Draw a joint effect of two modes as an image: the factor of each pair of levels beyond those of single modes.

    `values` are logarithms of factors, as in `values_shown`: pairs with hardly any data are NaN, and grey. Colours
    reach from the factor exp(-span) to exp(span).
    """
    image = _draw_table(ax, values, effect.labels.shape, {"cmap": DIVERGING, "vmin": -span, "vmax": span})
    add_factor_bar(ax, image, span)
    level_ticks(ax, "x", labels, effect.modes[1])  # after the bar, which leaves less room for ticks
    level_ticks(ax, "y", labels, effect.modes[0])


def _draw_quantity(fit: Decomposition, ax: Axes, quantity: str) -> Axes:
    """Draw one of QUANTITIES against the number of parameters while the basis grew; an orange dot marks the final size.

    The loss on held-out data has error bars, its standard errors.
    """
    sizes = [step.n_params for step in fit.path]
    values = [getattr(step, quantity) for step in fit.path]
    spread = [step.spread for step in fit.path] if quantity == "held_out" else None
    ax.errorbar(sizes, values, yerr=spread, fmt="o-", color=BLUE, markersize=4, linewidth=2, elinewidth=1)
    ax.plot(sizes[-1:], values[-1:], "o", color=ORANGE, markersize=10, zorder=3)
    ax.text(0.98, 0.9, f"{sizes[-1]:,} parameters", transform=ax.transAxes, ha="right", color=ORANGE, fontsize=SMALL)
    ax.set(xlabel="parameters", ylabel=QUANTITIES[quantity])
    set_integer_ticks(ax)
    return ax


def _tile_residuals(pair: Pair, kept: Modes, table: PairTable, tests: Inference | None) -> FloatArray:
    """Return the residuals that shade a mosaic plot: Pearson's, or with `tests` adjusted ones, in the order of `kept`.

    If X does not hold counts, they are differences. Those that are rounding errors become 0, and so does a residual
    where Q is 0.
    """
    if tests is not None:
        cells = pair.labels.indices(np.argwhere(np.ones(pair.labels.shape)))
        found = tests.residuals("adjusted", cells, indices=True).reshape(pair.labels.shape)
        residuals: FloatArray = np.nan_to_num(found).transpose(kept)
    else:
        residuals = table.x - table.q
        if pair.counts:
            residuals /= np.sqrt(np.where(table.q > 0, table.q, np.inf))
    residuals[np.abs(residuals) <= (EXACT if pair.counts else EXACT * np.nanmax(table.x))] = 0.0
    return residuals


def split_square(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split the unit square into the tiles of a mosaic plot, one for each cell of a table of up to four variables.

    The first variable splits the square from left to right, the second each strip from top to bottom, and so on; the
    lengths of the parts are in proportion to the counts. Return the starts and the lengths of the tiles, each an array
    of 2 (across, downwards) x the shape of the table. A level without counts gets a sliver, 0.2 % of the side.

    >>> split_square(np.array([[1.0], [3.0]]))[1][0].round(2).tolist()
    [[0.24], [0.73]]
    """
    # (2, n_0, ..., n_k-1) before the split by variable k; gaps become narrower from split to split
    starts, lengths = np.zeros(2), np.ones(2)
    for k, (n, gap) in enumerate(zip(counts.shape, (0.022, 0.016, 0.009, 0.006), strict=False)):
        sums, side = counts.sum(axis=tuple(range(k + 1, counts.ndim))), k % 2
        starts, lengths = (np.repeat(part[..., None], n, axis=-1) for part in (starts, lengths))
        total = np.maximum(sums.sum(axis=-1, keepdims=True), 1e-300)  # no division by 0 for an empty tile
        shares = np.maximum(sums / total, 0.002)
        gaps = np.minimum(gap, 0.3 * lengths[side] / n)  # at most 30 % of a short side are gaps
        lengths[side] = (lengths[side] - gaps * (n - 1)) * shares / shares.sum(axis=-1, keepdims=True)
        starts[side] += np.cumsum(lengths[side] + gaps, axis=-1) - lengths[side] - gaps  # all that lies before
    return starts, lengths


def _name_levels(ax: Axes, starts: FloatArray, ends: FloatArray, labels: Labels) -> None:
    """Write the names of a mosaic's levels: the first variable's below, the second's left, then above and right.

    `starts` and `ends` are those of the tiles: 2 (across, downwards) x the shape of the table. Names are centred at the
    tiles along that side of the picture. The third variable splits each part of the first again, so its names are
    repeated for each level of the first; likewise the fourth's for each level of the second.
    """
    ax.set_yticks([])
    # for each variable the tiles along its side of the picture: all, the leftmost, the topmost, the rightmost; their
    # first axis is the variable, for the third and fourth after the one that it splits again; then later variables
    beside = (), (0,), (slice(None), 0), (-1, slice(None), -1)
    for k, n in enumerate(labels.shape):
        side = k % 2  # 0: the variable splits across, with names along x; 1: downwards, along y
        owner: Any = ax
        if k > 1:
            owner = ax.secondary_yaxis("right") if side else ax.secondary_xaxis("top")
            owner.spines[:].set_visible(False)
        owner.tick_params(length=0, labelsize=SMALL if k < 2 else SMALL - 1)
        axis = owner.yaxis if side else owner.xaxis
        low, high = starts[side][beside[k]], ends[side][beside[k]]
        others = tuple(range(2 if k > 1 else 1, low.ndim))  # axes of later variables: a name spans all their tiles
        middles = ((low.min(axis=others) + high.max(axis=others)) / 2).ravel().tolist()
        texts, shared_start = write_ticks(labels.levels_of(k))
        names = texts * (len(middles) // n)
        # a name that would overlap the one before is left out; slanted names can be closer than lines of text
        least = 0.035 if side else 0.015
        apart = [i for i, middle in enumerate(middles) if not i or middle - middles[i - 1] > least]
        axis.set_ticks([middles[i] for i in apart], [names[i] for i in apart])
        axis.set_label_text(f"{labels.mode(k)}{shared_start}", fontsize=MEDIUM)
        if not side and (k or sum(len(name) + 2 for name in names) > 60):  # about 60 letters have room; else slant
            for text in axis.get_ticklabels():
                text.set(rotation=40, rotation_mode="anchor", ha="left" if k else "right", va="center")
