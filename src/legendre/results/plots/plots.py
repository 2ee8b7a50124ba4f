"""Pictures of X and Q, which every result offers: ``result.plot.slices()``, ``.residuals()``, ``.margins()``, ..."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from textwrap import fill
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from legendre.core import limits
from legendre.core.arguments import check_int, entries, is_whole
from legendre.core.errors import InvalidQuery
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
    axes_for,
    draw_literally,
    format_number,
    is_ordered,
    level_ticks,
    make_panels,
    set_integer_ticks,
)
from legendre.core.labels import Labels, Mode
from legendre.core.text import list_words, shorten
from legendre.core.types import FloatArray
from legendre.results.distribution import find_modes
from legendre.results.views import Modes, Pair, PairTable, largest_places, residuals_of, slice_modes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from legendre.results.base import Result

EXACT = 1e-6  # residuals up to this (counts: in standard deviations, else in largest entries) are rounding errors


@dataclass(frozen=True, eq=False)
class Plots:
    """Pictures of a result: ``.slices()``, ``.residuals()``, ``.margins()``, ``.mosaic()``, ``.history()``.

    A picture of one part draws into ``ax=`` where that is given, else into a new figure, and returns the axes; one of
    several parts returns its figure. Modes and levels are named by their labels.
    """

    result: Result
    pair: Pair
    residual_name: str = "max|eta - eta_hat|"

    @draw_literally
    def slices(self, mode: int | str | None = None, *, most: int = 3) -> Figure:
        """Draw slices of X and of Q side by side, with the residuals; of a matrix all of it.

        The slices with the largest totals and with the largest residuals are drawn. Of more than three modes three are
        shown, and entries are sums over the others. Residuals of counts are in standard deviations. Beside a completion
        without a basis is how wide the 90 % intervals of the missing cells are, if X has at most three modes.

        Parameters
        ----------
        mode
            The mode to slice along, by name or number. Default: the shortest of the three longest.
        most
            How many slices.

        Examples
        --------
        >>> import numpy as np, legendre as ld
        >>> figure = ld.decompose(np.arange(1, 61).reshape(3, 4, 5), "B1").plot.slices(mode=0, most=1)
        >>> [ax.get_title() for ax in figure.axes[:3]]
        ['mode 0, level 2: observed', 'mode 0, level 2: fitted', 'mode 0, level 2: residual']
        """
        pair, labels = self.pair, self.pair.labels
        check_int(most, "plot.slices: most", 1, InvalidQuery)
        if len(labels.shape) == 1:
            raise InvalidQuery("plot.slices: X has one mode, and no slices; plot.margins() draws it.")
        if len(labels.shape) == 2 and mode is not None:
            raise InvalidQuery("plot.slices: X is a matrix, drawn in one piece; mode= is for three modes and more.")
        modes = slice_modes(labels.shape, None if mode is None else labels.find_mode(mode, "plot.slices"))
        x, q = (part.reshape(-1, *part.shape[-2:]) for part in pair.table(modes, "plot.slices"))
        largest = float(np.nanmax(x))
        chosen = _choose_slices(x, q, most)
        x, q = x[chosen], q[chosen]
        left = residuals_of(pair, x, q)
        # a few large residuals would turn the others white: one in 200 is beyond the scale
        span = max(float(np.nanquantile(np.abs(left), 0.995)), EXACT * largest) or 1.0
        values, shades = _colours(np.concatenate([x, q])), {"cmap": DIVERGING, "vmin": -span, "vmax": span}
        parts = [(pair.seen, x, values), (pair.made, q, values), ("residual", left, shades)]
        if pair.width is not None and len(modes) == len(labels.shape) and np.isfinite(pair.width).any():
            width = pair.width.transpose(modes).reshape(-1, *x.shape[1:])
            parts.append(("width of 90 % interval", width[chosen], _colours(width)))
        n_parts = len(parts)
        figure, axes = make_panels("plot.slices", n_parts * len(chosen), n_parts, (4.6, 3.3))
        images: list[Any] = []
        for place, ax in enumerate(axes):
            row, (name, entries_of, colours) = place // n_parts, parts[place % n_parts]
            images.append(_draw_table(ax, entries_of[row], colours))
            level_ticks(ax, "x", labels, modes[-1])
            level_ticks(ax, "y", labels, modes[-2])
            unnamed = ", level" if labels.names is None else ""
            part = f"{labels.mode(modes[0])}{unnamed} {labels.level(modes[0], chosen[row])}"
            ax.set_title(name if len(modes) == 2 else f"{shorten(part, 28)}: {name}")
            ax.label_outer()
            if name == pair.made and x[row].size <= 2_500:  # few enough to see single entries
                for marker, marked in (("x", q[row] == 0), (".", np.isnan(x[row]) & ~np.isnan(q[row]))):
                    down, across = np.nonzero(marked)
                    ax.plot(across, down, marker, color="white", markersize=5, linestyle="")
        units = ("count", "standard deviations") if pair.counts else ("entry", "difference")
        add_colour_bar(axes[1::n_parts], images[1], units[0], pad=0.02, aspect=40)
        add_colour_bar(axes[2::n_parts], images[2], units[1], extend="both", pad=0.02, aspect=40)
        if n_parts == 4:
            add_colour_bar(axes[3::n_parts], images[3], units[0], pad=0.02, aspect=40)
        summed = [labels.mode(k) for k in range(len(labels.shape)) if k not in modes]
        notes = [
            f"{pair.seen.capitalize()}, {pair.made} and residual",
            f"summed over {', '.join(summed) if len(summed) <= 3 else f'{len(summed)} other modes'}" if summed else "",
            pair.note,
            "grey: no entry" if np.isnan(x).any() else "",
            "crosses: vanishing" if (q == 0).any() else "",
        ]
        figure.suptitle("; ".join(filter(None, notes)), fontsize=LARGE)
        return figure

    @draw_literally
    def residuals(self, ax: Axes | None = None, *, most: int = 5, max_dots: int = 200_000) -> Axes:
        """Draw X against Q, cell by cell, on logarithmic axes where entries differ much; name the worst cells.

        The worst are those with the largest residuals: for counts in standard deviations (signed square roots of the
        terms of the deviance), otherwise in X's units. Of more than `max_dots` cells every n-th is drawn.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], "B1").plot.residuals(most=1)
        >>> ax.texts[-1].get_text().splitlines()[2:]
        ['1  [1, 0]', '    6 observed, 12 fitted (-1.92 sd)']
        """
        pair = self.pair
        check_int(most, "plot.residuals: most", 0, InvalidQuery)
        found = pair.cells("plot.residuals")
        residuals = residuals_of(pair, found.x, found.q)
        least = EXACT if pair.counts else EXACT * found.x.max(initial=0.0)
        worst = largest_places(np.abs(residuals), most, least).tolist()
        ax = axes_for("plot.residuals", ax, (10.5, 5.2))
        ax.use_sticky_edges = False  # the worst cells lie at the edges
        _scale_axes(ax, found.x, found.q, pair.counts)
        n = len(found.x)
        step = -(-n // max_dots) or 1
        pale = max(0.6 * min(1.0, 500 / max(n, 1)) ** 0.35, 0.05)  # the more cells, the paler each
        ax.plot(found.q[::step], found.x[::step], "o", color=BLUE, markersize=4, alpha=pale, markeredgewidth=0)
        high = max(found.x.max(initial=0.0), found.q.max(initial=0.0))
        ax.plot([0.0, high], [0.0, high], color=GREY, linewidth=1)
        ax.plot(found.q[worst], found.x[worst], "o", color=ORANGE, markersize=7, fillstyle="none", markeredgewidth=1.5)
        listed = ["worst cells (sd: standard deviations)" if pair.counts else "worst cells"]
        words: dict[str, Any] = {"textcoords": "offset points", "color": ORANGE, "fontsize": MEDIUM, "weight": "bold"}
        sides = ((-15, -4), (8, -4), (-4, 8), (-4, -15))  # in turn, so that numbers of neighbours keep apart
        for rank, i in enumerate(worst, start=1):
            ax.annotate(str(rank), (found.q[i], found.x[i]), xytext=sides[rank % 4], **words)
            name = fill(shorten(pair.labels.cell(found.cell(i)), 132), 44, subsequent_indent="    ")
            numbers = f"{format_number(found.x[i])} {pair.seen}, {format_number(found.q[i])} {pair.made}"
            listed.append(f"{rank}  {name}\n    {numbers} ({residuals[i]:+.3g}{' sd' if pair.counts else ''})")
        if worst:
            ax.text(1.02, 1.0, "\n\n".join(listed), transform=ax.transAxes, va="top", fontsize=SMALL)
        notes = [f"{n:,} cells" + (f", one in {step} drawn" if step > 1 else ""), found.note, pair.note]
        notes += ["none is off by more than rounding errors"] if most and not worst else []
        ax.set(xlabel=pair.made, ylabel=pair.seen, title="; ".join(filter(None, notes)))
        return ax

    @draw_literally
    def margins(self, modes: Sequence[Any] | None = None, *, most: int = 6) -> Figure:
        """Draw sums of X and of Q over all modes but one or two, and which share of the total Q has elsewhere.

        Single modes are drawn as bars (X) with a line or dots (Q), pairs of modes as X against Q.

        Parameters
        ----------
        modes
            Modes and pairs of modes, e.g. ``["hour", ("carrier", "dest")]``. Default: those in which most is misplaced.
        most
            How many modes, and how many pairs.

        Examples
        --------
        >>> import legendre as ld
        >>> figure = ld.decompose([[18, 7], [6, 19]], "B1").plot.margins()
        >>> [ax.get_title() for ax in figure.axes]
        ['mode 0: 0 % misplaced', 'mode 1: 0 % misplaced', 'mode 0 and mode 1: 24.0 % misplaced']
        """
        pair = self.pair
        check_int(most, "plot.margins: most", 1, InvalidQuery)
        if modes is not None:
            tables = {group: pair.table(group, "plot.margins") for group in _read_groups(pair.labels, modes)}
        else:
            shape = pair.labels.shape
            tables = _choose_misplaced(pair, [(k,) for k in range(len(shape))], most)
            among = range(len(shape)) if len(shape) <= 8 else sorted(k for (k,) in tables)  # all pairs of few modes
            couples = [(i, j) for i, j in combinations(among, 2) if shape[i] * shape[j] <= limits.LARGEST_GRID]
            tables |= _choose_misplaced(pair, couples, most)
        figure, axes = make_panels("plot.margins", len(tables), 3 if len(tables) != 4 else 2)
        for ax, (group, table) in zip(axes, tables.items(), strict=True):
            if len(group) == 1:
                _draw_single(ax, pair, group[0], table)
            else:
                _draw_couple(ax, pair, table)
            share = table.misplaced
            amount = f"{100 * share:.1f} %" if share >= 0.0005 else "0 %" if share < 1e-8 else "< 0.1 %"
            ax.set_title(f"{shorten(list_words([pair.labels.mode(k) for k in group]), 30)}: {amount} misplaced")
        singles = [ax for ax, group in zip(axes, tables, strict=True) if len(group) == 1]
        if singles:
            parts = singles[0].get_legend_handles_labels()
            figure.legend(*parts, loc="outside lower center", ncols=2, fontsize=SMALL, frameon=False)
        head = f"Sums over all other modes; misplaced: what lies elsewhere in the {pair.made} ones"
        figure.suptitle(f"{head}\n{pair.note}".rstrip(), fontsize=LARGE)
        return figure

    @draw_literally
    def mosaic(self, modes: Mode | Sequence[Mode] | None = None, ax: Axes | None = None) -> Axes:
        """Draw a tile for each cell, its area the count, its shade the residual from the fit.

        The first mode splits the square from left to right, the second from top to bottom, and so on. Shades begin
        where a Pearson residual is beyond 2 and darken beyond 4. A cell without counts is a sliver; one outside the
        support, a structural zero, is outlined.

        Parameters
        ----------
        modes
            Up to four modes, by name or number, in the order of the splits; others are summed over. Default: all.
        ax
            Where to draw; a new figure by default.

        Examples
        --------
        >>> import legendre as ld
        >>> ax = ld.decompose([[18, 7], [6, 19]], "B1").plot.mosaic()
        >>> len(ax.patches), ax.get_xlabel(), ax.get_ylabel()
        (4, 'mode 0', 'mode 1')
        """
        return _draw_mosaic(self.pair, modes, ax)

    @draw_literally
    def history(self, ax: Axes | None = None) -> Axes:
        """Draw the certificate: how the residual, which is 0 at the minimum, fell from step to step.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.decompose([[1, 2], [3, 4]], "B1").plot.history().get_ylabel()
        'max|eta - eta_hat|'
        """
        ax, history = axes_for("plot.history", ax), self.result.history
        tol, solver = getattr(self.result, "tol", 0.0), getattr(self.result, "solver", "")
        residuals = [max(step.residual, np.finfo(np.float64).tiny) for step in history]
        ax.semilogy([step.iteration for step in history], residuals, "o-", color=BLUE, markersize=5, linewidth=2)
        if tol > 0:
            ax.axhline(tol, color=ORANGE, linewidth=1.5)
            ax.text(0, tol, f"tol = {tol:g}", va="bottom", color=ORANGE, fontsize=SMALL)
        status = self.result.status.name
        ax.set(xlabel="step", ylabel=self.residual_name, title=f"{solver}: {status}" if solver else status)
        set_integer_ticks(ax)
        return ax


def _choose_slices(x: FloatArray, q: FloatArray, most: int) -> list[int]:
    """Choose slices in turn: those with the largest misfits, and those with the largest totals."""
    ranked = [np.argsort(-np.nansum(part, axis=(1, 2)), kind="stable") for part in (np.abs(x - q), x)]
    return sorted(list(dict.fromkeys(np.stack(ranked, axis=1).ravel().tolist()))[:most])


def _colours(values: FloatArray) -> dict[str, Any]:
    """Choose a scale of colours: of square or fourth roots where a few entries are far larger than most."""
    from matplotlib.colors import PowerNorm

    high, positive = float(np.nanmax(values)) or 1.0, values[values > 0]
    skew = high / float(np.median(positive)) if positive.size else 1.0
    return {"cmap": RISING, "norm": PowerNorm(1.0 if skew <= 4 else 0.5 if skew <= 300 else 0.25, 0.0, high)}


def _draw_table(ax: Axes, values: FloatArray, colours: dict[str, Any]) -> Any:
    """Draw a table, NaN in grey; cells are square unless the picture would be a strip."""
    square = min(values.shape) > 1 and max(values.shape) <= 3 * min(values.shape)
    ax.set_facecolor(LIGHT)
    aspect: Any = "equal" if square else "auto"
    return ax.imshow(np.ma.masked_invalid(values), aspect=aspect, interpolation="nearest", **colours)


def _scale_axes(ax: Axes, x: FloatArray, q: FloatArray, counts: bool) -> None:
    """Make both axes logarithmic where entries differ by a factor of 30, and linear near 0."""
    positive = x[x > 0]
    if positive.size and positive.max() >= 30 * min(positive.min(), q.min()):
        linear = 1.0 if counts else float(np.quantile(positive, 0.02))
        for scale, axis in ((ax.set_xscale, ax.xaxis), (ax.set_yscale, ax.yaxis)):
            scale("symlog", linthresh=linear, linscale=0.6)
            axis.set_major_formatter(format_number)


def _read_groups(labels: Labels, modes: Sequence[Any]) -> list[Modes]:
    """Read the modes and pairs of modes that a caller lists."""
    listed = [modes] if isinstance(modes, str) or is_whole(modes) else entries(modes)
    if not listed:
        raise InvalidQuery(f"plot.margins: modes={modes!r}; list modes and pairs of modes, e.g. [0, (0, 1)].")
    groups = [tuple(find_modes(labels, group, "plot.margins")) for group in listed]
    if any(len(group) not in (1, 2) for group in groups):
        raise InvalidQuery(f"plot.margins: modes={modes!r}; each must be a mode or a pair of modes.")
    return groups


def _choose_misplaced(pair: Pair, groups: Sequence[Modes], most: int) -> dict[Modes, PairTable]:
    tables = {group: pair.table(group, "plot.margins") for group in groups}
    kept = sorted(sorted(groups, key=lambda group: -tables[group].misplaced)[:most])
    return {group: tables[group] for group in kept}


def _draw_single(ax: Axes, pair: Pair, k: int, table: PairTable) -> None:
    """Draw X as bars or, of more than 40 levels, as an area; Q as dots or a line before it."""
    places, few = np.arange(len(table.x)), len(table.x) <= 40
    line = is_ordered(pair.labels, k) and len(places) > 2
    if few:
        ax.bar(places, np.nan_to_num(table.x), color=LIGHT, label=pair.seen)
    else:
        ax.fill_between(places, np.nan_to_num(table.x), color=LIGHT, step="mid", label=pair.seen)
    style = ("o-" if few else "-") if line else "o"
    ax.plot(places, table.q, style, color=BLUE, markersize=4, linewidth=1.8, label=pair.made)
    ax.set_ylim(bottom=0)
    ax.locator_params(axis="y", nbins=4)
    ax.yaxis.set_major_formatter(format_number)
    level_ticks(ax, "x", pair.labels, k)


def _draw_couple(ax: Axes, pair: Pair, table: PairTable) -> None:
    """Draw each entry of a table, X against Q."""
    inside = ~np.isnan(table.x)
    x, q = table.x[inside], table.q[inside]
    ax.plot([0, float(q.max())], [0, float(q.max())], color=GREY, linewidth=1)
    ax.plot(q, x, "o", color=BLUE, markersize=3.5, alpha=0.5, markeredgewidth=0)
    ax.set(xlabel=pair.made, ylabel=pair.seen)
    _scale_axes(ax, x, q, pair.counts)


def _draw_mosaic(pair: Pair, modes: Mode | Sequence[Mode] | None, ax: Axes | None) -> Axes:
    """Draw the tiles, shaded by Pearson residuals, and the levels on all four sides."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Rectangle

    kept = tuple(find_modes(pair.labels, range(len(pair.labels.shape)) if modes is None else modes, "plot.mosaic"))
    labels = pair.labels.part(kept)
    if len(kept) > 4 or math.prod(labels.shape) > 600:
        raise InvalidQuery(
            f"plot.mosaic: {len(kept)} variables with {math.prod(labels.shape):,} tiles; at most 4 variables and 600 "
            "tiles can be read. Name some: plot.mosaic(['a', 'b']); the others are summed over."
        )
    table = pair.table(kept, "plot.mosaic")
    residuals = table.x - table.q
    if pair.counts:  # mosaics have always had Pearson residuals
        residuals = np.divide(residuals, np.sqrt(table.q), out=np.zeros(table.q.shape), where=table.q > 0)
    starts, lengths = split_square(np.nan_to_num(table.x))
    ax = axes_for("plot.mosaic", ax, (8.4, 6.8))
    bounds = [-8.0, -4.0, -2.0, 2.0, 4.0, 8.0]  # beyond 2 unusual, beyond 4 very much so; between them grey
    steps = colormaps[DIVERGING]([0.06, 0.27, 0.5, 0.73, 0.94])
    steps[2] = 0.9, 0.9, 0.9, 1.0
    shades = ScalarMappable(BoundaryNorm(bounds, 5), ListedColormap(steps))
    for cell in np.ndindex(table.x.shape):
        style: dict[str, Any] = {"fill": False, "linestyle": "--", "edgecolor": "0.2", "lw": 1.2}  # a structural zero
        if not np.isnan(table.x[cell]):
            style = {"facecolor": shades.to_rgba(np.clip(residuals[cell], -7.9, 7.9)), "edgecolor": GREY, "lw": 0.8}
        ax.add_patch(Rectangle(tuple(starts[:, *cell]), *lengths[:, *cell], **style))
    _name_levels(ax, starts, starts + lengths, labels)
    ax.set(xlim=(-0.004, 1.004), ylim=(1.004, -0.004))  # edges are not cut
    ax.spines[:].set_visible(False)
    kind = "Pearson residual" if pair.counts else "difference"
    add_colour_bar(ax, shades, kind, shrink=0.7, pad=0.12, ticks=bounds[1:-1])
    names = shorten(list_words([labels.mode(k) for k in range(len(kept))]), 30)
    ax.set_title(f"{names} (areas: {pair.seen}; shades: residuals)")
    return ax


