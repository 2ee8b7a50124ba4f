"""Features of new slices: each is projected on its own, and says the same as an ordinary fit to it."""

import pickle
import re
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import legendre as ld
from legendre.basis.adaptive import Adaptive
from legendre.core import limits
from legendre.core.errors import InvalidBasis, InvalidSamples, InvalidSetting, NotFitted
from legendre.core.types import FloatArray
from legendre.tasks.estimators.shared_cells import shared_cells
from legendre.tasks.estimators.slice_model import SliceModel

with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # "does not inherit from BaseEstimator": it need not
    scikit_learn_checks = parametrize_with_checks([ld.LegendreTransformer("adaptive(3)")])


@scikit_learn_checks  # type: ignore[untyped-decorator]
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


CELLS = [[1, 0], [0, 2], [2, 1], [1, 3]]


def slices(n: int, seed: int = 0, shape: tuple[int, ...] = (3, 4)) -> FloatArray:
    return np.random.default_rng(seed).gamma(0.7, size=(n, *shape)) + 1e-3


def test_features_are_those_of_an_ordinary_fit_to_each_slice() -> None:
    X = slices(7)
    features = ld.LegendreTransformer(CELLS, features="both").fit(X).transform(X)
    for row, one in zip(features, X, strict=True):
        fit = ld.decompose(one, CELLS)
        assert_allclose(row, np.concatenate([fit.theta, fit.eta_hat]), atol=1e-8)


def test_all_slices_together_are_a_decomposition_of_the_tensor() -> None:
    """The basis {(i, u)}, every i and every u of the slice's basis or the bottom, falls apart into the slices."""
    X = slices(4, seed=1)
    transformer = ld.LegendreTransformer(CELLS, features="theta").fit(X)
    basis = [(i, *u) for i in range(4) for u in [(0, 0), *map(tuple, CELLS)] if (i, *u) != (0, 0, 0)]
    expected = ld.decompose(X, basis).tensor()
    assert_allclose(transformer.inverse_transform(transformer.transform(X), X.sum(axis=(1, 2))), expected, atol=1e-8)


@given(seed=st.integers(0, 10**6), features=st.sampled_from(["eta", "theta", "both"]), order=st.integers(1, 3))
def test_the_inverse_has_the_same_features(seed: int, features: Any, order: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, size=order).tolist())
    X = rng.gamma(0.5, size=(3, *shape)) + 1e-3
    every = np.argwhere(np.ones(shape))[1:]
    basis = rng.permutation(every)[: rng.integers(1, len(every) + 1)]
    transformer = ld.LegendreTransformer(basis, features=features).fit(X)
    found = transformer.transform(X)
    back = transformer.inverse_transform(found)
    assert_allclose(back.sum(axis=tuple(range(1, back.ndim))), 1.0, atol=1e-12)
    assert_allclose(transformer.transform(back), found, atol=1e-6)
    if len(basis) == len(every):  # all of the coordinates: nothing is lost
        assert_allclose(back, X / X.sum(axis=tuple(range(1, X.ndim)), keepdims=True), atol=1e-8)


def test_zeros_leave_eta_as_it_is_and_theta_needs_alpha() -> None:
    X = slices(5)
    X[2, 1:] = 0.0  # nothing above cell (1, 0): theta there runs to minus infinity
    transformer = ld.LegendreTransformer(CELLS).fit(X)
    eta = transformer.transform(X)
    assert_allclose(eta[2], [0.0, X[2, 0, 2:].sum() / X[2].sum(), 0.0, 0.0], atol=1e-15)
    back = transformer.inverse_transform(eta)  # the limit
    assert_allclose(transformer.transform(back), eta, atol=1e-10)
    assert_allclose(back[2], ld.decompose(X[2], CELLS).tensor() / X[2].sum(), atol=1e-9)
    with pytest.raises(InvalidSamples, match=re.escape("X[2] has zeros, and no finite theta fits it")):
        transformer.set_params(features="theta").transform(X)
    mixed = 0.99 * X[2] / X[2].sum() + 0.01 / 12
    theta = transformer.set_params(alpha=0.01).transform(X)[2]
    assert_allclose(theta, ld.decompose(mixed, CELLS).theta, atol=1e-7)


def test_an_empty_slice_says_nothing() -> None:
    X = slices(5)
    with_empty = np.insert(X, 2, 0.0, axis=0)
    transformer = ld.LegendreTransformer("adaptive(4)", features="theta").fit(with_empty)
    assert_array_equal(transformer.basis_, ld.LegendreTransformer("adaptive(4)").fit(X).basis_)
    assert_allclose(transformer.transform(with_empty)[2], 0.0, atol=1e-12)


