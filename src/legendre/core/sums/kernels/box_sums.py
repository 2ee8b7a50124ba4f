"""Sums of X over boxes, and what a check of X wants to know, in one compiled pass over X."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.compiled import ParallelKernel
from legendre.core.sums.kernels import memory_walk
from legendre.core.sums.kernels.largest_entries import first_rows, join_blocks
from legendre.core.sums.kernels.rectangle import BLOCKS
from legendre.core.types import FloatArray, IntArray


class BoxSums(NamedTuple):
    """What one pass over X finds: sums per box, and what a check of X needs."""

    sums: FloatArray
    minimum: float
    missing: int
    infinite: int
    largest: IntArray | None = None  # by level of the last mode, the first row of its largest entry, on request


@ParallelKernel
def _sum_blocks(first, last, x, base, shape, strides, tables, starts, straight, bounds, out, lows, best, at):
    """Blocks of rows in parallel, into one target each, or into a shared one that they cut without overlap."""
    line = np.zeros(0 if straight else shape[-1])
    for b in range(first, last):
        target = out[b % len(out)], line, lows[b], best[b], at[b]
        memory_walk.add_rows(x, base, shape, strides[0], tables, starts, straight, bounds[b], bounds[b + 1], *target)


@ParallelKernel
def _sum_blocks_masked(first, last, x, mask, base, shape, strides, tables, starts, bounds, out, lows, bad):
    """As `_sum_blocks`, entry by entry: leaves out what the mask leaves out, and counts entries that are not finite."""
    n, begin = shape[-1], starts[-1]
    step, hop = strides[0, -1], strides[1, -1]
    for b in range(first, last):
        total, low = out[b % len(out)], np.inf
        missing, infinite = 0, 0
        for r in range(bounds[b], bounds[b + 1]):
            source, target = memory_walk.locate(r, base, shape, strides[0], tables, starts)
            seen, _ = memory_walk.locate(r, np.int64(0), shape, strides[1], tables, starts)
            for i in range(n):
                if mask[seen + i * hop]:
                    value = np.float64(x[source + i * step])
                    if value == value:
                        total[target + tables[begin + i]] += value
                        low = min(low, value)
                        infinite += np.isinf(value)
                    else:
                        missing += 1
        lows[b, 0], bad[b, 0], bad[b, 1] = low, missing, infinite


def _row_bounds(walk: memory_walk.MemoryWalk, cells: int) -> tuple[IntArray, int]:
    """Blocks of rows and the number of targets: private targets while they are small, else cuts between boxes."""
    planes, rows = int(walk.shape[0]), int(np.prod(walk.shape[:-1]))
    size = rows * int(walk.shape[-1])
    if size < limits.ONE_BLOCK:
        return np.array([0, rows], np.int64), 1
    if BLOCKS * cells * 16 <= size:
        return np.linspace(0, rows, BLOCKS + 1).astype(np.int64), BLOCKS
    steps = np.diff(walk.tables[:planes])
    if np.all(steps >= 0) or np.all(steps <= 0):  # else one box may be met twice: leave it to one thread
        edges = np.concatenate(([0], np.flatnonzero(steps) + 1, [planes]))
        wanted = np.searchsorted(edges, np.linspace(0, planes, BLOCKS + 1))
        return np.unique(edges[wanted]).astype(np.int64) * (rows // planes), 1
    return np.array([0, rows], np.int64), 1


def _targets(boxes: Sequence[NDArray[Any]]) -> tuple[list[int], list[IntArray]]:
    """Return the shape of the grid of boxes, and by mode the part of an entry's target that its coordinate gives."""
    m = [int(b.max()) + 1 if len(b) else 0 for b in boxes]
    weights = np.concatenate((np.cumprod(m[::-1])[::-1], [1]))[1:]
    return m, [b.astype(np.int64) * w for b, w in zip(boxes, weights, strict=True)]


