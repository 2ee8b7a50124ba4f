"""The parts of which growing is made, each against its definition: correlations, peaks, merged grids, factors."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core import limits
from legendre.data.dense import observe
from legendre.fitting.growing.candidates import find_peaks
from legendre.fitting.growing.grow import Search, losses, select_to_drop
from legendre.fitting.growing.state import DataGrid, FactoredCorrelations, GrowingFactor, Moments, State


@pytest.mark.parametrize("compiled", [False, True])
def test_correlations_are_those_of_the_definition(*, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if compiled:
        monkeypatch.setattr(limits, "NUMPY_CELLS", 0)
    shape, rng = (4, 5, 3), np.random.default_rng(0)
    X = rng.dirichlet(np.ones(60)).reshape(shape)
    cells = np.stack(np.unravel_index(rng.permutation(np.arange(1, 60)), shape), axis=1)
    table = (np.indices(shape).reshape(3, -1).T[None] >= cells[:, None]).all(axis=2).astype(float)
    covariance = np.cov(table, aweights=X.ravel(), ddof=0)
    expected = covariance / np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    grid = DataGrid.of(observe(X))
    one, other = (Moments.of(grid, grid.eta_hat, grid.box_features(some)) for some in (cells[:20], cells[20:]))
    assert_allclose(other.correlations(one), expected[20:, :20], atol=1e-9)
    assert_allclose(np.tril(one.correlations(one, lower=True)), np.tril(expected[:20, :20]), atol=1e-9)
    state = State.of(grid, one.features, np.zeros(20))
    state = replace(state, eta=grid.eta_hat).with_factor()  # under X itself
    assert_allclose(state.max_squared_correlation(other.features), (expected[20:, :20] ** 2).max(axis=1), atol=1e-6)


def test_what_is_given_back_together_is_chosen_given_those_before_it() -> None:
    """Estimated losses are infinite for cells that keep others empty; those are left alone."""
    X = np.random.default_rng(0).random((7, 8, 6))
    X[5:, 6:, 3:] = X[1:, 7:, 4:] = 0.0
    grid = DataGrid.of(observe(X))
    cells = np.array([[5, 6, 3], [1, 7, 4], [3, 0, 0], [3, 1, 0], [0, 4, 2]])
    state = State.of(grid, grid.box_features(cells), np.zeros(5)).fit(1e-12, 30)[0].with_factor()
    search = Search(grid, state.features.take(np.arange(0)), None, 5)
    inverse = state.factored.factor.inverse()
    found = select_to_drop(state, inverse, search.estimate_losses(state, inverse), 5)
    assert sorted(found.tolist()) == [2, 3, 4]
    assert np.flatnonzero(state.recession).tolist() == [0, 1]
    assert len(select_to_drop(state, inverse, losses(state, inverse), 2, below=0.0)) == 0


@pytest.mark.parametrize("shape", [(7,), (1, 6), (4, 5, 3), (2, 3, 1, 4)])
def test_peaks_are_those_of_the_definition(shape: tuple[int, ...]) -> None:
    """No neighbour along a mode is larger, none before it equal."""
    field = np.random.default_rng(len(shape)).integers(0, 4, size=shape).astype(np.float64)
    expected = []
    for place, cell in enumerate(itertools.product(*map(range, shape))):
        beside = [(k, step) for k in range(len(shape)) for step in (-1, 1) if 0 <= cell[k] + step < shape[k]]
        values = [(field[(*cell[:k], cell[k] + step, *cell[k + 1 :])], step) for k, step in beside]
        own = field[cell]
        if own > 0 and all(value < own or (value == own and step > 0) for value, step in values):
            expected.append(place)
    assert find_peaks(field.ravel(), shape).tolist() == expected


@pytest.mark.parametrize("kind", ["positive", "zeros", "mask", "base"])
def test_boxes_are_the_same_problem(kind: str) -> None:
    """The fit of a few cells on the boxes that they cut is the fit on the grid."""
    rng = np.random.default_rng(3)
    X = rng.gamma(2.0, size=(9, 8, 7))
    X[:, 5:, 2] = 0.0 if kind == "zeros" else X[:, 5:, 2]
    mask = rng.random(X.shape) < 0.8 if kind == "mask" else "all"
    base = rng.random(X.shape) + 0.5 if kind == "base" else None
    grid = DataGrid.of(observe(X, mask, base))
    places = grid.box_features(np.array([[3, 0, 0], [0, 5, 2], [0, 4, 0], [6, 2, 3]]))
    boxes, on_boxes = grid.merge(places)
    assert boxes.eta_hat.size == 3 * 4 * 3
    whole, small = (
        State.of(some, where, np.zeros(4)).fit(1e-25, 40)[0] for some, where in ((grid, places), (boxes, on_boxes))
    )
    assert_allclose(small.theta, whole.theta, atol=1e-9)
    assert small.kl == pytest.approx(whole.kl, abs=1e-12)
    assert (boxes.observed is None) == (grid.observed is None)


@pytest.mark.parametrize(("kind", "near"), [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_a_factor_in_panels_solves_and_is_inverted(kind: type, near: float) -> None:
    rng = np.random.default_rng(0)
    A, right = np.cov(rng.normal(size=(640, 3000))), rng.normal(size=640)
    first = GrowingFactor.of(np.tril(A[:600, :600]).astype(kind))
    assert first is not None
    left = first.forward(A[:600, 600:])
    grown = first.append(left.T, np.linalg.cholesky(A[600:, 600:] - left.T @ left))
    assert grown.inverse().dtype == kind
    assert_allclose(grown.solve(right), np.linalg.solve(A, right), atol=near)
    assert_allclose(grown.inverse(), np.linalg.inv(np.linalg.cholesky(A)), atol=near)
    assert GrowingFactor().inverse().shape == (0, 0)


def test_where_float32_fails_a_factor_is_in_float64() -> None:
    grid = DataGrid.of(observe([0.4, 0.3, 0.2, 0.1]))
    eta, features = grid.eta_hat.copy(), grid.box_features(np.array([[1], [2], [3]]))
    kinds = [
        FactoredCorrelations.of(Moments.of(grid, eta, features), single=single).factor.kind for single in (False, True)
    ]
    assert kinds == ["d", "f"]
    eta[2] = np.nan
    broken = FactoredCorrelations.of(Moments.of(grid, eta, features), single=True)
    assert broken.factor.kind == "d"
    assert_array_equal(broken.factor.inverse(), np.eye(3))


@pytest.mark.parametrize(
    ("shape", "places", "theta"),
    [
        ((4,), [1, 2, 3], [0.0, 0.0, -30.0]),
        ((3, 4), [1, 2, 5, 7, 11], [0.0, 0.3, 0.0, -30.0, -40.0]),
        ((3, 4), [1, 2, 5, 7, 11], [0.0, 0.3, 0.0, 20.0, -40.0]),  # nearly all probability in one cell
    ],
)
def test_a_fit_goes_on_from_where_the_model_has_next_to_nothing(
    shape: tuple[int, ...], places: list[int], theta: list[float]
) -> None:
    """Newton's step for a mean of 1e-13 that should be 0.1 is 10^12 long: with flights, growing ended there."""
    X = 1.0 + np.eye(4).ravel()[: math.prod(shape)].reshape(shape)
    grid = DataGrid.of(observe(X))
    state = State.of(grid, grid.cell_features(np.array(places)), np.array(theta))
    found, _ = state.fit(1e-13, 60)
    cells = np.stack(np.unravel_index(places, shape), axis=1)
    assert state.kl > 5
    assert found.kl == pytest.approx(ld.decompose(X, cells).kl, abs=1e-9)


@pytest.mark.parametrize("shape", [(4, 4, 3), (6, 5)])
def test_a_basis_with_a_factor_in_float32_grows_until_nothing_is_left(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last cells are near-duplicates, of which float32 cannot tell what they are worth."""
    monkeypatch.setattr(limits, "SINGLE_FACTOR", 1)
    X = np.random.default_rng(1).gamma(1.0, size=shape)
    fit = ld.decompose(X, ld.adaptive(X.size - 1))
    assert fit.n_params == X.size - 1
    assert fit.converged
    assert_allclose(fit.tensor(), X, rtol=1e-7)


def test_a_basis_grown_with_a_factor_in_float32_is_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(25).gamma(0.7, size=(5, 6, 4))
    double = ld.decompose(X, ld.adaptive(25))
    monkeypatch.setattr(limits, "SINGLE_FACTOR", 1)
    single = ld.decompose(X, ld.adaptive(25))
    assert single.residual <= single.tol
    assert single.kl == pytest.approx(double.kl, rel=0.02)
