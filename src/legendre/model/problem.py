"""The problem: a model and what the data say about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.core.cells import freeze
from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.sums.quotient import BoxTotals
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.tied_parameters import Ties
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.model.cliques.tables import Tables, clique_sums, is_saturated, lay_out, sum_onto_modes
from legendre.model.model import CellList, Cliques, Model, Modes


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``psi(theta) - theta . eta_hat`` over theta: the convex form of eq. (4)."""

    data: Observation  # X and its sample space
    model: Model  # the sample space and the basis, merged
    eta_hat: FloatArray  # the expectations of P on the basis, eq. (3).
    boxes: BoxTotals | None = None  # X summed over smaller boxes, where that is known
    given: FloatArray | None = None  # P on the merged cells, where it is not that of X
    clique_sums: FloatArray | None = None  # P summed over the cells of the cliques' tables, where no more is known
    mode_margins: tuple[FloatArray, ...] | None = None  # P summed over the intervals of each mode, if that is all
    prescribed: dict[Modes, FloatArray] | None = None  # margins of P, if nothing else is known; ``None``: P is X

    def __post_init__(self) -> None:
        self.eta_hat.setflags(write=False)

    @classmethod
    def of(
        cls, data: Observation, basis: IntArray, ties: Ties | None = None, boxes: BoxTotals | None = None
    ) -> Problem:
        """Merge the data along the basis: one pass over X, or none where sums over smaller boxes are known."""
        model = Model.of(data.support, data.base, basis, ties)
        problem = cls(data, model, np.empty(0), boxes)
        listed = isinstance(model, Cliques) and data.entries is not None and is_saturated(model.tables)  # needs no grid
        if model.measure is not None or (model.n_cells <= data.largest_grid and model.formable and not listed):
            return replace(problem, eta_hat=model.above(problem.mass), given=problem.mass)
        if isinstance(model, Cliques) and (sums := _tables_of(data, model.tables)) is not None:
            eta_hat = model.on_params(model.tables.sums_above(sums))
            return replace(problem, eta_hat=eta_hat, clique_sums=freeze(sums))
        if (np.count_nonzero(model.positions, axis=1) > 1).any():
            eta_hat = model.on_params(data.above(model.quotient, model.positions)) / data.total
            return replace(problem, eta_hat=eta_hat)
        margins = tuple(margin / data.total for margin in data.margins(model.quotient))
        eta_hat = np.empty(len(model.basis))
        for k, margin in enumerate(margins):
            rows = np.flatnonzero(model.positions[:, k])
            eta_hat[rows] = np.cumsum(margin[::-1])[::-1][model.positions[rows, k]]
        tables = None
        if isinstance(model, Cliques):  # over single modes: these margins
            tables = lay_out(model.tables, [margins[clique.modes[0]] for clique in model.tables.tree.cliques])
        return replace(problem, eta_hat=model.on_params(eta_hat), clique_sums=tables, mode_margins=margins)

    @classmethod
    def with_margins(cls, data: Observation, basis: IntArray, margins: dict[Modes, FloatArray]) -> Problem:
        """Prescribe the margins of P; the basis is that of the interactions within their sets of modes."""
        model = Model.of(data.support, data.base, basis)
        eta_hat = np.empty(model.n_params)
        # what margins share they agree about; the first one is read last, and stays
        for modes, values in reversed(margins.items()):
            rows = list_within(model.positions, modes)
            eta_hat[rows] = zeta_adjoint(values)[tuple(model.positions[rows][:, modes].T)]
        return cls(data, model, eta_hat, prescribed=margins)

    @property
    def known(self) -> bool:
        """Whether P can be summed over each merged cell: X is in memory, or the merged cells are few enough."""
        if self.given is not None or self.data.whole or self.model.measure is not None:
            return True
        return self.model.formable and self.model.n_cells <= self.data.largest_grid

    @cached_property
    def mass(self) -> FloatArray:
        """P summed over each merged cell, when it is first needed."""
        if self.given is not None:
            return self.given
        if not self.known:
            raise InvalidSetting(
                f"this solver needs X on each of {size_name(self.model.n_cells)} merged cells, of which at most "
                f"{size_name(int(self.data.largest_grid))} are formed. Use solver='natural' or 'natural-cg'."
            )
        model = self.model
        cells = model.cells if isinstance(model, CellList) else None
        grid = None if self.boxes is None else self.boxes.over(model.quotient)
        if grid is None:
            grid = self.data.merged(model.quotient, cells)
        elif cells is not None:
            grid = grid[tuple(cells.T)]
        return grid / self.data.total

    def margin(self, modes: Modes) -> FloatArray:
        """Sum P over all modes but the given ones, which keep length 1, on the merged grid."""
        others = tuple(k for k in range(len(self.model.quotient.merged_shape)) if k not in modes)
        if self.prescribed is None:
            return np.asarray(self.mass.sum(axis=others, keepdims=True))
        known = next(group for group in self.prescribed if set(modes) <= set(group))
        values = self.prescribed[known].sum(axis=tuple(i for i, k in enumerate(known) if k not in modes))
        return np.expand_dims(values, others)

    @cached_property
    def margins(self) -> tuple[FloatArray, ...]:
        """P summed over each interval of each mode."""
        if self.mode_margins is not None:
            return self.mode_margins
        model = self.model
        if self.clique_sums is not None and isinstance(model, Cliques):
            return tuple(sum_onto_modes(model.tables, self.clique_sums))
        every = range(self.mass.ndim)
        return tuple(self.mass.sum(axis=tuple(j for j in every if j != k)) for k in every)

    @property
    def all_margins_positive(self) -> bool:
        """Whether every interval of every mode has data."""
        return all(bool((margin > 0).all()) for margin in self.margins)

    @property
    def known_to_exist(self) -> bool:
        """Whether a cheap argument shows that a finite theta attains the minimum."""
        if self.data.positive:
            return True
        if self.clique_sums is not None:  # the product of the tables' margins has eta_hat: is it positive?
            return bool((self.clique_sums > 0).all())
        entries = self.data.entries
        if entries is not None and not entries.even and len(entries.cells) <= len(self.model.basis):
            return False  # too few for the bottom and every cell of B
        # where the bottom and every cell of B have data, the observed cells alone make B independent
        cells = np.concatenate([np.zeros((1, self.model.basis.shape[1]), dtype=np.int64), self.model.basis])
        return bool((self.data.at(cells) > 0).all())

    def reduce(self, alive: BoolArray | None, columns: IntArray) -> Problem:
        """Restrict the problem to the merged cells of a face (``None``: all) and to some parameters.

        A fit on the face with independent parameters has a unique, finite answer.
        """
        if alive is None and len(columns) == len(self.eta_hat):
            return self
        model = self.model.on_face(alive)
        model = model if len(columns) == len(self.eta_hat) else model.with_columns(columns)
        return replace(self, model=model, eta_hat=self.eta_hat[columns])


def _tables_of(data: Observation, tables: Tables) -> FloatArray | None:
    """Sum P over the cells of the cliques' tables, where X is a list of entries, or has zeros and is in memory.

    If X has no zeros, no cell vanishes: the sums above the cells of B, one pass over X, are all that is
    needed.
    """
    if data.entries is not None:
        return clique_sums(data.entries, tables, data.total)
    if data.positive or not isinstance(data, Dense):
        return None
    sums = data.tables(tables.quotient, [clique.modes for clique in tables.tree.cliques])
    return lay_out(tables, sums) / data.total


def list_within(positions: IntArray, modes: Modes) -> IntArray:
    """List the parameters whose non-zero coordinates are among the given modes."""
    return np.flatnonzero(~np.delete(positions > 0, modes, axis=1).any(axis=1))
