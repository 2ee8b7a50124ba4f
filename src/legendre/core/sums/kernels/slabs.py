"""The model swept slab by slab: psi, eta and the Fisher matrix in the memory of a few slabs.

A grid is swept along one mode, the mode of the sweep; a *slab* is the grid of the other modes, held flat in C order. A
*rectangle* is the part of a slab at or above a corner: nothing below the corner of a slab's basis cells can change
there, nor be asked for, so every sweep visits rectangles only. The sweep runs from the last slab to the first: theta
is undone while suffix sums accumulate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import U, compiled, inner
from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray

FIRST, NO = np.int64(0), np.bool_(False)  # with a literal in their place numba would compile the callee once more


class SlabPlan(NamedTuple):
    """Everything about (Omega, B) that does not change with theta.  Parameters are in the order of `order`."""

    order: IntArray  # (k,) B's rows sorted along the mode of the sweep: plan order
    extents: IntArray  # (D,) boxes per slab mode, D >= 2
    strides: IntArray  # (D,)
    scaled: IntArray  # (D, k) slab coordinates times strides
    first: IntArray  # (slabs + 1,) parameters by slab
    corners: IntArray  # (slabs, D) meet of the slab's parameters
    tails: FloatArray  # (slabs + 1,) summed lengths of this slab and all above
    logs: FloatArray  # (cells of a slab,) log of the cells' weights within the slab


def plan_slabs(lengths: Sequence[NDArray[Any]], positions: NDArray[Any]) -> SlabPlan:
    """Prepare sweeps along the longest mode; lengths[k]: weight of each box of mode k, positions: (k, N) boxes of B."""
    mode = int(np.argmax([len(n) for n in lengths]))
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
    scaled = np.ascontiguousarray((places * strides).T)  # the offset of a join is the sum of the maxima of its columns
    return SlabPlan(order, extents, strides, scaled, first, corners, tails, logs)


@inner
def _locate_row(r, extents, strides, corner, axis):
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
def _count_rows(extents, corner):
    """Count the rows (lines along the last mode) of a rectangle."""
    rows = 1
    for d in range(len(extents) - 1):
        rows *= extents[d] - corner[d]
    return rows


@inner
def _combine(extents, strides, scaled, begin, end, corner, values, out, product):
    """Compute what a slab's parameters begin..end-1 contribute to each cell of its rectangle: sums, or products."""
    n, rows, last = U(extents[-1] - corner[-1]), _count_rows(extents, corner), len(extents) - 2
    for r in range(rows):
        base = U(_locate_row(r, extents, strides, corner, FIRST)[0])
        for i in range(base, base + n):
            out[i] = 1.0 if product else 0.0
    for u in range(begin, end):
        out[_offset(scaled, u)] = values[u]
    for axis in range(last, -1, -1):
        step = U(strides[axis])
        for r in range(rows):
            start, place = _locate_row(r, extents, strides, corner, axis)
            base = U(start)
            if axis == last:  # the first sweep does the last mode as well
                s = out[base]
                for i in range(base + U(1), base + n):
                    s = s * out[i] if product else s + out[i]
                    out[i] = s
            if place > 0:
                for i in range(base, base + n):
                    out[i] = out[i] * out[i - step] if product else out[i] + out[i - step]


@inner
def _sum_down(a, e, extents, strides, corner):
    """Set e to the sums of a over all cells of a rectangle at or above each."""
    n, rows, last = U(extents[-1] - corner[-1]), _count_rows(extents, corner), len(extents) - 2
    for axis in range(last, -1, -1):
        step = U(strides[axis])
        for r in range(rows - 1, -1, -1):
            start, place = _locate_row(r, extents, strides, corner, axis)
            base = U(start)
            if axis == last:
                s = 0.0
                for i in range(n):
                    j = base + n - U(1) - i
                    s += a[j]
                    e[j] = s
            if place + 1 < extents[axis] - corner[axis]:
                for i in range(base, base + n):
                    e[i] += e[i + step]


@inner
def _offset(scaled, u):
    """Find the place of cell u in a slab; `scaled` holds coordinates times strides."""
    cell = 0
    for d in range(len(scaled)):
        cell += scaled[d, u]
    return cell


@inner
def _read_joins(e, scaled, u, scratch, out):
    """out[v] = e at the join of u and v, for v <= u: offsets add up over modes, so no index array is kept."""
    a, b = scaled[0, u], scaled[1, u]
    for v in range(u + 1):
        scratch[v] = max(a, scaled[0, v]) + max(b, scaled[1, v])
    for d in range(2, len(scaled)):
        c = scaled[d, u]
        for v in range(u + 1):
            scratch[v] += max(c, scaled[d, v])
    for v in range(u + 1):
        out[v] = e[scratch[v]]


