"""The parts of which growing is made, each against its definition: nearest features, peaks, boxes, factors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core import limits
from legendre.core.sums.growing_factor import GrowingFactor
from legendre.core.sums.joins import NEAREST, Features, explained_by_nearest
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import observe
from legendre.fitting.adaptive.candidates import peaks, pick
from legendre.fitting.adaptive.losses import least_missed, losses
from legendre.fitting.adaptive.observed_sums import Ground
from legendre.fitting.adaptive.parts import Anchor
from legendre.fitting.adaptive.state import State, fitted

SHAPE = (4, 5, 3)


def features_of(q: FloatArray, places: IntArray) -> FloatArray:
    """List the features of cells, a row for each: 1 on what is at or above it."""
    cells = np.stack(np.unravel_index(np.arange(q.size), SHAPE), axis=1)
    return np.array([(cells >= cells[place]).all(axis=1) for place in places], dtype=np.float64)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("k", [1, 3, 20])
def test_the_share_that_nearest_features_explain(k: int, *, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The squared multiple correlation, from the definition: covariances of 0-1 features under q."""
    if compiled:
        monkeypatch.setattr(limits, "NUMPY_CELLS", 0)
    rng = np.random.default_rng(k)
    q = rng.dirichlet(np.ones(60))
    chosen = rng.permutation(np.arange(1, 60))
    basis, others = chosen[:k], chosen[k:]
    table = features_of(q, chosen)
    centred = table - (table @ q)[:, None]
    covariance = (centred * q) @ centred.T
    correlation = covariance / np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    eta = ld.dual.to_eta(q.reshape(SHAPE)).ravel()
    found = explained_by_nearest(eta, others, SHAPE, Features.of(eta, basis, SHAPE))
    for row, share in zip(correlation[k:, :k], found, strict=True):
        near = np.argsort(-np.abs(row))[:NEAREST]
        assert share == pytest.approx(row[near] @ np.linalg.pinv(correlation[np.ix_(near, near)]) @ row[near], abs=1e-3)