def split_square(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split the unit square by the first variable from left to right, by the second from top to bottom, and so on.

    Return starts and lengths of the tiles, each across and downwards. A level without counts is a sliver, thinner than
    any with counts.

    >>> split_square(np.array([[1.0], [3.0]]))[1][0].round(2).tolist()
    [[0.24], [0.73]]
    """
    starts, lengths = np.zeros(2), np.ones(2)
    for k, (n, gap) in enumerate(zip(counts.shape, (0.022, 0.016, 0.009, 0.006), strict=False)):
        sums, side = counts.sum(axis=tuple(range(k + 1, counts.ndim))), k % 2
        starts, lengths = (np.repeat(part[..., None], n, axis=-1) for part in (starts, lengths))
        total = np.maximum(sums.sum(axis=-1, keepdims=True), 1e-300)
        thin = np.where(sums > 0, sums / total, 0.03).min(axis=-1, keepdims=True) / 3
        shares = np.where(sums > 0, sums / total, thin)
        gaps = np.minimum(gap, 0.3 * lengths[side] / n)
        lengths[side] = (lengths[side] - gaps * (n - 1)) * shares / shares.sum(axis=-1, keepdims=True)
        starts[side] += np.cumsum(lengths[side] + gaps, axis=-1) - lengths[side] - gaps
    return starts, lengths


def _name_levels(ax: Axes, starts: FloatArray, ends: FloatArray, labels: Labels) -> None:
    """Write the levels: the first variable below, the second on the left, the third above, the fourth on the right."""
    ax.set_yticks([])
    # the tiles beside which names stand, and what they are the names of: a third variable for each level of the first
    beside: tuple[Any, ...] = (), (0,), (slice(None), 0), (-1, slice(None), -1)
    for k, n in enumerate(labels.shape):
        side, axis = k % 2, cast(Any, ax)
        if k > 1:
            axis = ax.secondary_yaxis("right") if side else ax.secondary_xaxis("top")
            axis.spines[:].set_visible(False)
        axis.tick_params(length=0, labelsize=SMALL if k < 2 else SMALL - 1)
        low, high = starts[side][beside[k]], ends[side][beside[k]]
        others = tuple(range(2 if k > 1 else 1, low.ndim))
        middles = ((low.min(axis=others) + high.max(axis=others)) / 2).ravel().tolist()
        names = [labels.level(k, i) for i in range(n)] * (len(middles) // n)
        if side:  # from top to bottom, but for those that would lie upon the one before
            apart = [i for i, middle in enumerate(middles) if not i or middle - middles[i - 1] > 0.035]
            axis.set_yticks([middles[i] for i in apart], [names[i] for i in apart])
            axis.set_ylabel(labels.mode(k), fontsize=MEDIUM)
            continue
        axis.set_xticks(middles, names)
        axis.set_xlabel(labels.mode(k), fontsize=MEDIUM)
        if k or sum(len(name) + 2 for name in names) > 60:  # names without room are slanted
            for text in axis.get_xticklabels():
                text.set(rotation=40, rotation_mode="anchor", ha="left" if k else "right", va="center")
