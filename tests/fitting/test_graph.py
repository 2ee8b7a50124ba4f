"""Graphs that the data choose: against exhaustive search with a chordality test, trees, and what is said of columns."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, product
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.core.types import FloatArray, IntArray

pytestmark = pytest.mark.usefixtures("one_thread")


def entropy_sum(rows: IntArray, weights: FloatArray, chosen: list[int]) -> float:
    """Sum n log n over the cells of some columns."""
    _, place = np.unique(rows[:, chosen], axis=0, return_inverse=True)
    n = np.bincount(place.ravel(), weights)
    return float((n * np.log(n)).sum())


def gain_of(rows: IntArray, weights: FloatArray, a: int, b: int, given: list[int]) -> tuple[float, int]:
    """N I(a; b | given) and its degrees of freedom, from the definition."""
    sums = [entropy_sum(rows, weights, [*given, *more]) for more in ([a, b], [], [a], [b])]
    states = {tuple(row) for row in rows[:, given].tolist()}
    df = 0
    for state in states:
        inside = rows[(rows[:, given] == state).all(axis=1)]
        df += (len(set(inside[:, a].tolist())) - 1) * (len(set(inside[:, b].tolist())) - 1)
    return sums[0] + sums[1] - sums[2] - sums[3], df


def term_gain(rows: IntArray, weights: FloatArray, a: int, b: int, given: list[int]) -> float:
    """Half of the largest Cochran-Mantel-Haenszel statistic of a >= i and b >= j, stratum after stratum."""
    best = 0.0
    for i, j in product(range(1, rows[:, a].max() + 1), range(1, rows[:, b].max() + 1)):
        excess = variance = 0.0
        for state in {tuple(row) for row in rows[:, given].tolist()}:
            inside = (rows[:, given] == state).all(axis=1)
            one, other, n = rows[inside, a] >= i, rows[inside, b] >= j, weights[inside].sum()
            p, q = weights[inside] @ one, weights[inside] @ other
            excess += weights[inside] @ (one & other) - p * q / n
            variance += p * (n - p) * q * (n - q) / (n * n * (n - 1)) if n > 1 else 0.0
        best = max(best, 0.5 * excess**2 / variance if variance > 0 else 0.0)
    return best


def greedy(
    rows: IntArray, weights: FloatArray, sizes: list[int], price: float, cells: int, sparse: bool = False
) -> list[tuple[int, int]]:
    """Try every edge that keeps the graph chordal, in every step."""
    graph = nx.empty_graph(len(sizes))
    found: list[tuple[int, int]] = []
    while True:
        best: tuple[float, int, int] = (0.0, 0, 0)
        for b, a in combinations(range(len(sizes)), 2):
            given = sorted(set(graph[a]) & set(graph[b]))
            if graph.has_edge(a, b) or (given and np.prod([sizes[k] for k in (a, b, *given)]) > cells):
                continue
            trial = graph.copy()
            trial.add_edge(a, b)
            if nx.is_chordal(trial):
                gain, df = gain_of(rows, weights, a, b, given)
                one = term_gain(rows, weights, a, b, given) - price if sparse else 0.0
                best = min(best, (round(min(price * df - gain, -one), 5), a, b))
        if best[0] == 0.0:
            return found
        found.append(best[1:])
        graph.add_edge(*best[1:])


def draw_rows(seed: int, n_rows: int = 150, n: int = 6) -> tuple[IntArray, list[int], FloatArray]:
    """Draw columns that copy earlier ones; with every fourth seed two are equal, so that gains tie, or one is wide."""
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(2, 4, n - 1).tolist(), 40 if seed % 4 == 3 else 3]
    rows = np.zeros((n_rows, n), dtype=np.int64)
    for j in range(n):
        copied = rows[:, max(j - 1 - seed % 3, 0)] % sizes[j]
        rows[:, j] = np.where(rng.random(n_rows) < 0.55, copied, rng.integers(0, sizes[j], n_rows))
    if seed % 4 == 0:
        rows[:, 3], sizes[3] = rows[:, 1], sizes[1]
    return rows, sizes, rng.integers(1, 3, n_rows).astype(np.float64)


def graph_of(X: Any, basis: Any) -> Any:
    return ld.decompose(X, basis).graph


@pytest.mark.parametrize("seed", range(40))
def test_the_edges_are_those_of_exhaustive_search(seed: int) -> None:
    rows, sizes, weights = draw_rows(seed)
    X = ld.from_coords(rows, weights, sizes)
    fit = ld.decompose(X, ld.graph(0.7, cells=64))
    assert fit.graph is not None
    assert [(edge.a, edge.b) for edge in fit.graph.edges] == greedy(rows, weights, sizes, 0.7, 64)
    assert fit.converged
    for edge in fit.graph.edges:
        gain, df = gain_of(rows, weights, int(edge.a), int(edge.b), [int(k) for k in edge.given])
        assert edge.gain == pytest.approx(gain, abs=1e-6)
        assert edge.df == df
    alone = ld.decompose(X, ld.interactions(1))
    assert X.values.sum() * (alone.kl - fit.kl) == pytest.approx(sum(edge.gain for edge in fit.graph.edges), abs=1e-6)
    assert set(map(frozenset, fit.graph.cliques)) == set(map(frozenset, nx.find_cliques(fit.graph.to_networkx())))


@pytest.mark.parametrize("seed", range(12))
def test_edges_for_single_terms_are_those_of_exhaustive_search(seed: int) -> None:
    rows, sizes, weights = draw_rows(seed)
    graph = graph_of(ld.from_coords(rows, weights, sizes), ld.graph(1.5, cells=64, terms="sparse"))
    assert [(edge.a, edge.b) for edge in graph.edges] == greedy(rows, weights, sizes, 1.5, 64, sparse=True)


def tree_rows(n: int, n_rows: int, seed: int = 0) -> tuple[IntArray, set[tuple[int, int]]]:
    rng = np.random.default_rng(seed)
    rows, edges = rng.integers(0, 2, (n_rows, n)), set()
    for j in range(1, n):
        above = int(rng.integers(0, j))
        copied = rng.random(n_rows) < 0.6
        rows[copied, j] = rows[copied, above]
        edges.add((j, above))
    return rows, edges


def test_a_tree_is_found_and_nothing_else() -> None:
    rows, edges = tree_rows(130, 4000)
    fit = ld.decompose(rows, ld.graph())
    assert fit.graph is not None
    assert {(edge.a, edge.b) for edge in fit.graph.edges} == edges
    assert fit.residual < 1e-12
    assert fit.n_params == 130 + 129


def test_every_kind_of_rows_gives_the_same_graph(tmp_path: Path) -> None:
    rows, _, _ = draw_rows(3)
    columns = dict(zip("abcdef", rows.T, strict=True))
    expected = ld.decompose(ld.from_rows(columns), ld.graph("aic"))
    assert expected.graph is not None
    kinds: list[Any] = [columns, pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)]
    for X in kinds:
        assert graph_of(X, "graph('aic')").edges == expected.graph.edges
    assert expected.graph.to_frame().shape == (len(expected.graph.ends), 6)
    dense = graph_of(np.asarray(ld.from_rows(rows).toarray()), ld.graph("aic"))
    assert dense.ends.tolist() == expected.graph.ends.tolist()
    machine = ld.BoltzmannMachine(ld.graph("aic"), n_levels=[int(k) + 1 for k in rows.max(axis=0)]).fit(rows)
    assert_allclose(machine.decomposition_.kl, expected.kl, atol=1e-10)
    expected.save(tmp_path / "fit.npz")
    again = ld.load(tmp_path / "fit.npz")
    assert again.graph.edges == expected.graph.edges
    assert "nats" in again.graph._repr_html_()


def test_columns_that_say_nothing_are_named() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 300)
    frame: Any = {"a": a, "twin": np.array(["x", "y", "z"])[a], "one": np.ones(300, dtype=int), "id": np.arange(300)}
    graph = graph_of(frame, ld.graph())
    assert [(edge.a, edge.b) for edge in graph.edges] == [("twin", "a")]
    assert graph.notes == (
        "one has one level, and is left out.",
        "id has a value of its own in each row: an identifier, which has no edge without graph(identifiers=True).",
        "a and twin determine each other.",
    )
    assert len(graph_of(frame, ld.graph(0.5, identifiers=True)).ends) == 2


@pytest.mark.parametrize("criterion", ["bic", "aic", "held-out", 2.5])
def test_fewer_edges_cost_more(criterion: Any) -> None:
    rows, _, _ = draw_rows(1)
    fit = ld.decompose(rows, ld.graph(criterion))
    assert fit.graph is not None
    assert len(fit.graph.ends) <= len(graph_of(rows, ld.graph(0.0)).ends)
    assert repr(ld.graph(criterion)) == fit.recipe


TROUBLE: list[tuple[Callable[[], object], str]] = [
    (lambda: ld.graph("dic"), "criterion .* must be 'bic', 'aic' or 'held-out', got 'dic'"),  # type: ignore[arg-type]
    (lambda: ld.graph(-1.0), "the nats that a parameter must gain, must be a finite number >= 0, got -1"),
    (lambda: ld.graph(cells=2), "graph: cells must be an integer >= 4, got 2"),
    (
        lambda: ld.decompose(np.arange(64).repeat(6000).reshape(64, -1) % 32, ld.graph()),
        "tables of all pairs of levels .* Merge rare levels, or leave columns out",
    ),
]


@pytest.mark.parametrize(("call", "text"), TROUBLE, ids=range(len(TROUBLE)))
def test_trouble_is_named(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        call()
