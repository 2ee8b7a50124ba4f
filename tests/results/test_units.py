"""Units and base measures of many sizes: every view against sums over all cells, no warning leaks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import legendre as ld
from oracles import FloatArray, zeta_matrix


def fitted(X: Any, basis: Any, **settings: Any) -> ld.Decomposition:
    """Fit; a warning of anything but convergence is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        return ld.decompose(X, basis, **settings)


def check_views(fit: ld.Decomposition, X: FloatArray, omega: Any, base: FloatArray, f: FloatArray) -> None:
    """Compare what a fit answers with Q from theta by the definition, in logarithms; relative in every cell."""
    cells, alive = np.argwhere(omega), omega.copy()
    alive[tuple(fit.vanishing_cells.T)] = False
    sums = np.full(X.shape, -np.inf)
    with np.errstate(divide="ignore"):
        sums[tuple(cells.T)] = zeta_matrix(cells, fit.basis) @ fit.theta + np.log(base[omega])
    sums[~alive] = -np.inf
    log_q = sums - (sums.max() + np.log(np.exp(sums - sums.max()).sum()))
    q, every = np.exp(log_q), range(X.ndim)
    rtol = 1e-8 + 1e-13 * float(np.abs(fit.theta).sum())
    assert_allclose(fit.log_prob(cells), log_q[omega], rtol=1e-9, atol=rtol)
    assert_allclose(fit.tensor()[omega] / fit.total, q[omega], rtol=rtol)
    assert_allclose(fit.tensor()[omega].sum() / fit.total, 1.0, rtol=1e-9)
    eta = q
    for k in every:
        eta = np.flip(np.cumsum(np.flip(eta, k), k), k)
        assert_allclose(fit.marginal(k), q.sum(axis=tuple(j for j in every if j != k)), rtol=rtol)
        row = np.moveaxis(log_q, k, 0)[0]
        if X.ndim > 1 and row.max() > -np.inf:
            weights = np.exp(row - row.max())
            assert_allclose(fit.condition({k: 0}), weights / weights.sum(), rtol=rtol)
    assert_allclose(fit.eta_tensor(), eta, rtol=rtol)
    assert_allclose(fit.expectation(f), (q * f).sum(), rtol=rtol)
    numbers = ~np.isnan(X)
    largest = max(fit.total, float(X[numbers].max()))
    difference = X[numbers] / largest - np.where(omega, q, 0.0)[numbers] * (fit.total / largest)
    assert_allclose(fit.rmse / largest, np.sqrt(np.mean(difference**2)), rtol=1e-6, atol=1e-13)


def test_every_view_is_right_whatever_the_units_of_x_and_the_base() -> None:
    rng = np.random.default_rng(8)
    for _ in range(100):
        shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
        X = rng.integers(0, 9, shape) * 10.0 ** rng.integers(-5, 6, shape) * rng.choice([1.0, 1e-90, 1e80])
        X[rng.random(shape) < 0.1] = np.nan
        base = (rng.random(shape) + 0.1) * 10.0 ** rng.integers(-8, 9, shape)
        base = base * rng.choice([1.0, 1e-80, 1e80])
        base[(rng.random(shape) < 0.3) & ~(X > 0)] = 0.0
        cells = np.array([cell for cell in np.ndindex(shape) if any(cell)]).reshape(-1, len(shape))
        try:
            fit = fitted(X, rng.permutation(cells)[: int(rng.integers(len(cells) + 1))], base=base)
        except ld.errors.LegendreError:  # nothing but zeros
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_views(fit, X, ~np.isnan(X) & (base > 0), base, rng.random(shape))
            fit.summary()
            fit.tensor(extend=True)


def test_a_base_outside_the_support_may_be_anything() -> None:
    """It is not looked at: infinite, negative or NaN, no warning leaks."""
    X, support = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 2.0]]), np.array([[True, True], [True, True], [False, False]])
    base = np.array([[1.0, 2.0], [2.0, 1.0], [np.inf, -1.0]])
    fit = fitted(X, "B1", support=support, base=base)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_allclose(fit.tensor().sum(), 10.0)
        assert_allclose(fit.marginal(0).sum(), 1.0)
        assert fit.log_prob([2, 0]).tolist() == fit.log_prob([2, 1]).tolist() == [-np.inf]
        assert_allclose(fit.condition({1: 0}).sum(), 1.0)
