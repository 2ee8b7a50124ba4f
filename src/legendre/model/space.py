"""The space: the one form in which sums over the merged cells are taken, decided when a model is made.

``grid``: an array with an entry for every merged cell, formed or swept slab by slab. ``list``: the merged cells that
hold some of Omega, in a grid too large to form. ``cliques``: tables over the modes that B couples, on a full grid of
any size. All sums over cells go through the space.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_keys, find, frozen
from legendre.core.errors import InvalidBasis
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import sums_above, sums_below
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import zeta, zeta_adjoint
from legendre.core.tied_parameters import Ties
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.support import Support
from legendre.model.cliques.graph import cliques_of
from legendre.model.cliques.tables import Tables, on_grid, parts_of, saturated


@dataclass(frozen=True, eq=False)
class _Boxes:
    """What grids and cliques share: an array with an entry for every merged cell, where one is formed."""

    quotient: Quotient  # the boxes that B cuts
    positions: IntArray  # the cells of B in merged coordinates, k x N
    # The measure of each box; 0 where a box holds no cell of Omega (or of the face, see `Model.on_face`). ``None`` on a
    # full grid without a base measure, where it is a product over modes that need not be multiplied out.
    measure: FloatArray | None = None
    ties: Ties | None = field(default=None, kw_only=True)  # how the cells' parameters are tied; ``None``: not at all

    @property
    def n_params(self) -> int:
        """The number of parameters: |B|, unless some are tied."""
        return len(self.positions) if self.ties is None else self.ties.n_params

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
        """Whether every cell of a full grid counts, and each alike."""
        return self.measure is None

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
        """The measure of each box."""
        return frozen(volumes(self.quotient)) if self.measure is None else self.measure

    def below(self, vector: FloatArray) -> FloatArray:
        """Sum a vector of parameters at or below each merged cell."""
        vector = self.on_cells(vector)
        if not self.quotient.small:
            check_room(self.n_cells, 3 * 8, "a merged grid", "Ask about some cells only.")
        if self.n_cells > limits.LARGEST_GRID and (np.count_nonzero(self.positions, axis=1) == 1).all():
            return self._below_on_axes(vector)
        grid = np.zeros(self.quotient.merged_shape)
        grid[tuple(self.positions.T)] = vector
        return zeta(grid)

    def _below_on_axes(self, vector: FloatArray) -> FloatArray:
        """Do the same where every cell of B lies on an axis, as a sum over modes: two passes in place of one a mode."""
        out, size = np.zeros(self.n_cells), 1  # the last mode first, so that whole rows are added; level 0 is there
        for n, column in zip(self.quotient.merged_shape[::-1], self.positions.T[::-1], strict=True):
            part, rows = np.zeros(n), out[: size * n].reshape(n, size)
            part[column[column > 0]] = vector[column > 0]
            np.add(np.cumsum(part)[1:, None], rows[0], out=rows[1:])
            size *= n
        return out.reshape(self.quotient.merged_shape)

    def above(self, masses: FloatArray) -> FloatArray:
        """Sum what merged cells hold at or above each cell of B, and add up what is tied."""
        return self.on_params(np.asarray(zeta_adjoint(masses)[tuple(self.positions.T)]))

    def below_at(self, vector: FloatArray, boxes: IntArray) -> FloatArray:
        """Sum a vector of parameters at or below each of some merged cells (n x N)."""
        if self.n_cells <= limits.LARGEST_GRID and len(self.quotient.shape) <= limits.MOST_AXES:
            return np.asarray(self.below(vector)[tuple(boxes.T)])
        return sums_below(self.quotient.merged_shape, boxes, self.positions, self.on_cells(vector))

    def marked(self, marks: BoolArray, boxes: IntArray) -> BoolArray:
        """Look up marks of the merged cells at some of them (n x N)."""
        return np.asarray(marks[tuple(boxes.T)])

    def on_grid(self, marks: BoolArray) -> BoolArray:
        """Give marks of the space, such as a face, an entry for every merged cell that it sums over."""
        return marks

    def on_face(self, alive: BoolArray) -> Space:
        """Leave out the merged cells that are not marked."""
        return self.weighed(np.where(alive, self.weights, 0.0))

    def weighed(self, weights: FloatArray) -> Grid | CellList:
        """Take other weights; what they are 0 on is left out."""
        return Grid(self.quotient, self.positions, frozen(weights), ties=self.ties)

    def with_columns(self, columns: IntArray) -> Space:
        """Keep some parameters only; the merged cells stay as they are."""
        if self.ties is not None:
            return Grid(self.quotient, self.positions, self.measure, ties=self.ties.of_columns(columns))
        return Grid(self.quotient, self.positions[columns], self.measure)


@dataclass(frozen=True, eq=False)
class Grid(_Boxes):
    """A grid of the merged cells, formed or swept slab by slab."""

    form: ClassVar[Literal["grid"]] = "grid"


@dataclass(frozen=True, eq=False)
class CellList(_Boxes):
    """The merged cells that hold some of Omega; what belongs to merged cells is a vector over these."""

    form: ClassVar[Literal["list"]] = "list"
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

    def marked(self, marks: BoolArray, boxes: IntArray) -> BoolArray:
        """Look up marks of the list at some merged cells (n x N); False for those that are not in the list."""
        place = find(boxes, self.cells)
        return (place >= 0) & marks[place]

    def weighed(self, weights: FloatArray) -> CellList:
        """Take other weights; what they are 0 on is left out."""
        return replace(self, measure=frozen(weights))

    def with_columns(self, columns: IntArray) -> CellList:
        """Keep some parameters only; the list stays as it is."""
        if self.ties is not None:
            return replace(self, ties=self.ties.of_columns(columns))
        return replace(self, positions=self.positions[columns])


@dataclass(frozen=True, eq=False)
class Cliques(_Boxes):
    """A full grid that is summed over in tables over the cliques of the modes that B couples, laid out once.

    Marks of it, such as a face, are those of all merged cells, or of the cells of the tables: a merged cell is marked
    if all of its tables' cells are. The tables know the face that they are on, so that no measure is formed.
    """

    form: ClassVar[Literal["cliques"]] = "cliques"
    tables: Tables = field(kw_only=True)

    @property
    def whole(self) -> bool:
        """Whether every cell of the grid counts: not on a face."""
        return self.tables.alive is None

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each box, 0 off the face."""
        every = frozen(volumes(self.quotient))
        return every if self.whole else frozen(every * on_grid(parts_of(self.tables), self.quotient.merged_shape))

    def on_tables(self, marks: BoolArray) -> bool:
        """Whether marks are those of the cells of the tables."""
        return marks.shape == (self.tables.size,)

    def on_grid(self, marks: BoolArray) -> BoolArray:
        """Give marks an entry for every merged cell."""
        if not self.on_tables(marks):
            return marks
        check_room(self.n_cells, 1, "marks of a merged grid", "Ask about some cells only.")
        return on_grid(parts_of(replace(self.tables, alive=marks)), self.quotient.merged_shape)

    def on_face(self, alive: BoolArray) -> Space:
        """Leave out the merged cells that are not marked; in tables where the marks are those of tables."""
        if self.on_tables(alive):
            return replace(self, tables=replace(self.tables, alive=alive))
        return super().on_face(alive)

    def marked(self, marks: BoolArray, boxes: IntArray) -> BoolArray:
        """Look up marks at some merged cells (n x N)."""
        if not self.on_tables(marks):
            return super().marked(marks, boxes)
        out = np.ones(len(boxes), dtype=np.bool_)
        for c, (where, _) in enumerate(self.tables.matrices):
            out &= marks[where][self.tables.flat(c, boxes.T)]
        return out

    def with_columns(self, columns: IntArray) -> Space:
        """Keep some parameters only; the tables stay as they are."""
        if self.ties is not None:
            return replace(self, ties=self.ties.of_columns(columns))
        positions = self.positions[columns]
        return replace(self, positions=positions, tables=replace(self.tables, basis=positions))

    @property
    def n_summed(self) -> int:
        """How many cells the tables have."""
        return self.tables.size

    @property
    def additions(self) -> int:
        """How many additions the messages to the roots and back take."""
        return 2 * sum(clique.n_cells * len(clique.modes) for clique in self.tables.tree.cliques)


