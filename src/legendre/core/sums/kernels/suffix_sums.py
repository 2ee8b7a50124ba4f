"""Sums of X over all cells at or above some cells, in one compiled pass over X and the memory of a few slabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.compiled import ParallelKernel, inner
from legendre.core.sums.kernels import memory_walk, rectangle
from legendre.core.sums.kernels.memory_walk import LANES, SHORT, flat_memory, memory_order, plain, plan_walk
from legendre.core.types import FloatArray, IntArray


@inner
def _look_up(slab, work, scaled, extents, strides, begin, end, eta):
    """Sum a merged slab above the cells begin..end-1, which begin in this plane."""
    corner = np.empty_like(extents)
    for d in range(len(extents)):
        least = scaled[d, begin]
        for u in range(begin + 1, end):
            least = min(least, scaled[d, u])
        corner[d] = least // strides[d]
    rectangle.sum_down(slab, work, extents, strides, corner, rectangle.NO)
    for u in range(begin, end):
        eta[u] = rectangle.sum_tail(work, scaled, u, extents)


@ParallelKernel
def _sum_blocks_above(
    first_block, last_block, x, base, shape, steps, tables, begins, straight, bounds, first, scaled, extents, strides,
    starts, slabs, lows, best, at, eta
):  # fmt: skip
    """Sum X above each cell p of B, which begins at plane starts[p], within blocks of planes.

    A block walks its planes down, adds them up in one merged slab and looks up cells as they come. `best` and `at` are
    empty: nothing is ranked.
    """
    rows = 1
    for axis in range(1, len(shape) - 1):
        rows *= shape[axis]
    line, work = np.zeros(0 if straight else shape[-1]), np.empty(slabs.shape[1])
    for b in range(first_block, last_block):
        slab, low, end = slabs[b], lows[b], first[b + 1]
        for plane in range(bounds[b + 1] - 1, bounds[b] - 1, -1):
            one, next_one = plane * rows, (plane + 1) * rows
            memory_walk.add_rows(
                x, base, shape, steps[0], tables, begins, straight, one, next_one, slab, line, low, best, at
            )
            begin = end
            while begin > first[b] and starts[begin - 1] == plane:
                begin -= 1
            if begin < end:
                _look_up(slab, work, scaled, extents, strides, begin, end, eta)
                end = begin


def _add_blocks_above(
    first: IntArray, scaled: IntArray, extents: IntArray, strides: IntArray, slabs: FloatArray, eta: FloatArray
) -> None:
    """Add to each block's cells what lies in the blocks above."""
    above, places, bottom = np.zeros(slabs.shape[1]), scaled.sum(axis=0), np.zeros_like(extents)
    for b in range(len(slabs) - 2, -1, -1):
        above += slabs[b + 1]
        sums, own = above.copy(), slice(first[b], first[b + 1])
        rectangle.sum_slab_down(sums, extents, strides, bottom, True)
        eta[own] += sums[places[own]]


def _slab_mode(memory: Sequence[int], extents: NDArray[Any]) -> int:
    """Choose the axis to cut slabs across: slabs must be small, then strides large; the innermost axis comes last."""
    cost = extents.prod(dtype=float) / extents
    cost[memory[-1]] *= SHORT
    return next(d for d in memory if cost[d] <= 4 * cost.min())


def suffix_sums(
    x: NDArray[Any], cuts: Sequence[NDArray[Any]], positions: NDArray[Any], *, alone: bool = False
) -> FloatArray:
    """Sum X above the cells of B, in the order of X's memory, in memory O(one merged slab).

    cuts[k]: sorted first coordinates of the boxes of mode k, beginning with 0; positions: (k, N) box coordinates.
    Slabs are cut across the axis of the largest stride that leaves a small slab: X is then read once, straight
    through.  Divide by the sum of X for eta_hat.  With `alone` the calling thread does it all, as in
    `sums_over_boxes_alone`.
    """
    x = plain(x)
    rectangle.check_positions(positions, [len(c) for c in cuts])
    if any(c[0] != 0 or n == 0 for c, n in zip(cuts, x.shape, strict=True)):
        raise ValueError("cuts must begin with 0 and X must not be empty")
    if x.ndim == 1:  # no slab to speak of: one more mode of length one
        x, cuts = x[:, None], [*cuts, np.zeros(1, np.int64)]
        positions = np.column_stack((positions, np.zeros(len(positions), np.int64)))
    extents = np.array([len(c) for c in cuts])
    memory = memory_order(x)
    mode = _slab_mode(memory, extents)
    boxes = [np.searchsorted(c, np.arange(n), side="right") - 1 for c, n in zip(cuts, x.shape, strict=True)]
    others, order = rectangle.sort_along(positions, mode)
    slab = np.array([extents[d] for d in others], np.int64)
    strides = rectangle.c_strides(slab)
    targets = [np.zeros(n, np.int64) for n in x.shape]
    for d, s in zip(others, strides, strict=True):
        if d >= 0:
            targets[d] = boxes[d].astype(np.int64) * s
    walk = plan_walk([x], targets, [mode, *(d for d in memory if d != mode)])
    scaled = rectangle.offsets(positions[order], others, strides)
    starts = np.asarray(cuts[mode])[positions[order, mode]].astype(np.int64)
    blocks = 1 if alone or x.size < limits.ONE_BLOCK else rectangle.BLOCKS
    bounds = np.unique(np.linspace(0, x.shape[mode], blocks + 1).astype(np.int64))
    first = np.searchsorted(starts, bounds).astype(np.int64)
    slabs = np.zeros((len(bounds) - 1, int(slab.prod())))
    lows, eta = np.full((len(bounds) - 1, LANES), np.inf), np.zeros(len(order))
    nothing = np.empty(0, x.dtype), np.empty(0, np.int64)
    arrays = bounds, first, scaled, slab, strides, starts, slabs, lows, *nothing, eta
    _sum_blocks_above(0 if alone else x.size, len(slabs), flat_memory(x), *walk, *arrays)
    _add_blocks_above(first, scaled, slab, strides, slabs, eta)
    sums = np.empty_like(eta)
    sums[order] = eta
    return sums
