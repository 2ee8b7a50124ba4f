"""Rank: which parameters are independent on the sample space.

The features ``zeta(u, .)``, u in B, may be linearly dependent (together with the constant) on Omega. Q is unique all
the same; theta is made unique by holding the parameters left out here at 0 (but large sets of margins that
are fitted by scaling keep all of theirs).
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

    Where the box of every basis cell holds a cell of Omega the zeta matrix of those boxes is unitriangular. If some
    cell of Omega, such as the bottom, is above no basis cell, the constant is independent of the features too, so that
    nothing need be computed. Elsewhere a pivoted Cholesky factor of the features' covariance decides, under any
    positive distribution. Bases too large for a matrix are searched for a dependence on the constant only, the one
    there is when every basis cell is in Omega; what is not found costs theta its uniqueness, not Q.
    """
    every = np.arange(model.n_params)
    if model.measure is None:
        return every
    reached = bool(model.carries(model.positions).all())
    if reached and _constant_is_independent(model):
        return every
    if model.n_params > limits.LARGEST_MATRIX:
        return _without_a_matrix(model) if reached else every
    return every[independent_columns(covariance(model), model.n_merged)]


def _constant_is_independent(model: Model) -> bool:
    """Whether some cell of Omega, such as the bottom, is above no basis cell."""
    if model.carries(np.zeros((1, model.positions.shape[1]), dtype=np.int64))[0]:
        return True
    return bool((model.space.below(np.ones(model.n_params))[model.alive] == 0).any())


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


def _without_a_matrix(model: Model) -> IntArray:
    """Find whether the features, independent in themselves, make up the constant; if so one of them is left out.

    Coefficients are found cell by cell upwards (cells of one coordinate sum are incomparable), in whole numbers.
    """
    every, coefficients = np.arange(model.n_params), _upwards(model)
    if (model.space.below(coefficients)[model.alive] != 1.0).any():
        return every
    return np.delete(every, np.flatnonzero(coefficients)[-1])


def _upwards(model: Model) -> FloatArray:
    """Find coefficients whose sum at or below each basis cell is 1, cell by cell upwards.

    Cells of one coordinate sum are found together; in a long list there are about as many sums as cells, so that one
    pass over the cells above each is cheaper.
    """
    level, coefficients = model.positions.sum(axis=1), np.zeros(model.n_params)
    if model.space.form != "list":
        for s in np.unique(level):
            here = np.flatnonzero(level == s)
            coefficients[here] = 1.0 - model.space.below_at(coefficients, model.positions[here])
        return coefficients
    columns, below = np.asfortranarray(model.positions), np.zeros(model.n_params)
    for i in np.argsort(level, kind="stable"):
        coefficients[i] = 1.0 - below[i]
        if coefficients[i]:
            below[above(columns, columns[i])] += coefficients[i]
    return coefficients
