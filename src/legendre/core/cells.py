"""Read-only arrays, and lists of cells (index vectors): names, comparison, look-up."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.types import BoolArray, IntArray, S


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
