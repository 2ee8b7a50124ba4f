"""The problem: a model and what the data say about it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from legendre.core.cells import freeze, other_modes
from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.sums.quotient import BoxTotals, Quotient
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.tied_parameters import Ties
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, frozen
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.model.cliques.tables import Tables
from legendre.model.model import CellList, Cliques, Model


@frozen
class Problem:
    """Minimise ``psi(theta) - theta . eta_hat`` over theta: the convex form of eq. (4).

    P is X divided by its total. It is kept in the cheapest form that the model needs; the optional fields hold these
    forms, ``None`` if they were not computed.
    """

    data: Observation  # X and its sample space
    model: Model  # the sample space and the basis, merged
    eta_hat: FloatArray  # (k,) the expectations of P on the basis, eq. (3)
    boxes: BoxTotals | None = None  # sums of X over smaller boxes than the merged cells, kept from an earlier pass
    given: FloatArray | None = None  # P on the merged cells
    clique_sums: FloatArray | None = None  # P summed over the cells of the cliques' tables, laid out as in `Tables`
    prescribed: dict[Modes, FloatArray] | None = None  # the margins of P by modes, where P is not given by X

    def __post_init__(self) -> None:
        """Make eta_hat read-only: results hand out the same array."""
        self.eta_hat.setflags(write=False)

    @classmethod
    def of(
        cls, data: Observation, basis: IntArray, ties: Ties | None = None, boxes: BoxTotals | None = None
    ) -> Problem:
        """Merge the data along the basis: one pass over X, or none if sums over smaller boxes are known.

        Depending on the model, the pass gives P on the merged cells, on the cliques' tables, above the cells of B only,
        or on each mode; eta_hat is read from these.
        """
        model = Model.of(data.support, data.base, basis, ties)
        problem = cls(data, model, np.empty(0), boxes)
        # a sparse X whose tables give theta in closed form is summed onto the tables, never onto a grid
        on_tables = isinstance(model, Cliques) and data.entries is not None and model.tables.saturated
        if model.measure is not None or (model.n_cells <= data.largest_grid and model.formable and not on_tables):
            return replace(problem, eta_hat=model.above(problem.mass), given=problem.mass)
        if isinstance(model, Cliques) and (sums := _sum_onto_tables(data, model.tables)) is not None:
            eta_hat = model.on_params(model.tables.sums_above(sums))
            return replace(problem, eta_hat=eta_hat, clique_sums=freeze(sums))
        if (np.count_nonzero(model.positions, axis=1) > 1).any():  # interactions, and no grid: sums above B alone
            eta_hat = model.on_params(data.above(model.quotient, model.positions)) / data.total
            return replace(problem, eta_hat=eta_hat)
        return problem._from_margins()

    @classmethod
    def with_margins(cls, data: Observation, basis: IntArray, margins: dict[Modes, FloatArray]) -> Problem:
        """Make the problem of a P known only by its margins, for balancing; X gives the support and the base measure.

        The basis must be the interactions within the margins' sets of modes.
        """
        model = Model.of(data.support, data.base, basis)
        eta_hat = np.empty(model.n_params)
        # margins agree up to rounding where they overlap; the first one is written last, so it has precedence
        for modes, values in reversed(margins.items()):
            rows = list_within(model.positions, modes)
            eta_hat[rows] = zeta_adjoint(values)[tuple(model.positions[rows][:, modes].T)]
        return cls(data, model, eta_hat, prescribed=margins)

    def _from_margins(self) -> Problem:
        """Read eta_hat, and P on the cliques' tables, from the margins of single modes, if all cells of B are on axes.

        Eta_hat is the suffix sums of the margins. Each clique is a single mode, and its table is the margin.
        """
        model, eta_hat, tables = self.model, np.empty(len(self.model.basis)), None
        for k, margin in enumerate(self.margins):
            rows = np.flatnonzero(model.positions[:, k])
            eta_hat[rows] = np.cumsum(margin[::-1])[::-1][model.positions[rows, k]]
        if isinstance(model, Cliques):
            tables = model.tables.lay_out([self.margins[clique.modes[0]] for clique in model.tables.tree.cliques])
        return replace(self, eta_hat=model.on_params(eta_hat), clique_sums=tables)

    @property
    def known(self) -> bool:
        """Whether P can be summed over each merged cell: X is in memory, or the merged cells are few enough."""
        if self.prescribed is not None:
            return False
        if self.given is not None or self.data.whole or self.model.measure is not None:
            return True
        return self.model.formable and self.model.n_cells <= self.data.largest_grid

    @cached_property
    def mass(self) -> FloatArray:
        """P summed over each merged cell, computed when it is first needed; an error if there are too many cells.

        It has the merged grid's shape, or is a vector over the cells of a `CellList`.
        """
        if self.given is not None:
            return self.given
        if not self.known:
            raise InvalidSetting(
                f"this solver needs X on each of {size_name(self.model.n_cells)} merged cells, of which at most "
                f"{size_name(int(self.data.largest_grid))} are formed. Use solver='natural' or 'natural-cg'."
            )
        model = self.model
        if isinstance(model, CellList):
            assert self.data.entries is not None  # a listed Omega belongs to a listed X
            return self.data.entries.merged_in(model.cells, model.quotient) / self.data.total
        grid = None if self.boxes is None else self.boxes.over(model.quotient)  # saves a pass over X
        return (self.data.merged(model.quotient) if grid is None else grid) / self.data.total

    def margin(self, modes: Modes) -> FloatArray:
        """Return P's margin on some modes, on the merged grid; the other modes are summed over and have length 1.

        Prescribed margins are read from the first that contains these modes.
        """
        summed = other_modes(modes, len(self.model.quotient.shape))
        if self.prescribed is None:
            return np.asarray(self.mass.sum(axis=summed, keepdims=True))
        wider = next(group for group in self.prescribed if set(modes) <= set(group))
        values = self.prescribed[wider].sum(axis=tuple(i for i, k in enumerate(wider) if k not in modes))
        return np.expand_dims(values, summed)

    @cached_property
    def margins(self) -> tuple[FloatArray, ...]:
        """P's margin on each single mode, over the intervals of the merged grid: what a one-body model fits."""
        return tuple(margin / self.data.total for margin in self.data.margins(self.model.quotient))

    @property
    def known_to_exist(self) -> bool:
        """Whether a cheap argument shows that a finite theta attains the minimum; False means that it is not known.

        The search for vanishing cells is then not needed.
        """
        if self.data.positive and self.prescribed is None:
            return True
        # The product of the tables' conditional margins has the expectations eta_hat. If it is positive, eta_hat lies
        # in the interior of the marginal polytope.
        if self.clique_sums is not None:
            return bool((self.clique_sums > 0).all())
        if self.prescribed is not None:
            return False
        # If the bottom and every cell of B have data, the parameters are independent on the observed cells alone, since
        # zeta is triangular there: then nothing can vanish.
        cells = np.concatenate([np.zeros((1, self.model.basis.shape[1]), dtype=np.int64), self.model.basis])
        return bool((self.data.at(cells) > 0).all())

    def reduce(self, alive: BoolArray | None, columns: IntArray) -> Problem:
        """Restrict the problem to the merged cells of a face (``None``: all) and to some parameters, by number.

        A fit on the face with independent parameters has a unique, finite answer.
        """
        if alive is None and len(columns) == len(self.eta_hat):
            return self
        model = self.model.on_face(alive)
        model = model if len(columns) == len(self.eta_hat) else model.with_columns(columns)
        return replace(self, model=model, eta_hat=self.eta_hat[columns])


def _sum_onto_tables(data: Observation, tables: Tables) -> FloatArray | None:
    """Sum P over the cells of the cliques' tables; ``None`` if sums above the cells of B are enough, or cheaper.

    The tables show which cells vanish; an X in memory without zeros needs no such search. Blocks of an X elsewhere are
    summed, in a pass for each table, only if theta then has a closed form.
    """
    if data.entries is not None:
        return tables.sum_entries(data.entries, data.total)
    quotient, groups = tables.quotient, [clique.modes for clique in tables.tree.cliques]
    if isinstance(data, Dense):
        return None if data.positive else tables.lay_out(data.tables(quotient, groups)) / data.total
    if not tables.saturated:
        return None
    sums = []
    for modes in groups:  # all other modes are summed out
        cuts = tuple(cut if k in modes else cut[:1] for k, cut in enumerate(quotient.cuts))
        sums.append(np.moveaxis(data.merged(Quotient(data.shape, cuts)), modes, range(len(modes))))
    return tables.lay_out(sums) / data.total


def list_within(positions: IntArray, modes: Modes) -> IntArray:
    """List the parameters whose non-zero coordinates are among the given modes."""
    return np.flatnonzero(~np.delete(positions > 0, modes, axis=1).any(axis=1))