@pytest.mark.filterwarnings("ignore::legendre.core.errors.ConvergenceWarning")
@pytest.mark.parametrize("tol", [0.0, 1e-300])
def test_zeros_are_no_reason_to_refuse_a_tol_that_no_float_reaches(tol: float) -> None:
    X = np.array([[[2.0, 0, 1], [0, 1, 1], [2, 1, 0], [0, 2, 2], [1, 0, 0]]])
    features = ld.LegendreTransformer([[1, 0], [3, 0], [3, 2]], features="theta", tol=tol)
    assert np.abs(features.fit_transform(X) - [np.log(5 / 6), np.log(0.9), np.log(4 / 3)]).max() < 1e-14


def test_zeros_that_a_finite_theta_fits() -> None:
    X = slices(6)
    X[:, 2, 3] = 0.0  # each cell of the basis still has data above it and beside it
    theta = ld.LegendreTransformer(CELLS, features="theta").fit(X).transform(X)
    for row, one in zip(theta, X, strict=True):
        assert_allclose(row, ld.decompose(one, CELLS).theta, atol=1e-7)


def greedy(p: FloatArray, mass: FloatArray, n: int) -> list[list[int]]:
    """Add the cell whose gain to second order, all slices fitted exactly, is largest: from the definition."""
    cells = np.argwhere(np.ones(p.shape[1:]))[1:]
    above = (cells[:, None] <= np.argwhere(np.ones(p.shape[1:]))).all(axis=2).astype(float)  # features x cells
    chosen: list[int] = []
    while len(chosen) < n:
        gain = np.zeros(len(cells))
        for one, weight in zip(p, mass, strict=True):
            q = np.full(p[0].size, 1 / p[0].size)
            if chosen:
                q = ld.decompose(one, cells[chosen]).tensor().ravel() / one.sum()
            c = (above * q) @ above.T - np.outer(above @ q, above @ q)
            g = above @ (one.ravel() - q)
            for j in set(range(len(cells))) - set(chosen):
                v = c[j, j] - (c[j, chosen] @ np.linalg.solve(c[np.ix_(chosen, chosen)], c[chosen, j]) if chosen else 0)
                gain[j] += weight * g[j] ** 2 / (2 * v)
        chosen.append(int(gain.argmax()))
    return [list(map(int, cell)) for cell in cells[chosen]]


def test_shared_cells_are_the_greedy_choice() -> None:
    X = slices(5, seed=3)
    mass = X.sum(axis=(1, 2)) / X.sum()
    p = X / X.sum(axis=(1, 2), keepdims=True)
    assert shared_cells(p, mass, Adaptive(5)).tolist() == greedy(p, mass, 5)
    assert ld.LegendreTransformer(ld.adaptive(5)).fit(X).basis_.tolist() == greedy(p, mass, 5)


def test_a_planted_basis_is_found_that_the_mean_slice_does_not_show(rng: np.random.Generator) -> None:
    """Two parameters with means of 0 over the slices: the sum of all is nearly even, each slice is not."""
    theta = rng.normal(size=(200, 2))
    theta -= theta.mean(axis=0)
    cells = np.array([[4, 1], [2, 5]])
    model = SliceModel.of((6, 7), cells)
    X = model.tensors(model.at(theta))
    transformer = ld.LegendreTransformer("adaptive(2)", features="theta").fit(X)
    assert sorted(transformer.basis_.tolist()) == [[2, 5], [4, 1]]
    assert_allclose(transformer.transform(X), theta[:, [cells.tolist().index(u) for u in transformer.basis_.tolist()]])


def test_start_and_candidates_are_kept_to() -> None:
    X = slices(6)
    recipe = ld.adaptive(4, start=[[1, 1]], candidates=[[0, 1], [1, 0], [2, 0]])
    found = ld.LegendreTransformer(recipe).fit(X).basis_.tolist()
    assert found[0] == [1, 1]
    assert sorted(found[1:]) == [[0, 1], [1, 0], [2, 0]]
    assert ld.LegendreTransformer("B1").fit(X).basis_.tolist() == ld.decompose(X.sum(axis=0), "B1").basis.tolist()


