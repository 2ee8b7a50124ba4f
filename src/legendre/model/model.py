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
from dataclasses import field, replace
from functools import cached_property
from itertools import combinations
from typing import ClassVar, Self

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_keys, find_rows, freeze
from legendre.core.errors import InvalidBasis
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import sums_above, sums_below
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import accumulate, zeta_adjoint
from legendre.core.tied_parameters import Terms, Ties
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.data.dask import BlockSupport, longest_mode
from legendre.data.observation import Support
from legendre.model.cliques.graph import cliques_of
from legendre.model.cliques.tables import Tables, on_grid


@frozen
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
        """Merge the sample space along the basis, and choose the form of the model: a grid, a list, or cliques.

        `base` is the base measure r on the full grid, ``None`` for r = 1.
        """
        quotient, positions = Quotient.of(support.shape, basis)
        grid = Model(support, base, freeze(basis), quotient, positions, ties=ties)
        if support.points is not None:
            return _merge_points(grid, support.points)
        if support.mask is None and base is None:
            return grid if grid.n_cells <= limits.CLIQUES_FROM and grid.formable else _choose_form(grid)
        if base is None and isinstance(support, BlockSupport) and support.bits and grid.n_cells > limits.LARGEST_MASS:
            return Packed(support, None, grid.basis, quotient, positions, ties=ties)
        return replace(grid, measure=freeze(support.merge(quotient, base)))

    @cached_property
    def largest_base(self) -> float:
        """The largest base measure of a cell of Omega."""
        return 1.0 if self.base is None else float(np.asarray(self.base)[self.support.on_grid()].max())

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
        """How many cells are summed over: the rounding error of the sums grows with it."""
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

    @cached_property
    def tabled(self) -> bool:
        """Whether the grid is swept as `TablesEngine` does: each cell of B is above 0 in the longest mode and two more.

        `apply` of that engine forms a table for each pattern; the tables must be small. Without gaps, B and the grid
        must be large, because other engines are as good otherwise.
        """
        shape, mode = self.quotient.merged_shape, longest_mode(self.quotient.shape)
        large = len(self.basis) > limits.LARGEST_MATRIX and self.n_cells > limits.LARGEST_GRID
        size = sum(math.prod(shape[k] for k in modes) for modes in self.patterns)
        return (
            (isinstance(self, Packed) or (large and self.measure is None))
            and max((len({*modes} - {mode}) for modes in self.patterns), default=3) < 3
            and size <= min(limits.LARGEST_CLIQUES, self.n_cells)
        )

    @property
    def additions(self) -> int:
        """How many additions one sweep (prefix sums over every mode) takes."""
        return self.n_cells * len(self.quotient.shape)

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each merged cell as an array, also if `measure` is ``None`` and it is a product over modes."""
        return self.quotient.volumes if self.measure is None else self.measure

    @cached_property
    def alive(self) -> BoolArray:
        """True for merged cells that can carry probability."""
        return np.ones(self.quotient.merged_shape, dtype=bool) if self.whole else self.weights > 0

    @property
    def n_alive(self) -> int:
        """The number of merged cells that can carry probability."""
        return self.n_cells if self.whole else int(np.count_nonzero(self.alive))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark which of n merged cells (n x N) can carry probability; with `alive`, which of them are marked there."""
        return np.asarray((self.alive if alive is None else alive)[tuple(boxes.T)])

    @cached_property
    def places(self) -> IntArray:
        """The place of each cell of B in the flattened merged grid; only for a grid that can be formed."""
        return np.asarray(np.ravel_multi_index(tuple(self.positions.T), self.quotient.merged_shape))

    def below(self, vector: FloatArray) -> FloatArray:
        """Compute zeta of a vector of parameters: its sum at or below each merged cell, in the grid's shape.

        At theta this is log q without psi and weights, eq. (2).
        """
        vector = self.on_cells(vector)
        # three arrays of float64: this grid, and two that callers form from it, such as log q and Q
        check_room(self.n_cells, 3 * 8, "a merged grid", "Ask about some cells only.")
        grid = np.zeros(self.quotient.merged_shape)
        grid.ravel()[self.places] = vector
        if vector.any():  # most fits begin at theta = 0, where all sums are 0
            accumulate(grid)
        return grid

    def above(self, masses: FloatArray) -> FloatArray:
        """Sum masses of merged cells at or above each cell of B, eq. (3), and multiply by A' if parameters are tied."""
        return self.on_params(zeta_adjoint(masses).ravel()[self.places])

    def below_at(self, vector: FloatArray, boxes: IntArray) -> FloatArray:
        """Sum a vector of parameters at or below each of n merged cells (n x N): `below` for some cells only.

        A grid of moderate size is formed and read, since that is fast; otherwise only these cells are compared with B.
        """
        if self.n_cells <= limits.LARGEST_GRID and len(self.quotient.shape) <= limits.MOST_AXES:
            return np.asarray(self.below(vector)[tuple(boxes.T)])
        return sums_below(self.quotient.merged_shape, boxes, self.positions, self.on_cells(vector))

    def on_grid(self, marks: BoolArray) -> BoolArray:
        """Return marks of cells, such as a face, as an array over the merged cells: on a grid they already are one."""
        return marks

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that vanish in the limit; ``None`` means that none does."""
        return self if alive is None else self.on_measure(np.where(alive, self.weights, 0.0))

    def on_measure(self, weights: FloatArray) -> Model:
        """Return the model with other weights of the merged cells; cells of weight 0 cannot have probability."""
        return replace(self._as_grid(), measure=freeze(weights))

    def with_columns(self, columns: IntArray) -> Self:
        """Keep only some parameters, by number; the merged cells stay as they are, cut by the full basis."""
        if self.ties is not None:
            return replace(self, ties=self.ties.with_columns(columns))
        return replace(self, basis=freeze(self.basis[columns]), positions=self.positions[columns])

    def _as_grid(self) -> Model:
        """Return the same model as a grid, without the cells or tables that the other forms add."""
        return Model(self.support, self.base, self.basis, self.quotient, self.positions, self.measure, self.ties)

    @cached_property
    def tables(self) -> Tables:
        """Tables over the cliques of modes that B couples; only `Cliques` works in them, but any full grid has some."""
        return Tables(self.quotient, self.positions, cliques_of(self.positions, self.quotient.merged_shape))

    @cached_property
    def one_body(self) -> bool:
        """Whether B is all merged cells on the axes of a full grid without a base measure, none of them tied.

        The modes are then independent under Q, and the answer is the product of the data's margins.
        """
        shape, k = self.quotient.merged_shape, len(self.basis)
        if self.ties is not None or not self.whole or not k or sum(shape) - len(shape) != k:
            return False
        return bool((np.count_nonzero(self.positions, axis=1) == 1).all())

    @cached_property
    def patterns(self) -> dict[Modes, int]:
        """The number of cells of B by the set of modes in which their coordinates are not 0.

        These are the modes that the parameter concerns: an interaction of them.
        """
        used = self.positions > 0
        _, first, counts = np.unique(cell_keys(used.astype(np.int64)), return_index=True, return_counts=True)
        return {tuple(np.flatnonzero(used[i]).tolist()): n for i, n in zip(first, counts.tolist(), strict=True)}


@frozen
class CellList(Model):
    """A model that lists the m merged cells that hold some of Omega: masses, weights and marks are vectors (m,)."""

    cells: IntArray = field(kw_only=True)  # the merged cells, m x N

    @cached_property
    def n_cells(self) -> int:
        """The number of merged cells in the list."""
        return len(self.cells)

    @property
    def formable(self) -> bool:
        """Whether an array with an entry for every merged cell can be formed: yes, since only listed cells count."""
        return True

    def below(self, vector: FloatArray) -> FloatArray:
        """Sum a vector of parameters at or below each merged cell of the list."""
        return self.below_at(vector, self.cells)

    def above(self, masses: FloatArray) -> FloatArray:
        """Sum masses of the listed cells at or above each cell of B, and multiply by A' if parameters are tied."""
        return self.on_params(sums_above(self.quotient.merged_shape, self.cells, self.positions, masses))

    def below_at(self, vector: FloatArray, boxes: IntArray) -> FloatArray:
        """Sum a vector of parameters at or below each of n merged cells (n x N), which need not be in the list."""
        return sums_below(self.quotient.merged_shape, boxes, self.positions, self.on_cells(vector))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark which of n merged cells (n x N) are in the list and can carry probability; with `alive`, are marked."""
        place = find_rows(boxes, self.cells)
        return (place >= 0) & (self.alive if alive is None else alive)[place]

    def on_measure(self, weights: FloatArray) -> Self:
        """Return the model with other weights of the listed cells (m,)."""
        return replace(self, measure=freeze(weights))


@frozen
class Packed(Model):
    """A grid with gaps that is too large for a measure: it is swept slab by slab, with Omega held as bits."""

    support: BlockSupport

    @property
    def whole(self) -> bool:
        """Whether all cells of the grid are in the support: no."""
        return False

    @property
    def mode(self) -> int:
        """The mode whose levels are the slabs."""
        return longest_mode(self.support.shape)

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each merged cell; an error if it does not fit into memory."""
        return freeze(self.support.merge(self.quotient, None))

    @cached_property
    def n_alive(self) -> int:
        """The number of merged cells that can carry probability, counted slab by slab."""
        return sum(int(np.count_nonzero(self.on_slab(k))) for k in range(self.quotient.merged_shape[self.mode]))

    @cached_property
    def side(self) -> Quotient:
        """The boxes of a level: those of all modes but one."""
        shape, cuts = list(self.quotient.shape), list(self.quotient.cuts)
        del shape[self.mode], cuts[self.mode]
        return Quotient(tuple(shape), tuple(cuts))

    @cached_property
    def boxes(self) -> IntArray:
        """The number of the merged cell that each cell of a level is in."""
        return np.ravel(self.side.spread(np.arange(self.side.n_merged).reshape(self.side.merged_shape)))

    def slab(self, slab: int) -> tuple[list[BoolArray], IntArray]:
        """Return the masks of the levels of `mode` that are merged into one, and `boxes`."""
        first, n = self.quotient.cuts[self.mode][slab], int(self.quotient.lengths[self.mode][slab])
        return [self.support.slab(self.mode, i) for i in range(first, first + n)], self.boxes

    def on_slab(self, slab: int) -> FloatArray:
        """Return the measure of the merged cells of a slab, a grid of the other modes."""
        return np.asarray(sum(map(self.side.merge, self.slab(slab)[0])))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark which of n merged cells (n x N) can carry probability; with `alive`, which of them are marked there."""
        if alive is not None:
            return super().carries(boxes, alive)
        out, others = np.empty(len(boxes), dtype=np.bool_), np.delete(boxes, self.mode, axis=1)
        for level in np.unique(boxes[:, self.mode]):
            rows = boxes[:, self.mode] == level
            out[rows] = self.on_slab(level)[tuple(others[rows].T)] > 0
        return out


@frozen
class Cliques(Model):
    """A full grid of any size: sums over cells become sums over tables, one for each clique of modes that B couples.

    Marks of cells, such as a face, have one of two forms: an entry for every merged cell, or for every cell of the
    tables. In the second form a merged cell is marked if all the cells of tables that it falls on are. The tables store
    the face that they are on, so no measure is formed.
    """

    tables: Tables = field(kw_only=True)

    @property
    def whole(self) -> bool:
        """Whether every cell of the grid can have probability: the model is not restricted to a face."""
        return self.tables.alive is None

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each merged cell, 0 off the face."""
        every = self.quotient.volumes
        return every if self.whole else freeze(every * on_grid(self.tables.marks, self.quotient.merged_shape))

    def on_grid(self, marks: BoolArray) -> BoolArray:
        """Return marks, also those of the tables' cells, as an array over the merged cells."""
        if not self._on_tables(marks):
            return marks
        check_room(self.n_cells, 1, "marks of a merged grid", "Ask about some cells only.")
        return on_grid(replace(self.tables, alive=marks).marks, self.quotient.merged_shape)

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that are not marked; marks of the tables' cells are kept in the tables."""
        if alive is not None and self._on_tables(alive):
            return replace(self, tables=replace(self.tables, alive=alive))
        return super().on_face(alive)

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark which of n merged cells (n x N) can carry probability; marks of tables must agree in every table."""
        alive = self.tables.alive if alive is None else alive
        if alive is not None and not self._on_tables(alive):
            return super().carries(boxes, alive)
        out = np.ones(len(boxes), dtype=np.bool_)
        for c, marks in enumerate([] if alive is None else self.tables.matrices(alive)):
            out &= marks.take(self.tables.flat(c, boxes.T))
        return out

    def _on_tables(self, marks: BoolArray) -> bool:
        """Return whether marks have the second form: an entry for every cell of the tables."""
        return marks.shape == (self.tables.size,)

    def with_columns(self, columns: IntArray) -> Self:
        """Keep only some parameters, by number; the tables keep their layout."""
        model = super().with_columns(columns)
        if self.ties is not None:  # the tables are those of the cells, which all stay
            return model
        return replace(model, tables=replace(self.tables, positions=model.positions))

    @property
    def n_summed(self) -> int:
        """How many cells the tables have."""
        return self.tables.size

    @property
    def additions(self) -> int:
        """How many additions the messages from the leaves to the roots and back take."""
        return 2 * sum(clique.n_cells * len(clique.modes) for clique in self.tables.tree.cliques)


def _choose_form(grid: Model) -> Model:
    """Choose the form of a model on a large full grid: the grid itself or cliques, whichever is expected to be faster.

    Cliques are chosen if the grid cannot be formed. Otherwise their tables must have `limits.CLIQUES_GAIN` times fewer
    cells, because each costs more. The Fisher matrix takes one product with the tables for each parameter, nearly all
    of it in the largest table; 16 cells of such a product take as long as one cell of a sweep over the tables.
    """
    tables, tree = grid.tables, grid.tables.tree
    forced = not grid.formable  # then nothing but cliques will do
    if not tree.fits:
        if forced:
            raise InvalidBasis(tree.trouble())
        return grid
    closed = tables.saturated  # theta has a closed form, which needs no Fisher matrix
    for_fisher = 0 if closed else tree.largest.n_cells * len(grid.positions) // 16
    alone = closed and len(tree.cliques) == 1  # one table, as large as the grid, but theta has a closed form there
    if not (forced or alone or limits.CLIQUES_GAIN * (tree.n_cells + for_fisher) <= grid.n_cells):
        return grid
    return Cliques(grid.support, None, grid.basis, grid.quotient, grid.positions, ties=grid.ties, tables=tables)


def _merge_points(grid: Model, points: IntArray) -> Model:
    """Merge a support that is a list of cells (n x N): count how many fall into each merged cell.

    If the merged grid is small, or not much larger than the list, the counts are its measure. Otherwise the model is a
    `CellList` of the merged cells that have any.
    """
    quotient, n = grid.quotient, grid.quotient.n_merged
    formed = n <= limits.ALWAYS_A_GRID or n <= min(limits.CELLS_PER_POINT * len(points), limits.LARGEST_GRID)
    if formed and len(quotient.shape) <= limits.MOST_AXES:
        counts = np.bincount(quotient.flat_boxes(points), minlength=n).astype(np.float64)
        return replace(grid, measure=freeze(counts.reshape(quotient.merged_shape)))
    boxes = quotient.boxes(points)
    _, first, number = np.unique(cell_keys(boxes), return_index=True, return_counts=True)
    # by columns, because sums over the partial order compare one mode after another
    cells, measure = np.asfortranarray(boxes[first]), freeze(number.astype(np.float64))
    return CellList(grid.support, grid.base, grid.basis, quotient, grid.positions, measure, grid.ties, cells=cells)


def fitted_margins(model: Model) -> list[Modes]:
    """List the largest sets of modes S such that B holds every merged cell with non-zero coordinates in S only.

    Q then has the data's margin on S, so a cell of that margin without data shows that cells vanish. The list is empty
    if parameters are tied, because cells then have no parameters of their own.
    """
    if model.ties is not None:
        return []
    closed = _collect_closed(model)
    # every subset of a closed set is closed, so one that is not largest is a closed set minus a single mode
    return sorted(closed - {subset for s in closed for subset in combinations(s, len(s) - 1)})


def generating_margins(model: Model) -> list[Modes] | None:
    """List the margins that B fits if B consists of nothing else (a hierarchical log-linear model), else ``None``.

    Such a model can be fitted by iterative proportional scaling. ``None`` also for a list of cells, which has no axes
    along which margins could be summed.
    """
    if isinstance(model, CellList) or model.ties is not None:
        return None
    shape, used = model.quotient.merged_shape, np.count_nonzero(model.positions, axis=1)
    # a quick test: margins contain all cells on the axes of their modes, and on a full grid every mode is in one
    if model.whole and np.count_nonzero(used == 1) < sum(shape) - len(shape):
        return None
    return fitted_margins(model) or None if _collect_closed(model) == set(model.patterns) else None


def _collect_closed(model: Model) -> set[Modes]:
    """Collect the sets of modes S such that B has every merged cell with non-zero coordinates in S only.

    B then contains all interactions within S, so Q has the data's margin on S.
    """
    shape = model.quotient.merged_shape
    complete = {modes for modes, count in model.patterns.items() if count == math.prod(shape[k] - 1 for k in modes)}
    closed = set()
    # by size: if all subsets with one mode less are closed, so are the smaller subsets, which they contain
    for s in sorted(complete, key=len):
        if all(subset in closed for subset in combinations(s, len(s) - 1) if subset):
            closed.add(s)
    return closed


def running_order(margins: list[Modes]) -> list[Modes] | None:
    """Order margins, none of them inside another, so that what each shares with all before it lies in one of these.

    This is the running intersection property (Lauritzen 1996, section 2.1). ``None`` if there is no such order. Margins
    that have one are the cliques of a chordal graph, which is called decomposable: one cycle of scaling is then exact,
    and Q is a product of conditional margins.

    >>> running_order([(0, 1), (2, 3), (1, 2)]), running_order([(0, 1), (1, 2), (0, 2)])
    ([(0, 1), (1, 2), (2, 3)], None)
    """
    # Prim's algorithm: a tree that joins the margins by the most shared modes is a junction tree if there is one
    n_shared = dict.fromkeys(margins, 0)  # of each margin that is left: the most modes that one in `ordered` shares
    with_mode: dict[int, list[Modes]] = {}
    for margin in margins:
        for k in margin:
            with_mode.setdefault(k, []).append(margin)
    ordered: list[Modes] = []
    covered: set[int] = set()  # the modes of margins in `ordered`
    while n_shared:
        margin = max(n_shared, key=n_shared.__getitem__)
        if n_shared.pop(margin) < len(covered.intersection(margin)):
            return None  # what it shares with them lies in no single one
        ordered.append(margin)
        covered.update(margin)
        for near in n_shared.keys() & {near for k in margin for near in with_mode[k]}:
            n_shared[near] = max(n_shared[near], len({*margin}.intersection(near)))
    return ordered
