"""Rank: which parameters are independent on the sample space.

The features ``zeta(u, .)``, u in B, may be linearly dependent (together with the constant) on Omega. Q is unique all
the same; theta is by holding the parameters left out here at 0 (large sets of margins, fitted by scaling, keep theirs).
"""

from __future__ import annotations

import numpy as np

from legendre.core import limits
from legendre.core.sums.cell_sums import above
from legendre.core.sums.linalg import independent_columns
from legendre.core.types import FloatArray, IntArray
from legendre.engines.choose import engine_for
from legendre.model.model import Model


def independent(model: Model) -> IntArray:
    """List the rows of the basis that are kept: a maximal independent set.

    Where the box of every basis cell holds a cell of Omega the zeta matrix of those boxes is unitriangular; if some
    cell of Omega, such as the bottom, is above no basis cell, the constant is independent of the features too.
    Elsewhere a pivoted Cholesky factor of their covariance decides. Bases too large for a matrix are searched for a
    dependence on the constant only; what is not found costs theta its uniqueness, not Q.
    """
    every = np.arange(model.n_params)
    if model.measure is None:
        return every
    reached = bool(model.carries(model.positions).all())
    if reached:
        bottom = np.zeros((1, model.positions.shape[1]), dtype=np.int64)
        if model.carries(bottom)[0] or (model.space.below(np.ones(model.n_params))[model.alive] == 0).any():
            return every
    if model.n_params > limits.LARGEST_MATRIX:
        if not reached or (model.space.below(makes_one := _upwards(model))[model.alive] != 1.0).any():
            return every
        return np.delete(every, np.flatnonzero(makes_one)[-1])  # the features make up the constant: one is left out
    return every[independent_columns(covariance(model), model.n_merged)]


def covariance(model: Model) -> FloatArray:
    """Compute the covariance of the features under the uniform distribution on the merged cells."""
    n = int(model.alive.sum())
    engine = engine_for(model.on_measure(model.alive.astype(np.float64)))
    g = engine.fisher(engine.at(np.zeros(model.n_params)))
    # A feature that is constant on Omega has variance 0; the difference eta - eta^2 may leave a rounding error instead.
    constant = np.rint(np.diagonal(g) * float(n) ** 2) == 0
    g[constant] = 0.0
    g[:, constant] = 0.0
    return g


def _upwards(model: Model) -> FloatArray:
    """Find coefficients, whole numbers, whose sum at or below each basis cell is 1, cell by cell upwards."""
    level, coefficients = model.positions.sum(axis=1), np.zeros(model.n_params)
    if model.space.form != "list":
        for s in np.unique(level):  # cells of one coordinate sum are incomparable; in a list such cells are few
            here = np.flatnonzero(level == s)
            coefficients[here] = 1.0 - model.space.below_at(coefficients, model.positions[here])
        return coefficients
    columns, below = np.asfortranarray(model.positions), np.zeros(model.n_params)
    for i in np.argsort(level, kind="stable"):
        coefficients[i] = 1.0 - below[i]
        if coefficients[i]:
            below[above(columns, columns[i])] += coefficients[i]
    return coefficients
