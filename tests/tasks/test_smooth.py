"""Smoothing: the penalised fit is the one its definition asks for, and held-out cells choose what they should."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import legendre as ld
from legendre.core import limits
from legendre.tasks.complete.penalised import PenalisedProblem, Waves, held_out_error, minimise
from oracles import FloatArray
from strategies import count_tables, shapes

NAN = np.nan


def dense_waves(shape: tuple[int, ...]) -> FloatArray:
    """All waves of the grid, one per column, from the definition."""
    columns = []
    for wave in product(*map(range, shape)):
        column = np.ones(())
        for k, n in zip(wave, shape, strict=True):
            cosine = np.array([np.cos(np.pi * k * (i + 0.5) / n) for i in range(n)])
            column = np.multiply.outer(column, cosine / np.linalg.norm(cosine))
        columns.append(column.ravel())
    return np.stack(columns, axis=1)


def covariance(n: int, kind: int) -> FloatArray:
    """Of a mode that is level, free or a walk, with mean variance 1: nothing but linear algebra."""
    steps = np.diff(np.eye(n), axis=0)
    K = np.asarray([np.ones((n, n)), np.eye(n) - 1.0 / n, np.linalg.pinv(steps.T @ steps)][kind], dtype=np.float64)
    scaled: FloatArray = K * n / np.trace(K)
    return scaled


@pytest.mark.parametrize("shape", [(4,), (1, 3), (2, 3, 5), (3, 2, 2, 4), (501,)])
def test_waves_are_their_matrix(shape: tuple[int, ...]) -> None:
    waves, U = Waves(shape), dense_waves(shape)
    a = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_allclose(U.T @ U, np.eye(len(U)), atol=1e-12)
    np.testing.assert_allclose(waves.to_cells(a).ravel(), U @ a.ravel(), atol=1e-12)
    np.testing.assert_allclose(waves.to_waves(a).ravel(), U.T @ a.ravel(), atol=1e-12)


@pytest.mark.parametrize("shape", [(4,), (1, 3), (2, 3, 5)])
def test_terms_are_products_of_level_free_and_walk(shape: tuple[int, ...]) -> None:
    waves, U, rng = Waves(shape), dense_waves(shape), np.random.default_rng(1)
    tau = rng.random(tuple(min(n, 3) for n in shape))
    expected = np.zeros((U.shape[0], U.shape[0]))
    for term in np.ndindex(*tau.shape):
        K: FloatArray = np.ones((1, 1))
        for n, kind in zip(shape, term, strict=True):
            K = np.asarray(np.kron(K, covariance(n, kind)), dtype=np.float64)
        expected += tau[term] * K
    v = waves.variances(tau)
    np.testing.assert_allclose(U @ np.diag(v.ravel()) @ U.T, expected, atol=1e-10)
    t = rng.normal(size=shape)
    assert np.vdot(waves.by_term(t), tau) == pytest.approx(np.vdot(t, v), rel=1e-12)


def test_terms_of_many_modes_are_left_out() -> None:
    assert Waves((3, 3, 3, 3)).terms.sum() == 80
    chosen = Waves((3,) * 6).terms
    assert chosen.sum() == 12 + 60 + 160
    assert max(np.count_nonzero(term) for term in np.argwhere(chosen)) == 3
    assert Waves((2,) * 20).terms.sum() == 20 + 190
    assert Waves((1, 1)).terms.sum() == 0


@st.composite
def penalised(draw: st.DrawFn) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw X with zeros, a measure that is 0 where X is missing, and standard deviations."""
    shape = draw(shapes(24, 3))
    seen = draw(hnp.arrays(np.bool_, shape, fill=st.nothing()))
    X = np.where(seen, draw(count_tables(shape)), 0.0)
    measure = np.where(seen, draw(hnp.arrays(np.float64, shape, elements=st.floats(0.5, 2.0))), 0.0)
    if not X.sum() > 0:
        X[(0,) * X.ndim], measure[(0,) * X.ndim] = 1.0, 1.0
    spread = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 0.7, 2.0])))
    return X, measure, spread


