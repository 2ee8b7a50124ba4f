"""The largest entries of each slice, which B3 takes. The tie rule: of equal entries the one first in C order.

Each kind of X ranks its slices by a function of this file; an array in memory by `dense.top`, or by the loops of
`core.sums.kernels.largest_entries`, which keep to the same rule.
"""

from __future__ import annotations

import numpy as np

from legendre.core.cells import cells_in_slices
from legendre.core.types import AnyArray, IntArray


def largest_of_each(values: AnyArray, axis: int) -> IntArray:
    """List the largest entry of each slice in one compiled pass: slices side by side as columns, in memory's order."""
    from legendre.core.sums.kernels.largest_entries import largest_rows

    table = np.moveaxis(values, axis, -1)
    columns = table.shape[-1]
    where = largest_rows(np.ascontiguousarray(table).reshape(-1, columns))
    return cells_in_slices(where, np.arange(columns), values.shape, axis)


def ranked_list(values: AnyArray, slices: IntArray) -> tuple[IntArray, IntArray]:
    """Sort a list of entries, which come in C order: by slice, the largest first; return the order and the ranks.

    >>> [part.tolist() for part in ranked_list(np.array([4, 9, 3, 9]), np.array([1, 0, 1, 0]))]
    [[1, 3, 0, 2], [0, 1, 0, 1]]
    """
    order = np.lexsort((-values, slices))  # is stable: of equal entries the first in C order comes first
    by_slice = slices[order]
    return order, np.arange(len(order)) - np.searchsorted(by_slice, by_slice)


def best_first(values: AnyArray, places: IntArray, count: int) -> tuple[AnyArray, IntArray]:
    """Sort the entries of each row, whose places in C order are given, the largest first, and keep `count` of them.

    >>> [part.tolist() for part in best_first(np.array([[7, 5, 7]]), np.array([[8, 0, 3]]), 2)]
    [[[7, 7]], [[3, 8]]]
    """
    order = np.lexsort((-places, values), axis=-1)[:, ::-1][:, :count]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)
