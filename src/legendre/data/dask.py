"""A tensor as a dask array: larger than memory, on one machine or many; read block by block and never formed.

What a pass finds in the blocks is joined in a fixed order: the same array gives the same bits on any number of workers.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np

from legendre.core.cells import cells_in_slices, frozen
from legendre.core.errors import InvalidSupport, InvalidTensor, unknown_name
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import suffix_sums
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.checks import (
    SUPPORT_NAMES,
    check_range,
    infinite_entries,
    negative_entries,
    numeric,
    scan,
    unmask,
    zero_everywhere,
)
from legendre.data.dense import Dense, top
from legendre.data.observation import Comparable, Observation, Support, beyond_memory

T = TypeVar("T")
Say = Callable[[str], None]
Cell = tuple[int, ...]  # an index vector of the grid, or the sides of a rectangle


@dataclass(frozen=True, eq=False)
class Blocks(Observation):
    """X as a dask array, on the full grid; what the first pass did not find is one more pass over it."""

    kind = "a dask array"

    array: Any
    by_mode: tuple[FloatArray, ...]  # X summed over all modes but one, for each mode
    rankings: dict[int, Ranked] = field(default_factory=dict)  # by mode, the largest entries of each of its slices

    def here(self) -> Dense | None:
        return None if beyond_memory(self.shape) else self._dense

    @cached_property
    def _dense(self) -> Dense:
        values = frozen(_numbers(self.array.compute()))
        return Dense(self.support, None, None, self.total, self.positive, values)

    @cached_property
    def whole_numbers(self) -> bool:
        if self.array.dtype.kind != "f":
            return True
        return bool(over_blocks(self.array, lambda x, _: bool((x == np.rint(x)).all()), operator.and_))

    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        # the sum so far, the next part, and what becomes of them
        check_room(quotient.n_merged, 3 * 8, "a merged grid", "Use a basis with fewer different coordinates.")

        def merge(x: AnyArray, start: Cell) -> BlockSums:
            own = _boxes_of(quotient, start, x.shape)
            cuts = tuple(np.flatnonzero(np.diff(box, prepend=-1)) for box in own)
            return BlockSums(tuple(int(box[0]) for box in own), Quotient(x.shape, cuts).merge(x))

        sums = over_blocks(self.array, merge, BlockSums.join).values
        return sums if boxes is None else sums[tuple(boxes.T)]

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        return [np.add.reduceat(own, cut) for own, cut in zip(self.by_mode, quotient.cuts, strict=True)]

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        cells = np.stack([cut[positions[:, k]] for k, cut in enumerate(quotient.cuts)], axis=1)

        def add_above(x: AnyArray, start: Cell) -> FloatArray:
            out = np.zeros(len(cells))
            reached, local = _meeting(cells, start, x.shape)
            out[reached] = suffix_sums(x, local) if len(local) else 0.0
            return out

        return over_blocks(self.array, add_above, np.add)

    def at(self, cells: IntArray) -> FloatArray:
        return np.asarray(self.array.vindex[tuple(cells.T)].compute() if len(cells) else (), dtype=np.float64)

    def largest(self, count: int, axis: int) -> IntArray:
        """List the largest entries of each slice, from the first pass if it kept so many."""
        count = min(count, math.prod(self.shape) // self.shape[axis])
        shape, found = self.shape, self.rankings.get(axis)
        if found is None or found.wanted != count:
            found = over_blocks(self.array, lambda x, start: rank(x, start, shape, axis, count), Ranked.join)
        return cells_in_slices(found.places, found.slices, shape, axis)

    def negentropy(self) -> float:
        return self._negentropy

    @cached_property
    def _negentropy(self) -> float:
        total = self.total

        def sum_up(x: AnyArray, _: Cell) -> float:
            p = x[x > 0] / np.float64(total)  # in float64, whatever the type of X is
            return float((p * np.log(p)).sum())

        return float(over_blocks(self.array, sum_up, operator.add))

    def squared_error(self, q: Comparable) -> float:
        law = q.on_blocks()

        def sum_up(x: AnyArray, start: Cell) -> float:
            return float(np.square(law.on(start, x.shape) - x).sum())

        return float(over_blocks(self.array, sum_up, operator.add))


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
    """Q in X's units on a rectangle of the grid: theta on some cells, psi, and the merged cells with q > 0."""

    cells: IntArray
    theta: FloatArray
    psi: float
    total: float
    quotient: Quotient
    alive: Any = None

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
        slices = np.concatenate([self.slices, other.slices])
        values = np.concatenate([self.values, other.values])
        places = np.concatenate([self.places, other.places])
        order = np.lexsort((places, -values, slices))
        kept = order[np.arange(len(order)) - np.searchsorted(slices[order], slices[order]) < self.wanted]
        return Ranked(slices[kept], values[kept], places[kept], self.wanted)


def rank(x: AnyArray, start: Cell, shape: Cell, axis: int, count: int) -> Ranked:
    """Find the largest entries of a block in each slice along `axis`."""
    table = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    number, place = np.nonzero(top(table, count))
    sides, corner, grid = (v[:axis] + v[axis + 1 :] for v in (x.shape, start, shape))
    cells = [a + o for a, o in zip(np.unravel_index(place, sides), corner, strict=True)] if sides else []
    places = np.ravel_multi_index(cells, grid) if sides else place
    return Ranked(number + start[axis], table[number, place].astype(np.float64), places, count)


