"""Tensors as lists of entries: the same answers as from the dense tensor, however the list is gone through."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array

import legendre as ld
from legendre.basis.basis import cells
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.sums import cell_sums as dominance
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta_adjoint
from legendre.data.dense import observe
from legendre.data.sparse import Sparse, observe_entries
from legendre.fitting.fit import Settings, fit_on
from legendre.model.model import CellList
from legendre.results.decomposition import Decomposition
from oracles import FloatArray, IntArray

# monkeypatch is undone only after all examples of a test, which is what is wanted here
PATCHED = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def entries(X: FloatArray, support: str = "all") -> Sparse:
    cells = np.argwhere(X > 0)
    return observe_entries(cells, X[tuple(cells.T)], X.shape, support)


@st.composite
def tables(draw: st.DrawFn) -> FloatArray:
    """Draw counts with many zeros."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.integers(0, 4, size=shape) * (rng.random(shape) < draw(st.floats(0.2, 1.0)))
    X[tuple(rng.integers(0, shape))] += 1
    return X.astype(np.float64)


@st.composite
def lists(draw: st.DrawFn) -> tuple[tuple[int, ...], IntArray, IntArray, np.random.Generator]:
    """Draw a shape and two lists of cells."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.tuples(st.integers(1, 30), st.integers(1, 12)))
    cells, basis = (rng.integers(0, shape, size=(n, len(shape))) for n in sizes)
    return shape, cells, basis, rng


@pytest.fixture(params=["compared", "swept"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "swept":
        monkeypatch.setattr("legendre.core.sums.cell_sums.FEW_PAIRS", 0)


@pytest.fixture
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every merged sample space of points as a list."""
    monkeypatch.setattr("legendre.core.limits.ALWAYS_A_GRID", 0)
    monkeypatch.setattr("legendre.core.limits.LARGEST_GRID", 0)


@pytest.mark.uncompiled
@pytest.mark.usefixtures("_way", "one_thread")
@PATCHED
@given(lists())
def test_sums_over_the_order(drawn: tuple[tuple[int, ...], IntArray, IntArray, np.random.Generator]) -> None:
    shape, cells, basis, rng = drawn
    zeta = np.array([[float(np.all(u <= v)) for u in basis] for v in cells])
    theta, mass = rng.normal(size=len(basis)), rng.random(len(cells))
    assert_allclose(dominance.sums_below(shape, cells, basis, theta), zeta @ theta, atol=1e-12)
    assert_allclose(dominance.sums_above(shape, cells, basis, mass), mass @ zeta, atol=1e-12)
    moments = np.empty((len(basis), len(basis)))
    dominance.second_moments(shape, cells, basis, mass, moments)
    assert_allclose(moments, zeta.T @ (mass[:, None] * zeta), atol=1e-12)


def test_no_tree_of_a_slab_too_large() -> None:
    shape = (2,) * 100
    cells = np.random.default_rng(0).integers(0, 2, size=(40, 100))
    basis = np.eye(100, dtype=np.int64)
    assert_allclose(dominance.sums_above(shape, cells, basis, np.ones(40)), cells.sum(axis=0))


BASES = ["B1", "B3(1)", "B1 + B2(1) + B3(2)", "interactions(1)"]


@pytest.mark.usefixtures("_way", "one_thread")
@pytest.mark.parametrize("support", ["all", "nonzero"])
@PATCHED
@given(X=tables(), basis=st.sampled_from(BASES))
def test_the_same_fit_as_of_the_dense_tensor(support: str, X: FloatArray, basis: str) -> None:
    check(
        fit_on(entries(X, support), as_basis(basis), Settings(tol=1e-11)),
        fit_on(observe(X, support), as_basis(basis), Settings(tol=1e-11)),
    )


@pytest.mark.usefixtures("_way", "_listed", "one_thread")
@PATCHED
@given(X=tables(), basis=st.sampled_from(BASES))
def test_the_same_fit_from_a_list_of_merged_cells(X: FloatArray, basis: str) -> None:
    fit = fit_on(entries(X, "nonzero"), as_basis(basis), Settings(tol=1e-11))
    assert (isinstance(fit.model, CellList)) == (fit.model.support.points is not None)
    check(fit, fit_on(observe(X, "nonzero"), as_basis(basis), Settings(tol=1e-11)))


