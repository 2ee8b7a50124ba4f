"""A tensor in memory, every cell of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.cells import cells_in_slices, frozen
from legendre.core.errors import InvalidTensor
from legendre.core.memory import rows_of
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.checks import (
    LOSES_ENTRIES,
    base_measure,
    checked_total,
    missing_cells,
    numeric,
    scan,
    support_mask,
)
from legendre.data.largest_entries import largest_of_each
from legendre.data.observation import Comparable, Observation, Orders, Rankings, beyond_memory
from legendre.data.support import Support

TOGETHER = 32  # slices copied at a time
# types of entries that compiled code reads
COMPILED = {np.dtype(name).str for name in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f4", "f8")}


@dataclass(frozen=True, eq=False)
class Dense(Observation):
    """X as an array; what the first pass found on its way is kept where Omega is the full grid."""

    kind = "a dense array"
    whole = True

    values: AnyArray  # X in its own dtype, never changed: a copy of a small X, a large one by reference
    compiled_boxes: bool = False  # whether the cells are boxes of an X that compiled code has read
    by_mode: tuple[
        FloatArray, ...
    ] = ()  # X summed over all modes but one: of the first mode, or of each; () if unknown
    last_ranking: IntArray | None = None  # the place of the largest entry in each slice of the last mode

    def here(self) -> Dense:
        return self

    @cached_property
    def counts(self) -> bool:
        if self.values.dtype.kind != "f":
            return True
        mask = self.support.mask
        return all(
            _whole_numbers(self.values[r] if mask is None else self.values[r][mask[r]]) for r in rows_of(self.shape)
        )

    @property
    def compiled(self) -> bool:
        return self.compiled_boxes or self.values.size >= limits.COMPILED_CELLS

    @property
    def largest_grid(self) -> float:
        """A large X is rather read plane by plane than copied to a grid about as large, but for one of short modes."""
        size = self.values.size
        short = size <= limits.SHORT_MODE_CELLS and max(self.values.shape) <= limits.SHORT_MODE
        return math.inf if short or size < limits.COMPILED_CELLS else size / limits.MERGING

    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        if boxes is not None:
            return np.asarray(self.merged(quotient)[tuple(boxes.T)])
        mask = self.support.mask
        if self.values.size >= limits.COMPILED_CELLS:
            from legendre.core.sums.kernels.box_sums import sums_over_boxes

            return sums_over_boxes(self.values, [quotient.box_of(k) for k in range(len(self.shape))], mask).sums
        return quotient.merge(self.values if mask is None else np.where(mask, self.values, 0))

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum X above each cell of B in the memory of a few slabs; only where Omega is the full grid."""
        from legendre.core.sums.kernels.suffix_sums import suffix_sums

        return suffix_sums(self.values, quotient.cuts, positions)

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        """Sum a large X to the merged margin of each mode: one pass over it, two or none, whatever the order."""
        if len(self.by_mode) == len(self.shape):
            return [np.add.reduceat(own, cut) for own, cut in zip(self.by_mode, quotient.cuts, strict=True)]
        half = _smaller_half(quotient.merged_shape)
        margins: dict[int, FloatArray] = {}
        for group in (half, [k for k in range(len(self.shape)) if k not in half]):
            if group:
                sums = self._merged_onto(quotient, group)
                margins |= {k: sums.sum(axis=tuple(j for j in range(sums.ndim) if j != k)) for k in group}
        return [margins[k] for k in range(len(self.shape))]

    def tables(self, quotient: Quotient, groups: Sequence[tuple[int, ...]]) -> list[FloatArray]:
        """Sum X onto the modes of all sets together where that leaves little of it; else half of the sets at a time."""
        shape, every = quotient.merged_shape, range(len(self.shape))
        modes = sorted(set().union(*groups))
        if len(groups) > 1 and math.prod(shape[k] for k in modes) * limits.MERGING > self.values.size:
            half = len(groups) // 2
            return self.tables(quotient, groups[:half]) + self.tables(quotient, groups[half:])
        sums, out = self._merged_onto(quotient, modes), []
        for group in groups:
            table = sums.sum(axis=tuple(k for k in every if k not in group))
            out.append(table.transpose(np.argsort(np.argsort(group))))
        return out

    def _merged_onto(self, quotient: Quotient, modes: list[int]) -> FloatArray:
        """Sum X over the boxes of some modes and over everything in the others."""
        from legendre.core.sums.kernels.box_sums import sums_over_boxes

        if modes == [0] and self.by_mode:
            return np.add.reduceat(self.by_mode[0], quotient.cuts[0]).reshape(-1, *[1] * (len(self.shape) - 1))
        boxes = [quotient.box_of(k) if k in modes else np.zeros(n, dtype=np.int64) for k, n in enumerate(self.shape)]
        return sums_over_boxes(self.values, boxes).sums

    def at(self, cells: IntArray) -> FloatArray:
        return np.where(self.support.contains(cells), self.values[tuple(cells.T)], 0.0)

    def inside(self, cells: IntArray) -> IntArray:
        return cells if self.support.mask is None else cells[self.support.mask[tuple(cells.T)]]

    def arranged(self, order: Orders) -> Dense:
        origin, mask = self._arranged_origin(order), self.support.mask
        move = origin.of(self.shape).arrange
        return Dense(
            self.support if mask is None else Support(self.shape, move(mask)),
            None if self.base is None else frozen(move(self.base)),
            None if self.missing is None else move(self.missing),
            self.total,
            self.positive,
            frozen(move(self.values)),
            origin=origin,
        )

    def largest(self, count: int, axis: int) -> IntArray:
        """Rank each slice; where one entry is wanted of a large X, all slices in one pass."""
        mask = self.support.mask
        if count == 1 and self.last_ranking is not None and axis == len(self.support.shape) - 1:
            return cells_in_slices(self.last_ranking, np.arange(self.support.shape[axis]), self.support.shape, axis)
        compiled = self.values.size >= limits.COMPILED_CELLS and self.values.dtype.str in COMPILED
        if count == 1 and mask is None and compiled:
            return largest_of_each(self.values, axis)
        places, numbers = [], []
        table = np.moveaxis(self.values, axis, 0)
        for start in range(0, len(table), TOGETHER):  # a slice alone may lie scattered over memory
            some = table[start : start + TOGETHER]
            values = np.ascontiguousarray(some).reshape(len(some), -1)
            if mask is not None:
                inside = np.moveaxis(mask, axis, 0)[start : start + len(values)].reshape(len(values), -1)
                chosen = np.zeros_like(inside)
                for row, cells, entries in zip(chosen, inside, values, strict=True):
                    row[cells] = top(entries[None, cells], count)[0]
            else:
                chosen = top(values, count)
            number, place = np.nonzero(chosen)
            places.append(place)
            numbers.append(number + start)
        return cells_in_slices(np.concatenate(places), np.concatenate(numbers), self.support.shape, axis)

    def negentropy(self) -> float:
        return self._negentropy

    @cached_property
    def _negentropy(self) -> float:
        """The sum of ``p log(p / r)``: one pass over X, whoever asks."""
        own = 0.0
        for rows in rows_of(self.shape):
            x = self.values[rows].astype(np.float64)
            inside = x > 0 if self.support.mask is None else self.support.mask[rows] & (x > 0)
            p = x[inside] / self.total
            log_ratio = np.log(p) if self.base is None else np.log(p) - np.log(self.base[rows][inside])
            own += float(p @ log_ratio)
        return own

    @cached_property
    def unit(self) -> float:
        """The total, or the largest entry where that is outside Omega and larger than all inside together."""
        return self.total if self.support.mask is None else max(self.total, float(np.nanmax(self.values)))

    def squared_error(self, q: Comparable) -> float:
        square = 0.0
        for rows in rows_of(self.shape):
            difference = (self.values[rows] - q.rows(rows)) / self.unit
            if self.missing is not None:
                difference = difference[~self.missing[rows]]
            square += float(np.vdot(difference, difference))
        return square


