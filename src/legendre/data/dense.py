"""An X that is an array in memory: what later stages need of it, and how it is checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.cells import cells_in_slices, freeze, other_modes
from legendre.core.errors import InvalidTensor
from legendre.core.labels import Orders
from legendre.core.memory import rows_of
from legendre.core.origin import Origin
from legendre.core.sums.cell_sums import suffix_sums
from legendre.core.sums.quotient import Quotient, sum_others
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.data.checks import base_measure, check_entries, check_numeric, check_on_support, scan, support_mask
from legendre.data.observation import Comparable, Observation, Support


@frozen
class Dense(Observation):
    """X as an array. If Omega is the full grid, sums by mode that the first pass found are kept in `by_mode`."""

    kind = "a dense array"
    whole = True

    values: AnyArray  # X in its own dtype, never changed: a copy of a small X, a large one by reference
    last_ranking: IntArray | None = None  # the place of the largest entry in each slice of the last mode
    compiled_boxes: bool = False  # whether the cells are boxes of an X that compiled code has read

    @property
    def dense(self) -> Dense:
        """X itself: other kinds of X form it."""
        return self

    @cached_property
    def whole_numbers(self) -> bool:
        """Whether every entry on Omega is an integer; X is read in blocks of rows, to save memory."""
        x, mask = self.values, self.support.mask
        if x.dtype.kind != "f":  # integers
            return True
        parts = (x[rows] if mask is None else x[rows][mask[rows]] for rows in rows_of(self.shape))
        return all(bool((part == np.rint(part)).all()) for part in parts)

    @property
    def compiled(self) -> bool:
        """Whether compiled code reads X, because it is large, or has read the larger X whose boxes these cells are."""
        return self.compiled_boxes or self.values.size >= limits.COMPILED_CELLS

    @property
    def largest_grid(self) -> float:
        """The number of merged cells up to which X is summed onto the merged grid.

        For a small X that is any number. A large X must shrink by a factor of `limits.MERGING` to be worth a grid; else
        compiled code reads it plane by plane. Where all modes are short, planes are mostly overhead.
        """
        size = self.values.size
        short = size <= limits.SHORT_MODE_CELLS and max(self.values.shape) <= limits.SHORT_MODE
        return math.inf if short or size < limits.COMPILED_CELLS else size / limits.MERGING

    def merged(self, quotient: Quotient) -> FloatArray:
        """Sum X on Omega over each box."""
        mask = self.support.mask
        return quotient.merge(self.values if mask is None else np.where(mask, self.values, 0))

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum X at or above each box."""
        return suffix_sums(self.values, quotient.corners(positions))

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        """Sum X over the intervals of each mode: from the sums that the first pass found, or by reading X again."""
        if self.by_mode:
            return super().margins(quotient)
        return self.tables(quotient, [(k,) for k in range(self.n_modes)])

    def tables(self, quotient: Quotient, groups: Sequence[Modes]) -> list[FloatArray]:
        """Sum X onto each of some sets of modes, and there over the boxes: one table for each set.

        The tables of a junction tree's cliques, and margins, are found so, without the merged grid; Omega must be the
        full grid. The axes of a table are in the order in which its set lists the modes. X is first summed onto the
        modes of all sets together, so that it is read once, if that shrinks it by a factor of `limits.MERGING`.
        Otherwise each half of the sets is treated on its own.
        """
        modes = sorted(set().union(*groups))
        if len(groups) > 1 and math.prod(self.shape[k] for k in modes) * limits.MERGING > self.values.size:
            half = len(groups) // 2
            return self.tables(quotient, groups[:half]) + self.tables(quotient, groups[half:])
        others = other_modes(modes, self.n_modes)
        # modes that no set needs keep length 1, so that axes keep their numbers
        sums, out = self.values.sum(axis=others, dtype=np.float64, keepdims=True), []
        for group in groups:
            table = sum_others(sums, group)
            out.append(Quotient(table.shape, tuple(quotient.cuts[k] for k in group)).merge(table))
        return out

    def at(self, cells: IntArray) -> FloatArray:
        """Return the entries of X at some cells (k x N); 0 outside Omega, also where X is NaN."""
        return np.where(self.support.contains(cells), self.values[tuple(cells.T)], 0.0)

    def reorder(self, order: Orders) -> Dense:
        """Permute the levels in all arrays over the grid."""
        labels = self.labels.reorder(order)
        return self.rearrange(labels.arrange, replace(self.origin, labels=labels))

    def rearrange(self, move: Callable[[AnyArray], AnyArray], origin: Origin) -> Dense:
        """Return X with all arrays over the grid changed by `move`, a permutation of levels or of modes.

        Sums and the ranking that the first pass found are dropped.
        """
        mask, values = self.support.mask, freeze(move(self.values))
        return replace(
            self,
            support=Support(values.shape, None if mask is None else move(mask)),
            base=None if self.base is None else freeze(move(self.base)),
            missing=None if self.missing is None else move(self.missing),
            values=values,
            origin=origin,
            by_mode=(),
            last_ranking=None,
        )

    def largest(self, count: int, axis: int, together: int = 32) -> IntArray:
        """Find the largest entries of each slice; `together` slices are copied at a time.

        A slice alone may be scattered over memory, so that reading each on its own would read all of X each time.
        """
        shape, mask = self.values.shape, self.support.mask
        length = shape[axis]
        if count == 1 and axis == len(shape) - 1 and self.last_ranking is not None:  # the first pass has found them
            return cells_in_slices(self.last_ranking, np.arange(length), shape, axis)
        places, numbers = [], []
        table = np.moveaxis(self.values, axis, 0)
        for start in range(0, length, together):
            # a table with a row for each of these slices
            values = np.ascontiguousarray(table[start : start + together])
            values = values.reshape(len(values), -1)
            if mask is None:
                chosen = top(values, count)
            else:
                inside = np.moveaxis(mask, axis, 0)[start : start + together].reshape(values.shape)
                # cells outside Omega rank last: entries are >= 0
                chosen = inside & top(np.where(inside, values, np.int64(-1)), count)
            number, place = np.nonzero(chosen)
            places.append(place)
            numbers.append(number + start)
        return cells_in_slices(np.concatenate(places), np.concatenate(numbers), shape, axis)

    @property
    def probabilities(self) -> FloatArray:
        """P on the grid: X over its sum, 0 outside the support."""
        mask = True if self.support.mask is None else self.support.mask
        return np.divide(self.values, self.total, out=np.zeros(self.values.shape), where=mask, dtype=np.float64)

    @cached_property
    def negentropy(self) -> float:
        """The sum of ``p log(p / r)`` over the cells of Omega where X > 0, in blocks of rows, to save memory."""
        negentropy = 0.0
        for rows in rows_of(self.shape):
            x = self.values[rows].astype(np.float64)
            inside = x > 0 if self.support.mask is None else self.support.mask[rows] & (x > 0)
            p = x[inside] / self.total
            log_ratio = np.log(p) if self.base is None else np.log(p) - np.log(self.base[rows][inside])
            negentropy += float(p @ log_ratio)
        return negentropy

    def squared_error(self, q: Comparable) -> float:
        """Sum ``(X - Q)^2`` in blocks of rows, to save memory; missing cells are left out."""
        square = 0.0
        for rows in rows_of(self.shape):
            difference = self.values[rows] - q.rows(rows)
            if self.missing is not None:
                difference = difference[~self.missing[rows]]
            square += float(np.vdot(difference, difference))
        return square


