"""The quotient: boxes of the grid on which every member of a model is constant up to the base measure.

Each mode is cut into intervals at the coordinates that occur in the basis. A *box* is a product of intervals, one of
each mode. All its cells lie above the same cells of the basis. The box is one cell, a *merged cell*, of the *merged
grid*, and its *merged coordinates* are the numbers of its intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np

from legendre.core import limits
from legendre.core.cells import freeze, other_modes
from legendre.core.memory import check_room
from legendre.core.types import AnyArray, FloatArray, IntArray, Shape, frozen


@frozen
class Quotient:
    """Boxes of a grid: ``cuts[k]`` holds the first coordinate of each interval of mode k, ascending from 0."""

    shape: Shape
    cuts: tuple[IntArray, ...]

    @classmethod
    def of(cls, shape: Shape, basis: IntArray) -> tuple[Quotient, IntArray]:
        """Cut each mode at the coordinates of the basis (k x N); also return its cells as merged coordinates."""
        ordered = np.sort(np.pad(basis, ((1, 0), (0, 0))), axis=0).T  # every mode is also cut at 0
        fresh = np.diff(ordered, axis=1, prepend=-1) > 0
        cuts = tuple(column[new] for column, new in zip(ordered, fresh, strict=True))
        boxes = [np.searchsorted(cut, column) for cut, column in zip(cuts, basis.T, strict=True)]
        return cls(shape, cuts), np.column_stack(boxes)

    @cached_property
    def merged_shape(self) -> Shape:
        """The shape of the merged grid."""
        return tuple(len(cut) for cut in self.cuts)

    @cached_property
    def lengths(self) -> tuple[FloatArray, ...]:
        """The number of levels in each interval, mode by mode; as floats, because products may exceed integers."""
        ends = (np.append(cut[1:], length) for length, cut in zip(self.shape, self.cuts, strict=True))
        return tuple((end - cut).astype(np.float64) for end, cut in zip(ends, self.cuts, strict=True))

    @cached_property
    def n_merged(self) -> int:
        """The number of boxes."""
        return math.prod(self.merged_shape)

    @property
    def volumes(self) -> FloatArray:
        """The number of cells in each box, as floats on the merged grid: the outer product of the lengths."""
        return freeze(reduce(np.multiply.outer, self.lengths))

    def box_of(self, mode: int) -> IntArray:
        """Return the number of the interval that each coordinate 0, 1, ... of one mode lies in."""
        length = self.shape[mode]
        if length > limits.LONG_MODE:  # shorter tables always fit
            check_room(length, 16, f"a table of mode {mode}", "Ask about other modes, or about some cells.")
        return np.repeat(np.arange(len(self.cuts[mode])), self.lengths[mode].astype(np.int64))

    def boxes(self, cells: IntArray) -> IntArray:
        """Find the box of each cell (k x N), as merged coordinates."""
        return np.column_stack([self.boxes_along(k, cells[:, k]) for k in range(len(self.shape))])

    def boxes_along(self, mode: int, coordinates: AnyArray) -> IntArray:
        """Find the number of the interval of each coordinate of one mode: in a table, or by search if that is long."""
        if self.shape[mode] <= min(coordinates.size, limits.LONG_MODE):
            return np.asarray(self.box_of(mode)[coordinates], dtype=np.int64)
        return np.asarray(np.searchsorted(self.cuts[mode], coordinates, side="right") - 1, dtype=np.int64)

    def corners(self, boxes: IntArray) -> IntArray:
        """Find the first cell, in coordinates of the grid, of each of some boxes (k x N, merged coordinates)."""
        return np.stack([cut[place] for cut, place in zip(self.cuts, boxes.T, strict=True)], axis=1)

    def flat_boxes(self, cells: IntArray) -> IntArray:
        """Find the box of each cell (k x N), as its place in C order in the merged grid, of fewer than 2^63 cells."""
        flat = np.zeros(len(cells), dtype=np.int64)
        for k, length in enumerate(self.merged_shape):
            flat *= length
            flat += self.boxes_along(k, cells[:, k])
        return flat

    def merge(self, grid: AnyArray) -> FloatArray:
        """Sum an array of this shape, such as X, over each box; the answer has `merged_shape`.

        If no cells are merged, a float64 array is returned itself, not a copy.
        """
        out = grid
        # the mode that shrinks most goes first, so that the later sums run over less
        for axis in sorted(range(len(self.cuts)), key=lambda k: len(self.cuts[k]) / self.shape[k]):
            if len(self.cuts[axis]) < self.shape[axis]:
                out = _sum_intervals(out, self.cuts[axis], axis)
        return np.asarray(out, dtype=np.float64)

    def spread(self, merged: AnyArray, rows: slice = slice(None)) -> AnyArray:
        """Copy the value of each merged cell to all cells of its box: from the merged grid back to the grid of X.

        With `rows`, only those slices of the first mode are formed, so that Q can be compared with X in blocks.
        """
        out = merged[self.box_of(0)[rows]]
        for axis in range(1, len(self.shape)):
            if len(self.cuts[axis]) < self.shape[axis]:
                out = out.take(self.box_of(axis), axis=axis)
        return out


def _sum_intervals(grid: AnyArray, cuts: IntArray, axis: int, large: int = 1 << 18) -> FloatArray:
    """Sum a grid over the intervals of one mode, `axis`, that begin at `cuts`.

    If the grid is `large`, the slices of each interval are summed on their own, which is three to seven times as fast
    as NumPy's reduceat along any mode but the last.
    """
    if grid.size < large or axis == grid.ndim - 1:
        return np.add.reduceat(grid, cuts, axis=axis, dtype=np.float64)
    slabs, ends = np.moveaxis(grid, axis, 0), [*cuts[1:].tolist(), grid.shape[axis]]
    out = np.empty((*grid.shape[:axis], len(cuts), *grid.shape[axis + 1 :]))
    for start, end, target in zip(cuts.tolist(), ends, np.moveaxis(out, axis, 0), strict=True):
        slabs[start:end].sum(axis=0, dtype=np.float64, out=target)
    return out


def sum_others(table: AnyArray, modes: Sequence[int]) -> AnyArray:
    """Sum a table (an axis for each mode) over all modes but `modes`; the answer has these as axes, in that order.

    All margins of tables in memory are formed by it.
    """
    sums = table.sum(axis=other_modes(modes, table.ndim))  # axes in rising order of modes
    return np.asarray(np.transpose(sums, [sorted(modes).index(k) for k in modes]))


@frozen
class BoxTotals:
    """An X summed over the boxes of a grid, from which sums over larger boxes are made without reading X again."""

    quotient: Quotient
    values: FloatArray  # the sum over each box

    def over(self, larger: Quotient) -> FloatArray | None:
        """Sum over larger boxes; ``None`` if one of their cuts goes through a box, so that these sums do not suffice.

        >>> totals = BoxTotals(Quotient((6,), (np.array([0, 2, 5]),)), np.array([1.0, 2.0, 4.0]))
        >>> totals.over(Quotient((6,), (np.array([0, 5]),)))
        array([3., 4.])
        >>> totals.over(Quotient((6,), (np.array([0, 3]),))) is None
        True
        """
        starts = []
        for cut, finer in zip(larger.cuts, self.quotient.cuts, strict=True):
            if not np.isin(cut, finer).all():
                return None
            starts.append(np.searchsorted(finer, cut))  # each cut as the number of a small interval
        return Quotient(self.quotient.merged_shape, tuple(starts)).merge(self.values)