def observe(
    X: ArrayLike,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    *,
    rankings: Rankings | None = None,
    grows: bool = False,
    prior: bool = False,
) -> Dense:
    """Check X, find Omega and the total; `rankings` says beforehand what `Observation.largest` will be called with.

    So does `grows` that a basis will grow on X: the margins of an X too large to score every cell of will be wanted.
    With `prior` X is a base measure: no entry may be missing, and one may underflow when divided by the total.
    """
    if base is None and isinstance(support, str) and support == "all" and (sound := _sound(X, prior)) is not None:
        return sound
    values = numeric(X, "X", InvalidTensor)
    wanted = {} if rankings is None or values.size < limits.COMPILED_CELLS else rankings(values.shape)
    coarsened = grows and values.size > limits.COARSE_BOXES
    seen = scan(values, rank=wanted.get(values.ndim - 1) == 1, margins=coarsened)
    missing = missing_cells(values, seen, prior)
    mask = support_mask(values, missing, support)
    measure = None if base is None else base_measure(base, values, mask)
    if measure is not None and not np.all(measure > 0):
        mask = (measure > 0) if mask is None else mask & (measure > 0)
    return Dense(
        values=frozen(values.copy() if values.size < limits.COMPILED_CELLS else values),
        missing=missing,
        support=Support(values.shape, mask),
        base=measure,
        total=checked_total(values, mask, seen._replace(smallest=np.inf) if prior else seen),
        positive=seen.smallest > 0 if mask is None else bool((values[mask] > 0).all()),
        by_mode=seen.by_mode if mask is None else (),
        last_ranking=seen.largest if mask is None else None,
    )


