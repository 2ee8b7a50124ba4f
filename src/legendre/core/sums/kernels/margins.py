"""Sums of X over all modes but one, for every mode, and what a check of X wants to know, in one compiled pass."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.compiled import ParallelKernel, inner
from legendre.core.sums.kernels import memory_walk
from legendre.core.sums.kernels.largest_entries import first_rows, join_blocks, keep_larger
from legendre.core.sums.kernels.rectangle import BLOCKS, U
from legendre.core.types import FloatArray, IntArray


class Margins(NamedTuple):
    """What the pass finds."""

    sums: list[FloatArray]  # by mode, the sum of X at each of its levels
    minimum: float
    largest: IntArray | None  # by level of the last mode, the first row of its largest entry, on request


@inner
def _row_sum(x, source, step, n):
    """Sum a row in eight parts, which a vector holds where entries are neighbours in memory."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    begin, hop, whole = U(source), U(step), U(n) - U(n) % U(8)
    if step == 1:
        for i in range(begin, begin + whole, U(8)):
            a += np.float64(x[i])
            b += np.float64(x[i + U(1)])
            c += np.float64(x[i + U(2)])
            d += np.float64(x[i + U(3)])
            e += np.float64(x[i + U(4)])
            f += np.float64(x[i + U(5)])
            g += np.float64(x[i + U(6)])
            h += np.float64(x[i + U(7)])
    else:
        whole = U(0)
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(whole, U(n)):
        total += np.float64(x[begin + i * hop])
    return total


@ParallelKernel
def _margins_of_blocks(first, last, x, base, shape, strides, tables, starts, bounds, out, lows, best, at):
    """Sum blocks of rows along every axis of a walk, into one target each; axes lie end to end there."""
    steps, n, line = strides[0], shape[-1], starts[-1]
    for b in range(first, last):
        for r in range(bounds[b], bounds[b + 1]):
            source, _ = memory_walk.locate(r, base, shape, steps, tables, starts)
            if best.shape[1] > 0:
                keep_larger(x, source, r, best[b], at[b])
            memory_walk.add_row(x, source, steps[-1], out[b], line, n, lows[b])
            total, left = _row_sum(x, source, steps[-1], n), r
            for axis in range(len(shape) - 2, -1, -1):
                out[b, starts[axis] + left % shape[axis]] += total
                left //= shape[axis]


def margins(x: NDArray[Any], *, rank: bool = False) -> Margins | None:
    """Sum X over all modes but one, for every mode; ``None`` where X holds what is not finite, or sums overflow.

    x: as in `sums_over_boxes`, and so is `rank`; not empty.
    """
    x = memory_walk.plain(x)
    strides = np.append(np.cumprod(x.shape[:0:-1])[::-1], 1).astype(np.int64)
    places = [np.arange(n) * stride for n, stride in zip(x.shape, strides.tolist(), strict=True)]
    walk = memory_walk.plan_walk([x], places, memory_walk.memory_order(x))
    rows = int(np.prod(walk.shape[:-1]))
    blocks = 1 if x.size < limits.ONE_BLOCK else BLOCKS
    bounds = np.unique(np.linspace(0, rows, blocks + 1).astype(np.int64))
    out = np.zeros((len(bounds) - 1, len(walk.tables)))
    lows = np.full((len(out), memory_walk.LANES), np.inf)
    columns = memory_walk.ranked_columns(x, walk) if rank else 0
    best, at = first_rows(x.dtype, bounds, columns)
    _margins_of_blocks(x.size, len(out), memory_walk.flat_memory(x), *walk[:-1], bounds, out, lows, best, at)
    with np.errstate(over="ignore", invalid="ignore"):
        along = out.sum(axis=0)
        if not np.isfinite(along.sum()):
            return None
    sums = _by_mode(walk, along, x.shape)
    return Margins(sums, float(lows.min()), join_blocks(best, at) if columns else None)


def _by_mode(walk: memory_walk.MemoryWalk, along: FloatArray, shape: tuple[int, ...]) -> list[FloatArray]:
    """Sort sums along the axes of a walk, which are modes in another order, reversed or fused, to the modes.

    The table of an axis tells the place in X, in C order, of each of its entries where other coordinates are 0.
    """
    sums: list[FloatArray] = [np.zeros(0)] * len(shape)
    for begin, end in zip(walk.starts, np.append(walk.starts[1:], len(along)), strict=True):
        coordinates = np.unravel_index(walk.tables[begin:end], shape)
        for k, n in enumerate(shape):
            if coordinates[k].any() or (n == 1 and not len(sums[k])):
                sums[k] = np.asarray(np.bincount(coordinates[k], along[begin:end], n), dtype=np.float64)
    return sums
