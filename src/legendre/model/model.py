"""The model S_B on its quotient grid: everything about Omega and B that does not depend on the data.

Every member of the model is constant (up to the base measure) on the boxes cut by the coordinates that B uses. Cells of
one box are merged into one cell of weight ``w = sum of r over Omega ∩ box``; the problem on the merged grid is
exactly the same problem, and often far smaller.

A model has one of three forms, decided when it is made; all sums over cells go through it. `Model` itself: an array
with an entry for every merged cell, formed or swept slab by slab. `CellList`: the merged cells that hold some of Omega,
in a grid too large to form. `Cliques`: tables over the modes that B couples, on a full grid of any size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_keys, find, freeze
from legendre.core.errors import InvalidBasis
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import sums_above, sums_below
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import accumulate, zeta_adjoint
from legendre.core.tied_parameters import Terms, Ties
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.observation import Support
from legendre.model.cliques.graph import cliques_of
from legendre.model.cliques.tables import Tables, is_saturated, on_grid, parts_of


@dataclass(frozen=True, eq=False)
class Model:
    """The set of fully decomposable tensors with basis B on Omega (eq. 1), as an engine needs it."""

    _stored: ClassVar[tuple[str, ...]] = ("support", "base", "basis", "ties")  # the arguments of `of`, in files
    support: Support  # the sample space Omega
    base: FloatArray | None  # the base measure r, or ``None`` for r = 1
    basis: IntArray  # the cells of B, k x N
    quotient: Quotient  # the boxes that B cuts
    positions: IntArray  # the cells of B in merged coordinates, k x N
    # The measure of each box; 0 where a box holds no cell of Omega (or of the face, see `on_face`). ``None`` on a full
    # grid without a base measure, where it is a product over modes that need not be multiplied out.
    measure: FloatArray | None = None
    ties: Ties | None = None  # how the parameters of the cells are tied, ``theta = A beta``; ``None``: not at all

    @staticmethod
    def of(support: Support, base: FloatArray | None, basis: IntArray, ties: Ties | None = None) -> Model:
        """Merge the sample space along the basis; decide in which form the merged cells are summed over."""
        quotient, positions = Quotient.of(support.shape, basis)
        grid = Model(support, base, freeze(basis), quotient, positions, ties=ties)
        if support.points is not None:
            return _of_points(grid, support.points)
        if support.mask is None and base is None:
            return grid if quotient.small else _choose_full(grid)
        return replace(grid, measure=freeze(support.merge(quotient, base)))

    @cached_property
    def n_params(self) -> int:
        """The number of parameters: |B|, unless some are tied."""
        return len(self.positions) if self.ties is None else self.ties.n_params

    @property
    def terms(self) -> Terms:
        """The cells and their ties."""
        return Terms(self.basis, self.ties)

    @property
    def untied(self) -> Model:
        """The model in which every cell has its own parameter, on the same merged cells."""
        return self if self.ties is None else replace(self, ties=None)

    def on_cells(self, vector: FloatArray) -> FloatArray:
        """Turn a vector of parameters into one on the cells of B, ``A x``."""
        return vector if self.ties is None else self.ties.spread(vector)

    def on_params(self, vector: FloatArray) -> FloatArray:
        """Turn a vector on the cells of B into one of parameters, ``A' x``."""
        return vector if self.ties is None else self.ties.collect(vector)

    @cached_property
    def n_cells(self) -> int:
        """The number of merged cells."""
        return self.quotient.n_merged

    @property
    def n_summed(self) -> int:
        """How many cells are summed over, for the rounding error of the sums."""
        return self.n_cells

    @property
    def whole(self) -> bool:
        """Whether all cells of the grid are in the support, with a base measure of 1."""
        return self.measure is None

    @cached_property
    def plain(self) -> bool:
        """Whether the parameters are surely independent: those of cells are on a full grid without a base measure."""
        return self.whole and self.ties is None

    @property
    def formable(self) -> bool:
        """Whether an array with an entry for every merged cell can be formed."""
        return self.n_cells <= limits.MOST_FORMED and len(self.quotient.shape) <= limits.MOST_AXES

    @property
    def additions(self) -> int:
        """How many additions one sweep takes."""
        return self.n_cells * len(self.quotient.shape)

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each box, formed where it is a product over modes."""
        return freeze(volumes(self.quotient)) if self.measure is None else self.measure

    @cached_property
    def alive(self) -> BoolArray:
        """True for merged cells that can carry probability."""
        return self.weights > 0

    @property
    def n_alive(self) -> int:
        """The number of merged cells that can carry probability."""
        return self.n_cells if self.whole else int(np.count_nonzero(self.alive))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark those of some merged cells (n x N) that can carry probability, or belong to a face."""
        return np.asarray((self.alive if alive is None else alive)[tuple(boxes.T)])

    @cached_property
    def places(self) -> IntArray:
        """The place of each cell of B in the flattened merged grid, of a grid that can be formed."""
        return np.asarray(np.ravel_multi_index(tuple(self.positions.T), self.quotient.merged_shape))

    def below(self, vector: FloatArray) -> FloatArray:
        """Sum a vector of parameters at or below each merged cell."""
        vector = self.on_cells(vector)
        if not self.quotient.small:
            check_room(self.n_cells, 3 * 8, "a merged grid", "Ask about some cells only.")
        grid = np.zeros(self.quotient.merged_shape)
        grid.ravel()[self.places] = vector
        if vector.any():  # most fits begin at theta = 0, where all sums are 0
            accumulate(grid)
        return grid

    def above(self, masses: FloatArray) -> FloatArray:
        """Sum what merged cells hold at or above each cell of B, and add up what is tied."""
        return self.on_params(zeta_adjoint(masses).ravel()[self.places])

    def below_at(self, vector: FloatArray, boxes: IntArray) -> FloatArray:
        """Sum a vector of parameters at or below each of some merged cells (n x N)."""
        if self.n_cells <= limits.LARGEST_GRID and len(self.quotient.shape) <= limits.MOST_AXES:
            return np.asarray(self.below(vector)[tuple(boxes.T)])
        return sums_below(self.quotient.merged_shape, boxes, self.positions, self.on_cells(vector))

    def on_grid(self, marks: BoolArray) -> BoolArray:
        """Return marks of cells, such as a face, as an array over the merged cells: here they already are."""
        return marks

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that vanish in the limit; ``None`` means that none does."""
        return self if alive is None else self.on_measure(np.where(alive, self.weights, 0.0))

    def on_measure(self, weights: FloatArray) -> Model:
        """Take other weights on the merged cells; cells of weight 0 are left out."""
        return replace(self._as_grid(), measure=freeze(weights))

    def on_full_grid(self) -> Model:
        """Take every merged cell, not only those of a list; the weights are those of the full grid."""
        return self

    def with_columns(self, columns: IntArray) -> Self:
        """Keep only some parameters; the merged cells stay as they are, cut by the full basis."""
        if self.ties is not None:
            return replace(self, ties=self.ties.of_columns(columns))
        return replace(self, basis=freeze(self.basis[columns]), positions=self.positions[columns])

    def _as_grid(self) -> Model:
        return Model(self.support, self.base, self.basis, self.quotient, self.positions, self.measure, self.ties)

    @cached_property
    def one_body(self) -> bool:
        """True when every cell of B lies on an axis of a full grid without a base measure; all cuts used, none tied."""
        shape, k = self.quotient.merged_shape, len(self.basis)
        if self.ties is not None or not self.whole or not k or sum(shape) - len(shape) != k:
            return False
        return bool((np.count_nonzero(self.positions, axis=1) == 1).all())

    @cached_property
    def patterns(self) -> dict[tuple[int, ...], int]:
        """For each set of modes in which a cell's coordinates are not 0, the number of such cells of B."""
        used = self.positions > 0
        _, first, counts = np.unique(cell_keys(used.astype(np.int64)), return_index=True, return_counts=True)
        return {tuple(np.flatnonzero(used[i]).tolist()): n for i, n in zip(first, counts.tolist(), strict=True)}

    @property
    def every_cell(self) -> bool:
        """True when B has every merged cell but the bottom one, none tied: its margins are known without counting."""
        return self.ties is None and 0 < len(self.basis) == self.quotient.n_merged - 1


