"""Compiled sums over the partial order between two lists of cells.

The cells are swept along the longest mode, one *plane* after the other. What has been met so far is kept in a binary
indexed (Fenwick) tree over the other modes, in which adding a value and asking for a sum at or below a coordinate
both visit O(log) entries for each mode: the memory is that of one slab, and nothing else is formed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from legendre.core.compiled import available_threads, compiled, in_threads, inner
from legendre.core.types import FloatArray, IntArray


@inner
def _add(tree, extents, strides, place, value, index):
    """Add a value at a place of the slab."""
    d = len(extents)
    offset = 0
    for i in range(d):
        index[i] = place[i] + 1
        offset += place[i] * strides[i]
    while True:
        tree[offset] += value
        i = d - 1
        while i >= 0:
            step = index[i] & -index[i]
            if index[i] + step <= extents[i]:
                index[i] += step
                offset += step * strides[i]
                break
            offset -= (index[i] - 1 - place[i]) * strides[i]
            index[i] = place[i] + 1
            i -= 1
        if i < 0:
            return


@inner
def _sum(tree, strides, place, index):
    """Sum what was added at or below a place of the slab."""
    d = len(strides)
    offset = 0
    for i in range(d):
        index[i] = place[i] + 1
        offset += place[i] * strides[i]
    total = 0.0
    while True:
        total += tree[offset]
        i = d - 1
        while i >= 0:
            step = index[i] & -index[i]
            if index[i] > step:
                index[i] -= step
                offset -= step * strides[i]
                break
            offset += (place[i] + 1 - index[i]) * strides[i]
            index[i] = place[i] + 1
            i -= 1
        if i < 0:
            return total


@inner
def _add_up_to(plane, a, adders, values, tree, extents, strides, index):
    """Add the values of the adders from number `a` on, up to a plane; return the number of the next."""
    while a < len(adders) and adders[a, 0] <= plane:
        _add(tree, extents, strides, adders[a, 1:], values[a], index)
        a += 1
    return a


@compiled
def _sweep(adders, values, askers, extents, strides, out):
    """Go through both lists by rising plane, their first column; of one plane the adders come before the askers."""
    tree, index = np.zeros(extents.prod()), np.empty(len(extents), np.int64)
    a = np.int64(0)  # a type, not a literal, for which numba would compile the callee once more
    for b in range(len(askers)):
        a = _add_up_to(askers[b, 0], a, adders, values, tree, extents, strides, index)
        out[b] = _sum(tree, strides, askers[b, 1:], index)


@compiled
def _sweep_joins(part, parts, adders, values, askers, extents, strides, out):
    """As `_sweep`, for the join of every two askers, which has the later of their planes: every parts-th of them."""
    d = len(extents)
    tree, index, where = np.zeros(extents.prod()), np.empty(d, np.int64), np.empty(d, np.int64)
    a = np.int64(0)
    for b in range(len(askers)):
        a = _add_up_to(askers[b, 0], a, adders, values, tree, extents, strides, index)
        for other in range(b + (part - b) % parts, len(askers), parts):
            for i in range(d):  # coordinates run down here, so that a join is a minimum
                where[i] = min(askers[b, i + 1], askers[other, i + 1])
            out[b, other] = out[other, b] = _sum(tree, strides, where, index)


class _Sweep(NamedTuple):
    """Two lists of cells, laid out for a sweep: tables with the plane first, then the place in the slab."""

    adders: IntArray  # sorted by plane
    values: FloatArray  # of the adders
    askers: IntArray  # sorted by plane
    extents: IntArray  # the lengths of the slab's modes
    strides: IntArray


def _plan_sweep(
    shape: tuple[int, ...], adders: IntArray, values: FloatArray, askers: IntArray, *, down: bool
) -> tuple[_Sweep, IntArray]:
    """Put the longest mode first and sort both lists by it; return also where each sorted asker came from.

    If `down`, coordinates are counted from the top, so that what lies above a cell comes to lie below it.
    """
    longest = int(np.argmax(shape))
    order = [longest, *(k for k in range(len(shape)) if k != longest)]
    extents = np.array([shape[k] for k in order[1:]] or [1], dtype=np.int64)
    strides = np.cumprod([1, *extents[:0:-1]])[::-1].astype(np.int64)
    tables = []
    for cells in (adders, askers):
        table = np.zeros((len(cells), 1 + len(extents)), dtype=np.int64)
        for column, k in enumerate(order):
            table[:, column] = shape[k] - 1 - cells[:, k].astype(np.int64) if down else cells[:, k]
        tables.append(table)
    first, back = (np.argsort(table[:, 0], kind="stable") for table in tables)
    return _Sweep(tables[0][first], values[first], tables[1][back], extents, strides), back


def sweep(shape: tuple[int, ...], adders: IntArray, values: FloatArray, askers: IntArray, *, down: bool) -> FloatArray:
    """Sum, for each of the askers, the values of the adders at or below it; at or above it if `down`."""
    plan, back = _plan_sweep(shape, adders, values, askers, down=down)
    sums, out = np.empty(len(askers)), np.empty(len(askers))
    _sweep(*plan, sums)
    out[back] = sums
    return out


def sweep_joins(shape: tuple[int, ...], cells: IntArray, basis: IntArray, masses: FloatArray, out: FloatArray) -> None:
    """Fill `out` (k x k) with the mass at or above the join of any two basis cells."""
    plan, back = _plan_sweep(shape, cells, masses, basis, down=True)
    several = len(basis) ** 2 > max(len(cells), int(plan.extents.prod()))
    parts = available_threads() if several else 1  # each part adds all cells to a tree of its own

    def run(first: int, last: int) -> None:
        for part in range(first, last):
            _sweep_joins(part, parts, *plan, out)

    in_threads(float(len(basis)) ** 2 * len(plan.extents), parts, run)
    forth = np.argsort(back)
    out[:] = out[np.ix_(forth, forth)]