def test_blocks_of_every_kind_of_x_are_the_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.array as da
    import pandas as pd
    import scipy.sparse as sp

    X = slices(11)
    rows = X.reshape(11, 12)
    path = tmp_path / "X.npy"
    np.save(path, X)
    expected = ld.LegendreTransformer("adaptive(4)", features="theta").fit(X).transform(X)
    monkeypatch.setattr(limits, "SLICE_BLOCK", 40)  # three slices
    flat: dict[str, Any] = {"shape": (3, 4)}
    for kind, given_x, settings in [
        ("array", X, {}),
        ("list", X.tolist(), {}),
        ("on disk", np.load(path, mmap_mode="r"), {}),
        ("dask", da.from_array(X, chunks=(4, 2, 4)), {}),
        ("rows", rows, flat),
        ("data frame", pd.DataFrame(rows).rename(columns=str), flat),
        ("sparse", sp.csr_array(rows), flat),
    ]:
        transformer = ld.LegendreTransformer("adaptive(4)", features="theta", **settings)
        found = transformer.fit_transform(given_x)
        assert_allclose(found, expected, rtol=1e-9, err_msg=kind)
        assert transformer.inverse_transform(found).shape == (X.shape if not settings else rows.shape), kind


def test_a_large_x_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """No block is larger than the limit, and a basis is grown on some slices only."""

    class OnDisk:
        shape, dtype, chunks = (1000, 3, 4), np.dtype(np.float64), None
        largest = 0

        def __getitem__(self, rows: Any) -> FloatArray:
            read: FloatArray = slices(1000)[rows]
            OnDisk.largest = max(OnDisk.largest, len(read))
            return read

    monkeypatch.setattr(limits, "SLICE_BLOCK", 12 * 50)
    monkeypatch.setattr(limits, "SHARED_CELLS", 12 * 40)
    found = ld.LegendreTransformer("adaptive(3)").fit_transform(OnDisk())
    assert found.shape == (1000, 3)
    assert OnDisk.largest == 50


def test_scale_and_extreme_values_do_not_matter() -> None:
    X = slices(4)
    transformer = ld.LegendreTransformer(CELLS).fit(X)
    expected = transformer.transform(X)
    for scale in (1e-300, 1e300, 1e307):
        assert_allclose(transformer.transform(X * scale), expected, rtol=1e-12)
    assert_array_equal(ld.LegendreTransformer("adaptive(3)").fit(X * 1e307).basis_, _grown(X))


def _grown(X: FloatArray) -> Any:
    return ld.LegendreTransformer("adaptive(3)").fit(X).basis_


def test_scikit_learn_uses_it() -> None:
    rng = np.random.default_rng(5)
    y = np.arange(60) % 2
    X = rng.gamma(2.0, size=(60, 4, 4))
    X[y == 1, 2:, :2] *= 3.0
    pipe = make_pipeline(ld.LegendreTransformer("adaptive(2)", shape=(4, 4)), LogisticRegression(C=100.0))
    search = GridSearchCV(pipe, {"legendretransformer__basis": ["adaptive(1)", "adaptive(4)"]}, cv=3)
    assert search.fit(X.reshape(60, 16), y).best_score_ > 0.9
    copied = clone(search.best_estimator_[0])
    assert repr(copied) == repr(search.best_estimator_[0])
    again = pickle.loads(pickle.dumps(search.best_estimator_[0]))
    assert_array_equal(again.transform(X), search.best_estimator_[0].transform(X))


def test_tables_and_names() -> None:
    import pandas as pd
    import polars as pl

    frame = pd.DataFrame(slices(3).reshape(3, 12), index=[7, 8, 9], columns=[f"pixel {i}" for i in range(12)])
    transformer = ld.LegendreTransformer([[1, 0], [0, 2]], shape=(3, 4), features="both").fit(frame)
    names = ["theta[1, 0]", "theta[0, 2]", "eta[1, 0]", "eta[0, 2]"]
    found = transformer.set_output(transform="pandas").transform(frame)
    assert found.columns.tolist() == names
    assert found.index.tolist() == [7, 8, 9]
    assert transformer.set_output(transform="polars").transform(frame).columns == names
    assert isinstance(transformer.transform(frame), pl.DataFrame)
    with pytest.raises(InvalidSetting, match="transform"):
        transformer.set_output(transform="excel")
    with pytest.raises(InvalidSamples, match="The feature names should match"):
        transformer.transform(frame[frame.columns[::-1]])


