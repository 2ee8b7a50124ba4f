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
    df = 0
    for state in np.unique(rows[:, given], axis=0):
        inside = rows[(rows[:, given] == state).all(axis=1)].T
        df += (len(set(inside[a])) - 1) * (len(set(inside[b])) - 1)
    return sums[0] + sums[1] - sums[2] - sums[3], df


def term_gain(rows: IntArray, weights: FloatArray, a: int, b: int, given: list[int]) -> float:
    """Half of the largest Cochran-Mantel-Haenszel statistic of a >= i and b >= j, stratum after stratum."""
    best = 0.0
    for i, j in product(range(1, rows[:, a].max() + 1), range(1, rows[:, b].max() + 1)):
        excess = variance = 0.0
        for state in np.unique(rows[:, given], axis=0):
            weight = weights * (rows[:, given] == state).all(axis=1)
            one, other, n = rows[:, a] >= i, rows[:, b] >= j, weight.sum()
            p, q = weight @ one, weight @ other
            excess += weight @ (one & other) - p * q / n
            variance += p * (n - p) * q * (n - q) / (n * n * (n - 1)) if n > 1 else 0.0
        best = max(best, 0.5 * excess**2 / variance if variance > 0 else 0.0)
    return best


def greedy(
    rows: IntArray, weights: FloatArray, sizes: list[int], price: float, sparse: bool = False
) -> list[tuple[int, int]]:
    """Try every edge that keeps the graph chordal, in every step; cliques have at most 64 cells."""
    graph = nx.empty_graph(len(sizes))
    found: list[tuple[int, int]] = []
    while True:
        best = (0.0, 0, 0)
        for b, a in combinations(range(len(sizes)), 2):
            given = sorted(set(graph[a]) & set(graph[b]))
            if graph.has_edge(a, b) or (given and np.prod([sizes[k] for k in (a, b, *given)]) > 64):
                continue
            if nx.is_chordal(nx.Graph([*graph.edges, (a, b)])):
                gain, df = gain_of(rows, weights, a, b, given)
                one = term_gain(rows, weights, a, b, given) - price if sparse else 0.0
                best = min(best, (round(min(price * df - gain, -one), 5), a, b))
        if best[0] == 0.0:
            return found
        found.append(best[1:])
        graph.add_edge(*best[1:])


def draw_rows(seed: int) -> tuple[IntArray, list[int], FloatArray]:
    """Draw columns that copy earlier ones; with every fourth seed two are equal, so that gains tie, or one is wide."""
    rng = np.random.default_rng(seed)
    sizes = [*rng.integers(2, 4, 5).tolist(), 40 if seed % 4 == 3 else 3]
    rows = np.zeros((150, 6), dtype=np.int64)
    for j in range(6):
        copied = rows[:, max(j - 1 - seed % 3, 0)] % sizes[j]
        rows[:, j] = np.where(rng.random(150) < 0.55, copied, rng.integers(0, sizes[j], 150))
    if seed % 4 == 0:
        rows[:, 3], sizes[3] = rows[:, 1], sizes[1]
    return rows, sizes, rng.integers(1, 3, 150).astype(np.float64)


def graph_of(X: Any, basis: Any) -> Any:
    return ld.decompose(X, basis).graph


@pytest.mark.parametrize("seed", range(40))
def test_the_edges_are_those_of_exhaustive_search(seed: int) -> None:
    rows, sizes, weights = draw_rows(seed)
    X = ld.from_coords(rows, weights, sizes)
    fit: Any = ld.decompose(X, ld.graph(0.7, cells=64))
    assert [edge[:2] for edge in fit.graph.edges] == greedy(rows, weights, sizes, 0.7)
    assert fit.converged
    for edge in fit.graph.edges:
        gain, df = gain_of(rows, weights, edge.a, edge.b, [*edge.given])
        assert (edge.gain, edge.df) == (pytest.approx(gain, abs=1e-6), df)
    alone = ld.decompose(X, ld.interactions(1))
    assert X.values.sum() * (alone.kl - fit.kl) == pytest.approx(fit.graph.gains.sum(), abs=1e-6)
    assert set(map(frozenset, fit.graph.cliques)) == set(map(frozenset, nx.find_cliques(fit.graph.to_networkx())))


