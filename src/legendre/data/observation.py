"""What every later stage needs of X, however it is held."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from legendre.core import limits
from legendre.core.array_libraries import Home
from legendre.core.memory import size_name
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.support import Support

if TYPE_CHECKING:
    from legendre.data.dask.per_block import FittedModel

Rankings = Callable[[tuple[int, ...]], dict[int, int]]
"""From the shape of X to how many largest entries of each slice of which modes will be asked for."""


class Entries(NamedTuple):
    """X as a list: its non-zero entries, and a value more that is spread evenly over the whole grid."""

    cells: IntArray
    values: AnyArray
    even: float


class Comparable(Protocol):
    """Q, in every form in which some kind of X is compared with it."""

    def rows(self, rows: slice, /) -> FloatArray:
        """Return Q in X's units on some rows of the grid; 0 outside the support."""
        ...

    def rows_on(self, home: Home, rows: slice, /) -> Any:
        """Return the same as an array of another library, on its device."""
        ...

    def log_prob(self, cells: IntArray, /) -> FloatArray:
        """Return log q of some cells (k x N)."""
        ...

    def sum_of_squares(self) -> float:
        """Return the sum of q^2 over all cells."""
        ...

    def on_blocks(self) -> FittedModel:
        """Return Q as a function of the rectangle of the grid that is wanted, to be sent to other machines."""
        ...


@dataclass(frozen=True, eq=False)
class Observation(ABC):
    """X, checked.

    Parameters
    ----------
    support
        The sample space Omega: never holds a missing cell, nor one of base measure 0.
    base
        The base measure r on the grid, or ``None`` for the paper's r = 1.
    missing
        True where X is NaN; ``None`` when it is nowhere.
    total
        The sum of X over Omega, so that ``P = X / total``.
    positive
        True when X > 0 on all of Omega: then the minimum is attained.
    device
        Where grids are swept, if not here.
    """

    kind: ClassVar[str]
    """How X is held, in words."""
    whole: ClassVar[bool] = False
    """Whether every cell is at hand, so that any merged grid can be formed."""

    support: Support
    base: FloatArray | None
    missing: BoolArray | None
    total: float
    positive: bool
    device: Home | None = field(default=None, kw_only=True)

    @property
    def shape(self) -> tuple[int, ...]:
        """The grid ``(I_1, ..., I_N)``."""
        return self.support.shape

    @property
    def entries(self) -> Entries | None:
        """The non-zero entries, where X is held as a list of them."""
        return None

    @property
    def n_numbers(self) -> int:
        """The number of cells of X that are numbers, in Omega or not."""
        return math.prod(self.shape) - (0 if self.missing is None else int(self.missing.sum()))

    def here(self) -> Observation:
        """Return X in memory, every cell of it, if its grid is within limits (see `beyond_memory`); else X as it is."""
        return self

    @property
    @abstractmethod
    def counts(self) -> bool:
        """True when every entry on Omega is a whole number."""

    @property
    def largest_grid(self) -> float:
        """How many merged cells are worth forming a grid of, where the sample space is the full grid."""
        return limits.LARGEST_MASS

    @abstractmethod
    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        """Sum X over each box, as a grid; or over each of some boxes (m x N) that hold all of X."""

    @abstractmethod
    def margins(self, quotient: Quotient) -> list[FloatArray]:
        """Sum X over each interval of each mode."""

    @abstractmethod
    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        """Sum X over all that lies at or above each of some boxes (k x N), without a grid."""

    @abstractmethod
    def at(self, cells: IntArray) -> FloatArray:
        """Return the entries of some cells (k x N); 0 outside Omega."""

    def inside(self, cells: IntArray) -> IntArray:
        """Keep those of some cells (k x N) that lie in Omega."""
        return cells[self.support.contains(cells)]

    @abstractmethod
    def largest(self, count: int, axis: int) -> IntArray:
        """List the `count` largest entries on Omega of each slice; of equal ones those first in C order."""

    @abstractmethod
    def negentropy(self) -> float:
        """Return the sum of ``p log(p / r)``."""

    @abstractmethod
    def squared_error(self, q: Comparable) -> float:
        """Sum ``((X - Q) / total)^2`` over every cell of X that is a number; Q is 0 outside Omega."""


def beyond_memory(shape: tuple[int, ...]) -> str | None:
    """Say which limit a grid exceeds that is to be formed for a sparse or distributed X; ``None`` if none.

    Examples
    --------
    >>> beyond_memory((10_000, 10_000))
    'has 100,000,000 cells, and at most 67,108,864 are formed'
    """
    if len(shape) > limits.MOST_AXES:
        return f"has {len(shape)} modes, and an array has at most {limits.MOST_AXES}"
    if (cells := math.prod(shape)) > limits.LARGEST_HELD:
        return f"has {size_name(cells)} cells, and at most {limits.LARGEST_HELD:,} are formed"
    return None
