"""Inference and likelihood ratios of lists of entries: equal to the dense answers, and at order 100."""

from __future__ import annotations

from math import lgamma
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import legendre as ld
from oracles import FloatArray

NUMBERS = ("g2", "x2", "df", "g2_p_value", "x2_p_value", "log_likelihood", "aic", "bic")
ORDER = 100
CHAIN = [(k, k + 1) for k in range(ORDER - 1)]


def listed(X: Any) -> Any:
    return ld.from_coords(np.argwhere(X > 0), X[X > 0], X.shape)


def table(seed: int, *, empty: bool) -> Any:
    """Draw counts with zeros; a slice without any where `empty`, so that cells vanish."""
    X = np.random.default_rng(seed).poisson(1.2, size=(4, 3, 3))
    X[0, 0, 0] = 3
    if empty:
        X[2] = 0
    return X


def assert_same_inference(one: ld.results.Inference, other: ld.results.Inference) -> None:
    for name in NUMBERS:
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9, nan_ok=True), name
    assert_allclose(one.standard_errors, other.standard_errors, rtol=1e-7)
    assert one.reasons == other.reasons
    for kind in ("pearson", "deviance", "adjusted"):
        assert_allclose(one.residuals(kind), other.residuals(kind), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("support", ["all", "nonzero"])
@pytest.mark.parametrize("basis", ["empty", "B1", "interactions(2)", "B1 + B3(2)"])
@pytest.mark.parametrize("empty", [False, True])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=3, deadline=None)
def test_lists_have_the_dense_answer(basis: str, support: str, empty: bool, seed: int) -> None:
    X = table(seed, empty=empty)
    dense, sparse = (ld.decompose(Y, basis, support=support).inference() for Y in (X, listed(X)))
    assert_same_inference(sparse, dense)
    assert sparse.summary() == dense.summary()


@pytest.mark.parametrize("kind", ["pearson", "deviance", "adjusted"])
@pytest.mark.parametrize("empty", [False, True])
def test_residuals_of_some_cells_are_those_of_the_array(kind: str, empty: bool) -> None:
    X = table(5, empty=empty)
    mask = np.ones(X.shape, dtype=np.bool_)
    mask[1, 2] = False
    cells = np.argwhere(np.ones(X.shape))
    for fit in (ld.decompose(X, "B1", support=mask), ld.decompose(listed(X), "B1", support="nonzero")):
        tests = fit.inference()
        whole = tests.residuals(kind)
        assert_allclose(tests.residuals(kind, cells), whole.ravel(), rtol=1e-7, atol=1e-9)
        assert tests.residuals(kind, [3, 2, 1]).shape == (1,)
    with pytest.raises(ld.errors.InvalidBasis, match=r"cell \[9, 0, 0\] is outside the grid"):
        tests.residuals(kind, [[9, 0, 0]])


@pytest.mark.parametrize("support", ["all", "nonzero"])
@pytest.mark.parametrize("empty", [False, True])
def test_likelihood_ratios_of_lists(support: str, empty: bool) -> None:
    X = table(3, empty=empty)
    dense = [ld.decompose(X, basis, support=support) for basis in ("B1", "interactions(2)")]
    sparse = [ld.decompose(listed(X), basis, support=support) for basis in ("B1", "interactions(2)")]
    expected = ld.anova(*dense).tests[0]
    for pair in (sparse, [sparse[0], dense[1]]):
        found = ld.anova(*pair).tests[0]
        assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
        assert found.df == expected.df
        assert found.p_value == pytest.approx(expected.p_value, rel=1e-9)


def test_lists_that_cannot_be_compared() -> None:
    """Where the grid is too large to be formed."""
    X, pairs = table(3, empty=False), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]
    cells, values, shape = np.argwhere(X > 0), X[X > 0], (10**6,) * 3
    one = ld.decompose(ld.from_coords(cells, values, shape), pairs[:3])
    with pytest.raises(ld.errors.InvalidQuery, match=r"the tables differ"):
        ld.anova(one, ld.decompose(ld.from_coords(cells, values + 1, shape), pairs))
    with pytest.raises(ld.errors.InvalidQuery, match=r"the supports differ"):
        ld.anova(one, ld.decompose(ld.from_coords(cells, values, shape), pairs, support="nonzero"))


def test_a_likelihood_ratio_on_a_face_of_a_grid_too_large_to_form() -> None:
    """The second mode has 10^9 levels, of which three are used; level 2 of the first has no data."""
    small = table(8, empty=True)
    levels = np.array([0, 400_000, 10**9 - 1])
    cells = np.argwhere(small > 0)
    values = small[small > 0]
    cells[:, 1] = levels[cells[:, 1]]
    large = ld.from_coords(cells, values, (4, 10**9, 3))
    first = [[1, 0, 0], [2, 0, 0], [3, 0, 0]]
    more = [*first, [0, 0, 1], [0, 0, 2], [2, 0, 1], [3, 0, 2]]
    fits = [ld.decompose(large, basis) for basis in (first, more)]
    merged = [ld.decompose(small.sum(axis=1), np.delete(basis, 1, axis=1)) for basis in (first, more)]
    assert fits[0].status is ld.results.Status.AT_BOUNDARY
    found, expected = ld.anova(*fits).tests[0], ld.anova(*merged).tests[0]
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert found.df == expected.df == 4


