"""Compiled running sums over a grid, fused with what the model needs from them.

A grid of shape ``(I_1, ..., I_N)`` is held as a matrix ``(I_1, R)``: row i is the slab ``v_1 = i`` with the other
modes flattened. Sums over modes 2..N stay inside a slab (in cache, slabs in parallel); the sum over mode 1 runs down
the columns (column blocks in parallel). No sum is ever split between threads, so results do not depend on their number.
"""

import math

import numpy as np
from numba import prange

from legendre.core.compiled import ParallelKernel, compiled
from legendre.core.sums.kernels.rectangle import ordered_sum

BLOCK = 128  # columns swept together: I_1 x 128 doubles stay in the second-level cache for I_1 up to about 1000


@compiled()
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


@compiled()
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


@compiled(nogil=True)
def sum_grid(grid, modes, back):
    """Prefix sums over every mode, by the calling thread; suffix sums if `back`."""
    rows, width = grid.shape
    for i in range(rows):
        _sum_slab(grid[i], modes, back)
    for i in range(1, rows):
        to, before = (rows - 1 - i, rows - i) if back else (i, i - 1)
        for j in range(width):
            grid[to, j] += grid[before, j]


@ParallelKernel
def scatter_forward(x, x0, flat, first, modes, out):
    """Put x on its cells (x0 on the bottom), zero elsewhere, and sum within each slab."""
    for i in prange(out.shape[0]):
        slab = out[i]
        slab[:] = 0.0
        if i == 0:
            slab[0] = x0
        base = i * slab.size
        for a in range(first[i], first[i + 1]):
            slab[flat[a] - base] += x[a]
        _sum_slab(slab, modes, False)


@ParallelKernel
def columns_forward(grid):
    """Prefix sums over mode 1."""
    rows, width = grid.shape
    for b in prange((width + BLOCK - 1) // BLOCK):
        lo, hi = b * BLOCK, min(width, (b + 1) * BLOCK)
        for i in range(1, rows):
            for j in range(lo, hi):
                grid[i, j] += grid[i - 1, j]


@ParallelKernel
def columns_weigh(grid, q):
    """Prefix sums over mode 1, times q, then suffix sums over mode 1, while a block of columns is in cache."""
    rows, width = grid.shape
    for b in prange((width + BLOCK - 1) // BLOCK):
        lo, hi = b * BLOCK, min(width, (b + 1) * BLOCK)
        for i in range(1, rows):
            for j in range(lo, hi):
                grid[i, j] += grid[i - 1, j]
        for j in range(lo, hi):
            grid[rows - 1, j] *= q[rows - 1, j]
        for i in range(rows - 2, -1, -1):
            for j in range(lo, hi):
                grid[i, j] = grid[i, j] * q[i, j] + grid[i + 1, j]


@ParallelKernel
def columns_backward(grid):
    """Suffix sums over mode 1."""
    rows, width = grid.shape
    for b in prange((width + BLOCK - 1) // BLOCK):
        lo, hi = b * BLOCK, min(width, (b + 1) * BLOCK)
        for i in range(rows - 2, -1, -1):
            for j in range(lo, hi):
                grid[i, j] += grid[i + 1, j]


@ParallelKernel
def slabs_backward(grid, modes):
    """Suffix sums within each slab."""
    for i in prange(grid.shape[0]):
        _sum_slab(grid[i], modes, True)


@ParallelKernel
def backward_gather(grid, flat, first, modes, out):
    """Suffix sums within each slab, read at the cells of the basis."""
    for i in prange(grid.shape[0]):
        slab = grid[i]
        _sum_slab(slab, modes, True)
        base = i * slab.size
        for a in range(first[i], first[i + 1]):
            out[a] = slab[flat[a] - base]


@ParallelKernel
def exponentiate(logq, w):
    """Turn log-ratios into w exp(.) in place, largest exponent shifted to 0; returns (shift, total)."""
    rows = logq.shape[0]
    tops, sums = np.empty(rows), np.empty(rows)
    for i in prange(rows):
        top = -np.inf
        for j in range(logq.shape[1]):
            if w[i, j] > 0.0 and logq[i, j] > top:
                top = logq[i, j]
        tops[i] = top
    shift = tops.max()
    for i in prange(rows):
        total = 0.0
        for j in range(logq.shape[1]):
            value = 0.0
            if w[i, j] > 0.0:
                value = w[i, j] * math.exp(logq[i, j] - shift)
            logq[i, j] = value
            total += value
        sums[i] = total
    return shift, ordered_sum(sums)


@ParallelKernel
def scale(grid, factor):
    """Multiply the grid in place."""
    for i in prange(grid.shape[0]):
        grid[i] *= factor


@compiled()
def _fisher_row(a, eta, corner, ref, at, g):
    """Row a of the lower triangle: ``g_ab = eta[max(a, b)] - eta_a eta_b``."""
    at[: a + 1] = 0
    for d in range(corner.shape[0]):
        own = corner[d, a]
        for b in range(a + 1):
            at[b] += max(own, corner[d, b])
    for b in range(a + 1):
        g[a, b] = eta[at[b]] - ref[a] * ref[b]


@ParallelKernel
def fill_fisher(eta, corner, ref, g):
    """Fill the lower triangle of the Fisher matrix; rows are paired, long with short, to balance the threads."""
    k = ref.size  # corner: coordinates times strides (N, k), so that the place of a join is a sum of maxima
    for task in prange((k + 1) // 2):
        at = np.empty(k, np.int64)
        _fisher_row(task, eta, corner, ref, at, g)
        _fisher_row(k - 1 - task, eta, corner, ref, at, g)


@ParallelKernel
def mirror(g):
    """Copy the lower triangle to the upper one, tile by tile to stay in cache."""
    k, tile = g.shape[0], 64
    for t in prange((k + tile - 1) // tile):
        for s in range(t + 1):
            for a in range(t * tile, min(k, (t + 1) * tile)):
                for b in range(s * tile, min(a, (s + 1) * tile)):
                    g[b, a] = g[a, b]


@compiled()
def permute_rows(g, order):
    """Put row order[i] in place i, in place: one cycle of the permutation after the other."""
    done = np.zeros(len(order), np.bool_)
    spare = np.empty(g.shape[1])
    for first in range(len(order)):
        if done[first]:
            continue
        spare[:] = g[first]
        i = first
        while order[i] != first:
            g[i] = g[order[i]]
            done[i] = True
            i = order[i]
        g[i] = spare
        done[i] = True
