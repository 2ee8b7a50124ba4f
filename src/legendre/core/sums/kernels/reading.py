"""One compiled pass over X in the order of its memory, in its own dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.sums.kernels.rectangle import (
    BLOCKS,
    U,
    c_strides,
    check_positions,
    offsets,
    sort_along,
    sum_down,
    sum_tail,
    threads,
)
from legendre.core.types import FloatArray, IntArray

LANES = 1024  # entries of a row treated at once: running minima stay in first-level cache
SHORT = 64  # axes shorter than this are fused with the next, where memory allows


class ReadingPlan(NamedTuple):
    """How to walk over X in the order of its memory and where each entry goes, for any order and any strides.

    The target of an entry is a sum of one table entry per axis, so axes can be fused when memory allows.
    """

    base: int
    shape: IntArray
    strides: IntArray  # (1 or 2, axes): of X, and of the mask if there is one
    tables: IntArray  # all axes' tables, end to end
    starts: IntArray
    straight: bool  # along the last axis entries go to consecutive cells


class Aggregate(NamedTuple):
    """What one pass over X tells: sums per box and what a checker of the input wants to know."""

    sums: FloatArray
    counts: FloatArray | None  # cells of Omega per box; None when all cells count
    minimum: float
    missing: int
    infinite: int


def plain(x: NDArray[Any]) -> NDArray[Any]:
    """X in a type that numba reads; a copy is made only for exotic types, byte orders and alignments."""
    x = np.asarray(x)
    if x.dtype.kind not in "biuf":
        raise TypeError(f"expected real numbers, got dtype {x.dtype}")
    if x.dtype.kind == "b":
        return x.view(np.uint8)
    if x.dtype.itemsize not in (1, 2, 4, 8) or x.dtype == np.float16:
        return x.astype(np.float64)
    sound = x.dtype.isnative and x.flags.aligned and all(s % x.itemsize == 0 for s in x.strides)
    return x if sound else x.astype(x.dtype.newbyteorder("="))


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """View the memory under x as a read-only vector, starting at x's lowest address."""
    low = x[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in x.strides)]
    span = 1 + sum((n - 1) * s // x.itemsize for n, s in zip(low.shape, low.strides, strict=True))
    return np.lib.stride_tricks.as_strided(low, (span,), (x.itemsize,), writeable=False)


def memory_order(x: NDArray[Any]) -> list[int]:
    """Axes by falling stride; axes of one entry, whose stride means nothing, come last."""
    return sorted(range(x.ndim), key=lambda k: (x.shape[k] == 1, -abs(x.strides[k]), k))


def _layout(arrays: Sequence[NDArray[Any]], targets: Sequence[IntArray], order: Sequence[int]) -> ReadingPlan:
    """Walk the axes in the given order, upwards in memory but for the first; short inner axes are fused."""
    x = arrays[0]
    axes = []  # [length, strides, table]
    base = 0
    for position, k in enumerate(order):
        steps, table = [a.strides[k] // a.itemsize for a in arrays], targets[k]
        if steps[0] < 0 and position > 0:
            steps, table = [-s for s in steps], table[::-1]
        elif steps[0] < 0:  # streaming needs the first axis in its own order
            base -= (x.shape[k] - 1) * steps[0]
        axes.append((x.shape[k], steps, table))
    while len(axes) > 2 and axes[-1][0] < SHORT:
        (n, outer, upper), (m, inner, lower) = axes[-2:]
        if any(a != m * b for a, b in zip(outer, inner, strict=True)):
            break
        axes[-2:] = [(n * m, inner, (upper[:, None] + lower[None, :]).ravel())]
    while len(axes) < 2:
        axes.insert(0, (1, [0] * len(arrays), np.zeros(1, np.int64)))
    table = axes[-1][2]
    straight = axes[-1][1][0] == 1 and bool(np.all(np.diff(table) == 1))
    sizes = [len(t) for _, _, t in axes]
    strides = np.array([s for _, s, _ in axes], np.int64).T.copy()
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)
    tables = np.concatenate([t for _, _, t in axes]).astype(np.int64)
    return ReadingPlan(base, np.array([n for n, _, _ in axes], np.int64), strides, tables, starts, straight)


@njit(cache=True)
def _place(r, base, shape, strides, tables, starts):
    """Where row r starts in memory and in the target."""
    source, target = base, 0
    for axis in range(len(shape) - 2, -1, -1):
        c = r % shape[axis]
        r //= shape[axis]
        source += c * strides[axis]
        target += tables[starts[axis] + c]
    return source, target


@njit(cache=True)
def _add(x, source, step, sums, target, n, low):
    """Add n entries of X to sums and lower the running minima, lane by lane so that both run in vectors."""
    for begin in range(U(0), U(n), U(LANES)):
        m = min(U(LANES), U(n) - begin)
        a, b, c = U(source) + begin * U(step), U(target) + begin, U(step)
        if step == 1:
            for i in range(m):
                value = np.float64(x[a + i])
                sums[b + i] += value
                low[i] = value if value < low[i] else low[i]
        else:
            for i in range(m):
                value = np.float64(x[a + i * c])
                sums[b + i] += value
                low[i] = value if value < low[i] else low[i]


@njit(cache=True)
def _spill(line, inner, out, target):
    """Move a summed row to the boxes it belongs to."""
    for i in range(len(line)):
        out[U(target + inner[i])] += line[i]
        line[i] = 0.0


@njit(cache=True)
def _walk(x, base, shape, steps, tables, starts, inner, straight, first, last, out, line, low):
    """Loop for `_read`, apart from it: here numba counts no references, on which threads would queue."""
    n, step = shape[-1], steps[-1]
    current = -1
    for r in range(first, last):
        source, target = _place(r, base, shape, steps, tables, starts)
        if straight:
            _add(x, source, step, out, target + inner[0], n, low)
            continue
        if target != current and current >= 0:
            _spill(line, inner, out, current)
        current = target
        _add(x, source, step, line, 0, n, low)
    if current >= 0:
        _spill(line, inner, out, current)


@njit(cache=True)
def _read(x, layout, first, last, out, line, low):
    """Add rows first..last-1 of X to out; rows with one target are summed before they are merged."""
    base, shape, strides, tables, starts, straight = layout
    inner = tables[starts[-1] :]
    _walk(x, base, shape, strides[0], tables, starts, inner, straight, first, last, out, line, low)


@njit(cache=True, parallel=True)
def _aggregate(x, layout, bounds, out, lows):
    """Blocks of rows in parallel, into one target each, or into a shared one that they cut without overlap."""
    for b in prange(len(bounds) - 1):
        line = np.zeros(0 if layout.straight else layout.shape[-1])
        _read(x, layout, bounds[b], bounds[b + 1], out[b % len(out)], line, lows[b])


@njit(cache=True, nogil=True)
def _aggregate_alone(x, layout, bounds, out, lows):
    """As `_aggregate`, by the calling thread."""
    for b in range(len(bounds) - 1):
        line = np.zeros(0 if layout.straight else layout.shape[-1])
        _read(x, layout, bounds[b], bounds[b + 1], out[b % len(out)], line, lows[b])


@njit(cache=True, parallel=True)
def _aggregate_masked(x, mask, layout, bounds, out, counts, lows, bad):
    """As `_aggregate`, entry by entry: leaves out what the mask leaves out and NaN, and counts what is left."""
    n = layout.shape[-1]
    step, hop = layout.strides[0, -1], layout.strides[1, -1]
    for b in prange(len(bounds) - 1):
        total, number, low = out[b % len(out)], counts[b % len(out)], np.inf
        inner = layout.tables[layout.starts[-1] :]
        missing, infinite = 0, 0
        for r in range(bounds[b], bounds[b + 1]):
            source, target = _place(r, layout.base, layout.shape, layout.strides[0], layout.tables, layout.starts)
            seen, _ = _place(r, 0, layout.shape, layout.strides[1], layout.tables, layout.starts)
            for i in range(n):
                if mask[seen + i * hop]:
                    value = np.float64(x[source + i * step])
                    if value == value:
                        cell = target + inner[i]
                        total[cell] += value
                        number[cell] += 1.0
                        low = min(low, value)
                        infinite += np.isinf(value)
                    else:
                        missing += 1
        lows[b, 0], bad[b, 0], bad[b, 1] = low, missing, infinite


def _row_bounds(layout: ReadingPlan, cells: int) -> tuple[IntArray, int]:
    """Blocks of rows and the number of targets: private targets while they are small, else cuts between boxes."""
    planes, rows = int(layout.shape[0]), int(np.prod(layout.shape[:-1]))
    size = rows * int(layout.shape[-1])
    if size < limits.ONE_BLOCK:
        return np.array([0, rows], np.int64), 1
    if BLOCKS * cells * 16 <= size:
        return np.linspace(0, rows, BLOCKS + 1).astype(np.int64), BLOCKS
    steps = np.diff(layout.tables[:planes])
    if np.all(steps >= 0) or np.all(steps <= 0):  # else one box may be met twice: leave it to one thread
        edges = np.concatenate(([0], np.flatnonzero(steps) + 1, [planes]))
        wanted = np.searchsorted(edges, np.linspace(0, planes, BLOCKS + 1))
        return np.unique(edges[wanted]).astype(np.int64) * (rows // planes), 1
    return np.array([0, rows], np.int64), 1


def aggregate_alone(x: NDArray[Any], boxes: Sequence[NDArray[Any]]) -> FloatArray:
    """Sum X, all finite, over boxes as `aggregate` does, by the calling thread alone.

    For callers that are threads themselves: numba's pools are not all made for several callers at a time.
    """
    x = plain(x)
    m = [int(b.max()) + 1 for b in boxes]
    weights = np.concatenate((np.cumprod(m[::-1])[::-1], [1]))[1:]
    targets = [b.astype(np.int64) * w for b, w in zip(boxes, weights, strict=True)]
    layout = _layout([x], targets, memory_order(x))
    bounds = np.array([0, int(np.prod(layout.shape[:-1]))], np.int64)
    sums = np.zeros(m)
    _aggregate_alone(_flat(x), layout, bounds, sums.reshape(1, -1), np.full((1, LANES), np.inf))
    return sums


def aggregate(x: NDArray[Any], boxes: Sequence[NDArray[Any]], mask: NDArray[np.bool_] | None = None) -> Aggregate:
    """Sum X over boxes in one pass in the order of its memory, without a float64 copy.

    x: any order, any real dtype, any strides.  boxes[k]: box index of each coordinate of mode k (0..m_k-1).
    mask: cells of Omega, or None for all.  NaN entries are left out and counted; then, and with a mask, `counts`
    says how many cells each box keeps.  X is read a second time only if it holds NaN or infinity.
    """
    x = plain(x)
    if [len(b) for b in boxes] != list(x.shape) or (mask is not None and mask.shape != x.shape):
        raise ValueError(f"boxes and mask must fit the shape {x.shape}")
    m = [int(b.max()) + 1 if len(b) else 0 for b in boxes]
    if any(len(b) and b.min() < 0 for b in boxes):
        raise ValueError("box indices must not be negative")
    if x.size == 0 or x.ndim == 0:
        return Aggregate(np.zeros(m), None, np.inf, 0, 0)
    weights = np.concatenate((np.cumprod(m[::-1])[::-1], [1]))[1:]
    targets = [b.astype(np.int64) * w for b, w in zip(boxes, weights, strict=True)]
    cells = int(np.prod(m))
    if mask is None:
        layout = _layout([x], targets, memory_order(x))
        bounds, copies = _row_bounds(layout, cells)
        out = np.zeros((copies, cells))
        lows = np.full((len(bounds) - 1, LANES), np.inf)
        with threads(x.size):
            _aggregate(_flat(x), layout, bounds, out, lows)
        sums = out[0] if copies == 1 else out.sum(0)
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(sums.sum()))
        if finite:
            return Aggregate(sums.reshape(m), None, float(lows.min()), 0, 0)
        mask = np.broadcast_to(np.True_, x.shape)
    if any(s < 0 for s in (*x.strides, *mask.strides)):
        flip = tuple(slice(None, None, -1) if s < 0 else slice(None) for s in x.strides)
        x, mask, targets = x[flip], mask[flip], [t[f] for t, f in zip(targets, flip, strict=True)]
        mask = mask if all(s >= 0 for s in mask.strides) else mask.copy()
    seen = mask.view(np.uint8)
    layout = _layout([x, seen], targets, memory_order(x))
    bounds, copies = _row_bounds(layout, cells)
    out, counts = np.zeros((copies, cells)), np.zeros((copies, cells))
    blocks = len(bounds) - 1
    lows, bad = np.full((blocks, 1), np.inf), np.zeros((blocks, 2), np.int64)
    with threads(x.size):
        _aggregate_masked(_flat(x), _flat(seen), layout, bounds, out, counts, lows, bad)
    missing, infinite = (int(v) for v in bad.sum(0))
    return Aggregate(out.sum(0).reshape(m), counts.sum(0).reshape(m), float(lows.min()), missing, infinite)


@njit(cache=True)
def _stream_block(b, x, layout, bounds, first, scaled, extents, strides, starts, slabs, lows, eta):
    """Walk the planes of one block down, add them up in one merged slab, look up cells as they come."""
    rows = 1
    for axis in range(1, len(layout.shape) - 1):
        rows *= layout.shape[axis]
    slab, work = slabs[b], np.empty(slabs.shape[1])
    line = np.zeros(0 if layout.straight else layout.shape[-1])
    corner = np.empty_like(extents)
    p = first[b + 1] - 1
    for plane in range(bounds[b + 1] - 1, bounds[b] - 1, -1):
        _read(x, layout, plane * rows, (plane + 1) * rows, slab, line, lows[b])
        end = p
        while p >= first[b] and starts[p] == plane:
            p -= 1
        if p < end:
            for d in range(len(extents)):
                corner[d] = scaled[d, p + 1 : end + 1].min() // strides[d]
            sum_down(slab, work, extents, strides, corner, False)
            for u in range(p + 1, end + 1):
                eta[u] = sum_tail(work, scaled, u, extents)


@njit(cache=True)
def _stream_join(first, scaled, extents, strides, slabs, eta):
    """Add to each block's cells what lies in the blocks above."""
    above = np.zeros(slabs.shape[1])
    zero = np.zeros_like(extents)
    for b in range(len(slabs) - 2, -1, -1):
        above += slabs[b + 1]
        work = np.empty(slabs.shape[1])
        sum_down(above, work, extents, strides, zero, False)
        for u in range(first[b], first[b + 1]):
            eta[u] += sum_tail(work, scaled, u, extents)


@njit(cache=True, parallel=True)
def _stream(x, layout, bounds, first, scaled, extents, strides, starts, slabs, lows, eta):
    """Sum X above each cell of B.

    starts[p]: plane where cell p begins; first: cells by block.  Blocks begin at nought; what lies in the blocks
    above is added afterwards, so they are independent.
    """
    for b in prange(len(bounds) - 1):
        _stream_block(b, x, layout, bounds, first, scaled, extents, strides, starts, slabs, lows, eta)
    _stream_join(first, scaled, extents, strides, slabs, eta)


@njit(cache=True, nogil=True)
def _stream_alone(x, layout, bounds, first, scaled, extents, strides, starts, slabs, lows, eta):
    """As `_stream`, by the calling thread."""
    for b in range(len(bounds) - 1):
        _stream_block(b, x, layout, bounds, first, scaled, extents, strides, starts, slabs, lows, eta)
    _stream_join(first, scaled, extents, strides, slabs, eta)


def _stream_mode(memory: Sequence[int], extents: NDArray[Any]) -> int:
    """Choose the axis to stream along: the slab must be small, then strides large; the innermost axis last of all."""
    cost = extents.prod(dtype=float) / extents
    cost[memory[-1]] *= SHORT
    return next(d for d in memory if cost[d] <= 4 * cost.min())


def suffix_sums(
    x: NDArray[Any], cuts: Sequence[NDArray[Any]], positions: NDArray[Any], *, alone: bool = False
) -> FloatArray:
    """Sum X above the cells of B, in the order of X's memory, in memory O(one merged slab).

    cuts[k]: sorted first coordinates of the boxes of mode k, beginning with 0; positions: (k, N) box coordinates.
    Slabs are cut across the axis of the largest stride that leaves a small slab: X is then read once, straight
    through.  Divide by the sum of X for eta_hat.  With `alone` the calling thread does it all (see `aggregate_alone`).
    """
    x = plain(x)
    check_positions(positions, [len(c) for c in cuts])
    if any(c[0] != 0 or n == 0 for c, n in zip(cuts, x.shape, strict=True)):
        raise ValueError("cuts must begin with 0 and X must not be empty")
    if x.ndim == 1:  # no slab to speak of: one more mode of length one
        x, cuts = x[:, None], [*cuts, np.zeros(1, np.int64)]
        positions = np.column_stack((positions, np.zeros(len(positions), np.int64)))
    extents = np.array([len(c) for c in cuts])
    memory = memory_order(x)
    mode = _stream_mode(memory, extents)
    boxes = [np.searchsorted(c, np.arange(n), side="right") - 1 for c, n in zip(cuts, x.shape, strict=True)]
    others, order = sort_along(positions, mode)
    slab = np.array([extents[d] for d in others], np.int64)
    strides = c_strides(slab)
    targets = [np.zeros(n, np.int64) for n in x.shape]
    for d, s in zip(others, strides, strict=True):
        if d >= 0:
            targets[d] = boxes[d].astype(np.int64) * s
    layout = _layout([x], targets, [mode, *(d for d in memory if d != mode)])
    scaled = offsets(positions[order], others, strides)
    starts = np.asarray(cuts[mode])[positions[order, mode]].astype(np.int64)
    blocks = 1 if alone or x.size < limits.ONE_BLOCK else BLOCKS
    bounds = np.unique(np.linspace(0, x.shape[mode], blocks + 1).astype(np.int64))
    first = np.searchsorted(starts, bounds).astype(np.int64)
    slabs = np.zeros((len(bounds) - 1, int(slab.prod())))
    lows, eta = np.full((len(bounds) - 1, LANES), np.inf), np.zeros(len(order))
    work = _flat(x), layout, bounds, first, scaled, slab, strides, starts, slabs, lows, eta
    if alone:
        _stream_alone(*work)
    else:
        with threads(x.size):
            _stream(*work)
    sums = np.empty_like(eta)
    sums[order] = eta
    return sums
