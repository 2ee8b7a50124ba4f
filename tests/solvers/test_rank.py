"""Which parameters are independent, found with a matrix and without."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import legendre as ld
from cases import Case
from legendre.data.observation import Support
from legendre.model.model import Model
from legendre.solvers.structure.rank import Rank, independent, rank_of
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


def test_nearly_constant_features_are_told_from_dependent_ones() -> None:
    """One of six seemed independent by a rounding error of the covariance, 20 times that of its entries."""
    X = np.zeros((6, 5))
    X[0, 4], X[1, 1], X[3, :4], X[4, 2], X[5, 3] = 2, 2, (1, 4, 1, 2), 2, 5
    basis = [[0, 4], [1, 4], [2, 0], [5, 1], [2, 3], [4, 2], [1, 0], [3, 3], [0, 3], [2, 4]]
    fit = ld.decompose(X, basis)
    gone = {tuple(cell) for cell in fit.vanishing_cells.tolist()}
    left = [cell for cell in np.ndindex(X.shape) if cell not in gone]
    features = [[1, *(all(i >= j for i, j in zip(cell, u, strict=True)) for u in basis)] for cell in left]
    assert fit.rank == np.linalg.matrix_rank(np.array(features, dtype=float)) - 1 == 5


@pytest.mark.parametrize(("solver", "status"), [("natural", "CONVERGED"), ("natural-cg", "UNDECIDED")])
@pytest.mark.filterwarnings("ignore:.*too large to decide")
def test_the_fit_itself_may_prove_that_the_minimum_is_attained(
    solver: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the gap stands a positive tensor with the data's expectations, if the last system was solved exactly."""
    X = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 2.0], [1.0, 1.0, 0.0]])
    assert ld.decompose(X, "B1", solver=solver).status is ld.results.Status.CONVERGED  # a product: nothing to prove
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 1)
    cells = [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert ld.decompose(X, cells, solver=solver).status is ld.results.Status[status]


def test_a_rank_without_a_matrix_is_right_or_said_to_be_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the largest matrix the rank was the number of parameters, whatever their dependence; df came of it."""
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 3)
    rng, bounds, dependent = np.random.default_rng(7), 0, 0
    for _ in range(120):
        shape = tuple(int(n) for n in rng.integers(2, 5, int(rng.integers(1, 4))))
        X = rng.integers(0, 4, shape).astype(float)
        support, basis = str(rng.choice(["all", "nonzero"])), ld.interactions(int(rng.integers(1, len(shape) + 1)))
        if not X.any():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ld.ConvergenceWarning)
            fit = ld.decompose(X, basis, support=support)
        omega = (X > 0) if support == "nonzero" else np.ones(shape, dtype=bool)
        omega[tuple(fit.vanishing_cells.T)] = False
        exact = twin(Case(X, omega, fit.basis))
        bounds, dependent = bounds + fit.rank_is_bound, dependent + (exact < fit.n_params)
        assert fit.rank >= exact
        if fit.rank_is_bound:
            assert f"rank at most {fit.rank}" in fit.summary()
            with pytest.raises(ld.errors.InvalidQuery, match=r"degrees of freedom are not known: of .* at most"):
                fit.inference()
        else:
            assert fit.rank == exact
            assert fit.inference().df == int(omega.sum()) - 1 - exact
    assert bounds > 5
    assert dependent - bounds > 20


def test_features_may_depend_on_the_constant_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were counted as independent parameters of a large basis if Omega lacks the bottom."""
    X = np.arange(9.0).reshape(3, 3)
    basis = np.argwhere(X > 0)[:-1]
    assert ld.decompose(X, basis, support="nonzero").rank == len(basis) - 1
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 3)
    assert ld.decompose(X, basis, support="nonzero").rank_is_bound


def test_a_bound_of_the_rank_is_kept_in_the_file_and_refuses_a_likelihood_ratio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 1)
    X = np.array([[2, 3, 0], [0, 4, 1], [5, 0, 0]])
    small, large = (ld.decompose(X, ld.interactions(n), support="nonzero") for n in (1, 2))
    assert small.rank_is_bound
    with pytest.raises(ld.errors.InvalidQuery, match="degrees of freedom are not known"):
        ld.anova(small, large).tests[0]
    small.save(tmp_path / "fit.npz")
    assert ld.load(tmp_path / "fit.npz").summary() == small.summary()
    assert "at most" in str(ld.plan(X, ld.interactions(1), support="nonzero"))


@given(problems())
def test_the_rank_of_all_cells_is_that_of_the_sample_space(case: Case) -> None:
    """With B all cells but the bottom every function on Omega is in the model."""
    every = np.argwhere(np.ones(case.X.shape))[1:]
    full = Case(case.X, case.mask, every)
    model = Model.of(Support(case.X.shape, case.mask), None, every)
    assert rank_of(model) == Rank(twin(full))


@pytest.mark.parametrize("order", [400, 700])
def test_ties_of_wide_tables(order: int) -> None:
    """The number of cells is no float, or its square is none."""
    X = ld.SparseTensor(np.eye(2, order, dtype=int), np.ones(2), (3,) * order)
    assert ld.plan(X, ld.interactions(1) | ld.ties.uniform(0, 1)).problem.model.n_params == 2 * order + 1
