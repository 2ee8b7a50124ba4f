"""Read-only arrays, and lists of cells (index vectors): names, comparison, look-up, sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.types import AnyArray, IntArray, S

LIMIT = 2**63  # numbers of cells below this fit 63 bits


def freeze(array: NDArray[S]) -> NDArray[S]:
    """Return `array` as a read-only view, so that a result is not changed in place."""
    view = array.view()
    view.flags.writeable = False
    return view


def cell_name(cell: Any) -> str:
    """Write an index vector as a reader would index X with it."""
    return "[" + ", ".join(str(int(i)) for i in cell) + "]"


def cell_keys(cells: AnyArray) -> IntArray:
    """Give each index vector (n x N) an integer; they sort as C order does, and only equal vectors have equal ones.

    Mixed-radix numbers where they fit 63 bits (sorting integers is far cheaper than sorting rows), ranks otherwise.
    """
    words: list[IntArray] = []  # numbers of the cells in the grids of runs of modes, each with fewer than 2^63 cells
    n_cells = LIMIT
    for column, size in zip(cells.T, (cells.max(axis=0, initial=0).astype(int) + 1).tolist(), strict=True):
        n_cells *= size
        if n_cells >= LIMIT:
            words.append(column.astype(np.int64))
            n_cells = size
        else:
            words[-1] *= size
            np.add(words[-1], column, out=words[-1], casting="unsafe")  # uint64 indices below 2^63
    if len(words) == 1:
        return words[0]
    order = np.lexsort(words[::-1])
    words = [word[order] for word in words]
    keys = np.zeros(len(cells), dtype=np.int64)
    keys[order[1:]] = np.cumsum(np.logical_or.reduce([word[1:] != word[:-1] for word in words]))
    return keys


def unique_cells(cells: IntArray) -> IntArray:
    """Drop repeated index vectors; the first of each stays, in the order given."""
    _, first = np.unique(cell_keys(cells), return_index=True)
    return cells[np.sort(first)]


def find(cells: IntArray, others: IntArray) -> IntArray:
    """Return where each of `cells` (k x N) stands in `others` (m x N, all different); -1 where it does not."""
    keys = cell_keys(np.concatenate([cells, others]))
    wanted, known = keys[: len(cells)], keys[len(cells) :]
    if not len(known):
        return np.full(len(cells), -1, dtype=np.int64)
    order = np.argsort(known, kind="stable")
    place = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[place] == wanted, place, -1).astype(np.int64)


def merged_cells(
    columns: Sequence[AnyArray], values: AnyArray | None, shape: tuple[int, ...]
) -> tuple[AnyArray, AnyArray]:
    """Sort cells as C order has them and add the values of equal ones; without values, count them.

    The columns hold one index per mode, checked against the shape. Returns cells (nnz x N, each mode's column
    contiguous, in the smallest unsigned type) and their values.
    """
    cells = np.empty((len(columns[0]), len(shape)), dtype=index_type(shape), order="F")
    for k, column in enumerate(columns):
        cells[:, k] = column
    keys = cell_keys(cells)
    order = np.argsort(keys, kind="stable")  # equal cells keep their order, and so do their sums; sorted rows take O(n)
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if values is None:
        sums: AnyArray = np.diff(np.append(first, len(order)))
    else:
        sums = values[order]
        if len(first) < len(order):
            # float32 would lose digits here, and a byte overflow: integers that int64 holds are added in it
            kind = np.int64 if np.can_cast(values.dtype, np.int64) else np.float64
            sums = np.add.reduceat(sums, first, dtype=kind)
    return cells.T.take(order[first], axis=1).T, sums


def index_type(shape: tuple[int, ...]) -> np.dtype[Any]:
    """Find the smallest type that holds every index: unsigned up to 32 bits, then int64."""
    largest = max(shape) - 1
    return np.min_scalar_type(largest) if largest < 2**32 else np.dtype(np.int64)


def entries_at(array: Any, cells: IntArray) -> AnyArray:
    """Return the entries of an array, of NumPy or dask, at some cells (k x N)."""
    if isinstance(array, np.ndarray):
        return np.asarray(array[tuple(cells.T)])
    return np.asarray(array.vindex[tuple(cells.T)].compute() if len(cells) else (), dtype=array.dtype)


def cells_in_slices(place: AnyArray, number: AnyArray, shape: tuple[int, ...], axis: int) -> IntArray:
    """Turn places within slices of a mode, and the slices' numbers, into cells."""
    in_slice = shape[:axis] + shape[axis + 1 :]
    columns: list[Any] = list(np.unravel_index(place, in_slice)) if in_slice else []
    columns.insert(axis, number)
    return np.stack(columns, axis=1).astype(np.int64)
