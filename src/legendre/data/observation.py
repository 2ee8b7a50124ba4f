"""The interface through which every later stage reads X, whether it is dense, sparse or a dask array."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from legendre.core import limits
from legendre.core.cells import entries_at, find_rows, freeze
from legendre.core.errors import InvalidTensor
from legendre.core.labels import Labels, Mode, Orders
from legendre.core.memory import check_room, size_name
from legendre.core.origin import PLAIN, Origin
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Shape, frozen

if TYPE_CHECKING:
    from legendre.data.dask import FittedModel
    from legendre.data.dense import Dense
    from legendre.data.sparse import Sparse


Ranked = tuple[tuple[Mode, int], ...]  # modes, and how many largest entries of each of its slices are wanted


@frozen
class Support:
    """The sample space Omega of the paper's Section 2.1."""

    shape: Shape  # the grid (I_1, ..., I_N)
    mask: BoolArray | None = None  # True where a cell belongs to Omega; None is every cell, and costs no memory
    points: IntArray | None = None  # the cells of Omega (n x N) in C order, where the grid is too large for a mask

    @property
    def full(self) -> bool:
        """True when Omega is the full grid."""
        return self.mask is None and self.points is None

    @cached_property
    def n_cells(self) -> int:
        """The number of cells, |Omega|."""
        if self.points is not None:
            return len(self.points)
        return math.prod(self.shape) if self.mask is None else int(np.count_nonzero(self.mask))

    def contains(self, cells: IntArray) -> BoolArray:
        """Return for each of some cells (k x N, inside the grid) whether it belongs to Omega."""
        if self.points is not None:
            return find_rows(cells, self.points) >= 0
        return np.ones(len(cells), dtype=np.bool_) if self.mask is None else entries_at(self.mask, cells)

    def merge(self, quotient: Quotient, base: FloatArray | None) -> FloatArray:
        """Sum the base measure (1 if None) over the cells of Omega in each box: the measure of each merged cell."""
        inside = self.on_grid()
        return quotient.merge(inside if base is None else np.where(inside, base, 0.0))

    def on_grid(self) -> BoolArray:
        """Return the mask as a NumPy array over the grid, formed if there is none. Callers must not write to it."""
        if type(self.mask) is np.ndarray:
            return self.mask
        check_room(math.prod(self.shape), 1, "a mask of the sample space", "Ask about some cells only.")
        if self.mask is not None:  # a dask array: compute it
            return np.asarray(self.mask)
        grid = np.full(self.shape, self.points is None)
        if self.points is not None:
            grid[tuple(self.points.T)] = True
        return grid

    def cells(self) -> IntArray:
        """List the cells of Omega, |Omega| x N, in C order."""
        if self.points is not None:
            return self.points.astype(np.int64)
        check_room(self.n_cells, 8 * len(self.shape), "a list of all cells", "Ask about some cells only.")
        return np.argwhere(self.on_grid()).astype(np.int64)


class Comparable(Protocol):
    """The fitted Q in the forms that `Observation.squared_error` needs: one for each kind of X."""

    def rows(self, rows: slice, /) -> FloatArray:
        """Return Q in X's units on some rows, slices of the first mode; 0 outside the support."""

    def log_prob(self, cells: IntArray, /) -> FloatArray:
        """Return log q of some cells (k x N)."""

    def sum_of_squares(self) -> float:
        """Return the sum of q^2 over all cells."""

    def on_blocks(self) -> FittedModel:
        """Return Q in a form that can be sent to other machines, where it is computed on any rectangle of the grid."""


