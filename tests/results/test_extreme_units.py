"""Units and base measures over the whole range of float64: every view against sums over all cells, no warning leaks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from oracles import FloatArray, zeta_matrix

SMALLEST = 1e-290  # below, float64 has fewer digits


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
    shown = omega & (q * fit.total > SMALLEST)
    assert_allclose(fit.tensor()[shown] / fit.total, q[shown], rtol=rtol)
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
    for _ in range(150):
        shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
        X = rng.integers(0, 9, shape) * 10.0 ** rng.integers(-5, 6, shape) * rng.choice([1.0, 1e-200, 1e200, 1e290])
        X[rng.random(shape) < 0.1] = np.nan
        base = (rng.random(shape) + 0.1) * 10.0 ** rng.integers(-150, 151, shape) ** int(rng.integers(2))
        base = base * rng.choice([1.0, 1e-150, 1e150])
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


def test_a_base_far_above_x_costs_no_digits() -> None:
    """``q / r`` was formed, 5e-321 here: marginals, conditions and tensors were off by per cents."""
    X, base = np.array([[1.0, 1e-14], [0.0, 1.0]]), np.array([[1e306, 1e306], [0.0, 1e306]])
    fit = fitted(X, ld.full(), base=base, tol=1e-15)
    q = np.exp(fit.log_prob(np.argwhere(X >= 0))).reshape(2, 2)
    assert 1e-15 < q[0, 1] < 1e-12
    assert_allclose(fit.tensor(), q * fit.total, rtol=1e-12)
    assert_allclose(fit.eta_tensor()[0, 1], q[:, 1].sum(), rtol=1e-12)
    assert_allclose(fit.marginal([1, 0]), q.T, rtol=1e-12)
    assert_allclose(fit.expectation([[0.0, 1.0], [0.0, 0.0]]), q[0, 1], rtol=1e-12)
    gaps = ld.complete(np.where(X == 0.0, np.nan, X), ld.interactions(1), base=np.full((2, 2), 1e306), tol=1e-15)
    assert_allclose(gaps.fit.tensor()[0, 1], gaps.fit.total * np.exp(gaps.fit.log_prob([0, 1]))[0], rtol=1e-12)
    assert_allclose(gaps.tensor()[1, 0] * q[0, 1], q[0, 0] * q[1, 1] * gaps.fit.total, rtol=1e-6)


def test_rmse_is_finite_where_entries_outside_the_support_are_far_larger() -> None:
    X = np.array([[1.0, 2.0], [3.0, 1e200]])
    fit = fitted(X, "B1", support=X < 10)
    assert fit.rmse == pytest.approx(5e199)
    assert fitted(X * 1e100, "B1", support=X < 10).rmse == pytest.approx(5e299)


@pytest.mark.parametrize("basis", [None, "B1", "interactions(2)"])
@pytest.mark.parametrize("other", [0.0, np.nan, 1.0])
def test_an_entry_too_small_for_a_share_is_refused_beside_zeros_too(basis: str | None, other: float) -> None:
    with pytest.raises(ld.errors.InvalidTensor, match=r"the smallest entry of X, .*, underflows to 0 when"):
        ld.decompose([[1e308, 5e-324], [1.0, other]], basis)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float32])
def test_large_numbers_beside_zeros_are_read(dtype: Any) -> None:
    X = np.array([[2**62, 0], [2**40, 1]], dtype=dtype)
    assert ld.decompose(X, "B1").total == 2.0**62 + 2.0**40 + 1
    assert (
        ld.decompose(np.ma.masked_array(X, mask=[[False, False], [True, False]]), "interactions(1)").total
        == 2.0**62 + 1
    )


def test_an_outer_product_without_a_margin_of_p_is_not_written_down() -> None:
    """The sum of the last column is more than 0, its share of all is 0 in float64."""
    X = np.array([[4.0, 5e-324], [3.0, 0.0]])
    assert_allclose(ld.decompose(X, "B1").tensor(), [[4, 0], [3, 0]], atol=1e-8)


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e300])
def test_errors_scale_with_x(unit: float) -> None:
    X = np.array([[1.0, 2.0], [3.0, 5.0]])
    for settings in ({}, {"base": np.array([[1.0, 2.0], [2.0, 1.0]])}):
        one, other = fitted(X, "B1", **settings), fitted(X * unit, "B1", **settings)
        assert_allclose(other.rmse / unit, one.rmse, rtol=1e-9)
        assert_allclose(other.tensor() / unit, one.tensor(), rtol=1e-9)
        assert_allclose(other.kl, one.kl, rtol=1e-9)


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


def test_kl_where_a_parameter_is_far_beyond_what_eta_can_tell() -> None:
    """Theta of -1e8 times the rounding error of eta_hat is 1e-8; with log q from theta nothing is lost."""
    rows = (
        (1.8759906092664371e28, 69.76213539493418, 4.598561306428889e-05),
        (173191797421886.0, 971608609808422.2, 8504252.811492404),
        (6.5654877671751735e25, 4.203496571026277e36, 2.5621921109684517e32),
    )
    X = np.array(rows)
    basis = ld.interactions(1) | ld.ties.symmetric(0, 1) | ld.ties.diagonal(1, 0)
    with pytest.warns(ld.ConvergenceWarning):
        fit = ld.decompose(X, basis, solver="natural-cg", tol=1e-300)
    assert np.abs(fit.theta).max() > 1e4
    p, cells = (X / X.sum()).ravel().astype(np.longdouble), np.argwhere(X > 0)
    expected = float((p * (np.log(p) - fit.log_prob(cells).astype(np.longdouble))).sum())
    assert fit.kl == pytest.approx(expected, abs=1e-14)
