"""Combinations of log means: which of them the cells with probability determine, their estimates and standard errors.

At the boundary theta itself runs to infinity, but many combinations of it stay finite: all those that can be written
with the cells that keep probability. Of the others some go to plus or minus infinity, whatever the way to the limit;
the rest have no limit at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidQuery
from legendre.core.memory import size_name
from legendre.core.types import BoolArray, FloatArray
from legendre.results.inference.wald import Information

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

SAME = 1e-8  # what is left of a combination that is 0 along a direction, relative to its terms: rounding
ONE_WAY = 1e-6  # what a linear program reports of a change that is 0
ESTIMABLE = ""
DIVERGES = "infinite: it needs cells that have mean 0 in the maximum likelihood estimate"
FIXED = "fixed by the model, no parameter of which enters it"
UNKNOWN = "not estimable: the cells with positive means do not determine it"


@dataclass(frozen=True, eq=False)
class Combined:
    """Estimates of some combinations; infinite, NaN or known beforehand where `reasons` says why."""

    estimates: FloatArray
    errors: FloatArray
    reasons: tuple[str, ...]


def combined(fit: Decomposition, info: Information, weights: FloatArray, constants: FloatArray) -> Combined:
    """Estimate combinations of theta and of the constant ``log N - psi``: one for each row of the weights (m x |B|)."""
    values = constants * (float(np.log(fit.total)) - fit.psi) + weights @ fit.theta
    centred = (weights - constants[:, None] * fit.eta)[:, info.columns]
    variances = constants**2 / fit.total + np.einsum("ij,ij->i", centred @ info.sigma, centred)
    errors = np.sqrt(np.maximum(variances, 0.0))
    fixed = (weights == 0).all(axis=1) & (constants == 0)
    reasons = np.where(fixed, FIXED, ESTIMABLE).astype(object)
    if not len(info.open):
        return Combined(values, errors, tuple(reasons))
    cone = _Cone.of(fit, info.open)
    changes, size = cone.changes(weights, constants)
    unseen = (np.abs(changes) > SAME * np.maximum(size, 1.0)).any(axis=1)
    for i in np.flatnonzero(unseen).tolist():
        sign = cone.sign(changes[i], cone.steepness(weights[i], constants[i]))
        values[i], errors[i] = (sign * np.inf if sign else np.nan), np.nan
        reasons[i] = DIVERGES if sign else UNKNOWN
    return Combined(values, errors, tuple(reasons))


@dataclass(frozen=True, eq=False)
class _Cone:
    """The directions in theta that keep Q where it has probability, and lower no less than nothing elsewhere."""

    directions: FloatArray  # m x |B|
    level: FloatArray  # by how much each direction raises all cells with probability
    falls: FloatArray  # how each direction (columns) changes each vanishing cell, relative to the others
    recession: FloatArray  # one that lowers every vanishing cell
    recession_level: float

    @classmethod
    def of(cls, fit: Decomposition, directions: FloatArray) -> _Cone:
        space = fit.model.space
        if space.form == "cliques" and space.n_cells > limits.LARGEST_GRID:
            raise InvalidQuery(
                "some cells vanish, and which combinations of parameters stay finite is looked for in all of "
                f"{size_name(space.n_cells)} merged cells, where at most {limits.LARGEST_GRID:,} are looked through. "
                "Standard errors of the parameters that do are in standard_errors; elsewhere merge levels."
            )
        support = fit.model.alive
        alive: BoolArray = support if fit.alive is None else space.on_grid(fit.alive)
        gone = support & ~alive
        level, falls = np.empty(len(directions)), np.empty((int(gone.sum()), len(directions)))
        for j, direction in enumerate(directions):
            grid = space.below(direction)
            level[j] = grid[alive][0]
            falls[:, j] = grid[gone] - level[j]
        own = space.below(fit.recession)
        return cls(directions, level, np.unique(falls.round(9), axis=0), fit.recession, float(own[alive].max()))

    def changes(self, weights: FloatArray, constants: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how combinations change along each direction, and the size of what was added up."""
        size = np.abs(weights) @ np.abs(self.directions.T) + np.abs(constants)[:, None] * np.abs(self.level)
        return weights @ self.directions.T - constants[:, None] * self.level, size

    def steepness(self, weights: FloatArray, constant: float) -> float:
        """Return how a combination changes along the direction of recession."""
        return float(weights @ self.recession - constant * self.recession_level)

    def sign(self, change: FloatArray, steepness: float) -> int:
        """Return the sign with which a combination diverges along every direction of the cone; 0 if that differs."""
        from scipy.optimize import linprog

        if abs(steepness) < ONE_WAY or not len(self.falls):
            return 0
        sign = 1 if steepness > 0 else -1
        none = np.zeros(len(self.falls))
        answer = linprog(sign * change, A_ub=self.falls, b_ub=none, bounds=(-1.0, 1.0), method="highs")
        return sign if answer.fun is not None and answer.fun > -ONE_WAY else 0