def check(fit: Decomposition, expected: Decomposition) -> None:
    """Compare all that can be asked."""
    assert_array_equal(fit.basis, expected.basis)
    assert (fit.status, fit.rank) == (expected.status, expected.rank)
    assert_allclose(fit.tensor(), expected.tensor(), atol=1e-8 * expected.total)
    assert fit.kl == pytest.approx(expected.kl, abs=1e-9)
    assert fit.rmse == pytest.approx(expected.rmse, abs=1e-7 * expected.total)
    assert_allclose(fit.eta, expected.eta, atol=1e-10)
    modes = range(len(fit.shape))
    for kept in ([0], list(modes)[::-1]):
        assert_allclose(fit.marginal(kept), expected.marginal(kept), atol=1e-8)
    at = {0: expected.most_probable()[0]}
    assert_allclose(fit.condition(at), expected.condition(at), atol=1e-7)
    f = expected.tensor()
    assert fit.expectation(f) == pytest.approx(expected.expectation(f), rel=1e-7)
    assert fit.expectation(lambda *i: sum(i)) == pytest.approx(expected.expectation(lambda *i: sum(i)), abs=1e-7)
    drawn = fit.sample(20, rng=0)
    assert np.isfinite(expected.log_prob(drawn)).all()
    assert expected.log_prob(np.array(fit.most_probable()))[0] == pytest.approx(
        float(np.log(f.max() / fit.total)), abs=1e-6
    )


@PATCHED
@given(tables(), st.integers(1, 4), st.integers(0, 3))
def test_the_largest_entries_of_slices(X: FloatArray, count: int, axis: int) -> None:
    axis %= X.ndim
    for support in ("all", "nonzero"):
        found, wanted = entries(X, support).largest(count, axis), observe(X, support).largest(count, axis)
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, wanted.tolist()))


