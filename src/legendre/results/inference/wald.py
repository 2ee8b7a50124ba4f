"""The asymptotic covariance of theta: the inverse Fisher matrix over N, where theta is identified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidQuery
from legendre.core.sums.linalg import factorise
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.engines.choose import engine_for
from legendre.solvers.before.faces import diverging, features, unseen_directions
from legendre.solvers.before.rank import independent

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

ROWS = 1 << 22
"""Entries of the zeta matrix that are formed at a time."""
OPEN = "not identified: other values, with others changed as well, give the same Q"
INFINITE = "runs to infinity along fit.recession: the minimum is not attained"


@dataclass(frozen=True, eq=False)
class Information:
    """What the counts say of theta.

    Parameters
    ----------
    columns
        A maximal independent set of parameters on the cells that carry probability; the others are held at 0.
    sigma
        The covariance of these.
    reasons
        For each parameter of B why it has no standard error; empty where it has one.
    """

    columns: IntArray
    sigma: FloatArray
    reasons: tuple[str, ...]

    def covariance(self) -> FloatArray:
        """Covariance of all of theta; NaN in rows and columns of parameters that are not identified."""
        k = len(self.reasons)
        out = np.full((k, k), np.nan)
        good = np.array([not reason for reason in self.reasons], dtype=np.bool_)
        chosen = good[self.columns]
        at = self.columns[chosen]
        out[np.ix_(at, at)] = self.sigma[np.ix_(chosen, chosen)]
        return out


def information(fit: Decomposition) -> Information:
    """Invert the Fisher matrix on the face; find which parameters the face leaves open."""
    if fit.n_params > limits.LARGEST_MATRIX:
        raise InvalidQuery(
            f"standard errors need a Fisher matrix of {fit.n_params:,} x {fit.n_params:,}; at most "
            f"{limits.LARGEST_MATRIX:,} parameters are allowed. "
            "Tests of fit and Pearson or deviance residuals have no such limit."
        )
    model = fit.model.on_face(fit.alive)
    columns = independent(model)
    free = np.ones(fit.n_params, dtype=np.bool_)
    if len(columns) < fit.n_params:
        free = ~(unseen_directions(model, model.alive) != 0).any(axis=0)
    small = model.with_columns(columns)
    engine = engine_for(small)
    factor = factorise(engine.fisher(engine.at(fit.theta[columns])), small.n_merged)
    sigma = factor.solve(np.eye(len(columns))) / fit.total
    # what the factor left out has a variance beyond float64: as good as open
    free[np.delete(columns, factor.columns)] = False
    return Information(columns, (sigma + sigma.T) / 2, _reasons(free, fit.recession))


def _reasons(free: BoolArray, recession: FloatArray) -> tuple[str, ...]:
    reasons = np.where(free, "", np.where(diverging(recession), INFINITE, OPEN))
    return tuple(str(reason) for reason in reasons)


def leverages(fit: Decomposition, info: Information) -> FloatArray:
    """``h_v / mu_v`` on the merged grid: the hat matrix's diagonal of the weighted regression, per unit of the mean.

    ``1 / N + (z_v - eta)' sigma (z_v - eta)``, z_v being the row of zeta at v: the variance of ``log mu_v``.
    """
    model = fit.model.on_face(fit.alive).with_columns(info.columns)
    where = np.flatnonzero(model.alive)
    out = np.full(model.alive.shape, np.nan)
    step = max(1, ROWS // max(1, len(info.columns)))
    for start in range(0, len(where), step):
        part = np.zeros(model.alive.shape, dtype=np.bool_)
        part.ravel()[where[start : start + step]] = True
        centred = features(model, part) - fit.eta[info.columns]
        out[part] = 1.0 / fit.total + np.einsum("ij,ij->i", centred @ info.sigma, centred)
    return out
