"""What is computed of one block of a large X, in the thread that reads it, here or elsewhere: sums, Q, margins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legendre.core.memory import BLOCK
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.largest_entries import best_first

Cell = tuple[int, ...]  # an index vector of the whole grid, or the sides of a rectangle


class BlockSums(NamedTuple):
    """Sums on a rectangle of a grid, and where the rectangle begins."""

    start: Cell
    values: FloatArray

    def join(self, other: BlockSums) -> BlockSums:
        """Add up on the smallest rectangle that holds both."""
        start = tuple(map(min, self.start, other.start))
        values = np.zeros([max(a, b) - o for a, b, o in zip(self.stop, other.stop, start, strict=True)])
        for part in (self, other):
            rows = (slice(a - o, b - o) for a, b, o in zip(part.start, part.stop, start, strict=True))
            values[tuple(rows)] += part.values
        return BlockSums(start, values)

    @property
    def stop(self) -> Cell:
        return tuple(o + n for o, n in zip(self.start, self.values.shape, strict=True))


def merge(block: AnyArray, start: Cell, quotient: Quotient) -> BlockSums:
    """Sum a block over the boxes that it meets."""
    from legendre.core.sums.kernels.box_sums import sums_over_boxes_alone

    x = numbers(block)
    boxes = boxes_of(quotient, start, x.shape)
    first = [int(box[0]) for box in boxes]
    return BlockSums(tuple(first), sums_over_boxes_alone(x, [box - low for box, low in zip(boxes, first, strict=True)]))


def boxes_of(quotient: Quotient, start: Cell, shape: Cell) -> list[IntArray]:
    """Find the interval of each coordinate of a block, mode by mode."""
    return [quotient.boxes_along(k, np.arange(o, o + n)) for k, (o, n) in enumerate(zip(start, shape, strict=True))]


def above(block: AnyArray, start: Cell, cells: IntArray) -> FloatArray:
    """Sum what a block has above each of some cells of the whole grid."""
    from legendre.core.sums.kernels.suffix_sums import suffix_sums

    x = numbers(block)
    out = np.zeros(len(cells))
    reached, local = meeting(cells, start, x.shape)
    if len(local):
        quotient = Quotient.of(x.shape, local)
        out[reached] = suffix_sums(x, quotient.cuts, quotient.boxes(local), alone=True)
    return out


def meeting(cells: IntArray, start: Cell, shape: Cell) -> tuple[IntArray, IntArray]:
    """List the cells that some cell of a block is above, and the least such cell, counted from the block's corner."""
    reached = np.flatnonzero((cells < np.add(start, shape)).all(axis=1))
    return reached, np.maximum(cells[reached] - np.array(start, dtype=np.int64), 0)


def squares(block: AnyArray, start: Cell, law: FittedModel) -> float:
    """Sum ``(p - q)^2`` over a block."""
    x = numbers(block)
    difference = law.on(start, x.shape)
    difference -= x / np.float64(law.total)  # in float64, whatever the type of X is
    return sum(float(np.einsum("i,i->", piece, piece)) for piece in pieces(difference))


class FittedModel(NamedTuple):
    """Q as a function of a rectangle of the grid: theta on some cells, psi, and the merged cells with q > 0."""

    cells: IntArray
    theta: FloatArray
    psi: float
    total: float
    quotient: Quotient
    alive: Any = None

    def on(self, start: Cell, shape: Cell) -> FloatArray:
        """Return Q on a rectangle of the grid: running sums of the parameters that reach it (eq. 2)."""
        reached, local = meeting(self.cells, start, shape)
        quotient = Quotient.of(shape, local)
        grid = np.zeros(quotient.merged_shape)
        np.add.at(grid, tuple(quotient.boxes(local).T), self.theta[reached])
        q: FloatArray = np.array(quotient.spread(np.exp(zeta(grid) - self.psi)), dtype=np.float64)
        if self.alive is not None:
            q[~self.alive[np.ix_(*boxes_of(self.quotient, start, shape))]] = 0.0
        return q


def negentropy(block: AnyArray, start: Cell, total: float) -> float:  # noqa: ARG001 - every function of a block takes its place
    """Sum ``p log p`` over a block."""
    own = 0.0
    for piece in pieces(numbers(block)):
        p = piece[piece > 0] / np.float64(total)  # in float64, whatever the type of X is
        own += float((p * np.log(p)).sum())
    return own


def whole(block: AnyArray, start: Cell) -> bool:  # noqa: ARG001 - every function of a block takes its place
    """Whether every entry of a block is a whole number."""
    return all(bool((piece == np.rint(piece)).all()) for piece in pieces(numbers(block)))


def numbers(block: AnyArray) -> AnyArray:
    """Return a block in C order, in a type that compiled code reads; masked entries are NaN."""
    from legendre.core.sums.kernels.memory_walk import plain

    if isinstance(block, np.ma.MaskedArray):
        block = np.where(np.ma.getmaskarray(block), np.nan, np.ma.getdata(block))
    return np.ascontiguousarray(plain(np.asarray(block)))


