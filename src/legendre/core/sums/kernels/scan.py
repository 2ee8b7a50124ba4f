"""One compiled pass over a large X: its sums at each level of each mode, its range, and the largest entry of slices.

X is read as a matrix. Threads read blocks of its rows, each with its own sums: no two threads write to one number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import ParallelKernel, U, inner
from legendre.core.sums.quotient import sum_others
from legendre.core.types import AnyArray, FloatArray, IntArray


@inner(fastmath={"reassoc"})
def _sum_row(x, begin, n):
    """Sum n entries from `begin` on; additions may be reordered ("reassoc"), so that they run in vectors."""
    total = 0.0
    for j in range(n):
        total += np.float64(x[begin + j])
    return total


@inner
def _add_row(x, begin, column, low, least, high):
    """Add a row to the sums of the columns, and update the smallest, smallest positive and largest entry of each.

    Comparisons with NaN are false, so NaN changes no extreme.
    """
    for j in range(U(len(column))):
        value = np.float64(x[begin + j])
        column[j] += value
        low[j] = value if value < low[j] else low[j]
        positive = value if value > 0.0 else np.inf
        least[j] = positive if positive < least[j] else least[j]
        high[j] = value if value > high[j] else high[j]


@inner
def _note_larger(x, begin, row, high, at):
    """Note in `at` that a row, which begins at ``x[begin]``, is the first whose entry exceeds all before it, `high`."""
    found = False
    for j in range(U(len(high))):  # most rows have no larger entry: a loop without a branch runs in vectors
        found |= np.float64(x[begin + j]) > high[j]
    if found:
        for j in range(U(len(high))):
            if np.float64(x[begin + j]) > high[j]:
                at[j] = row


@ParallelKernel
def _scan_rows(first, last, x, bounds, rows, columns, low, least, high, at):
    """Scan the blocks first..last-1 of a flat matrix x; block b has the rows ``bounds[b]`` to ``bounds[b + 1] - 1``.

    ``rows[r]`` becomes the sum of row r. The other results have one row for each block and one column for each column
    of the matrix: sums, smallest, smallest positive and largest entries, and the rows of the largest.
    """
    width = columns.shape[1]
    for b in range(first, last):
        column, lowest, positive, highest = columns[b], low[b], least[b], high[b]
        for r in range(bounds[b], bounds[b + 1]):
            begin = U(r * width)
            rows[r] = _sum_row(x, begin, U(width))
            _note_larger(x, begin, r, highest, at[b])
            _add_row(x, begin, column, lowest, positive, highest)


def scan_large(
    values: AnyArray, *, wide: int = 64, blocks: int = 8
) -> tuple[float, float, float, float, tuple[FloatArray, ...], IntArray | None]:
    """Read an X in any order of memory, and return the fields of `data.checks.Scan`.

    A row of the matrix that is read consists of as many of the last modes as are needed for at least `wide` entries, so
    that loops along rows run in vectors. The rows are read in `blocks` blocks.
    """
    x, order = in_memory_order(values)
    lead = x.ndim - 1
    while lead > 1 and math.prod(x.shape[lead:]) < wide:
        lead -= 1
    # the `lead` first modes number the rows of the matrix, the others (of lengths `sides`) its columns
    sides, width = x.shape[lead:], math.prod(x.shape[lead:])
    flat, n_rows = x.ravel(), x.size // width
    bounds = np.unique(np.linspace(0, n_rows, blocks + 1).astype(np.int64))
    n_blocks = len(bounds) - 1
    rows, columns = np.empty(n_rows), np.zeros((n_blocks, width))
    low, least, high = (np.full((n_blocks, width), bound) for bound in (np.inf, np.inf, -np.inf))
    at = np.zeros((n_blocks, width), dtype=np.int64)
    # sums that overflow or meet NaN give a total that is not finite: the caller looks for the reason
    with np.errstate(over="ignore", invalid="ignore"):
        _scan_rows(x.size, n_blocks, flat, bounds, rows, columns, low, least, high, at)
        parts = rows.reshape(x.shape[:lead]), columns.sum(axis=0).reshape(sides)
        margins = [sum_others(part, [k]) for part in parts for k in range(part.ndim)]
        total = float(rows.sum())
    by_mode = tuple(margins[order.index(k)] for k in range(x.ndim))
    largest, ranking = float(high.max()), None
    if order == sorted(order) and (x.dtype.kind == "f" or largest < 2**53):  # larger integers may be equal as floats
        ranking = _find_first_places(high, at * (width // sides[-1]), sides[-1])
    return total, float(low.min()), float(least.min()), largest, by_mode, ranking


def _find_first_places(high: FloatArray, at: IntArray, n: int) -> IntArray:
    """Find the place of the largest entry in each of the `n` slices of the last mode; of equal entries, the first.

    A place is an entry's number in C order within its slice. For each block and column of the matrix, `high` holds the
    largest entry and `at` the place where its row begins.
    """
    at = at + np.arange(high.shape[1]) // n  # the last mode runs fastest: the columns of a slice are every n-th
    high, at = high.reshape(-1, n), at.reshape(-1, n)
    return np.asarray(np.where(high == high.max(axis=0), at, np.iinfo(np.int64).max).min(axis=0))


def in_memory_order(values: AnyArray) -> tuple[NDArray[Any], list[int]]:
    """Return X transposed so that it is in C order, and the order of its modes.

    Kernels read it without jumps. Types that numba does not compile, such as float16, bool and foreign byte orders, are
    converted; otherwise nothing is copied if X is contiguous.
    """
    order = list(range(values.ndim))
    if not values.flags.c_contiguous:
        order.sort(key=lambda k: -abs(values.strides[k]))
    x = values.transpose(order)
    if x.dtype.kind not in "iuf" or x.dtype.itemsize not in (1, 2, 4, 8) or x.dtype == np.float16:
        x = x.astype(np.float64)
    return np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("=")), order
