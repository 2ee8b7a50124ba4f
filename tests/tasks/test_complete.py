"""Completion: the convex fit fills in what the observed cells determine, and nothing else."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import linprog

import legendre as ld
from cases import BoolArray
from legendre.basis.basis import cells
from legendre.core import limits
from legendre.data.dense import observe
from legendre.data.observation import Support
from legendre.fitting.fit import Settings, fit_on
from legendre.model.model import Model
from legendre.solvers.structure import identifiability as identification
from legendre.solvers.structure.identifiability import from_covariance, from_tables
from legendre.tasks.complete.crossval import deal, select
from oracles import FloatArray, IntArray, zeta_matrix
from strategies import bases, count_tables, shapes

NAN = np.nan


def design(shape: tuple[int, ...], basis: IntArray) -> FloatArray:
    """(1, features) of every cell of the grid, from the definition."""
    cells = np.array(list(product(*map(range, shape))), dtype=np.int64)
    return np.hstack([np.ones((len(cells), 1)), zeta_matrix(cells, basis)])


def in_row_space(Z: FloatArray, rows: BoolArray) -> BoolArray:
    """Tell for each row of Z whether it is a combination of the given ones: adding it does not raise the rank."""
    different, place = np.unique(Z, axis=0, return_inverse=True)
    rank = np.linalg.matrix_rank(Z[rows]) if rows.any() else 0
    same = [np.linalg.matrix_rank(np.vstack([Z[rows], row])) == rank for row in different]
    return np.array(same)[place.reshape(-1)]


def in_cone(Z: FloatArray, face: BoolArray, gone: BoolArray) -> BoolArray:
    """Tell for each row whether it is any combination of face rows plus a nonnegative one of vanishing rows."""
    different, place = np.unique(Z, axis=0, return_inverse=True)
    columns = np.vstack([Z[face], -Z[face], Z[gone]]).T
    cost = np.zeros(columns.shape[1])
    return np.array([linprog(cost, A_eq=columns, b_eq=row).status == 0 for row in different])[place.reshape(-1)]


@st.composite
def gappy(draw: st.DrawFn) -> tuple[FloatArray, IntArray]:
    """Draw a table of counts with NaN in it, and a basis anywhere on the grid."""
    shape = draw(shapes(30, 4))
    X = draw(count_tables(shape))
    seen = draw(hnp.arrays(np.bool_, shape, fill=st.nothing()))
    X = np.where(seen, X, NAN)
    if not np.nansum(X) > 0:
        X[(0,) * X.ndim] = 1.0
    return X, draw(bases(shape))


@given(gappy())
def test_boundary_cells_are_in_the_span_or_in_the_cone(problem: tuple[FloatArray, IntArray]) -> None:
    X, basis = problem
    done = ld.complete(X, basis)
    assert done.determined is not None
    seen = ~np.isnan(X)
    gone = np.zeros_like(seen)
    gone[tuple(done.fit.vanishing_cells.T)] = True
    Z = design(X.shape, basis)
    span = in_row_space(Z, (seen & ~gone).ravel()).reshape(X.shape)
    cone = span if not gone.any() else in_cone(Z, (seen & ~gone).ravel(), gone.ravel()).reshape(X.shape)
    assert np.array_equal(done.determined, span | cone)
    assert (done.tensor()[cone & ~span & ~seen] == 0).all()
    assert (done.tensor()[span & ~seen] > 0).all()


@pytest.mark.parametrize("sets", [1, 2, [(0, 1), (1, 2)], [(0, 1), (2,)]])
@pytest.mark.parametrize("rate", [0.4, 0.7])
def test_tables_and_the_gram_matrix_agree(sets: int | list[tuple[int, ...]], rate: float) -> None:
    mask = np.random.default_rng(7).random((6, 5, 4)) > rate
    data = ld.complete(np.where(mask, 1.0, NAN), ld.interactions(sets)).fit.data
    assert data is not None
    model = Model.of(Support(mask.shape, mask), None, ld.interactions(sets).select(data))
    groups = [(0,), (1,), (2,)] if sets == 1 else [(0, 1), (0, 2), (1, 2)] if sets == 2 else sets
    by_tables, by_gram = from_tables(list(groups), mask), from_covariance(model, mask)  # type: ignore[arg-type]
    assert by_tables is not None
    assert by_gram is not None
    twin = in_row_space(design(mask.shape, model.basis), mask.ravel()).reshape(mask.shape)
    assert np.array_equal(np.abs(by_tables).max(axis=0) < 1e-7, twin)
    assert np.array_equal(np.abs(by_gram).max(axis=0, initial=0.0) < 1e-7, twin)


@pytest.mark.parametrize("without", ["from_covariance", "from_tables"])
def test_large_margins_are_checked_without_a_matrix_or_with_it(monkeypatch: pytest.MonkeyPatch, without: str) -> None:
    """Where tables would take too many products, the Gram matrix decides."""
    rng = np.random.default_rng(3)
    X = np.where(rng.random((9, 8, 5)) > 0.7, rng.random((9, 8, 5)) + 0.1, NAN)
    small = ld.complete(X, ld.interactions(2)).determined
    monkeypatch.setattr(limits, "TABLES_FROM", 0)
    monkeypatch.setattr(identification, without, lambda *_: None)
    large = ld.complete(X, ld.interactions(2)).determined
    assert small is not None
    assert not small.all()
    assert large is not None
    assert np.array_equal(small, large)


def test_too_large_to_check_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_MATRIX", 2)
    X = np.array([[NAN, 2.0, 3.0], [2.0, 4.0, NAN]])
    with pytest.warns(ld.ConvergenceWarning, match="the 2 missing cells are determined was not checked: 3 parameters"):
        done = ld.complete(X, ld.interactions(1))
    assert done.determined is None
    assert "2, not checked whether they are determined" in done.summary()
    assert "not checked" in repr(done)
    assert "3, rank at most 3 on the observed cells" in done.summary()
    np.testing.assert_allclose(done.tensor(), [[1, 2, 3], [2, 4, 6]], rtol=1e-8)


def two_body(shape: tuple[int, ...], seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    log_q = np.zeros(shape)
    for k in range(len(shape)):
        log_q = log_q + np.expand_dims(rng.normal(size=[n for j, n in enumerate(shape) if j != k]), k) / 2
    return np.exp(log_q)


@pytest.mark.parametrize("length", [8, 30])
def test_two_body_tensor_is_recovered_from_half_of_its_cells(length: int) -> None:
    X = two_body((length,) * 3, seed=1)
    hidden = np.random.default_rng(2).random(X.shape) < 0.5
    done = ld.complete(np.where(hidden, NAN, X), ld.interactions(2), tol=1e-13 if length == 30 else 1e-12)
    known = done.determined
    assert known is not None
    assert known.mean() > 0.98
    np.testing.assert_allclose(done.tensor()[known], X[known], rtol=1e-6)


def test_an_empty_slice_is_named_and_left_open() -> None:
    X = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 4.0, 8.0])
    X[:, 2] = NAN
    X[0, 1] = NAN
    done = ld.complete(X, ld.interactions(1))
    assert np.isnan(done.tensor()[:, 2]).all()
    assert done.tensor()[0, 1] == pytest.approx(2.0, rel=1e-9)
    text = done.summary()
    assert "undetermined      3 cells, left NaN" in text
    assert "nothing observed  mode 1: 1 of 4 slices (2)" in text
    assert "5, rank 4 on the observed cells" in text
    assert repr(done).startswith("<Completion of 3x4: 4 cells missing, 3 undetermined; <Decomposition")


def test_an_empty_slice_is_filled_if_the_basis_does_not_need_it_or_on_request() -> None:
    X = np.array([[1.0, 3.0, NAN], [2.0, 6.0, NAN]])
    done = ld.complete(X, cells([[1, 0], [0, 1]]))
    np.testing.assert_allclose(done.tensor()[:, 2], [3.0, 6.0], rtol=1e-9)
    assert "nothing observed  mode 1: 1 of 3 slices (2)" in done.summary()
    done = ld.complete(X, ld.interactions(1), undetermined="theta0")
    np.testing.assert_allclose(done.tensor()[:, 2], [3.0, 6.0], rtol=1e-9)
    np.testing.assert_array_equal(done.determined, [[True, True, False]] * 2)
    assert "2 cells; 2 of them filled in with open parameters at 0" in done.summary()


def test_the_papers_bases_keep_the_parameters_of_slices_with_gaps() -> None:
    """`decompose` drops B1's parameter of a cell that is missing; a completion must not."""
    X = np.outer([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    X[0, 2] = X[1, 1] = NAN
    done = ld.complete(X, "B1")
    assert done.n_params == 4
    np.testing.assert_allclose(done.tensor(), np.outer([1, 2, 3], [1, 2, 4]), rtol=1e-9)


def test_zeros_can_mean_missing() -> None:
    X = np.array([[1, 2], [3, 0]])
    np.testing.assert_allclose(ld.complete(X, "B1", support="nonzero").tensor(), [[1, 2], [3, 6]], rtol=1e-9)
    np.testing.assert_allclose(ld.complete(X, "B1", support=(X > 0)).tensor(), [[1, 2], [3, 6]], rtol=1e-9)
    assert ld.complete(X, "B1").tensor().tolist() == X.tolist()


def test_a_labelled_support_is_matched_by_label() -> None:
    """The cells that count as observed were those of the support in its own order."""
    X = pd.DataFrame([[1.0, 2.0], [2.0, 9.0]], index=["a", "b"], columns=["x", "y"])
    done = ld.complete(X, "B1", support=(X < 9).loc[["b", "a"]])
    assert done.observed.tolist() == [[True, True], [True, False]]
    assert done.tensor().loc["b", "y"] == pytest.approx(4.0)


def noisy(seed: int = 0) -> FloatArray:
    """Draw counts of a one-body model, a fifth of them missing."""
    rng = np.random.default_rng(seed)
    mean = 40 * np.multiply.outer(np.outer(rng.uniform(0.5, 2, 7), rng.uniform(0.5, 2, 6)), rng.uniform(0.5, 2, 5))
    return np.where(rng.random(mean.shape) < 0.2, NAN, rng.poisson(mean))


def test_cross_validation_finds_the_model_that_made_the_data() -> None:
    X = noisy()
    candidates: list[ld.Basis | str] = ["empty", "interactions(1)", "interactions(2)", ld.full()]
    done = ld.complete(X, candidates, folds=4)
    table = done.cv
    assert table is not None
    assert [score.basis for score in table.scores][table.best] == "interactions(1)" == done.fit.recipe
    assert table.held_out == (~np.isnan(X)).sum()
    assert np.isnan(table.scores[3].deviance)
    assert table.scores[3].undetermined == table.held_out
    assert table.scores[1].deviance < table.scores[2].deviance < table.scores[0].deviance
    assert "*  interactions(1)" in str(table)
    assert str(table) in done.summary()
    assert done.n_params == 15


def test_scores_are_the_means_over_folds_computed_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    X = noisy()
    rough = ld.complete(X, ld.interactions(1), folds=3, rng=5).cv
    monkeypatch.setattr("legendre.tasks.complete.complete.select", partial(select, share=0.0))
    seen = ~np.isnan(X)
    table = ld.complete(X, ld.interactions(1), folds=3, rng=5).cv
    assert table is not None
    folds = deal(np.where(seen, X, 0.0), seen, 3, rng=5)
    squares, deviances = [], []
    for fold in folds.held:
        held = fold.transpose(np.argsort(folds.order)) >= 0
        m = ld.decompose(np.where(held, NAN, X), ld.interactions(1)).tensor(extend=True)[held]
        x = X[held]
        squares.append(np.sqrt(np.mean((x - m) ** 2)))
        deviances.append(np.mean([2 * ((a * np.log(a / b) if a else 0.0) - a + b) for a, b in zip(x, m, strict=True)]))
    score = table.scores[0]
    assert rough is not None
    assert rough.scores[0].rmse == pytest.approx(score.rmse, rel=1e-2)
    assert score.rmse == pytest.approx(np.mean(squares), rel=1e-9)
    assert score.rmse_se == pytest.approx(np.std(squares, ddof=1) / np.sqrt(3), rel=1e-7)
    assert score.deviance == pytest.approx(np.mean(deviances), rel=1e-9)
    assert score.deviance_se == pytest.approx(np.std(deviances, ddof=1) / np.sqrt(3), rel=1e-7)
    assert score.undetermined == 0


@pytest.mark.parametrize("along", [(), (2,), (0, 2), None])
def test_fibres_are_held_out_whole_in_every_order_of_modes(along: tuple[int, ...] | None) -> None:
    rng = np.random.default_rng(0)
    seen = (rng.random((6, 5, 4)) < 0.7) & (rng.random((6, 5, 1)) < 0.8)
    values = rng.random((6, 5, 4))
    dealt = deal(values, seen, 3, along)
    assert dealt.order == [2, 1, 0]
    held = np.array(dealt.held)
    fibres = [tuple(k for k, size in enumerate(shape) if size > 1) for shape in dealt.shapes]  # modes in `order`
    shapes = [tuple(sorted(2 - k for k in modes)) for modes in fibres]
    assert {(2,), ()} <= set(shapes) if along is None else shapes == [along]
    seen = seen.transpose(dealt.order)
    assert (held[:, ~seen] == -1).all()
    assert np.ptp((held >= 0).sum(axis=(1, 2, 3))) <= 24  # a slab
    for number, modes in enumerate(fibres):
        axes = tuple(k + 1 for k in modes)
        assert (((held >= 0) | ~seen).all(axis=axes) | ~(held == number).any(axis=axes)).all()
    if along is not None:
        assert ((held >= 0).sum(axis=0) == seen).all()
    turned = None if along is None else tuple((k + 1) % 3 for k in along)
    other = deal(np.moveaxis(values, 2, 0), np.moveaxis(seen.T, 2, 0), 3, turned)
    assert np.array_equal(np.array(other.held), held)


def test_fibre_folds_rule_out_bases_that_cannot_fill_fibres() -> None:
    """A two-body basis has a parameter for every fibre: with the fibre unseen it says nothing."""
    table = ld.complete(noisy(), ["interactions(1)", "interactions(2)"], folds=3, hold_out=2).cv
    assert table is not None
    assert table.folds == "fibres along mode 2"
    assert table.scores[0].undetermined == 0
    assert table.scores[1].undetermined == table.held_out
    with pytest.raises(
        ld.errors.InvalidBasis, match="every candidate leaves more than half of the held-out cells undet"
    ):
        ld.complete(noisy(), ["interactions(2)", "full"], folds=3, hold_out=2)


@pytest.mark.parametrize("hold_out", ["cells", "hour", ("cells",), ["hour", "cells"]])
def test_fibres_are_named_like_their_modes(hold_out: str | list[str]) -> None:
    names = ["day", "cells", "hour"]  # a mode called cells is told from single cells by its list
    numbers: str | list[int] = "cells" if hold_out == "cells" else [names.index(n) for n in np.atleast_1d(hold_out)]
    bases = ["empty", "interactions(1)"]
    table = ld.complete(noisy(), bases, names=names, folds=3, hold_out=hold_out).cv
    same = ld.complete(noisy(), bases, folds=3, hold_out=numbers).cv
    assert table is not None
    assert same is not None
    assert repr(table.scores) == repr(same.scores)
    along = ", ".join(name for name in names if name in np.atleast_1d(hold_out))
    assert table.folds == ("cells" if hold_out == "cells" else f"fibres along mode {along}")


def test_the_size_of_an_adaptive_basis_is_chosen() -> None:
    rng = np.random.default_rng(4)
    mean = np.full((10, 10), 20.0)
    mean[4:, 6:] = 90.0
    X = np.where(rng.random(mean.shape) < 0.2, NAN, rng.poisson(mean))
    done = ld.complete(X, ld.adaptive(40), folds=4)
    assert done.cv is not None
    sizes = [score.basis for score in done.cv.scores]
    assert sizes == [f"adaptive({n})" for n in (1, 2, 3, 5, 8, 14, 24, 40)]
    assert done.n_params == int(sizes[done.cv.best][9:-1]) < 10
    assert done.fit.path[-1].n_params == done.n_params


def test_infinite_deviance_falls_back_on_rmse() -> None:
    """A count alone in its row, held out, is predicted to be 0 by bases that fit the rows."""
    X = np.array([[9.0, 0.0, 0.0], [20.0, 40.0, 10.0], [30.0, 60.0, 14.0]])
    table = ld.complete(X, ["interactions([(0,)])", "interactions(1)"], folds=9).cv
    assert table is not None
    assert [score.deviance for score in table.scores] == [np.inf, np.inf]
    assert table.best == 1 == int(np.argmin([score.rmse for score in table.scores]))


def test_same_seed_same_folds() -> None:
    tables = [ld.complete(noisy(), ["interactions(1)", "empty"], folds=3, rng=s).cv for s in (1, 1, 2)]
    assert tables[0] == tables[1] != tables[2]


@pytest.mark.parametrize("basis", [None, "B1"])
def test_bad_tensors_are_refused(basis: str | None) -> None:
    X = np.array([[1.0, NAN], [2.0, 3.0]])
    with pytest.raises(ld.errors.InvalidTensor, match="every entry of X is NaN"):
        ld.complete([[NAN, NAN]], basis)
    with pytest.raises(ld.errors.InvalidTensor, match=r"1 negative entry: it is X\[0, 1\] = -2"):
        ld.complete([[1.0, -2.0]], basis)
    with pytest.raises(ld.errors.InvalidSupport, match="support is empty"):
        ld.complete(X, basis, support=np.zeros((2, 2), dtype=bool))


def test_bad_bases_are_refused() -> None:
    X = np.array([[1.0, NAN], [2.0, 3.0]])
    with pytest.raises(ld.errors.InvalidBasis, match="did you mean 'interactions'"):
        ld.complete(X, "interaction(1)")
    with pytest.raises(ld.errors.InvalidBasis, match=r"this one holds \[0, 1\]"):
        ld.complete(X, ["B1", [0, 1]], folds=2)  # type: ignore[arg-type]
    with pytest.raises(ld.errors.InvalidSetting, match=r"2 candidate bases need cross-validation .*: folds=5"):
        ld.complete(X, ["B1", "empty"])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"undetermined": "zero"}, "undetermined must be 'nan' or 'theta0', got 'zero'"),
        ({"criterion": "rmsd", "folds": 2}, "criterion must be 'deviance' or 'rmse', got 'rmsd'"),
        ({"folds": 1}, "folds must be an integer >= 2, got 1"),
        ({"folds": 4}, "folds=4 needs at least as many observed cells; X has 3"),
        ({"folds": 2, "rng": -1}, "rng must be None, an integer >= 0 or a numpy.random.Generator, got -1"),
        (
            {"folds": 2, "hold_out": "fibres"},
            "'cells', a mode or several modes): 'fibres' is not a mode of X, which has 2, counted from 0 to 1. They "
            "have no names: pass names=",
        ),
        ({"folds": 2, "hold_out": 2}, "several modes): 2 is not a mode of X, which has 2, counted from 0 to 1"),
        ({"folds": 2, "hold_out": "da", "names": ["day", "hour"]}, "modes): unknown mode 'da'; did you mean 'day'"),
        ({"hold_out": 1}, "hold_out=1 is used only with folds: pass folds=5, or leave it out"),
        ({"folds": 2, "hold_out": (0, 1)}, "fibres run along at least one mode and not along all 2"),
        ({"folds": 3, "hold_out": 1}, "folds=3 needs at least as many fibres with an observed cell; X has 2"),
        ({"tol": -1}, "tol must be a number >= 0"),
        ({"solver": "naturel"}, "unknown solver 'naturel'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=text.replace("(", r"\(").replace(")", r"\)")):
        ld.complete([[1.0, NAN], [2.0, 3.0]], ld.interactions(1), **settings)  # type: ignore[arg-type]


def test_scaling_fits_dependent_margins() -> None:
    """Unseen fibres leave parameters open; scaling finds the same Q as Newton's method, without a matrix."""
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(14, 12, 8))
    X[rng.random((14, 12)) < 0.2] = NAN
    fit = ld.decompose(X, ld.interactions(2), tol=1e-12)
    newton = ld.decompose(X, ld.interactions(2), tol=1e-12, solver="natural")
    assert (fit.solver, newton.solver) == ("scaling", "natural")
    assert "solver scaling, then natural on the" in str(ld.plan(X, ld.interactions(2)))
    assert fit.rank == newton.rank < fit.n_params
    seen = ~np.isnan(X)
    np.testing.assert_allclose(fit.tensor()[seen], newton.tensor()[seen], rtol=1e-8)


