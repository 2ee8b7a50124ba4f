"""Questions to Q against sums over all cells."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chisquare

import legendre as ld
from cases import NAMED
from legendre.data.observation import Support
from legendre.engines.choose import choose_engine
from legendre.model.model import Model
from oracles import FloatArray

NAN = float("nan")
SEED = 7


def probabilities(fit: ld.Decomposition) -> FloatArray:
    """Q as a dense tensor; cells that were missing are outside the support."""
    q = fit.tensor() / fit.total
    mask = fit.model.support.mask
    return q if mask is None else np.where(mask, q, 0.0)


def check_marginals(fit: ld.Decomposition) -> None:
    q = probabilities(fit)
    for size in range(min(q.ndim, 3) + 1):
        for modes in list(permutations(range(q.ndim), size))[:20]:
            expected = np.zeros([q.shape[k] for k in modes])
            for cell in np.ndindex(q.shape):
                expected[tuple(cell[k] for k in modes)] += q[cell]
            answer = fit.marginal(modes)
            assert answer.shape == expected.shape
            assert answer.flags.c_contiguous
            assert_allclose(answer, expected, rtol=1e-10, atol=1e-13)
            assert_array_equal(answer == 0, expected == 0)


def check_conditionals(fit: ld.Decomposition) -> None:
    q = probabilities(fit)
    for fixed in product(*([None, 0, length - 1] for length in q.shape[:3])):
        event = {k: i for k, i in enumerate(fixed) if i is not None}
        part = q[tuple(event.get(k, slice(None)) for k in range(q.ndim))]
        if part.sum() == 0:
            with pytest.raises(ld.errors.InvalidQuery, match="the event has probability 0"):
                fit.condition(event)
        else:
            answer = fit.condition(event)
            assert answer.shape == part.shape
            assert_allclose(answer, part / part.sum(), rtol=1e-9, atol=0)


def check_expectations(fit: ld.Decomposition) -> None:
    q = probabilities(fit)
    f = np.random.default_rng(SEED).normal(size=q.shape)
    expected = sum(q[cell] * f[cell] for cell in np.ndindex(q.shape))
    assert fit.expectation(f) == pytest.approx(expected, abs=1e-12)
    assert fit.expectation(np.where(q > 0, f, NAN)) == pytest.approx(expected, abs=1e-12)
    assert fit.expectation(lambda *v: sum((k + 1) * i**2 for k, i in enumerate(v))) == pytest.approx(
        sum(q[cell] * sum((k + 1) * i**2 for k, i in enumerate(cell)) for cell in np.ndindex(q.shape)), abs=1e-10
    )


def check_mode(fit: ld.Decomposition) -> None:
    q = probabilities(fit)
    first = next(cell for cell in np.ndindex(q.shape) if q[cell] >= q.max() * (1 - 1e-12))
    assert fit.most_probable() == first


def check_samples(fit: ld.Decomposition, n: int = 4000) -> None:
    q, cells = probabilities(fit), fit.sample(n, rng=SEED)
    assert cells.shape == (n, q.ndim)
    assert cells.dtype == np.int64
    assert_array_equal(cells, fit.sample(n, np.random.default_rng(SEED)))
    seen = np.zeros(q.shape)
    np.add.at(seen, tuple(cells.T), 1)
    assert (seen[q == 0] == 0).all()
    order = np.argsort(q.ravel())
    # cells in order of their probability, joined until each group expects at least ten
    groups = np.minimum(np.floor(np.cumsum(q.ravel()[order]) * n / 10), np.floor(n / 10) - 1).astype(int)
    expected, counted = (np.bincount(groups, w.ravel()[order]) for w in (q * n, seen))
    expected, counted = expected[expected > 1e-9], counted[expected > 1e-9]
    assert counted.sum() == n
    if len(expected) > 1:
        assert chisquare(counted, expected * (n / expected.sum())).pvalue > 1e-3


CHECKS = [check_marginals, check_conditionals, check_expectations, check_mode, check_samples]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_cases(name: str) -> None:
    fit = NAMED[name].fit()
    for check in CHECKS if NAMED[name].X.size <= 600 else CHECKS[3:]:
        check(fit)


@pytest.mark.parametrize("full", [True, False])
def test_at_the_boundary(full: bool) -> None:
    X = np.array([[3.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 4.0, 0.0]])
    fit = ld.decompose(X, "B1", support="all" if full else np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0]], dtype=bool))
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert (fit.model.measure is None) == full
    assert fit.marginal(0)[1] == 0
    with pytest.raises(ld.errors.InvalidQuery, match=r"condition\(\{0: 1\}\): the event has probability 0"):
        fit.condition({0: 1})
    for check in CHECKS:
        check(fit)


def test_missing_cells_have_probability_0(tmp_path: Path) -> None:
    X = np.array([[1.0, 2.0, NAN], [3.0, NAN, 1.0], [2.0, 2.0, 7.0]])
    fit = ld.decompose(X, "B1")
    assert_array_equal(np.isnan(fit.tensor()), np.isnan(X))
    assert fit.condition({0: 0})[2] == 0
    assert fit.expectation(X) == pytest.approx(float(np.nansum(probabilities(fit) * X)), rel=1e-13)
    fit.save(tmp_path / "fit.npz")
    loaded = ld.load(tmp_path / "fit.npz")
    for check in CHECKS:
        check(loaded)
    assert_array_equal(loaded.sample(50, 3), fit.sample(50, 3))
    assert_allclose(loaded.marginal([1, 0]), fit.marginal([1, 0]), rtol=1e-14)


def test_rare_events_are_conditioned_on_all_the_same() -> None:
    fit = ld.decompose([[1e17, 2e17], [1.0, 3.0]], ld.full())
    assert_allclose(fit.condition({0: 1}), [0.25, 0.75], rtol=1e-9)


@pytest.mark.parametrize("support", ["all", np.array([[False, True, True], [True, True, True]])])
def test_ties_go_to_the_first_cell(support: Any) -> None:
    fit = ld.decompose(np.ones((2, 3)), ld.full(), support=support)
    assert fit.most_probable() == ((0, 0) if isinstance(support, str) else (0, 1))
    X = np.array([[2.0, 5.0, 0.3], [5.0, 0.1, 5.0]])  # which the solver meets up to rounding
    assert ld.decompose(X, ld.full(), solver="natural").most_probable() == (0, 1)


def test_the_merged_grid_answers_on_full_grids() -> None:
    """Four merged cells stand for 10^12: only the answers could be large."""
    model = Model.of(Support((10**6, 10**3, 10**3)), None, np.array([[10, 0, 0], [0, 7, 0], [10, 7, 0]]))
    assert model.quotient.merged_shape == (2, 2, 1)
    small = ld.decompose(np.arange(1.0, 9.0).reshape(2, 2, 2), [[1, 0, 0], [0, 1, 0], [1, 1, 0]])
    theta = np.array([-1.0, 0.5, 0.25])
    psi = choose_engine(model).at(theta).psi
    fit = replace(small, model=model, theta=theta, psi=psi, data=None)
    assert fit.marginal([1]).sum() == pytest.approx(1.0, abs=1e-12)
    assert_allclose(
        fit.marginal([1, 2])[6:8, 0] * np.exp(fit.psi),
        [10 + (1e6 - 10) * np.exp(-1), (10 + (1e6 - 10) * np.exp(-0.75)) * np.exp(0.5)],
        rtol=1e-11,
    )
    assert_allclose(fit.condition({0: 5, 2: 3})[6:8], np.array([1, np.exp(0.5)]) / (7 + 993 * np.exp(0.5)), rtol=1e-12)
    cells = fit.sample(1000, 0)
    assert (cells.max(axis=0) > 0.9 * np.array(fit.shape)).all()
    assert fit.most_probable() == (0, 7, 0)


def test_samples_from_none_differ() -> None:
    fit = ld.decompose(np.ones((50, 50)), "empty")
    assert (fit.sample(20) != fit.sample(20)).any()
    assert fit.sample(0).shape == (0, 2)


BAD: list[tuple[str, tuple[Any, ...], str]] = [
    ("marginal", (2,), r"2 is not a mode of X, which has 2, counted from 0 to 1"),
    ("marginal", ([0, 0],), r"marginal: \[0, 0\] names a mode twice"),
    ("marginal", ([True],), r"True is not a mode"),
    ("marginal", (1.0,), r"marginal: 1.0 is not a set of modes; pass a mode such as 0"),
    ("marginal", (np.array(0),), r"pass a mode such as 0, or modes such as \[0, 2\]"),
    ("condition", ({0: -1},), r"mode 0 has no index -1; its indices are integers from 0 to 1"),
    ("condition", ([0, 1],), r"condition\(\[0, 1\]\): pass a dict"),
    ("expectation", ([[1.0, 2.0]],), r"f has shape \(1, 2\), where \(2, 3\) is expected"),
    ("expectation", ([["a"] * 3] * 2,), r"f has dtype <U1"),
    ("expectation", ([[1.0, 2.0, 3.0], [4.0, NAN, 5.0]],), r"f\[1, 1\] = nan; f must be finite wherever Q is positive"),
    ("expectation", (lambda i, j: i + 1j * j,), r"expectation: f has dtype complex128"),
    ("expectation", (lambda *_: np.ones(7),), r"expectation: f has shape \(7,\), where \(2, 3\) is expected"),
    ("expectation", (lambda *_: [[1.0], [2.0, 3.0]],), r"expectation: f is not a rectangular array: its rows differ"),
    ("sample", (-1,), r"sample\(-1\): the number of cells must be an integer >= 0"),
    ("sample", (2, "seed"), r"rng must be None, an integer >= 0 or a numpy.random.Generator, got 'seed'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "message"), BAD, ids=[f"{bad[0]}_{i}" for i, bad in enumerate(BAD)])
def test_questions_that_make_no_sense(name: str, arguments: tuple[Any, ...], message: str) -> None:
    fit = ld.decompose([[1.0, 2.0, 3.0], [4.0, 5.0, 1.0]], "B1")
    with pytest.raises((ld.errors.InvalidQuery, ld.errors.InvalidSetting), match=message):
        getattr(fit, name)(*arguments)


def test_a_base_outside_the_support_may_be_anything() -> None:
    """It is not looked at: infinite, negative or NaN, no warning leaks."""
    X, support = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 2.0]]), np.array([[True, True], [True, True], [False, False]])
    fit = ld.decompose(X, "B1", support=support, base=np.array([[1.0, 2.0], [2.0, 1.0], [np.inf, -1.0]]))
    assert_allclose(fit.tensor().sum(), 10.0)
    assert_allclose(fit.marginal(0).sum(), 1.0)
    assert fit.log_prob([2, 0]).tolist() == fit.log_prob([2, 1]).tolist() == [-np.inf]
    assert_allclose(fit.condition({1: 0}).sum(), 1.0)
