"""The picture of slices: X, Q and what is left, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidQuery
from legendre.core.figures import DIVERGING, LIGHT, RISING, colour_bar, heading, panels
from legendre.core.labels import Labels
from legendre.core.text_table import shortened
from legendre.core.ticks import level_ticks, named_level
from legendre.core.types import FloatArray
from legendre.results.plots.pair import Modes, Pair, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 300.0  # largest over median entry from which colours are logarithmic, so that more than the peaks is seen
UNEVEN = 4.0  # the same from which they go with the square root
FEW_CELLS = 2_500  # entries of a slice up to which single ones are marked
FEW_MODES = 3  # modes that are summed over and named
EXACT = 1e-6  # residuals below this share of the largest entry are rounding errors: they have no colour
CLIPPED = 0.995  # share of residuals within the range of colours: a few large ones would turn the others white


def draw(pair: Pair, mode: int | str | None, most: int) -> Figure:
    """Draw the most telling slices; of a matrix all of it, of more than three modes sums over those not shown."""
    if not is_whole(most, 1):
        raise InvalidQuery(f"plot.slices: most={most!r}; it must be an integer >= 1.")
    if len(pair.shape) < 2:
        raise InvalidQuery("plot.slices: X has one mode, and no slices; plot.margins() draws it.")
    modes = _modes(pair.labels, mode)
    table = pair.table(modes, "plot.slices")
    if len(modes) == 2:
        table = Table(table.x[None], table.q[None])
    chosen = telling(table, most)
    left = pair.residuals(table.x, table.q)[chosen]
    figure, axes = panels("plot.slices", 3 * len(chosen), 3, (4.6, 3.3))
    values = _colours(np.concatenate([table.x[chosen], table.q[chosen]]), pair.counts)
    span = max(float(np.nanquantile(np.abs(left), CLIPPED)), EXACT * float(np.nanmax(table.x))) or 1.0
    shades = {"cmap": DIVERGING, "vmin": -span, "vmax": span}
    images: dict[int, Any] = {}
    for row, i in enumerate(chosen):
        parts = (pair.seen, table.x[i], values), (pair.made, table.q[i], values), ("residual", left[row], shades)
        for column, (name, entries, colours) in enumerate(parts):
            ax = axes[3 * row + column]
            images[column] = _picture(ax, entries, colours)
            level_ticks(ax, "x", pair.labels, modes[-1], np.nansum(table.x[chosen], axis=(0, 1)))
            level_ticks(ax, "y", pair.labels, modes[-2], np.nansum(table.x[chosen], axis=(0, 2)))
            part = "" if len(modes) == 2 else f"{shortened(named_level(pair.labels, modes[0], i), 28)}: "
            ax.set_title(f"{part}{name}")
            ax.label_outer()
        _mark(axes[3 * row + 1], table.x[i], table.q[i])
    colour_bar(axes[1::3], images[1], pair.units[0], pad=0.02, aspect=40)
    colour_bar(axes[2::3], images[2], pair.units[1], extend="both", pad=0.02, aspect=40)
    summed = [pair.labels.mode(k) for k in range(len(pair.shape)) if k not in modes]
    notes = [f"summed over {', '.join(summed) if len(summed) <= FEW_MODES else f'{len(summed)} other modes'}"]
    notes = notes if summed else []
    notes += [note] if (note := pair.cells_told()) else []
    notes += ["grey: no entry"] if np.isnan(table.x[chosen]).any() else []
    notes += ["crosses: vanishing"] if (table.q[chosen] == 0).any() else []
    heading(figure, f"{pair.seen.capitalize()}, {pair.made} and residual" + "".join(f"; {note}" for note in notes))
    return figure


def telling(table: Table, most: int) -> list[int]:
    """Choose slices: in turn that with most of the total, and that with most of what Q leaves, among those left."""
    axes = tuple(range(1, table.x.ndim))
    by_total = np.argsort(-np.nansum(table.x, axis=axes), kind="stable").tolist()
    by_rest = np.argsort(-np.nansum(np.abs(table.x - table.q), axis=axes), kind="stable").tolist()
    chosen = list[int]()
    for turn in range(min(most, len(by_total))):
        chosen.append(next(i for i in (by_rest if turn % 2 else by_total) if i not in chosen))
    return sorted(chosen)


def _modes(labels: Labels, mode: int | str | None) -> Modes:
    """Choose the mode to slice along and the two that are drawn: of the three longest modes the squarest slices."""
    shape = labels.shape
    if len(shape) == 2:
        if mode is not None:
            raise InvalidQuery("plot.slices: X is a matrix, and drawn whole; mode= is for three modes and more.")
        modes: Modes = (0, 1)
    else:
        given = [] if mode is None else [labels.find_mode(mode, "plot.slices")]
        rest = sorted((k for k in range(len(shape)) if k not in given), key=lambda k: -shape[k])
        three = given + rest[: 3 - len(given)]
        along = given[0] if given else min(three, key=lambda k: _oblong(shape, [j for j in three if j != k]))
        modes = along, *sorted(k for k in three if k != along)
    size = int(np.prod([float(shape[k]) for k in modes]))
    if size > limits.LARGEST_HELD:
        raise InvalidQuery(
            f"plot.slices: the slices have {size:,} entries together; at most {limits.LARGEST_HELD:,} are formed. "
            "plot.margins() draws single modes and pairs."
        )
    return modes


def _oblong(shape: tuple[int, ...], pair: list[int]) -> float:
    long, short = max(shape[k] for k in pair), min(shape[k] for k in pair)
    return long / short


def _colours(values: FloatArray, counts: bool) -> dict[str, Any]:
    """Choose a scale of colours: logarithmic or of square roots where a few entries are far larger than most."""
    from matplotlib.colors import Normalize, PowerNorm, SymLogNorm

    high, positive = float(np.nanmax(values)) or 1.0, values[values > 0]
    skew = high / float(np.median(positive)) if positive.size else 1.0
    if skew > WIDE:
        linear = 1.0 if counts else float(np.median(positive))
        return {"cmap": RISING, "norm": SymLogNorm(linear, vmin=0.0, vmax=high)}
    return {"cmap": RISING, "norm": PowerNorm(0.5, 0.0, high) if skew > UNEVEN else Normalize(0.0, high)}


def _picture(ax: Axes, entries: FloatArray, colours: dict[str, Any]) -> Any:
    """Draw a table; what is no number stays grey."""
    near = max(entries.shape) <= 3 * min(entries.shape)  # cells are square unless the picture would be a strip
    aspect: Any = "equal" if near and min(entries.shape) > 1 else "auto"
    ax.set_facecolor(LIGHT)
    return ax.imshow(np.ma.masked_invalid(entries), aspect=aspect, interpolation="nearest", **colours)


def _mark(ax: Axes, x: FloatArray, q: FloatArray) -> None:
    """Cross out the cells of Q that vanish; dot those that are missing in X, where there are few enough to see."""
    if x.size <= FEW_CELLS:
        for marker, marked in (("x", q == 0), (".", np.isnan(x) & ~np.isnan(q))):
            rows, columns = np.nonzero(marked)
            ax.plot(columns, rows, marker, color="white", markersize=5, markeredgewidth=1, linestyle="")
