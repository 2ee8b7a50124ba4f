"""Questions to a Q whose grid cannot be formed, answered exactly by messages between the tables of the cliques."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import find, unique_cells
from legendre.core.errors import InvalidQuery
from legendre.core.memory import size_name
from legendre.core.types import FloatArray, IntArray
from legendre.data.support import Support
from legendre.model.cliques.graph import CliqueTree, cliques_of
from legendre.model.cliques.messages import Beliefs, largest_sum, propagate
from legendre.model.cliques.tables import Part, Tables, given, on_grid, with_parts
from legendre.model.model import Model
from legendre.results.on_grid import OF_MODES, TIE, OnGrid, check_formed, check_table
from legendre.results.query_arguments import impossible

RARE = 1e-200
"""Margins lose digits for events of less probability, so that Q given such an event is computed as a model."""


@dataclass(frozen=True, eq=False)
class OnCliques:
    """A member of a model on a full grid of any order; the messages are passed once and kept.

    >>> q = OnCliques(Model.of(Support((2, 3)), None, np.array([[1, 0]])), np.log([3.0]))
    >>> q.marginal([0], {}).round(12).tolist(), q.marginal([1], {0: 1}).round(12).tolist()
    ([0.25, 0.75], [0.333333333333, 0.333333333333, 0.333333333333])
    """

    model: Model  # on a full grid without a base measure, and the tables of its cliques fit
    theta: FloatArray
    parts: tuple[Part, ...] = ()  # the tables in which cells have no probability

    @cached_property
    def tables(self) -> Tables:
        """The tables of the model's cliques."""
        space = self.model.space
        return with_parts(space.tables, self.parts) if space.form == "cliques" else self._tables_with(())

    @cached_property
    def beliefs(self) -> tuple[float, Beliefs]:
        """Psi, and Q on the cliques."""
        return propagate(self.tables, self.theta)

    def _tables_with(self, modes: Sequence[int]) -> Tables:
        """Lay out tables over cliques of which one holds the given modes."""
        space = self.model.space
        return with_parts(Tables(space.quotient, space.positions, self._tree_with(modes)), self.parts)

    def _tree_with(self, modes: Sequence[int]) -> CliqueTree:
        """Arrange cliques of which one holds the given modes; nothing of the size of their tables is formed."""
        return cliques_of(self.model.space.positions, self.model.quotient.merged_shape, modes)

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Add up theta below each cell (n x N), clique by clique; ``-inf`` where Q vanishes."""
        sums = self.tables.sums_below(self.theta)
        if self.tables.alive is not None:
            sums[~self.tables.alive] = -np.inf
        return self.tables.at(sums, cells) - self.beliefs[0]

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        check_table(self.model.support.shape, kept)
        if at:
            return self._given(kept, at)
        groups = self._groups(kept)
        narrow = all(self._table_of(group) is not None or self._tree_with(group).fits for group in groups)
        if not narrow and self.model.space.formable:
            return self._grid.marginal(kept, at)
        return self._joint(kept, groups)

    @property
    def _grid(self) -> OnGrid:
        alive = on_grid(self.parts, self.model.quotient.merged_shape) if self.parts else None
        return OnGrid(self.model, self.theta, self.beliefs[0], alive)

    def _table_of(self, modes: Sequence[int]) -> int | None:
        """Return the clique that holds all of some modes, if one does."""
        coupled, tree = {k for k in modes if self.model.quotient.merged_shape[k] > 1}, self.tables.tree
        if not coupled:
            return -1
        home = tree.home_of(coupled)
        return home if coupled <= set(tree.cliques[home].modes) else None

    def _groups(self, modes: Sequence[int]) -> list[list[int]]:
        """Part modes into groups that are independent under Q: those of different trees, the first mode's group first.

        A mode that no parameter concerns is a group of its own.
        """
        found: dict[int, list[int]] = {}
        for k in modes:
            root = self.tables.tree.root_of(k)
            found.setdefault(root if root >= 0 else -1 - k, []).append(k)
        return list(found.values())

    def _given(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Condition within one clique's table where that is enough; elsewhere in a model of the other modes."""
        if not kept:
            self._check_possible(at)
            return np.ones(())
        quotient = self.model.quotient
        if self._table_of([*kept, *at]) is not None:
            fixed = [k for k in at if quotient.merged_shape[k] > 1]
            boxes = tuple(int(quotient.boxes_along(k, np.array(at[k]))) for k in fixed)
            merged = np.asarray(self._merged_joint([*fixed, *kept])[boxes])
            if (total := float(merged.sum())) > RARE:
                return self._spread(merged / total, kept)
        rest = [k for k in range(len(self.model.support.shape)) if k not in at]
        return self.given(at).marginal([rest.index(k) for k in kept], {})

    def _check_possible(self, event: Mapping[int, int]) -> None:
        """Raise ImpossibleEvent for an event whose cells vanish."""
        if len(event) < len(self.model.support.shape):
            self.given(event)
        elif self.log_prob(np.array([[event[k] for k in sorted(event)]], dtype=np.int64))[0] == -np.inf:
            raise impossible(event)

    def _joint(self, modes: list[int], groups: list[list[int]]) -> FloatArray:
        """Sum out all but some modes: the product of the tables of groups that are independent of each other."""
        out = np.ones((1,) * len(modes))
        for group in reversed(groups):  # the last modes first, so that whole rows are multiplied
            table = self._spread(self._merged_joint(group), group)
            out = np.expand_dims(table, [axis for axis, k in enumerate(modes) if k not in group]) * out
        return np.ascontiguousarray(out).reshape(out.shape)  # which makes one axis where there is none

    def _spread(self, merged: FloatArray, modes: Sequence[int]) -> FloatArray:
        """Share what the boxes of some modes hold out among their cells."""
        quotient = self.model.quotient
        for axis, k in enumerate(modes):
            if len(quotient.cuts[k]) < quotient.shape[k]:
                density = merged / quotient.lengths[k].reshape(-1, *[1] * (len(modes) - axis - 1))
                merged = density.take(quotient.box_of(k), axis=axis)
        return merged

    def _merged_joint(self, modes: list[int]) -> FloatArray:
        """Sum out all but some modes, on a tree in which these are in one clique."""
        levels = self.model.quotient.merged_shape
        coupled = [k for k in modes if levels[k] > 1]
        if not coupled:
            return np.ones((1,) * len(modes))
        tables, beliefs, home = self.tables, self.beliefs[1], self._table_of(coupled)
        if home is None:
            tree = self._tree_with(coupled)
            if not tree.fits:
                raise InvalidQuery(
                    f"the joint distribution of modes {coupled} needs tables of {size_name(tree.n_cells)} cells, since "
                    "the basis couples them through many others. Ask for fewer modes, or count them in samples."
                )
            tables = self._tables_with(coupled)
            beliefs = propagate(tables, self.theta)[1]
            home = tables.tree.home_of(coupled)
        clique = tables.tree.cliques[home]
        others = tuple(axis for axis, k in enumerate(clique.modes) if k not in coupled)
        sums = beliefs.margins[tables.matrices[home][0]].reshape(clique.shape).sum(axis=others)
        kept = [k for k in clique.modes if k in coupled]
        return np.asarray(sums).transpose([kept.index(k) for k in coupled]).reshape([levels[k] for k in modes])

    def expectation(self, f: ArrayLike | Callable[..., ArrayLike]) -> float:
        """Sum ``q f`` over all cells, where a grid of them can be formed."""
        check_formed(self.model.support.shape, "expectation", OF_MODES)
        return self._grid.expectation(f)

    def sum_of_squares(self) -> float:
        """Sum ``q^2`` over all cells: ``exp(psi(2 theta) - 2 psi(theta))``."""
        return math.exp(propagate(self.tables, 2.0 * self.theta)[0] - 2.0 * self.beliefs[0])

    def given(self, event: Mapping[int, int]) -> OnCliques:
        """Fix some modes: Q on the others is a member of a model, in which theta of equal cells is added up."""
        basis, fixed = self.model.basis, list(event)
        rest = [k for k in range(len(self.model.support.shape)) if k not in event]
        reached = (basis[:, fixed] <= [event[k] for k in fixed]).all(axis=1) & basis[:, rest].any(axis=1)
        left = basis[reached][:, rest]
        kept = unique_cells(left)
        theta = np.bincount(find(left, kept), weights=self.theta[reached], minlength=len(kept)).astype(np.float64)
        boxes = {k: int(self.model.quotient.boxes_along(k, np.array(level))) for k, level in event.items()}
        left_over = given(self.parts, boxes, {k: i for i, k in enumerate(rest)})
        if not all(modes or alive for modes, alive in left_over):
            raise impossible(event)
        parts = tuple((modes, alive) for modes, alive in left_over if modes)
        q = OnCliques(Model.of(Support(tuple(self.model.support.shape[k] for k in rest)), None, kept), theta, parts)
        if parts and q.beliefs[0] == -np.inf:
            raise impossible(event)
        return q

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells: from the roots on, each clique's own modes given those it shares; levels of a box evenly."""
        quotient = self.model.quotient
        boxes = np.zeros((len(self.model.support.shape), n), dtype=np.int64)
        for c, (where, shape) in enumerate(self.tables.matrices):
            clique = self.tables.tree.cliques[c]
            states = self.tables.flat(c, boxes) // shape[1]  # own modes are still 0
            drawn = _draw(self.beliefs[1].given[where].reshape(shape), states, generator)
            for axis in reversed(range(clique.shared, len(clique.modes))):
                drawn, boxes[clique.modes[axis]] = np.divmod(drawn, clique.shape[axis])
        for k, (cut, length) in enumerate(zip(quotient.cuts, quotient.shape, strict=True)):
            if len(cut) < length:
                ends = np.append(cut[1:], length)
                boxes[k] = generator.integers(cut[boxes[k]], ends[boxes[k]])
        return np.ascontiguousarray(boxes.T)

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order of equal ones: fix the modes whose best level is unique."""
        q, cell = self, dict.fromkeys(range(len(self.model.support.shape)), 0)
        left, peak = list(cell), math.inf
        while left:
            peak, levels = q._best_levels(peak)
            unsure = next((i for i, (_, alone) in enumerate(levels) if not alone), len(left) - 1)
            settled = {i: levels[i][0] for i in range(unsure + 1)}
            cell |= {left[i]: level for i, level in settled.items()}
            left = left[unsure + 1 :]
            if left:
                below = [settled.get(i, 0) for i in range(q.model.basis.shape[1])]
                peak -= float(q.theta[(q.model.basis <= below).all(axis=1)].sum())  # what the settled modes alone add
                q = q.given(settled)
        return tuple(cell.values())

    def _best_levels(self, peak: float) -> tuple[float, list[tuple[int, bool]]]:
        """Return the largest sum of theta, and for each mode the first level that attains it, and if it alone does."""
        largest, parts = largest_sum(self.tables, self.tables.sums_below(self.theta))
        peak = largest if peak == math.inf else min(peak, largest + TIE)  # rounding may have moved it
        levels = []
        for k, home in enumerate(self.tables.tree.home):
            if home < 0:
                levels.append((0, True))
                continue
            clique, (where, _) = self.tables.tree.cliques[home], self.tables.matrices[home]
            others = tuple(axis for axis, j in enumerate(clique.modes) if j != k)
            peaks = parts[where].reshape(clique.shape).max(axis=others)
            best = np.flatnonzero(peaks >= min(peak - TIE, float(peaks.max())))
            levels.append((int(self.model.quotient.cuts[k][best[0]]), len(best) == 1))
        return peak, levels


def _draw(given: FloatArray, states: IntArray, generator: np.random.Generator) -> IntArray:
    """Invert the distribution function of the row that each state names, by bisection in all rows at once."""
    cumulated = np.cumsum(given, axis=1)
    target = generator.random(len(states)) * cumulated[states, -1]
    low, high = np.zeros(len(states), dtype=np.int64), np.full(len(states), given.shape[1] - 1)
    while (low < high).any():
        middle = (low + high) // 2
        above = cumulated[states, middle] > target
        high = np.where(above, middle, high)
        low = np.where(above, low, middle + 1)
    return low
