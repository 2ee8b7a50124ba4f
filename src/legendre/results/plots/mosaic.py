"""A mosaic: a tile for each cell, as large as its count, shaded by how far the count lies from the model's mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.arguments import entries
from legendre.core.errors import InvalidQuery
from legendre.core.figures import DIVERGING, GREY, MEDIUM, SMALL, axes_for, colour_bar
from legendre.core.labels import Labels, Mode
from legendre.core.text_table import listed_words
from legendre.core.types import FloatArray
from legendre.results.plots.pair import Pair, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_MODES = 4
MOST_TILES = 600
GAPS = (0.022, 0.016, 0.009, 0.006)  # between the tiles of one split, outer ones first
SLIVER = 0.012  # length of a tile without counts: a mark has room in it
BOUNDS = (-8.0, -4.0, -2.0, 0.0, 2.0, 4.0, 8.0)  # of residuals: beyond 2 unusual, beyond 4 very much so
SIZE = (8.4, 6.8)
WIDE, LETTER, LINE = 5.4, 0.085, 0.035  # inches of the square, of a letter, and the share of a line of text


@dataclass(frozen=True)
class Tile:
    """Where a cell is drawn: left, bottom, width and height."""

    cell: tuple[int, ...]
    left: float
    bottom: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The middle of the tile."""
        return self.left + self.width / 2, self.bottom + self.height / 2


def draw(pair: Pair, modes: Mode | Sequence[Mode] | None, ax: Axes | None) -> Axes:
    """Draw the tiles, their shades and the names of the levels on all four sides."""
    kept = _chosen(pair.labels, modes)
    table, labels = pair.table(kept, "plot.mosaic"), pair.labels.part(kept)
    residuals = _residuals(pair, table)
    tiles = tiled(np.nan_to_num(table.x))
    ax = axes_for("plot.mosaic", ax, SIZE)
    shades = _shades()
    for tile in tiles:
        _draw_tile(ax, tile, float(residuals[tile.cell]), bool(np.isnan(table.x[tile.cell])), shades)
    _name_levels(ax, tiles, labels)
    ax.set(xlim=(-0.004, 1.004), ylim=(-0.004, 1.004))  # edges are not cut
    for side in ax.spines.values():
        side.set_visible(False)
    bar = colour_bar(ax, shades, "Pearson residual" if pair.counts else pair.units[1], shrink=0.7, pad=0.12)
    bar.set_ticks(list(BOUNDS[1:-1]))
    names = listed_words([labels.mode(k) for k in range(len(kept))])
    ax.set_title(f"{names} (areas: {pair.seen}; shades: residuals)")
    return ax


def _chosen(labels: Labels, modes: Mode | Sequence[Mode] | None) -> tuple[int, ...]:
    order = len(labels.shape)
    if modes is None:
        kept = tuple(range(order))
    else:
        listed = [modes] if isinstance(modes, (int, str)) else entries(modes) or []
        kept = tuple(labels.find_mode(key, "plot.mosaic") for key in listed)
    if not kept or len(set(kept)) < len(kept):
        raise InvalidQuery(f"plot.mosaic({modes!r}): name one or more different variables.")
    tiles = math.prod(labels.shape[k] for k in kept)
    if len(kept) > MOST_MODES or tiles > MOST_TILES:
        raise InvalidQuery(
            f"plot.mosaic: {len(kept)} variables with {tiles:,} tiles; at most {MOST_MODES} variables and {MOST_TILES} "
            "tiles can be read. Name some: plot.mosaic(['a', 'b']); the others are summed over."
        )
    return kept


def _residuals(pair: Pair, table: Table) -> FloatArray:
    """Return Pearson residuals of counts, as mosaics have always had; other tensors their differences."""
    if not pair.counts:
        return pair.residuals(table.x, table.q)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(table.q > 0, (table.x - table.q) / np.sqrt(table.q), 0.0)


def tiled(counts: FloatArray) -> list[Tile]:
    """Split the unit square by the first variable from left to right, by the second from top to bottom, and so on.

    >>> [(tile.cell, round(tile.width, 2)) for tile in tiled(np.array([[1.0], [3.0]]))]
    [((0, 0), 0.24), ((1, 0), 0.73)]
    """
    tiles = [Tile((), 0.0, 0.0, 1.0, 1.0)]
    for k in range(counts.ndim):
        sums = counts.sum(axis=tuple(range(k + 1, counts.ndim)))
        tiles = [part for tile in tiles for part in _split(tile, sums[tile.cell], GAPS[min(k, 3)], across=k % 2 == 0)]
    return tiles


