"""Compiled running sums over a grid, fused with what the model needs from them.

A grid of shape ``(I_1, ..., I_N)`` is held as a matrix ``(I_1, R)``: row i is the slab ``v_1 = i`` with the other
modes flattened. Sums over modes 2..N stay inside a slab (in cache, slabs in parallel); the sum over mode 1 runs down
the columns (column blocks in parallel). No sum is ever split between threads, so results do not depend on their number.
"""

import math

import numpy as np

from legendre.core.compiled import ParallelKernel, in_threads, inner
from legendre.core.types import FloatArray, IntArray

BLOCK = 128  # columns swept together: I_1 x 128 doubles stay in the second-level cache for I_1 up to about 1000
TILE = 64  # rows and columns of a square that is transposed in first-level cache


@inner
def _sum_rows(slab, n, back):
    """Sum along the rows of length n; four rows at once hide the latency of the dependent additions."""
    rows = slab.size // n
    for r in range(0, rows - 3, 4):
        o = r * n
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            j = o + n - 1 - i if back else o + i
            a += slab[j]
            b += slab[j + n]
            c += slab[j + 2 * n]
            d += slab[j + 3 * n]
            slab[j] = a
            slab[j + n] = b
            slab[j + 2 * n] = c
            slab[j + 3 * n] = d
    for r in range(rows - rows % 4, rows):
        for i in range(1, n):
            j = r * n + n - 1 - i if back else r * n + i
            slab[j] += slab[j + 1 if back else j - 1]


@inner
def _sum_slab(slab, modes, back):
    """Prefix sums over every mode of one slab (modes 2..N of the grid); suffix sums if `back`."""
    if modes.size == 0:
        return
    _sum_rows(slab, modes[-1], back)
    post = modes[-1]
    for d in range(modes.size - 2, -1, -1):
        block = post * modes[d]
        before = post if back else -post
        for start in range(0, slab.size, block):
            for i in range(1, modes[d]):
                o = start + (modes[d] - 1 - i if back else i) * post
                for j in range(o, o + post):
                    slab[j] += slab[j + before]
        post = block


@ParallelKernel
def sum_slabs(first, last, grid, modes, back):
    """Prefix sums within slabs first..last-1; suffix sums if `back`."""
    for i in range(first, last):
        _sum_slab(grid[i], modes, back)


@ParallelKernel
def sum_columns(first, last, grid, back):
    """Prefix sums over mode 1 in blocks of columns; suffix sums if `back`."""
    rows, width = grid.shape
    for b in range(first, last):
        lo, hi = b * BLOCK, min(width, (b + 1) * BLOCK)
        for i in range(1, rows):
            to, before = (rows - 1 - i, rows - i) if back else (i, i - 1)
            for j in range(lo, hi):
                grid[to, j] += grid[before, j]


@ParallelKernel
def weigh_columns(first, last, grid, q):
    """Prefix sums over mode 1, times q, then suffix sums over mode 1, while a block of columns is in cache."""
    rows, width = grid.shape
    for b in range(first, last):
        lo, hi = b * BLOCK, min(width, (b + 1) * BLOCK)
        for i in range(1, rows):
            for j in range(lo, hi):
                grid[i, j] += grid[i - 1, j]
        for j in range(lo, hi):
            grid[rows - 1, j] *= q[rows - 1, j]
        for i in range(rows - 2, -1, -1):
            for j in range(lo, hi):
                grid[i, j] = grid[i, j] * q[i, j] + grid[i + 1, j]


