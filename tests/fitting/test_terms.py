"""Sparse terms within the cliques of a graph: planted ones are found, scores are those of the definition."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.basis.graph import Graph
from legendre.core.types import FloatArray, IntArray
from legendre.fitting.columns import Columns, find_graph
from legendre.fitting.terms import _score_cells, choose_terms, graph_tables
from legendre.model.cliques.tables import clique_sums, propagate

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = (2, 3, 2, 2, 2)
STATES = np.array(list(product(*map(range, SHAPE))))
PLANTED = [(1, 2, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 1, 1, 1), (1, 0, 0, 0, 1)]


def features(cells: IntArray) -> FloatArray:
    return (STATES[:, None] >= np.asarray(cells)).all(axis=-1).astype(float)


def draw_rows(n: int = 20_000, seed: int = 0) -> IntArray:
    """Draw rows of a log-linear model with the planted terms."""
    logs = features(np.array(PLANTED)) @ np.array([1.2, -1.0, 1.5, 0.8]) - 0.3 * STATES.sum(axis=1)
    q = np.exp(logs) / np.exp(logs).sum()
    return np.asarray(STATES[np.random.default_rng(seed).choice(len(q), n, p=q)])


def test_planted_terms_are_found_with_their_tests(tmp_path: Path) -> None:
    rows = draw_rows()
    fit = ld.decompose(rows, ld.graph(terms="sparse"))
    assert fit.converged
    found = {tuple(cell) for cell in fit.basis.tolist() if np.count_nonzero(cell) > 1}
    assert found >= set(PLANTED)
    assert len(found) <= len(PLANTED) + 1  # a term that paid before another was added
    assert len(fit.parameters().to_frame()) == 6 + len(found)
    assert np.isfinite(fit.parameters().to_frame()["standard_error"]).all()
    assert fit.recipe == "graph('bic', terms='sparse')"
    fit.save(tmp_path / "fit.npz")
    again = ld.load(tmp_path / "fit.npz")
    assert_allclose(again.graph.cells, fit.basis)
    machine = ld.BoltzmannMachine(ld.graph(terms="sparse"), n_levels=SHAPE).fit(rows)
    assert (2, 3, 4) in machine.weights_
    assert (0, 1) in machine.weights_


def test_scores_are_score_tests() -> None:
    """In one clique, the gain of a cell is g^2 / (2 s), where s is the variance that all terms leave."""
    rows = draw_rows(500)
    data = Columns.of(rows, None, SHAPE).smoothed(1.0)
    graph = find_graph(Graph(0.0, 64), data)
    assert len(graph.cliques) == 1
    cells = np.concatenate([ld.interactions(1).select(data), np.array(PLANTED[:1])])
    theta = np.random.default_rng(1).normal(0, 0.3, len(cells))
    tables = graph_tables(graph, cells)
    hat = tables.cumulate(clique_sums(data, tables, data.total))
    eta = tables.cumulate(propagate(tables, theta)[1].margins)
    found, gains = _score_cells(tables, hat, eta, 0.0)
    q = np.exp(features(cells) @ theta)
    q /= q.sum()
    p = (data.dense.values / data.total).ravel()
    best = max((c for c in product(*map(range, SHAPE)) if 1 < np.count_nonzero(c) <= 3 and c not in PLANTED[:1]),
               key=lambda c: slow_gain(c, cells, p, q))  # fmt: skip
    assert tuple(found[0]) == best
    assert gains[0] == pytest.approx(slow_gain(best, cells, p, q), rel=1e-9)


def slow_gain(cell: tuple[int, ...], cells: IntArray, p: FloatArray, q: FloatArray) -> float:
    z, Z = features(np.array([cell]))[:, 0], features(cells)
    z, Z = z - q @ z, Z - q @ Z
    rest = z - Z @ np.linalg.lstsq((Z * q[:, None]).T @ Z, (Z * q[:, None]).T @ z)[0]
    return float(((p - q) @ z) ** 2 / (2 * q @ rest**2))


def test_a_density_has_the_fitted_distribution() -> None:
    rows = draw_rows(300)[:, [1, 0, 2, 4, 3]]
    density = ld.LegendreDensity(ld.graph("aic", terms="sparse")).fit(rows)
    states = STATES[:, [1, 0, 2, 4, 3]]
    fit = density.decomposition_
    assert fit.converged
    assert density.alpha_ == 1.0
    q = np.exp(density.score_samples(states))
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    Z = (states[:, None] >= fit.basis).all(axis=-1)
    assert_allclose(np.log(q), Z @ fit.theta - fit.psi, atol=1e-9)
    counts = np.array([(rows == state).all(axis=1).sum() for state in states]) + 1 / len(states)
    assert_allclose(Z.T @ q, Z.T @ counts / counts.sum(), atol=1e-9)
    gap = np.array([[np.nan, 1.0, np.nan, 0.0, 1.0]])
    inside = (states[:, [1, 3, 4]] == [1, 0, 1]).all(axis=1)
    assert density.score(gap) == pytest.approx(np.log(q[inside].sum()), abs=1e-12)


def test_cells_that_vanish_have_no_probability() -> None:
    """Columns that exclude each other: without a pseudo-count their term falls without end."""
    rows = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 1], [0, 0, 1]] * 20)
    density = ld.LegendreDensity(ld.graph(terms="sparse"), alpha=0.0).fit(rows)
    logs = density.score_samples(np.array(list(product((0, 1), repeat=3))))
    assert np.exp(logs).sum() == pytest.approx(1.0, abs=1e-9)
    assert logs[6] == logs[7] == -np.inf


def test_held_out_rows_choose_the_price() -> None:
    rows = draw_rows(600)
    fit = ld.decompose(rows, ld.graph("held-out", terms="sparse"))
    assert fit.graph is not None
    assert fit.graph.penalty <= 0.5 * np.log(600) + 1e-12
    assert len(choose_terms(fit.graph, Columns.of(rows, None, SHAPE).smoothed(1.0), np.inf)) == 6


def test_terms_need_complete_rows() -> None:
    gaps = np.where(np.arange(5) == 2, np.nan, draw_rows(50)[:1].repeat(50, 0))
    gaps[::2, 2] = 1
    for rows, classes in ((gaps, None), (draw_rows(50), 2)):
        with pytest.raises(ld.LegendreError, match="sparse terms are for rows without gaps or classes"):
            ld.LegendreDensity(ld.graph(terms="sparse"), classes=classes).fit(rows)
    with pytest.raises(ld.LegendreError, match="graph: terms must be 'tables' or 'sparse', got 'few'"):
        ld.graph(terms="few")  # type: ignore[arg-type]
