"""Sparse terms: the cells within the cliques of a graph whose parameters pay for themselves.

The basis grows from single columns. In each round the parameters are fitted roughly, and each cell of each clique is
scored: how much its parameter would raise the log-likelihood if it and those of the clique's other terms were fitted
again, to second order (Rao's score test). Cells with the largest scores are added, as long as a score is above the
price of a parameter. All cliques have tables, also of what is not a term, so one pass of messages scores all cells.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legendre.basis.basis import Cells
from legendre.basis.interactions import blocks
from legendre.core import limits
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray, IntArray
from legendre.data.sparse import Sparse
from legendre.fitting.fit import Settings, fit_on
from legendre.fitting.growing.candidates import NOTHING, pick
from legendre.fitting.growing.state import LEAST_VARIANCE
from legendre.model.cliques.graph import clique_tree
from legendre.model.cliques.tables import Tables
from legendre.results.graph import InteractionGraph


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
    cells = blocks(data.shape, [(k,) for k in range(data.n_modes) if data.shape[k] > 1])
    theta, most = np.zeros(len(cells)), len(cells) + limits.LARGEST_GROWN
    layout, settings = graph_tables(graph, cells), Settings.read(tol=2.0 / data.total, max_iter=6)
    hat = layout.cumulate(layout.sum_entries(data, data.total))
    while len(cells):  # none if every column has one level
        theta, tables = fit_on(data, Cells(cells), settings, start=theta).theta, replace(layout, positions=cells)
        eta = tables.cumulate(tables.propagate(theta)[1].margins)
        with limit_blas(len(cells)):
            scored = [score_clique(tables, c, hat, eta, price / data.total) for c in range(len(tables.tree.cliques))]
        found, gains = map(np.concatenate, zip(*scored, strict=True))
        best = np.argsort(-gains, kind="stable")[: min(max(8, len(cells) // 5), most - len(cells))]
        best = best[gains[best] >= 0.1 * gains.max(initial=0.0)]
        if not len(best):
            break
        cells, theta = np.concatenate([cells, found[best]]), np.append(theta, np.zeros(len(best)))
    return cells


def score_clique(
    tables: Tables, c: int, hat: FloatArray, eta: FloatArray, price: float,
    order: int = 3, listed: int = 128, most: int = 4,
) -> tuple[IntArray, FloatArray]:  # fmt: skip
    """List up to `most` cells (n x N) of clique c by score tests, and what each gains in KL, more than `price`.

    Each is scored given the terms within the clique, and those before it in the list. `hat` and `eta` are the
    expectations of the data and of the fit at all cells of all tables. Cells of at most `order` modes are scored that
    are not all in the parent. Only the `listed` best by the score without other terms are compared, if that is at least
    a third of the price.
    """
    clique, p, q = tables.tree.cliques[c], tables.matrices(hat)[c].ravel(), tables.matrices(eta)[c].ravel()
    used, terms = np.count_nonzero(tables.positions, axis=1), tables.positions[:, clique.modes]
    terms = terms[np.count_nonzero(terms, axis=1) == used]

    def place(cells: IntArray) -> IntArray:
        """Return the place of cells, whose coordinates are on the last axis, in the table."""
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(cells, -1, 0)), clique.shape))

    def covariances(one: IntArray, other: IntArray) -> FloatArray:
        """Return the covariances of the features of cells: the product of two features is that of their join."""
        return np.asarray(q[place(np.maximum(one[:, None], other))] - np.outer(q[place(one)], q[place(other)]))

    every = np.indices(clique.shape).reshape(len(clique.shape), -1).T
    size, variance, slope = np.count_nonzero(every, axis=1), q * (1.0 - q), p - q
    usable = (size > 1) & (size <= order) & every[:, clique.shared :].any(axis=1) & (variance > LEAST_VARIANCE)
    usable[place(terms)] = False
    score = np.divide(slope**2, 2.0 * variance, out=np.zeros_like(q), where=usable)
    best = np.argsort(-score, kind="stable")[:listed]
    best = best[score[best] > max(price, NOTHING) / 3.0]
    cells, deviation = every[best], np.sqrt(variance[best])
    across = covariances(terms, cells)
    # what the terms leave of the covariances; lstsq, since terms may be dependent
    left = covariances(cells, cells) - across.T @ np.linalg.lstsq(covariances(terms, terms), across)[0]
    scaled = left / np.outer(deviation, deviation)
    chosen, gains, _ = pick(scaled, slope[best] / deviation, most, max(price, NOTHING), 1e-3)
    found = np.zeros((len(chosen), len(tables.tree.home)), dtype=np.int64)
    found[:, clique.modes] = cells[chosen]
    return found, gains
