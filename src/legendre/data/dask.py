"""A tensor as a dask array: larger than memory, on one machine or many; read block by block and never formed.

Each block is a dense observation of its own, which answers for its cells. What the blocks answer is joined in a fixed
order: the same array gives the same bits on any number of workers.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np

from legendre.core.cells import cells_in_slices, entries_at, frozen
from legendre.core.errors import InvalidSupport, InvalidTensor, unknown_name
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import suffix_sums
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.checks import (
    SUPPORT_NAMES,
    check_beside,
    check_mask,
    check_range,
    infinite_entries,
    negative_entries,
    numeric,
    scan,
    unmask,
    wrong_base,
    zero_everywhere,
)
from legendre.data.dense import Dense
from legendre.data.observation import Comparable, Observation, Support, beyond_memory

T = TypeVar("T")
Say = Callable[[str], None]
Cell = tuple[int, ...]  # an index vector of the grid, or the sides of a rectangle


@dataclass(frozen=True, eq=False)
class BlockArrays:
    """X, and what says which of its cells count, as dask arrays with the same blocks."""

    x: Any
    mask: Any = None  # boolean; ``None``: every cell
    base: Any = None  # the base measure; ``None``: 1
    nonzero: bool = False  # whether only cells with X > 0 count
    kept: list[tuple[Quotient, FloatArray]] = field(default_factory=list)  # sums of X that came with those of cells

    def over(
        self, compute: Callable[[Dense, Cell], T], join: Callable[[T, T], T], total: float = 1.0, group: int = 8
    ) -> T:
        """Join ``compute(block, start)`` of all blocks, in groups; on a cluster if dask has a client, else by threads.

        Each block gets the `total` of X.
        """
        import dask

        starts = [np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int).tolist() for lengths in self.x.chunks]
        nonzero = self.nonzero

        def of_block(number: Cell, x: Any, mask: Any, base: Any) -> T:
            start = tuple(start[i] for start, i in zip(starts, number, strict=True))
            return compute(_observe_block(x, mask, base, nonzero, total), start)

        task, joined = dask.delayed(of_block, pure=False), dask.delayed(join, pure=False)
        parts = [None if part is None else part.to_delayed() for part in (self.x, self.mask, self.base)]
        sizes = reduce(np.multiply.outer, [np.asarray(lengths) for lengths in self.x.chunks])
        found = [
            task(number, *(None if part is None else part[number] for part in parts))
            for number in np.ndindex(sizes.shape)
            if sizes[number]
        ]
        while len(found) > 1:
            found = [reduce(joined, found[i : i + group]) for i in range(0, len(found), group)]
        (result,) = dask.compute(found[0])
        answer: T = result
        return answer

    def inside(self) -> Any:
        """Mark the cells of Omega, as a dask array."""
        import dask.array as da

        return da.map_blocks(_inside, self.x, self.mask, self.base, self.nonzero, dtype=bool)


def _observe_block(x: Any, mask: Any, base: Any, nonzero: bool, total: float) -> Dense:
    """Return a block as an observation; masked entries are missing. Nothing is checked."""
    values = np.asarray(unmask(x))
    gaps = values.dtype.kind == "f" and np.isnan(values.min(initial=0))  # in a tenth of the time of marking them
    missing = np.isnan(values) if gaps else None
    measure = None if base is None else np.asarray(base, dtype=np.float64)
    # what has data must have a base, which is checked in the first pass
    based = None if measure is None else (measure != 0) | (values > 0)
    known = values > 0 if nonzero else None if missing is None else ~missing
    marks = [part for part in (known, mask, based) if part is not None]
    inside = reduce(np.logical_and, marks) if marks else None
    support = Support(values.shape, None if inside is None or inside.all() else inside)
    return Dense(support, measure, missing, total, False, values)


def _inside(x: Any, mask: Any, base: Any, nonzero: bool) -> BoolArray:
    return _observe_block(x, mask, base, nonzero, 1.0).support.on_grid()


def _missing(x: Any) -> BoolArray:
    return np.asarray(np.isnan(unmask(x)))


@dataclass(frozen=True, eq=False)
class BlockSupport(Support):
    """A sample space whose mask is a dask array, or that has a base measure which is one."""

    arrays: BlockArrays = field(kw_only=True)
    size: int = field(kw_only=True)

    @property
    def n_cells(self) -> int:
        return self.size

    def on_grid(self) -> BoolArray:
        check_room(math.prod(self.shape), 1, "a mask of the sample space", "Ask about some cells only.")
        return np.asarray(self.arrays.inside().compute())

    def merge(self, quotient: Quotient, base: FloatArray | None) -> FloatArray:
        """Sum the measure over each box, and X in the same pass: it is asked for next."""
        del base

        def both(block: Dense, start: Cell) -> BlockSums:
            corner, own = _part_of(quotient, start, block.shape)
            inside = block.support.on_grid()
            measure = own.merge(inside if block.base is None else np.where(inside, block.base, 0.0))
            return BlockSums((0, *corner), np.stack([block.merged(own), measure]))

        _check_grid(quotient, 2)
        sums = self.arrays.over(both, BlockSums.join).values
        self.arrays.kept[:] = [(quotient, sums[0])]
        return np.asarray(sums[1])


@dataclass(frozen=True, eq=False)
class Blocks(Observation):
    """X as a dask array; what the first pass did not find is one more pass over it."""

    kind = "a dask array"

    arrays: BlockArrays
    by_mode: tuple[FloatArray, ...]  # X summed over all modes but one, for each mode
    rankings: dict[int, Ranked] = field(default_factory=dict)  # by mode, the largest entries of each of its slices

    def here(self) -> Dense | None:
        return None if beyond_memory(self.shape) else self._dense

    @cached_property
    def _dense(self) -> Dense:
        held = self.arrays
        x, mask, base = (None if part is None else part.compute() for part in (held.x, held.mask, held.base))
        dense = _observe_block(x, mask, base, held.nonzero, self.total)
        return replace(dense, positive=self.positive, values=frozen(dense.values))

    @cached_property
    def whole_numbers(self) -> bool:
        return bool(self.arrays.over(lambda block, _: block.whole_numbers, operator.and_))

    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        sums = next((sums for known, sums in self.arrays.kept if known is quotient), None)
        if sums is None:
            _check_grid(quotient, 1)

            def merge(block: Dense, start: Cell) -> BlockSums:
                corner, own = _part_of(quotient, start, block.shape)
                return BlockSums(corner, block.merged(own))

            sums = self.arrays.over(merge, BlockSums.join).values
        return sums if boxes is None else sums[tuple(boxes.T)]

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        return [np.add.reduceat(own, cut) for own, cut in zip(self.by_mode, quotient.cuts, strict=True)]

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        cells = np.stack([cut[positions[:, k]] for k, cut in enumerate(quotient.cuts)], axis=1)

        def add_above(block: Dense, start: Cell) -> FloatArray:
            out = np.zeros(len(cells))
            reached, local = _meeting(cells, start, block.shape)
            out[reached] = suffix_sums(block.values, local) if len(local) else 0.0
            return out

        return self.arrays.over(add_above, np.add)

    def at(self, cells: IntArray) -> FloatArray:
        return np.where(self.support.contains(cells), entries_at(self.arrays.x, cells), 0.0)

    def largest(self, count: int, axis: int) -> IntArray:
        """List the largest entries of each slice, from the first pass if it kept so many."""
        count = min(count, math.prod(self.shape) // self.shape[axis])
        shape, found = self.shape, self.rankings.get(axis)
        if found is None or found.wanted != count:
            found = self.arrays.over(lambda block, start: rank(block, start, shape, axis, count), Ranked.join)
        return cells_in_slices(found.places, found.slices, shape, axis)

    def negentropy(self) -> float:
        return self._negentropy

    @cached_property
    def _negentropy(self) -> float:
        return float(self.arrays.over(lambda block, _: block.negentropy(), operator.add, self.total))

    def squared_error(self, q: Comparable) -> float:
        law = q.on_blocks()

        def sum_up(block: Dense, start: Cell) -> float:
            fitted = law.on(start, block.shape)
            if block.base is not None:
                fitted *= block.base
            difference = np.where(block.support.on_grid(), fitted, 0.0) - block.values
            return float(np.nansum(np.square(difference)))

        return float(self.arrays.over(sum_up, operator.add))


class BlockSums(NamedTuple):
    """Sums on a rectangle of a grid, and where the rectangle begins."""

    start: Cell
    values: FloatArray

    def join(self, other: BlockSums) -> BlockSums:
        """Add up on the smallest rectangle that holds both."""
        parts = self, other
        start = tuple(map(min, self.start, other.start))
        stop = [np.add(part.start, part.values.shape) for part in parts]
        values = np.zeros(np.maximum(*stop) - start)
        for part, end in zip(parts, stop, strict=True):
            values[tuple(map(slice, np.subtract(part.start, start), end - start))] += part.values
        return BlockSums(start, values)


class FittedModel(NamedTuple):
    """Q in X's units on a rectangle of the grid, up to the base measure, from what is small enough to be sent away."""

    cells: IntArray
    theta: FloatArray
    psi: float
    total: float
    quotient: Quotient
    alive: Any = None  # the merged cells with q > 0; ``None``: all

    def on(self, start: Cell, shape: Cell) -> FloatArray:
        """Return Q on a rectangle of the grid: running sums of the parameters that reach it (eq. 2)."""
        reached, local = _meeting(self.cells, start, shape)
        quotient = Quotient.of(shape, local)
        grid = np.zeros(quotient.merged_shape)
        np.add.at(grid, tuple(quotient.boxes(local).T), self.theta[reached])
        q = np.array(quotient.spread(np.exp(zeta(grid) - self.psi) * self.total), dtype=np.float64)
        if self.alive is not None:
            q[~self.alive[np.ix_(*_boxes_of(self.quotient, start, shape))]] = 0.0
        return q