@dataclass(frozen=True, eq=False)
class CellList(Model):
    """The merged cells that hold some of Omega; what belongs to merged cells is a vector over these."""

    cells: IntArray = field(kw_only=True)  # the merged cells, m x N

    @cached_property
    def n_cells(self) -> int:
        """The number of merged cells in the list."""
        return len(self.cells)

    @property
    def formable(self) -> bool:
        """Whether an array with an entry for every merged cell can be formed: of those in the list, yes."""
        return True

    def below(self, vector: FloatArray) -> FloatArray:
        """Sum a vector of parameters at or below each merged cell of the list."""
        return self.below_at(vector, self.cells)

    def above(self, masses: FloatArray) -> FloatArray:
        """Sum what the merged cells of the list hold at or above each cell of B, and add up what is tied."""
        return self.on_params(sums_above(self.quotient.merged_shape, self.cells, self.positions, masses))

    def below_at(self, vector: FloatArray, boxes: IntArray) -> FloatArray:
        """Sum a vector of parameters at or below each of some merged cells (n x N), in the list or not."""
        return sums_below(self.quotient.merged_shape, boxes, self.positions, self.on_cells(vector))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark those of some merged cells (n x N) that are in the list and can carry probability."""
        place = find(boxes, self.cells)
        return (place >= 0) & (self.alive if alive is None else alive)[place]

    def on_full_grid(self) -> Model:  # noqa: D102 - as above
        return replace(self._as_grid(), measure=None)

    def on_measure(self, weights: FloatArray) -> Self:  # noqa: D102 - as above
        return replace(self, measure=freeze(weights))


@dataclass(frozen=True, eq=False)
class Cliques(Model):
    """A full grid that is summed over in tables over the cliques of the modes that B couples, laid out once.

    Marks of it, such as a face, are those of all merged cells, or of the cells of the tables: a merged cell is marked
    if all of its tables' cells are. The tables know the face that they are on, so no measure is formed.
    """

    tables: Tables = field(kw_only=True)

    @property
    def whole(self) -> bool:
        """Whether every cell of the grid counts: not on a face."""
        return self.tables.alive is None

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each box, 0 off the face."""
        every = freeze(volumes(self.quotient))
        return every if self.whole else freeze(every * on_grid(parts_of(self.tables), self.quotient.merged_shape))

    def on_grid(self, marks: BoolArray) -> BoolArray:
        """Return marks, also those of the tables' cells, as an array over the merged cells."""
        if not self._on_tables(marks):
            return marks
        check_room(self.n_cells, 1, "marks of a merged grid", "Ask about some cells only.")
        return on_grid(parts_of(replace(self.tables, alive=marks)), self.quotient.merged_shape)

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that are not marked; in tables where the marks are those of tables."""
        if alive is not None and self._on_tables(alive):
            return replace(self, tables=replace(self.tables, alive=alive))
        return super().on_face(alive)

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark those of some merged cells (n x N) that can carry probability: in every table."""
        if alive is None or not self._on_tables(alive):
            return super().carries(boxes, alive)
        out = np.ones(len(boxes), dtype=np.bool_)
        for c, marks in enumerate(self.tables.matrices(alive)):
            out &= marks.take(self.tables.flat(c, boxes.T))
        return out

    def _on_tables(self, marks: BoolArray) -> bool:
        return marks.shape == (self.tables.size,)

    def with_columns(self, columns: IntArray) -> Self:
        """Keep some parameters only; the tables stay as they are."""
        part = super().with_columns(columns)
        return part if self.ties is not None else replace(part, tables=replace(self.tables, basis=part.positions))

    @property
    def n_summed(self) -> int:
        """How many cells the tables have."""
        return self.tables.size

    @property
    def additions(self) -> int:
        """How many additions the messages to the roots and back take."""
        return 2 * sum(clique.n_cells * len(clique.modes) for clique in self.tables.tree.cliques)