@PATCHED
@given(tables())
def test_sums_and_entries(X: FloatArray) -> None:
    data, rng = entries(X), np.random.default_rng(int(X.sum()))
    cells = np.argwhere(np.ones(X.shape))
    assert_array_equal(data.at(cells), X[tuple(cells.T)])
    quotient, _ = Quotient.of(X.shape, rng.permutation(cells)[:3])
    assert_allclose(data.merged(quotient), observe(X).merged(quotient))
    positions = quotient.boxes(cells)
    assert_allclose(data.above(quotient, positions), zeta_adjoint(data.merged(quotient))[tuple(positions.T)])
    for k, margin in enumerate(data.margins(quotient)):
        sums = data.merged(quotient).sum(axis=tuple(j for j in range(X.ndim) if j != k))
        assert_allclose(margin, sums)
    assert data.negentropy == pytest.approx(observe(X).negentropy)


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_a_basis_grown_on_corners_of_a_coarser_grid(support: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = rng.poisson(np.where(np.add.outer(np.arange(30), np.arange(20)) > 24, 6.0, 0.7)).astype(np.float64)
    everything = fit_on(entries(X, support), cells(grown(entries(X, support))), Settings(tol=1e-10))
    dense = ld.decompose(X, ld.adaptive(6), support=support)
    assert everything.kl == pytest.approx(dense.kl, rel=1e-6)  # the coarser grid is the grid itself
    monkeypatch.setattr(limits, "COARSE_BOXES", 100)
    fit = fit_on(entries(X, support), cells(grown(entries(X, support))), Settings(tol=1e-10))
    assert math.prod(fit.model.quotient.merged_shape) <= 100
    assert 0.99 * dense.kl < fit.kl < 1.25 * dense.kl  # cells are chosen one by one: fewer candidates may be luckier
    again = ld.decompose(X, cells(fit.basis), support=support)
    assert_allclose(again.tensor(), fit.tensor(), rtol=1e-8)


def grown(data: Sparse, **settings: Any) -> IntArray:
    from legendre.fitting.growing.select import grow_basis

    recipe = ld.adaptive(6, **settings)
    return grow_basis(recipe, data).terms.cells  # type: ignore[arg-type]


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_the_path_on_a_coarser_grid_tells_of_the_grid(support: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COARSE_BOXES", 60)
    X = np.random.default_rng(5).poisson(2.0, size=(12, 11)).astype(np.float64)
    fit = ld.decompose(coo_array(X), ld.adaptive(14, swaps=0), support=support)
    for stage in fit.path:  # without swaps the basis is in the order of growing
        exact = ld.decompose(X, cells(fit.basis[: stage.n_params]), support=support)
        assert stage.kl == pytest.approx(exact.kl, abs=1e-5)
        assert stage.aic == pytest.approx(exact.inference().aic, abs=0.01)
    assert np.isnan(fit.path[0].rmse)
    assert fit.path[-1].rmse == pytest.approx(fit.rmse)


def test_candidates_and_a_start_on_a_coarser_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COARSE_BOXES", 20)
    X = np.random.default_rng(5).poisson(2.0, size=(12, 11)).astype(np.float64)
    wanted = [[3, 0], [0, 4], [7, 4], [7, 9], [2, 2], [11, 10]]
    cells = grown(entries(X), include=[[5, 5]], candidates=wanted)
    assert cells[0].tolist() == [5, 5]
    assert {tuple(cell) for cell in cells[1:].tolist()} <= {tuple(cell) for cell in wanted}
    with pytest.raises(
        ld.errors.InvalidBasis, match=r"the cells it names cut the grid into .* boxes; .* Name fewer coordinates"
    ):
        grown(entries(np.ones((40, 40))), candidates=ld.full())
    with pytest.raises(ld.errors.InvalidBasis, match=r"the cells it names cut the grid into 1\.6e\+03 boxes"):
        grown(entries(np.ones((40, 40))), include="B1")


def test_a_grid_of_ten_to_the_eighteen() -> None:
    """Nothing of the grid's size is formed; the independent answer is that of the merged table."""
    shape, rng = (10**6, 10**6, 10**6), np.random.default_rng(0)
    listed = np.unique(rng.integers(0, shape, size=(500, 3)), axis=0)
    basis = np.array([[500_000, 0, 0], [0, 250_000, 0], [500_000, 250_000, 0], [0, 0, 750_000], [1, 1, 1]])
    data = observe_entries(listed, rng.integers(1, 9, len(listed)), shape)
    fit = fit_on(data, cells(basis), Settings(tol=1e-12))
    assert fit.converged
    direct = np.array([data.values[(listed >= u).all(axis=1)].sum() for u in basis]) / data.total
    assert_allclose(fit.eta, direct, atol=1e-12)
    assert fit.model.weights.sum() == pytest.approx(1e18)
    with pytest.raises(
        ld.errors.TooLarge, match=r"tensor: an array of 1e\+18 cells needs 7.45e\+09 GiB; .* Ask for log_prob"
    ):
        fit.tensor()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"support": "some"}, ld.errors.InvalidSupport, r"unknown support 'some'; .*Valid: all, nonzero"),
        ({"support": np.ones((3, 3), dtype=bool)}, ld.errors.InvalidSupport, r"X is sparse, so a boolean array"),
    ],
)
def test_supports_that_are_none(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        observe_entries(np.array([[0, 1]]), np.array([1.0]), (3, 3), **arguments)


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "zero everywhere"), ([1e308, 1e308], "must lie between"), ([1e-10, 1e10], r"1e\+18 times the smallest")],
)
def test_values_that_cannot_be_normalised(values: list[float], text: str) -> None:
    with pytest.raises(ld.errors.InvalidTensor, match=text):
        observe_entries(np.zeros((len(values), 2), dtype=np.int64), np.array(values), (3, 3))


def test_a_sparse_tensor_takes_no_base_measure() -> None:
    assert ld.decompose(coo_array(np.eye(3)), "B1").inference().g2 == pytest.approx(6 * np.log(3))  # entries only
    with pytest.raises(ld.errors.InvalidSupport, match="X is sparse: a base measure"):
        ld.decompose(coo_array(np.eye(3)), "B1", base=np.ones((3, 3)))


