"""The largest entries of each slice, which B3 takes. The tie rule: of equal entries the one first in C order.

Each kind of X ranks its slices by a function of this file; the loops of `core.sums.kernels.largest_entries`, which
some of them call, keep to the same rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legendre.core.types import AnyArray, BoolArray, IntArray


def top(rows: AnyArray, count: int) -> BoolArray:
    """Mark the `count` largest entries of each row of a table.

    >>> top(np.array([[7, 5, 7, 7], [1, 2, 2, 2]]), 2).astype(int).tolist()
    [[1, 0, 1, 0], [0, 1, 1, 0]]
    """
    length = rows.shape[1]
    if count >= length:
        return np.ones(rows.shape, dtype=np.bool_)
    cut = np.partition(rows, length - count, axis=1)[:, length - count, None]
    chosen: BoolArray = rows > cut
    equal = rows == cut
    equal &= np.cumsum(equal, axis=1) <= count - chosen.sum(axis=1, keepdims=True)
    chosen |= equal
    return chosen


def largest_of_each(values: AnyArray, axis: int) -> IntArray:
    """List the largest entry of each slice in one compiled pass: slices side by side as columns, in memory's order."""
    from legendre.core.sums.kernels.largest_entries import largest_rows

    table = np.moveaxis(values, axis, -1)
    columns = table.shape[-1]
    where = largest_rows(np.ascontiguousarray(table).reshape(-1, columns))
    return cells_of(where, np.arange(columns), values.shape, axis)


def ranked_list(values: AnyArray, slices: IntArray) -> tuple[IntArray, IntArray]:
    """Sort a list of entries, which come in C order: by slice, the largest first; return the order and the ranks.

    >>> [part.tolist() for part in ranked_list(np.array([4, 9, 3, 9]), np.array([1, 0, 1, 0]))]
    [[1, 3, 0, 2], [0, 1, 0, 1]]
    """
    order = np.lexsort((-values, slices))  # is stable: of equal entries the first in C order comes first
    by_slice = slices[order]
    return order, np.arange(len(order)) - np.searchsorted(by_slice, by_slice)


def ranked_there(xp: Any, entries: Any, count: int) -> Any:
    """Return the places of the `count` largest entries of one slice, a vector of the array library `xp`, as one."""
    return xp.argsort(entries, descending=True, stable=True)[:count]


def best_first(values: AnyArray, places: IntArray, count: int) -> tuple[AnyArray, IntArray]:
    """Sort the entries of each row, whose places in C order are given, the largest first, and keep `count` of them.

    >>> [part.tolist() for part in best_first(np.array([[7, 5, 7]]), np.array([[8, 0, 3]]), 2)]
    [[[7, 7]], [[3, 8]]]
    """
    order = np.lexsort((-places, values), axis=-1)[:, ::-1][:, :count]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)


def cells_of(place: AnyArray, number: AnyArray, shape: tuple[int, ...], axis: int) -> IntArray:
    """Turn places within slices, and the slices' numbers, into cells."""
    in_slice = shape[:axis] + shape[axis + 1 :]
    columns: list[Any] = list(np.unravel_index(place, in_slice)) if in_slice else []
    columns.insert(axis, number)
    return np.stack(columns, axis=1).astype(np.int64)
