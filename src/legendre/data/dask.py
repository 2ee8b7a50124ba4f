"""An X that is a dask array: larger than memory, on one machine or many; it is read block by block.

Dask runs a function on each block, where the block is, and only small results come back. Sums over blocks are added in
a fixed order: the same array gives the same bits on any number of workers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from legendre.core import limits
from legendre.core.cells import entries_at, freeze
from legendre.core.errors import InvalidTensor
from legendre.core.memory import check_room
from legendre.core.origin import unmask
from legendre.core.sums.cell_sums import suffix_sums
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, BoolArray, Cell, FloatArray, IntArray, frozen
from legendre.data.checks import (
    Scan,
    check_base,
    check_beside,
    check_entries,
    check_mask,
    check_numeric,
    check_on_support,
    check_support_name,
    scan,
)
from legendre.data.dense import Dense
from legendre.data.observation import Comparable, Observation, Ranked, Support, in_c_order, largest_entries

# The mask of a block as bits: the first cell of the block, its shape, and a row of bytes for each level of the longest
# mode of X; ``None`` if all its cells are in Omega
Bits = tuple[Cell, Cell, AnyArray | None]


def longest_mode(shape: Cell) -> int:
    """Return the first of the longest modes."""
    return shape.index(max(shape))


@frozen
class BlockSupport(Support):
    """A sample space whose mask is a dask array, as the base measure may be."""

    size: int = field(kw_only=True)  # |Omega|, which the first pass has counted
    # the mask of each block as bits, so that large grids can be swept slab by slab; () if there are none
    bits: tuple[Bits, ...] = field(default=(), kw_only=True)

    @property
    def n_cells(self) -> int:
        """The number of cells, |Omega|: counting the mask again would take one more pass over it."""
        return self.size

    def contains(self, cells: IntArray) -> BoolArray:
        """Return for each of some cells (k x N, inside the grid) whether it belongs to Omega: from the bits, if any."""
        if not self.bits:
            return super().contains(cells)
        out, mode = np.zeros(len(cells), dtype=np.bool_), longest_mode(self.shape)
        for start, shape, bits in self.bits:
            local = cells - np.array(start)
            here = np.flatnonzero(((local >= 0) & (local < shape)).all(axis=1))
            place = np.ravel_multi_index(tuple(np.delete(local[here], mode, axis=1).T), np.delete(shape, mode))
            out[here] = bits is None or bits[local[here, mode], place >> 3] >> (7 - (place & 7)) & 1
        return out

    def slab(self, mode: int, i: int) -> BoolArray:
        """Return the mask of level i of the longest mode, from the bits: a grid of the other modes."""
        out = np.ones((*self.shape[:mode], *self.shape[mode + 1 :]), dtype=np.bool_)
        for start, shape, bits in self.bits:
            if bits is not None and 0 <= i - start[mode] < shape[mode]:
                sides = list(zip(start, shape, strict=True))
                del sides[mode]
                place: Any = (..., *(slice(a, a + n) for a, n in sides))  # also of no mode
                part = out[place]
                part[...] = np.unpackbits(bits[i - start[mode]], count=part.size).reshape(part.shape)
        return out

    def merge(self, quotient: Quotient, base: Any) -> FloatArray:
        """Sum the base measure over the cells of Omega in each box, block by block; a mask or a base must be given."""
        measure: Any = self.mask if base is None else base if self.mask is None else np.where(self.mask, base, 0.0)
        return merge_blocks(quotient, measure)


@frozen
class Blocks(Observation):
    """X as a dask array; each method that needs more than the first pass found makes one more pass over it."""

    kind = "a dask array"

    values: Any  # X, NaN where it is missing
    # for (axis, count) the cells of the `count` largest entries of each slice along that axis, as `largest` lists them
    rankings: dict[tuple[int, int], IntArray] = field(default_factory=dict)

    @property
    def _inside(self) -> Any:
        """X on the sample space, and 0 elsewhere."""
        mask: Any = self.support.mask
        return self.values if mask is None else np.where(mask, self.values, 0)

    @cached_property
    def dense(self) -> Dense:
        """X computed into memory, for tasks that need every cell; callers ask `beyond_memory` first."""
        import dask

        mask, base, missing, x = dask.compute(self.support.mask, self.base, self.missing, self.values)
        return Dense(Support(self.shape, mask), base, missing, self.total, self.positive, freeze(np.asarray(x)))

    @cached_property
    def whole_numbers(self) -> bool:
        """Whether every entry on Omega is an integer; one pass over X."""
        return bool((self._inside == np.rint(self._inside)).all())

    def merged(self, quotient: Quotient) -> FloatArray:
        """Sum X on Omega over each box; one pass over X."""
        return merge_blocks(quotient, self._inside)

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum X at or above each box within each block, and add up these sums."""
        cells = quotient.corners(positions)

        def add_above(start: Cell, x: FloatArray) -> FloatArray:
            """Sum the cells of a block that are at or above each corner (k); it is 0 for corners beyond the block."""
            sums = np.zeros(len(cells))
            reached, local = _find_meeting(cells, start, x.shape)
            if len(local):
                sums[reached] = suffix_sums(x, local)
            return sums

        return np.asarray(_over_blocks([self._inside], add_above, together=sum)[0])

    def at(self, cells: IntArray) -> FloatArray:
        """Return the entries of X at some cells (k x N), from the blocks that hold them; 0 outside Omega."""
        return np.where(self.support.contains(cells), entries_at(self.values, cells), 0.0)

    def largest(self, count: int, axis: int) -> IntArray:
        """List the largest entries of each slice: those that the first pass found, or by another pass."""
        if (known := self.rankings.get((axis, count))) is not None:
            return known
        return _join_rankings(_over_blocks([self.values, self.support.mask], rank, axis, count), axis, count)

    @cached_property
    def negentropy(self) -> float:
        """The sum of ``p log(p / r)``; SciPy's rel_entr is 0 where p is 0."""
        from scipy.special import rel_entr

        measure: Any = 1.0 if self.base is None else self.base
        if self.support.mask is not None:  # outside the sample space the base measure may be anything
            measure = np.where(self.support.mask, measure, 0.0)
        return float(rel_entr(self._inside.astype(np.float64) / self.total, measure).sum())

    def squared_error(self, q: Comparable) -> float:
        """Compute Q on each block, where the block of X is, and sum ``(X - Q)^2`` there; NaN is left out."""
        model = q.on_blocks()

        def compare(start: Cell, x: Any, mask: Any, base: Any) -> float:
            """Sum ``(X - Q)^2`` over a block that begins at the cell `start`."""
            fitted = model.on(start, x.shape)
            fitted = fitted if base is None else fitted * base  # `on` returns Q over the base measure
            fitted = fitted if mask is None else np.where(mask, fitted, 0.0)
            return float(np.nansum(np.square(fitted - x)))

        return float(sum(_over_blocks([self.values, self.support.mask, self.base], compare)))


