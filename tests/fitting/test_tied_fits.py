"""Tied parameters: inference, solvers and carriers; tests/fuzz judges fits by the matrix of their features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.basis.basis import Basis
from legendre.core import limits
from legendre.data.dense import observe
from legendre.model.model import Cliques
from oracles import FloatArray

TABLES = json.loads((Path(__file__).parents[1] / "oracles" / "association.json").read_text())
HAUSER = np.array(TABLES["hauser79"]["counts"])
MAIN = ld.interactions(1)


def design(basis: Basis, x: FloatArray) -> FloatArray:
    """Compute the features of a basis on every cell of X, from the definition of zeta."""
    terms = basis.terms(observe(x))
    grid = np.indices(x.shape).reshape(x.ndim, -1).T
    zeta = (terms.cells[None, :, :] <= grid[:, None, :]).all(axis=2).astype(float)
    return np.asarray(zeta @ terms.as_ties().matrix().toarray())


def test_a_likelihood_ratio_of_tied_models_has_the_difference_of_both() -> None:
    small, large = (ld.decompose(HAUSER, b) for b in (MAIN | ld.ties.uniform(0, 1), MAIN | ld.ties.rows(0, 1)))
    test = ld.anova(small, large).tests[0]  # uniform association is a combination of row effects
    assert test.df == 3
    assert test.statistic == pytest.approx(small.inference().g2 - large.inference().g2)
    with pytest.raises(ld.errors.InvalidQuery, match=r"is not nested in .* e.g. 'mode 0 by mode 1, per"):
        ld.anova(small, ld.decompose(HAUSER, MAIN | ld.ties.diagonal(0, 1))).tests[0]
    symmetric = ld.decompose(HAUSER, ld.ties.symmetric(0, 1))
    quasi = ld.decompose(HAUSER, ld.ties.quasi_symmetric(0, 1))
    assert ld.anova(symmetric, quasi).tests[0].df == 4


def test_standard_errors_are_those_of_the_inverse_information() -> None:
    x = np.random.default_rng(1).poisson(20, (3, 4)).astype(float)
    basis = MAIN | ld.features({"wave": lambda i, j: np.cos(i * j)})
    fit, F = ld.decompose(x, basis), design(basis, x)
    q = (fit.tensor() / fit.total).ravel()
    centred = F - q @ F
    covariance = np.linalg.inv((centred * q[:, None]).T @ centred) / fit.total
    assert_allclose(fit.inference().covariance(), covariance, rtol=1e-7)
    leverage = 1 / fit.total + np.einsum("ij,ij->i", centred @ covariance, centred)
    pearson = (x.ravel() - fit.total * q) / np.sqrt(fit.total * q)
    expected = pearson / np.sqrt(1 - leverage * fit.total * q)
    assert_allclose(fit.inference().residuals("adjusted").ravel(), expected, rtol=1e-7)


@pytest.mark.parametrize("solver", ["natural", "natural-cg", "batch"])
def test_solvers_that_take_ties_agree(solver: str) -> None:
    x = np.random.default_rng(3).uniform(1, 2, (3, 4))
    basis = MAIN | ld.ties.uniform(0, 1)
    chosen = ld.solvers.Gradient(form="batch") if solver == "batch" else solver
    known, fit = ld.decompose(x, basis), ld.decompose(x, basis, solver=chosen, tol=1e-8)
    assert fit.converged
    assert_allclose(fit.tensor(), known.tensor(), atol=1e-6)


def test_sparse_and_dense_tensors_have_the_same_tied_fit() -> None:
    rng = np.random.default_rng(5)
    x = rng.poisson(0.4, (6, 6, 4)).astype(float)
    basis = MAIN | ld.ties.uniform(0, 1) | ld.ties.diagonal(0, 1)
    dense = ld.decompose(x, basis)
    sparse = ld.decompose(ld.from_coords(np.argwhere(x > 0), x[x > 0], x.shape), basis)
    assert_allclose(sparse.theta, dense.theta, atol=1e-7)
    assert sparse.kl == pytest.approx(dense.kl, abs=1e-10)


def test_ties_on_cliques_equal_those_on_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).uniform(0.5, 2, (3, 3, 3, 3))
    basis = ld.interactions([(0, 1), (1, 2)]) | ld.ties.uniform(2, 3) | ld.ties.diagonal(0, 1)
    grid = ld.decompose(x, basis)
    monkeypatch.setattr(limits, "CLIQUES_FROM", 0)
    monkeypatch.setattr(limits, "CLIQUES_GAIN", 0)
    fit = ld.decompose(x, basis)
    assert isinstance(fit.model, Cliques)
    assert_allclose(fit.theta[:-3], grid.theta[:-3], atol=1e-7)
    assert_allclose(fit.tensor(), grid.tensor(), atol=1e-9)
    assert_allclose(fit.marginal([0, 3]), grid.marginal([0, 3]), atol=1e-10)
    assert_allclose(fit.condition({0: 1, 3: 2}), grid.condition({0: 1, 3: 2}), atol=1e-10)


def test_collinear_features_lower_the_rank_and_raise_nothing() -> None:
    fit = ld.decompose(
        HAUSER,
        MAIN | ld.features({"a": lambda i, j: i * j, "b": lambda i, j: 0.1 * i * j + 0.3 * i, "c": np.ones((5, 5))}),
    )
    assert (fit.n_params, fit.rank) == (11, 9)
    assert fit.inference().df == 15
    assert fit.inference().g2 == pytest.approx(ld.decompose(HAUSER, MAIN | ld.ties.uniform(0, 1)).inference().g2)
    assert "Of the 11 parameters 9 are independent" in fit.certificate().text()


def test_zeros_under_a_tied_feature_make_its_cells_vanish() -> None:
    x = np.array([[0.0, 3, 2], [4, 0, 3], [2, 5, 0]])
    fit = ld.decompose(x, MAIN | ld.features({"diagonal": np.eye(3)}))
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.vanishing_cells.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert "runs to infinity" in fit.inference().reasons[-1]