def _boxes_of(quotient: Quotient, start: Cell, shape: Cell) -> list[IntArray]:
    """Find the interval of each coordinate of a block, mode by mode."""
    return [quotient.boxes_along(k, np.arange(o, o + n)) for k, (o, n) in enumerate(zip(start, shape, strict=True))]


def _part_of(quotient: Quotient, start: Cell, shape: Cell) -> tuple[Cell, Quotient]:
    """Return the boxes that a block has a part in: the first one, and the block cut by all of them."""
    boxes = _boxes_of(quotient, start, shape)
    cuts = tuple(np.flatnonzero(np.diff(box, prepend=-1)) for box in boxes)
    return tuple(int(box[0]) for box in boxes), Quotient(shape, cuts)


def _check_grid(quotient: Quotient, grids: int) -> None:
    # the sum so far, the next part, and what becomes of them
    check_room(quotient.n_merged, 3 * 8 * grids, "a merged grid", "Use a basis with fewer different coordinates.")


def _meeting(cells: IntArray, start: Cell, shape: Cell) -> tuple[IntArray, IntArray]:
    """List the cells that some cell of a block is above, and the least such cell, counted from the block's corner."""
    reached = np.flatnonzero((cells < np.add(start, shape)).all(axis=1))
    return reached, np.maximum(cells[reached] - np.array(start, dtype=np.int64), 0)