class FittedModel(NamedTuple):
    """What is needed to compute Q on any rectangle of the grid: small enough to be sent to each worker."""

    cells: IntArray  # the basis, k x N
    theta: FloatArray  # the parameter of each cell, k
    psi: float  # the log of the normalising constant
    total: float  # the sum of X, so that Q is in X's units
    quotient: Quotient  # the boxes of the model
    alive: Any = None  # True at the merged cells with q > 0, an array over the merged grid; ``None``: all of them

    def on(self, start: Cell, shape: Cell) -> FloatArray:
        """Return Q over the base measure, in X's units, on the rectangle of this shape that begins at the cell `start`.

        By eq. (2) log q + psi is the sum of theta over the cells of the basis at or below. Those that are below some
        cell of the rectangle are moved to its corner, and the sums are formed on a merged grid of the rectangle alone.
        """
        reached, local = _find_meeting(self.cells, start, shape)
        quotient, positions = Quotient.of(shape, local)
        grid = np.zeros(quotient.merged_shape)
        np.add.at(grid, tuple(positions.T), self.theta[reached])  # several cells may be moved to the same one
        q = np.array(quotient.spread(np.exp(zeta(grid) - self.psi) * self.total), dtype=np.float64)
        if self.alive is not None:  # look up the box of each coordinate, and set cells that vanish to 0
            sides = enumerate(zip(start, shape, strict=True))
            boxes = [self.quotient.boxes_along(k, np.arange(first, first + n)) for k, (first, n) in sides]
            q[~self.alive[np.ix_(*boxes)]] = 0.0
        return q


