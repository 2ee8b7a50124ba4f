"""Compiled running sums over a grid, with the arithmetic of `legendre.core.sums.zeta`.

A grid of shape ``(I_1, ..., I_N)`` is held as a matrix ``(I_1, R)``: row i is the slab ``v_1 = i`` with the other
modes flattened. Sums over modes 2..N stay inside a slab (in cache, slabs in parallel); the sum over mode 1 runs down
the columns (column blocks in parallel). No sum is ever split between threads, so results do not depend on their number.
"""

import numpy as np

from legendre.core.compiled import ParallelKernel, inner
from legendre.core.types import FloatArray

BLOCK = 128  # columns swept together: I_1 x 128 doubles stay in the second-level cache for I_1 up to about 1000


@inner
def _sum_rows(slab, n, back):
    """Replace each row of length n of a flat slab by its running sums, from its end if `back`.

    An addition has to wait for the one before it in its row. Four rows at once let the processor use that time.
    """
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
    """Replace one slab, flat, by its prefix sums over each of its modes, of lengths `modes`; suffix sums if `back`."""
    if modes.size == 0:  # the grid is a vector, its slabs are single cells
        return
    _sum_rows(slab, modes[-1], back)
    post = modes[-1]  # the stride of the mode to be summed next: how far neighbours along it are apart in memory
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
    """Compute prefix sums within the slabs first..last-1; suffix sums if `back`."""
    for i in range(first, last):
        _sum_slab(grid[i], modes, back)


@ParallelKernel
def sum_columns(first, last, grid, back):
    """Compute prefix sums over the first mode in the blocks first..last-1 of columns; suffix sums if `back`.

    A block is narrow enough to stay in the cache while its rows are added up.
    """
    rows, width = grid.shape
    for b in range(first, last):
        lo, hi = b * BLOCK, min(width, (b + 1) * BLOCK)
        for i in range(1, rows):
            to, before = (rows - 1 - i, rows - i) if back else (i, i - 1)
            for j in range(lo, hi):
                grid[to, j] += grid[before, j]


def sum_grid(grid: FloatArray, *, back: bool) -> None:
    """Replace a grid by its prefix sums over every mode (zeta), in place; by its suffix sums (zeta adjoint) if `back`.

    `DenseEngine` calls it twice for each evaluation of theta, growing bases for each update of Q.
    """
    rows, modes = grid.reshape(len(grid), -1), np.array(grid.shape[1:], dtype=np.int64)
    work = 6.0 * grid.size  # roughly the visits of cells by a pair of sweeps; `ParallelKernel` decides about threads
    sum_slabs(work, len(rows), rows, modes, back)
    sum_columns(work, -(-rows.shape[1] // BLOCK), rows, back)
