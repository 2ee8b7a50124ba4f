"""The largest entries of each slice, in one compiled pass in the order of memory."""

import numpy as np
from numba import prange

from legendre.core.compiled import ParallelKernel, compiled

BLOCKS = 8
NOWHERE = np.iinfo(np.int64).max  # the place of an entry that stands for none


@compiled()
def keep_larger(row, number, best, where):
    """Keep the largest entry of each column, and the number of the first row where it stands."""
    for j in range(len(row)):
        if row[j] > best[j]:
            best[j] = row[j]
            where[j] = number


@compiled()
def _scan(x, first, last, best, where):
    """Keep the largest entry of each column of rows first..last-1, and the first row where it stands."""
    best[:], where[:] = x[first], first
    for i in range(first + 1, last):
        keep_larger(x[i], i, best, where)


@compiled()
def join_blocks(best, at, where):
    """Find the row of each column's largest entry; of equal ones the block that comes first has it."""
    for j in range(best.shape[1]):
        top = 0
        for b in range(1, len(best)):
            if best[b, j] > best[top, j]:
                top = b
        where[j] = at[top, j]


@ParallelKernel
def largest_rows(x, where):
    """Find for each column of x the first row of its largest entry; blocks of rows are joined in their order."""
    rows, columns = x.shape
    best, at = np.empty((BLOCKS, columns), x.dtype), np.empty((BLOCKS, columns), np.int64)
    for b in prange(BLOCKS):
        _scan(x, b * rows // BLOCKS, (b + 1) * rows // BLOCKS, best[b], at[b])
    join_blocks(best, at, where)


@compiled()
def _worse(values, places, a, b):
    """Whether entry a ranks below entry b: the smaller value, or of equal ones the later place."""
    return values[a] < values[b] or (values[a] == values[b] and places[a] > places[b])


@compiled()
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


@compiled()
def _none_larger(row, least):
    """Whether no entry of a row exceeds the least that is kept of its slice; without a branch, so in vectors."""
    found = False
    for j in range(len(row)):
        found |= row[j] > least[j]
    return not found


@compiled(nogil=True)
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