def observe(X: ArrayLike, support: str | ArrayLike = "all", base: ArrayLike | None = None) -> Dense:
    """Check an X that NumPy can hold, its `support` and its `base` measure; find Omega and the total.

    Entries that are NaN are missing: they are not in Omega.
    """
    values = check_numeric(X, "X", InvalidTensor)
    found = check_entries(values)
    missing = np.isnan(values) if math.isnan(found.total) else None  # infinite entries have been refused
    mask = support_mask(values, missing, support)
    measure = None if base is None else base_measure(base, values, mask)
    if measure is not None and not np.all(measure > 0):  # cells of base measure 0 cannot have probability
        mask = (measure > 0) if mask is None else mask & (measure > 0)
    if mask is not None:  # total and range are those on Omega; this scan finds no sums by mode, and no ranking
        found = scan(values[mask])
    check_on_support(values, found, full=mask is None)
    # a copy does not change if the caller changes X later
    kept = values.view() if values.size >= limits.COMPILED_CELLS else values.copy()
    kept.setflags(write=False)
    return Dense(
        values=kept,
        missing=missing,
        support=Support(values.shape, mask),
        base=measure,
        total=found.total,
        positive=found.smallest > 0,
        by_mode=found.by_mode,
        last_ranking=found.last_ranking,
    )


def top(rows: AnyArray, count: int) -> BoolArray:
    """Mark the `count` largest entries of each row of a table; of equal entries the first are taken.

    This is the tie rule of B3: other kinds of X follow it, so that a basis does not depend on how X is held.

    >>> top(np.array([[7, 5, 7, 7], [1, 2, 2, 2]]), 2).astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 1, 0]]
    """
    length = rows.shape[1]
    if count >= length:
        return np.ones(rows.shape, dtype=np.bool_)
    chosen = np.zeros(rows.shape, dtype=np.bool_)
    if count == 1:  # one pass, which takes the first of equal entries
        chosen[np.arange(len(rows)), rows.argmax(axis=1)] = True
        return chosen
    least = length - count  # the place in a sorted row of the smallest entry that is taken
    threshold = np.partition(rows, least, axis=1)[:, least, None]
    chosen = rows >= threshold
    too_many = np.count_nonzero(chosen, axis=1) - count
    for row in np.flatnonzero(too_many):  # several entries equal the smallest: the last of them are too many
        equal = np.flatnonzero(rows[row] == threshold[row])
        chosen[row, equal[len(equal) - too_many[row] :]] = False
    return chosen


def with_counts(data: Observation, counts: FloatArray) -> Dense:
    """Return X with other entries on Omega; `counts` (|Omega|) lists them in C order.

    The parametric bootstrap fits such tables, drawn from Q, and the EM algorithm such tables, completed.

    >>> with_counts(observe([[1, 2], [3, 4]]), np.array([4.0, 3.0, 2.0, 1.0])).values.tolist()
    [[4.0, 3.0], [2.0, 1.0]]
    """
    inside = data.support.on_grid()
    values = np.zeros(data.shape)
    values[inside] = counts
    support = Support(data.shape, None if data.support.full else inside)
    return Dense(support, data.base, data.missing, float(counts.sum()), bool((counts > 0).all()), values=values)