def _find_meeting(cells: IntArray, start: Cell, shape: Cell) -> tuple[IntArray, IntArray]:
    """Find which of some cells (k x N) are at or below a cell of the block that begins at `start`.

    Returns their numbers, and for each the lowest cell of the block above it, in coordinates of the block: a cell of
    the block is above the one if and only if it is above the other.
    """
    reached = np.flatnonzero((cells < np.add(start, shape)).all(axis=1))
    return reached, np.maximum(cells[reached] - np.array(start, dtype=np.int64), 0)


def merge_blocks(quotient: Quotient, array: Any) -> FloatArray:
    """Sum a dask array over each box, on the merged grid.

    Blocks cut through boxes: each block is summed over the parts of boxes that it contains, and these are added up.
    """
    check_room(quotient.n_merged, 3 * 8, "a merged grid", "Use a basis with fewer distinct coordinates.")

    def merge(start: Cell, block: Any) -> tuple[tuple[slice, ...], FloatArray]:
        """Find the boxes that a block meets, and sum it over its part of each."""
        # in each mode the cuts between boxes, where the block begins (a), and its length (n)
        sides = list(zip(quotient.cuts, start, block.shape, strict=True))
        boxes = tuple(slice(np.searchsorted(cut, a + 1) - 1, np.searchsorted(cut, a + n)) for cut, a, n in sides)
        cuts = tuple(np.maximum(cut[box] - a, 0) for (cut, a, _), box in zip(sides, boxes, strict=True))
        return boxes, Quotient(block.shape, cuts).merge(block)

    out = np.zeros(quotient.merged_shape)
    for boxes, sums in _over_blocks([array], merge):
        out[boxes] += sums
    return out


def _over_blocks(
    arrays: Sequence[Any], function: Callable[..., Any], *arguments: Any, together: Callable[[Any], Any] | None = None
) -> list[Any]:
    """List what a function returns for each block, in C order of the blocks; dask calls it where the block is.

    The function gets the first cell of the block, the block of each array (all have the same chunks; an array that is
    ``None`` stays ``None``) and further arguments. `together` makes one answer of a list of them; it is applied to
    eight at a time, as a tree, until one is left, so that few large answers are held.
    """
    import dask

    starts = [np.cumsum([0, *lengths]).tolist() for lengths in arrays[0].chunks]
    blocks = [None if array is None else array.to_delayed(optimize_graph=False) for array in arrays]
    call = dask.delayed(function, pure=False)  # pure: dask would hash the arguments
    calls = [
        call(
            tuple(map(list.__getitem__, starts, block)),
            *(None if blocks_of_array is None else blocks_of_array[block] for blocks_of_array in blocks),
            *arguments,
        )
        for block in np.ndindex(arrays[0].numblocks)
    ]
    while together is not None and len(calls) > 1:
        calls = [dask.delayed(together, pure=False)(calls[i : i + 8]) for i in range(0, len(calls), 8)]
    return list(dask.compute(*calls))


