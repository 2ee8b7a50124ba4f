"""The asymptotic covariance of theta: the inverse Fisher matrix over N, where theta is identified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.sums.linalg import factorise, limit_blas
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.engines.choose import check_fisher, engine_for
from legendre.solvers.structure.faces import diverging, feature_rows, open_directions
from legendre.solvers.structure.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

ROWS = 1 << 22  # entries of the zeta matrix that are formed at a time
OPEN = "not identified: other values, with others changed as well, give the same Q"
INFINITE = "runs to infinity along fit.recession: the minimum is not attained"


@dataclass(frozen=True, eq=False)
class Information:
    """The covariance of the parameters that are identified, and why others have none."""

    columns: IntArray  # a maximal independent set of parameters on the cells with probability; the others are held at 0
    sigma: FloatArray  # the covariance of these
    reasons: tuple[str, ...]  # for each parameter of B why it has no standard error; empty where it has one
    open: FloatArray  # directions in theta, m x |B|, that change Q on none of these cells: theta is known up to them

    def covariance(self) -> FloatArray:
        """Covariance of all of theta; NaN in rows and columns of parameters that are not identified."""
        out = np.full((len(self.reasons),) * 2, np.nan)
        chosen = np.array([not self.reasons[i] for i in self.columns], dtype=np.bool_)
        at = self.columns[chosen]
        out[np.ix_(at, at)] = self.sigma[np.ix_(chosen, chosen)]
        return out


def information(fit: Decomposition, missing: FloatArray | None = None) -> Information:
    """Invert the Fisher matrix on the face; find which parameters the face leaves open.

    `missing` is information that the data lack (per case, |B| x |B|): rows without a value of some variables.
    """
    unlimited = "Tests of fit and Pearson or deviance residuals have no such limit."
    check_fisher(fit.n_params, "standard errors need", unlimited)
    model = fit.model.on_face(fit.alive)
    columns, free = independent(model), np.ones(fit.n_params, dtype=np.bool_)
    directions = np.empty((0, fit.n_params))
    if len(columns) < fit.n_params:
        directions = open_directions(model, columns)
        free = ~(directions != 0).any(axis=0)
    engine = engine_for(model)
    # the matrix of all parameters: scaling gives dependent ones values of their own
    fisher = engine.fisher(engine.at(fit.theta))
    fisher = fisher if missing is None else fisher - missing
    whole = len(columns) == fit.n_params
    with limit_blas(fit.n_params):
        factor = factorise(fisher if whole else fisher[np.ix_(columns, columns)], model.space.n_summed)
        sigma = factor.solve(np.eye(len(columns))) / fit.total
    # the variance of what the factor left out is beyond float64: reported as not identified
    beyond = np.delete(columns, factor.columns)
    free[beyond] = False
    directions = np.concatenate([directions, np.eye(fit.n_params)[beyond]])
    reasons = np.where(free, "", np.where(diverging(fit.recession), INFINITE, OPEN))
    return Information(columns, (sigma + sigma.T) / 2, tuple(map(str, reasons)), directions)


def leverages(fit: Decomposition, info: Information, boxes: IntArray) -> FloatArray:
    """``h_v / mu_v`` of merged cells (k x N): the diagonal of the regression's hat matrix, per unit of the mean.

    ``1 / N + (z_v - eta)' sigma (z_v - eta)``, z_v being the row of zeta at v: the variance of ``log mu_v``.
    """
    model, eta = fit.model.with_columns(info.columns), fit.eta[info.columns]
    out = np.empty(len(boxes))
    step = max(1, ROWS // max(1, len(info.columns)))
    for start in range(0, len(boxes), step):
        centred = feature_rows(model, boxes[start : start + step]) - eta
        out[start : start + step] = 1.0 / fit.total + np.einsum("ij,ij->i", centred @ info.sigma, centred)
    return out


def leverage_grid(fit: Decomposition, info: Information) -> AnyArray:
    """Compute the same for every cell of X's grid; NaN for those that carry no probability."""
    alive = fit.model.on_face(fit.alive).alive
    out = np.full(alive.shape, np.nan)
    out[alive] = leverages(fit, info, np.argwhere(alive))
    return fit.model.quotient.spread(out)
