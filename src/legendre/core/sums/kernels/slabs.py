"""The model swept slab by slab: psi, eta and the Fisher matrix in the memory of a few slabs.

A grid is swept along one mode, the mode of the sweep; a *slab* is the grid of the other modes, held flat in C order. A
*rectangle* is the part of a slab at or above a corner: nothing below the corner of a slab's basis cells can change
there, nor be asked for, so every sweep visits rectangles only. Slabs are swept forward once for the running state, then
backward: theta is undone while suffix sums accumulate. Blocks of slabs never share a cell, and their parts are combined
in a fixed order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.compiled import ParallelKernel, U, compiled, in_threads, inner
from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray

FIRST, NO = np.int64(0), np.bool_(False)  # with a literal in their place numba would compile the callee once more


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


def plan_slabs(
    lengths: Sequence[NDArray[Any]], positions: NDArray[Any], mode: int | None = None, blocks: int = 8
) -> SlabPlan:
    """Prepare sweeps; lengths[k]: weight of each box of mode k, positions: (k, N) box coordinates of B.

    The mode swept along is the one whose sweep visits the fewest cells (the first such) of those with a moderate slab.
    """
    if mode is None:
        cells = math.prod(len(n) for n in lengths)
        sizes = [cells // len(n) for n in lengths]
        # up to 32 MiB the memory of a slab does not decide the mode to cut along
        moderate = [d for d, size in enumerate(sizes) if size <= max(1 << 22, 2 * min(sizes))]
        return min((plan_slabs(lengths, positions, d) for d in moderate), key=lambda p: p.work)
    # a slab has at least two modes, those that are added have one box
    missing = max(0, 3 - len(lengths))
    sides = [np.ones(1)] * missing + [np.asarray(n, float) for d, n in enumerate(lengths) if d != mode]
    order = np.argsort(positions[:, mode], kind="stable")
    slabs, chosen = len(lengths[mode]), positions[order]
    places = np.hstack([np.zeros((len(order), missing), np.int64), np.delete(chosen, mode, axis=1)])
    extents = np.array([len(n) for n in sides], np.int64)
    strides = np.concatenate((np.cumprod(extents[::-1])[::-1][1:], [1])).astype(np.int64)
    first = np.searchsorted(chosen[:, mode], np.arange(slabs + 1)).astype(np.int64)
    corners = np.zeros((slabs, len(sides)), np.int64)
    for j in np.flatnonzero(np.diff(first)):
        corners[j] = places[first[j] : first[j + 1]].min(axis=0)
    tails = np.concatenate((np.cumsum(np.asarray(lengths[mode], float)[::-1])[::-1], [0.0]))
    logs = np.zeros(1)
    for side in sides:
        logs = np.add.outer(logs, np.log(side)).ravel()
    bounds = np.array([0, slabs], np.int64)
    new, cells = np.diff(first), np.prod(extents - corners, axis=1, dtype=float)
    work = np.cumsum(np.where(new > 0, 2.0 * cells + new * first[1:], 0.0))  # cells visited by slab, and joins
    if work[-1] > limits.ONE_BLOCK:
        cut = np.searchsorted(work, np.linspace(0, work[-1], blocks + 1)[1:-1])
        bounds = np.unique(np.concatenate(([0], cut, [slabs]))).astype(np.int64)
    scaled = np.ascontiguousarray((places * strides).T)  # the offset of a join is the sum of the maxima of its columns
    work_of_all = float(work[-1])
    return SlabPlan(mode, order, extents, strides, scaled, first, corners, tails, logs, bounds, work_of_all)


@inner
def locate_row(r, extents, strides, corner, axis):
    """Offset of the r-th row of a rectangle, and the row's place along `axis` counted from the corner."""
    base, place = corner[-1], 0
    for d in range(len(extents) - 2, -1, -1):
        size = extents[d] - corner[d]
        c = r % size
        r //= size
        base += (corner[d] + c) * strides[d]
        if d == axis:
            place = c
    return base, place


@inner
def count_rows(extents, corner):
    """Count the rows (lines along the last mode) of a rectangle."""
    rows = 1
    for d in range(len(extents) - 1):
        rows *= extents[d] - corner[d]
    return rows


