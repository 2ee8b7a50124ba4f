"""The largest entries of each slice, in one compiled pass in the order of memory; equal ones as in B3's tie rule.

The rule stands in `data.largest_entries`: of equal entries the one first in C order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import ParallelKernel, compiled, inner
from legendre.core.sums.kernels.rectangle import U
from legendre.core.types import IntArray

BLOCKS = 8
NOWHERE = np.iinfo(np.int64).max  # the place of an entry that stands for none


@inner
def keep_larger(x, start, number, best, where):
    """Keep the largest entry of each column, and the number of the first row where it stands; a row begins at start."""
    begin = U(start)
    for j in range(U(len(best))):
        if x[begin + j] > best[j]:
            best[j] = x[begin + j]
            where[j] = number


@ParallelKernel
def _scan(first, last, x, bounds, best, at):
    """Keep the largest entry of each column in each block of rows, and the first row where it stands."""
    columns = best.shape[1]
    for b in range(first, last):
        for i in range(bounds[b], bounds[b + 1]):
            keep_larger(x, i * columns, i, best[b], at[b])


def first_rows(dtype: np.dtype[Any], bounds: IntArray, columns: int) -> tuple[NDArray[Any], IntArray]:
    """Begin each block's ranking of columns with the least value there is, in the block's first row."""
    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    return np.full((len(bounds) - 1, columns), least, dtype), np.repeat(bounds[:-1, None], columns, axis=1)


def join_blocks(best: NDArray[Any], at: IntArray) -> IntArray:
    """Find the row of each column's largest entry; of equal ones the block that comes first has it.

    >>> join_blocks(np.array([[1.0, 3.0], [2.0, 3.0]]), np.array([[4, 5], [6, 7]])).tolist()
    [6, 5]
    """
    return np.asarray(np.take_along_axis(at, best.argmax(axis=0)[None], axis=0)[0])


def largest_rows(x: NDArray[Any]) -> IntArray:
    """Find for each column of x, in C order, the first row of its largest entry; blocks of rows are joined in order."""
    rows, columns = x.shape
    bounds = np.linspace(0, rows, BLOCKS + 1).astype(np.int64)
    best, at = first_rows(x.dtype, bounds, columns)
    _scan(x.size, BLOCKS, x.ravel(), bounds, best, at)
    return join_blocks(best, at)


@inner
def _worse(values, places, a, b):
    """Whether entry a ranks below entry b: the smaller value, or of equal ones the later place."""
    return values[a] < values[b] or (values[a] == values[b] and places[a] > places[b])


@inner
def _replace_worst(values, places, value, place):
    """Put a new entry in the place of the worst, which is the root of a heap."""
    n, at = len(values), 0
    values[0], places[0] = value, place
    while True:
        child = 2 * at + 1
        if child >= n:
            return
        if child + 1 < n and _worse(values, places, child + 1, child):
            child += 1
        if not _worse(values, places, child, at):
            return
        values[at], values[child] = values[child], values[at]
        places[at], places[child] = places[child], places[at]
        at = child


@inner
def _none_larger(row, least):
    """Whether no entry of a row exceeds the least that is kept of its slice; without a branch, so in vectors."""
    found = False
    for j in range(len(row)):
        found |= row[j] > least[j]
    return not found


@compiled
def keep_largest(x, values, places):
    """Keep the largest entries of each slice x[:, j, :] in a heap: values[j], and their places within the slice.

    Heaps come filled with the least value there is, at NOWHERE. NaN is never kept.
    """
    before, slices, after = x.shape
    least = values[:, 0].copy()
    filled = False
    for i in range(before):
        if filled and after == 1 and _none_larger(x[i, :, 0], least):
            continue
        for j in range(slices):
            for k in range(after):
                value = x[i, j, k]
                if value > least[j] or (value == least[j] and places[j, 0] == NOWHERE):
                    _replace_worst(values[j], places[j], value, i * after + k)
                    least[j] = values[j, 0]
        filled = filled or (places[:, 0] != NOWHERE).all()
