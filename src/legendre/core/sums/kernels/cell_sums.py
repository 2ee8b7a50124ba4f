"""Compiled sums over the partial order between two lists of cells.

Cells of one list, the *adders*, have values. Each cell of the other list, an *asker*, asks for the sum of the values at
or below it. Both lists are swept along the longest mode; a *plane* is the cells with one coordinate there. The values
met so far are kept in a binary indexed tree (Fenwick 1994) over the other modes, the *slab*. Adding a value and asking
for the sum at or below a place both visit O(log I_k) entries along mode k. The memory is that of one slab.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from legendre.core.cells import strides_of
from legendre.core.compiled import available_threads, compiled, in_threads, inner
from legendre.core.types import FloatArray, IntArray, Shape


@inner
def _add_value(tree, extents, strides, place, value, index):
    """Add a value at a place of the slab: to every entry of the tree that covers the place.

    Along a mode, with coordinates counted from 1, entry i covers the ``i & -i`` coordinates up to i; the next entry
    that covers them too is ``i + (i & -i)``. Over several modes the entries are all combinations, which the loop visits
    like an odometer, the last mode fastest. `index` has room for the current combination.
    """
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
            offset -= (index[i] - 1 - place[i]) * strides[i]  # this mode starts again, the one before it advances
            index[i] = place[i] + 1
            i -= 1
        if i < 0:
            return


@inner
def _sum_below(tree, strides, place, index):
    """Sum the values that were added at or below a place of the slab.

    Along a mode these are entries i, ``i - (i & -i)``, ... of the tree down to 0, which cover disjoint coordinates. As
    in `_add_value`, the combinations over all modes are visited like an odometer.
    """
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
            offset += (place[i] + 1 - index[i]) * strides[i]  # this mode starts again, the one before it advances
            index[i] = place[i] + 1
            i -= 1
        if i < 0:
            return total


@inner
def _add_up_to(plane, a, adders, values, tree, extents, strides, index):
    """Add the values of the adders from number `a` on, up to and including a plane; return the number of the next."""
    while a < len(adders) and adders[a, 0] <= plane:
        _add_value(tree, extents, strides, adders[a, 1:], values[a], index)
        a += 1
    return a


@compiled
def _sweep(adders, values, askers, extents, strides, out):
    """Fill `out` with the sum for each asker. Both lists are sorted by plane, which is their first column.

    Within a plane the adders come first, so that a cell counts as at or below itself.
    """
    tree, index = np.zeros(extents.prod()), np.empty(len(extents), np.int64)
    a = np.int64(0)  # with a literal 0 numba would compile the callee once more
    for b in range(len(askers)):
        a = _add_up_to(askers[b, 0], a, adders, values, tree, extents, strides, index)
        out[b] = _sum_below(tree, strides, askers[b, 1:], index)


@compiled
def _sweep_joins(part, parts, adders, values, askers, extents, strides, back, out):
    """As `_sweep`, but for the joins of two askers: fill its row and column of `out` when the sweep reaches an asker.

    Askers are sorted by plane; `back` has the row of each in `out`.

    Coordinates run downwards, so the join of two cells is their coordinatewise minimum, and its plane is that of the
    earlier asker of the two, b. The pairs (b, other) are divided by `other` between `parts` threads, each with its own
    tree; this call does those with ``other % parts == part``.
    """
    d = len(extents)
    tree, index, where = np.zeros(extents.prod()), np.empty(d, np.int64), np.empty(d, np.int64)
    a = np.int64(0)
    for b in range(len(askers)):
        a = _add_up_to(askers[b, 0], a, adders, values, tree, extents, strides, index)
        for other in range(b + (part - b) % parts, len(askers), parts):
            for i in range(d):
                where[i] = min(askers[b, i + 1], askers[other, i + 1])
            u, v = back[b], back[other]
            out[u, v] = out[v, u] = _sum_below(tree, strides, where, index)


class _Sweep(NamedTuple):
    """Two lists of cells prepared for a sweep: the first column is the plane, the others are the place in a slab."""

    adders: IntArray  # sorted by plane
    values: FloatArray  # of the adders
    askers: IntArray  # sorted by plane
    extents: IntArray  # the lengths of the slab's modes
    strides: IntArray


def _plan_sweep(
    shape: Shape, adders: IntArray, values: FloatArray, askers: IntArray, *, down: bool
) -> tuple[_Sweep, IntArray]:
    """Put the longest mode first and sort both lists by it; return also each sorted asker's original number.

    The longest mode is swept because the tree covers the others: this makes it smallest. If `down`, coordinates are
    counted from the top, so that cells above an asker become cells below it.
    """
    longest = int(np.argmax(shape))
    order = [longest, *(k for k in range(len(shape)) if k != longest)]
    extents = np.array([shape[k] for k in order[1:]] or [1], dtype=np.int64)  # a single mode has slabs of one cell
    tables = []
    for cells in (adders, askers):
        table = np.zeros((len(cells), 1 + len(extents)), dtype=np.int64)
        for column, k in enumerate(order):
            table[:, column] = shape[k] - 1 - cells[:, k].astype(np.int64) if down else cells[:, k]
        tables.append(table)
    first, back = (np.argsort(table[:, 0], kind="stable") for table in tables)
    return _Sweep(tables[0][first], values[first], tables[1][back], extents, strides_of(extents)), back


def sweep(shape: Shape, adders: IntArray, values: FloatArray, askers: IntArray, *, down: bool) -> FloatArray:
    """Sum, for each of the askers, the values of the adders at or below it; at or above it if `down`.

    `adders` (m x N) and `askers` (k x N) are cells of a grid of this shape; `values` (m,) belong to the adders. The
    result (k,) is in the order of the askers. `core/sums/cell_sums.py` calls this for long lists.
    """
    plan, back = _plan_sweep(shape, adders, values, askers, down=down)
    sums, out = np.empty(len(askers)), np.empty(len(askers))
    _sweep(*plan, sums)
    out[back] = sums
    return out


def sweep_joins(shape: Shape, cells: IntArray, basis: IntArray, masses: FloatArray, out: FloatArray) -> None:
    """Fill `out` (k x k) with the mass at or above the join of any two basis cells: second moments of the features.

    `cells` (m x N) have the masses (m,), `basis` is (k x N). The Fisher matrix of a list of cells needs this.
    """
    plan, back = _plan_sweep(shape, cells, masses, basis, down=True)
    # each part adds all cells to a tree of its own, which pays only if there are more joins than cells and tree entries
    several = len(basis) ** 2 > max(len(cells), int(plan.extents.prod()))
    parts = available_threads() if several else 1

    def run(first: int, last: int) -> None:
        """Do some of the parts: a thread does each with a tree of its own."""
        for part in range(first, last):
            _sweep_joins(part, parts, *plan, back, out)

    in_threads(float(len(basis)) ** 2 * len(plan.extents), parts, run)