def rank(start: Cell, x: Any, mask: Any, axis: int, count: int) -> tuple[IntArray, FloatArray]:
    """Find the `count` largest entries of a block in each slice of mode `axis`: their cells in X's grid, and values.

    The block x begins at the cell `start`; entries where `mask` is False are not in the sample space.
    """
    # a dense observation of the block alone: of its fields `largest` needs only the mask and the values
    cells = Dense(Support(x.shape, mask), None, None, 1.0, False, x).largest(count, axis)
    return cells + np.array(start), x[tuple(cells.T)].astype(np.float64)


def _join_rankings(found: list[tuple[IntArray, FloatArray]], axis: int, count: int) -> IntArray:
    """Find the largest entries of each slice of X among those that `rank` found in each block."""
    cells, values = map(np.concatenate, zip(*found, strict=True))
    return largest_entries(*in_c_order(cells, values), axis, count)


class Survey(NamedTuple):
    """What the first pass finds in a block."""

    start: Cell  # its first cell
    whole: Scan  # total and range of X
    inside: Scan  # the same of X on Omega
    base: Scan  # the same of the base measure on Omega
    n_cells: int  # in Omega
    margins: Any  # X on Omega, summed over all modes but one, for each mode
    rankings: list[Any]  # what `rank` returns for each item of `ranked`
    bits: Bits | None  # the mask, if asked for


def survey(start: Cell, x: Any, mask: Any, base: Any, ranked: Sequence[tuple[int, int]], mode: int | None) -> Survey:
    """Find what a `Survey` holds in a block x, with its sample space `mask` and `base` measure (``None``: all, 1).

    The mask is returned as bits, with a row for each level of `mode`, unless that is ``None``.
    """
    mask = None if mask is None or mask.all() else mask
    whole, modes, measure = scan(x), range(x.ndim), np.ones(1) if base is None else base
    inside, x_inside, n_cells = whole, x, x.size
    if mask is not None:
        inside, x_inside, n_cells = scan(x[mask]), np.where(mask, x, 0), int(np.count_nonzero(mask))
        measure = measure if base is None else base[mask]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite entries are refused after the pass
        # the scan of a large block, if all of it is in Omega, has the margins too
        margins = inside.by_mode or [
            x_inside.sum(axis=tuple(j for j in modes if j != k), dtype=np.float64) for k in modes
        ]
    rankings = [rank(start, x, mask, *wanted) for wanted in ranked]
    bits = None if mode is None else (start, x.shape, None if mask is None else _pack(mask, mode))
    return Survey(start, whole, inside, scan(measure), n_cells, margins, rankings, bits)


def _pack(mask: BoolArray, mode: int) -> AnyArray:
    """Write a mask as bits, with a row of bytes for each level of a mode."""
    return np.packbits(np.moveaxis(mask, mode, 0).reshape(mask.shape[mode], -1), axis=1)


def _join_scans(surveys: Sequence[Survey], name: str) -> Scan:
    """Return the total and the range of X, or of the base measure, from those of the blocks: their field `name`."""
    total, smallest, positive, largest, *_ = zip(*(getattr(block, name) for block in surveys), strict=True)
    return Scan(sum(total), min(smallest), min(positive), max(largest))


