"""The state of a growing basis: cells, theta, eta, and on demand the Fisher factor, in place of finished results.

Faces and rank are not computed between rounds. Two rules, applied cell by cell, take out what surely vanishes; the
factor drops dependent parameters; the last fit, an ordinary one, does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import limits, stored
from legendre.core.sums.linalg import factorise
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.engines.choose import engine_for
from legendre.model.dual import probabilities
from legendre.model.model import Model
from legendre.model.problem import MergedData, Problem
from legendre.model.space import Grid
from legendre.results.rounds import Round
from legendre.solvers.loop import run
from legendre.solvers.natural import Natural
from legendre.solvers.protocol import Evaluation, Target

FARTHEST = 1e100  # no step leads to theta this large, whose square is still a number
ROUGH_TOL, ROUGH_STEPS = 1e-6, 10
"""Fits between rounds need not be exact, but a residual that is left must not look like the gain of a cell nearby."""


@dataclass(frozen=True, eq=False)
class Ground:
    """X and sums of it: what stays the same while a basis grows."""

    data: Dense
    p: FloatArray  # X as probabilities on the whole grid
    eta_hat: FloatArray  # sums of p at or above each cell
    negentropy: float  # the sum of p log(p / r): KL(P, Q) less the objective
    seen: FloatArray | None  # the number of cells with data at or above each cell; None when X > 0 on the support

    @classmethod
    def of(cls, data: Dense) -> Ground:
        """Sum X up once."""
        p = probabilities(data)
        seen = None if data.positive else zeta_adjoint((p > 0).astype(np.float64))
        return cls(data, p, zeta_adjoint(p), data.negentropy(), seen)

    def unpack(self, arrays: Mapping[str, Any], prefix: str = "") -> Grown:
        """Evaluate a state that `Grown.pack` listed: the same bits, without the steps that led there."""
        cells = stored.cells(arrays, f"{prefix}cells", self.p.shape)
        dead = self.vanishing(cells)
        target, theta = self._target(cells, dead), stored.floats(arrays, f"{prefix}theta", len(cells))
        if np.abs(theta).max(initial=0.0) > FARTHEST:
            raise ValueError(f"{prefix}theta is as large as {np.abs(theta).max():g}")
        with np.errstate(all="ignore"):  # theta of a file may be anything
            return Grown(self, cells, target, target.at(theta), dead)

    def fitted(self, cells: IntArray, theta: FloatArray, dead: BoolArray | None) -> Grown:
        """Fit some cells, starting from theta; from 0 where that does not lead there."""
        target, solver = self._target(cells, dead), Natural(polish=False)
        end = run(solver, target, theta, ROUGH_STEPS)
        if end.history[-1].residual > ROUGH_TOL:
            # where parameters have become dependent, theta may be a bad start
            again = run(solver, target, np.zeros(len(cells)), solver.max_iter)
            end = min(end, again, key=lambda end: end.history[-1].residual)
        return Grown(self, cells, target, end.point, dead)

    def _target(self, cells: IntArray, dead: BoolArray | None) -> Target:
        data, weights = self.data, self._weights(dead)
        quotient, positions, mass = self._every_cell, cells, self.p
        if self.p.size > limits.ONE_BLOCK:  # below, merging takes longer than it saves
            quotient = Quotient.of(self.p.shape, cells)
            positions, mass = quotient.boxes(cells), quotient.merge(self.p)
            weights = None if weights is None else quotient.merge(weights)
        model = Model(data.support, data.base, cells, Grid(quotient, positions, weights))
        problem = Problem(data, model, self.eta_hat[tuple(cells.T)], MergedData(data, model, given=mass))
        return Target(engine_for(model, products=True), problem, ROUGH_TOL)

    @cached_property
    def _every_cell(self) -> Quotient:
        return Quotient(self.p.shape, tuple(np.arange(n) for n in self.p.shape))

    def _weights(self, dead: BoolArray | None) -> FloatArray | None:
        """Return the measure of each cell; ``None`` on a full grid without a base measure."""
        mask, base = self.data.support.mask, self.data.base
        if mask is None and base is None and dead is None:
            return None
        weights = np.ones(self.p.shape) if base is None else base.copy()
        if mask is not None:
            weights[~mask] = 0.0
        if dead is not None:
            weights[dead] = 0.0
        return weights

    def vanishing(self, cells: IntArray, known: int = 0, dead: BoolArray | None = None) -> BoolArray | None:
        """Mark the cells that surely vanish in the limit under a basis; `dead` has those of its first `known` cells.

        Let n_u be the number of cells with data at or above u. (i) ``n_u = 0``: all above u vanishes. (ii) u below w,
        both in B or u the bottom, ``n_u = n_w``: what is above u but not above w vanishes.
        """
        if self.seen is None:
            return None
        out = np.zeros(self.p.shape, dtype=np.bool_) if dead is None else dead.copy()
        corners = _with_bottom(cells)
        counts = self.seen[tuple(corners.T)]
        for i in range(known + 1, len(corners)):
            if counts[i] == 0:
                out[_above(corners[i])] = True
                continue
            for j in np.flatnonzero(counts[:i] == counts[i]).tolist():
                low, high = (j, i) if (corners[j] <= corners[i]).all() else (i, j)
                if (corners[low] <= corners[high]).all():
                    kept = out[_above(corners[high])].copy()
                    out[_above(corners[low])] = True
                    out[_above(corners[high])] = kept
        return out if out.any() else None

    def pinned(self, cells: IntArray) -> BoolArray:
        """Mark the cells of a basis that keep others empty, see `vanishing`: their parameters run to infinity."""
        if self.seen is None:
            return np.zeros(len(cells), dtype=np.bool_)
        corners = _with_bottom(cells)
        counts = self.seen[tuple(corners.T)]
        out: BoolArray = counts == 0
        for i in np.flatnonzero(~out).tolist():
            alike = np.flatnonzero(counts == counts[i])
            under = alike[(corners[alike] <= corners[i]).all(axis=1) & (alike != i)]
            out[under] = True
            out[i] |= bool(len(under))
        return out[1:]


def _above(u: IntArray) -> tuple[slice, ...]:
    return tuple(slice(int(i), None) for i in u)


def _with_bottom(cells: IntArray) -> IntArray:
    return np.concatenate([np.zeros((1, cells.shape[1]), dtype=np.int64), cells])


@dataclass(frozen=True, eq=False)
class Grown:
    """A basis and its fit, to `ROUGH_TOL`."""

    ground: Ground
    cells: IntArray  # the basis, k x N
    target: Target  # the problem on these cells
    point: Evaluation  # where its fit ended: theta, eta and psi
    dead: BoolArray | None  # cells of the grid that vanish

    @cached_property
    def kl(self) -> float:
        """KL(P, Q)."""
        return max(self.ground.negentropy + self.point.objective, 0.0)

    @cached_property
    def q(self) -> FloatArray:
        """Q on the whole grid."""
        model, ground = self.target.problem.model, self.ground
        merged = np.exp(self.target.engine.log_probabilities(self.point))
        if merged.shape == ground.p.shape:
            return merged
        density = np.divide(merged, model.weights, out=np.zeros_like(merged), where=model.weights > 0)
        q, measure = model.quotient.spread(density), ground._weights(self.dead)
        return q if measure is None else q * measure

    @cached_property
    def eta(self) -> FloatArray:
        """The sums of Q at or above each cell of the grid."""
        if self.target.problem.model.quotient.merged_shape == self.ground.p.shape:
            return self.target.engine.eta_everywhere(self.point)
        return zeta_adjoint(self.q)

    def losses(self) -> FloatArray:
        """Return how much KL would rise, to second order, if one parameter were 0 and the others moved to make up.

        That is ``theta_u^2 / (2 (G^-1)_uu)``, half of Wald's statistic for each observation. A parameter that diverges
        keeps cells empty, where no expansion holds: its loss is infinite.
        """
        factor = factorise(self.target.engine.fisher(self.point), self.ground.data.support.n_cells)
        variance = factor.inverse_diagonal()
        finite = np.divide(self.point.theta**2, 2.0 * variance, out=np.zeros_like(variance), where=variance > 0)
        return np.where(self.ground.pinned(self.cells), np.inf, finite)

    def round(self) -> Round:
        """Measure the size of the basis and how well it fits."""
        data = self.ground.data
        difference = data.values / np.float64(data.total) - self.q  # in float64, whatever the type of X is
        if data.missing is not None:
            difference = difference[~data.missing]
        top = float(np.abs(difference).max(initial=0.0))  # squares in its unit do not leave the range of float64
        shares = difference / top if 0 < top < np.inf else difference
        rmse = float(np.sqrt(np.mean(shares**2))) * (top or 1.0) * data.total
        return Round.measured(len(self.cells), self.kl, rmse, data.total)

    def pack(self, prefix: str = "") -> dict[str, Any]:
        """List the arrays that `Ground.unpack` needs."""
        return {f"{prefix}cells": self.cells, f"{prefix}theta": self.point.theta}

    def extended(self, new: IntArray) -> Grown:
        """Add cells and fit again."""
        cells, theta = np.concatenate([self.cells, new]), np.concatenate([self.point.theta, np.zeros(len(new))])
        return self.ground.fitted(cells, theta, self.ground.vanishing(cells, len(self.cells), self.dead))

    def shortened(self, gone: IntArray) -> Grown:
        """Leave cells out, by position, and fit again."""
        cells = np.delete(self.cells, gone, axis=0)
        return self.ground.fitted(cells, np.delete(self.point.theta, gone), self.ground.vanishing(cells))
