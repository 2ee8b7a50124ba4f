"""Which parameters are independent, found with a matrix and without."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

import legendre as ld
from cases import Case
from legendre.data.support import Support
from legendre.model.model import Model
from legendre.solvers.before.rank import independent
from strategies import problems


def twin(case: Case) -> int:
    """Rank of the features with the constant, less one, from the definition."""
    cells = np.argwhere(case.mask)
    features = (case.basis[None, :, :] <= cells[:, None, :]).all(axis=2).astype(float)
    return int(np.linalg.matrix_rank(np.hstack([np.ones((len(cells), 1)), features]))) - 1


@given(problems())
def test_the_rank_is_that_of_the_design(case: Case) -> None:
    model = Model.of(Support(case.X.shape, case.mask), None, case.basis)
    assert len(independent(model)) == twin(case)


@settings(max_examples=60)
@given(problems())
def test_without_a_matrix_the_constant_is_found(case: Case) -> None:
    """Cells of B inside Omega are independent of each other; only the constant may depend on them."""
    inside = case.basis[case.mask[tuple(case.basis.T)]]
    mask = case.mask.copy()
    mask[(0,) * mask.ndim] = False
    if not mask.any():
        return
    model = Model.of(Support(mask.shape, mask), None, inside[mask[tuple(inside.T)]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("legendre.core.limits.LARGEST_MATRIX", -1)
        found = len(independent(model))
    assert found == twin(Case(case.X, mask, model.basis))


def test_a_basis_too_large_for_a_matrix_is_still_fitted(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    X = rng.gamma(1.0, size=(6, 5, 4))
    X[0, 0, 0] = np.nan
    expected = ld.decompose(X, ld.full())
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 10)
    fit = ld.decompose(X, ld.full(), solver="natural")
    assert fit.rank == expected.rank == 118
    assert_allclose(fit.tensor(), expected.tensor(), rtol=1e-7)


def test_existence_of_a_large_basis_is_left_open_at_the_boundary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Haberman's table: every two-way margin is positive, and yet two cells vanish."""
    X, basis = np.ones((2, 2, 2)), ld.interactions(2)
    X[0, 0, 0] = X[1, 1, 1] = 0.0
    assert ld.decompose(X, basis).status is ld.Status.AT_BOUNDARY
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 1)
    with pytest.warns(ld.ConvergenceWarning, match="too large to decide"):
        fit = ld.decompose(X, basis, solver="natural", tol=1e-6)
    assert fit.status is ld.Status.UNDECIDED


@pytest.mark.parametrize(("solver", "status"), [("natural", "CONVERGED"), ("natural-cg", "UNDECIDED")])
@pytest.mark.filterwarnings("ignore:.*too large to decide")
def test_the_fit_itself_may_prove_that_the_minimum_is_attained(
    solver: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the gap stands a positive tensor with the data's expectations, if the last system was solved exactly."""
    X = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
    assert ld.decompose(X, "B1", solver=solver).status is ld.Status.CONVERGED  # a product: nothing to prove
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 1)
    cells = [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert ld.decompose(X, cells, solver=solver).status is ld.Status[status]
