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

import legendre as ld
from legendre import dominance
from legendre.basis import as_basis
from legendre.decomposition import Decomposition
from legendre.fit import fit_on
from legendre.growing import coarse
from legendre.intake import observe
from legendre.intake.sparse import Sparse, observe_entries
from legendre.model import Model
from legendre.quotient import Quotient
from legendre.support import Support
from legendre.zeta import zeta_adjoint
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
        monkeypatch.setattr("legendre.dominance.FEW_PAIRS", 0)


@pytest.fixture
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every merged sample space of points as a list."""
    monkeypatch.setattr("legendre.model.SMALL_GRID", 0)
    monkeypatch.setattr("legendre.model.LARGEST_GRID", 0)


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
        fit_on(entries(X, support), as_basis(basis), tol=1e-11), fit_on(observe(X, support), as_basis(basis), tol=1e-11)
    )


@pytest.mark.usefixtures("_way", "_listed", "one_thread")
@PATCHED
@given(X=tables(), basis=st.sampled_from(BASES))
def test_the_same_fit_from_a_list_of_merged_cells(X: FloatArray, basis: str) -> None:
    fit = fit_on(entries(X, "nonzero"), as_basis(basis), tol=1e-11)
    assert (fit.model.cells is not None) == (fit.model.support.points is not None)
    check(fit, fit_on(observe(X, "nonzero"), as_basis(basis), tol=1e-11))


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
    at = {0: expected.mode()[0]}
    assert_allclose(fit.condition(at), expected.condition(at), atol=1e-7)
    f = expected.tensor()
    assert fit.expectation(f) == pytest.approx(expected.expectation(f), rel=1e-7)
    assert fit.expectation(lambda *i: sum(i)) == pytest.approx(expected.expectation(lambda *i: sum(i)), abs=1e-7)
    drawn = fit.sample(20, rng=0)
    assert np.isfinite(expected.log_prob(drawn)).all()
    assert expected.log_prob(np.array(fit.mode()))[0] == pytest.approx(float(np.log(f.max() / fit.total)), abs=1e-6)


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
    quotient = Quotient.of(X.shape, rng.permutation(cells)[:3])
    assert_allclose(data.merged(quotient), observe(X).merged(quotient))
    positions = quotient.boxes(cells)
    assert_allclose(data.above(quotient, positions), zeta_adjoint(data.merged(quotient))[tuple(positions.T)])
    for k, margin in enumerate(data.margins(quotient)):
        sums = data.merged(quotient).sum(axis=tuple(j for j in range(X.ndim) if j != k))
        assert_allclose(margin, sums)
    assert data.negentropy() == pytest.approx(observe(X).negentropy())


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_a_basis_grown_on_corners_of_a_coarser_grid(support: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = rng.poisson(np.where(np.add.outer(np.arange(30), np.arange(20)) > 24, 6.0, 0.7)).astype(np.float64)
    everything = fit_on(entries(X, support), ld.cells(grown(entries(X, support))), tol=1e-10)
    dense = ld.decompose(X, ld.adaptive(6), support=support)
    assert everything.kl == pytest.approx(dense.kl, rel=1e-6)  # the coarser grid is the grid itself
    monkeypatch.setattr(coarse, "COARSE", 100)
    fit = fit_on(entries(X, support), ld.cells(grown(entries(X, support))), tol=1e-10)
    assert math.prod(fit.model.quotient.merged_shape) <= 100
    assert dense.kl <= fit.kl < 1.25 * dense.kl
    again = ld.decompose(X, ld.cells(fit.basis), support=support)
    assert_allclose(again.tensor(), fit.tensor(), rtol=1e-8)


def grown(data: Sparse, **settings: Any) -> IntArray:
    from legendre.growing import grow

    recipe = ld.adaptive(6, **settings)
    return grow(recipe, data).cells  # type: ignore[arg-type]


def test_candidates_and_a_start_on_a_coarser_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarse, "COARSE", 20)
    X = np.random.default_rng(5).poisson(2.0, size=(12, 11)).astype(np.float64)
    wanted = [[3, 0], [0, 4], [7, 4], [7, 9], [2, 2], [11, 10]]
    cells = grown(entries(X), start=[[5, 5]], candidates=wanted)
    assert cells[0].tolist() == [5, 5]
    assert {tuple(cell) for cell in cells[1:].tolist()} <= {tuple(cell) for cell in wanted}
    with pytest.raises(ld.InvalidBasis, match=r"the candidates cut the grid into .* boxes; .* Name fewer coordinates"):
        grown(entries(np.ones((40, 40))), candidates=ld.full())


def test_a_grid_of_ten_to_the_eighteen() -> None:
    """Nothing of the grid's size is formed; the independent answer is that of the merged table."""
    shape, rng = (10**6, 10**6, 10**6), np.random.default_rng(0)
    cells = np.unique(rng.integers(0, shape, size=(500, 3)), axis=0)
    basis = np.array([[500_000, 0, 0], [0, 250_000, 0], [500_000, 250_000, 0], [0, 0, 750_000], [1, 1, 1]])
    data = observe_entries(cells, rng.integers(1, 9, len(cells)), shape)
    fit = fit_on(data, ld.cells(basis), tol=1e-12)
    assert fit.converged
    direct = np.array([data.values[(cells >= u).all(axis=1)].sum() for u in basis]) / data.total
    assert_allclose(fit.eta, direct, atol=1e-12)
    assert fit.model.weights.sum() == pytest.approx(1e18)
    with pytest.raises(ld.TooLarge, match=r"tensor: an array of 1e\+18 cells needs 7.45e\+09 GiB; .* Ask for log_prob"):
        fit.tensor()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"support": "some"}, ld.InvalidSupport, r"unknown support 'some'"),
        ({"support": np.ones((3, 3), dtype=bool)}, ld.InvalidSupport, r"X is sparse, so that a boolean array"),
    ],
)
def test_supports_that_are_none(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        observe_entries(np.array([[0, 1]]), np.array([1.0]), (3, 3), **arguments)


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "it has no entries"), ([1e308, 1e308], "overflows float64"), ([5e-324, 1e10], "underflows to 0")],
)
def test_values_that_cannot_be_normalised(values: list[float], text: str) -> None:
    with pytest.raises(ld.InvalidTensor, match=text):
        observe_entries(np.zeros((len(values), 2), dtype=np.int64), np.array(values), (3, 3))


