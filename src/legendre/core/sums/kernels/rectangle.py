"""Compiled running sums on rectangles of a slab, and what sweeps over X and over the model share.

A grid is swept along one mode, the mode of the sweep; a *slab* is the grid of the other modes, held flat in C order. A
*rectangle* is the part of a slab at or above a corner: nothing below the corner of a slab's basis cells can change
there, nor be asked for, so every sweep visits rectangles only.

Every result is bit-identical for any number of threads: work is cut into blocks whose number depends on the problem
only, blocks never share a cell, and their parts are combined in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import compiled, inner
from legendre.core.types import FloatArray, IntArray

U = np.uintp  # unsigned offsets: numba then leaves out the wrap-around test, and loops run in vectors
FIRST, NO = np.int64(0), np.bool_(False)  # with a literal in their place numba would compile the callee once more
BLOCKS = 8  # fixed, so that the answer does not depend on the number of threads


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


@compiled
def sum_slab_up(a, extents, strides, corner, product):
    """As `sum_up`, of a slab of its own."""
    sum_up(a, extents, strides, corner, product)


@compiled
def sum_slab_down(a, extents, strides, corner, along_last):
    """As `sum_down`, of a slab of its own, in place."""
    sum_down(a, a, extents, strides, corner, along_last)


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


def check_positions(positions: NDArray[Any], extents: Sequence[int]) -> None:
    """Refuse cells outside the grid: compiled code does not look."""
    if positions.ndim != 2 or positions.shape[1] != len(extents) or positions.dtype.kind not in "iu":
        raise ValueError(f"positions must be integers of shape (k, {len(extents)}), not {positions.shape}")
    if len(positions) and (positions.min() < 0 or (positions.max(0) >= np.asarray(extents)).any()):
        raise ValueError("positions must lie in the grid")


def check_gram(k: int, gram: FloatArray | None) -> None:
    """Refuse a matrix that compiled code could not fill."""
    if gram is not None and (gram.shape != (k, k) or gram.dtype != np.float64 or not gram.flags.carray):
        raise ValueError(f"gram must be a writable C-ordered float64 array of shape ({k}, {k})")


def c_strides(extents: NDArray[Any]) -> IntArray:
    """Strides in cells of a C-ordered grid."""
    return np.concatenate((np.cumprod(extents[::-1])[::-1][1:], [1])).astype(np.int64)


def sort_along(positions: NDArray[Any], mode: int) -> tuple[list[int], IntArray]:
    """Modes of the slab (at least two; -1 stands for a mode of one box) and B sorted along the mode of the sweep."""
    others = [d for d in range(positions.shape[1]) if d != mode]
    return [-1] * (2 - len(others)) + others, np.argsort(positions[:, mode], kind="stable")


def offsets(positions: NDArray[Any], modes: Sequence[int], strides: IntArray) -> IntArray:
    """(modes, k) coordinates times strides: the offset of a join is the sum of the maxima of such entries."""
    out = np.zeros((len(modes), len(positions)), np.int64)
    for row, d, s in zip(out, modes, strides, strict=True):
        if d >= 0:
            row[:] = positions[:, d] * s
    return out
