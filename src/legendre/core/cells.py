"""Read-only arrays, sets of modes, and lists of cells (index vectors): names, comparison, look-up, sorting."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.types import AnyArray, Cell, IntArray, Modes, S, Shape

LIMIT = 2**63  # integers below this fit int64


def freeze(array: NDArray[S]) -> NDArray[S]:
    """Return `array` as a read-only view, so that a result is not changed in place."""
    view = array.view()
    view.flags.writeable = False
    return view


def cell_name(cell: Any) -> str:
    """Write an index vector as one would index X with it, e.g. [0, 2, 1]."""
    return "[" + ", ".join(str(int(i)) for i in cell) + "]"


def first_cell(marks: Any) -> Cell:
    """Return the first True cell of a NumPy or dask array; () if there is none."""
    return tuple(map(int, np.unravel_index(int(marks.argmax()), marks.shape))) if marks.any() else ()


def cell_keys(cells: AnyArray) -> IntArray:
    """Give each index vector (n x N) an integer, so that lists of cells are sorted and compared as integers.

    The integers sort as the vectors do in C order, and only equal vectors have equal ones. They are the places of the
    cells in C order if the grid that holds them has fewer than 2^63 cells, and ranks among the given cells otherwise.
    Keys of two calls cannot be compared. Sorting integers is far cheaper than sorting rows.
    """
    # Modes are taken in runs, each of fewer than 2^63 cells; a word is the place of each cell in the grid of a run.
    words: list[IntArray] = []
    n_cells = LIMIT  # of the last run; at first too many, so that the first mode begins a run
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
    # several runs: rank the cells by their words, the first of which counts most
    order = np.lexsort(words[::-1])
    words = [word[order] for word in words]
    keys = np.zeros(len(cells), dtype=np.int64)
    keys[order[1:]] = np.cumsum(np.logical_or.reduce([word[1:] != word[:-1] for word in words]))
    return keys


def other_modes(modes: Collection[int], order: int) -> Modes:
    """List the modes of a tensor with `order` modes that are not among the given ones, in rising order."""
    return tuple(k for k in range(order) if k not in modes)


def strides_of(shape: Sequence[int] | IntArray) -> IntArray:
    """Return how far apart neighbours along each mode are in a flattened grid, (N,): in C order the last mode has 1."""
    return np.cumprod((1, *shape[:0:-1]))[::-1].astype(np.int64)


def unique_cells(cells: IntArray) -> IntArray:
    """Drop repeated index vectors; the first of each stays, in the order given."""
    _, first = np.unique(cell_keys(cells), return_index=True)
    return cells[np.sort(first)]


def find_rows(cells: IntArray, others: IntArray) -> IntArray:
    """Return the row of each of `cells` (k x N) in `others` (m x N, all different); -1 where it is not there."""
    keys = cell_keys(np.concatenate([cells, others]))  # together, because keys of two calls cannot be compared
    wanted, known = keys[: len(cells)], keys[len(cells) :]
    if not len(known):
        return np.full(len(cells), -1, dtype=np.int64)
    order = np.argsort(known, kind="stable")
    # the first of `others` that is not smaller; past the end it is clipped to the last, which the comparison rejects
    place = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[place] == wanted, place, -1).astype(np.int64)


def add_equal_cells(columns: Sequence[AnyArray], values: AnyArray | None, shape: Shape) -> tuple[AnyArray, AnyArray]:
    """Sort a list of cells in C order and add up the values of equal ones; without values, count them.

    There is a column of indices for each mode, already checked against the shape. Returns the different cells (nnz x N,
    in the smallest unsigned type that holds them; the column of each mode is contiguous, as it is read) and their sums
    (nnz). If no cell occurs twice, the values keep their type; otherwise sums are int64 or float64.
    """
    cells = np.empty((len(columns[0]), len(shape)), dtype=index_type(shape), order="F")
    for k, column in enumerate(columns):
        cells[:, k] = column
    keys = cell_keys(cells)
    kind = np.int64 if values is None or np.can_cast(values.dtype, np.int64) else np.float64
    # sorted rows take O(n); the last bits of a float's sum must not depend on the order of rows
    order = np.argsort(keys, kind="stable") if values is None or kind is np.int64 else np.lexsort((values, keys))
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))  # where a new cell begins; keys are >= 0
    if values is None:
        sums = np.diff(np.append(first, len(order)))
    else:
        sums = values[order]
        if len(first) < len(order):  # some cells are equal
            # sums in the type of the values would lose digits of float32 and overflow a byte
            sums = np.add.reduceat(sums, first, dtype=kind)
    return cells.T.take(order[first], axis=1).T, sums


def index_type(shape: Shape) -> np.dtype[Any]:
    """Find the smallest type that holds every index: unsigned up to 32 bits, then int64."""
    largest = max(shape) - 1
    return np.min_scalar_type(largest) if largest < 2**32 else np.dtype(np.int64)


def entries_at(array: Any, cells: IntArray) -> AnyArray:
    """Return the entries of a NumPy or dask array at some cells (k x N)."""
    if isinstance(array, np.ndarray):
        return np.asarray(array[tuple(cells.T)])
    return np.asarray(array.vindex[tuple(cells.T)].compute() if len(cells) else (), dtype=array.dtype)


def cells_in_slices(place: AnyArray, number: AnyArray, shape: Shape, axis: int) -> IntArray:
    """Turn n places in C order within slices of mode `axis`, and the slices' numbers, into cells (n x N)."""
    in_slice = shape[:axis] + shape[axis + 1 :]
    columns = list(np.unravel_index(place, in_slice)) if in_slice else []
    columns.insert(axis, number)
    return np.stack(columns, axis=1).astype(np.int64)