def column_blocks(grid: FloatArray) -> int:
    """Count the blocks of columns that are swept together."""
    return int(-(-grid.shape[1] // BLOCK))


def sum_grid(work: float, grid: FloatArray, modes: IntArray, *, back: bool) -> None:
    """Prefix sums over every mode; suffix sums if `back`."""
    sum_slabs(work, len(grid), grid, modes, back)
    sum_columns(work, column_blocks(grid), grid, back)


@ParallelKernel
def _largest_exponents(first, last, logq, w, tops):
    """Find the largest exponent of each row, where w > 0."""
    for i in range(first, last):
        top = -np.inf
        for j in range(logq.shape[1]):
            if w[i, j] > 0.0 and logq[i, j] > top:
                top = logq[i, j]
        tops[i] = top


@ParallelKernel
def _weighted_exponentials(first, last, logq, w, shift, sums):
    """Turn exponents into w exp(. - shift), and sum each row."""
    for i in range(first, last):
        total = 0.0
        for j in range(logq.shape[1]):
            value = 0.0
            if w[i, j] > 0.0:
                value = w[i, j] * math.exp(logq[i, j] - shift)
            logq[i, j] = value
            total += value
        sums[i] = total


def exponentiate(work: float, logq: FloatArray, w: FloatArray) -> float:
    """Turn log-ratios into probabilities ``w exp(. - psi)``, in place; return psi."""
    rows = len(logq)
    tops, sums = np.empty(rows), np.empty(rows)
    _largest_exponents(work, rows, logq, w, tops)
    shift = float(tops.max())
    _weighted_exponentials(work, rows, logq, w, shift, sums)
    total = float(sums.sum())
    in_threads(work, rows, lambda first, last: np.multiply(logq[first:last], 1.0 / total, out=logq[first:last]))
    return shift + math.log(total)


@inner
def _fisher_row(a, eta, corner, ref, at, g):
    """Row a of the lower triangle: ``g_ab = eta[max(a, b)] - eta_a eta_b``."""
    for b in range(a + 1):
        at[b] = 0
    for d in range(corner.shape[0]):
        own = corner[d, a]
        for b in range(a + 1):
            at[b] += max(own, corner[d, b])
    for b in range(a + 1):
        g[a, b] = eta[at[b]] - ref[a] * ref[b]


@ParallelKernel
def _fill_fisher(first, last, eta, corner, ref, g):
    """Fill rows of the lower triangle in pairs, a long one and a short one, so that equal stretches are equal work."""
    k = ref.size
    at = np.empty(k, np.int64)
    for task in range(first, last):
        for side in range(2):
            _fisher_row(task if side == 0 else k - 1 - task, eta, corner, ref, at, g)


def fill_fisher(eta: FloatArray, corner: IntArray, ref: FloatArray, g: FloatArray) -> None:
    """Fill the Fisher matrix; corner: coordinates times strides (N, k), whose maxima add up to the place of a join."""
    _fill_fisher(g.size, (len(g) + 1) // 2, eta, corner, ref, g)
    mirror(g)


@ParallelKernel
def _mirror(first, last, g):
    """Copy tiles of the lower triangle to the upper one: tiles stay in cache."""
    k = g.shape[0]
    for t in range(first, last):
        for s in range(t + 1):
            for a in range(t * TILE, min(k, (t + 1) * TILE)):
                for b in range(s * TILE, min(a, (s + 1) * TILE)):
                    g[b, a] = g[a, b]


def mirror(g: FloatArray) -> None:
    """Copy the lower triangle to the upper one."""
    _mirror(g.size, -(-len(g) // TILE), g)


@inner
def _tied_row(i, eta, corner, starts, values, ref, g):
    """Fill row i up to the diagonal; the entries of all columns before it lie one after the other."""
    modes = corner.shape[1]
    lo, hi = starts[i], starts[i + 1]
    for j in range(i + 1):
        total = 0.0
        for a in range(lo, hi):
            part = 0.0
            for b in range(starts[j], starts[j + 1]):
                at = 0
                for d in range(modes):
                    at += max(corner[a, d], corner[b, d])
                part += values[b] * eta[at]
            total += values[a] * part
        g[i, j] = total - ref[i] * ref[j]


@ParallelKernel
def fill_tied(first, last, eta, corner, starts, values, ref, g):
    """Fill the lower triangle; rows are paired, long with short, to balance the threads.

    corner: for each entry of A its cell, coordinates times strides (entries, N); starts: where columns begin.
    """
    m = ref.size
    for task in range(first, last):
        for side in range(2):
            _tied_row(task if side == 0 else m - 1 - task, eta, corner, starts, values, ref, g)
