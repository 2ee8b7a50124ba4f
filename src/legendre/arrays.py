"""Array types, and the two or three array operations that several modules share."""

from __future__ import annotations

from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]

S = TypeVar("S", bound=np.generic)


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
    sizes = cells.max(axis=0, initial=0) + 1
    if float(np.prod(sizes.astype(np.float64))) < 2.0**62:
        strides = np.concatenate([np.cumprod(sizes[:0:-1])[::-1], [1]]).astype(np.int64)
        return cells @ strides
    _, label = np.unique(cells, axis=0, return_inverse=True)
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


def is_whole(value: object, least: int) -> TypeGuard[int]:
    """Tell whether a caller's value is an integer, and no less than `least`; True and False are not integers here.

    >>> [is_whole(value, 1) for value in (1, np.int8(3), 0, True, 2.0)]
    [True, True, False, False, False]
    """
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(value >= least)