@pytest.mark.parametrize(
    ("settings", "X", "error", "message"),
    [
        ({}, [[0.0, 0.0], [0.0, 0.0]], InvalidSamples, "X is 0 everywhere: there is nothing to choose a basis by"),
        ({}, [[1.0], [2.0]], InvalidSamples, "a slice of one cell has no parameter"),
        ({}, [[[1.0, 2.0]], [[1.0, -2.0]]], InvalidSamples, "X[1, 0, 1] = -2 is below 0"),
        ({}, [[1.0, np.nan]], InvalidSamples, "Input X contains NaN or infinity, first at X[0, 1] = nan"),
        ({}, [["a", "b"]], InvalidSamples, "X has dtype <U1"),
        ({"shape": (3, 3)}, np.ones((2, 8)), InvalidSamples, "shape=(3, 3) asks for 9"),
        ({"shape": "3x3"}, np.ones((2, 9)), InvalidSetting, "shape must list the lengths"),
        ({"features": "beta"}, np.ones((2, 9)), InvalidSetting, "beta"),
        ({"alpha": 1.0}, np.ones((2, 9)), InvalidSetting, "alpha must be a number from 0 to below 1, got 1.0"),
        ({"tol": -1}, np.ones((2, 9)), InvalidSetting, "tol must be a number >= 0"),
        ({"basis": "adaptive('bic')"}, np.ones((2, 9)), InvalidBasis, "grown to a number, such as adaptive(16)"),
        ({"basis": "boxes(4)"}, np.ones((2, 3, 3)), InvalidBasis, "boxes are not grown for slices"),
        ({"basis": ld.ties.symmetric(0, 1)}, np.ones((2, 3, 3)), InvalidBasis, "has tied parameters"),
    ],
)
def test_errors(settings: Any, X: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        ld.LegendreTransformer(**settings).fit_transform(X)


def test_errors_of_features() -> None:
    X = slices(3)
    transformer = ld.LegendreTransformer(CELLS)
    with pytest.raises(NotFitted, match="this LegendreTransformer is not fitted yet"):
        transformer.transform(X)
    transformer.fit(X)
    with pytest.raises(InvalidSamples, match=re.escape("slices of shape (3, 4), not (4, 3)")):
        transformer.transform(X.reshape(3, 4, 3))
    with pytest.raises(InvalidSamples, match="X must have 4 features in each row"):
        transformer.inverse_transform(np.ones((2, 3)))
    with pytest.raises(InvalidSamples, match="in row 1"):
        transformer.inverse_transform([[0.1] * 4, [np.inf] * 4])
    with pytest.raises(InvalidSamples, match="sums must hold 1 numbers"):
        transformer.inverse_transform([[0.1] * 4], [1.0, 2.0])
    with pytest.warns(ld.ConvergenceWarning, match=r"row 1 ended at .* \(1 rows did\)"):
        transformer.inverse_transform([[0.5, 0.5, 0.25, 0.25], [0.1, 0.1, 0.9, 0.1]])  # more above than below: no q


def test_slices_with_other_labels_are_refused() -> None:
    """Stations in another order gave other features without a word."""
    xr = pytest.importorskip("xarray")
    values = np.random.default_rng(0).gamma(1.0, size=(6, 3, 4))
    X = xr.DataArray(values, dims=["day", "station", "hour"], coords={"station": ["a", "b", "c"], "hour": range(4)})
    made = ld.LegendreTransformer("B1").fit(X)
    assert_allclose(made.transform(X), ld.LegendreTransformer("B1").fit(values).transform(values))
    with pytest.raises(InvalidSamples, match="the levels of 'station' are others, or in another order"):
        made.transform(X[:, ::-1])
    with pytest.raises(InvalidSamples, match="mode 'hour' of its slices is called 'time'"):
        made.transform(X.rename(hour="time"))
    assert_allclose(made.transform(X[:, ::-1].reindex_like(X)), made.transform(X))


def test_theta_is_given_only_where_a_finite_one_exists() -> None:
    """Near the boundary the gradient rounds to 0, and a theta of 34 passed for the answer."""
    with pytest.raises(InvalidSamples, match="no finite theta fits it"):
        ld.LegendreTransformer([[1], [2]], features="theta").fit_transform(np.array([[0.5, 0.0, 0.5]]))
    rng = np.random.default_rng(4)
    cells = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
    found = {True: 0, False: 0}
    for _ in range(60):
        X = rng.poisson(0.8, size=(1, 3, 4)).astype(float)
        if not X.any():
            continue
        finite = ld.decompose(X[0], cells).status is ld.Status.CONVERGED
        found[finite] += 1
        with nullcontext() if finite else pytest.raises(InvalidSamples, match="no finite theta fits it"):
            ld.LegendreTransformer(cells, features="theta").fit_transform(X)
    assert min(found.values()) > 5