def test_scaling_that_does_not_converge_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ranks too, as cross-validation fits its folds."""
    rng = np.random.default_rng(1)
    X = rng.gamma(2.0, size=(14, 12, 8))
    X[rng.random((14, 12)) < 0.2] = NAN
    expected = ld.decompose(X, ld.interactions(2), solver="natural").tensor()
    monkeypatch.setattr(limits, "DEPENDENT_CYCLES", 1)
    for ranked in (True, False):
        fit = fit_on(observe(X), ld.interactions(2), Settings(tol=1e-10, ranked=ranked))
        assert fit.solver == "natural"
        seen = ~np.isnan(X)
        np.testing.assert_allclose(fit.tensor()[seen], expected[seen], rtol=1e-6)


def test_zeros_in_large_margins_are_no_boundary_when_the_others_determine_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.poisson(3.0, size=(9, 8, 7)).astype(np.float64)
    slow = ld.decompose(X, ld.interactions(2))
    monkeypatch.setattr(limits, "TABLES_FROM", 0)
    monkeypatch.setattr(limits, "LARGEST_MATRIX", 0)
    fast = ld.decompose(X, ld.interactions(2))
    assert (X == 0).any()
    assert slow.status is fast.status is ld.results.Status.CONVERGED
    X[:, 0, 0] = 0
    X[0, 0, :3] = X[0, 1:, :3] = 0
    with_margins_empty = ld.decompose(X, ld.interactions(2))
    assert with_margins_empty.status is ld.results.Status.AT_BOUNDARY


TIED = [
    ld.ties.quasi_symmetric(0, 1),
    ld.interactions(1) | ld.ties.uniform(0, 1),
    ld.interactions(1) | ld.ties.linear(0, 1, [[0.0, 1.0, 10.0, 11.0, 50.0], [1.0, 2.0, 4.0, 8.0, 16.0]]),
    ld.interactions(1) | ld.ties.diagonal(0, 1),
    ld.features({"far": lambda i, j: abs(i - j) / 3.0, "last": lambda i, j: (j == 4) + 0.0 * i}),
]


@pytest.mark.parametrize("basis", TIED, ids=lambda basis: repr(basis)[:40])
@pytest.mark.parametrize("seed", range(4))
def test_tied_parameters_fill_in_what_the_observed_cells_determine(basis: ld.Basis, seed: int) -> None:
    """What is determined is a matter of ranks; and there a member of the model comes back as it was."""
    rng = np.random.default_rng(seed)
    member = ld.decompose(rng.gamma(2.0, size=(5, 5)), basis)
    seen = rng.random((5, 5)) < 0.6
    done = ld.complete(np.where(seen, member.tensor(), NAN), basis)
    cells, ties = np.argwhere(np.ones((5, 5))), member.model.ties
    assert ties is not None
    features = zeta_matrix(cells, member.basis) @ ties.matrix().toarray()
    features /= np.abs(features).max(axis=0)
    expected = in_row_space(np.hstack([np.ones((25, 1)), features]), seen.ravel()).reshape(5, 5)
    np.testing.assert_array_equal(done.determined, expected)
    np.testing.assert_allclose(done.tensor()[expected], member.tensor()[expected], rtol=1e-6)
    assert np.isnan(done.tensor()[~expected]).all()


def test_cross_validation_chooses_among_ties_and_boxes_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = np.full((9, 8), 30.0)
    means[2:6, 3:6] *= 4.0
    X = np.where(rng.random(means.shape) < 0.2, NAN, rng.poisson(means))
    done = ld.complete(X, [ld.ties.uniform(0, 1) | ld.interactions(1), ld.boxes(1)], folds=4, rng=0)
    assert done.fit.recipe == "boxes(1)"
    assert np.abs(np.log(done.fit.tensor(extend=True) / means)).max() < 0.2
    done.save(tmp_path / "done.npz")
    np.testing.assert_allclose(ld.load(tmp_path / "done.npz").tensor(), done.tensor())


@pytest.mark.parametrize("seed", [2, 7])
def test_boxes_whose_corners_are_not_in_order(seed: int) -> None:
    """SciPy sorts the entries of a sparse matrix in place, and those of ties are read-only."""
    rng = np.random.default_rng(seed)
    X = rng.random((6, 5))
    X[rng.random((6, 5)) < 0.2] = np.nan
    done = ld.complete(X, "boxes(4)")
    np.testing.assert_allclose(done.tensor()[~np.isnan(X)], X[~np.isnan(X)])


def test_the_scores_of_folds_do_not_depend_on_the_unit() -> None:
    X = np.outer([1.0, 2.0, 3.0], [1.0, 3.0, 2.0, 5.0]) + np.eye(3, 4)
    small, large = (ld.complete(X * 2.0**power, "B1", folds=3, criterion="rmse").cv for power in (0, 300))
    assert small is not None
    assert large is not None
    assert large.scores[0].rmse == pytest.approx(small.scores[0].rmse * 2.0**300, rel=1e-9)
    assert large.scores[0].rmse_se == pytest.approx(small.scores[0].rmse_se * 2.0**300, rel=1e-9)