def sums_over_boxes_alone(x: NDArray[Any], boxes: Sequence[NDArray[Any]]) -> FloatArray:
    """Sum X, all finite, over boxes by the calling thread alone, which is one of several that sum."""
    x = memory_walk.plain(x)
    m, targets = _targets(boxes)
    walk = memory_walk.plan_walk([x], targets, memory_walk.memory_order(x))
    bounds = np.array([0, int(np.prod(walk.shape[:-1]))], np.int64)
    sums = np.zeros(m)
    lows, nothing = np.full((1, memory_walk.LANES), np.inf), first_rows(x.dtype, bounds, 0)
    _sum_blocks(0, 1, memory_walk.flat_memory(x), *walk, bounds, sums.reshape(1, -1), lows, *nothing)
    return sums


def sums_over_boxes(
    x: NDArray[Any], boxes: Sequence[NDArray[Any]], mask: NDArray[np.bool_] | None = None, *, rank: bool = False
) -> BoxSums:
    """Sum X over boxes in one pass in the order of its memory, without a float64 copy.

    x: any order, any real dtype, any strides.  boxes[k]: box index of each coordinate of mode k (0..m_k-1).
    mask: cells of Omega, or None for all.  NaN entries are left out and counted.  X is read a second time only if it
    holds NaN or infinity.  With `rank` the same pass finds the largest entry of each level of the last mode, where X is
    finite and in C order.
    """
    x = memory_walk.plain(x)
    if [len(b) for b in boxes] != list(x.shape) or (mask is not None and mask.shape != x.shape):
        raise ValueError(f"boxes and mask must fit the shape {x.shape}")
    m, targets = _targets(boxes)
    if any(len(b) and b.min() < 0 for b in boxes):
        raise ValueError("box indices must not be negative")
    if x.size == 0 or x.ndim == 0:
        return BoxSums(np.zeros(m), np.inf, 0, 0)
    if mask is None:
        if (found := _all_finite(x, m, targets, rank)) is not None:
            return found
        mask = np.broadcast_to(np.True_, x.shape)
    return _masked(x, mask, m, targets)


def _all_finite(x: NDArray[Any], m: list[int], targets: list[IntArray], rank: bool) -> BoxSums | None:
    """Sum all of X; ``None`` where a sum is not finite."""
    walk = memory_walk.plan_walk([x], targets, memory_walk.memory_order(x))
    bounds, copies = _row_bounds(walk, math.prod(m))
    out = np.zeros((copies, math.prod(m)))
    lows = np.full((len(bounds) - 1, memory_walk.LANES), np.inf)
    columns = memory_walk.ranked_columns(x, walk) if rank else 0
    best, at = first_rows(x.dtype, bounds, columns)
    _sum_blocks(x.size, len(lows), memory_walk.flat_memory(x), *walk, bounds, out, lows, best, at)
    sums = out[0] if copies == 1 else out.sum(0)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = bool(np.isfinite(sums.sum()))
    if not finite:
        return None
    return BoxSums(sums.reshape(m), float(lows.min()), 0, 0, join_blocks(best, at) if columns else None)


def _masked(x: NDArray[Any], mask: NDArray[np.bool_], m: list[int], targets: list[IntArray]) -> BoxSums:
    """Sum the entries that the mask keeps and that are numbers."""
    if any(s < 0 for s in (*x.strides, *mask.strides)):
        flip = tuple(slice(None, None, -1) if s < 0 else slice(None) for s in x.strides)
        x, mask, targets = x[flip], mask[flip], [t[f] for t, f in zip(targets, flip, strict=True)]
        mask = mask if all(s >= 0 for s in mask.strides) else mask.copy()
    seen = mask.view(np.uint8)
    walk = memory_walk.plan_walk([x, seen], targets, memory_walk.memory_order(x))
    bounds, copies = _row_bounds(walk, math.prod(m))
    sums, blocks = np.zeros((copies, math.prod(m))), len(bounds) - 1
    lows, bad = np.full((blocks, 1), np.inf), np.zeros((blocks, 2), np.int64)
    memory = memory_walk.flat_memory(x), memory_walk.flat_memory(seen)
    _sum_blocks_masked(x.size, blocks, *memory, *walk[:-1], bounds, sums, lows, bad)
    missing, infinite = (int(v) for v in bad.sum(0))
    return BoxSums(sums.sum(0).reshape(m), float(lows.min()), missing, infinite)
