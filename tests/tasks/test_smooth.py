"""Completion without a basis: the fit is the one its definition asks for, and EM learns what made the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import legendre as ld
from legendre.tasks.complete.penalised import PenalisedPoint, PenalisedProblem, Waves, advance, begin, minimise
from oracles import FloatArray
from strategies import shapes

NAN = np.nan


def dense_waves(waves: Waves) -> FloatArray:
    """All products of waves, one per column."""
    columns: FloatArray = np.ones((1, 1))
    for rows in waves.matrices:
        assert rows is not None
        columns = np.asarray(np.kron(columns, rows.T), dtype=np.float64)
    return columns


def covariance(n: int, kind: int) -> FloatArray:
    """Of a mode that is level, free or a walk, with mean variance 1: nothing but linear algebra."""
    steps = np.diff(np.eye(n), axis=0)
    K = np.asarray([np.ones((n, n)), np.eye(n) - 1.0 / n, np.linalg.pinv(steps.T @ steps)][kind], dtype=np.float64)
    scaled: FloatArray = K * n / np.trace(K)
    return scaled


@pytest.mark.parametrize("shape", [(4,), (1, 3), (2, 3, 5)])
def test_terms_are_products_of_level_free_and_walk(shape: tuple[int, ...]) -> None:
    waves, rng = Waves.cosine(shape), np.random.default_rng(1)
    U = dense_waves(waves)
    tau = rng.random(tuple(min(n, 3) for n in shape))
    expected = np.full((U.shape[0],) * 2, 100.0)  # the constant is free
    for term in np.ndindex(*tau.shape):
        K: FloatArray = np.ones((1, 1))
        for n, kind in zip(shape, term, strict=True):
            K = np.asarray(np.kron(K, covariance(n, kind)), dtype=np.float64)
        expected += tau[term] * K
    v = waves.variances(tau)
    np.testing.assert_allclose(U @ np.diag(v.ravel()) @ U.T, expected, atol=1e-9)
    t = rng.normal(size=shape)
    inner = np.vdot(t, v) - 100.0 * t.size * t[(0,) * t.ndim]
    assert np.vdot(waves.by_term(t), tau) == pytest.approx(inner, rel=1e-9, abs=1e-9)


def test_waves_of_a_long_mode_are_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    a, weights = np.random.default_rng(0).random((2, 6, 5))
    short = Waves.cosine((6, 5))
    monkeypatch.setattr("legendre.tasks.complete.penalised.LONGEST_LEARNED", 5)
    long = Waves.cosine((6, 5))
    assert long.matrices[0] is None
    for name in ("to_cells", "to_waves", "coefficients"):
        np.testing.assert_allclose(getattr(long, name)(a), getattr(short, name)(a), atol=1e-12)
    assert long.squares(weights).sum() == pytest.approx(short.squares(weights).sum())
    X = np.random.default_rng(0).poisson(50.0, (6, 5))
    assert ld.complete(np.where(a < 0.2, NAN, X)).converged


@given(shapes(40, 3), st.integers(0, 99))
def test_learned_waves_diagonalise_the_covariance(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    halves = [rng.normal(size=(n, n)) for n in shape]
    means = rng.uniform(0.1, 5.0, shape)
    learned = Waves.cosine(shape).learned([half @ half.T if len(half) > 2 else None for half in halves], means)
    for half, rows, spectrum, weights in zip(halves, learned.matrices, learned.spectra, learned.weights, strict=True):
        assert rows is not None
        np.testing.assert_allclose(rows @ np.diag(weights) @ rows.T, np.eye(len(rows)), atol=1e-9)
        if len(half) > 2:
            centred = half - weights @ half / len(half)
            K = centred @ centred.T
            np.testing.assert_allclose(
                rows.T @ np.diag(spectrum[2]) @ rows * np.trace(np.diag(weights) @ K), len(half) * K, atol=1e-5
            )
    h = rng.normal(size=shape)
    np.testing.assert_allclose(learned.to_cells(learned.coefficients(h)), h, atol=1e-9)


def test_terms_of_many_modes_are_left_out() -> None:
    assert Waves.cosine((3, 3, 3, 3)).terms.sum() == 80
    chosen = Waves.cosine((3,) * 6).terms
    assert chosen.sum() == 12 + 60 + 160
    assert max(np.count_nonzero(term) for term in np.argwhere(chosen)) == 3
    assert Waves.cosine((2,) * 20).terms.sum() == 20 + 190
    assert Waves.cosine((1, 1)).terms.sum() == 0


def planted(seed: int) -> FloatArray:
    """Draw a tensor of main effects, pairs and noise, with cells or fibres missing."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(2, 6, size=rng.integers(2, 4)))
    log_q = np.zeros(shape)
    for size in (1, 2):
        for k in range(len(shape) - size + 1):
            part = [n if k <= j < k + size else 1 for j, n in enumerate(shape)]
            log_q = log_q + rng.normal(size=part) / size
    X = rng.poisson(20.0 * np.exp(log_q)).astype(float)
    X[rng.random(shape if seed % 2 else (*shape[:-1], 1)).repeat(1 if seed % 2 else shape[-1], -1) < 0.3] = NAN
    X.flat[0] = 5.0
    return X


