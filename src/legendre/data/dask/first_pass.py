"""The first look at a block of a large X: margins, trouble and where it is, the largest entries of slices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dask.per_block import BlockSums, Cell, numbers

NO_TROUBLE: dict[str, Any] = {
    "smallest_at": (),
    "negative": 0,
    "missing": 0,
    "missing_at": (),
    "infinite": 0,
    "infinite_at": (),
}


class Ranking(NamedTuple):
    """The largest entries of some consecutive slices, best first; `places` are in C order within the whole slice.

    Where a slice has fewer entries the rest stands at NOWHERE.
    """

    start: int
    values: AnyArray
    places: IntArray

    def join(self, other: Ranking) -> Ranking:
        """Keep the best of both."""
        both = (self, other)
        start = min(self.start, other.start)
        stop = max(part.start + len(part.values) for part in both)
        count = self.values.shape[1]
        values, places = _nothing((stop - start, 2 * count), self.values.dtype)
        for i, part in enumerate(both):
            rows = slice(part.start - start, part.start - start + len(part.values))
            values[rows, i * count : (i + 1) * count] = part.values
            places[rows, i * count : (i + 1) * count] = part.places
        return Ranking(start, *_best_first(values, places, count))


class Survey(NamedTuple):
    """What the first look at X tells: margins of every mode, trouble and where it is, the largest entries of slices."""

    margins: tuple[BlockSums, ...]
    smallest: float
    smallest_at: Cell
    negative: int
    missing: int
    missing_at: Cell
    infinite: int
    infinite_at: Cell
    rankings: dict[int, Ranking]

    def join(self, other: Survey) -> Survey:
        """Put two blocks' answers together; of two places the one that comes first in C order."""
        lower = (other.smallest, other.smallest_at) < (self.smallest, self.smallest_at)
        low = other if lower else self
        return Survey(
            margins=tuple(a.join(b) for a, b in zip(self.margins, other.margins, strict=True)),
            smallest=low.smallest,
            smallest_at=low.smallest_at,
            negative=self.negative + other.negative,
            missing=self.missing + other.missing,
            missing_at=_first(self.missing_at, other.missing_at),
            infinite=self.infinite + other.infinite,
            infinite_at=_first(self.infinite_at, other.infinite_at),
            rankings={axis: own.join(other.rankings[axis]) for axis, own in self.rankings.items()},
        )


def survey(block: AnyArray, start: Cell, shape: Cell, rankings: dict[int, int]) -> Survey:
    """Look at a block: `rankings` tells for some modes how many entries of each of their slices are wanted."""
    x = numbers(block)
    margins, smallest = _margins(x), float(x.min())
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(margins[0].sum())
    trouble = NO_TROUBLE
    if not (smallest >= 0 and np.isfinite(total)):
        smallest = float(np.nanmin(x, initial=np.inf)) if x.dtype.kind == "f" else smallest
        trouble, margins = _trouble(x, start, smallest), _margins(np.where(np.isfinite(x), x, 0))
    return Survey(
        margins=tuple(BlockSums((o,), margin) for o, margin in zip(start, margins, strict=True)),
        smallest=smallest,
        rankings={axis: rank(x, start, shape, axis, count) for axis, count in rankings.items()},
        **trouble,
    )


def _margins(x: AnyArray) -> list[FloatArray]:
    """Sum a block over all modes but one, for each: what a mode leaves when it is summed out is small."""
    margins: list[FloatArray] = []
    with np.errstate(over="ignore", invalid="ignore"):
        while x.ndim > 1:
            margins.append(x.reshape(len(x), -1).sum(axis=1, dtype=np.float64))
            x = x[0] if len(x) == 1 else x.sum(axis=0, dtype=np.float64)
    return [*margins, x.astype(np.float64)]


def _trouble(x: AnyArray, start: Cell, smallest: float) -> dict[str, Any]:
    """Count what cannot be read as it is, and find the first of each kind."""
    missing, infinite = np.isnan(x), np.isinf(x)
    with np.errstate(invalid="ignore"):
        negative, lowest = x < 0, x == smallest
    return {
        "smallest_at": _place(negative & lowest, start),
        "negative": int(np.count_nonzero(negative)),
        "missing": int(np.count_nonzero(missing)),
        "missing_at": _place(missing, start),
        "infinite": int(np.count_nonzero(infinite)),
        "infinite_at": _place(infinite, start),
    }


def rank(block: AnyArray, start: Cell, shape: Cell, axis: int, count: int) -> Ranking:
    """Find the largest entries of a block in each slice along `axis`."""
    from legendre.core.sums.kernels.top import NOWHERE, keep_largest

    x = numbers(block)
    before, length = int(np.prod(x.shape[:axis])), x.shape[axis]
    table = x.reshape(before, length, -1)
    values, places = _nothing((length, count), x.dtype)
    keep_largest(table, values, places)
    if x.ndim > 1:
        found = places != NOWHERE
        local, corner = np.unravel_index(places[found], _without(x.shape, axis)), _without(start, axis)
        there = [a + o for a, o in zip(local, corner, strict=True)]
        places[found] = np.ravel_multi_index(there, _without(shape, axis))
    return Ranking(start[axis], *_best_first(values, places, count))


def _nothing(shape: Cell, dtype: np.dtype[Any]) -> tuple[AnyArray, IntArray]:
    """Make entries that stand for none: the least value there is, after every place."""
    from legendre.core.sums.kernels.top import NOWHERE

    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    return np.full(shape, least, dtype=dtype), np.full(shape, NOWHERE, dtype=np.int64)


def _best_first(values: AnyArray, places: IntArray, count: int) -> tuple[AnyArray, IntArray]:
    """Sort each row: larger values first, then smaller places."""
    order = np.lexsort((-places, values), axis=-1)[:, ::-1][:, :count]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)


def _place(marks: AnyArray, start: Cell) -> Cell:
    """Return the first marked cell, as a cell of the whole grid; nothing where none is."""
    if not marks.any():
        return ()
    local = np.unravel_index(int(np.argmax(marks)), marks.shape)
    return tuple(int(a) + o for a, o in zip(local, start, strict=True))


def _first(one: Cell, other: Cell) -> Cell:
    return min((place for place in (one, other) if place), default=())


def _without(values: Cell, axis: int) -> Cell:
    return values[:axis] + values[axis + 1 :]