def pieces(x: AnyArray) -> list[AnyArray]:
    """Cut a block in C order into vectors of moderate length."""
    flat = x.reshape(-1)
    return [flat[i : i + BLOCK // 16] for i in range(0, len(flat), BLOCK // 16)]


class Ranking(NamedTuple):
    """The largest entries of some consecutive slices, best first."""

    start: int
    values: AnyArray
    places: IntArray  # in C order within the whole slice; NOWHERE where a slice has fewer entries

    def join(self, other: Ranking) -> Ranking:
        both = (self, other)
        start = min(self.start, other.start)
        stop = max(part.start + len(part.values) for part in both)
        count = self.values.shape[1]
        values, places = _nothing((stop - start, 2 * count), self.values.dtype)
        for i, part in enumerate(both):
            rows = slice(part.start - start, part.start - start + len(part.values))
            values[rows, i * count : (i + 1) * count] = part.values
            places[rows, i * count : (i + 1) * count] = part.places
        return Ranking(start, *best_first(values, places, count))


class Found(NamedTuple):
    """The number of entries of some kind and the place of the first in C order; of negative ones, of the least."""

    n: int = 0
    at: Cell = ()

    def join(self, other: Found) -> Found:
        """Add up; of two places keep the one that comes first in C order."""
        return Found(self.n + other.n, min((at for at in (self.at, other.at) if at), default=()))


class Survey(NamedTuple):
    """What the first pass finds: margins of every mode, entries that cannot be read, the largest entries of slices."""

    margins: tuple[BlockSums, ...]
    smallest: float
    rankings: dict[int, Ranking]
    negative: Found = Found()
    missing: Found = Found()
    infinite: Found = Found()

    def join(self, other: Survey) -> Survey:
        low = min(self, other, key=lambda part: (part.smallest, part.negative.at))
        return Survey(
            tuple(a.join(b) for a, b in zip(self.margins, other.margins, strict=True)),
            low.smallest,
            {axis: own.join(other.rankings[axis]) for axis, own in self.rankings.items()},
            Found(self.negative.n + other.negative.n, low.negative.at),
            self.missing.join(other.missing),
            self.infinite.join(other.infinite),
        )


def survey(block: AnyArray, start: Cell, shape: Cell, rankings: dict[int, int]) -> Survey:
    """Survey a block; `rankings` has for some modes the number of largest entries wanted of each slice."""
    x = numbers(block)
    margins, smallest = _margins(x), float(x.min())
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(margins[0].sum())
    trouble: tuple[Found, ...] = ()
    if not (smallest >= 0 and np.isfinite(total)):
        smallest = float(np.nanmin(x, initial=np.inf)) if x.dtype.kind == "f" else smallest
        trouble, margins = _trouble(x, start, smallest), _margins(np.where(np.isfinite(x), x, 0))
    sums = tuple(BlockSums((o,), margin) for o, margin in zip(start, margins, strict=True))
    ranked = {axis: rank(x, start, shape, axis, count) for axis, count in rankings.items()}
    return Survey(sums, smallest, ranked, *trouble)


def _margins(x: AnyArray) -> list[FloatArray]:
    """Sum a block over all modes but one, for each: what a mode leaves when it is summed out is small."""
    margins: list[FloatArray] = []
    with np.errstate(over="ignore", invalid="ignore"):
        while x.ndim > 1:
            margins.append(x.reshape(len(x), -1).sum(axis=1, dtype=np.float64))
            x = x[0] if len(x) == 1 else x.sum(axis=0, dtype=np.float64)
    return [*margins, x.astype(np.float64)]


def _trouble(x: AnyArray, start: Cell, smallest: float) -> tuple[Found, Found, Found]:
    """Count negative, missing and infinite entries, and find the first of each kind; of negative ones the least."""
    with np.errstate(invalid="ignore"):
        negative, lowest = x < 0, x == smallest
    parts = (negative, negative & lowest), (np.isnan(x),) * 2, (np.isinf(x),) * 2
    one, two, three = (Found(int(np.count_nonzero(every)), _place(some, start)) for every, some in parts)
    return one, two, three


def rank(block: AnyArray, start: Cell, shape: Cell, axis: int, count: int) -> Ranking:
    """Find the largest entries of a block in each slice along `axis`."""
    from legendre.core.sums.kernels.largest_entries import NOWHERE, keep_largest

    x = numbers(block)
    values, places = _nothing((x.shape[axis], count), x.dtype)
    keep_largest(x.reshape(int(np.prod(x.shape[:axis])), x.shape[axis], -1), values, places)
    if x.ndim > 1:
        found = places != NOWHERE
        block_sides, corner, sides = (v[:axis] + v[axis + 1 :] for v in (x.shape, start, shape))
        local = np.unravel_index(places[found], block_sides)
        places[found] = np.ravel_multi_index([a + o for a, o in zip(local, corner, strict=True)], sides)
    return Ranking(start[axis], *best_first(values, places, count))


def _nothing(shape: Cell, dtype: np.dtype[Any]) -> tuple[AnyArray, IntArray]:
    """Fill a ranking with the least value there is, at NOWHERE: it loses against every entry."""
    from legendre.core.sums.kernels.largest_entries import NOWHERE

    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    return np.full(shape, least, dtype=dtype), np.full(shape, NOWHERE, dtype=np.int64)


def _place(marks: AnyArray, start: Cell) -> Cell:
    """Return the first marked cell, as a cell of the whole grid; () if there is none."""
    local = np.unravel_index(int(np.argmax(marks)), marks.shape)
    return tuple(int(a) + o for a, o in zip(local, start, strict=True)) if marks.any() else ()