@pytest.mark.parametrize("seed", range(12))
def test_edges_for_single_terms_are_those_of_exhaustive_search(seed: int) -> None:
    rows, sizes, weights = draw_rows(seed)
    graph = graph_of(ld.from_coords(rows, weights, sizes), ld.graph(1.5, cells=64, terms="sparse"))
    assert [edge[:2] for edge in graph.edges] == greedy(rows, weights, sizes, 1.5, sparse=True)


def test_a_tree_is_found_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    rows, edges = rng.integers(0, 2, (4000, 130)), {(j, int(rng.integers(j))) for j in range(1, 130)}
    for j, above in sorted(edges):
        rows[:, j] = np.where(rng.random(4000) < 0.6, rows[:, above], rows[:, j])
    fit: Any = ld.decompose(rows, ld.graph())
    assert {edge[:2] for edge in fit.graph.edges} == edges
    assert fit.residual < 1e-12
    assert fit.n_params == 259


def test_false_edges_that_fill_cliques_are_dropped() -> None:
    """Tables given the three columns before: false edges that come first keep true ones out of cliques of 256 cells."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 4, (20_000, 20))
    for v in range(3, 20):
        table = rng.dirichlet([0.3] * 4, (4, 4, 4)).cumsum(axis=-1)
        rows[:, v] = (table[tuple(rows[:, v - 3 : v].T)] < rng.random((20_000, 1))).sum(axis=1)
    assert {edge[:2] for edge in graph_of(rows, "graph").edges} == {(v, v - k) for k in (1, 2, 3) for v in range(k, 20)}


def test_every_kind_of_rows_gives_the_same_graph(tmp_path: Path) -> None:
    rows, _, _ = draw_rows(3)
    columns = dict(zip("abcdef", rows.T, strict=True))
    expected: Any = ld.decompose(ld.from_rows(columns), ld.graph("aic"))
    for X in (columns, pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)):
        assert graph_of(X, "graph('aic')").edges == expected.graph.edges
    assert expected.graph.to_frame().shape == (len(expected.graph.ends), 6)
    dense = graph_of(np.asarray(ld.from_rows(rows).toarray()), "graph('aic')")
    assert dense.ends.tolist() == expected.graph.ends.tolist()
    machine = ld.BoltzmannMachine(ld.graph("aic"), n_levels=(rows.max(axis=0) + 1).tolist()).fit(rows)
    assert_allclose(machine.decomposition_.kl, expected.kl, atol=1e-10)
    expected.save(tmp_path / "fit.npz")
    again = ld.load(tmp_path / "fit.npz").graph
    assert again.edges == expected.graph.edges
    assert "nats" in again._repr_html_()


def test_columns_that_say_nothing_are_named() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 300)
    frame: Any = {"a": a, "twin": np.array(["x", "y", "z"])[a], "one": np.ones(300, dtype=int), "id": np.arange(300)}
    graph = graph_of(frame, ld.graph())
    assert [edge[:2] for edge in graph.edges] == [("twin", "a")]
    assert graph.notes == (
        "one has one level, and is left out.",
        "id has a value of its own in each row: an identifier, which has no edge without graph(identifiers=True).",
        "a and twin determine each other.",
    )
    assert len(graph_of(frame, ld.graph(0.5, identifiers=True)).ends) == 2


@pytest.mark.parametrize("criterion", ["bic", "aic", "held-out", 2.5])
def test_fewer_edges_cost_more(criterion: Any) -> None:
    rows, _, _ = draw_rows(1)
    fit: Any = ld.decompose(rows, ld.graph(criterion))
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
