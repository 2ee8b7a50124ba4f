"""Sparse terms within the cliques of a graph: planted ones are found, and scores are those of the definition."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.basis.graph import Graph
from legendre.core.types import FloatArray, IntArray
from legendre.fitting.columns import CodedRows, find_graph
from legendre.fitting.terms import graph_tables, score_clique

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = (2, 3, 2, 2, 2)
STATES = np.array(list(product(*map(range, SHAPE))))
PLANTED = np.array([(1, 2, 0, 0, 0), (0, 1, 1, 0, 0), (0, 0, 1, 1, 1), (1, 0, 0, 0, 1)])


def features(cells: IntArray) -> FloatArray:
    return (STATES[:, None] >= cells).all(axis=-1).astype(float)


def distribution(cells: IntArray, theta: FloatArray) -> FloatArray:
    q = np.exp(features(cells) @ theta)
    return np.asarray(q / q.sum())


def draw_rows(n: int) -> IntArray:
    q = distribution(PLANTED, np.array([1.2, -1.0, 1.5, 0.8]))
    return np.asarray(STATES[np.random.default_rng(0).choice(len(q), n, p=q)])


@pytest.mark.parametrize("criterion", ["bic", "held-out"])
def test_planted_terms_are_found(criterion: str, tmp_path: Path) -> None:
    fit = ld.decompose(draw_rows(20_000), ld.graph(criterion, terms="sparse"))  # type: ignore[arg-type]
    found = {tuple(cell) for cell in fit.basis.tolist() if np.count_nonzero(cell) > 1}
    assert found >= set(map(tuple, PLANTED.tolist()))
    assert len(found) <= len(PLANTED) + 2  # terms that paid before others were added
    assert np.isfinite(fit.parameters().to_frame()["standard_error"]).all()
    fit.save(tmp_path / "fit.npz")
    assert_allclose(ld.load(tmp_path / "fit.npz").graph.cells, fit.basis)


def test_scores_are_score_tests() -> None:
    """In one clique, a cell gains g^2 / (2 s), where s is the variance that all terms leave of its feature."""
    data = CodedRows.of(draw_rows(500), None, SHAPE).smoothed(1.0)
    graph = find_graph(Graph(0.0, 64), data)
    cells = np.concatenate([ld.interactions(1).select(data), PLANTED[:1]])
    theta = np.random.default_rng(1).normal(0, 0.3, len(cells))
    tables = graph_tables(graph, cells)
    hat = tables.cumulate(tables.sum_entries(data, data.total))
    found, gains = score_clique(tables, 0, hat, tables.cumulate(tables.propagate(theta)[1].margins), 0.0)
    p, q = data.dense.values.ravel() / data.total, distribution(cells, theta)
    Z = features(cells) - q @ features(cells)

    def gain(cell: IntArray) -> float:
        z = features(cell[None])[:, 0]
        z = z - q @ z
        rest = z - Z @ np.linalg.lstsq(Z.T * q @ Z, Z.T * q @ z)[0]
        return float(((p - q) @ z) ** 2 / (2 * q @ rest**2))

    sizes = np.count_nonzero(STATES, axis=1)
    others = (sizes > 1) & (sizes <= 3) & (PLANTED[0] != STATES).any(axis=1)
    assert gains[0] == pytest.approx(max(map(gain, STATES[others])), rel=1e-9)
    assert gains[0] == pytest.approx(gain(found[0]), rel=1e-9)


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_a_density_has_the_fitted_distribution(alpha: float | None) -> None:
    rows = draw_rows(300)
    rows[rows[:, 0] == 1, 3] = 0  # columns that exclude each other: without a pseudo-count cells vanish
    density = ld.LegendreDensity(ld.graph("aic", terms="sparse"), alpha=alpha).fit(rows)
    fit, q = density.decomposition_, np.exp(density.score_samples(STATES))
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    counts = (rows[:, None] == STATES).all(axis=-1).sum(axis=0) + density.alpha_ / len(STATES)
    assert_allclose(q @ features(fit.basis), counts @ features(fit.basis) / counts.sum(), atol=1e-9)
    if alpha is None:
        assert_allclose(q, distribution(fit.basis, fit.theta), atol=1e-12)
    else:
        assert (q[(STATES[:, [0, 3]] == 1).all(axis=1)] == 0).all()
    inside = (STATES[:, [1, 3, 4]] == [1, 0, 1]).all(axis=1)
    assert density.score([[np.nan, 1, np.nan, 0, 1]]) == pytest.approx(np.log(q[inside].sum()), abs=1e-12)


def test_columns_of_one_level_have_no_terms() -> None:
    rows = np.zeros((9, 2), dtype=int)
    assert ld.LegendreDensity(ld.graph(terms="sparse")).fit(rows).score(rows) == 0.0


def test_terms_need_complete_rows() -> None:
    gaps = draw_rows(50).astype(float)
    gaps[0, 2] = np.nan
    for rows, classes in ((gaps, None), (draw_rows(50), 2)):
        with pytest.raises(ld.LegendreError, match="sparse terms are for rows without gaps or classes"):
            ld.LegendreDensity(ld.graph(terms="sparse"), classes=classes).fit(rows)
    with pytest.raises(ld.LegendreError, match="graph: terms must be 'tables' or 'sparse', got 'few'"):
        ld.graph(terms="few")  # type: ignore[arg-type]
