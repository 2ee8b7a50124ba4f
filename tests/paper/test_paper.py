"""The paper's misprints, one test each, and traps into which others fell; for bases see basis/test_basis.py."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.core.sums.zeta import zeta
from oracles import FloatArray


@pytest.fixture
def X(rng: np.random.Generator) -> FloatArray:
    return rng.uniform(0.1, 2.0, size=(3, 4, 2))


def test_the_bottom_is_minus_psi(X: FloatArray) -> None:
    """The paper prints 1 / exp(psi), which is the value of q there, not of theta."""
    fit = ld.decompose(X, "B1 + B2(1)")
    T, q = fit.theta_tensor(), fit.tensor() / fit.total
    assert T[0, 0, 0] == -fit.psi
    assert q[0, 0, 0] == pytest.approx(np.exp(-fit.psi))
    assert_allclose(zeta(T), np.log(q), atol=1e-12)


def test_existence_needs_positive_tensors() -> None:
    """A zero margin has no finite theta: the paper's P > 0 is needed, and what there is without it is a limit."""
    X = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    fit = ld.decompose(X, "B1")
    assert fit.status is ld.results.Status.AT_BOUNDARY
    thetas = [ld.decompose(X + eps, "B1").theta_tensor()[1, 0] for eps in (1e-2, 1e-4, 1e-6, 1e-8)]
    assert all(after < before - 4 for before, after in pairwise(thetas))


def test_computing_q_does_not_cost_the_basis() -> None:
    """O(N |Omega|) by prefix sums, where the paper states O(|Omega| |B|): a dense zeta would be 8 TB here."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(100, 100, 100))
    assert ld.dual.from_theta(theta / 1000).sum() == pytest.approx(1.0)


def test_the_first_basis_element_is_not_dropped(X: FloatArray) -> None:
    fit = ld.decompose(X, [(0, 0, 1)])
    assert fit.n_params == 1
    assert fit.theta[0] != 0.0
    assert_allclose(fit.tensor().sum(axis=(0, 1)), X.sum(axis=(0, 1)), rtol=1e-9)
    for basis in ("B1", "B3(2)"):
        every = ld.decompose(X, basis)
        assert (every.theta != 0).all()


def test_a_residual_that_rises_does_not_end_the_run() -> None:
    """Newton's steps lower KL, not the residual: a program that stops when it rises returns an unfinished answer."""
    rose = False
    for seed in range(4, 16):
        wide = np.random.default_rng(seed).lognormal(sigma=4.0, size=(5, 5, 5))
        fit = ld.decompose(wide, ld.interactions(2))
        rose |= any(after.residual > before.residual for before, after in pairwise(fit.history))
        assert fit.status is ld.results.Status.CONVERGED
    assert rose


def test_natural_gradient_is_newton(X: FloatArray) -> None:
    """Algorithm 2 converges quadratically: the residual's exponent about doubles in the last steps."""
    residuals = [step.residual for step in ld.decompose(X, "B1 + B3(1)", tol=1e-12).history]
    small = [r for r in residuals if 1e-12 < r < 1e-2]
    assert all(after < 10 * before**1.7 for before, after in pairwise(small))


def test_algorithm_1_is_one_coordinate_after_the_other() -> None:
    """As printed: eta is computed anew after each single update."""
    X = np.array([[1.0, 2.0], [3.0, 5.0]])
    with pytest.warns(ld.ConvergenceWarning, match="1 steps"):
        fit = ld.decompose(X, [(0, 1), (1, 0), (1, 1)], solver=ld.solvers.Gradient(learning_rate=0.5), max_iter=1)
    theta = np.zeros((2, 2))
    eta_hat = ld.dual.to_eta(X)
    for cell in [(0, 1), (1, 0), (1, 1)]:
        theta[cell] -= 0.5 * (ld.dual.to_eta(ld.dual.from_theta(theta))[cell] - eta_hat[cell])
    assert_allclose(fit.theta, [theta[0, 1], theta[1, 0], theta[1, 1]], atol=1e-14)