def _sound(X: object, prior: bool) -> Dense | None:
    """Observe a small NumPy array with which nothing is wrong, the common case; ``None`` for all that needs a look."""
    if type(X) is not np.ndarray or X.dtype.kind not in "iuf" or not 0 < X.size < limits.COMPILED_CELLS:
        return None
    smallest = float(X.min())
    with np.errstate(over="ignore"):
        total = float(X.sum(dtype=np.float64)) if smallest >= 0 else np.nan
    divisible = prior or (smallest / total > 0 if smallest else total <= LOSES_ENTRIES or X.dtype.kind != "f")
    if not (divisible and 0 < total < np.inf and 0 < X.ndim <= limits.MOST_AXES):
        return None
    return Dense(Support(X.shape), None, None, total, smallest > 0, values=frozen(X.copy()))


def _whole_numbers(values: AnyArray) -> bool:
    return bool((values == np.rint(values)).all())


def in_memory(data: Observation, task: str, instead: str = "decompose takes it as it is") -> Dense:
    """Return X as an array for a task that needs every cell; refuse a grid that is too large, and say what takes it."""
    if (dense := data.here()) is not None:
        return dense if dense.origin is data.origin else replace(dense, origin=data.origin)
    raise InvalidTensor(
        f"{task} needs every cell of X in memory, but X is {data.kind} of shape {data.shape}, which "
        f"{beyond_memory(data.shape)}. Sum modes out or merge levels first; {instead}."
    )


def _smaller_half(shape: tuple[int, ...]) -> list[int]:
    """Split the modes so that both halves have small grids: leading modes up to the square root of the cells."""
    most = math.isqrt(math.prod(shape))
    return list(range(max(1, sum(size <= most for size in accumulate(shape, operator.mul)))))


def top(rows: AnyArray, count: int) -> BoolArray:
    """Mark the `count` largest entries of each row of a table; of equal ones the first (`largest_entries`).

    >>> top(np.array([[7, 5, 7, 7], [1, 2, 2, 2]]), 2).astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 1, 0]]
    """
    length = rows.shape[1]
    if count >= length:
        return np.ones(rows.shape, dtype=np.bool_)
    if count == 1:
        first = np.zeros(rows.shape, dtype=np.bool_)
        first[np.arange(len(rows)), rows.argmax(axis=1)] = True
        return first
    cut = np.partition(rows, length - count, axis=1)[:, length - count, None]
    chosen: BoolArray = rows > cut
    equal = rows == cut
    equal &= np.cumsum(equal, axis=1) <= count - chosen.sum(axis=1, keepdims=True)
    chosen |= equal
    return chosen


def with_counts(data: Observation, counts: FloatArray) -> Dense:
    """Return X with other entries on the cells of Omega, in C order: what a bootstrap fits.

    >>> with_counts(observe([[1, 2], [3, 4]]), np.array([4.0, 3.0, 2.0, 1.0])).values.tolist()
    [[4.0, 3.0], [2.0, 1.0]]
    """
    inside = data.support.on_grid()
    values = np.zeros(data.shape)
    values[inside] = counts
    support = Support(data.shape, None if data.support.full else inside)
    return Dense(support, data.base, data.missing, float(counts.sum()), bool((counts > 0).all()), values=values)
