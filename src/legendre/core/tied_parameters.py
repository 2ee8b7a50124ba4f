"""Ties: parameters of cells that move together, ``theta = A beta``; and the features of a model that has them.

A feature is a function on the grid. By Möbius inversion it is a sum of the features of cells, ``1[v >= u]``, with
coefficients that make a column of A; its value at the first cell is no part of it, since normalisation takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core.cells import find, frozen, unique_cells
from legendre.core.labels import Labels
from legendre.core.types import BoolArray, FloatArray, IntArray

Key = tuple[bytes, bytes]  # the cells of a column in order, and their coefficients


@dataclass(frozen=True, eq=False)
class Ties:
    """The matrix A, k cells x m columns, by its entries, column after column.

    >>> ties = Ties(3, np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0]), ("both", "twice"))
    >>> ties.spread(np.array([5.0, 7.0])).tolist(), ties.collect(np.array([1.0, 10.0, 100.0])).tolist()
    ([5.0, 5.0, 14.0], [11.0, 200.0])
    """

    n_cells: int  # k
    rows: IntArray  # the cell of each entry, by its place in the basis
    columns: IntArray  # its column, in rising order
    values: FloatArray
    names: tuple[str, ...]  # of the columns; empty for one that its cell names, whose own it is
    boxes: IntArray | None = None  # m x 2 N: the corners lo and hi of boxes, where each feature is 1 on one

    @property
    def n_params(self) -> int:
        """The number of columns, m."""
        return len(self.names)

    @cached_property
    def starts(self) -> IntArray:
        """Where each column begins among the entries, and the end of the last."""
        return np.searchsorted(self.columns, np.arange(self.n_params + 1)).astype(np.int64)

    @cached_property
    def own(self) -> IntArray:
        """For each column the one cell that it is the parameter of; -1 where it ties cells."""
        out = np.full(self.n_params, -1, dtype=np.int64)
        alone = np.flatnonzero(np.diff(self.starts) == 1)
        first = self.starts[alone]
        alone, first = alone[self.values[first] == 1.0], first[self.values[first] == 1.0]
        out[alone] = self.rows[first]
        return out

    @cached_property
    def whole(self) -> bool:
        """Whether all coefficients, and so all values of the features, are whole numbers."""
        return bool((self.values == np.rint(self.values)).all())

    @cached_property
    def size(self) -> float:
        """A bound of the absolute value of every feature, at least 1."""
        return max(1.0, float(self.collect_sizes(np.ones(self.n_cells)).max(initial=0.0)))

    def spread(self, vector: FloatArray) -> FloatArray:
        """Compute ``A x``: from a number for each parameter to one for each cell."""
        return np.bincount(self.rows, self.values * vector[self.columns], self.n_cells).astype(np.float64, copy=False)

    def collect(self, vector: FloatArray) -> FloatArray:
        """Compute ``A' x``: from a number for each cell to one for each parameter."""
        return np.bincount(self.columns, self.values * vector[self.rows], self.n_params).astype(np.float64, copy=False)

    def collect_sizes(self, vector: FloatArray) -> FloatArray:
        """Compute ``|A|' x``: how large the terms of `collect` are altogether."""
        sizes = np.abs(self.values) * vector[self.rows]
        return np.bincount(self.columns, sizes, self.n_params).astype(np.float64, copy=False)

    def matrix(self) -> Any:
        """Return A as a sparse array of SciPy, k x m, of its own: SciPy sorts entries in place."""
        from scipy.sparse import csc_array

        return csc_array((self.values, self.rows, self.starts), shape=(self.n_cells, self.n_params), copy=True)

    def of_columns(self, chosen: IntArray) -> Ties:
        """Keep some columns, in the order given; the cells stay."""
        chosen = np.asarray(chosen, dtype=np.int64)
        lengths = np.diff(self.starts)[chosen]
        ends = np.cumsum(lengths)
        # the entries of each chosen column, one after the other
        at = np.arange(int(lengths.sum())) + np.repeat(self.starts[chosen] - (ends - lengths), lengths)
        names = tuple(self.names[j] for j in chosen.tolist())
        columns = np.repeat(np.arange(len(chosen)), lengths)
        boxes = None if self.boxes is None else self.boxes[chosen]
        return replace(self, rows=self.rows[at], columns=columns, values=self.values[at], names=names, boxes=boxes)

    @cached_property
    def shortfall(self) -> FloatArray:
        """By what eta of each parameter falls short of the probability of its box: 1 if that holds the first cell.

        A feature is 0 at the first cell; that of a box which holds it is therefore 0 inside and -1 outside.
        """
        if self.boxes is None:
            return np.zeros(self.n_params)
        return np.asarray((self.boxes[:, : self.boxes.shape[1] // 2] == 0).all(axis=1), dtype=np.float64)

    def touching(self, cells: BoolArray) -> BoolArray:
        """Mark the columns that have an entry at one of the marked cells."""
        return np.bincount(self.columns, cells[self.rows], self.n_params) > 0


@dataclass(frozen=True, eq=False)
class Terms:
    """What a basis lists on a tensor: cells (k x N, none twice, not the bottom), and how their parameters are tied."""

    cells: IntArray
    ties: Ties | None = None  # ``None``: every cell has its own parameter

    @property
    def n_params(self) -> int:
        """The number of parameters."""
        return len(self.cells) if self.ties is None else self.ties.n_params

    def of_columns(self, chosen: IntArray) -> Terms:
        """Keep some parameters; cells that none of them needs are dropped."""
        if self.ties is None:
            return Terms(self.cells[chosen])
        return _plain(_used(Terms(self.cells, self.ties.of_columns(chosen))))

    def tied(self) -> Ties:
        """Return the ties, those of the identity where there are none."""
        if self.ties is not None:
            return self.ties
        every = np.arange(len(self.cells))
        return Ties(len(self.cells), every, every, np.ones(len(every)), ("",) * len(every))

    def own_cells(self) -> IntArray:
        """Return the cell of each parameter that is a single cell's own, m x N; rows of -1 for the others."""
        if self.ties is None:
            return self.cells
        own = self.ties.own
        return np.where((own >= 0)[:, None], self.cells[own] if len(self.cells) else -1, -1)

    def titles(self) -> tuple[str, ...]:
        """Return the name of each tied parameter; empty for those that their cells name."""
        return ("",) * len(self.cells) if self.ties is None else self.ties.names

    def feature_keys(self) -> list[Key]:
        """Return a key of each parameter, equal exactly when two have the same feature."""
        ties = self.tied()
        cells = np.ascontiguousarray(self.cells, dtype=np.int64)
        out = []
        for start, end in zip(ties.starts[:-1], ties.starts[1:], strict=True):
            rows, values = ties.rows[start:end], ties.values[start:end]
            order = np.lexsort(cells[rows].T[::-1])
            out.append((cells[rows[order]].tobytes(), values[order].tobytes()))
        return out


def joined(parts: Sequence[Terms], order: int) -> Terms:
    """Put the parameters of several bases side by side; of those with the same feature the first stays."""
    if all(part.ties is None for part in parts):
        cells = [part.cells for part in parts if len(part.cells)]
        return Terms(unique_cells(np.concatenate([np.empty((0, order), dtype=np.int64), *cells])))
    kept: list[Terms] = []
    seen: set[Key] = set()
    for part in parts:
        fresh = []
        for j, key in enumerate(part.feature_keys()):
            if key not in seen:
                seen.add(key)
                fresh.append(j)
        kept.append(part.of_columns(np.array(fresh, dtype=np.int64)))
    return _plain(_stacked(kept, order))


def _stacked(parts: Sequence[Terms], order: int) -> Terms:
    """Put columns side by side over the cells that any of them needs."""
    listed = [part.cells.reshape(-1, order) for part in parts]
    cells = unique_cells(np.concatenate([np.empty((0, order), dtype=np.int64), *listed]))
    rows, columns, values, before = [], [], [], 0
    names: list[str] = []
    for part in parts:
        ties, place = part.tied(), find(part.cells.reshape(-1, order), cells)
        rows.append(place[ties.rows])
        columns.append(ties.columns + before)
        values.append(ties.values)
        names.extend(ties.names)
        before += ties.n_params
    empty = [np.empty(0, dtype=np.int64)]
    joint = Ties(
        len(cells),
        frozen(np.concatenate([*empty, *rows])),
        frozen(np.concatenate([*empty, *columns])),
        frozen(np.concatenate([np.empty(0), *values])),
        tuple(names),
    )
    return Terms(cells, joint)


def _used(terms: Terms) -> Terms:
    """Drop cells that no column needs."""
    ties = terms.tied()
    used = np.zeros(len(terms.cells), dtype=np.bool_)
    used[ties.rows] = True
    if used.all():
        return terms
    place = np.cumsum(used) - 1
    return Terms(terms.cells[used], replace(ties, n_cells=int(used.sum()), rows=place[ties.rows]))


def _plain(terms: Terms) -> Terms:
    """Leave the ties out where every parameter is one cell's own, all different, and has no other name."""
    ties = terms.tied()
    if not any(ties.names) and (ties.own >= 0).all() and len(np.unique(ties.own)) == len(terms.cells) == ties.n_params:
        return Terms(terms.cells[ties.own])
    return terms


def column_terms(cells: Sequence[IntArray], values: Sequence[FloatArray], names: Sequence[str], order: int) -> Terms:
    """Make terms of columns: for each its cells (n x N), coefficients and name; the bottom and zeros are dropped."""
    lengths = [len(own) for own in cells]
    listed = np.concatenate([np.empty((0, order), dtype=np.int64), *cells]).astype(np.int64)
    entries = np.concatenate([np.empty(0), *values]).astype(np.float64)
    columns = np.repeat(np.arange(len(lengths)), lengths)
    kept = listed.any(axis=1) & (entries != 0.0)
    listed, entries, columns = listed[kept], entries[kept], columns[kept]
    different = unique_cells(listed)
    ties = Ties(len(different), find(listed, different), columns, frozen(entries), tuple(names))
    return joined([Terms(different, ties)], order)


def box_terms(lo: IntArray, hi: IntArray, labels: Labels, own: int = 0) -> Terms:
    """Tie the parameter of each box over its corners; the first `own` boxes are those of cells, which name them."""
    shape, cells, values, names = np.array(labels.shape), [], [], []
    for i in range(len(lo)):
        corners, signs = box_corners(lo[i], hi[i], shape)
        cells.append(corners)
        values.append(signs)
        names.append("" if i < own else box_name(lo[i], hi[i], labels))
    terms = column_terms(cells, values, names, len(shape))
    ties = None if terms.ties is None else replace(terms.ties, boxes=frozen(np.hstack([lo, hi])))
    return Terms(terms.cells, ties)


def box_corners(lo: IntArray, hi: IntArray, shape: IntArray) -> tuple[IntArray, FloatArray]:
    """List the cells of the grid at the corners of a box, and their signs: those of its Möbius inversion.

    >>> [part.tolist() for part in box_corners(np.array([1, 0]), np.array([3, 2]), np.array([3, 5]))]
    [[[1, 0], [1, 2]], [1.0, -1.0]]
    """
    cells, signs = np.asarray(lo, dtype=np.int64)[None, :], np.ones(1)
    for d in np.flatnonzero(hi < shape).tolist():
        far = cells.copy()
        far[:, d] = hi[d]
        cells, signs = np.concatenate([cells, far]), np.concatenate([signs, -signs])
    return cells, signs


def box_name(lo: IntArray, hi: IntArray, labels: Labels) -> str:
    """Name a box: of each mode of which it does not take every level, the first and the last level.

    Levels that neither rise nor fall are listed instead, as those of cells are.

    >>> labels = Labels.read((4, 24), ["carrier", "hour"], {"carrier": ["AA", "B6", "DL", "UA"]})
    >>> box = np.array([0, 6]), np.array([2, 9])
    >>> box_name(*box, labels), box_name(*box, labels.arranged([np.array([3, 1, 0, 2]), None]))
    ('carrier AA to B6, hour 6 to 8', 'carrier in UA, B6, hour 6 to 8')
    """
    parts = []
    for k, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        if first > 0 or end < labels.shape[k]:
            listed = not labels.direction(k) and end - first > 1
            parts.append(f"{labels.mode(k)} {'in ' if listed else ''}{labels.together(k, first, end)}")
    return ", ".join(parts)