Space = Grid | CellList | Cliques


def space_for(support: Support, base: FloatArray | None, quotient: Quotient, positions: IntArray) -> Space:
    """Decide in which form the merged cells are summed over; refuse what no form can sum."""
    if support.points is not None:
        return _of_points(quotient, positions, support.points)
    measure: AnyArray | None = support.mask if base is None else base
    if measure is None:
        return _full(quotient, positions)
    if base is not None and support.mask is not None:
        measure = np.where(support.mask, base, 0.0)
    return Grid(quotient, positions, frozen(quotient.merge(measure)))


def _full(quotient: Quotient, positions: IntArray) -> Space:
    """Choose between a grid and cliques: by size, and by the time that sweeps and messages take."""
    n, grid = quotient.n_merged, Grid(quotient, positions)
    if quotient.small:
        return grid
    only = n > limits.MOST_SWEPT or len(quotient.shape) > limits.MOST_AXES
    tree = cliques_of(positions, quotient.merged_shape)
    if not tree.fits and only:
        raise InvalidBasis(tree.trouble())
    tables = Tables(quotient, positions, tree)
    closed = tree.fits and saturated(tables)  # takes no G, which on a grid takes no more than eta
    beyond = closed and n > limits.LARGEST_GRID  # only tables show what vanishes
    carried = 0 if beyond else tree.largest.n_cells * len(positions) // limits.CLIQUES_CARRY
    alone = closed and len(tree.cliques) == 1  # one table of all cells: Q is P
    pays = only or alone or limits.CLIQUES_GAIN * (tree.n_cells + carried) <= n
    return Cliques(quotient, positions, tables=tables) if tree.fits and pays else grid


def _of_points(quotient: Quotient, positions: IntArray, points: IntArray) -> Space:
    """Count the points of each box: on the merged grid, or for a list of the boxes that hold any."""
    n = quotient.n_merged
    formed = n <= limits.ALWAYS_A_GRID or n <= min(limits.CELLS_PER_POINT * len(points), limits.LARGEST_GRID)
    if formed and len(quotient.shape) <= limits.MOST_AXES:
        counts = np.bincount(quotient.flat_boxes(points), minlength=n).astype(np.float64)
        return Grid(quotient, positions, frozen(counts.reshape(quotient.merged_shape)))
    boxes = quotient.boxes(points)
    _, first, number = np.unique(cell_keys(boxes), return_index=True, return_counts=True)
    measure = frozen(number.astype(np.float64))
    return CellList(quotient, positions, measure, cells=np.asfortranarray(boxes[first]))
