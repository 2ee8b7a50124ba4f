"""The model swept slab by slab: psi, eta and the Fisher matrix in the memory of a few slabs, or in closed form.

Slabs are swept forward once for the running state, then backward: theta is undone while suffix sums accumulate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import prange
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.compiled import ParallelKernel, compiled
from legendre.core.sums.kernels import rectangle
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
        rectangle.check_positions(positions, [len(n) for n in lengths])
        cells = math.prod(len(n) for n in lengths)
        sizes = [cells // len(n) for n in lengths]
        moderate = [d for d, size in enumerate(sizes) if size <= max(limits.MODERATE_SLAB, 2 * min(sizes))]
        return min((plan_slabs(lengths, positions, d) for d in moderate), key=lambda p: p.work)
    others, order = rectangle.sort_along(positions, mode)
    extents = np.array([1 if d < 0 else len(lengths[d]) for d in others], np.int64)
    strides = rectangle.c_strides(extents)
    slabs, chosen = len(lengths[mode]), positions[order]
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
        mode,
        order,
        extents,
        strides,
        rectangle.offsets(chosen, others, strides),
        first,
        corners,
        tails,
        logs,
        bounds,
        0.0,
    )
    new, cells = np.diff(first), np.prod(extents - corners, axis=1, dtype=float)
    work = np.cumsum(np.where(new > 0, 2.0 * cells + new * first[1:], 0.0))  # cells visited by slab, and joins
    if work[-1] > limits.ONE_BLOCK:
        cut = np.searchsorted(work, np.linspace(0, work[-1], rectangle.BLOCKS + 1)[1:-1])
        bounds = np.unique(np.concatenate(([0], cut, [slabs]))).astype(np.int64)
    return plan._replace(bounds=bounds, work=float(work[-1]))


SAFE = 300.0  # exp(+-SAFE) times any number of cells stays far from overflow and underflow


@compiled()
def _state(plan, theta, slab, state):
    """Sum of the parameters at or below each cell of the given slab (log q without psi)."""
    state[:] = 0.0
    for u in range(plan.first[slab + 1]):
        state[rectangle.offset(plan.scaled, u)] += theta[u]
    rectangle.sum_up(state, plan.extents, plan.strides, np.zeros_like(plan.extents), False)


@compiled()
def _steps(plan, values, j, factors, product):
    """Compute what slab j's parameters contribute to each cell of its rectangle: sums, or products of `values`."""
    extents, strides, corner = plan.extents, plan.strides, plan.corners[j]
    n = extents[-1] - corner[-1]
    for r in range(rectangle.count_rows(extents, corner)):
        base, _ = rectangle.locate_row(r, extents, strides, corner, 0)
        factors[base : base + n] = 1.0 if product else 0.0
    for u in range(plan.first[j], plan.first[j + 1]):
        factors[rectangle.offset(plan.scaled, u)] = values[u]
    rectangle.sum_up(factors, extents, strides, corner, product)


@compiled()
def _undo(plan, j, values, state, mass, mark, factors, product, shift):
    """Bring mass up to date on slab j's rectangle, then take slab j's parameters out of the state.

    mass[c] holds q summed over the slabs above mark[c] (a tail length): between two changes q is constant along
    the sweep, so a cell is visited only when it changes.
    """
    extents, strides, corner, t = plan.extents, plan.strides, plan.corners[j], plan.tails[j]
    n, value = extents[-1] - corner[-1], values[plan.first[j]]
    single = plan.first[j + 1] - plan.first[j] == 1
    if not single:
        _steps(plan, values, j, factors, product)
    for r in range(rectangle.count_rows(extents, corner)):
        base, _ = rectangle.locate_row(r, extents, strides, corner, 0)
        s, a, m = state[base : base + n], mass[base : base + n], mark[base : base + n]
        f = factors[base : base + n]
        if not product:
            for i in range(n):
                a[i] += np.exp(s[i] - shift) * (t - m[i])
                m[i] = t
                s[i] -= value if single else f[i]
        elif single:
            for i in range(n):
                a[i] += s[i] * (t - m[i])
                m[i] = t
                s[i] *= value
        else:
            for i in range(n):
                a[i] += s[i] * (t - m[i])
                m[i] = t
                s[i] *= f[i]