@inner
def _undo(extents, strides, corner, t, value, single, product, shift, state, mass, mark, factors):
    """Bring mass up to date on a slab's rectangle, then take the slab's parameters out of the state.

    mass[c] holds q summed over the slabs above mark[c] (a tail length): between two changes q is constant along
    the sweep, so a cell is visited only when it changes.
    """
    n = U(extents[-1] - corner[-1])
    for r in range(_count_rows(extents, corner)):
        base = U(_locate_row(r, extents, strides, corner, FIRST)[0])
        if product:
            for i in range(base, base + n):
                mass[i] += state[i] * (t - mark[i])
                mark[i] = t
                state[i] *= value if single else factors[i]
        else:
            for i in range(base, base + n):
                mass[i] += math.exp(state[i] - shift) * (t - mark[i])
                mark[i] = t
                state[i] -= value if single else factors[i]


@compiled
def _sweep(extents, strides, scaled, first, corners, tails, values, product, shift, state, mass, mark, eta, gram):
    """Sweep from the last slab to the first, and read eta, and with a gram matrix its lower triangle, along the way."""
    factors, sums, scratch = np.empty(len(state)), np.empty(len(state)), np.empty(len(eta), np.int64)
    for j in range(len(corners) - 1, -1, -1):
        begin, end, corner = first[j], first[j + 1], corners[j]
        if begin == end:
            continue
        single = end - begin == 1
        if not single:
            _combine(extents, strides, scaled, begin, end, corner, values, factors, product)
        _undo(extents, strides, corner, tails[j], values[begin], single, product, shift, state, mass, mark, factors)
        _sum_down(mass, sums, extents, strides, corner)
        for u in range(begin, end):
            eta[u] = sums[_offset(scaled, u)]
            if len(gram):
                _read_joins(sums, scaled, u, scratch, gram[u])


@compiled
def _extremes(extents, strides, scaled, first, corners, theta, state):
    """Find the least and the greatest sum of parameters over all cells."""
    steps = np.empty(len(state))
    least, greatest = state.min(), state.max()
    for j in range(len(corners) - 1, -1, -1):
        if first[j] == first[j + 1]:
            continue
        corner = corners[j]
        _combine(extents, strides, scaled, first[j], first[j + 1], corner, theta, steps, NO)
        for r in range(_count_rows(extents, corner)):
            base, _ = _locate_row(r, extents, strides, corner, FIRST)
            for i in range(base, base + extents[-1] - corner[-1]):
                state[i] -= steps[i]
                least, greatest = min(least, state[i]), max(greatest, state[i])
    return least, greatest


def _last_slab(plan: SlabPlan, theta: FloatArray) -> FloatArray:
    """Sum the parameters at or below each cell of the last slab (log q without psi)."""
    state = np.bincount(plan.scaled.sum(axis=0), theta, minlength=len(plan.logs)).astype(np.float64)
    accumulate(state.reshape(plan.extents))
    return state


def log_range(plan: SlabPlan, theta: FloatArray) -> tuple[float, float]:
    """Return the least and the greatest sum of parameters over all cells, for theta in plan order."""
    low, high = _extremes(*plan[1:6], theta, _last_slab(plan, theta))
    return float(low), float(high)


def _domain(plan: SlabPlan, theta: FloatArray, safe: float = 300.0) -> tuple[bool, float]:
    """Whether running products are safe, and the shift of log q under which they are.

    exp(+-safe) times any number of cells stays far from overflow and underflow.
    """
    if max(float(theta[theta > 0].sum()), float(-theta[theta < 0].sum())) <= safe:
        return True, 0.0
    low, high = log_range(plan, theta)
    steps = np.concatenate(([0.0], np.cumsum(np.abs(theta))))[plan.first]
    return bool(high - low <= 2 * safe and np.diff(steps).max() <= 2 * safe), high


def evaluate(plan: SlabPlan, theta: FloatArray, gram: FloatArray | None = None) -> tuple[float, FloatArray]:
    """Compute psi and eta on B, both for theta in plan order; with `gram` (k x k), also the Fisher matrix.

    Running products are several times faster than an exponential for each visit of a cell.
    """
    product, shift = _domain(plan, theta)
    state = _last_slab(plan, theta)
    state += plan.logs
    if product:
        state -= shift
        np.exp(state, out=state)
    mass, mark, eta = np.zeros(len(state)), np.zeros(len(state)), np.empty(len(theta))
    values = np.exp(-theta) if product else theta
    joins = np.empty((0, 0)) if gram is None else gram
    _sweep(*plan[1:7], values, product, shift, state, mass, mark, eta, joins)
    total = float((mass + (state if product else np.exp(state - shift)) * (plan.tails[0] - mark)).sum())
    eta /= total
    for u, row in enumerate(joins):
        own = row[: u + 1]
        own /= total
        own -= eta[u] * eta[: u + 1]
        joins[:u, u] = own[:u]
    return math.log(total) + shift, eta