def _choose_full(grid: Model) -> Model:
    """Choose between a grid and cliques: by size, and by the time that sweeps and messages take.

    The tables must have far fewer cells than the grid, since each costs more; for the Fisher matrix a parameter is
    carried through 16 cells in the time of one cell of a message.
    """
    quotient, positions, n = grid.quotient, grid.positions, grid.quotient.n_merged
    only = not grid.formable
    tree = cliques_of(positions, quotient.merged_shape)
    if not tree.fits:
        if only:
            raise InvalidBasis(tree.trouble())
        return grid
    tables = Tables(quotient, positions, tree)
    closed = is_saturated(tables)  # takes no G, which on a grid takes no more than eta
    beyond = closed and n > limits.LARGEST_GRID  # only tables show what vanishes
    carried = 0 if beyond else tree.largest.n_cells * len(positions) // 16
    alone = closed and len(tree.cliques) == 1  # one table of all cells: Q is P
    if not (only or alone or limits.CLIQUES_GAIN * (tree.n_cells + carried) <= n):
        return grid
    return Cliques(grid.support, None, grid.basis, quotient, positions, ties=grid.ties, tables=tables)


def _of_points(grid: Model, points: IntArray) -> Model:
    """Merge a support that is a list of cells (n x N): count the cells of each box.

    The counts are on the merged grid where that is small; otherwise the model is a list of the boxes that hold any.
    """
    quotient, n = grid.quotient, grid.quotient.n_merged
    formed = n <= limits.ALWAYS_A_GRID or n <= min(limits.CELLS_PER_POINT * len(points), limits.LARGEST_GRID)
    if formed and len(quotient.shape) <= limits.MOST_AXES:
        counts = np.bincount(quotient.flat_boxes(points), minlength=n).astype(np.float64)
        return replace(grid, measure=freeze(counts.reshape(quotient.merged_shape)))
    boxes = quotient.boxes(points)
    _, first, number = np.unique(cell_keys(boxes), return_index=True, return_counts=True)
    cells, measure = np.asfortranarray(boxes[first]), freeze(number.astype(np.float64))
    return CellList(grid.support, grid.base, grid.basis, quotient, grid.positions, measure, grid.ties, cells=cells)