@compiled()
def _sweep(plan, b, theta, values, product, shift, fisher, mass, eta, gram):
    """Backward sweep of one block, counting its own slabs only; mass ends as the block's total per slab cell."""
    low, high = plan.bounds[b], plan.bounds[b + 1]
    size = len(plan.logs)
    state, mark, factors, sums = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    scratch = np.empty(plan.first[high], np.int64)
    _state(plan, theta, high - 1, state)
    for i in range(size):
        state[i] = np.exp(state[i] + plan.logs[i] - shift) if product else state[i] + plan.logs[i]
    mass[:] = 0.0
    mark[:] = plan.tails[high]
    for j in range(high - 1, low - 1, -1):
        if plan.first[j] == plan.first[j + 1]:
            continue
        _undo(plan, j, values, state, mass, mark, factors, product, shift)
        if not fisher and plan.first[j + 1] - plan.first[j] == 1:  # a slab's only cell is its corner
            eta[plan.first[j]] = rectangle.sum_above(mass, sums, plan.extents, plan.strides, plan.corners[j])
            continue
        rectangle.sum_down(mass, sums, plan.extents, plan.strides, plan.corners[j], fisher)
        for u in range(plan.first[j], plan.first[j + 1]):
            if fisher:
                gram[u, : u + 1] = 0.0
                rectangle.add_joins(sums, plan.scaled, u, u + 1, scratch, gram[u])
                eta[u] = gram[u, u]
            else:
                eta[u] = rectangle.sum_tail(sums, plan.scaled, u, plan.extents)
    for i in range(size):
        mass[i] += (state[i] if product else np.exp(state[i] - shift)) * (plan.tails[low] - mark[i])


@compiled()
def _centre(plan, u, above, eta, total, many, scratch, gram):
    """Finish row u of the Fisher matrix: add what lies in higher blocks, normalise, subtract eta eta^T."""
    if many:
        rectangle.add_joins(above, plan.scaled, u, u + 1, scratch, gram[u])
    row = gram[u]
    for v in range(u + 1):
        row[v] = row[v] / total - eta[u] * eta[v]


@ParallelKernel
def _evaluate(plan, theta, values, product, shift, fisher, eta, gram):
    """Block scan: all blocks on their own, then the blocks above each, then eta and the Fisher matrix."""
    blocks, k = len(plan.bounds) - 1, len(theta)
    mass = np.empty((blocks, len(plan.logs)))
    owner = np.empty(k, np.int64)
    for b in prange(blocks):
        _sweep(plan, b, theta, values, product, shift, fisher, mass[b], eta, gram)
        owner[plan.first[plan.bounds[b]] : plan.first[plan.bounds[b + 1]]] = b
    for b in range(blocks - 2, -1, -1):
        mass[b] += mass[b + 1]
    total = rectangle.ordered_sum(mass[0])
    zero = np.zeros_like(plan.extents)
    for b in prange(1, blocks):
        rectangle.sum_down(mass[b], mass[b], plan.extents, plan.strides, zero, True)
    for u in range(k):
        b = owner[u]
        if b + 1 < blocks:
            eta[u] += mass[b + 1, rectangle.offset(plan.scaled, u)]
        eta[u] /= total
    if fisher:
        for i in prange(k):
            u = rectangle.balanced_row(i, k)
            many = owner[u] + 1 < blocks
            above = mass[owner[u] + 1 if many else 0]
            _centre(plan, u, above, eta, total, many, np.empty(u + 1, np.int64), gram)
    return np.log(total) + shift


