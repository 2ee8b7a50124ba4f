"""Zeros in P: is the minimum attained, and which cells vanish in the limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import Case
from legendre.basis.basis import cells
from legendre.core import limits
from oracles import FloatArray, cells_that_vanish
from strategies import problems


def unreachable_parameter() -> Case:
    """No cell of Omega lies above (2, 0): its feature is 0 on Omega, which is no reason for anything to vanish."""
    X = np.array([[1.0, 2.0], [0.0, 3.0], [0.0, 0.0]])
    mask = np.array([[True, True], [True, True], [False, False]])
    return Case(X, mask, np.array([[0, 1], [1, 0], [2, 0]]))


@settings(max_examples=100)
@given(problems(zeros=True, max_cells=24))
@example(unreachable_parameter())
def test_the_cells_that_vanish_are_those_of_the_definition(case: Case) -> None:
    """The direction lowers them and leaves all others as they are among each other; the limit is a distribution."""
    gone = cells_that_vanish(case.Z, case.p)
    fit = case.fit()
    assert_array_equal(fit.vanishing_cells, case.omega[gone])
    assert fit.status is (ld.results.Status.AT_BOUNDARY if gone.any() else ld.results.Status.CONVERGED)
    q = case.q(fit)
    assert_allclose(case.Z.T @ q, case.eta_hat, atol=1e-9)
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    assert_array_equal(q == 0, gone)
    fall = case.Z @ fit.recession
    top = fall[~gone].max()
    assert_allclose(fall[~gone], top, atol=1e-6)
    assert (fall[gone] < top - 1e-3).all()


def test_the_designs_example() -> None:
    """Damped Newton meets any tolerance here while theta heads for -infinity: the residual alone is no proof."""
    fit = ld.decompose([[1, 1], [0, 0]], [(1, 0), (0, 1)])
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.vanishing_cells.tolist() == [[1, 0], [1, 1]]
    assert_allclose(fit.tensor(), [[1, 1], [0, 0]], atol=1e-12)
    assert np.isfinite(fit.theta).all()
    assert fit.recession[0] < 0 == fit.recession[1]


def corners() -> FloatArray:
    """Two empty corners of a cube: no two-way margin is empty, and yet no finite theta attains the minimum."""
    X = np.arange(1.0, 9.0).reshape(2, 2, 2)
    X[0, 0, 0] = X[1, 1, 1] = 0.0
    return X


BOUNDARY: dict[str, tuple[FloatArray, str | ld.Basis]] = {
    "empty_row": (np.array([[1.0, 1.0], [0.0, 0.0]]), "B1"),
    "opposite_corners": (corners(), ld.interactions(2)),
    "empty_top": (np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 0.0], [4.0, 0.0, 0.0]]), cells([(1, 2), (2, 1)])),
    "full_basis": (np.array([2.0, 0.0, 1.0, 0.0]), "full"),
    "empty_bottom": (np.array([[0.0, 2.0], [3.0, 4.0]]), "full"),
}


@pytest.mark.parametrize("name", sorted(BOUNDARY))
def test_q_is_the_limit_along_the_recession(name: str) -> None:
    X, basis = BOUNDARY[name]
    fit = ld.decompose(X, basis)
    grid = np.zeros(X.shape)
    grid[tuple(fit.basis.T)] = fit.theta + 60.0 * fit.recession
    assert_allclose(ld.dual.from_theta(grid), fit.tensor() / fit.total, atol=1e-9)
    assert ld.dual.kl(X, ld.dual.from_theta(grid)) == pytest.approx(fit.kl, abs=1e-9)


def test_zeros_that_harm_nothing() -> None:
    fit = ld.decompose(np.array([[0.0, 1.0], [1.0, 1.0]]), "B1")
    assert fit.status is ld.results.Status.CONVERGED
    assert fit.vanishing_cells.shape == (0, 2)
    assert not fit.recession.any()
    assert (fit.tensor() > 0).all()


def test_too_large_to_decide_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_FACE_PROGRAM", 0)
    with pytest.warns(ld.ConvergenceWarning, match="too large to decide whether a finite minimiser exists"):
        fit = ld.decompose(corners(), ld.interactions(2), tol=1e-6)
    assert fit.status is ld.results.Status.UNDECIDED
    assert fit.converged
    assert len(fit.vanishing_cells) == 0
    limit = ld.decompose(BOUNDARY["empty_row"][0], "B1")  # margins decide this one without a program
    assert limit.status is ld.results.Status.AT_BOUNDARY


@pytest.mark.parametrize("tol", [0.1, 1e-10])
def test_directions_of_thirds_cancel_exactly(tol: float) -> None:
    """An empty cell of the diagonal vanishes in a symmetric model; column effects make thirds of its directions."""
    X = [[2, 2, 0, 2], [1, 1, 0, 2], [2, 1, 0, 0], [2, 1, 2, 2]]
    fit = ld.decompose(X, ld.ties.symmetric(1, 0) | ld.ties.columns(0, 1) | ld.ties.columns(1, 0), tol=tol)
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.vanishing_cells.tolist() == [[2, 2]]