@pytest.mark.parametrize("spread", [0.02, 0.5, 20.0])
@pytest.mark.parametrize("k", [5, 64, 65, 400])
def test_a_search_that_ends_early_finds_the_same(k: int, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled, a basis is searched from a feature's own mean outwards; in NumPy, all of it is compared."""
    shape, rng = (9, 8, 11), np.random.default_rng(k)
    q = rng.dirichlet(np.full(792, spread))
    q[-1] += 3.0 * (spread < 1)  # features of large means: some are correlated below 0
    eta = ld.dual.to_eta((q / q.sum()).reshape(shape)).ravel()
    places = rng.permutation(792)
    basis, others = Features.of(eta, places[:k], shape), places[k // 2 : k + 300]
    monkeypatch.setattr(limits, "NUMPY_JOINS", 1_000)
    expected = explained_by_nearest(eta, others, shape, basis)
    monkeypatch.setattr(limits, "NUMPY_CELLS", 0)
    assert_allclose(explained_by_nearest(eta, others, shape, basis), expected, rtol=0, atol=1e-12)


def test_no_feature_explains_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a list against itself each row is what the others alone explain."""
    rng = np.random.default_rng(0)
    eta = ld.dual.to_eta(rng.dirichlet(np.ones(60)).reshape(SHAPE)).ravel()
    places = rng.permutation(np.arange(1, 60))[:12]
    every = Features.of(eta, places, SHAPE)
    each = [(places[[i]], Features.of(eta, np.delete(places, i), SHAPE)) for i in range(12)]
    expected = [explained_by_nearest(eta, one, SHAPE, others)[0] for one, others in each]
    assert_allclose(explained_by_nearest(eta, places, SHAPE, every), expected, rtol=1e-9)
    monkeypatch.setattr(limits, "NUMPY_CELLS", 0)
    assert_allclose(explained_by_nearest(eta, places, SHAPE, every), expected, rtol=1e-9)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("count", "least"), [(1, 0.0), (7, 0.0), (30, 0.0), (60, 0.0), (60, 0.05)])
def test_compiled_choices_are_those_of_numpy(count: int, least: float, *, exact: bool) -> None:
    """Chosen cells, gains and rows of the factor; some candidates are near-duplicates of others."""
    rng = np.random.default_rng(count)
    table = rng.normal(size=(40, 30))
    table[5:9] = table[1:5] + 1e-3 * rng.normal(size=(4, 30))
    left, gradient = table @ table.T / 30 + 1e-9 * np.eye(40), rng.normal(size=40)
    first = rng.random(40) if exact else None
    expected = pick(left, gradient, count, least, 1e-3, first)
    found = pick(left, gradient, count, least, 1e-3, first, compiled=True)
    assert_array_equal(found[0], expected[0])
    assert_allclose(found[1], expected[1], rtol=1e-7)
    assert_allclose(found[2], expected[2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("below", [np.inf, 0.05])
@pytest.mark.parametrize("count", [1, 6, 24, 40])
def test_compiled_cells_to_give_back_are_those_of_numpy(
    count: int, below: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some cells stand for each other; two keep others empty, of which one may go; one has a constant feature."""
    rng = np.random.default_rng(count)
    X = rng.random((7, 8, 6))
    X[5:, 6:, 3:] = X[1:3, 7:, 4:] = 0.0
    ground = Ground.of(observe(X))
    some = np.append(rng.permutation(np.arange(1, 336))[:30], ground.places(np.array([[5, 6, 3], [1, 7, 4]])))
    state = State.of(ground, np.unique(some), 0.3 * rng.normal(size=len(np.unique(some)))).anchored()
    loss = losses(state)
    expected = least_missed(state, loss, count, below)
    monkeypatch.setattr(limits, "NUMPY_CELLS", 0)
    assert_array_equal(least_missed(state, loss, count, below), expected)
    assert len(expected) <= count


@pytest.mark.parametrize("shape", [(7,), (1, 6), (4, 5, 3), (2, 3, 1, 4)])
def test_peaks_are_those_of_the_definition(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """No neighbour along a mode is larger, none before it equal."""
    field = np.random.default_rng(len(shape)).integers(0, 4, size=shape).astype(np.float64)
    expected = []
    for place, cell in enumerate(itertools.product(*map(range, shape))):
        beside = [(k, step) for k in range(len(shape)) for step in (-1, 1) if 0 <= cell[k] + step < shape[k]]
        values = [(field[(*cell[:k], cell[k] + step, *cell[k + 1 :])], step) for k, step in beside]
        own = field[cell]
        if own > 0 and all(value < own or (value == own and step > 0) for value, step in values):
            expected.append(place)
    assert peaks(field.ravel(), shape).tolist() == expected
    monkeypatch.setattr(limits, "NUMPY_CELLS", 0)
    assert peaks(field.ravel(), shape).tolist() == expected


@pytest.mark.parametrize("kind", ["positive", "zeros", "mask", "base"])
def test_boxes_are_the_same_problem(kind: str) -> None:
    """The fit of a few cells on the boxes that they cut is the fit on the grid."""
    rng = np.random.default_rng(3)
    X = rng.gamma(2.0, size=(9, 8, 7))
    X[:, 5:, 2] = 0.0 if kind == "zeros" else X[:, 5:, 2]
    mask = rng.random(X.shape) < 0.8 if kind == "mask" else "all"
    base = rng.random(X.shape) + 0.5 if kind == "base" else None
    ground = Ground.of(observe(X, mask, base))
    places = ground.places(np.array([[3, 0, 0], [0, 5, 2], [0, 4, 0], [6, 2, 3]]))
    boxes, on_boxes = ground.merged(places)
    assert boxes.size == 3 * 4 * 3
    whole, small = (
        fitted(State.of(some, where, np.zeros(4)), 1e-25, 40)[0]
        for some, where in ((ground, places), (boxes, on_boxes))
    )
    assert_allclose(small.at.theta, whole.at.theta, atol=1e-9)
    assert small.kl == pytest.approx(whole.kl, abs=1e-12)
    assert (boxes.observed is None) == (ground.observed is None)
    if ground.observed is not None and boxes.observed is not None:
        lookup = np.zeros(X.shape)
        lookup.ravel()[ground.observed] = 1.0
        corners = [np.unique(column) for column in np.vstack([ground.cells(places), [0, 0, 0]]).T]
        counted = lookup
        for axis, cuts in enumerate(corners):
            counted = np.add.reduceat(counted, cuts, axis=axis)
        assert_array_equal(boxes.observed, np.flatnonzero(counted))


def test_the_inverse_of_a_factor_in_panels() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 20))
    A = A @ A.T
    first = GrowingFactor.of(np.tril(A[:4, :4]))
    assert first is not None
    left = first.half(A[:4, 4:])
    lower: FloatArray = np.asarray(np.linalg.cholesky(A[4:, 4:] - left.T @ left), dtype=np.float64)
    grown = first.appended(left.T, lower)
    assert_allclose(grown.inverse.T @ grown.inverse, np.linalg.inv(A), rtol=1e-8)
    assert_allclose(grown.inverse, np.linalg.inv(np.linalg.cholesky(A)), atol=1e-9)
    for positions in ([0, 2, 3, 5, 8], [1], [6, 7], list(range(9)), []):
        assert_allclose(grown.inverse_columns(np.array(positions, dtype=int)), grown.inverse[:, positions], atol=1e-9)
    assert GrowingFactor().inverse.shape == (0, 0)


def test_a_factor_in_float32_is_that_in_float64_to_five_digits() -> None:
    rng = np.random.default_rng(0)
    A = np.cov(rng.normal(size=(600, 3000)))
    right = rng.normal(size=600)
    double, single = (GrowingFactor.of(np.tril(A).astype(kind)) for kind in (np.float64, np.float32))
    assert double is not None
    assert single is not None
    assert [factor.kind for factor in (double, single)] == ["d", "f"]
    assert_allclose(double.solve(right), np.linalg.solve(A, right), rtol=1e-9)
    more = rng.normal(size=(600, 40)) * 0.01
    grown = [f.appended(f.half(more).T, np.eye(40)) for f in (double, single)]
    longer = np.append(right, rng.normal(size=40))
    for one, other in (
        (f.solve(longer) if k == 0 else f.inverse_columns(np.array([3, 620])) if k == 1 else f.inverse for f in grown)
        for k in range(3)
    ):
        assert other.dtype == np.float32
        assert_allclose(other, one, atol=1e-5 * np.abs(one).max())


def test_where_float32_fails_a_factor_is_in_float64() -> None:
    eta = ld.dual.to_eta(np.array([0.4, 0.3, 0.2, 0.1])).ravel()
    anchors = [Anchor.of(eta, np.arange(1, 4), (4,), single=single, compiled=False) for single in (False, True)]
    assert [anchor.factor.kind for anchor in anchors] == ["d", "f"]
    assert [anchor.sharp for anchor in anchors] == [True, True]
    eta[2] = np.nan
    broken = Anchor.of(eta, np.arange(1, 4), (4,), single=True, compiled=False)
    assert broken.factor.kind == "d"
    assert not broken.sharp
    assert_array_equal(broken.factor.inverse, np.eye(3))


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
    state = State.of(Ground.of(observe(X)), np.array(places), np.array(theta))
    found, _ = fitted(state, 1e-13, 60)
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


@pytest.mark.parametrize("n", [5, 12, 25])
def test_a_basis_grown_with_a_factor_in_float32_is_as_good(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(n).gamma(0.7, size=(5, 6, 4))
    double = ld.decompose(X, ld.adaptive(n))
    monkeypatch.setattr(limits, "SINGLE_FACTOR", 1)
    single = ld.decompose(X, ld.adaptive(n))
    assert single.residual <= single.tol
    assert single.kl == pytest.approx(double.kl, rel=0.02)


def test_a_basis_of_nothing_explains_nothing() -> None:
    eta, nothing = np.linspace(1.0, 0.1, 12), np.empty(0, dtype=np.int64)
    none = Features.of(eta, nothing, (3, 4))
    for compiled in (False, True):
        assert explained_by_nearest(eta, np.array([1, 5]), (3, 4), none, compiled=compiled).tolist() == [0.0, 0.0]