def test_a_fit_of_points_is_stored_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for small in (None, 0):
        if small is not None:
            monkeypatch.setattr("legendre.core.limits.ALWAYS_A_GRID", small)
            monkeypatch.setattr("legendre.core.limits.LARGEST_GRID", small)
        fit = ld.decompose(ld.from_coords([[0, 1], [4, 4], [2, 0], [3, 3]], [1, 2, 3, 4]), "B3(1)", support="nonzero")
        fit.save(tmp_path / "fit.npz")
        again = ld.load(tmp_path / "fit.npz")
        assert_array_equal(again.tensor(), fit.tensor())
        assert again.summary() == fit.summary()


LONG = 10**12


def long_and_short() -> tuple[ld.SparseTensor, IntArray, ld.SparseTensor, IntArray]:
    """Make a tensor with a mode that no array can index, a basis, and both with that mode's levels renumbered."""
    rng = np.random.default_rng(3)
    cells = np.stack([rng.integers(0, LONG, 60), rng.integers(0, 3, 60), rng.integers(0, 4, 60)], axis=1)
    values, basis = rng.integers(1, 5, 60), np.array([[LONG // 2, 0, 0], [0, 1, 0], [LONG // 3, 0, 2], [0, 2, 1]])
    levels = np.unique(np.concatenate([[0], cells[:, 0], basis[:, 0]]))
    short, small = cells.copy(), basis.copy()
    short[:, 0], small[:, 0] = np.searchsorted(levels, cells[:, 0]), np.searchsorted(levels, basis[:, 0])
    shape = (len(levels), 3, 4)
    return ld.from_coords(cells, values, (LONG, 3, 4)), basis, ld.from_coords(short, values, shape), small


@pytest.mark.parametrize("recipe", [None, "B1", "B3(2)", "B3(1, axis=0)", "full"])
def test_long_modes_between_short_ones(recipe: str | None) -> None:
    """Only the order of levels counts where the sample space is a list, so that renumbering them changes nothing."""
    x, basis, small, renumbered = long_and_short()
    asked = (basis, renumbered) if recipe is None else (recipe, recipe)
    fit, twin = ld.decompose(x, asked[0], support="nonzero"), ld.decompose(small.toarray(), asked[1], support="nonzero")
    assert fit.n_params == twin.n_params
    assert_allclose(fit.log_prob(x.cells), twin.log_prob(small.cells), atol=1e-10)
    assert_allclose(fit.marginal([2, 1]), twin.marginal([2, 1]), atol=1e-12)
    assert fit.kl == pytest.approx(twin.kl, abs=1e-12)
    assert_allclose(fit.marginal(1, given={2: 3}).sum(), 1.0)
    assert np.isfinite(fit.log_prob(fit.sample(5, rng=0))).all()


def test_long_modes_of_a_full_grid() -> None:
    """The levels between two cuts are one level with their number as base measure."""
    x, basis, _, _ = long_and_short()
    cuts = np.array([0, LONG // 3, LONG // 2])
    merged, small = np.zeros((3, 3, 4)), basis.copy()
    np.add.at(merged, (np.searchsorted(cuts, x.cells[:, 0], side="right") - 1, x.cells[:, 1], x.cells[:, 2]), x.values)
    small[:, 0] = np.searchsorted(cuts, basis[:, 0])
    sides = np.diff(cuts, append=LONG).astype(np.float64)
    fit, twin = ld.decompose(x, basis), ld.decompose(merged, small, base=np.ones((3, 3, 4)) * sides[:, None, None])
    assert_allclose(fit.theta, twin.theta, atol=1e-9)
    assert_allclose(fit.marginal([1, 2]), twin.marginal([1, 2]), atol=1e-12)
    assert_allclose(fit.condition({0: LONG - 1}), twin.condition({0: 2}), atol=1e-12)
    assert fit.most_probable()[0] in cuts
    with pytest.raises(
        ld.errors.TooLarge,
        match=r"the joint distribution of modes \[0\]: an array of 1e\+12 cells .* Ask for fewer modes",
    ):
        fit.marginal(0)


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_a_basis_grown_along_a_long_mode(support: str) -> None:
    x, _, _, _ = long_and_short()
    fit = ld.decompose(x, ld.adaptive(4), support=support)
    assert fit.n_params == 4
    assert set(fit.basis[:, 0].tolist()) <= {0, *x.cells[:, 0].tolist()}
    assert fit.at(2).kl >= fit.kl
    direct = [x.values[(x.cells >= u).all(axis=1)].sum() / x.values.sum() for u in fit.basis]
    assert_allclose(fit.eta, direct, atol=1e-9)


@pytest.mark.parametrize("basis", ["B1", "B2(1)", "B2(2, axis=0)"])
@PATCHED
@given(tables())
def test_lines_in_a_list_of_points(basis: str, X: FloatArray) -> None:
    dense = as_basis(basis).select(observe(X, "nonzero"))
    assert_array_equal(as_basis(basis).select(entries(X, "nonzero")), dense)


def test_a_list_of_points_of_order_100() -> None:
    """More modes than an array can have; few of them count, so that the answer is that of the others alone."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2, (40, 100))
    x, basis = ld.from_coords(cells, shape=(2,) * 100), np.zeros((3, 100), dtype=int)
    basis[0, 0] = basis[1, 99] = basis[2, 0] = basis[2, 99] = 1
    fit = ld.decompose(x, basis, support="nonzero")
    pairs = np.zeros((2, 2))
    np.add.at(pairs, (cells[:, 0], cells[:, 99]), 1.0)
    assert_allclose(fit.marginal([0, 99]), pairs / 40, atol=1e-10)
    assert_allclose(fit.marginal([99], given={0: 1}), pairs[1] / pairs[1].sum(), atol=1e-10)


def test_levels_that_are_never_seen() -> None:
    """The outer product of such margins is 0 there; nothing is divided by 0 on the way to finding that out."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 200, (100, 4))
    fit = ld.decompose(ld.from_coords(cells, shape=(300,) * 4), "B1")
    assert (fit.status, fit.solver) == (ld.results.Status.AT_BOUNDARY, "closed")
    seen = [len(np.unique(cells[:, k])) for k in range(4)]
    assert (fit.n_vanishing, fit.rank) == (300**4 - math.prod(seen), sum(seen) - 4)
    assert_allclose(fit.marginal(2), np.bincount(cells[:, 2], minlength=300) / 100, atol=1e-9)
    small = ld.from_coords(cells[:, :2], shape=(300, 300))  # on a grid that is formed there is no closed form
    with pytest.raises(ld.errors.InvalidSetting, match="without zeros in its margins"):
        ld.decompose(small, "B1", solver="closed")


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda *_: "x", r"expectation: f has dtype <U1; it must hold real numbers"),
        (lambda *_: np.ones(3), r"expectation: f has shape \(3,\), where \(2, 2\) is expected"),
        (lambda *_: [[1], [1, 2]], r"expectation: f is not a rectangular array"),
        (lambda a, *_: a * 1j, r"expectation: f has dtype complex128"),
    ],
)
def test_functions_that_have_no_mean(f: Callable[..., Any], text: str) -> None:
    fit = ld.decompose(ld.from_coords([[0, 1], [1, 0]]), "empty", support="nonzero")
    with pytest.raises(ld.errors.InvalidQuery, match=text):
        fit.expectation(f)
    with pytest.raises(ld.errors.InvalidQuery, match="modes is empty"):
        fit.expectation(lambda: 1, modes=[])


def test_an_error_of_nothing_is_nothing() -> None:
    """Where Q is X the squares of all cells and of the listed ones cancel, but for rounding, which a root enlarges."""
    fit = ld.decompose(ld.from_coords([[0], [1], [2]], [3, 5, 7], shape=(3,)), "B1")
    assert fit.rmse < 1e-13


def test_conditions_on_a_grid_that_is_swept_only(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = ld.decompose(np.arange(1, 13).reshape(3, 4), "B1 + B3(1)")
    expected = fit.condition({0: 1})
    monkeypatch.setattr("legendre.core.limits.MOST_FORMED", 1)
    assert_array_equal(fit.condition({0: 1}), expected)