def test_a_support_of_points() -> None:
    points = np.array([[0, 1], [2, 0]])
    support = Support((3, 2), None, points)
    assert (support.n_cells, support.full) == (2, False)
    assert_array_equal(support.cells(), points)
    assert support.on_grid().sum() == 2
    assert support.contains(np.array([[0, 1], [1, 1]])).tolist() == [True, False]
    assert Model.of(support, None, np.array([[1, 0]])).weights.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_the_front_door_takes_sparse_arrays(support: str) -> None:
    import sparse
    from scipy.sparse import coo_array, csr_array

    X = np.random.default_rng(2).poisson(0.7, size=(6, 8)).astype(np.float64)
    expected = ld.decompose(X, "B1 + B3(1)", support=support)
    listed = np.argwhere(X)
    for array in (coo_array(X), csr_array(X), sparse.COO(X), ld.from_coords(listed, X[tuple(listed.T)], X.shape)):
        fit = ld.decompose(array, "B1 + B3(1)", support=support)
        assert_array_equal(fit.basis, expected.basis)
        assert_allclose(fit.tensor(), expected.tensor(), rtol=1e-9)
        assert str(ld.plan(array, "B1", support=support)).startswith(f"{expected.model.support.n_cells} cells")


def test_doors_that_need_every_cell_say_so() -> None:
    from scipy.sparse import coo_array

    X = coo_array(np.eye(3))
    listed = ld.from_coords([[0, 1], [1, 0]])
    doors: list[Callable[[Any], object]] = [
        lambda x: ld.complete(x, "B1"),
        lambda x: ld.balance(x),
        lambda x: ld.hidden(x, ld.interactions(2), 2),
    ]
    for door in doors:
        for array in (X, listed):
            with pytest.raises(ld.InvalidTensor, match=r"X is sparse .*; this needs a dense array: X.toarray\(\)"):
                door(array)
    with pytest.raises(ld.InvalidTensor, match="inference needs every cell of X in memory, but X is sparse"):
        ld.decompose(X, "B1").inference()
    with pytest.raises(ld.InvalidSupport, match="X is sparse: a base measure"):
        ld.decompose(X, "B1", base=np.ones((3, 3)))


def test_a_fit_of_points_is_stored_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for small in (None, 0):
        if small is not None:
            monkeypatch.setattr("legendre.model.SMALL_GRID", small)
            monkeypatch.setattr("legendre.model.LARGEST_GRID", small)
        fit = ld.decompose(ld.from_coords([[0, 1], [4, 4], [2, 0], [3, 3]], [1, 2, 3, 4]), "B3(1)", support="nonzero")
        fit.save(tmp_path / "fit.npz")
        again = ld.load(tmp_path / "fit.npz")
        assert_array_equal(again.tensor(), fit.tensor())
        assert again.summary() == fit.summary()


def test_progress_tells_how_the_basis_grows(capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(2).poisson(3.0, size=(9, 8))
    ld.decompose(X, ld.adaptive(20), progress=True)
    capsys.readouterr()
    said: list[str] = []
    from legendre.growing import grow

    grow(ld.adaptive(20), observe(X), say=said.append)  # type: ignore[arg-type]
    assert said[0].startswith("growing   6 of 20 parameters   KL = ")
    assert said[-1].startswith(("swapping   20", "ordering"))