@inner
def sum_up(a, extents, strides, corner, product):
    """Sum (or multiply) from the corner up, over all modes, in place: zeta transform of parameters."""
    n, rows, last = U(extents[-1] - corner[-1]), count_rows(extents, corner), len(extents) - 2
    for axis in range(last, -1, -1):
        step = U(strides[axis])
        for r in range(rows):
            start, place = locate_row(r, extents, strides, corner, axis)
            base = U(start)
            if axis == last:  # the first sweep does the last mode as well
                s = a[base]
                for i in range(base + U(1), base + n):
                    s = s * a[i] if product else s + a[i]
                    a[i] = s
            if place > 0 and product:
                for i in range(base, base + n):
                    a[i] *= a[i - step]
            elif place > 0:
                for i in range(base, base + n):
                    a[i] += a[i - step]


@inner
def sum_down(a, e, extents, strides, corner, along_last):
    """Set e (or a itself) to the sums of a over all cells above; the serial last mode may be left to the caller."""
    n, rows, last = U(extents[-1] - corner[-1]), count_rows(extents, corner), len(extents) - 2
    for axis in range(last, -1, -1):
        step = U(strides[axis])
        for r in range(rows - 1, -1, -1):
            start, place = locate_row(r, extents, strides, corner, axis)
            base = U(start)
            if axis == last and along_last:
                s = 0.0
                for i in range(n):
                    j = base + n - U(1) - i
                    s += a[j]
                    e[j] = s
            elif axis == last:
                for i in range(base, base + n):
                    e[i] = a[i]
            if place + 1 < extents[axis] - corner[axis]:
                for i in range(base, base + n):
                    e[i] += e[i + step]


@inner
def sum_above(a, line, extents, strides, corner):
    """Sum a over all cells above the corner: rows into a line first, which runs in vectors."""
    n = U(extents[-1] - corner[-1])
    for i in range(n):
        line[i] = 0.0
    for r in range(count_rows(extents, corner)):
        base = U(locate_row(r, extents, strides, corner, FIRST)[0])
        for i in range(n):
            line[i] += a[base + i]
    total = 0.0
    for i in range(n):
        total += line[i]
    return total


@inner
def offset(scaled, u):
    """Find the place of cell u in a slab; `scaled` holds coordinates times strides."""
    cell = 0
    for d in range(len(scaled)):
        cell += scaled[d, u]
    return cell


@inner
def sum_tail(e, scaled, u, extents):
    """Sum along the last mode from cell u on, of an array summed over the other modes by `sum_down`."""
    s, base = 0.0, offset(scaled, u)
    for i in range(base, base + extents[-1] - scaled[-1, u]):
        s += e[i]
    return s


@inner
def add_joins(e, scaled, u, scratch, out):
    """out[v] += e at the join of u and v, for v <= u: offsets add up over modes, so no index array is kept."""
    a, b = scaled[0, u], scaled[1, u]
    for v in range(u + 1):
        scratch[v] = max(a, scaled[0, v]) + max(b, scaled[1, v])
    for d in range(2, len(scaled)):
        c = scaled[d, u]
        for v in range(u + 1):
            scratch[v] += max(c, scaled[d, v])
    for v in range(u + 1):
        out[v] += e[scratch[v]]


@inner
def balanced_row(i, k):
    """Rows of a triangle, short and long in turn, so that equal stretches of i are equal work."""
    half = np.int64(i) // 2
    return half if np.int64(i) % 2 == 0 else np.int64(k) - 1 - half


def _state(plan: SlabPlan, theta: FloatArray, slab: int) -> FloatArray:
    """Sum of the parameters at or below each cell of the given slab (log q without psi)."""
    count = plan.first[slab + 1]
    state = np.bincount(plan.scaled[:, :count].sum(axis=0), theta[:count], minlength=len(plan.logs)).astype(np.float64)
    accumulate(state.reshape(plan.extents))
    return state