class Ranked(NamedTuple):
    """Entries that may be among the largest of their slice."""

    slices: IntArray
    values: FloatArray
    places: IntArray  # in C order within the slice of the grid
    wanted: int  # of each slice

    def join(self, other: Ranked) -> Ranked:
        """Put both together and keep the largest of each slice, as many as wanted; of equal ones the first."""
        slices, values, places = (np.concatenate(pair) for pair in zip(self[:3], other[:3], strict=True))
        order = np.lexsort((places, -values, slices))
        kept = order[np.arange(len(order)) - np.searchsorted(slices[order], slices[order]) < self.wanted]
        return Ranked(slices[kept], values[kept], places[kept], self.wanted)


def rank(block: Dense, start: Cell, shape: Cell, axis: int, count: int) -> Ranked:
    """Find the largest entries of a block in each slice along `axis`."""
    cells = block.largest(count, axis)
    values = block.values[tuple(cells.T)].astype(np.float64)
    cells = cells + np.array(start)
    sides = np.array([1 if k == axis else n for k, n in enumerate(shape)])
    strides = np.append(np.cumprod(sides[:0:-1])[::-1], 1) * (np.arange(len(shape)) != axis)
    return Ranked(cells[:, axis], values, cells @ strides, count)


class Survey(NamedTuple):
    """What the first pass finds: margins of every mode, ranges of X and of the base, the largest entries of slices."""

    margins: tuple[BlockSums, ...]
    rankings: dict[int, Ranked]
    counts: IntArray  # of cells of Omega, and of missing ones
    low: FloatArray  # the smallest entry; the smallest and the smallest positive one in Omega; the smallest base there
    high: FloatArray  # the largest entry; that in Omega; the largest base there

    def join(self, other: Survey) -> Survey:
        return Survey(
            tuple(a.join(b) for a, b in zip(self.margins, other.margins, strict=True)),
            {axis: own.join(other.rankings[axis]) for axis, own in self.rankings.items()},
            self.counts + other.counts,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


def survey(block: Dense, start: Cell, shape: Cell, rankings: dict[int, int]) -> Survey:
    """Survey a block; `rankings` has for some modes the number of largest entries wanted of each slice."""
    x, mask, every = block.values, block.support.mask, range(len(shape))
    seen = own = scan(x)
    smallest, kept = seen.smallest, x
    if mask is not None:
        kept = np.where(mask, x, 0)
        own = scan(kept)
        smallest = 0.0 if (mask & (x == 0)).any() else own.positive
    with np.errstate(over="ignore", invalid="ignore"):
        margins = own.by_mode or [kept.sum(axis=tuple(j for j in every if j != k), dtype=np.float64) for k in every]
    base = np.ones(1) if block.base is None else block.base[... if mask is None else mask]
    return Survey(
        tuple(BlockSums((o,), margin) for o, margin in zip(start, margins, strict=True)),
        {axis: rank(block, start, shape, axis, count) for axis, count in rankings.items()},
        np.array([block.support.n_cells, 0 if block.missing is None else int(block.missing.sum())]),
        np.array([seen.smallest, smallest, own.positive, base.min(initial=np.inf)]),
        np.array([seen.largest, own.largest, base.max(initial=0.0)]),
    )


def is_dask(X: object) -> bool:
    """Whether X is a dask array; dask is not imported, for an array of its own shows that it is loaded."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def observe_blocks(
    X: Any,
    support: Any = "all",
    base: Any = None,
    *,
    rankings: dict[int, int] | None = None,
    watch: Say | None = None,
) -> Blocks:
    """Check a dask array and find its total, margins and `rankings` (by mode, the number of entries) in one pass.

    A mask and a base measure are arrays of dask, or of NumPy.
    """
    _check_kind(X)
    arrays = _with_same_blocks(X, support, base)
    shape = tuple(int(n) for n in X.shape)
    sizes = {axis: min(count, math.prod(shape) // shape[axis]) for axis, count in (rankings or {}).items()}
    if watch is not None:
        watch(f"reading X: {X.npartitions} blocks")
    seen = arrays.over(lambda block, start: survey(block, start, shape, sizes), Survey.join)
    _check_entries(arrays, seen)
    by_mode, n = tuple(part.values for part in seen.margins), int(seen.counts[0])
    full = n == math.prod(shape)
    omega = Support(shape)
    if not full or base is not None:
        omega = BlockSupport(shape, None if full else arrays.inside(), arrays=arrays, size=n)
    missing = X.map_blocks(_missing, dtype=bool) if seen.counts[1] else None
    positive = bool(seen.low[1] > 0)
    return Blocks(omega, arrays.base, missing, float(by_mode[0].sum()), positive, arrays, by_mode, seen.rankings)


def _check_kind(X: Any) -> None:
    """Refuse arrays that are not numbers, or whose blocks are not NumPy's or have no known size."""
    if any(np.isnan(n) for n in X.shape):
        raise InvalidTensor(
            f"X is a dask array with blocks of unknown size: its shape is {X.shape}. Call X.compute_chunk_sizes()."
        )
    if not isinstance(X._meta, np.ndarray):
        raise InvalidTensor(
            f"X is a dask array whose blocks are of type {type(X._meta).__name__}; they must be NumPy arrays. "
            "Convert them: X.map_blocks(np.asarray), or for sparse ones X.map_blocks(lambda block: block.todense())."
        )
    if X.dtype.kind == "O":
        raise InvalidTensor("X holds Python objects (dtype object); convert it to numbers first: X.astype(float).")
    # a view of one number has X's shape and type, and no memory
    numeric(X.compute() if X.ndim == 0 else np.broadcast_to(np.zeros((), X.dtype), X.shape), "X", InvalidTensor)


def _with_same_blocks(X: Any, support: Any, base: Any) -> BlockArrays:
    """Read `support` and `base`, cut as X is."""
    import dask.array as da

    def cut(array: Any, name: str) -> Any:
        held = da.asarray(array)
        check_beside(held, name, X.shape)
        return held.rechunk(X.chunks)

    measure = None if base is None else cut(base, "base")
    if isinstance(support, str):
        if support not in SUPPORT_NAMES:
            raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES) + " Or pass a boolean array.")
        return BlockArrays(X, None, measure, support == "nonzero")
    mask = cut(support, "support")
    check_mask(mask)
    return BlockArrays(X, mask, measure)