def _split(tile: Tile, sums: FloatArray, gap: float, *, across: bool) -> list[Tile]:
    length = tile.width if across else tile.height
    gap = min(gap, 0.3 * length / len(sums))
    sliver = min(SLIVER, 0.3 * length / len(sums))
    empty = sums == 0
    free = length - gap * (len(sums) - 1) - sliver * int(empty.sum())
    total = float(sums.sum())
    sizes = np.where(empty, sliver, free * sums / total) if total else np.full(len(sums), free / len(sums) + sliver)
    starts = np.concatenate([[0.0], np.cumsum(sizes + gap)[:-1]])
    if across:
        place = zip(starts.tolist(), sizes.tolist(), strict=True)
        return [
            Tile((*tile.cell, i), tile.left + at, tile.bottom, size, tile.height) for i, (at, size) in enumerate(place)
        ]
    top = tile.bottom + tile.height
    place = zip(starts.tolist(), sizes.tolist(), strict=True)
    return [Tile((*tile.cell, i), tile.left, top - at - size, tile.width, size) for i, (at, size) in enumerate(place)]


def _shades() -> Any:
    """Make the scale of residuals: white between -2 and 2, darker beyond, darkest beyond 4."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    wheel = colormaps[DIVERGING]
    steps = ListedColormap([wheel(at) for at in (0.06, 0.24, 0.45, 0.55, 0.76, 0.94)])
    return ScalarMappable(BoundaryNorm(list(BOUNDS), steps.N), steps)


def _draw_tile(ax: Axes, tile: Tile, residual: float, structural: bool, shades: Any) -> None:
    from matplotlib.patches import Rectangle

    corner = (tile.left, tile.bottom)
    if structural:
        ax.add_patch(Rectangle(corner, tile.width, tile.height, fill=False, linestyle="--", edgecolor="0.2", lw=1.2))
        return
    inside = float(np.clip(residual, BOUNDS[0] + 1e-9, BOUNDS[-1] - 1e-9))
    ax.add_patch(Rectangle(corner, tile.width, tile.height, facecolor=shades.to_rgba(inside), edgecolor=GREY, lw=0.8))


def _name_levels(ax: Axes, tiles: list[Tile], labels: Labels) -> None:
    """Write the levels: the first variable below, the second on the left, the third above, the fourth on the right."""
    order = len(labels.shape)
    ax.tick_params(length=0, labelsize=SMALL)
    _across(ax, _sides(tiles, 0, labels), labels.mode(0), above=False)
    if order == 1:
        ax.set_yticks([])
        return
    _down(ax, _sides([tile for tile in tiles if tile.cell[0] == 0], 1, labels), labels.mode(1))
    if order > 2:
        top = [tile for tile in tiles if tile.cell[1] == 0]
        marks = [mark for i in range(labels.shape[0]) for mark in _sides(_at(top, 0, i), 2, labels)]
        _across(_second(ax.secondary_xaxis("top")), marks, labels.mode(2), above=True)
    if order > 3:
        last = [t for t in tiles if t.cell[0] == labels.shape[0] - 1 and t.cell[2] == labels.shape[2] - 1]
        marks = [mark for j in range(labels.shape[1]) for mark in _sides(_at(last, 1, j), 3, labels)]
        _down(_second(ax.secondary_yaxis("right")), marks, labels.mode(3))


def _second(axis: Any) -> Any:
    axis.tick_params(length=0, labelsize=SMALL - 1)
    axis.spines[:].set_visible(False)
    return axis


def _at(tiles: list[Tile], k: int, i: int) -> list[Tile]:
    return [tile for tile in tiles if tile.cell[k] == i]


def _sides(tiles: list[Tile], k: int, labels: Labels) -> list[tuple[float, str]]:
    """Find the middle of each level of a variable among some tiles."""
    marks = []
    for i in range(labels.shape[k]):
        own = _at(tiles, k, i)
        low = min(t.left if k % 2 == 0 else t.bottom for t in own)
        high = max(t.left + t.width if k % 2 == 0 else t.bottom + t.height for t in own)
        marks.append(((low + high) / 2, labels.level(k, i)))
    return marks


def _across(axis: Any, marks: list[tuple[float, str]], name: str, *, above: bool) -> None:
    """Write levels from left to right; slanted where they would run into each other."""
    axis.set_xticks([at for at, _ in marks], [text for _, text in marks])
    near = ((b - a) * WIDE - LETTER * (len(s) + len(t) + 2) / 2 for (a, s), (b, t) in pairwise(marks))
    if min(near, default=1.0) < 0:
        for text in axis.get_xticklabels():
            text.set(rotation=40, ha="left" if above else "right", va="bottom" if above else "top")
            text.set_rotation_mode("anchor")
    axis.set_xlabel(name, fontsize=MEDIUM)


def _down(axis: Any, marks: list[tuple[float, str]], name: str) -> None:
    """Write levels from top to bottom, but for those that would lie upon the one before."""
    shown = marks[:1]
    for mark in marks[1:]:
        shown += [mark] if abs(shown[-1][0] - mark[0]) > LINE else []
    axis.set_yticks([at for at, _ in shown], [text for _, text in shown])
    axis.set_ylabel(name, fontsize=MEDIUM)
