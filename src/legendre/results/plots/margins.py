"""The picture of margins: sums of X and of Q over all modes but one or two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import entries, is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.figures import BLUE, GREY, LIGHT, SMALL, heading, panels
from legendre.core.labels import Labels
from legendre.core.text_table import listed_words, shortened
from legendre.core.ticks import is_ordered, level_ticks, plain
from legendre.core.types import FloatArray
from legendre.results.plots.pair import Modes, Pair, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW_LEVELS = 40  # levels up to which X is drawn as bars
SKEW = 8.0  # largest over median entry from which the axes of pairs go with the square root
FEW_MODES = 8  # modes up to which all pairs are compared; of more, pairs of those that are drawn


def draw(pair: Pair, modes: Sequence[Any] | None, most: int) -> Figure:
    """Draw margins of single modes as bars and lines, of pairs of modes as X against Q."""
    if not is_whole(most, 1):
        raise InvalidQuery(f"plot.margins: most={most!r}; it must be an integer >= 1.")
    drawn = _largest(pair, most) if modes is None else _asked(pair, modes)
    across = 3 if len(drawn) != 4 else 2
    figure, axes = panels("plot.margins", len(drawn), across)
    for ax, (group, table) in zip(axes, drawn.items(), strict=True):
        name = shortened(listed_words([pair.labels.mode(k) for k in group]), 30)
        (_one if len(group) == 1 else _two)(ax, pair, group, table)
        ax.set_title(f"{name}: {_share(table.misplaced)} misplaced")
    ones = [ax for ax, group in zip(axes, drawn, strict=True) if len(group) == 1]
    if ones:
        parts = ones[0].get_legend_handles_labels()
        figure.legend(*parts, loc="outside lower center", ncols=2, fontsize=SMALL, frameon=False)
    note = pair.cells_told()
    told = f"Sums over all other modes; misplaced: what lies elsewhere in the {pair.made} ones"
    heading(figure, told + (f"\n{note}" if note else ""))
    return figure


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.0005 else "0 %" if share < 1e-8 else "< 0.1 %"


def _asked(pair: Pair, modes: Sequence[Any]) -> dict[Modes, Table]:
    """Read the modes and pairs of modes that a caller lists."""
    listed = [modes] if isinstance(modes, str) or is_whole(modes) else entries(modes)
    if not listed:
        raise InvalidQuery(f"plot.margins: modes={modes!r}; list modes and pairs of modes, e.g. [0, (0, 1)].")
    groups = [tuple(_found(pair.labels, k) for k in (entries(group) or [group])) for group in listed]
    for group in groups:
        if len(group) > 2 or len(set(group)) < len(group):
            raise InvalidQuery(f"plot.margins: {group} is neither a mode nor a pair of modes.")
    return {group: pair.table(group, "plot.margins") for group in groups}


def _found(labels: Labels, key: object) -> int:
    return labels.find_mode(key, "plot.margins")


def _largest(pair: Pair, most: int) -> dict[Modes, Table]:
    """Choose modes, and then pairs of modes, in which most is misplaced."""
    order = len(pair.shape)
    ones = _worst(pair, [(k,) for k in range(order)], most)
    among = range(order) if order <= FEW_MODES else sorted(k for (k,) in ones)
    sizes = {(i, j): pair.shape[i] * pair.shape[j] for i, j in combinations(among, 2)}
    return ones | _worst(pair, [group for group, n in sizes.items() if n <= limits.LARGEST_GRID], most)


def _worst(pair: Pair, groups: list[Modes], most: int) -> dict[Modes, Table]:
    tables = {group: pair.table(group, "plot.margins") for group in groups}
    kept = sorted(sorted(groups, key=lambda group: -tables[group].misplaced)[:most])
    return {group: tables[group] for group in kept}


def _one(ax: Axes, pair: Pair, group: Modes, table: Table) -> None:
    """Draw X as bars or as an area, Q as dots or a line before it."""
    places = np.arange(len(table.x))
    line = is_ordered(pair.labels, group[0]) and len(places) > 2
    if len(places) <= FEW_LEVELS:
        ax.bar(places, np.nan_to_num(table.x), color=LIGHT, label=pair.seen)
    else:
        ax.fill_between(places, np.nan_to_num(table.x), color=LIGHT, step="mid", label=pair.seen)
    style = ("o-" if len(places) <= FEW_LEVELS else "-") if line else "o"
    ax.plot(places, table.q, style, color=BLUE, markersize=4, linewidth=1.8, label=pair.made)
    ax.set_ylim(bottom=0)
    _plain_numbers(ax, "y")
    level_ticks(ax, "x", pair.labels, group[0], np.nan_to_num(table.x))


def _two(ax: Axes, pair: Pair, group: Modes, table: Table) -> None:
    """Draw each entry of a table, X against Q; on axes of square roots where few are far larger than most."""
    del group
    inside = ~np.isnan(table.x)
    x, q = table.x[inside], table.q[inside]
    ax.plot([0, float(q.max())], [0, float(q.max())], color=GREY, linewidth=1)
    ax.plot(q, x, "o", color=BLUE, markersize=3.5, alpha=0.5, markeredgewidth=0)
    positive = x[x > 0]
    if positive.size and positive.max() > SKEW * float(np.median(positive)):
        for axis in ("x", "y"):
            getattr(ax, f"set_{axis}scale")("function", functions=(_root, _square))
    ax.set(xlabel=pair.made, ylabel=pair.seen)
    for axis in ("x", "y"):
        _plain_numbers(ax, axis)


def _root(values: FloatArray) -> FloatArray:
    return np.sign(values) * np.sqrt(np.abs(values))


def _square(values: FloatArray) -> FloatArray:
    return np.sign(values) * values * values


def _plain_numbers(ax: Axes, axis: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    along = ax.xaxis if axis == "x" else ax.yaxis
    along.set_major_locator(MaxNLocator(nbins=3 if axis == "x" else 4))
    along.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))
