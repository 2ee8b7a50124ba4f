"""Questions to Q where no grid can be formed: messages between the tables of the cliques answer them exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.cells import unique_cells
from legendre.core.errors import InvalidQuery
from legendre.core.memory import size_name
from legendre.core.types import FloatArray, IntArray
from legendre.data.support import Support
from legendre.engines.junction import Beliefs, largest_sum, propagate
from legendre.model.cliques.tables import Tables
from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class Law:
    """A member of a model, known by theta: a distribution on a full grid of any order.

    Parameters
    ----------
    model
        A model on a full grid without a base measure whose cliques' tables fit.
    theta
        Parameters on its basis.

    Examples
    --------
    >>> law = Law(Model.of(Support((2, 3)), None, np.array([[1, 0]])), np.log([3.0]))
    >>> law.marginal([0]).round(12).tolist(), law.given({0: 1}).marginal([0]).round(12).tolist()
    ([0.25, 0.75], [0.333333333333, 0.333333333333, 0.333333333333])
    """

    model: Model
    theta: FloatArray

    @cached_property
    def tables(self) -> Tables:
        """The layout of the tables."""
        return Tables(self.model, self.model.cliques)

    @cached_property
    def beliefs(self) -> tuple[float, Beliefs]:
        """Psi, and Q on the cliques."""
        return propagate(self.tables, self.theta)

    def given(self, event: Mapping[int, int]) -> Law:
        """Fix some modes: what is left is a member of a model on the other modes, theta of equal cells added up."""
        rest = [k for k in range(len(self.model.support.shape)) if k not in event]
        fixed = list(event)
        basis = self.model.basis
        reached = (basis[:, fixed] <= [event[k] for k in fixed]).all(axis=1) & basis[:, rest].any(axis=1)
        left = basis[reached][:, rest]
        kept = unique_cells(left)
        place = {cell.tobytes(): i for i, cell in enumerate(kept)}
        where = np.array([place[cell.tobytes()] for cell in left], dtype=np.int64)
        theta = np.bincount(where, weights=self.theta[reached], minlength=len(kept)).astype(np.float64)
        return Law(Model.of(Support(tuple(self.model.support.shape[k] for k in rest)), None, kept), theta)

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Add up theta below each cell, clique by clique."""
        columns, parts = self.tables.columns(cells), self.tables.sums_below(self.theta)
        out = np.full(len(cells), -self.beliefs[0])
        for c, (where, _) in enumerate(self.tables.matrices):
            out += parts[where].take(self.tables.flat(c, columns))
        return out

    def marginal(self, modes: Sequence[int]) -> FloatArray:
        """Sum out all but some modes: a tree in which these are in one clique does it."""
        quotient = self.model.quotient
        shape = [self.model.support.shape[k] for k in modes]
        if math.prod(shape) > limits.LARGEST_ANSWER:
            raise InvalidQuery(
                f"the joint distribution of {len(shape)} modes has {size_name(math.prod(shape))} cells; at most "
                f"{limits.LARGEST_ANSWER:,} are given. Ask for fewer modes, or for log_prob or samples."
            )
        coupled = [k for k in modes if quotient.merged_shape[k] > 1]
        merged = self._merged_marginal(coupled).reshape([quotient.merged_shape[k] for k in modes])
        for axis, k in enumerate(modes):
            density = merged / quotient.lengths[k].reshape(-1, *[1] * (len(modes) - axis - 1))
            merged = density.take(quotient.box_of(k), axis=axis)
        return merged

    def _merged_marginal(self, modes: list[int]) -> FloatArray:
        if not modes:
            return np.ones(())
        asked = np.zeros((1, len(self.model.support.shape)), dtype=np.int64)
        asked[0, modes] = 1
        tables, beliefs = self.tables, self.beliefs[1]
        home = int(tables.tree.homes(asked)[0])
        if not set(modes) <= set(tables.cliques[home].modes):
            tree = self.model.cliques_with(modes)
            if not tree.fits:
                raise InvalidQuery(
                    f"the joint distribution of modes {modes} needs tables of {size_name(tree.n_cells)} cells, since "
                    "the basis couples them through many others. Ask for fewer modes, or count them in samples."
                )
            tables = Tables(self.model, tree)
            beliefs, home = propagate(tables, self.theta)[1], int(tree.homes(asked)[0])
        clique = tables.cliques[home]
        others = tuple(axis for axis, k in enumerate(clique.modes) if k not in modes)
        sums = beliefs.margins[tables.matrices[home][0]].reshape(clique.shape).sum(axis=others)
        kept = [k for k in clique.modes if k in modes]
        return np.asarray(sums).transpose([kept.index(k) for k in modes])

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells: from the roots on, each clique's own modes given those it shares; levels of a box evenly."""
        quotient = self.model.quotient
        boxes = np.zeros((len(self.model.support.shape), n), dtype=np.int64)
        for c, (where, shape) in enumerate(self.tables.matrices):
            clique = self.tables.cliques[c]
            states = self.tables.flat(c, boxes) // shape[1]  # own modes are still 0
            drawn = _draw(self.beliefs[1].given[where].reshape(shape), states, generator)
            for axis in reversed(range(clique.shared, len(clique.modes))):
                drawn, boxes[clique.modes[axis]] = np.divmod(drawn, clique.shape[axis])
        for k, (cut, length) in enumerate(zip(quotient.cuts, quotient.shape, strict=True)):
            if len(cut) < length:
                ends = np.append(cut[1:], length)
                boxes[k] = generator.integers(cut[boxes[k]], ends[boxes[k]])
        return np.ascontiguousarray(boxes.T)

    def mode(self, tie: float) -> tuple[int, ...]:
        """Find the most probable cell: each mode's best level given the best of all others; of equals the first."""
        law, cell = self, dict.fromkeys(range(len(self.model.support.shape)), 0)
        left = list(cell)
        peak: float | None = None
        while left:
            peak, levels = law._best_levels(tie, peak)
            unsure = next((i for i, (_, alone) in enumerate(levels) if not alone), len(left) - 1)
            settled = {i: levels[i][0] for i in range(unsure + 1)}
            cell |= {left[i]: level for i, level in settled.items()}
            left = left[unsure + 1 :]
            if left:
                peak -= law._constant(settled)
                law = law.given(settled)
        return tuple(cell.values())

    def _constant(self, event: Mapping[int, int]) -> float:
        """Add up theta of what fixed modes alone decide."""
        fixed = np.zeros(self.model.basis.shape[1], dtype=np.int64)
        fixed[list(event)] = list(event.values())
        return float(self.theta[(self.model.basis <= fixed).all(axis=1)].sum())

    def _best_levels(self, tie: float, peak: float | None) -> tuple[float, list[tuple[int, bool]]]:
        """Return the largest sum of theta, and for each mode the first level that attains it, and if it alone does."""
        largest, parts = largest_sum(self.tables, self.tables.sums_below(self.theta))
        peak = largest if peak is None else min(peak, largest + tie)  # rounding may have moved it
        levels = []
        for k, home in enumerate(self.tables.tree.home):
            if home < 0:
                levels.append((0, True))
                continue
            clique, (where, _) = self.tables.cliques[home], self.tables.matrices[home]
            others = tuple(axis for axis, j in enumerate(clique.modes) if j != k)
            peaks = parts[where].reshape(clique.shape).max(axis=others)
            best = np.flatnonzero(peaks >= min(peak - tie, float(peaks.max())))
            levels.append((int(self.model.quotient.cuts[k][best[0]]), len(best) == 1))
        return peak, levels

    def log_square(self) -> float:
        """Return ``log sum of q^2`` over all cells: ``psi(2 theta) - 2 psi(theta)``."""
        return propagate(self.tables, 2.0 * self.theta)[0] - 2.0 * self.beliefs[0]


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
