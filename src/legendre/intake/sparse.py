"""A tensor as a list of its non-zero entries, in a grid that may be too large to form."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.arrays import AnyArray, FloatArray, IntArray, check_room, find, frozen
from legendre.dominance import sums_above
from legendre.errors import InvalidSupport, InvalidTensor, unknown_name
from legendre.intake.checks import SUPPORT_NAMES
from legendre.intake.dense import cells_of
from legendre.intake.observation import Observation
from legendre.quotient import Quotient
from legendre.support import Support

LARGEST_GRID = 1 << 24
"""Merged cells beyond which sums are taken from the list of entries."""


@dataclass(frozen=True, eq=False)
class Sparse(Observation):
    """X as its entries.

    Parameters
    ----------
    cells
        The cells (nnz x N) with a positive entry, all different, in C order.
    values
        Their entries.
    """

    kind = "sparse"

    cells: IntArray
    values: AnyArray

    @cached_property
    def counts(self) -> bool:
        """True when every entry is a whole number."""
        return bool((self.values == np.rint(self.values)).all())

    @property
    def largest_grid(self) -> float:
        """Grids of more cells are not formed."""
        return LARGEST_GRID

    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        """Sum X over each box."""
        if boxes is not None:
            return _sums(find(quotient.boxes(self.cells), boxes), self.values, len(boxes))
        check_room(quotient.n_merged, 8, "a merged grid", "Use fewer parameters, or support='nonzero'.")
        return _sums(quotient.flat_boxes(self.cells), self.values, quotient.n_merged).reshape(quotient.merged_shape)

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        """Sum X over each interval of each mode."""
        return [
            _sums(quotient.boxes_along(k, self.cells[:, k]), self.values, length)
            for k, length in enumerate(quotient.merged_shape)
        ]

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum X above each of some boxes."""
        boxes = np.asfortranarray(quotient.boxes(self.cells))
        return sums_above(quotient.merged_shape, boxes, positions, self.values.astype(np.float64))

    def at(self, cells: IntArray) -> FloatArray:
        """Return the entries of some cells."""
        place = find(cells, self.cells)
        return np.where(place >= 0, self.values[place], 0.0)

    def largest(self, count: int, axis: int) -> IntArray:
        """Sort the entries by slice and value; where the whole grid is the sample space zeros make up the number."""
        slices = self.cells[:, axis]
        # the cells are in C order, and lexsort is stable: of equal entries the first in C order comes first
        order = np.lexsort((-self.values, slices))
        first = np.searchsorted(slices[order], np.arange(self.shape[axis] + 1))
        rank = np.arange(len(order)) - first[slices[order]]
        chosen = self.cells[order[rank < count]].astype(np.int64)
        if not self.support.full:
            return chosen
        number = np.minimum(np.diff(first), count)
        zeros = [self._first_zeros(axis, int(k), count) for k in np.flatnonzero(number < count)]
        return np.concatenate([chosen, *zeros])

    def _first_zeros(self, axis: int, number: int, count: int) -> IntArray:
        """List the cells without data that come first in a slice, as many as it lacks."""
        in_slice = self.shape[:axis] + self.shape[axis + 1 :]
        size = math.prod(in_slice)
        own = self.cells[self.cells[:, axis] == number]
        few = cells_of(np.arange(min(size, count)), np.full(min(size, count), number), self.shape, axis)
        return few[find(few, own) < 0][: max(0, count - len(own))]

    def negentropy(self) -> float:
        """Sum ``p log p``."""
        p = self.values / self.total
        return float(p @ np.log(p))


def observe_entries(cells: IntArray, values: AnyArray, shape: tuple[int, ...], support: object = "all") -> Sparse:
    """Make an observation of entries that are positive, finite, all different and in C order.

    Examples
    --------
    >>> data = observe_entries(np.array([[0, 2], [1, 0]]), np.array([1, 3]), (10**6, 10**6), "nonzero")
    >>> data.support.n_cells, data.total
    (2, 4.0)
    """
    if not isinstance(support, str):
        raise InvalidSupport(
            "X is sparse, so that a boolean array over all of its grid cannot be its support; pass 'all' (zeros "
            "count) or 'nonzero'."
        )
    if support not in SUPPORT_NAMES:
        raise InvalidSupport(unknown_name("support", support, SUPPORT_NAMES))
    if not len(values):
        raise InvalidTensor("X is zero everywhere: it has no entries, so it cannot be normalised to probabilities.")
    with np.errstate(over="ignore"):
        total = float(values.sum(dtype=np.float64))
    if not np.isfinite(total):
        raise InvalidTensor(f"the sum of X overflows float64 (largest entry {values.max():g}). Divide X by that.")
    if float(values.min()) / total == 0:
        raise InvalidTensor(
            f"the smallest entry of X, {values.min():g}, underflows to 0 when it is divided by the sum {total:g}. "
            "Leave such entries out."
        )
    whole = len(values) == math.prod(shape)
    points = None if support == "all" or whole else cells
    return Sparse(
        support=Support(shape, None, points),
        base=None,
        missing=None,
        total=total,
        positive=support == "nonzero" or whole,
        cells=cells,
        values=frozen(values),
    )


def _sums(place: IntArray, values: AnyArray, size: int) -> FloatArray:
    return np.bincount(place, values, size).astype(np.float64, copy=False)