@inner
def _steps(extents, strides, scaled, begin, end, corner, values, factors, product):
    """Compute what a slab's parameters begin..end-1 contribute to each cell of its rectangle: sums, or products."""
    n, nothing = U(extents[-1] - corner[-1]), 1.0 if product else 0.0
    for r in range(count_rows(extents, corner)):
        base = U(locate_row(r, extents, strides, corner, FIRST)[0])
        for i in range(base, base + n):
            factors[i] = nothing
    for u in range(begin, end):
        factors[offset(scaled, u)] = values[u]
    sum_up(factors, extents, strides, corner, product)


@inner
def _undo(extents, strides, corner, t, value, single, product, shift, state, mass, mark, factors):
    """Bring mass up to date on a slab's rectangle, then take the slab's parameters out of the state.

    mass[c] holds q summed over the slabs above mark[c] (a tail length): between two changes q is constant along
    the sweep, so a cell is visited only when it changes.
    """
    n = U(extents[-1] - corner[-1])
    for r in range(count_rows(extents, corner)):
        base = U(locate_row(r, extents, strides, corner, FIRST)[0])
        if not product:
            for i in range(n):
                at = base + i
                mass[at] += math.exp(state[at] - shift) * (t - mark[at])
                mark[at] = t
                state[at] -= value if single else factors[at]
        elif single:
            for i in range(n):
                at = base + i
                mass[at] += state[at] * (t - mark[at])
                mark[at] = t
                state[at] *= value
        else:
            for i in range(n):
                at = base + i
                mass[at] += state[at] * (t - mark[at])
                mark[at] = t
                state[at] *= factors[at]


@compiled
def _sweep(
    low, high, extents, strides, scaled, first, corners, tails, values, product, shift, fisher, state, mass, eta, gram
):
    """Backward sweep of one block, counting its own slabs only; mass ends as the block's total per slab cell."""
    size = len(state)
    mark, factors, sums = np.empty(size), np.empty(size), np.empty(size)
    scratch = np.empty(first[high], np.int64)
    for i in range(size):
        mass[i], mark[i] = 0.0, tails[high]
    for j in range(high - 1, low - 1, -1):
        begin, end, corner = first[j], first[j + 1], corners[j]
        if begin == end:
            continue
        single = end - begin == 1
        if not single:
            _steps(extents, strides, scaled, begin, end, corner, values, factors, product)
        _undo(extents, strides, corner, tails[j], values[begin], single, product, shift, state, mass, mark, factors)
        if single and not fisher:  # a slab's only cell is its corner
            eta[begin] = sum_above(mass, sums, extents, strides, corner)
            continue
        sum_down(mass, sums, extents, strides, corner, fisher)
        for u in range(begin, end):
            if fisher:
                row = gram[u]
                for v in range(u + 1):
                    row[v] = 0.0
                add_joins(sums, scaled, u, scratch, row)
                eta[u] = row[u]
            else:
                eta[u] = sum_tail(sums, scaled, u, extents)
    for i in range(size):
        mass[i] += (state[i] if product else math.exp(state[i] - shift)) * (tails[low] - mark[i])


@ParallelKernel
def _centre(begin, end, scaled, owner, above, eta, total, gram):
    """Finish rows of the Fisher matrix: add what lies in higher blocks, normalise, subtract eta eta^T."""
    k = len(eta)
    scratch = np.empty(k, np.int64)
    for i in range(begin, end):
        u = balanced_row(i, k)
        row = gram[u]
        if owner[u] + 1 < len(above):
            add_joins(above[owner[u] + 1], scaled, u, scratch, row)
        for v in range(u + 1):
            row[v] = row[v] / total - eta[u] * eta[v]


@compiled
def _extremes(low, high, extents, strides, scaled, first, corners, theta, state, out):
    """Widen `out`, least and greatest, by the sums of parameters in the slabs of one block."""
    n, steps = len(extents), np.empty(len(state))
    least, greatest = out[0], out[1]
    for i in range(len(state)):
        least, greatest = min(least, state[i]), max(greatest, state[i])
    for j in range(high - 1, low - 1, -1):
        if first[j] == first[j + 1]:
            continue
        corner = corners[j]
        _steps(extents, strides, scaled, first[j], first[j + 1], corner, theta, steps, NO)
        for r in range(count_rows(extents, corner)):
            base, _ = locate_row(r, extents, strides, corner, FIRST)
            for i in range(base, base + extents[n - 1] - corner[n - 1]):
                state[i] -= steps[i]
                least, greatest = min(least, state[i]), max(greatest, state[i])
    out[0], out[1] = least, greatest


