"""What a sweep over slabs needs to know of the model, whatever theta is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.sums.kernels.rectangle import BLOCKS, c_strides, check_positions, offsets, sort_along
from legendre.core.types import FloatArray, IntArray


class SlabPlan(NamedTuple):
    """Everything about (Omega, B) that does not change with theta.  Parameters are in the order of `order`."""

    mode: int  # the mode swept along
    order: IntArray  # (k,) B's rows sorted along that mode: plan order
    extents: IntArray  # (D,) boxes per slab mode, D >= 2
    strides: IntArray  # (D,)
    scaled: IntArray  # (D, k) slab coordinates times strides
    first: IntArray  # (slabs + 1,) parameters by slab
    corners: IntArray  # (slabs, D) meet of the slab's parameters
    tails: FloatArray  # (slabs + 1,) summed lengths of this slab and all above
    logs: FloatArray  # (cells of a slab,) log of the cells' weights within the slab
    bounds: IntArray  # (blocks + 1,) slabs by block
    work: float  # cells visited and joins read by one sweep


def plan_slabs(lengths: Sequence[NDArray[Any]], positions: NDArray[Any], mode: int | None = None) -> SlabPlan:
    """Prepare sweeps; lengths[k]: weight of each box of mode k, positions: (k, N) box coordinates of B.

    The mode swept along is the one whose sweep visits the fewest cells (the first such) of those with a moderate slab.
    """
    if mode is None:
        check_positions(positions, [len(n) for n in lengths])
        cells = math.prod(len(n) for n in lengths)
        sizes = [cells // len(n) for n in lengths]
        moderate = [d for d, size in enumerate(sizes) if size <= max(limits.MODERATE_SLAB, 2 * min(sizes))]
        return min((plan_slabs(lengths, positions, d) for d in moderate), key=lambda p: p.work)
    others, order = sort_along(positions, mode)
    extents = np.array([1 if d < 0 else len(lengths[d]) for d in others], np.int64)
    strides = c_strides(extents)
    slabs = len(lengths[mode])
    chosen = positions[order]
    first = np.searchsorted(chosen[:, mode], np.arange(slabs + 1)).astype(np.int64)
    corners = np.zeros((slabs, len(others)), np.int64)
    for j in range(slabs):
        if first[j] < first[j + 1]:
            low = chosen[first[j] : first[j + 1]].min(0)
            corners[j] = [0 if d < 0 else low[d] for d in others]
    tails = np.concatenate((np.cumsum(np.asarray(lengths[mode], float)[::-1])[::-1], [0.0]))
    logs = np.zeros(1)
    for d in others:
        logs = np.add.outer(logs, np.zeros(1) if d < 0 else np.log(lengths[d])).ravel()
    bounds = np.array([0, slabs], np.int64)
    plan = SlabPlan(
        mode, order, extents, strides, offsets(chosen, others, strides), first, corners, tails, logs, bounds, 0.0
    )
    work = np.cumsum(_work(plan))
    if work[-1] > limits.ONE_BLOCK:
        cut = np.searchsorted(work, np.linspace(0, work[-1], BLOCKS + 1)[1:-1])
        bounds = np.unique(np.concatenate(([0], cut, [slabs]))).astype(np.int64)
    return plan._replace(bounds=bounds, work=float(work[-1]))


def _work(plan: SlabPlan) -> FloatArray:
    """Cells visited per slab, and joins: what blocks are balanced by."""
    new = np.diff(plan.first)
    cells = np.prod(plan.extents - plan.corners, axis=1, dtype=float)
    return np.where(new > 0, 2.0 * cells + new * plan.first[1:], 0.0)
