"""One compiled pass over a large X: its sums at each level of each mode, its range, its largest entries.

X is read as a matrix. Its rows are cut into *blocks*, which threads read; each block has its own sums, so that no two
threads write to one number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import ParallelKernel, U, inner
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
def _keep_larger(x, begin, number, best, at):
    """Update the largest entry of each column so far, `best`, and `at`, the first row that has it.

    Row `number` begins at ``x[begin]``.
    """
    found = False
    for j in range(U(len(best))):  # most rows have no larger entry: a loop without a branch finds that out in vectors
        found |= x[begin + j] > best[j]
    if not found:
        return
    for j in range(U(len(best))):
        if x[begin + j] > best[j]:
            best[j] = x[begin + j]
            at[j] = number


@ParallelKernel
def _scan_rows(first, last, x, bounds, rows, columns, low, least, high, best, at):
    """Scan the blocks first..last-1 of a flat matrix x; block b has the rows ``bounds[b]`` to ``bounds[b + 1] - 1``.

    ``rows[r]`` becomes the sum of row r. The other results have one row for each block and one column for each column
    of the matrix: sums, smallest, smallest positive and largest entries, and, if `best` has columns, the largest
    entries with their rows.
    """
    width = columns.shape[1]
    for b in range(first, last):
        column, lowest, positive, highest, largest, place = columns[b], low[b], least[b], high[b], best[b], at[b]
        for r in range(bounds[b], bounds[b + 1]):
            begin = U(r * width)
            rows[r] = _sum_row(x, begin, U(width))
            _add_row(x, begin, column, lowest, positive, highest)
            if len(largest):
                _keep_larger(x, begin, r, largest, place)


def scan_large(
    values: AnyArray, *, rank: bool = False, wide: int = 64, blocks: int = 8
) -> tuple[float, float, float, float, tuple[FloatArray, ...], IntArray | None]:
    """Read an X in any order of memory, and return the fields of `data.checks.Scan`.

    With `rank`, the place of the largest entry in each slice of the last mode is found too, if X is in C order: the
    basis B3 takes these entries. A row of the matrix that is read consists of as many of the last modes as are needed
    for at least `wide` entries, so that loops along rows run in vectors. The rows are read in `blocks` blocks.
    """
    x, order = in_memory_order(values)
    lead = x.ndim - 1
    while lead > 1 and math.prod(x.shape[lead:]) < wide:
        lead -= 1
    # the `lead` first modes number the rows of the matrix, the others (of lengths `sides`) its columns
    sides, width = x.shape[lead:], math.prod(x.shape[lead:])
    flat, n_rows = x.ravel(), x.size // width
    bounds = np.unique(np.linspace(0, n_rows, blocks + 1).astype(np.int64))
    n_blocks, n_ranked = len(bounds) - 1, width if rank and order == list(range(x.ndim)) else 0
    rows, columns = np.empty(n_rows), np.zeros((n_blocks, width))
    low, least, high = (np.full((n_blocks, width), bound) for bound in (np.inf, np.inf, -np.inf))
    # the largest entry of each column in each block, and its row, to begin with the block's first; without columns if
    # no ranking is wanted
    best = np.full((n_blocks, n_ranked), -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
    at = np.repeat(bounds[:-1, None], n_ranked, axis=1)
    # sums that overflow or meet NaN give a total that is not finite: the caller looks for the reason
    with np.errstate(over="ignore", invalid="ignore"):
        _scan_rows(x.size, n_blocks, flat, bounds, rows, columns, low, least, high, best, at)
        margins = _sum_onto_modes(rows.reshape(x.shape[:lead])) + _sum_onto_modes(columns.sum(axis=0).reshape(sides))
        total = float(rows.sum())
    by_mode = tuple(margins[order.index(k)] for k in range(x.ndim))
    ranking = _find_first_places(best, at * (width // sides[-1]), sides[-1]) if n_ranked else None
    return total, float(low.min()), float(least.min()), float(high.max()), by_mode, ranking


def _sum_onto_modes(x: FloatArray) -> list[FloatArray]:
    """Sum an array over all modes but one, for each mode."""
    return [x.sum(axis=tuple(j for j in range(x.ndim) if j != k)) for k in range(x.ndim)]


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
