"""The status never claims more than the numbers show: residual and existence, against sums over all cells."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import legendre as ld
from legendre.core import limits
from legendre.model.model import Cliques
from oracles import FloatArray, distribution, zeta_matrix

TOLERANCES = (0.3, 0.1, 1e-2, 1e-4, 1e-10, 1e-15, 1e-16, 3e-17, 1e-300, 0.0)
SOLVERS = ("auto", "auto", "natural", "natural-cg", "scaling")


def fitted(X: Any, basis: Any, **settings: Any) -> ld.Decomposition | None:
    """Fit without a word about convergence; ``None`` where the library refuses. Any other warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        try:
            return ld.decompose(X, basis, **settings)
        except ld.errors.LegendreError:
            return None


def residual(fit: ld.Decomposition, X: FloatArray, omega: Any) -> float:
    """``max|eta - eta_hat|`` on all of B by the definition."""
    gone = {tuple(cell) for cell in fit.vanishing_cells.tolist()}
    cells = np.argwhere(omega)
    alive = np.array([tuple(cell) not in gone for cell in cells.tolist()])
    Z, p = zeta_matrix(cells, fit.basis), X[omega] / X[omega].sum()
    q = np.zeros(len(cells))
    q[alive] = distribution(Z[alive], fit.theta, np.ones(int(alive.sum())))
    return float(np.abs(Z.T @ (q - p)).max(initial=0.0))


def random_case(rng: np.random.Generator) -> tuple[FloatArray, Any, Any, Any]:
    """X with zeros and NaN, a sample space, and cells of B, most often dependent there."""
    shape = tuple(int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4))))
    X = rng.integers(0, rng.choice([2, 4, 30]), shape).astype(np.float64)
    X[rng.random(shape) < 0.2] = np.nan
    support = [np.ones(shape, dtype=bool), rng.random(shape) < 0.7][int(rng.integers(2))]
    cells = np.array([cell for cell in np.ndindex(shape) if any(cell)]).reshape(-1, len(shape))
    basis = rng.permutation(cells)[: int(rng.integers(len(cells) + 1))] if rng.random() < 0.6 else "full()"
    return X, basis, support, support & ~np.isnan(X)


def test_converged_exactly_where_the_residual_of_all_of_b_is_within_tol() -> None:
    rng = np.random.default_rng(12)
    dependent = 0
    for _ in range(200):
        X, basis, support, omega = random_case(rng)
        tol = float(rng.choice(TOLERANCES))
        fit = fitted(X, basis, support=support, tol=tol, solver=str(rng.choice(SOLVERS)))
        if fit is None:
            continue
        dependent += fit.rank < fit.n_params
        assert fit.converged == (fit.residual <= tol), (X, basis, support, tol, fit)
        assert_allclose(fit.residual, residual(fit, X, omega), rtol=1e-9, atol=1e-14)
    assert dependent > 50


def test_a_budget_that_is_spent_is_not_overstepped_by_corrections() -> None:
    """Corrections beyond tol used to bring a fit within it after max_iter, which was then said to be above it."""
    X = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 1.0], [2.0, 2.0, 7.0]])
    fit = fitted(X, "B1", solver="natural", max_iter=2)
    assert fit is not None
    assert fit.status is ld.results.Status.OUT_OF_STEPS
    assert fit.residual == fit.history[-1].residual > fit.tol


@pytest.mark.parametrize(
    ("X", "basis", "tol", "solver", "status"),
    [
        ([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0]], "interactions(1)", 1e-16, "natural", "AT_BOUNDARY"),
        ([[0.0, 0.0], [1.0, 0.0]], [[1, 0]], 0.0, "auto", "AT_BOUNDARY"),
        ([[0.0, 0.0], [1.0, 0.0]], [[1, 0]], 3e-17, "auto", "AT_BOUNDARY"),
        ([[[0.0, 1.0], [2.0, 1.0]], [[1.0, 2.0], [1.0, 0.0]]], "interactions(2)", 1e-15, "natural", "AT_BOUNDARY"),
    ],
)
def test_no_finite_minimiser_is_claimed_where_cells_sank_below_rounding(
    monkeypatch: pytest.MonkeyPatch, X: list[Any], basis: Any, tol: float, solver: str, status: str
) -> None:
    """On cliques the fit itself proves that a minimiser exists; a residual of 0 by rounding proves nothing.

    Of margins that form a tree the tables tell what vanishes. In the last case every state of every pair is seen, and a
    linear program over the tables decides.
    """
    for name in ("CLIQUES_FROM", "CLIQUES_GAIN", "LARGEST_MASS", "LARGEST_GRID"):
        monkeypatch.setattr(limits, name, 0)
    values = np.array(X)
    cells = np.argwhere(values)
    fit = fitted(ld.from_coords(cells, values[values > 0], values.shape), basis, tol=tol, solver=solver)
    assert fit is not None
    assert isinstance(fit.model, Cliques)
    assert fit.status.name == status
    # the linear program: no positive distribution has the expectations of X
    design = np.hstack([np.ones((values.size, 1)), zeta_matrix(np.argwhere(values >= 0), fit.basis)])
    right, spread = design.T @ values.ravel() / values.sum(), design.sum(axis=0)[:, None]
    cost = np.append(np.zeros(values.size), -1.0)
    program = linprog(cost, A_eq=np.hstack([design.T, spread]), b_eq=right, bounds=(0, None), method="highs")
    assert program.x is not None
    assert program.x[-1] == pytest.approx(0.0, abs=1e-9)