def is_dask(X: object) -> bool:
    """Whether X is a dask array; dask is not imported, because it is loaded already if X is one."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def observe_blocks(X: Any, support: Any = "all", base: Any = None, ranked: Ranked = ()) -> Blocks:
    """Check a dask array and find its sample space, total, margins and rankings in one pass over its blocks.

    `support` is a name or a mask. Masks and base measures are dask or NumPy arrays; they are cut into the blocks of X.
    """
    _check_kind(X)
    # leave out blocks without a cell, which have no range
    X = X.rechunk(tuple(tuple(n for n in lengths if n) for lengths in X.chunks))
    if isinstance(X._meta, np.ma.MaskedArray):  # `_meta` is an empty array of the type of the blocks
        X = X.map_blocks(unmask, dtype=np.float64, meta=np.empty((0,) * X.ndim))

    measure = None if base is None else _cut_like(X, base, "base").astype(np.float64)
    mask = _mark_support(X, support, measure)
    shape = tuple(int(n) for n in X.shape)
    # a mode that is named, or is not one of X, is looked up later
    wanted = [(int(axis) % X.ndim, count) for axis, count in ranked if axis in range(-X.ndim, X.ndim)]
    # the mask is kept as bits where a grid may have to be swept that is too large for floats
    swept = mask is not None and measure is None and limits.LARGEST_MASS < X.size <= limits.MOST_FORMED
    mode = longest_mode(X.shape) if swept else None
    surveys: list[Survey] = _over_blocks([X, mask, measure], survey, wanted, mode)
    n_cells = sum(block.n_cells for block in surveys)
    whole, inside = _join_scans(surveys, "whole"), _join_scans(surveys, "inside")
    full = n_cells == X.size
    # these look at X again only to find the cell for an error message
    check_entries(X, whole)
    if measure is not None and n_cells:
        check_base(measure, X, mask, _join_scans(surveys, "base"))
    check_on_support(X, inside, full=full)
    by_mode = tuple(np.zeros(n) for n in shape)
    for block in surveys:  # add the margins of each block, where it begins in each mode
        for sums, first, margin in zip(by_mode, block.start, block.margins, strict=True):
            sums[first : first + len(margin)] += margin
    omega = Support(shape)
    if not full or measure is not None:
        bits = tuple(block.bits for block in surveys if block.bits is not None)
        omega = BlockSupport(shape, None if full else mask, size=n_cells, bits=bits)
    rankings = {item: _join_rankings([block.rankings[i] for block in surveys], *item) for i, item in enumerate(wanted)}
    missing = np.isnan(X) if math.isnan(whole.total) else None  # infinite entries have been refused
    return Blocks(omega, measure, missing, float(by_mode[0].sum()), inside.smallest > 0, X, rankings, by_mode=by_mode)


def _cut_like(X: Any, array: Any, name: str) -> Any:
    """Check the shape of a mask or base measure beside X, and cut it into the blocks of X."""
    import dask.array as da

    whole = da.asarray(array)
    check_beside(whole, name, X.shape)
    return whole.rechunk(X.chunks)


def _mark_support(X: Any, support: Any, measure: Any) -> Any:
    """Return the mask of Omega, where all conditions hold, in the blocks of X; ``None`` if there is no condition."""
    if isinstance(support, str):
        check_support_name(support)
        # integers have no NaN
        conditions = [X > 0] if support == "nonzero" else [~np.isnan(X)] if X.dtype.kind == "f" else []
    else:
        conditions = [_cut_like(X, support, "support"), ~np.isnan(X)]
        check_mask(conditions[0])
    if measure is not None:
        # cells of base measure 0 are left out; where X is positive they stay, so that `check_base` refuses them
        conditions.append((measure != 0) | (X > 0))
    return reduce(np.logical_and, conditions) if conditions else None


def _check_kind(X: Any) -> None:
    """Refuse dask arrays that do not hold numbers, or whose blocks are not NumPy arrays or have no known size."""
    if any(np.isnan(n) for n in X.shape):
        raise InvalidTensor(
            f"X is a dask array with blocks of unknown size: its shape is {X.shape}. Call X.compute_chunk_sizes()."
        )
    if not isinstance(X._meta, np.ndarray):
        raise InvalidTensor(
            f"X is a dask array whose blocks are of type {type(X._meta).__name__}; they must be NumPy arrays. "
            "Convert them: X.map_blocks(np.asarray), or for sparse ones X.map_blocks(lambda block: block.todense())."
        )
    # check shape and dtype on a view of a single 0, which takes no memory; an X without modes is shown in the error
    check_numeric(X.compute() if X.ndim == 0 else np.broadcast_to(np.zeros((), X.dtype), X.shape), "X", InvalidTensor)