def brute_force(point: PenalisedPoint) -> FloatArray:
    """Minimise the objective of the definition with dense waves, by another program, and compute log m."""
    problem = point.problem
    U, w = dense_waves(problem.waves), problem.weight
    x, seen, v = problem.x.ravel(), problem.seen.ravel(), problem.spread.ravel() ** 2

    def objective(b: FloatArray) -> tuple[float, FloatArray]:
        h = U @ (np.sqrt(v) * b)
        m = seen * np.exp(h)
        return float(w * (m.sum() - x @ h) + 0.5 * b @ b), b + np.sqrt(v) * (U.T @ (w * (m - x)))

    def curvature(b: FloatArray) -> FloatArray:
        m = seen * np.exp(U @ (np.sqrt(v) * b))
        return np.eye(len(b)) + np.sqrt(v)[:, None] * (U.T @ (w * m[:, None] * U)) * np.sqrt(v)

    options: Any = {"gtol": 1e-9, "maxiter": 500}
    found = minimize(objective, np.zeros(len(x)), jac=True, hess=curvature, method="trust-exact", options=options)
    h: FloatArray = U @ (np.sqrt(v) * found.x)
    return h.reshape(problem.x.shape)


@pytest.mark.parametrize("seed", range(12))
def test_filled_cells_are_those_of_brute_force(seed: int) -> None:
    """And the certificate is true: the gap bounds the excess."""
    X = planted(seed)
    seen = ~np.isnan(X)
    rough = begin(np.where(seen, X / np.nanmean(X), 0.0), seen)
    for number in range(seed % 4):
        rough = advance(rough, number > 0, number)
    point, _ = minimise(rough.problem, rough.b, 1e-12)
    np.testing.assert_allclose(np.exp(point.h), np.exp(brute_force(point)), rtol=1e-6)
    assert point.residual <= 1e-12
    total = point.problem.weight * seen.sum()
    assert (rough.value - point.value) / total <= rough.gap + 1e-12


