"""Rank: which parameters are independent on the sample space.

The features ``zeta(u, .)``, u in B, may be linearly dependent (together with the constant) on Omega. Q is unique all
the same; theta is by holding the parameters left out here at 0 (large sets of margins, fitted by scaling, keep theirs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from legendre.core import limits
from legendre.core.sums.cell_sums import zeta_rows
from legendre.core.sums.linalg import independent_columns
from legendre.core.tied_parameters import Ties
from legendre.core.types import FloatArray, IntArray
from legendre.engines.choose import choose_engine
from legendre.engines.protocol import Engine
from legendre.model.cliques.tables import Tables, is_saturated, n_carrying, n_free
from legendre.model.model import Cliques, Model, generating_margins


@dataclass(frozen=True)
class Rank:
    """The number of independent parameters on the sample space."""

    n: int
    exact: bool = True  # False: there are at most n

    def __str__(self) -> str:
        return f"{self.n:,}" if self.exact else f"at most {self.n:,}"


def rank_of(model: Model, columns: IntArray | None = None) -> Rank:
    """Count the independent parameters: the degrees of freedom of the model.

    `columns` are those that `independent` found; ``None`` if it was not asked. If a basis is too large for its Fisher
    matrix, they are counted where a cheap argument does it; otherwise the result is an upper bound.
    """
    k = model.n_params
    if model.plain:
        return Rank(k)
    if _a_product(model):
        return Rank(n_free(model.tables))
    if model.ties is not None:
        return Rank(k, exact=False) if columns is None or k > limits.LARGEST_MATRIX else Rank(len(columns))
    if k == math.prod(model.quotient.merged_shape) - 1:  # all cells but the bottom span all functions
        return Rank(model.n_alive - 1)
    if columns is not None and (k <= limits.LARGEST_MATRIX or model.carries(model.positions).all()):
        return Rank(len(columns))
    most = Rank(min(k, max(model.n_alive - 1, 0)), exact=False)
    counted = _by_reference(model)
    return counted if counted is not None and (counted.exact or counted.n < most.n) else most


def _by_reference(model: Model) -> Rank | None:
    """Count the parameters of a set of margins: the cells of the margins that some cell of Omega belongs to.

    Choose a cell r of Omega. The model is spanned by the indicators of ``v_S = a``, S within a margin and a unlike r in
    every mode of it; those that no cell of Omega meets are 0. If for each other one the cell that is a on S and r
    elsewhere lies in Omega, these cells and indicators make a unitriangular matrix. Otherwise the number is a bound.
    """
    if generating_margins(model) is None:
        return None
    alive, every = model.alive, range(model.alive.ndim)
    seen = sum(alive.sum(axis=tuple(j for j in every if j != k), keepdims=True) for k in every)
    r = np.unravel_index(int(np.argmax(np.where(alive, seen, 0))), alive.shape)  # of levels that are seen most often
    most = least = 0
    for modes in model.patterns:
        unlike = np.ix_(*(np.delete(np.arange(alive.shape[k]), r[k]) for k in modes))
        margin = np.any(alive, axis=tuple(k for k in every if k not in modes))
        through = alive[tuple(slice(None) if k in modes else r[k] for k in every)]
        most += int(np.count_nonzero(margin[unlike]))
        least += int(np.count_nonzero(through[unlike]))
    return Rank(most, exact=most == least)


def independent(model: Model) -> IntArray:
    """List the rows of the basis that are kept: a maximal independent set.

    Where the box of every basis cell holds a cell of Omega the zeta matrix of those boxes is unitriangular; if some
    cell of Omega, such as the bottom, is above no basis cell, the constant is independent of the features too.
    Elsewhere a pivoted Cholesky factor of their covariance decides. Bases too large for a matrix are taken as they are;
    what depends on others costs theta its uniqueness, not Q (`rank_of` counts).
    """
    every = np.arange(model.n_params)
    if model.plain or model.n_params > limits.LARGEST_MATRIX:
        return every
    if _a_product(model):
        return _free_in_tables(model.tables)
    if model.ties is None and model.carries(model.positions).all():
        bottom = np.zeros((1, model.positions.shape[1]), dtype=np.int64)
        if model.carries(bottom)[0] or (model.below(np.ones(model.n_params))[model.alive] == 0).any():
            return every
    return every[independent_columns(covariance(model), model.n_cells)]


def _a_product(space: Model) -> TypeGuard[Cliques]:
    """Whether this is a face of a junction tree whose tables B fits completely, so that Q is a product of tables."""
    return isinstance(space, Cliques) and not space.whole and space.ties is None and is_saturated(space.tables)


def _free_in_tables(tables: Tables) -> IntArray:
    """List a maximal independent set of parameters, table by table of a junction tree.

    A table shares some modes with its parent. Given these modes, its other modes are independent of the rest of the
    tree. So a feature depends on others exactly if it does within its own table, up to functions of the shared modes:
    the mean given these modes is subtracted from every feature, and the rank of what is left is found.
    """
    assert tables.alive is not None
    kept, marks = [], tables.matrices(tables.alive)
    for c, rows in tables.by_clique():
        alive, clique = marks[c], tables.tree.cliques[c]
        if not alive.all():
            cells = np.argwhere(alive.reshape(clique.shape))
            features = zeta_rows(cells, tables.basis[rows][:, clique.modes])
            states = np.nonzero(alive)[0]  # of the shared modes, in the order of the cells
            means = np.zeros((len(alive), len(rows)))
            np.add.at(means, states, features)
            features -= (means / np.maximum(alive.sum(axis=1), 1)[:, None])[states]
            rows = rows[independent_columns(features.T @ features, len(cells))]
        kept.append(rows)
    return np.sort(np.concatenate(kept))


def covariance(model: Model, *, exact: float = 2.0**50, most_cells: int = 1_000_000) -> FloatArray:
    """Compute the covariance of the features under the uniform distribution on the n merged cells.

    Times n^2 they are integers, ``n N_ij - N_i N_j``, where N counts cells. Rounded to them, features that are nearly
    constant lose no digits to the difference. Integers up to `exact`, of up to `most_cells` cells, are known to less
    than a half.
    """
    if isinstance(model, Cliques):  # every cell of a box counts
        n, engine = n_carrying(model.tables), choose_engine(model)
    else:
        n, engine = model.n_alive, choose_engine(model.on_measure(model.alive.astype(np.float64)))
    g = engine.fisher(engine.at(np.zeros(model.n_params)))
    if model.ties is not None and not (model.ties.whole and model.ties.size**2 * float(n) ** 2 < exact):
        return _without_constants(g, engine, model.ties)
    if n <= most_cells:
        return np.rint(g * float(n) ** 2) / float(n) ** 2
    # A feature that is constant on Omega has variance 0; the difference eta - eta^2 may leave a rounding error instead.
    constant = np.rint(np.diagonal(g) * float(n) ** 2) == 0
    g[constant] = 0.0
    g[:, constant] = 0.0
    return g


def _without_constants(g: FloatArray, engine: Engine, ties: Ties) -> FloatArray:
    """Set the variance of tied features that are constant on Omega to exactly 0.

    Their values are real numbers with rounding errors, so that the computed variance may be a little above 0, and a
    constant feature would count as independent.
    """
    sizes, unit = ties.collect_sizes(np.ones(ties.n_cells)), np.zeros(ties.n_params)
    for j, size in enumerate(sizes.tolist()):
        unit[j] = 1.0 / size if size else 0.0
        if engine.swing(unit) <= 64 * float(np.finfo(np.float64).eps):
            g[j] = g[:, j] = 0.0
        unit[j] = 0.0
    return g
