"""Merging cells is exact: the quotient has the weights, the masses and the answers of the unmerged grid."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from cases import NAMED, Case
from legendre.core.sums.linalg import factorise
from legendre.core.sums.quotient import Quotient
from legendre.data.dense import observe
from legendre.data.observation import Support
from legendre.model.problem import Problem
from legendre.solvers.structure.rank import covariance
from oracles import FloatArray
from strategies import problems


def problem_of(case: Case) -> Problem:
    return Problem.of(observe(case.X, case.mask, case.base), case.basis)


def boxed(case: Case, quotient: Quotient, values: FloatArray) -> FloatArray:
    """Sum values on Omega over each box, cell by cell: a box is where every cut at or below is the same."""
    out = np.zeros(quotient.merged_shape)
    for v, value in zip(case.omega.tolist(), values, strict=True):
        box = tuple(max(i for i, c in enumerate(cut) if c <= x) for cut, x in zip(quotient.cuts, v, strict=True))
        out[box] += value
    return out


@given(problems(weighted=True))
def test_weights_and_masses_are_sums_over_boxes(case: Case) -> None:
    problem = problem_of(case)
    quotient = problem.model.quotient
    assert_allclose(problem.model.weights, boxed(case, quotient, case.r), rtol=1e-12)
    assert_allclose(problem.mass, boxed(case, quotient, case.p), rtol=1e-12)
    assert_allclose(problem.eta_hat, case.eta_hat, rtol=1e-12)


@given(problems())
def test_cuts_are_the_coordinates_of_the_basis(case: Case) -> None:
    quotient, _ = Quotient.of(case.X.shape, case.basis)
    for k, cut in enumerate(quotient.cuts):
        assert cut.tolist() == sorted({0} | set(case.basis[:, k].tolist()))
    assert quotient.merged_shape == tuple(len(cut) for cut in quotient.cuts)


@given(problems())
def test_positions_and_spreading(case: Case) -> None:
    quotient, _ = Quotient.of(case.X.shape, case.basis)
    labels = np.arange(np.prod(quotient.merged_shape)).reshape(quotient.merged_shape)
    spread = quotient.spread(labels)
    assert spread.shape == case.X.shape
    boxes = quotient.boxes(case.omega)
    assert_array_equal(spread[tuple(case.omega.T)], labels[tuple(boxes.T)])
    for row in range(case.X.shape[0]):
        assert_array_equal(quotient.spread(labels, slice(row, row + 1)), spread[row : row + 1])


def test_a_face_loses_weight_and_columns() -> None:
    problem = problem_of(NAMED["matrix"])
    alive = problem.model.alive.copy()
    alive[0, 0] = False
    small = problem.reduce(alive, np.array([2, 0]))
    assert small.model.weights[0, 0] == 0
    assert_array_equal(small.model.basis, problem.model.basis[[2, 0]])
    assert_array_equal(small.model.positions, problem.model.positions[[2, 0]])
    assert_array_equal(small.eta_hat, problem.eta_hat[[2, 0]])
    assert small.model.quotient is problem.model.quotient


@given(problems())
def test_the_covariance_is_that_of_uniform_merged_cells(case: Case) -> None:
    model = problem_of(case).model
    cells = np.argwhere(model.alive)
    Z = (cells[:, None, :] >= model.positions[None]).all(axis=2).astype(np.float64)
    expected = (
        np.cov(Z, rowvar=False, bias=True).reshape(len(case.basis), len(case.basis)) if Z.size else covariance(model)
    )
    assert_allclose(covariance(model), expected, atol=1e-12)


def test_factorise_solves_scaled_and_singular_systems(rng: np.random.Generator) -> None:
    A = rng.normal(size=(6, 4)) * np.array([1.0, 1e-6, 1e6, 1.0])
    x = np.array([1.0, -2e6, 3e-6, 0.5])  # so that every column counts alike
    G = A.T @ A
    assert_allclose(factorise(G.copy(), 6).solve(G @ x), x, rtol=1e-6)
    double = np.vstack([A.T, A.T[:1]]) @ np.hstack([A, A[:, :1]])
    factor = factorise(double.copy(), 6)
    assert len(factor.columns) == 4
    right = double @ np.array([1.0, 0.0, 2e-6, 0.0, 1.0])
    assert_allclose(double @ factor.solve(right), right, rtol=1e-6)
    assert factorise(np.zeros((0, 0)), 1).solve(np.zeros(0)).shape == (0,)
    assert_array_equal(factorise(np.zeros((2, 2)), 1).solve(np.ones(2)), [0.0, 0.0])


def test_support_lists_and_contains() -> None:
    mask = np.array([[True, False], [True, True]])
    support = Support((2, 2), mask)
    assert (len(support.shape), support.n_cells) == (2, 3)
    assert support.cells().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert support.contains(np.array([[0, 1], [1, 1]])).tolist() == [False, True]
    everything = Support((2, 2))
    assert everything.cells().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert everything.contains(np.array([[0, 1]])).tolist() == [True]
    assert Support((2**40, 2**40)).n_cells == 2**80