def test_a_large_system_is_solved_twice_alike() -> None:
    """NumPy overwrote the preconditioner from 65,536 cells on, and conjugate gradients ended after one product."""
    x = np.random.default_rng(0).random((300, 250))
    waves = Waves.cosine(x.shape)
    problem = PenalisedProblem(waves, np.where(waves.terms, 0.05, 0.0), 10.0, x, x > 0.3)
    point = problem.at(np.zeros(x.shape))
    first, second = (point.solve(-point.gradient, 0.01) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_posterior_draws_have_the_inverse_hessian_as_covariance() -> None:
    X = planted(3)
    seen = ~np.isnan(X)
    problem = PenalisedProblem(
        waves := Waves.cosine(X.shape),
        np.where(waves.terms, 0.1, 0.0),
        3.0,
        np.where(seen, X / np.nanmean(X), 0.0),
        seen,
    )
    point, rng = minimise(problem, np.zeros(X.shape), 1e-9)[0], np.random.default_rng(0)
    A = dense_waves(waves) * problem.spread.ravel()
    hessian = np.eye(X.size) + A.T @ (3.0 * point.m.ravel()[:, None] * A)
    draws = np.array([point.draw(rng).ravel() for _ in range(3000)])
    np.testing.assert_allclose(draws.T @ draws / 3000, np.linalg.inv(hessian), atol=0.08)


def test_em_finds_variances_and_noise() -> None:
    """Draws from the model: the variance of an entry is half of its mean, rows are alike in two groups."""
    rng = np.random.default_rng(0)
    groups, columns = np.repeat([0, 1], 12), rng.normal(size=(2, 40))
    rate = 50.0 * np.exp(rng.normal(size=40) + columns[groups])
    X = rng.gamma(rate / 0.5, 0.5)[rng.permutation(24)]
    X[rng.random(X.shape) < 0.3] = NAN
    done = ld.complete(X)
    assert 0.3 < done.fit.dispersion < 0.75
    assert max(done.fit.variances, key=lambda name: done.fit.variances[name]) in ("1", "1~")
    assert done.fit.rounds > 1
    again = ld.complete(X * (1.0 + 1e-15 * rng.normal(size=X.shape)))  # learning does not amplify rounding
    np.testing.assert_allclose(again.tensor(), done.tensor(), rtol=1e-5)


def ramp(seed: int = 0, steep: float = 2.0) -> tuple[FloatArray, FloatArray]:
    """Draw counts around a smooth rate; half are missing."""
    rng = np.random.default_rng(seed)
    x, y = np.linspace(0, 3, 14), np.linspace(0, 2, 10)
    rate = 60 * np.exp(np.sin(np.add.outer(steep * x, 1.5 * y)))
    return rate, np.where(rng.random(rate.shape) < 0.5, NAN, rng.poisson(rate))


def test_the_fit_fills_in_what_no_two_margins_can(tmp_path: Path) -> None:
    rate, X = ramp()
    missing = np.isnan(X)
    done = ld.complete(X)
    plain = ld.complete(X, "interactions(1)")
    assert np.array_equal(done.tensor()[~missing], X[~missing])
    assert np.array_equal(done.tensor()[missing], done.fit.tensor()[missing])
    error, of_margins = (np.linalg.norm((filled.tensor() - rate)[missing]) for filled in (done, plain))
    assert error < of_margins / 3
    assert done.converged
    assert (done.fit.n_held_out, done.fit.n_folds, done.fit.held_out) == (np.sum(~missing), 5, "cells")
    text = done.summary()
    assert f"14x10, {np.sum(~missing)} cells observed, {np.sum(missing)} missing" in text
    assert "5 folds: deviance" in text
    assert "held out as   cells" in text
    assert repr(done).startswith(
        f"<Completion of 14x10: {np.sum(missing)} cells missing, 0 undetermined; <PenalisedFit"
    )
    done.save(tmp_path / "done.npz")
    again = ld.load(tmp_path / "done.npz")
    for ours, theirs in zip(done.interval(0.8), again.interval(0.8), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_intervals_hold_what_was_hidden() -> None:
    rng, rate = np.random.default_rng(4), ramp()[0]
    X = rng.poisson(rate)
    hidden = rng.random(X.shape) < 0.4
    done = ld.complete(np.where(hidden, NAN, X))
    for level in (0.5, 0.9):
        lower, upper = done.interval(level)
        assert abs(np.mean((lower <= X) & (upper >= X), where=hidden) - level) < 0.2
        assert np.array_equal(lower[~hidden], X[~hidden])
        assert ((lower <= done.tensor()) & (done.tensor() <= upper)).mean() > 0.95
    with pytest.raises(ld.errors.InvalidQuery, match="level must be a finite number > 0 and < 1, got 2"):
        done.interval(2)
    with pytest.raises(ld.errors.InvalidQuery, match="interval needs a completion without a basis"):
        ld.complete(X, "B1").interval()


def test_a_last_fit_that_is_too_sure_has_no_narrow_intervals() -> None:
    """It took itself for more exact than the fits to the folds were, and 81 % of the cells were inside."""
    rng = np.random.default_rng(1)
    X = rng.gamma(400.0, np.einsum("ir,jr,kr", *(rng.gamma(1.0, size=(n, 3)) for n in (9, 8, 7))) / 4.0)
    hidden = np.random.default_rng(51).random(X.shape) < 0.4
    lower, upper = ld.complete(np.where(hidden, NAN, X)).interval()
    assert 0.85 < np.mean((lower <= X) & (upper >= X), where=hidden) < 0.95


def test_order_of_axes_and_of_names_has_no_influence() -> None:
    """Sums were rounded as the caller's memory was laid out, and EM amplified that: 15 and 140 differed by 0.002."""
    for seed in (0, 1, 15, 140):
        X = planted(seed)
        names = list("QWERT"[: len(X)])
        for step, levels in ((1, None), (-1, {0: names})):
            first = ld.complete(X, levels=levels)
            other = ld.complete(X[::step].T, levels=levels and {X.ndim - 1: names[::step]})
            np.testing.assert_allclose(other.tensor().T[::step], first.tensor(), rtol=1e-9)
            assert other.fit.error == pytest.approx(first.fit.error, rel=1e-9)


def test_units_do_not_matter() -> None:
    _, X = ramp(1)
    one = ld.complete(X, criterion="rmse", folds=2).fit.tensor()
    for unit in (2.0**250, 2.0**-250):
        np.testing.assert_allclose(ld.complete(unit * X, criterion="rmse", folds=2).fit.tensor(), unit * one, rtol=1e-9)


def test_gaps_are_held_out_in_their_shapes() -> None:
    rate, X = ramp(2, steep=0.7)
    X[:, 3] = rate[:, 3]
    X[5] = NAN
    done = ld.complete(X, names=["day", "hour"])
    assert done.fit.held_out == "fibres along mode hour (15%), cells (85%)"
    assert np.isfinite(done.tensor()).all()
    assert np.abs(done.tensor()[5] / rate[5] - 1).mean() < 0.25
    chosen = ld.complete(X, names=["day", "hour"], hold_out="hour")
    assert chosen.fit.held_out == "fibres along mode hour"
    assert chosen.fit.error == ld.complete(X, hold_out=1).fit.error


def test_blocks_are_held_out_as_blocks() -> None:
    """They were held out as fibres or single cells, which are easier to predict."""
    x = np.linspace(0, 3, 18)
    rate = 50 * np.exp(np.add.outer(np.sin(2 * x), np.cos(x))[..., None] + np.outer(np.cos(2 * x), [0, 0.5, 1]))
    X = np.random.default_rng(0).poisson(rate).astype(float)
    Y = X.copy()
    Y[9:, :8] = NAN
    done, turned = ld.complete(Y, names=["day", "hour", "place"]), ld.complete(Y.T)
    assert done.fit.held_out == "fibres along mode day (6 of 18), hour (6 of 18)"
    np.testing.assert_allclose(turned.tensor(), done.tensor().T, rtol=1e-9)
    lower, upper = done.interval(0.9)
    assert 0.8 < np.mean((lower <= X) & (upper >= X), where=np.isnan(Y)) < 0.99
    scattered = np.where(np.random.default_rng(1).random(X.shape) < 0.4, NAN, X)
    assert "of" not in ld.complete(scattered).fit.held_out  # blocks are not seen in scattered cells


def test_zeros_and_support() -> None:
    X = np.random.default_rng(3).poisson(9 * np.exp(np.add.outer(np.linspace(0, 1, 8), np.linspace(0, 1, 9))))
    X[4] = 0.0
    nothing = ld.complete(X)
    assert (nothing.fit.tensor()[4] < nothing.fit.tensor()[[3, 5]].mean(axis=0)).all()
    zeros_missing = ld.complete(X, support="nonzero")
    assert not zeros_missing.observed[4].any()
    assert (zeros_missing.tensor()[4] > 0.5).all()


@pytest.mark.parametrize("X", [[[1.0, NAN]], [[3.0, NAN, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]], [[1.0, 0.0], [0.0, 0.0]]])
def test_tiny_tensors(X: Any) -> None:
    filled = ld.complete(X).tensor()
    seen = np.isfinite(np.asarray(X))
    assert np.array_equal(filled[seen], np.asarray(X)[seen])
    assert np.isfinite(filled).all()
    if np.ptp(np.asarray(X)[seen]) == 0:
        np.testing.assert_allclose(filled, np.asarray(X)[seen][0], rtol=1e-6)


def test_an_unfinished_fit_says_so() -> None:
    _, X = ramp()
    with pytest.warns(ld.ConvergenceWarning, match=r"complete: the gradient is .* after 0 steps, tol = 1e-20"):
        assert not ld.complete(X, max_iter=0, tol=1e-20).converged


def test_bad_settings_are_refused() -> None:
    """What a basis shares is in test_complete.py."""
    with pytest.raises(ld.errors.InvalidSetting, match="solver='natural' needs a basis"):
        ld.complete([[1.0, NAN], [2.0, 3.0]], solver="natural")


def test_folds_that_leave_nothing_are_left_out() -> None:
    """All observed counts lie in one fibre: a ZeroDivisionError."""
    done = ld.complete([[NAN, NAN, NAN, 0.0], [NAN, NAN, 1.1, 0.9]], folds=2, hold_out=0)
    assert np.isfinite(done.tensor()).all()
    done = ld.complete([[2.0, NAN], [0.0, 0.0]], folds=2)
    assert done.fit.n_folds < 2
    assert np.isfinite(done.interval()).all()
