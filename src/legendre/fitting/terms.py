"""Sparse terms: the cells within the cliques of a graph whose parameters pay for themselves.

The basis grows from single columns. In each round the parameters are fitted roughly, and each cell of each clique is
scored: how much its parameter would raise the log-likelihood if it and those of the clique's other terms were fitted
again, to second order (Rao's score test). Cells with the largest scores are added, as long as a score is above the
price of a parameter. All cliques have tables, also of what is not a term, so one pass of messages scores all cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legendre.basis.interactions import blocks
from legendre.core import limits
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray, IntArray
from legendre.data.sparse import Sparse
from legendre.engines.junction import JunctionEngine
from legendre.fitting.growing.candidates import NOTHING, pick
from legendre.fitting.growing.state import LEAST_VARIANCE
from legendre.model.cliques.graph import Clique, clique_tree
from legendre.model.cliques.tables import Tables, clique_sums
from legendre.model.model import Cliques
from legendre.model.problem import Problem
from legendre.results.graph import InteractionGraph
from legendre.solvers.loop import Target, run
from legendre.solvers.newton import Natural, NaturalCG


def graph_tables(graph: InteractionGraph, cells: IntArray) -> Tables:
    """Lay out tables for all cliques of a graph, with the parameters of some cells (k x N) within these cliques."""
    shape = graph.labels.shape
    near = np.eye(len(shape), dtype=np.bool_)
    near[tuple(graph.ends.T)] = near[tuple(graph.ends.T[::-1])] = True
    return Tables(Quotient(shape, tuple(map(np.arange, shape))), cells, clique_tree(near, shape))


def choose_terms(graph: InteractionGraph, data: Sparse, price: float) -> IntArray:
    """Choose the cells (k x N) of a sparse basis: those of single columns, then those that gain more than `price`.

    `data` are the rows, with a pseudo-count that keeps all parameters finite; `price` is in nats of log-likelihood. A
    round adds at most a fifth of the basis, at least 8 cells, and none that gains less than a tenth of the best one:
    scores are computed once in a round, and are worth less after each addition. Growing ends at
    `limits.LARGEST_GROWN` cells beyond those of single columns. Rough fits leave an error of two rows in expectations.
    """
    shape = data.shape
    cells = blocks(shape, [(k,) for k in range(len(shape)) if shape[k] > 1])
    theta, most = np.zeros(len(cells)), len(cells) + limits.LARGEST_GROWN
    layout = graph_tables(graph, cells)
    hat = layout.cumulate(clique_sums(data, layout, data.total))
    with limit_blas(len(cells)):
        while True:
            tables = replace(layout, basis=cells)
            model = Cliques(data.support, None, cells, layout.quotient, cells, tables=tables)
            target = Target(JunctionEngine(model), Problem(data, model, hat[tables.positions]), 2.0 / data.total)
            solver = Natural() if len(cells) <= limits.LARGEST_MATRIX else NaturalCG()
            point = run(solver, target, theta, max_iter=6).point
            found, gains = _score_cells(tables, hat, tables.cumulate(point.cache.margins), price / data.total)
            best = np.argsort(-gains, kind="stable")[: min(max(8, len(cells) // 5), most - len(cells))]
            best = best[gains[best] >= 0.1 * gains.max(initial=0.0)]
            if not len(best):
                return cells[np.lexsort(cells.T[::-1])]
            cells, theta = np.concatenate([cells, found[best]]), np.append(point.theta, np.zeros(len(best)))


def _score_cells(tables: Tables, hat: FloatArray, eta: FloatArray, price: float) -> tuple[IntArray, FloatArray]:
    """List cells that gain more than `price` each, (n x N), and their gains in KL.

    `hat` and `eta` are the expectations of the data and of the fit at all cells of the tables. Cells of different
    cliques are scored without regard to each other.
    """
    cells, gains = [np.empty((0, len(tables.tree.home)), dtype=np.int64)], [np.empty(0)]
    used = tables.basis > 0
    for clique, p, q in zip(tables.tree.cliques, tables.matrices(hat), tables.matrices(eta), strict=True):
        inside = np.isin(np.arange(used.shape[1]), clique.modes)
        terms = tables.basis[~used[:, ~inside].any(axis=1)][:, clique.modes]
        found, gain = _score_clique(clique, p.ravel(), q.ravel(), terms, max(price, NOTHING))
        cells.append(np.zeros((len(found), len(inside)), dtype=np.int64))
        cells[-1][:, clique.modes] = found
        gains.append(gain)
    return np.concatenate(cells), np.concatenate(gains)


def _score_clique(
    clique: Clique, p: FloatArray, q: FloatArray, terms: IntArray, price: float,
    order: int = 3, listed: int = 128, most: int = 4,
) -> tuple[IntArray, FloatArray]:  # fmt: skip
    """Choose up to `most` cells of a clique (n x modes) by score tests, each given `terms` and those before it.

    `p` and `q` are expectations at the table's cells. Cells of at most `order` modes are scored that are not all in
    the parent. Only the `listed` best by the score without other terms are compared, if that is at least a third of the
    price.
    """
    place = np.ravel_multi_index(tuple(terms.T), clique.shape)
    coordinates = np.indices(clique.shape).reshape(len(clique.shape), -1)
    n_used = np.count_nonzero(coordinates, axis=0)
    variance, slope = q * (1.0 - q), p - q
    usable = (n_used > 1) & (n_used <= order) & coordinates[clique.shared :].any(axis=0) & (variance > LEAST_VARIANCE)
    usable[place] = False
    score = np.divide(slope**2, 2.0 * variance, out=np.zeros_like(q), where=usable)
    best = np.argsort(-score, kind="stable")[:listed]
    best = best[score[best] > price / 3.0]
    cells = coordinates.T[best]

    def covariances(one: IntArray, other: IntArray) -> FloatArray:
        """Return the covariances of the features of cells: the product of two features is that of their join."""
        joins = np.maximum(one[:, None], other)
        ends = (q[np.ravel_multi_index(tuple(each.T), clique.shape)] for each in (one, other))
        return np.asarray(q[np.ravel_multi_index(tuple(np.moveaxis(joins, -1, 0)), clique.shape)] - np.outer(*ends))

    across = covariances(terms, cells)
    # what the terms leave of the covariances, in units of standard deviations; lstsq, since terms may be dependent
    left = covariances(cells, cells) - across.T @ np.linalg.lstsq(covariances(terms, terms), across)[0]
    deviation = np.sqrt(variance[best])
    chosen, gains, _ = pick(left / np.outer(deviation, deviation), slope[best] / deviation, most, price, 1e-3)
    return cells[chosen], gains
