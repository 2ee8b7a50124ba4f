"""A walk over X in the order of its memory, in its own dtype, for any strides: each entry is added to its target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import inner
from legendre.core.sums.kernels.largest_entries import keep_larger
from legendre.core.sums.kernels.rectangle import U
from legendre.core.types import IntArray

LANES = 1024  # entries of a row treated at once: running minima stay in first-level cache
SHORT = 64  # axes shorter than this are fused with the next, where memory allows


class MemoryWalk(NamedTuple):
    """How to walk over X in the order of its memory; an entry's target is a sum of one table entry per axis."""

    base: int
    shape: IntArray
    strides: IntArray  # (1 or 2, axes): of X, and of the mask if there is one
    tables: IntArray  # all axes' tables, end to end
    starts: IntArray
    straight: bool  # along the last axis entries go to consecutive cells


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


def flat_memory(x: NDArray[Any]) -> NDArray[Any]:
    """View the memory under x as a read-only vector, starting at x's lowest address."""
    low = x[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in x.strides)]
    span = 1 + sum((n - 1) * s // x.itemsize for n, s in zip(low.shape, low.strides, strict=True))
    return np.lib.stride_tricks.as_strided(low, (span,), (x.itemsize,), writeable=False)


def memory_order(x: NDArray[Any]) -> list[int]:
    """Axes by falling stride; axes of one entry, whose stride means nothing, come last."""
    return sorted(range(x.ndim), key=lambda k: (x.shape[k] == 1, -abs(x.strides[k]), k))


def plan_walk(arrays: Sequence[NDArray[Any]], targets: Sequence[IntArray], order: Sequence[int]) -> MemoryWalk:
    """Walk the axes in the given order, upwards in memory but for the first; short inner axes are fused."""
    x, base, axes = arrays[0], 0, []  # axes: length, strides, table
    for position, k in enumerate(order):
        steps, table = [a.strides[k] // a.itemsize for a in arrays], targets[k]
        if steps[0] < 0 and position > 0:
            steps, table = [-s for s in steps], table[::-1]
        elif steps[0] < 0:  # a sweep needs the first axis in its own order
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
    return MemoryWalk(base, np.array([n for n, _, _ in axes], np.int64), strides, tables, starts, straight)


def ranked_columns(x: NDArray[Any], walk: MemoryWalk) -> int:
    """Count the columns that a walk can rank on its way: X's own where its rows are walked as they are."""
    return x.shape[-1] if x.flags.c_contiguous and int(walk.shape[-1]) == x.shape[-1] else 0


@inner
def locate(r, base, shape, strides, tables, starts):
    """Where row r starts in memory and in the target."""
    source, target = base, 0
    for axis in range(len(shape) - 2, -1, -1):
        c = r % shape[axis]
        r //= shape[axis]
        source += c * strides[axis]
        target += tables[starts[axis] + c]
    return source, target


@inner
def add_row(x, source, step, sums, target, n, low):
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


@inner
def _spill(line, inner, out, target):
    """Move a summed row to the boxes it belongs to."""
    for i in range(len(line)):
        out[U(target + inner[i])] += line[i]
        line[i] = 0.0


@inner
def add_rows(x, base, shape, steps, tables, starts, straight, first, last, out, line, low, best, where):
    """Add rows first..last-1 of X to out, and rank columns as `keep_larger` does where `best` is not empty.

    It takes the parts of a `MemoryWalk` one by one: numba then counts no references here, on which threads would queue.
    """
    n, step, inner = shape[-1], steps[-1], tables[starts[-1] :]
    current = np.int64(-1)  # a type, not a literal, for which numba would compile the callees once more
    for r in range(first, last):
        source, target = locate(r, base, shape, steps, tables, starts)
        if len(best) > 0:
            keep_larger(x, source, r, best, where)
        if straight:
            add_row(x, source, step, out, target + inner[0], n, low)
            continue
        if target != current and current >= 0:  # rows with one target are summed before they are merged
            _spill(line, inner, out, current)
        current = target
        add_row(x, source, step, line, np.int64(0), n, low)
    if current >= 0:
        _spill(line, inner, out, current)
