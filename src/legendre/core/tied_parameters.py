"""Ties: one parameter acts on several cells, ``theta = A beta``; and the features of a model that has them.

A feature is a function f of the cells v of the grid, and its parameter beta adds ``beta f(v)`` to log q. By Möbius
inversion f is a sum of the features of cells u, ``1[v >= u]``; the coefficients are a column of A. The value of f at
the first cell of the grid, the *bottom*, is left out, because normalisation removes constants.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core.cells import find_rows, freeze, unique_cells
from legendre.core.labels import Labels
from legendre.core.types import BoolArray, FloatArray, IntArray, frozen

Column = tuple[IntArray, FloatArray, str]  # the cells of a feature (n x N), their coefficients, and its name


@frozen
class Ties:
    """The matrix A (k cells x m parameters), which is sparse: its entries that are not 0, column after column.

    >>> ties = Ties(3, np.array([0, 1, 2]), np.array([0, 0, 1]), np.array([1.0, 1.0, 2.0]), ("both", "twice"))
    >>> ties.spread(np.array([5.0, 7.0])).tolist(), ties.collect(np.array([1.0, 10.0, 100.0])).tolist()
    ([5.0, 5.0, 14.0], [11.0, 200.0])
    """

    n_cells: int  # k
    rows: IntArray  # of each entry that is not 0: its cell, as the number of the cell in the basis
    columns: IntArray  # its column, ascending
    values: FloatArray  # its value, the coefficient of the cell
    names: tuple[str, ...]  # of the columns; empty for the parameter of a single cell, which the cell names
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
    def single(self) -> IntArray:
        """For each column the one cell that it is the parameter of, with coefficient 1; -1 where it ties cells."""
        out = np.full(self.n_params, -1, dtype=np.int64)
        alone = (np.diff(self.starts) == 1)[self.columns] & (self.values == 1.0)  # entries of columns that have one
        out[self.columns[alone]] = self.rows[alone]
        return out

    @cached_property
    def integral(self) -> bool:
        """Whether all coefficients are integers: then features are too, and their rank can be found in exact sums."""
        return bool((self.values == np.rint(self.values)).all())

    @cached_property
    def size(self) -> float:
        """An upper bound on the absolute value of every feature, at least 1: the largest column sum of |A|.

        Products of features are at most its square, which says whether their sums are exact in float64.
        """
        return max(1.0, float(self.collect_sizes(np.ones(self.n_cells)).max(initial=0.0)))

    def spread(self, vector: FloatArray) -> FloatArray:
        """Compute ``A x``: from a number for each parameter (m) to one for each cell (k), as beta to theta."""
        return np.bincount(self.rows, self.values * vector[self.columns], self.n_cells).astype(np.float64, copy=False)

    def collect(self, vector: FloatArray) -> FloatArray:
        """Compute ``A' x``: from a number for each cell (k) to one for each parameter (m), as eta of each."""
        return np.bincount(self.columns, self.values * vector[self.rows], self.n_params).astype(np.float64, copy=False)

    def collect_sizes(self, vector: FloatArray) -> FloatArray:
        """Compute ``|A|' x`` (m) for x >= 0: the sums of the absolute terms of `collect`, which bound its rounding."""
        return replace(self, values=np.abs(self.values)).collect(vector)

    def matrix(self) -> Any:
        """Return A as a SciPy sparse array, k x m; it is a copy, because SciPy may sort entries in place."""
        from scipy.sparse import csc_array

        return csc_array((self.values, self.rows, self.starts), shape=(self.n_cells, self.n_params), copy=True)

    def with_columns(self, chosen: IntArray) -> Ties:
        """Keep some columns, in the order given: the same model with fewer parameters. All k cells stay.

        Models of independent parameters are made so, and their merged grid does not change.
        """
        part = self.matrix()[:, chosen]
        columns = np.repeat(np.arange(len(chosen)), np.diff(part.indptr))
        names = tuple(self.names[j] for j in chosen.tolist())
        boxes = None if self.boxes is None else self.boxes[chosen]
        rows = part.indices.astype(np.int64)
        return replace(self, rows=rows, columns=columns, values=part.data, names=names, boxes=boxes)

    @cached_property
    def shortfall(self) -> FloatArray:
        """The probability of each parameter's box minus eta (m): 1 if the box contains the first cell, else 0.

        A feature is 0 at the first cell. That of a box which contains it is therefore 0 inside and -1 outside, and its
        eta is the probability of the box minus 1. Tables of parameters add this, to show probabilities.
        """
        if self.boxes is None:
            return np.zeros(self.n_params)
        return np.asarray((self.boxes[:, : self.boxes.shape[1] // 2] == 0).all(axis=1), dtype=np.float64)

    def mark_touching(self, cells: BoolArray) -> BoolArray:
        """Mark the columns (m) that have an entry at one of the marked cells (k), for effects that leave cells out."""
        return np.bincount(self.columns, cells[self.rows], self.n_params) > 0


@frozen
class Terms:
    """What a basis lists on a tensor: cells (k x N, none twice, not the bottom), and how their parameters are tied."""

    cells: IntArray
    ties: Ties | None = None  # ``None``: every cell has its own parameter

    @property
    def n_params(self) -> int:
        """The number of parameters."""
        return len(self.cells) if self.ties is None else self.ties.n_params

    def with_columns(self, chosen: IntArray) -> Terms:
        """Keep some parameters, in the order given; cells that none of them needs are dropped."""
        if self.ties is None:
            return Terms(self.cells[chosen])
        kept = Terms(self.cells, self.ties.with_columns(chosen))
        return column_terms(kept.columns(), self.cells.shape[1], kept.as_ties().boxes)

    def as_ties(self) -> Ties:
        """Return the ties; without any, those with A = 1, so that callers need not distinguish the two cases."""
        if self.ties is not None:
            return self.ties
        every = np.arange(len(self.cells))
        return Ties(len(self.cells), every, every, np.ones(len(every)), ("",) * len(every))

    def single_cells(self) -> IntArray:
        """Return the cell of each parameter that is a single cell's, m x N; rows of -1 for the others."""
        none = np.full((1, self.cells.shape[1]), -1)  # `single` is -1 for the others: the index of this last row
        return np.vstack([self.cells, none])[self.as_ties().single]

    def titles(self) -> tuple[str, ...]:
        """Return the name of each parameter for tables, empty for those that their cells name."""
        return self.as_ties().names

    def name_all(self, labels: Labels, rows: IntArray) -> tuple[str, ...]:
        """Write for some parameters on which cells each acts: its title if it has one, else "hour >= 8, dest >= SFO".

        `rows` are the numbers of the parameters. A mode in which the coordinate of a parameter's cell is 0 is not
        named, because the parameter acts on all of its levels. The table of parameters, that of inference and the
        report show these names.
        """
        titles, names = self.titles(), []
        for row, cell in zip(rows.tolist(), self.single_cells()[rows], strict=True):
            parts = (labels.from_on(int(k), int(cell[k])) for k in np.flatnonzero(cell))
            names.append(titles[row] or ", ".join(parts))
        return tuple(names)

    def columns(self) -> list[Column]:
        """List the features: the cells, the coefficients and the name of each."""
        ties = self.as_ties()
        ends = zip(ties.starts[:-1], ties.starts[1:], ties.names, strict=True)
        return [(self.cells[ties.rows[a:b]], ties.values[a:b], name) for a, b, name in ends]

    def places_in(self, other: Terms) -> IntArray:
        """Find the column of each parameter's feature in another basis on the same grid; -1 where it is not there.

        If all are there, the models are nested.
        """
        if self.ties is None and other.ties is None:
            return find_rows(self.cells, other.cells)
        known = {_make_key(*column): j for j, column in enumerate(other.columns())}
        return np.array([known.get(_make_key(*column), -1) for column in self.columns()], dtype=np.int64)


def _make_key(cells: IntArray, values: FloatArray, _: str) -> tuple[bytes, bytes]:
    """Return a key that is the same for equal features, in whatever order their cells are listed."""
    order = np.lexsort(cells.T[::-1])
    return cells[order].astype(np.int64).tobytes(), values[order].tobytes()


def column_terms(columns: Iterable[Column], order: int, boxes: IntArray | None = None) -> Terms:
    """Make the terms of a basis from a list of features (columns of A) on a grid of `order` modes.

    Unions of bases and smaller bases are made so. The bottom and coefficients 0 are dropped, and of equal
    features all but the first. If each feature is that of a single cell, and none has a name, the terms have no ties.
    `boxes` (m x 2 N) are given where each feature is that of a box; they must be different, so that no feature is
    dropped.
    """
    kept: dict[tuple[bytes, bytes], Column] = {}
    for cells, values, name in columns:
        used = cells.any(axis=1) & (values != 0.0)
        column = (cells[used].reshape(-1, order), values[used], name)
        kept.setdefault(_make_key(*column), column)
    # the entries of all columns, one after the other: their cells, values and columns
    listed = np.concatenate([np.empty((0, order), dtype=np.int64), *(cells for cells, _, _ in kept.values())])
    entries = np.concatenate([np.empty(0), *(values for _, values, _ in kept.values())])
    column_of = np.repeat(np.arange(len(kept)), [len(cells) for cells, _, _ in kept.values()])
    different, names = unique_cells(listed), tuple(name for _, _, name in kept.values())
    ties = Ties(len(different), find_rows(listed, different), column_of, freeze(entries), names, boxes)
    untied = not any(names) and (ties.single >= 0).all()  # each parameter is a single cell's
    return Terms(different[ties.single]) if untied else Terms(different, ties)


def box_terms(lo: IntArray, hi: IntArray, labels: Labels, n_cells: int = 0) -> Terms:
    """Give each box [lo, hi) (m x N each) a parameter, which is tied over the corners of the box.

    The first `n_cells` boxes are those of cells u, [u, shape): a growing basis started with them. They get no names,
    because their cells name them.
    """
    shape = np.array(labels.shape)
    columns = [
        (*box_corners(a, b, shape), "" if i < n_cells else box_name(a, b, labels))
        for i, (a, b) in enumerate(zip(lo, hi, strict=True))
    ]
    return column_terms(columns, len(shape), freeze(np.hstack([lo, hi])))


def box_corners(lo: IntArray, hi: IntArray, shape: IntArray) -> tuple[IntArray, FloatArray]:
    """List the corners of a box [lo, hi) that are cells of the grid (n x N), and the sign of each (n).

    The indicator of the box is the sum of the features of these cells with these signs, by inclusion and exclusion:
    along each mode, ``1[lo <= v < hi] = 1[v >= lo] - 1[v >= hi]``. The second term is 0 where hi is the length.

    >>> [part.tolist() for part in box_corners(np.array([1, 0]), np.array([3, 2]), np.array([3, 5]))]
    [[[1, 0], [1, 2]], [1.0, -1.0]]
    """
    cells, signs = np.asarray(lo, dtype=np.int64)[None, :], np.ones(1)
    for mode in np.flatnonzero(hi < shape).tolist():
        far = cells.copy()  # the corners so far, at the other end in this mode
        far[:, mode] = hi[mode]
        cells, signs = np.concatenate([cells, far]), np.concatenate([signs, -signs])
    return cells, signs


def box_name(lo: IntArray, hi: IntArray, labels: Labels) -> str:
    """Name a box [lo, hi) by the first and the last level in each mode that it restricts.

    Levels that neither rise nor fall are listed instead (see `Labels.name_levels`).

    >>> labels = Labels.read((4, 24), ["carrier", "hour"], {"carrier": ["AA", "B6", "DL", "UA"]})
    >>> box = np.array([0, 6]), np.array([2, 9])
    >>> box_name(*box, labels), box_name(*box, labels.reorder([np.array([3, 1, 0, 2]), None]))
    ('carrier AA to B6, hour 6 to 8', 'carrier in UA, B6, hour 6 to 8')
    """
    parts = []
    for k, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        if first > 0 or end < labels.shape[k]:
            listed = not labels.directions[k] and end - first > 1
            parts.append(f"{labels.mode(k)} {'in ' if listed else ''}{labels.name_levels(k, first, end)}")
    return ", ".join(parts)
