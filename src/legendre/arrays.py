"""Array types, a few array operations that several modules share, and what a caller's value is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from legendre.errors import TooLarge

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]

S = TypeVar("S", bound=np.generic)


class HasShape(Protocol):
    """An array of some library: sparse, distributed or on another device."""

    @property
    def shape(self) -> Any:
        """The sizes of its modes."""
        ...


BLOCK = 1 << 22
"""Cells handled at a time where a whole extra tensor would be a waste."""


def frozen(array: NDArray[S]) -> NDArray[S]:
    """Return `array` as a read-only view, so that no one changes a result in place."""
    view = array.view()
    view.flags.writeable = False
    return view


def cell_name(cell: Any) -> str:
    """Write an index vector as a reader would index X with it.

    >>> cell_name(np.array([0, 3]))
    '[0, 3]'
    """
    return "[" + ", ".join(str(int(i)) for i in cell) + "]"


def cell_keys(cells: IntArray) -> IntArray:
    """One integer per index vector, equal exactly when the vectors are equal.

    Mixed-radix numbers where they fit 63 bits (sorting integers is far cheaper than sorting rows), ranks otherwise.
    """
    sizes = cells.max(axis=0, initial=0).astype(np.int64) + 1
    if math.prod(sizes.tolist()) < 2**62:
        strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]]).astype(np.int64)
        keys = np.zeros(len(cells), dtype=np.int64)
        for column, stride in zip(cells.T, strides, strict=True):
            keys += column * stride
        return keys
    rows = np.ascontiguousarray(cells, dtype=np.min_scalar_type(int(sizes.max())))
    _, label = np.unique(rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))), return_inverse=True)
    return label.reshape(-1).astype(np.int64)


def unique_cells(cells: IntArray) -> IntArray:
    """Drop repeated index vectors; the first of each stays, in the order given.

    >>> unique_cells(np.array([[1, 0], [0, 2], [1, 0]])).tolist()
    [[1, 0], [0, 2]]
    """
    _, first = np.unique(cell_keys(cells), return_index=True)
    return cells[np.sort(first)]


def member(cells: IntArray, others: IntArray) -> BoolArray:
    """Tell which of `cells` (k x N) stand in `others` (m x N)."""
    keys = cell_keys(np.concatenate([cells, others]))
    return np.isin(keys[: len(cells)], keys[len(cells) :])


def is_whole(value: object, least: float = -np.inf) -> TypeGuard[int]:
    """Tell whether a caller's value is an integer, and no less than `least`; True and False are not integers here.

    >>> [is_whole(value, 1) for value in (1, np.int8(3), 0, True, 2.0)]
    [True, True, False, False, False]
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)


def rows_of(shape: tuple[int, ...], block: int | None = None) -> Iterator[slice]:
    """Cut the first mode into blocks of moderate size."""
    step = max(1, (block or BLOCK) // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def find(cells: IntArray, others: IntArray) -> IntArray:
    """Return where each of `cells` (k x N) stands in `others` (m x N, all different); -1 where it does not.

    >>> find(np.array([[2, 0], [1, 1]]), np.array([[0, 3], [2, 0]])).tolist()
    [1, -1]
    """
    keys = cell_keys(np.concatenate([cells, others]))
    wanted, known = keys[: len(cells)], keys[len(cells) :]
    if not len(known):
        return np.full(len(cells), -1, dtype=np.int64)
    order = np.argsort(known, kind="stable")
    place = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[place] == wanted, place, -1).astype(np.int64)


def size_name(n: int) -> str:
    """Write a number of cells, a very large one as a power of ten.

    >>> size_name(12_345), size_name(2**100)
    ('12,345', '1.3e30')
    """
    if n < 10**15:
        return f"{n:,}"
    power = len(str(n)) - 1 if n < 10**4000 else int(math.log10(n))  # Python writes no longer integers
    return f"{n / 10**power:.1f}e{power}"


def check_room(cells: int, size: int, what: str, instead: str) -> None:
    """Refuse what needs more memory than the machine has."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if cells * size > room:
        counted, needed = (f"{n:.3g}" if n < 10**300 else size_name(n) for n in (cells, cells * size // 2**30))
        raise TooLarge(f"{what} of {counted} cells needs {needed} GiB; this machine has {room / 2**30:,.3g}. {instead}")


def is_real(value: object) -> TypeGuard[float]:
    """Tell whether a caller's value is a real number, finite or not; True and False are none here.

    >>> [is_real(value) for value in (1, np.float32(0.5), float("inf"), True, 1j, "1", 10**400)]
    [True, True, True, False, False, False, False]
    """
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:  # Python's integers have no end
        return False
    return True


def entries(value: object) -> list[Any] | None:
    """List the entries of a caller's list, tuple, array or set; ``None`` where it is none of these, or a dict or text.

    >>> entries((2, 3)), entries(5), entries("ab"), entries({0: 1})
    ([2, 3], None, None, None)
    """
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        return None
    try:
        return list(value)
    except TypeError:  # an array without modes
        return None