@ParallelKernel
def log_range(plan, theta):
    """Least and greatest sum of parameters over all cells: decides the domain when the easy bound does not."""
    blocks = len(plan.bounds) - 1
    ranges = np.zeros((blocks, 2))
    for b in prange(blocks):
        state, steps = np.empty(len(plan.logs)), np.empty(len(plan.logs))
        _state(plan, theta, plan.bounds[b + 1] - 1, state)
        low, high = state.min(), state.max()
        for j in range(plan.bounds[b + 1] - 1, plan.bounds[b] - 1, -1):
            if plan.first[j] == plan.first[j + 1]:
                continue
            _steps(plan, theta, j, steps, False)
            corner, n = plan.corners[j], plan.extents[-1] - plan.corners[j, -1]
            for r in range(rectangle.count_rows(plan.extents, corner)):
                base, _ = rectangle.locate_row(r, plan.extents, plan.strides, corner, 0)
                for i in range(base, base + n):
                    state[i] -= steps[i]
                    low, high = min(low, state[i]), max(high, state[i])
        ranges[b, 0], ranges[b, 1] = low, high
    return ranges[:, 0].min(), ranges[:, 1].max()


def _domain(plan: SlabPlan, theta: FloatArray) -> tuple[bool, float]:
    """Whether running products are safe, and the shift of log q under which they are."""
    positive, negative = float(theta[theta > 0].sum()), float(-theta[theta < 0].sum())
    if max(positive, negative) <= SAFE:
        return True, 0.0
    low, high = log_range(plan.work, plan, theta)
    steps = np.concatenate(([0.0], np.cumsum(np.abs(theta))))[plan.first]
    return bool(high - low <= 2 * SAFE and np.diff(steps).max() <= 2 * SAFE), float(high)


def evaluate(plan: SlabPlan, theta: FloatArray, gram: FloatArray | None = None) -> tuple[float, FloatArray]:
    """Compute psi and eta on B, both for theta in plan order; with `gram`, also the Fisher matrix.

    Only the lower triangle of gram (k x k, C order) is filled; LAPACK takes `gram.T` with lower=False without a copy.
    """
    theta = np.ascontiguousarray(theta, np.float64)
    if theta.shape != plan.order.shape:
        raise ValueError(f"theta must have shape {plan.order.shape}, not {theta.shape}")
    rectangle.check_gram(len(theta), gram)
    product, shift = _domain(plan, theta)
    values = np.exp(-theta) if product else theta
    eta, fisher = np.empty(len(theta)), gram is not None
    target = gram if fisher else np.empty((1, 1))
    psi = _evaluate(plan.work, plan, theta, values, product, shift, fisher, eta, target)
    return float(psi), eta


@ParallelKernel
def _products(tails, starts, positions, eta, gram):
    """Lower triangle of the Fisher matrix where Q, and with it eta at a join, is a product over modes."""
    k = positions.shape[1]
    for i in prange(k):
        u = rectangle.balanced_row(i, k)
        row = gram[u]
        row[: u + 1] = 1.0
        for d in range(len(positions)):
            tail, line, a = tails[starts[d] :], positions[d], positions[d, u]
            for v in range(u + 1):
                row[v] *= tail[max(a, line[v])]
        for v in range(u + 1):
            row[v] -= eta[u] * eta[v]


def products(
    lengths: Sequence[NDArray[Any]], positions: NDArray[Any], gram: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Compute psi and eta of a product over modes (and the Fisher matrix into gram's lower triangle) without a sweep.

    lengths[k]: the weight of each box of mode k; lengths alone make the uniform distribution, where fits begin.
    """
    rectangle.check_positions(positions, [len(n) for n in lengths])
    rectangle.check_gram(len(positions), gram)
    tails = [np.cumsum(np.asarray(n, float)[::-1])[::-1] for n in lengths]
    total = float(np.prod([t[0] for t in tails]))
    tails = [t / t[0] for t in tails]
    columns = np.ascontiguousarray(positions.T, np.int64)
    eta = np.ones(len(positions))
    for t, c in zip(tails, columns, strict=True):
        eta *= t[c]
    if gram is not None:
        starts = np.concatenate(([0], np.cumsum([len(t) for t in tails])[:-1])).astype(np.int64)
        _products(len(lengths) * len(eta) ** 2 / 2, np.concatenate(tails), starts, columns, eta, gram)
    return float(np.log(total)), eta