def _in_blocks(plan: SlabPlan, run: Callable[[int, int, int], object]) -> None:
    """Call ``run(block, its first slab, its last + 1)`` for all blocks, in threads where that pays."""

    def several(first: int, last: int) -> None:
        for b in range(first, last):
            run(b, int(plan.bounds[b]), int(plan.bounds[b + 1]))

    in_threads(plan.work, len(plan.bounds) - 1, several)


def log_range(plan: SlabPlan, theta: FloatArray) -> tuple[float, float]:
    """Least and greatest sum of parameters over all cells: decides the domain when the easy bound does not."""
    ranges = np.tile([np.inf, -np.inf], (len(plan.bounds) - 1, 1))
    tables = plan.extents, plan.strides, plan.scaled, plan.first, plan.corners, theta
    _in_blocks(plan, lambda b, low, high: _extremes(low, high, *tables, _state(plan, theta, high - 1), ranges[b]))
    return float(ranges[:, 0].min()), float(ranges[:, 1].max())


def _domain(plan: SlabPlan, theta: FloatArray, safe: float = 300.0) -> tuple[bool, float]:
    """Whether running products are safe, and the shift of log q under which they are.

    exp(+-safe) times any number of cells stays far from overflow and underflow.
    """
    positive, negative = float(theta[theta > 0].sum()), float(-theta[theta < 0].sum())
    if max(positive, negative) <= safe:
        return True, 0.0
    low, high = log_range(plan, theta)
    steps = np.concatenate(([0.0], np.cumsum(np.abs(theta))))[plan.first]
    return bool(high - low <= 2 * safe and np.diff(steps).max() <= 2 * safe), float(high)


def evaluate(plan: SlabPlan, theta: FloatArray, gram: FloatArray | None = None) -> tuple[float, FloatArray]:
    """Compute psi and eta on B, both for theta in plan order; with `gram`, also the Fisher matrix.

    Only the lower triangle of gram (k x k, C order) is filled; LAPACK takes `gram.T` with lower=False without a copy.
    """
    theta = np.ascontiguousarray(theta, np.float64)
    product, shift = _domain(plan, theta)
    values = np.exp(-theta) if product else theta
    eta, fisher = np.empty(len(theta)), gram is not None
    target = gram if fisher else np.empty((1, 1))
    mass = np.empty((len(plan.bounds) - 1, len(plan.logs)))
    tables = plan.extents, plan.strides, plan.scaled, plan.first, plan.corners, plan.tails, values

    def sweep(b: int, low: int, high: int) -> None:
        state = _state(plan, theta, high - 1)
        state += plan.logs
        if product:
            state -= shift
            np.exp(state, out=state)
        _sweep(low, high, *tables, product, shift, fisher, state, mass[b], eta, target)

    _in_blocks(plan, sweep)
    total = _join_blocks(plan, mass, eta)
    if gram is not None:
        owner = np.repeat(np.arange(len(mass)), np.diff(plan.first[plan.bounds]))
        _centre(plan.work, len(eta), plan.scaled, owner, mass, eta, total, gram)
    return math.log(total) + shift, eta


def _join_blocks(plan: SlabPlan, mass: FloatArray, eta: FloatArray) -> float:
    """Add to eta what lies in higher blocks and normalise it; return the sum of all cells.

    The blocks' masses become what lies in a block and above it, at or above each cell of a slab.
    """
    for b in range(len(mass) - 2, -1, -1):
        mass[b] += mass[b + 1]
    total = float(mass[0].sum())
    places = plan.scaled.sum(axis=0)

    def add_above(b: int, low: int, high: int) -> None:
        if b + 1 < len(mass):
            accumulate(np.flip(mass[b + 1].reshape(plan.extents)))
            own = slice(plan.first[low], plan.first[high])
            eta[own] += mass[b + 1, places[own]]

    _in_blocks(plan, add_above)
    eta /= total
    return total