Modes = tuple[int, ...]


def fitted_margins(model: Model) -> list[Modes]:
    """List the largest sets of modes S such that B holds every merged cell with non-zero coordinates in S only.

    Of tied parameters none are listed: their cells do not move by themselves.
    """
    if model.ties is not None:
        return []
    if model.every_cell:
        return [tuple(k for k, n in enumerate(model.quotient.merged_shape) if n > 1)]
    closed = _collect_closed(model)
    # what lies in a closed set is closed: one that is not largest lacks a single mode of another
    return sorted(closed - {part for s in closed for part in combinations(s, len(s) - 1)})


def generating_margins(model: Model) -> list[Modes] | None:
    """List the margins that B fits if B is nothing but those margins, else ``None``.

    A list of cells has no axes along which margins could be summed: ``None`` there too.
    """
    if isinstance(model, CellList) or model.ties is not None:
        return None
    shape, used = model.quotient.merged_shape, np.count_nonzero(model.positions, axis=1)
    if model.whole and np.count_nonzero(used == 1) < sum(shape) - len(shape):  # margins have all cells of their axes
        return None
    only = model.every_cell or _collect_closed(model) == set(model.patterns)
    return fitted_margins(model) or None if only else None


def _collect_closed(model: Model) -> set[Modes]:
    """Collect the sets of modes whose cells, and those of all their subsets, are all in B."""
    shape = model.quotient.merged_shape
    complete = {modes for modes, count in model.patterns.items() if count == math.prod(shape[k] - 1 for k in modes)}
    closed: set[Modes] = set()
    for s in sorted(complete, key=len):  # parts of one mode less are closed: so are theirs
        if all(part in closed for part in combinations(s, len(s) - 1) if part):
            closed.add(s)
    return closed


def in_running_order(modes: list[Modes]) -> list[Modes]:
    """Order sets of modes so that each meets those before it in one of them, where that is possible.

    >>> in_running_order([(0, 1), (2, 3), (1, 2)])
    [(0, 1), (1, 2), (2, 3)]
    """
    left, ordered, seen = list(modes), list[Modes](), set[int]()
    while left:
        best = max(left, key=lambda group: len(seen.intersection(group)))
        left.remove(best)
        ordered.append(best)
        seen.update(best)
    return ordered


def is_decomposable(margins: list[Modes]) -> bool:
    """Whether in a running order each set meets all before it in what it shares with one: one scaling cycle is exact.

    >>> is_decomposable([(0, 1), (1, 2)]), is_decomposable([(0, 1), (1, 2), (0, 2)])
    (True, False)
    """
    if len(margins) > len({k for group in margins for k in group}):  # a tree has at most one clique for each mode
        return False
    before: list[set[int]] = []
    for group in map(set, in_running_order(margins)):
        shared = group & set().union(*before)
        if before and not any(shared <= other for other in before):
            return False
        before.append(group)
    return True