def _check_entries(arrays: BlockArrays, seen: Survey) -> None:
    X, (n, missing), (smallest, _, positive, least), (largest, most, greatest) = (arrays.x, *seen[2:])

    def first(marks: Any) -> Cell:
        return tuple(int(i) for i in np.unravel_index(int(marks.argmax().compute()), X.shape))

    if smallest < 0:
        raise negative_entries(int((X < 0).sum().compute()), first(smallest == X), float(smallest))
    if largest == np.inf:
        raise infinite_entries(int((np.inf == X).sum().compute()), first(np.inf == X))
    if missing == X.size:
        raise InvalidTensor("every entry of X is NaN, that is, missing: there is nothing to decompose.")
    if not n:
        raise InvalidSupport("no cell is left in the support once missing cells and cells of base 0 are left out.")
    if not (least > 0 and greatest < np.inf):
        base = arrays.base
        place = first(arrays.inside() & ~((base > 0) & (base < np.inf)))
        value, entry = (float(entries_at(part, np.array([place]))[0]) for part in (base, X))
        raise wrong_base(place, value, entry)
    if most == 0:
        raise zero_everywhere("X" if n == X.size else "X on the support")
    check_range(float(positive), float(most), lambda value: first(value == X))
    check_range(float(least), float(greatest), lambda value: first(value == arrays.base), "base", InvalidSupport)
