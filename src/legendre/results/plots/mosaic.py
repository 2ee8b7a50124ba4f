"""A mosaic: a tile for each cell, as large as its count, shaded by how far the count lies from the model's mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.figures import DIVERGING, GREY, MEDIUM, SMALL, add_colour_bar, axes_for
from legendre.core.labels import Labels, Mode
from legendre.core.text import listed_words, shortened
from legendre.core.types import FloatArray
from legendre.results.distribution import find_modes
from legendre.results.views import Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_mosaic(
    pair: Pair, modes: Mode | Sequence[Mode] | None, ax: Axes | None, adjusted: FloatArray | None = None
) -> Axes:
    """Draw the tiles, their shades (Pearson residuals, or adjusted ones) and the levels on all four sides."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap
    from matplotlib.patches import Rectangle

    kept = _read_modes(pair.labels, modes)
    table, labels = pair.table(kept, "plot.mosaic"), pair.labels.part(kept)
    residuals = table.x - table.q
    if pair.counts:  # mosaics have always had Pearson residuals
        residuals = np.divide(residuals, np.sqrt(table.q), out=np.zeros(table.q.shape), where=table.q > 0)
    residuals = residuals if adjusted is None else np.nan_to_num(adjusted)
    starts, lengths = split_square(np.nan_to_num(table.x))
    ax = axes_for("plot.mosaic", ax, (8.4, 6.8))
    bounds = [-8.0, -4.0, -2.0, 2.0, 4.0, 8.0]  # beyond 2 unusual, beyond 4 very much so; between them grey
    low, high = ([colormaps[DIVERGING](at) for at in some] for some in ((0.06, 0.27), (0.73, 0.94)))
    steps = ListedColormap([*low, (0.9, 0.9, 0.9, 1.0), *high])
    shades = ScalarMappable(BoundaryNorm(bounds, steps.N), steps)
    for cell in np.ndindex(table.x.shape):
        style: dict[str, Any] = {"fill": False, "linestyle": "--", "edgecolor": "0.2", "lw": 1.2}  # a structural zero
        if not np.isnan(table.x[cell]):
            style = {"facecolor": shades.to_rgba(np.clip(residuals[cell], -7.9, 7.9)), "edgecolor": GREY, "lw": 0.8}
        ax.add_patch(Rectangle(tuple(starts[:, *cell]), *lengths[:, *cell], **style))
    _name_levels(ax, starts, starts + lengths, labels)
    ax.set(xlim=(-0.004, 1.004), ylim=(1.004, -0.004))  # edges are not cut
    ax.spines[:].set_visible(False)
    kind = "adjusted residual" if adjusted is not None else "Pearson residual" if pair.counts else "difference"
    add_colour_bar(ax, shades, kind, shrink=0.7, pad=0.12, ticks=bounds[1:-1])
    names = shortened(listed_words([labels.mode(k) for k in range(len(kept))]), 30)
    ax.set_title(f"{names} (areas: {pair.seen}; shades: residuals)")
    return ax


def _read_modes(
    labels: Labels, modes: Mode | Sequence[Mode] | None, most: int = 4, tiles: int = 600
) -> tuple[int, ...]:
    kept = tuple(find_modes(labels, range(len(labels.shape)) if modes is None else modes, "plot.mosaic"))
    size = math.prod(labels.shape[k] for k in kept)
    if len(kept) > most or size > tiles:
        raise InvalidQuery(
            f"plot.mosaic: {len(kept)} variables with {size:,} tiles; at most {most} variables and {tiles} "
            "tiles can be read. Name some: plot.mosaic(['a', 'b']); the others are summed over."
        )
    return kept


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
        least, total = 0.3 * lengths[side] / n, sums.sum(axis=-1, keepdims=True)
        shares = sums / np.where(total > 0, total, 1.0)
        thin = np.where(sums > 0, shares, 1.0).min(axis=-1, keepdims=True) / 3 * lengths[side]
        gaps, slivers = np.minimum(gap, least), np.where(sums == 0, np.minimum(np.minimum(0.012, thin), least), 0.0)
        free = lengths[side] - gaps * (n - 1) - slivers.sum(axis=-1, keepdims=True)
        lengths[side] = slivers + free * np.where(total > 0, shares, 1.0 / n)
        starts[side] += np.cumsum(lengths[side] + gaps, axis=-1) - lengths[side] - gaps
    return starts, lengths


def _name_levels(ax: Axes, starts: FloatArray, ends: FloatArray, labels: Labels) -> None:
    """Write the levels: the first variable below, the second on the left, the third above, the fourth on the right."""
    ax.tick_params(length=0, labelsize=SMALL)
    ax.set_yticks([])
    # the tiles beside which names stand, and what they are the names of: a third variable for each level of the first
    beside: tuple[Any, ...] = (), (0,), (slice(None), 0), (-1, slice(None), -1)
    for k in range(len(labels.shape)):
        side, axis = k % 2, cast(Any, ax)
        if k > 1:
            axis = ax.secondary_yaxis("right") if side else ax.secondary_xaxis("top")
            axis.tick_params(length=0, labelsize=SMALL - 1)
            axis.spines[:].set_visible(False)
        low, high = starts[side][beside[k]], ends[side][beside[k]]
        others = tuple(range(2 if k > 1 else 1, low.ndim))
        middles = (low.min(axis=others) + high.max(axis=others)) / 2
        names = [labels.level(k, i) for i in range(labels.shape[k])] * (middles.size // labels.shape[k])
        marks = list(zip(middles.ravel().tolist(), names, strict=True))
        (_write_down if side else _write_across)(axis, marks, labels.mode(k), k > 1)


def _write_across(axis: Any, marks: list[tuple[float, str]], name: str, above: bool) -> None:
    """Write levels from left to right; slanted where they may run into each other."""
    axis.set_xticks([at for at, _ in marks], [text for _, text in marks])
    if above or sum(len(text) + 2 for _, text in marks) > 60:  # letters that have room
        for text in axis.get_xticklabels():
            text.set(rotation=40, ha="left" if above else "right", va="bottom" if above else "top")
            text.set_rotation_mode("anchor")
    axis.set_xlabel(name, fontsize=MEDIUM)


def _write_down(axis: Any, marks: list[tuple[float, str]], name: str, _: bool) -> None:
    """Write levels from top to bottom, but for those that would lie upon the one before."""
    shown = marks[:1]
    for mark in marks[1:]:
        shown += [mark] if abs(shown[-1][0] - mark[0]) > 0.035 else []
    axis.set_yticks([at for at, _ in shown], [text for _, text in shown])
    axis.set_ylabel(name, fontsize=MEDIUM)