def test_entries_must_be_counts() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (20, 70))
    machine = ld.BoltzmannMachine([(0, 1)], alpha=0.5).fit(rows)
    with pytest.raises(
        ld.errors.InvalidTensor, match=r"X has a pseudo-count of 0\.5 spread over its cells\. Fit without it"
    ):
        machine.decomposition_.inference()


# ---- order 100


def chain(n: int = 400) -> Any:
    rng = np.random.default_rng(7)
    rows = np.empty((n, ORDER), dtype=np.int64)
    rows[:, 0] = rng.random(n) < 0.4
    for k in range(1, ORDER):
        rows[:, k] = np.where(rng.random(n) < 0.8, rows[:, k - 1], 1 - rows[:, k - 1])
    rows[: n // 4] = rows[0]  # some states more than once
    return rows


def by_hand(rows: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct rows, their counts, and their log probabilities under the chain, from the counts of pairs."""
    states, n = np.unique(rows, axis=0, return_counts=True)
    log_q = np.log(np.bincount(rows[:, 0], minlength=2) / len(rows))[states[:, 0]]
    for a, b in CHAIN:
        pair = np.zeros((2, 2))
        np.add.at(pair, (rows[:, a], rows[:, b]), 1.0)
        log_q = log_q + np.log(pair / pair.sum(axis=1, keepdims=True))[states[:, a], states[:, b]]
    return states, n.astype(np.float64), log_q


def test_a_chain_of_order_100_by_hand() -> None:
    rows = chain()
    states, n, log_q = by_hand(rows)
    fit = ld.BoltzmannMachine(CHAIN).fit(rows).decomposition_
    assert_allclose(fit.log_prob(states), log_q, rtol=1e-10)
    tests, N = fit.inference(), float(len(rows))
    log_mu = log_q + np.log(N)
    assert tests.g2 == pytest.approx(2 * float(n @ (np.log(n) - log_mu)), rel=1e-9)
    assert tests.x2 == pytest.approx(float((n**2 * np.exp(-log_mu)).sum()) - N, rel=1e-9)
    ways = lgamma(N + 1) - sum(lgamma(count + 1) for count in n)
    assert tests.log_likelihood == pytest.approx(ways + float(n @ log_q), rel=1e-9)
    assert_allclose(tests.covariance(), np.linalg.inv(fit.fisher()) / N, rtol=1e-6, atol=1e-12)
    mu = np.exp(log_mu)
    for kind in ("pearson", "adjusted"):  # means this small have leverages near 0
        assert_allclose(tests.residuals(kind, states), (n - mu) / np.sqrt(mu), rtol=1e-8)
    signed = np.sign(n - mu) * np.sqrt(2 * (n * np.log(n / mu) - n + mu))
    assert_allclose(tests.residuals("deviance", states), signed, rtol=1e-8)
    too_large = r"a table of 1\.3e30 cells in 100 modes .* Name some cells: residuals\(kind, cells\)"
    with pytest.raises(ld.errors.InvalidQuery, match=too_large):
        tests.residuals()


def test_the_summary_of_order_100_stays_readable() -> None:
    text = ld.BoltzmannMachine(CHAIN).fit(chain()).decomposition_.inference().summary(rows=5)
    assert "table           2x2x...x2 (order 100), N = 400" in text
    assert "cells           1.3e30" in text
    assert " on 1.3e30 df, p = 1" in text
    assert any(line.startswith("mode 28 = 1 ") for line in text.splitlines())
    assert max(map(len, text.splitlines())) < 350


def test_likelihood_ratios_of_order_100() -> None:
    rows = chain()
    X = ld.from_rows(rows)
    found = ld.anova(*(ld.decompose(X, basis) for basis in ("empty", ld.interactions(1), ld.interactions(CHAIN))))
    test = found.tests[1]
    ones = rows.mean(axis=0)
    states, n, log_q = by_hand(rows)
    log_alone = (states * np.log(ones) + (1 - states) * np.log(1 - ones)).sum(axis=1)
    assert test.statistic == pytest.approx(2 * float(n @ (log_q - log_alone)), rel=1e-9)
    assert (test.df, found.tests[0].df) == (99, 100)
    assert max(map(len, found.summary().splitlines())) < 140


def test_means_below_the_range_of_floats() -> None:
    """2000 modes: the probability of a row is about 1e-602."""
    rows = np.random.default_rng(0).integers(0, 2, (30, 2000))
    fit = ld.decompose(ld.from_coords(rows, shape=(2,) * 2000), ld.interactions(1))
    tests = fit.inference()
    assert tests.g2 == pytest.approx(2 * 30 * fit.kl, rel=1e-9)
    assert tests.df == 2**2000 - 1 - 2000
    assert tests.g2_p_value == 1.0
    assert tests.x2 == np.inf
    assert np.isfinite([tests.log_likelihood, tests.aic, tests.bic]).all()
    residuals = tests.residuals("deviance", rows)
    assert_allclose((residuals**2).sum() + 2 * 30, tests.g2, rtol=1e-9)
