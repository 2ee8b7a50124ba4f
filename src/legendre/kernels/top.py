"""The largest entry of each slice, in one compiled pass in the order of memory."""

import numpy as np
from numba import njit, prange

BLOCKS = 8


@njit(cache=True)
def _scan(x, first, last, best, where):
    """Keep the largest entry of each column of rows first..last-1, and the first row where it stands."""
    for j in range(x.shape[1]):
        best[j] = x[first, j]
        where[j] = first
    for i in range(first + 1, last):
        for j in range(x.shape[1]):
            if x[i, j] > best[j]:
                best[j] = x[i, j]
                where[j] = i


@njit(cache=True, parallel=True)
def largest_rows(x, where):
    """Find for each column of x the first row of its largest entry; blocks of rows are joined in their order."""
    rows, columns = x.shape
    best = np.empty((BLOCKS, columns), x.dtype)
    at = np.empty((BLOCKS, columns), np.int64)
    for b in prange(BLOCKS):
        _scan(x, b * rows // BLOCKS, (b + 1) * rows // BLOCKS, best[b], at[b])
    for j in range(columns):
        top = 0
        for b in range(1, BLOCKS):
            if best[b, j] > best[top, j]:
                top = b
        where[j] = at[top, j]