@given(penalised())
def test_the_fit_is_stationary_by_definition(problem: tuple[FloatArray, FloatArray, FloatArray]) -> None:
    """The penalty pulls as hard as the data: a / v = -gradient of n KL(P, Q), with Q from dense waves."""
    X, measure, spread = problem
    p = X / X.sum()
    place, _ = minimise(PenalisedProblem(Waves(X.shape), p, measure), spread, np.zeros(X.shape), 1e-12)
    U, n = dense_waves(X.shape), np.count_nonzero(measure)
    a = (spread * place.b).ravel()
    mass = measure.ravel() * np.exp(U @ a)
    gradient = n * (U.T @ (mass / mass.sum() - p.ravel()))
    np.testing.assert_allclose(a, -(spread.ravel() ** 2) * gradient, atol=1e-8)
    assert place.psi == pytest.approx(np.log(mass.sum()), abs=1e-10)


@pytest.mark.parametrize("criterion", ["deviance", "rmse"])
def test_the_gradient_in_the_variances_is_that_of_differences(criterion: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.poisson(5.0, size=(4, 3, 5)).astype(float)
    base = rng.uniform(0.5, 2.0, X.shape)
    turns = np.where(rng.random(X.shape) < 0.2, -1, rng.integers(0, 3, X.shape))
    waves, left = Waves(X.shape), (turns >= 0) & (turns != 1)
    tau = np.where(waves.terms, rng.uniform(0.01, 0.5, waves.terms.shape), 0.0)
    tau[0, 1, 2] = 0.0  # some coefficients have no variance at all, and still a derivative
    total = X[left].sum()
    problem = PenalisedProblem(waves, np.where(left, X, 0.0) / total, np.where(left, base, 0.0))

    def error(tau: FloatArray) -> tuple[float, FloatArray]:
        v, start, exact = waves.variances(tau), np.zeros(X.shape), {"tol": 1e-11, "accuracy": 1e-13}
        return held_out_error(problem, turns == 1, X, base, total, criterion, v, start, **exact)[:2]

    slope = waves.by_term(error(tau)[1])
    for term in [(0, 0, 1), (0, 1, 0), (1, 0, 2), (2, 2, 2), (1, 1, 1)]:
        step = np.zeros_like(tau)
        step[term] = 1e-5
        assert slope[term] == pytest.approx((error(tau + step)[0] - error(tau - step)[0]) / 2e-5, rel=1e-5)


def ramp(seed: int = 0, steep: float = 2.0) -> tuple[FloatArray, FloatArray]:
    """Draw counts around a smooth rate; half are missing."""
    rng = np.random.default_rng(seed)
    x, y = np.linspace(0, 3, 14), np.linspace(0, 2, 10)
    rate = 60 * np.exp(np.sin(np.add.outer(steep * x, 1.5 * y)))
    return rate, np.where(rng.random(rate.shape) < 0.5, NAN, rng.poisson(rate))


def test_smoothing_fills_in_what_no_two_margins_can() -> None:
    rate, X = ramp()
    missing = np.isnan(X)
    done = ld.complete(X)
    plain = ld.complete(X, "interactions(1)")
    assert np.array_equal(done.tensor()[~missing], X[~missing])
    assert np.array_equal(done.tensor()[missing], done.fit.tensor()[missing])
    error, of_margins = (np.linalg.norm((filled.tensor() - rate)[missing]) for filled in (done, plain))
    assert error < of_margins / 3
    assert max(done.fit.variances, key=lambda name: done.fit.variances[name]) == "0~ x 1~"
    assert done.converged
    assert (done.fit.n_held_out, done.fit.n_folds) == (np.sum(~missing), 5)
    text = done.summary()
    assert f"14x10, {np.sum(~missing)} cells observed, {np.sum(missing)} missing" in text
    assert "5 folds: deviance" in text
    assert "term 0~ x 1~" in text
    assert repr(done).startswith(
        f"<Completion of 14x10: {np.sum(missing)} cells missing, 0 undetermined; <PenalisedFit"
    )


def test_units_do_not_matter() -> None:
    _, X = ramp(1)
    one = ld.complete(X, criterion="rmse", folds=2).fit.tensor()
    for unit in (1024.0, 2.0**250, 2.0**-250):
        np.testing.assert_allclose(ld.complete(unit * X, criterion="rmse", folds=2).fit.tensor(), unit * one, rtol=1e-9)


def test_whole_slices_can_be_missing() -> None:
    rate, X = ramp(2, steep=0.7)
    X[5] = NAN
    done = ld.complete(X, hold_out=1)
    assert np.isfinite(done.tensor()).all()
    assert np.abs(done.tensor()[5] / rate[5] - 1).mean() < 0.12
    assert done.fit.n_folds == 5


def test_modes_go_by_their_names() -> None:
    _, X = ramp()
    done = ld.complete(X, names=["day", "hour"], hold_out="hour")
    assert done.fit.error == ld.complete(X, hold_out=1).fit.error
    largest = max(done.fit.variances, key=lambda name: done.fit.variances[name])
    assert set(largest) & {"d", "h"}
    assert f"term {largest} " in done.summary()


def test_zeros_base_and_support() -> None:
    rng = np.random.default_rng(3)
    exposure = rng.uniform(1.0, 20.0, (8, 9))
    exposure[2, 2] = 0.0
    rate = np.exp(np.add.outer(np.linspace(0, 1, 8), np.linspace(0, 1, 9)))
    X = rng.poisson(rate * exposure).astype(float)
    hidden = rng.random(X.shape) < 0.3
    done = ld.complete(np.where(hidden, NAN, X), base=exposure)
    assert done.fit.tensor()[2, 2] == 0.0
    inside = exposure > 0
    assert np.abs(done.fit.tensor()[inside] / (rate * exposure)[inside] - 1).max() < 0.35
    X[4] = 0.0
    nothing = ld.complete(X)
    assert (nothing.fit.tensor()[4] < nothing.fit.tensor()[[3, 5]].mean(axis=0)).all()
    zeros_missing = ld.complete(X, support="nonzero")
    assert not zeros_missing.observed[4].any()
    assert (zeros_missing.tensor()[4] > 0.5).all()


def test_a_constant_tensor_stays_constant() -> None:
    X = np.full((4, 5), 3.0)
    X[1, 2] = NAN
    np.testing.assert_allclose(ld.complete(X, folds=3).tensor(), 3.0, rtol=1e-6)


def test_only_as_many_folds_as_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, X = ramp()
    monkeypatch.setattr(limits, "ENOUGH_HELD_OUT", 20)
    assert ld.complete(X).fit.n_folds == 2
    assert ld.complete(X, hold_out=1).fit.n_folds == 5


def test_an_unfinished_fit_says_so() -> None:
    _, X = ramp()
    with pytest.warns(ld.ConvergenceWarning, match=r"complete: the gradient is .* after 0 steps, tol = 1e-10"):
        assert not ld.complete(X, max_iter=0).converged


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"criterion": "rmsd"}, "criterion must be 'deviance' or 'rmse', got 'rmsd'"),
        ({"folds": 1}, "folds must be an integer >= 2"),
        ({"folds": 4}, "folds=4 needs at least as many observed cells; X has 3"),
        ({"folds": 2, "hold_out": 2}, "hold_out: 2 is no mode of X, which has 2, counted from 0 to 1"),
        ({"solver": "natural"}, "solver='natural' needs a basis"),
        ({"tol": -1}, "tol must be a number >= 0"),
        ({"max_iter": -1}, "max_iter must be an integer >= 0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=text):
        ld.complete([[1.0, NAN], [2.0, 3.0]], **settings)


def test_bad_tensors_are_refused() -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=r"without the cells of fold \d X is zero everywhere"):
        ld.complete([[1.0, 0.0], [0.0, 0.0]], folds=4)
    with pytest.raises(ld.errors.InvalidTensor, match=r"1 negative entry: it is X\[0, 1\] = -2"):
        ld.complete([[1.0, -2.0]])
    with pytest.raises(ld.errors.InvalidSupport, match=r"base\[0, 1\] = nan at a missing cell"):
        ld.complete([[1.0, NAN], [2.0, 3.0]], base=[[1.0, NAN], [1.0, 1.0]], folds=2)
