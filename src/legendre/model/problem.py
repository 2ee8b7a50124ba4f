"""The problem: a model and what the data say about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import BoolArray, FloatArray, IntArray, frozen
from legendre.data.observation import Observation
from legendre.data.sparse import Sparse, in_list
from legendre.model.cliques.sums import clique_sums, tables_of
from legendre.model.cliques.tables import Tables
from legendre.model.margins import Modes
from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ``psi(theta) - theta . eta_hat`` over theta: the convex form of eq. (4).

    Parameters
    ----------
    data
        X and its sample space.
    model
        The sample space and the basis, merged.
    eta_hat
        The expectations of P on the basis, eq. (3).
    prescribed
        Margins of P by sets of modes, where they are all that is known of it; ``None`` when P is X.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> problem = Problem.of(observe([[1, 2], [3, 4]]), np.array([[1, 0]]))
    >>> problem.eta_hat.tolist(), problem.mass.tolist()
    ([0.7], [[0.3], [0.7]])
    """

    data: Observation
    model: Model
    eta_hat: FloatArray
    prescribed: dict[Modes, FloatArray] | None = None

    @classmethod
    def of(cls, data: Observation, basis: IntArray) -> Problem:
        """Merge the data along the basis: one pass over X."""
        model = Model.of(data.support, data.base, basis, data.device)
        if model.measure is None and (model.n_merged > data.largest_grid or not model.formable):
            return cls._without_mass(data, model)
        mass = _merged_mass(data, model)
        problem = cls(data, model, frozen(model.above(mass)))
        problem.__dict__["mass"] = mass
        return problem

    @classmethod
    def _without_mass(cls, data: Observation, model: Model) -> Problem:
        if isinstance(data, Sparse) and model.by_cliques:
            tables = tables_of(model)
            sums = clique_sums(data, tables)
            problem = cls(data, model, frozen(tables.sums_above(sums)))
            problem.__dict__["clique_sums"] = (tables, frozen(sums))
            return problem
        if ((model.positions > 0).sum(axis=1) > 1).any():
            return cls(data, model, frozen(data.above(model.quotient, model.positions) / data.total))
        margins = [margin / data.total for margin in data.margins(model.quotient)]
        problem = cls(data, model, frozen(_from_margins(model, margins)))
        problem.__dict__["margins"] = margins
        return problem

    @property
    def has_grid(self) -> bool:
        """Whether P can be summed over each merged cell."""
        if self.data.whole or self.model.measure is not None:
            return True
        return self.model.formable and self.model.n_merged <= self.data.largest_grid

    @property
    def on_cliques(self) -> bool:
        """Whether P is known in the tables of the cliques only."""
        return not self.has_grid and isinstance(self.data, Sparse) and self.model.by_cliques

    @cached_property
    def clique_sums(self) -> tuple[Tables, FloatArray]:
        """P summed over each cell of each clique's table, where it is a list of entries."""
        tables = tables_of(self.model)
        return tables, clique_sums(in_list(self.data), tables)

    @classmethod
    def with_margins(cls, data: Observation, basis: IntArray, margins: dict[Modes, FloatArray]) -> Problem:
        """Prescribe the margins of P; the basis is that of the interactions within their sets of modes.

        Examples
        --------
        >>> from legendre.data.dense import observe
        >>> wanted = {(0,): np.array([0.5, 0.5]), (1,): np.array([0.2, 0.8])}
        >>> Problem.with_margins(observe([[1, 2], [3, 4]]), np.array([[0, 1], [1, 0]]), wanted).eta_hat.tolist()
        [0.8, 0.5]
        """
        model = Model.of(data.support, data.base, basis)
        eta_hat = np.empty(model.n_params)
        # what margins share they agree about; the first one is read last, and stays
        for modes, values in reversed(margins.items()):
            rows = _within(model.positions, modes)
            eta_hat[rows] = zeta_adjoint(values)[tuple(model.positions[rows][:, modes].T)]
        return cls(data, model, frozen(eta_hat), margins)

    def margin(self, modes: Modes) -> FloatArray:
        """Sum P over all modes but the given ones, which keep length 1, on the merged grid."""
        order = len(self.model.quotient.merged_shape)
        if self.prescribed is None:
            sums: FloatArray = self.mass.sum(axis=tuple(k for k in range(order) if k not in modes), keepdims=True)
            return sums
        known = next(group for group in self.prescribed if set(modes) <= set(group))
        values = self.prescribed[known].sum(axis=tuple(i for i, k in enumerate(known) if k not in modes))
        return np.expand_dims(values, tuple(k for k in range(order) if k not in modes))

    @cached_property
    def margins(self) -> list[FloatArray]:
        """P summed over each interval of each mode."""
        if self.on_cliques:
            return _margins_of_cliques(*self.clique_sums)
        every = range(self.mass.ndim)
        return [self.mass.sum(axis=tuple(j for j in every if j != k)) for k in every]

    @property
    def sees_levels(self) -> bool:
        """Whether every interval of every mode has data."""
        return all(bool((margin > 0).all()) for margin in self.margins)

    @cached_property
    def mass(self) -> FloatArray:
        """P summed over each merged cell."""
        if not self.has_grid:
            raise InvalidSetting(
                f"this solver needs X on each of {size_name(self.model.n_merged)} merged cells, of which at most "
                f"{size_name(int(self.data.largest_grid))} are formed here. Use solver='natural' or 'natural-cg'."
            )
        return _merged_mass(self.data, self.model)

    def reduced(self, alive: BoolArray | None, columns: IntArray) -> Problem:
        """Keep the merged cells of a face and independent parameters only."""
        if alive is None and len(columns) == self.model.n_params:
            return self
        small = replace(
            self, model=self.model.on_face(alive).with_columns(columns), eta_hat=frozen(self.eta_hat[columns])
        )
        if "mass" in self.__dict__:
            small.__dict__["mass"] = self.mass
        return small


def _margins_of_cliques(tables: Tables, sums: FloatArray) -> list[FloatArray]:
    """Sum P to each mode, in the table of the clique that the mode is own to."""
    out = []
    for k, home in enumerate(tables.tree.home):
        if home < 0:
            out.append(np.ones(1))
            continue
        (where, _), clique = tables.matrices[home], tables.cliques[home]
        others = tuple(axis for axis, j in enumerate(clique.modes) if j != k)
        out.append(sums[where].reshape(clique.shape).sum(axis=others))
    return out


def _within(positions: IntArray, modes: Modes) -> IntArray:
    """List the parameters whose non-zero coordinates are among the given modes."""
    others = [k for k in range(positions.shape[1]) if k not in modes]
    return np.flatnonzero(~(positions[:, others] > 0).any(axis=1))


def _merged_mass(data: Observation, model: Model) -> FloatArray:
    return frozen(data.merged(model.quotient, model.cells) / data.total)


def _from_margins(model: Model, margins: list[FloatArray]) -> FloatArray:
    """Read the expectations of a one-body basis from the margins."""
    eta = np.empty(model.n_params)
    for k, margin in enumerate(margins):
        rows = np.flatnonzero(model.positions[:, k])
        eta[rows] = np.cumsum(margin[::-1])[::-1][model.positions[rows, k]]
    return eta
