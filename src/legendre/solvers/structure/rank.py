"""Rank: which parameters are independent on the sample space.

The features ``zeta(u, .)``, u in B, may be linearly dependent (together with the constant) on Omega. Q is unique
nevertheless. Theta is made unique by holding the parameters that are left out here at 0 (large sets of margins, which
are fitted by scaling, keep all of theirs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from legendre.core import limits
from legendre.core.cells import other_modes
from legendre.core.sums.cell_sums import zeta_rows
from legendre.core.sums.linalg import independent_columns
from legendre.core.sums.quotient import sum_others
from legendre.core.types import FloatArray, IntArray
from legendre.engines.choose import choose_engine
from legendre.model.cliques.tables import Tables
from legendre.model.model import Cliques, Model, Packed, generating_margins


@dataclass(frozen=True)
class Rank:
    """The number of independent parameters on the sample space."""

    n: int
    exact: bool = True  # False: there are at most n

    def __str__(self) -> str:
        """Write the number as plans and errors show it."""
        return f"{self.n:,}" if self.exact else f"at most {self.n:,}"


def rank_of(model: Model, columns: IntArray | None = None) -> Rank:
    """Count the independent parameters: the degrees of freedom of the model.

    `columns` are the parameters that `independent` found, ``None`` if it was not called. It finds them by a matrix, and
    keeps all of a basis that is too large for one. Then a cheap argument may count the independent ones; otherwise the
    result is an upper bound.
    """
    k = model.n_params
    if model.plain:
        return Rank(k)
    if is_product(model):
        return Rank(model.tables.n_free)
    if model.ties is None and k == math.prod(model.quotient.merged_shape) - 1:  # B is all cells: it spans all functions
        return Rank(model.n_alive - 1)
    if columns is not None and (k <= limits.LARGEST_MATRIX or _are_independent(model)):
        return Rank(len(columns))
    if model.ties is not None or isinstance(model, (Cliques, Packed)):
        # what follows is about features of cells on a grid
        return Rank(k, exact=False)
    most = Rank(min(k, max(model.n_alive - 1, 0)), exact=False)
    counted = _count_by_reference(model)
    return counted if counted is not None and (counted.exact or counted.n < most.n) else most


def _count_by_reference(model: Model) -> Rank | None:
    """Count the independent parameters of a set of margins without a matrix; ``None`` for any other basis.

    Choose a reference cell r of Omega. The model is spanned by the indicators of ``v_S = a``, where S is a set of modes
    within a margin and a differs from r in every mode of S. Indicators that are 0 on Omega do not count (`most` counts
    the others). If for each of these the cell that is a on S and r elsewhere is in Omega (`least` counts such cells),
    the indicators have a unitriangular matrix on these cells, so they are independent. Otherwise the number is an upper
    bound.
    """
    if generating_margins(model) is None:
        return None
    alive, every = model.alive, range(model.alive.ndim)
    # the cell whose levels occur most often in Omega: most of the cells that differ from it on S only are there too
    occurrences = sum(alive.sum(axis=other_modes([k], alive.ndim), keepdims=True) for k in every)
    reference = np.unravel_index(int(np.argmax(np.where(alive, occurrences, 0))), alive.shape)
    most = least = 0
    for modes in model.patterns:
        unlike = np.ix_(*(np.delete(np.arange(alive.shape[k]), reference[k]) for k in modes))
        margin = sum_others(alive, modes) > 0
        through = alive[tuple(slice(None) if k in modes else reference[k] for k in every)]
        most += int(np.count_nonzero(margin[unlike]))
        least += int(np.count_nonzero(through[unlike]))
    return Rank(most, exact=most == least)


def independent(model: Model) -> IntArray:
    """List the numbers of a maximal independent set of parameters, in rising order.

    If no cheap argument finds it, a pivoted Cholesky factor of the covariance of the features does. All parameters are
    kept if there are too many for a matrix: theta may then not be unique, but Q is (`rank_of` counts them).
    """
    every = np.arange(model.n_params)
    if model.plain or model.n_params > limits.LARGEST_MATRIX:
        return every
    if is_product(model):
        return _find_free_in_tables(model.tables)
    return every if _are_independent(model) else independent_columns(covariance(model), model.n_summed)


def _are_independent(model: Model) -> bool:
    """Return whether it is easily seen that all parameters are independent, also of the constant.

    If the merged cell of every basis cell holds a cell of Omega, the zeta matrix on these cells is unitriangular, so
    all features are independent. If some cell of Omega, such as the bottom, is above no basis cell, the constant is
    independent of them too.
    """
    if isinstance(model, Packed) and model.tabled and model.ties is None:
        return _show_by_contrasts(model)
    if model.ties is not None or not model.carries(model.positions).all():
        return False
    if model.carries(np.zeros((1, model.positions.shape[1]), dtype=np.int64))[0]:
        return True
    if isinstance(model, (Cliques, Packed)):
        return False
    return bool((model.below(np.ones(model.n_params))[model.alive] == 0).any())


def _show_by_contrasts(model: Packed, tries: int = 64) -> bool:
    """Show that the parameters of a set of margins are independent, by cells of Omega that are drawn at random.

    Let u be a cell of B that is above 0 in the modes S. Take the cells that have on S, in all ways, a coordinate of u
    or 0, and elsewhere one background. A member of the model, summed over them with alternating signs, has only effects
    of S and of larger sets left. So if Omega holds all these cells for some background, larger sets determine the
    effect at u.
    """
    if generating_margins(model) is None:
        return False
    rng, left, quotient = np.random.default_rng(0), model.positions, model.quotient
    for _ in range(tries):
        used, drawn = left > 0, rng.integers(0, quotient.merged_shape, left.shape)
        inside = np.ones(len(left), np.bool_)
        number: IntArray = np.cumsum(used, axis=1) - 1  # of each mode of S
        for way in range(1 << max(map(len, model.patterns))):  # a bit for each mode of S
            inside &= model.support.contains(
                quotient.corners(np.where(used, left * (way >> np.maximum(number, 0) & 1), drawn))
            )
        left = left[~inside]
        if not len(left):
            return True
    return False


def is_product(space: Model) -> TypeGuard[Cliques]:
    """Return whether this is a face of a junction tree whose tables B fits completely: Q is a product of tables."""
    return isinstance(space, Cliques) and not space.whole and space.ties is None and space.tables.saturated


def _find_free_in_tables(tables: Tables) -> IntArray:
    """List a maximal independent set of parameters, table by table of a junction tree.

    A table shares some modes with its parent. Given these modes, its other modes are independent of the rest of the
    tree. A feature therefore depends on others if and only if it does so within its own table, up to functions of the
    shared modes. So the mean given the shared modes is subtracted from every feature, and the rank of the rest decides.
    """
    assert tables.alive is not None
    kept, marks = [], tables.matrices(tables.alive)
    for c, rows in tables.by_clique():
        alive, clique = marks[c], tables.tree.cliques[c]
        if not alive.all():
            cells = np.argwhere(alive.reshape(clique.shape))
            features = zeta_rows(cells, tables.positions[rows][:, clique.modes])
            states = np.nonzero(alive)[0]  # for each cell, the number of its combination of shared levels
            means = np.zeros((len(alive), len(rows)))
            np.add.at(means, states, features)
            features -= (means / np.maximum(alive.sum(axis=1), 1)[:, None])[states]
            rows = rows[independent_columns(features.T @ features, len(cells))]
        kept.append(rows)
    return np.sort(np.concatenate(kept))


def covariance(model: Model, *, exact: float = 2.0**50, most_cells: int = 1_000_000) -> FloatArray:
    """Compute the covariance of the features (k x k) under the uniform distribution on the n merged cells.

    It shows which features depend on others. Times n^2 the entries are integers, ``n N_ij - N_i N_j``, where N counts
    cells. They are rounded to these, so that features that are nearly constant lose no digits in the difference. That
    is possible for integers up to `exact` and for up to `most_cells` cells, where the error is less than 1/2.
    """
    if isinstance(model, (Cliques, Packed)):  # their engines count all unmerged cells
        n = model.support.n_cells if isinstance(model, Packed) else model.tables.n_carrying
        engine = choose_engine(model)
    else:
        n, engine = model.n_alive, choose_engine(model.on_measure(model.alive.astype(np.float64)))
    g = engine.fisher(engine.at(np.zeros(model.n_params)))
    ties = model.ties
    integral = ties is None or (ties.integral and n**2 < exact / ties.size**2)
    if integral and n <= most_cells:
        g *= float(n) ** 2
        np.rint(g, out=g)
        g /= float(n) ** 2
        return g
    # A feature that is constant on Omega has variance 0; the difference eta - eta^2 may leave a rounding error instead,
    # and the feature would count as independent. Values of tied features are bounded by their absolute coefficients.
    least: FloatArray | float = 0.5 / min(n, 10**100) ** 2  # n may be larger than any float
    if ties is not None and not integral:
        least = 64 * float(np.finfo(np.float64).eps) * ties.collect_sizes(np.ones(ties.n_cells)) ** 2
    constant = np.diagonal(g) <= least
    g[constant] = 0.0
    g[:, constant] = 0.0
    return g