@frozen
class Observation(ABC):
    """X, checked, with its sample space: what `data/read.py` makes of anything that a caller passes."""

    kind: ClassVar[str]  # how X is held, in words, for error messages
    whole: ClassVar[bool] = False  # whether every cell is in memory, so that any merged grid can be formed

    support: Support  # the sample space Omega: never holds a missing cell, nor one of base measure 0
    base: FloatArray | None  # the base measure r on the grid; None for the paper's r = 1
    missing: BoolArray | None  # True where X is NaN; None if no entry is
    total: float  # the sum of X over Omega, so that P = X / total
    positive: bool  # True when X > 0 on all of Omega: then the minimum is attained
    origin: Origin = field(default=PLAIN, kw_only=True)  # labels, and what X was before it was read
    by_mode: tuple[FloatArray, ...] = field(default=(), kw_only=True)  # X summed over all modes but one; () if unknown

    @property
    def shape(self) -> Shape:
        """The grid ``(I_1, ..., I_N)``."""
        return self.support.shape

    @property
    def n_modes(self) -> int:
        """The number of modes."""
        return len(self.shape)

    @property
    def labels(self) -> Labels:
        """What the modes and their levels are called."""
        return self.origin.of(self.shape)

    @property
    def entries(self) -> Sparse | None:
        """X itself if it is held as a list of its non-zero entries, else ``None``."""
        return None

    @property
    def n_numbers(self) -> int:
        """The number of cells of X that are not NaN, in Omega or not."""
        return math.prod(self.shape) - (0 if self.missing is None else int(self.missing.sum()))

    def as_dense(self) -> Dense | None:
        """Return X with every cell in memory; ``None`` if its grid is too large for that (see `beyond_memory`)."""
        return self.dense if self.whole or not beyond_memory(self.shape) else None

    def in_memory(self, task: str, instead: str = "decompose takes it as it is") -> Dense:
        """Return X as a dense array, for a task that needs every cell; refuse a grid that is too large.

        `task` is the public function, and `instead` the end of the error message: what the user can call with such an
        X.
        """
        if (dense := self.as_dense()) is not None:
            return dense if dense.origin is self.origin else replace(dense, origin=self.origin)
        raise InvalidTensor(
            f"{task} needs every cell of X in memory, but X is {self.kind} of shape {self.shape}, which "
            f"{beyond_memory(self.shape)}. Sum modes out or merge levels first; {instead}."
        )

    @property
    @abstractmethod
    def dense(self) -> Dense:
        """X with every cell in memory, formed once."""

    @property
    @abstractmethod
    def whole_numbers(self) -> bool:
        """True when every entry on Omega is an integer, of whatever dtype."""

    @property
    def counts(self) -> bool:
        """Whether X holds counts: what the caller says, or else whether its entries are integers."""
        return self.whole_numbers if self.origin.counted is None else self.origin.counted

    @property
    def compiled(self) -> bool:
        """True when compiled code reads X: then the compiler is loaded anyway, and small work may use it as well."""
        return False

    @property
    def largest_grid(self) -> float:
        """The number of merged cells up to which X is summed onto the merged grid, if Omega is the full grid.

        Beyond it, X is summed above each cell of the basis, or over margins: `above`, `margins`.
        """
        return limits.LARGEST_MASS

    @abstractmethod
    def merged(self, quotient: Quotient) -> FloatArray:
        """Sum X on Omega over each box: an array over the merged grid."""

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        """Sum X over all modes but one, and over each interval of that mode: a vector for each mode."""
        return [np.add.reduceat(sums, cut) for sums, cut in zip(self.by_mode, quotient.cuts, strict=True)]

    @abstractmethod
    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum X over the cells at or above each of some boxes (k x N, merged coordinates), without the merged grid.

        Divided by the total, these sums are eta_hat, eq. (3). Only X on Omega counts, which in memory is called for
        the full grid alone.
        """

    @abstractmethod
    def at(self, cells: IntArray) -> FloatArray:
        """Return the entries of X at some cells (k x N); 0 outside Omega."""

    def reorder(self, order: Orders) -> Observation:
        """Return X with the levels of some modes rearranged by `order`; answers are in the order of X again.

        A sparse X has a method of its own. Any other X is formed as a dense array, if that fits in memory.
        """
        if (dense := self.as_dense()) is None:
            raise InvalidTensor(
                f"X is {self.kind} of shape {self.shape}, whose levels cannot be arranged. Put its levels in an order "
                "that makes sense before, and pass unordered=()."
            )
        return replace(dense, origin=self.origin).reorder(order)

    @abstractmethod
    def largest(self, count: int, axis: int) -> IntArray:
        """List the cells (n x N) of the `count` largest entries on Omega of each slice of mode `axis`.

        Of equal entries those that come first in C order are taken: the tie rule of B3, the basis that needs this.
        """

    @property
    @abstractmethod
    def negentropy(self) -> float:
        """The sum of ``p log(p / r)`` over Omega, for P = X / total and the base measure r; cached.

        KL(P, Q) is this sum + psi - theta . eta_hat.
        """

    @abstractmethod
    def squared_error(self, q: Comparable) -> float:
        """Sum ``(X - Q)^2``, in X's units, over every cell of X that is not NaN; Q is 0 outside Omega."""


def beyond_memory(shape: Shape) -> str | None:
    """Say which limit a grid of this shape exceeds, as part of an error message; ``None`` if it can be formed.

    It is asked before a sparse or distributed X, or a table of X and Q, is formed as a dense array.
    """
    if len(shape) > limits.MOST_AXES:
        return f"has {len(shape)} modes, and an array has at most {limits.MOST_AXES}"
    if (cells := math.prod(shape)) > limits.LARGEST_HELD:
        return f"has {size_name(cells)} cells, and at most {limits.LARGEST_HELD:,} are formed"
    return None


def in_c_order(cells: IntArray, values: AnyArray) -> tuple[IntArray, AnyArray]:
    """Sort cells (k x N) in C order, and their values (k) with them."""
    order = np.lexsort(cells.T[::-1])
    return freeze(cells[order]), freeze(values[order])


def largest_entries(cells: IntArray, values: AnyArray, axis: int, count: int) -> IntArray:
    """List the cells of the `count` largest entries of each slice of mode `axis`, slice by slice.

    The entries are given by their cells (n x N) and values (n). Cells must be in C order: of equal entries the first
    are then taken, as the tie rule of B3 demands.
    """
    order = np.lexsort((-values, cells[:, axis]))  # by slice, then the largest first; stable
    slices = cells[order, axis]
    # the rank within its slice: the place of an entry less that of the first entry of its slice
    rank = np.arange(len(order)) - np.searchsorted(slices, slices)
    return np.asarray(cells[order[rank < count]], dtype=np.int64)