class Survey(NamedTuple):
    """What the first pass finds: margins of every mode, the range of X, the largest entries of slices."""

    margins: tuple[BlockSums, ...]
    smallest: float
    positive: float  # the smallest positive entry
    largest: float
    missing: int
    rankings: dict[int, Ranked]

    def join(self, other: Survey) -> Survey:
        return Survey(
            tuple(a.join(b) for a, b in zip(self.margins, other.margins, strict=True)),
            min(self.smallest, other.smallest),
            min(self.positive, other.positive),
            max(self.largest, other.largest),
            self.missing + other.missing,
            {axis: own.join(other.rankings[axis]) for axis, own in self.rankings.items()},
        )


def survey(x: AnyArray, start: Cell, shape: Cell, rankings: dict[int, int]) -> Survey:
    """Survey a block; `rankings` has for some modes the number of largest entries wanted of each slice."""
    seen, every = scan(x), range(x.ndim)
    with np.errstate(over="ignore", invalid="ignore"):
        margins = seen.by_mode or [x.sum(axis=tuple(j for j in every if j != k), dtype=np.float64) for k in every]
    return Survey(
        tuple(BlockSums((o,), margin) for o, margin in zip(start, margins, strict=True)),
        *(seen.smallest, seen.positive, seen.largest),
        0 if math.isfinite(seen.total) else int(np.isnan(x).sum()),
        {axis: rank(x, start, shape, axis, count) for axis, count in rankings.items()},
    )


def is_dask(X: object) -> bool:
    """Whether X is a dask array; dask is not imported, for an array of its own shows that it is loaded."""
    module = sys.modules.get("dask.array")
    return module is not None and isinstance(X, module.Array)


def observe_blocks(
    X: Any,
    support: object = "all",
    base: object = None,
    *,
    rankings: dict[int, int] | None = None,
    watch: Say | None = None,
) -> Blocks:
    """Check a dask array and find its total, margins and `rankings` (by mode, the number of entries) in one pass."""
    _check_kind(X)
    if not isinstance(support, str) or base is not None:
        what = "no base measure" if isinstance(support, str) else "no mask: its sample space is the full grid"
        raise InvalidSupport(f"X is a dask array, which takes {what}. Where X fits in memory, X.compute() takes one.")
    if support not in SUPPORT_NAMES:
        raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES))
    shape = tuple(int(n) for n in X.shape)
    sizes = {axis: min(count, math.prod(shape) // shape[axis]) for axis, count in (rankings or {}).items()}
    if watch is not None:
        watch(f"reading X: {X.npartitions} blocks")
    seen = over_blocks(X, lambda x, start: survey(x, start, shape, sizes), Survey.join)
    _check_entries(X, seen, support)
    by_mode = tuple(part.values for part in seen.margins)
    return Blocks(Support(shape), None, None, float(by_mode[0].sum()), seen.smallest > 0, X, by_mode, seen.rankings)


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


def _check_entries(X: Any, seen: Survey, support: object) -> None:
    def find(value: float) -> Cell:
        return tuple(int(i) for i in np.unravel_index(int((value == X).argmax().compute()), X.shape))

    if seen.smallest < 0:
        raise negative_entries(int((X < 0).sum().compute()), find(seen.smallest), seen.smallest)
    if seen.largest == np.inf:
        raise infinite_entries(int((np.inf == X).sum().compute()), find(np.inf))
    if seen.missing:
        raise InvalidTensor(
            f"X has {seen.missing} missing entries (NaN) and is a dask array, so that its sample space is the full "
            "grid. If missing means 0, replace them: X.map_blocks(np.nan_to_num); where X fits in memory, X.compute() "
            "takes them as missing."
        )
    if seen.largest == 0:
        raise zero_everywhere()
    if support == "nonzero" and not seen.smallest > 0:
        raise InvalidSupport(
            "X is a dask array with zeros, so that its sample space is the full grid, support='all'. For "
            "support='nonzero' pass the non-zero entries as a sparse tensor, or X.compute() where that fits in memory."
        )
    check_range(seen.positive, seen.largest, find)


def over_blocks(X: Any, compute: Callable[[AnyArray, Cell], T], join: Callable[[T, T], T], group: int = 8) -> T:
    """Join ``compute(block, start)`` of all blocks, in groups; on a cluster if dask has a client, else by threads."""
    import dask

    starts = [np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(int).tolist() for lengths in X.chunks]

    def of_block(block: Any, number: Cell) -> T:
        return compute(_numbers(block), tuple(start[i] for start, i in zip(starts, number, strict=True)))

    blocks, task, joined = X.to_delayed(), dask.delayed(of_block, pure=False), dask.delayed(join, pure=False)
    sizes = reduce(np.multiply.outer, [np.asarray(lengths) for lengths in X.chunks])
    parts = [task(blocks[number], number) for number in np.ndindex(blocks.shape) if sizes[number]]
    while len(parts) > 1:
        parts = [reduce(joined, parts[i : i + group]) for i in range(0, len(parts), group)]
    (found,) = dask.compute(parts[0])
    result: T = found
    return result


def _numbers(block: Any) -> AnyArray:
    """Return a block as an array; masked entries are NaN."""
    return np.asarray(unmask(block))
