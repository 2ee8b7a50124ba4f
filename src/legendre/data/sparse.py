"""An X that is a list of its non-zero entries, on a grid that may be too large to form."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np

from legendre.core.cells import find_rows, freeze
from legendre.core.errors import InvalidSupport, InvalidTensor
from legendre.core.labels import Orders
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import sums_above
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, FloatArray, IntArray, Shape, frozen
from legendre.data.checks import check_range, check_support_name, zero_everywhere
from legendre.data.dense import Dense
from legendre.data.observation import Comparable, Observation, Support, in_c_order, largest_entries
from legendre.data.sparse_tensor import merge


@frozen
class Sparse(Observation):
    """X as its positive entries; all other cells are 0, or have an equal share of a pseudo-count."""

    kind = "sparse"

    cells: IntArray  # the cells (nnz x N) with a positive entry, all different, in C order
    values: AnyArray  # their entries
    even: float = 0.0  # a pseudo-count: its sum over the full grid, over which it is spread evenly

    @property
    def entries(self) -> Sparse:
        """X itself, since it is a list: callers that can work on a list ask every X for one."""
        return self

    @cached_property
    def dense(self) -> Dense:
        """X with every cell in memory; a sample space that is a list of cells becomes a mask."""
        grid = np.zeros(self.shape, np.float64 if self.even else self.values.dtype)
        grid[tuple(self.cells.T)] = self.values
        if self.even:
            grid += self.even / self.support.n_cells  # each cell has the same share
        support = Support(self.shape, None if self.support.full else self.support.on_grid())
        return Dense(support, self.base, self.missing, self.total, self.positive, values=freeze(grid))

    @cached_property
    def whole_numbers(self) -> bool:
        """Whether every entry is an integer; with a pseudo-count, which is spread over all cells, none need be."""
        return not self.even and bool((self.values == np.rint(self.values)).all())

    def merged_in(self, boxes: IntArray, quotient: Quotient) -> FloatArray:
        """Sum X over each of some boxes (m x N, merged coordinates), which contain all of a listed Omega."""
        return _sums(find_rows(quotient.boxes(self.cells), boxes), self.values, len(boxes))

    def merged(self, quotient: Quotient) -> FloatArray:
        """Add each entry to its box; the pseudo-count is divided among boxes by their numbers of cells."""
        check_room(quotient.n_merged, 8, "a merged grid", "Use fewer parameters, or support='nonzero'.")
        sums = _sums(quotient.flat_boxes(self.cells), self.values, quotient.n_merged).reshape(quotient.merged_shape)
        return sums + self.even * (quotient.volumes / self.support.n_cells) if self.even else sums

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        """Add each entry to its interval of each mode, and the interval's share of the pseudo-count."""
        out = []
        for k, (interval_lengths, length) in enumerate(zip(quotient.lengths, self.shape, strict=True)):
            sums = _sums(quotient.boxes_along(k, self.cells[:, k]), self.values, len(interval_lengths))
            out.append(sums + self.even * (interval_lengths / length))
        return out

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum the entries at or above each box, and add the share of the pseudo-count that the cells there have."""
        boxes = np.asfortranarray(quotient.boxes(self.cells))  # sums compare one mode, one column, at a time
        sums = sums_above(quotient.merged_shape, boxes, positions, self.values.astype(np.float64))
        if self.even:  # the share of all cells that are at or above a corner u: the product of 1 - u_k / I_k
            sums += self.even * np.prod(1.0 - quotient.corners(positions) / np.array(self.shape, float), axis=1)
        return sums

    def at(self, cells: IntArray) -> FloatArray:
        """Look the cells up among the entries, and add each cell's share of the pseudo-count."""
        place = find_rows(cells, self.cells)
        return np.where(place >= 0, self.values[place].astype(np.float64), 0.0) + self.each * self.total

    def reorder(self, order: Orders) -> Sparse:
        """Give the entries the places of their levels as indices, and sort them in C order again."""
        labels = self.labels.reorder(order)
        cells, values = in_c_order(labels.places(self.cells), self.values)
        # a sample space that is a list has the cells with an entry, see `observe_entries`
        support = self.support if self.support.full else Support(self.shape, None, cells)
        return replace(self, support=support, cells=cells, values=values, origin=replace(self.origin, labels=labels))

    def largest(self, count: int, axis: int) -> IntArray:
        """Find the largest entries of each slice; on the full grid, cells that are 0 follow if a slice has too few.

        Of these the first in C order are taken, by the tie rule of B3. Zeros are appended after all entries, so slices
        are not listed one after the other.
        """
        chosen = largest_entries(self.cells, self.values, axis, count)
        if not self.support.full:
            return chosen
        n_slices, order = self.shape[axis], self.n_modes
        count = min(count, math.prod(self.shape) // n_slices)  # no slice has more cells
        check_room(n_slices * count, 32 * order, "a basis", "Number slices by a shorter mode.")
        first = np.searchsorted(chosen[:, axis], np.arange(n_slices + 1))  # where each slice begins in `chosen`
        # the `count` cells of a slice that come first in C order: the digits of 0, 1, ..., the last mode fastest.
        # np.unravel_index refuses shapes as large as these may be
        first_cells, rest = np.zeros((count, order), dtype=np.int64), np.arange(count)
        for j in reversed(range(order)):
            rest, first_cells[:, j] = np.divmod(rest, 1 if j == axis else self.shape[j])
        lists = [chosen]
        for k in np.flatnonzero(np.diff(first) < count):  # slices with fewer entries
            entries = chosen[first[k] : first[k + 1]]
            first_cells[:, axis] = k
            # the cells without data that come first, as many as the slice lacks
            lists.append(first_cells[find_rows(first_cells, entries) < 0][: count - len(entries)])
        return np.concatenate(lists)

    @cached_property
    def negentropy(self) -> float:
        """The sum of ``p log p`` over the entries, and over all other cells if a pseudo-count gives them some."""
        p = self.values / np.float64(self.total) + self.each
        of_entries = float(p @ np.log(p))
        if not self.even:
            return of_entries
        # each of the n - nnz other cells has probability even_share / n; n may be too large for float64, its log is not
        even_share, n_cells = self.even / self.total, self.support.n_cells
        return of_entries + even_share * (1 - len(p) / n_cells) * (math.log(even_share) - math.log(n_cells))

    @property
    def each(self) -> float:
        """The probability that the pseudo-count gives to each cell of the grid; it may underflow to 0."""
        return math.exp(math.log(self.even / self.total) - math.log(self.support.n_cells)) if self.even else 0.0

    def squared_error(self, q: Comparable) -> float:
        """Sum ``(X - Q)^2``, which is total^2 ``(p - q)^2``: over the entries, then over all other cells."""
        # in float64, whatever the type of X is
        p, q_listed = self.values / np.float64(self.total) + self.each, np.exp(q.log_prob(self.cells))
        difference = p - q_listed
        square, square_listed = float(np.vdot(difference, difference)), float(np.vdot(q_listed, q_listed))
        if self.support.full:
            # on the m other cells p is `each`: sum (each - q)^2 = sum q^2 - 2 each sum q + m each^2, where sum q is
            # `q_others`. The first term is a difference, which may cancel; it is at most (sum q)^2, since q >= 0. The
            # last one is each (even / total - nnz each), because all cells together have even / total
            q_others = 1.0 - float(q_listed.sum())
            square += min(max(q.sum_of_squares() - square_listed, 0.0), max(q_others, 0.0) ** 2)
            square += self.each * (self.even / self.total - 2.0 * q_others - self.each * len(p))
        return max(square, 0.0) * self.total**2


def observe_entries(cells: IntArray, values: AnyArray, shape: Shape, support: object = "all") -> Sparse:
    """Make an observation of a sparse X: cells (nnz x N), all different and in C order, with positive finite values.

    `SparseTensor` ensures that. The support is "all", where cells that are not listed count as zeros, or "nonzero".
    """
    if not isinstance(support, str):
        raise InvalidSupport(
            "X is sparse, so a boolean array over all of its grid cannot be its support; pass 'all' (zeros "
            "count) or 'nonzero'."
        )
    check_support_name(support)
    if not len(values):
        raise zero_everywhere()
    check_range(
        float(values.min()), float(values.max()), lambda value: tuple(cells[np.argmax(values == value)].tolist())
    )
    total = float(values.sum(dtype=np.float64))
    all_listed = len(values) == math.prod(shape)  # then there are no zeros, and Omega is the full grid either way
    omega = Support(shape, None, None if support == "all" or all_listed else cells)
    return Sparse(omega, None, None, total, support == "nonzero" or all_listed, cells, freeze(values))


def observe_rows(cells: IntArray, values: AnyArray | None, shape: Shape, even: float = 0.0) -> Sparse:
    """Count rows on the full grid: cells (n x N, inside it), which may repeat; values (n, default 1) >= 0 are added.

    `even` is a pseudo-count, which is spread evenly over all cells. Estimators read their data so.
    """
    listed = merge(list(cells.T), values, shape)
    if even and not listed.nnz:
        raise InvalidTensor("there are no rows, so there is nothing but the pseudo-count.")
    data = observe_entries(listed.cells, listed.values, shape)
    return replace(data, total=data.total + even, positive=data.positive or even > 0, even=float(even))


def _sums(place: IntArray, values: AnyArray, size: int) -> FloatArray:
    """Add up the values at each of `size` places, as float64: for an empty list NumPy would return integers."""
    return np.bincount(place, values, size).astype(np.float64, copy=False)
