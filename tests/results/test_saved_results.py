"""Every result in a file and in a pickle, and files that are damaged."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Callable
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core import limits
from legendre.core.npz import checksum

NAN = float("nan")
FOLDER = Path(__file__).parent / "files"
COUNTS = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])
GAPS = np.array([[1.0, 2.0, NAN, 4.0], [2.0, 5.0, 6.0, NAN], [3.0, 6.0, 9.5, 12.0], [1.0, NAN, 3.0, 4.5]])


def at_the_boundary() -> Any:
    X = np.array([[4.0, 1.0, NAN], [0.0, 0.0, 0.0], [2.0, 5.0, 3.0]])
    base = np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 3.0], [0.5, 1.0, 1.0]])
    return ld.decompose(X, "B1", base=base)


def a_list() -> Any:
    cells = [[0, 0, 0], [3, 99_999, 5], [7, 12, 5], [3, 12, 0], [7, 99_999, 0], [0, 12, 5]]
    return ld.from_coords(cells, [4, 1, 2, 6, 3, 5], (10, 10**5, 6))


def order_100() -> Any:
    rows = np.random.default_rng(0).integers(0, 2, (50, 100))
    return ld.decompose(ld.from_rows(rows), ld.interactions([(k, k + 1) for k in range(99)]))


def smoothed(**settings: Any) -> Any:
    x = np.linspace(0, 3, 6)
    X = np.exp(np.add.outer(np.sin(x), np.cos(x)))
    X[[0, 2, 4], [1, 5, 3]] = NAN
    return ld.smooth(X, folds=3, **settings)


def unfinished() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        return ld.hidden(COUNTS, ld.rbm(3, 1), restarts=2, max_iter=2)


def without_a_step() -> Any:
    with warnings.catch_warnings():  # pytest.warns sees the warnings of one thread at a time
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        return ld.decompose(COUNTS, ld.interactions(2), solver="gradient", max_iter=0)


RESULTS: dict[str, Callable[[], Any]] = {
    "decomposition": lambda: ld.decompose(COUNTS, ld.interactions(2)),
    "decomposition_at_the_boundary": at_the_boundary,
    "decomposition_of_a_list": lambda: ld.decompose(a_list(), ld.adaptive(3), support="nonzero"),
    "decomposition_of_order_100": order_100,
    "decomposition_grown": lambda: ld.decompose(COUNTS, ld.adaptive(3)),
    "balanced": lambda: ld.balance(COUNTS, {(0, 1): [[10, 20], [30, 40]], 2: [60, 40]}),
    "balanced_integers_with_zeros": lambda: ld.balance(np.array([[3, 0], [1, 2]]), {0: [1, 1], 1: [1.5, 0.5]}),
    "completion": lambda: ld.complete(GAPS, "B1"),
    "completion_with_cv": lambda: ld.complete(GAPS, ["B1", "empty"], folds=3),
    "cross_validation": lambda: ld.complete(GAPS, ["B1", "empty"], folds=3).cv,
    "smoothed": smoothed,
    "hidden": lambda: ld.hidden(COUNTS, ld.rbm(3, 1), restarts=2, tol=1e-5),
    "hidden_unfinished": unfinished,
    "inference": lambda: ld.decompose(COUNTS, ld.interactions(2)).inference(),
    "inference_at_the_boundary": lambda: ld.decompose([[10, 20, 30], [0, 0, 0]], "B1").inference(),
    "inference_of_a_list": lambda: ld.decompose(a_list(), [[3, 0, 0], [0, 12, 0]]).inference(),
    "inference_of_order_100": lambda: order_100().inference(),
    "ladder": lambda: ld.geometry.ladder(COUNTS),
    "ladder_without_counts": lambda: ld.geometry.ladder(COUNTS + 0.5),
    "likelihood_ratio": lambda: ld.likelihood_ratio(
        ld.decompose(COUNTS, "B1"), ld.decompose(COUNTS, ld.interactions(2))
    ),
}
RESULTS["decomposition_to_three_digits"] = lambda: ld.decompose(
    np.random.default_rng(0).gamma(1.0, size=(5, 6, 4)), ld.interactions(2), tol=1e-3
)
RESULTS["decomposition_of_a_part"] = lambda: ld.decompose(
    np.where(np.eye(4) > 0, NAN, 1.0 + np.arange(4.0)), "B1 + B2(3)"
)
RESULTS["decomposition_unfinished"] = without_a_step
RESULTS["smoothed_to_two_digits"] = lambda: smoothed(tol=1e-2)
RESULTS["balanced_to_two_digits"] = lambda: ld.balance(np.arange(1.0, 13.0).reshape(3, 4) ** 2, tol=1e-2)
KINDS = ("decomposition", "balanced", "completion", "smoothed", "hidden")
FITS = [name for name in RESULTS if name.startswith(KINDS)]


@cache
def made(name: str) -> Any:
    return RESULTS[name]()


def assert_same(one: Any, other: Any) -> None:
    """Compare types, texts and numbers, to the last bit."""
    assert type(one) is type(other)
    first, second = one.to_arrays(), other.to_arrays()
    assert list(first) == list(second)
    for key in first:
        a, b = np.asarray(first[key]), np.asarray(second[key])
        assert (a.shape, a.dtype.kind) == (b.shape, b.dtype.kind), key
        assert_array_equal(a, b, err_msg=key)
    assert repr(one) == repr(other)
    assert one.summary() == other.summary()


@pytest.mark.parametrize("name", RESULTS)
def test_a_file_gives_back_the_same_numbers(name: str, tmp_path: Path) -> None:
    made(name).save(tmp_path / "result.npz")
    assert_same(ld.load(tmp_path / "result.npz"), made(name))
    ld.load(tmp_path / "result.npz").save(tmp_path / "again.npz")
    assert_same(ld.load(tmp_path / "again.npz"), made(name))


@pytest.mark.parametrize("name", RESULTS)
def test_a_pickle_gives_back_the_same_numbers(name: str) -> None:
    assert_same(pickle.loads(pickle.dumps(made(name))), made(name))


@pytest.mark.parametrize("name", FITS)
def test_what_all_results_share(name: str, tmp_path: Path) -> None:
    fit = made(name)
    fit.save(tmp_path / "result.npz")
    for result in (fit, ld.load(tmp_path / "result.npz")):
        assert result.theta.shape == result.eta.shape == (result.n_params,)
        assert isinstance(result.status, ld.Status)
        assert result.converged is result.status.converged
        assert [step.iteration for step in result.history] == list(range(result.n_iter + 1))
        assert result.residual >= 0
        assert result.gap >= 0
        if len(result.shape) < 64:
            assert result.tensor().shape == result.shape
            assert_array_equal(result.tensor(), fit.tensor())


@pytest.mark.parametrize("name", ["decomposition", "balanced", "completion"])
def test_the_residual_is_that_of_the_expectations(name: str) -> None:
    result = made(name)
    fit = getattr(result, "fit", result)
    assert result.residual == float(np.abs(result.eta - fit.eta_hat).max())
    assert result.converged


def test_residual_gap_and_history_of_smoothing() -> None:
    done = made("smoothed")
    assert done.status is ld.Status.CONVERGED
    assert done.history[-1].residual == done.residual <= done.tol
    assert 0 <= done.gap < 1e-15
    objectives = [step.objective for step in done.history]
    assert (np.diff(objectives) <= 1e-9).all()
    # the bound holds on the way too: no step is further above the end than its own gradient says
    for step in done.history:
        n = int(done.observed.sum())
        assert step.objective - objectives[-1] <= 0.5 * n * step.residual_norm**2 + 1e-9


def test_theta_and_eta_of_smoothing_are_those_of_q() -> None:
    done = made("smoothed")
    theta = ld.dual.to_theta(done.fitted())
    assert_allclose(done.theta, theta.ravel()[1:], atol=1e-9)
    q = np.where(done.observed, done.fitted(), 0.0)
    assert_allclose(done.eta, ld.dual.to_eta(q).ravel()[1:], atol=1e-12)
    assert_array_equal(done.tensor()[~done.observed], done.fitted()[~done.observed])


def test_smoothing_that_runs_out_of_steps() -> None:
    with pytest.warns(ld.ConvergenceWarning, match="after 0 steps"):
        done = ld.smooth(np.where(np.isnan(GAPS), NAN, GAPS), folds=3, max_iter=0)
    assert done.status is ld.Status.OUT_OF_STEPS
    assert not done.converged
    assert len(done.history) == 1


def test_the_gap_of_hidden_modes_is_kl_itself() -> None:
    assert made("hidden").gap == made("hidden").kl
    assert made("hidden_unfinished").status is ld.Status.OUT_OF_STEPS
    objectives = [step.objective for step in made("hidden").history]
    assert max(np.diff(objectives)) <= 1e-14


@pytest.mark.parametrize("solver", ["natural", "natural-cg", "scaling", "matrix-scaling", "gradient"])
def test_the_gap_of_balancing_bounds_the_divergence_from_the_exact_answer(solver: str) -> None:
    X = np.random.default_rng(1).gamma(1.0, size=(3, 4))
    exact = ld.balance(X, tol=1e-13)
    with pytest.warns(ld.ConvergenceWarning):
        early = ld.balance(X, solver=solver, max_iter=2)
    divergence = ld.dual.kl(exact.tensor(), early.tensor())
    assert 0 < divergence <= early.gap < 10 * divergence


# ---- version 1, written before eta and psi were in the file


@pytest.mark.parametrize("name", ["dense", "list"])
def test_files_of_version_1_are_read(name: str) -> None:
    expected = json.loads((FOLDER / "decomposition_v1.json").read_text())[name]
    fit = ld.load(FOLDER / f"decomposition_v1_{name}.npz")
    assert isinstance(fit, ld.Decomposition)
    for key in ("total", "rank", "kl", "rmse", "n_iter", "solver", "tol", "recipe", "gap"):
        assert getattr(fit, key) == expected[key], key
    assert fit.status.name == expected["status"]
    for key in ("theta", "basis", "vanishing_cells"):
        assert_array_equal(getattr(fit, key), np.array(expected[key]).reshape(getattr(fit, key).shape), err_msg=key)
    assert_allclose(fit.eta, expected["eta"], rtol=1e-13)
    assert fit.psi == pytest.approx(expected["psi"], rel=1e-13)
    assert all(math.isnan(step.held_out) and math.isnan(step.spread) for step in fit.path)  # came later
    for key in ("path", "history"):
        rows = [astuple(step)[: len(row)] for step, row in zip(getattr(fit, key), expected[key], strict=True)]
        assert_array_equal(np.array(rows), np.array(expected[key]), err_msg=key)  # NaN where X is a list


V2 = [
    "decomposition", "decomposition_at_the_boundary", "decomposition_grown", "balanced", "completion_with_cv",
    "smoothed", "hidden", "inference", "ladder", "likelihood_ratio", "cross_validation",
]  # fmt: skip


@pytest.mark.parametrize("name", V2)
def test_files_of_version_2_are_read(name: str) -> None:
    """Written before there were checksums: what they hold comes back to the last bit."""
    path = FOLDER / f"{name}_v2.npz"
    with np.load(path) as archive:
        written = dict(archive)
    found = ld.load(path).to_arrays()
    assert set(found) >= set(written["names"].tolist())  # later versions may write more
    for key in written["names"].tolist():
        assert_array_equal(np.asarray(found[key]), written[key], err_msg=key)


# ---- damaged files


def rewritten(path: Path, /, **changes: Any) -> Path:
    """Change arrays of a file, and its checksum with them: what somebody does who knows the format."""
    with np.load(path) as archive:
        arrays = {key: array for key, array in {**archive, **changes}.items() if key != "checksum"}
    np.savez(path, **arrays, checksum=checksum(arrays))
    return path


FORGED: dict[str, tuple[str, dict[str, Any], str]] = {
    "other_theta": ("decomposition", {"theta": np.ones(6)}, r"eta and psi are not those of theta, but differ by up to"),
    "other_eta": ("decomposition", {"eta": np.full(6, 0.5)}, r"eta and psi are not those of theta"),
    "other_psi": ("decomposition", {"psi": 1.0}, r"eta and psi are not those of theta"),
    "other_eta_hat": (
        "decomposition", {"eta_hat": np.full(6, 0.5)}, r"is CONVERGED, but max\|eta - eta_hat\| at its theta is"
    ),
    "no_probabilities": ("decomposition", {"eta_hat": np.full(6, 7.0)}, r"eta_hat holds numbers that are no probabil"),
    "negative_rank": ("decomposition", {"rank": -5}, r"rank is -5"),
    "large_rank": ("decomposition", {"rank": 7}, r"the rank is 7 of 6 parameters"),
    "small_rank": ("decomposition", {"rank": 3}, r"the rank is 3 of 6 parameters, of which 6 are independent"),
    "small_rank_of_a_part": ("decomposition_of_a_part", {"rank": 1}, r"is 1 of \d+ parameters, of which \d+ are indep"),
    "no_gap": (
        "decomposition_to_three_digits",
        {"gap": 0.0},
        r"the gap is 0, but at its theta KL lies above its minimum by .*e-\d+ or more",
    ),
    "nan_gap": ("decomposition", {"gap": NAN}, r"the gap is nan"),
    "no_gap_of_balancing": ("balanced_to_two_digits", {"gap": 0.0}, r"the gap is 0, but at its theta KL lies above"),
    "tol_below_the_residual": (
        "decomposition", {"tol": 1e-30}, r"is CONVERGED, but max\|eta - eta_hat\| at its theta is .*, above tol = 1e-30"
    ),
    "nan_tol": ("decomposition", {"tol": NAN}, r"tol is nan"),
    "nan_kl": ("decomposition", {"kl": NAN}, r"kl is nan, where theta and eta_hat leave 0 to "),
    "large_kl": ("decomposition", {"kl": 50.0}, r"kl is 50, where theta and eta_hat leave 0 to 1\.\d+"),
    "small_kl": ("decomposition_unfinished", {"kl": 0.0}, r"kl is 0, where theta and eta_hat leave 0\.\d+ to \d"),
    "recession_of_a_converged_fit": (
        "decomposition", {"recession": np.ones(6)}, r"runs to infinity along its recession, but no cells vanish"
    ),
    "broken_shape": ("decomposition", {"shape": np.array([2.5, 2, 2])}, r"'shape' has dtype float64"),
    "huge_shape": ("decomposition", {"shape": np.full(3, 10**9)}, r"eta and psi are not those of theta"),
    "infinite_psi": ("decomposition", {"psi": np.inf}, r"psi is inf"),
    "negative_tol": ("decomposition", {"tol": -1.0}, r"tol is -1"),
    "negative_kl": ("decomposition", {"kl": -1.0}, r"kl is -1"),
    "negative_history": ("decomposition", {"history": -np.ones((2, 4))}, r"history has a negative residual"),
    "boundary_without_a_face": ("decomposition", {"status": "AT_BOUNDARY"}, r"AT_BOUNDARY without cells that vanish"),
    "face_of_a_converged_fit": (
        "decomposition_at_the_boundary", {"status": "CONVERGED"}, r"CONVERGED with cells that vanish"
    ),
    "empty_face": ("decomposition_at_the_boundary", {"alive": np.zeros(1, np.uint8)}, r"alive marks no cell"),
    "no_measure": ("decomposition_at_the_boundary", {"base": np.zeros((3, 3))}, r"the base measure is no measure"),
    "empty_support": ("completion", {"fit.support": np.zeros(2, np.uint8)}, r"the support is empty"),
    "points_out_of_order": (
        "decomposition_of_a_list",
        {"points": [[0, 0, 0], [7, 12, 5], [3, 12, 0], [3, 12, 0], [7, 99_999, 0], [0, 12, 5]]},
        r"points of the support are repeated, or not in order",
    ),
    "other_path": ("decomposition_grown", {"path": np.ones((2, 5))}, r"path does not lead to 3 parameters"),
    "other_values": ("balanced", {"values": np.ones((2, 2, 2))}, r"the tensor is not X times its factors"),
    "other_margins": ("balanced", {"margins.2": np.array([40.0, 60.0])}, r"eta_hat is not that of the margins"),
    "margins_without_sum": ("balanced", {"margins.2": np.array([40.0, 61.0])}, r"\(2,\) does not sum to 100"),
    "nan_margins": ("balanced", {"margins.2": np.array([np.nan, 60.0])}, r"the modes \(2,\) is no margin"),
    "vanishing_outside": ("balanced", {"vanishing_cells": np.array([[9, 9, 9]])}, r"vanishing cells lie outside"),
    "vanishing_twice": ("balanced", {"vanishing_cells": np.zeros((2, 3), np.int64)}, r"cells vanish twice"),
    "vanishing_but_converged": ("balanced", {"vanishing_cells": np.zeros((1, 3), np.int64)}, r"CONVERGED, and 1 cells"),
    "other_fill": ("completion", {"values": np.ones((4, 4))}, r"the fit is not one to the observed values"),
    "negative_fill": ("completion", {"values": -np.ones((4, 4))}, r"observed cells are missing or negative"),
    "undetermined": ("completion", {"determined": np.zeros(2, np.uint8)}, r"marked as determined that are not"),
    "another_best": ("cross_validation", {"best": 1}, r"basis 1 is not the best by its"),
    "negative_scores": ("cross_validation", {"scores.rmse": np.array([-1.0, 1.0])}, r"errors or numbers of cells that"),
    "other_means": ("smoothed", {"means": np.ones((6, 6))}, r"means or values that cannot be"),
    "other_theta_of_smoothing": ("smoothed", {"theta": np.ones(35)}, r"the gradient at its theta is"),
    "no_gap_of_smoothing": ("smoothed_to_two_digits", {"gap": 0.0}, r"the gap is 0, where the gradient gives 0\.000"),
    "other_terms": ("smoothed", {"terms": np.full(8, "0")}, r"the variances are not those of the terms"),
    "other_runs": ("hidden", {"run0.residual": 1.0, "run1.residual": 1.0}, r"the gradient of run \d is"),
    "many_runs": ("hidden", {"n_runs": 10**12}, r"n_runs is 1000000000000, in a file of \d+ arrays"),
    "other_kl_of_hidden": ("hidden", {"kl": 5.0}, r"KL\(P, Q\) is not that of the fit"),
    "other_statistic": ("inference", {"g2": 5.0}, r"g2 is 5\.0, but the counts give"),
    "broken_counts": ("inference", {"counts.n": np.full(8, 0.5)}, r"counts are whole numbers with the sum 2276"),
    "other_means_of_counts": ("inference", {"counts.mu": np.full(8, 284.5)}, r"means of the counts are not those of"),
    "means_without_sum": ("inference", {"counts.mu": np.ones(8)}, r"means of the counts sum to 8"),
    "other_rung": ("ladder", {"rung1.kl": 0.1}, r"rung 1 does not explain the difference"),
    "other_ground": ("ladder", {"ground": "sky"}, r"the ground is sky"),
    "other_p_value": ("likelihood_ratio", {"p_value": 0.5}, r"p_value 0\.5 is not that of"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_what_a_file_says_is_compared_with_what_follows_from_it(name: str, tmp_path: Path) -> None:
    kind, changes, message = FORGED[name]
    made(kind).save(tmp_path / "result.npz")
    with pytest.raises(ld.errors.InvalidFile, match=r"cannot read .*result\.npz: a saved .*" + message):
        ld.load(rewritten(tmp_path / "result.npz", **changes))


def test_a_gap_is_refused_below_what_a_step_gains(tmp_path: Path) -> None:
    """The file may claim any bound that is true, and none that is a small part of the true excess."""
    fit = made("decomposition_to_three_digits")
    best = ld.decompose(np.random.default_rng(0).gamma(1.0, size=(5, 6, 4)), ld.interactions(2), tol=1e-13)
    excess = ld.dual.kl(best.tensor(), fit.tensor())
    assert 0 < excess < fit.gap
    fit.save(tmp_path / "result.npz")
    for claimed in (excess * (1 + 1e-6), 2 * excess, math.inf):
        assert ld.load(rewritten(tmp_path / "result.npz", gap=claimed)).newton_gap == claimed
    with pytest.raises(ld.errors.InvalidFile, match="KL lies above its minimum by"):
        ld.load(rewritten(tmp_path / "result.npz", gap=0.3 * excess))


def test_a_number_that_nothing_else_depends_on_is_in_the_checksum(tmp_path: Path) -> None:
    path = tmp_path / "result.npz"
    made("decomposition").save(path)
    with np.load(path) as archive:
        arrays: dict[str, Any] = {**archive, "rmse": 0.25}
    np.savez(path, **arrays)
    with pytest.raises(ld.errors.InvalidFile, match=r"damaged one \(its content is not what was written: the checksum"):
        ld.load(path)
    assert ld.load(rewritten(path)).rmse == 0.25


def test_a_fit_too_large_to_evaluate_is_checked_for_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.npz"
    for name in ("decomposition", "decomposition_of_a_list", "decomposition_of_order_100"):
        made(name).save(path)
        with monkeypatch.context() as patch:
            patch.setattr(limits, "LARGEST_CHECK", 0)
            patch.setattr(limits, "FEW_PAIRS", 0)
            assert_same(ld.load(path), made(name))
            k = made(name).n_params
            with pytest.raises(ld.errors.InvalidFile, match="the status is CONVERGED, but max"):
                ld.load(rewritten(path, eta=np.full(k, 0.5)))


@pytest.mark.parametrize("name", [name for name in RESULTS if name != "decomposition_of_order_100"])
def test_every_array_is_checked(name: str, tmp_path: Path) -> None:
    """Leave each array out, give it another type, give it another shape: always one sentence."""
    path = tmp_path / "result.npz"
    made(name).save(path)
    with np.load(path) as archive:
        arrays = dict(archive)
    for key, array in arrays.items():
        changed: list[Any] = [None, np.array(1.5 + 0j), np.stack([array, array])]
        for value in changed:
            others = {k: v for k, v in arrays.items() if k != key}
            np.savez(path, **(others if value is None else others | {key: value}))
            with pytest.raises(ld.errors.InvalidFile, match=r"cannot read .*result\.npz: .*\.$"):
                ld.load(path)


WRONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "theta_longer": ("decomposition", {"theta": np.ones(7)}, r"decomposition, .* theta has shape \(7,\), where \(6\)"),
    "part_missing": ("completion", {"fit.theta": None}, r"completion, but a damaged one \('fit.theta' is missing"),
    "part_of_another_kind": ("completion", {"fit.format": "legendre-ladder"}, r"fit.format is legendre-ladder, where"),
    "best_outside": ("cross_validation", {"best": 7}, r"a saved cross validation, .* the best of 2 bases has number 7"),
    "run_outside": ("hidden", {"best": 2}, r"run 2 of 2"),
    "all_visible": ("hidden", {"n_visible": 4}, r"4 visible modes of 4"),
    "no_rungs": ("ladder", {"n_rungs": 0}, r"a ladder without rungs"),
    "status": ("smoothed", {"status": "FINE"}, r"a saved smoothed, but a damaged one \('FINE' is no status\)"),
    "empty_shape": ("smoothed", {"shape": np.empty(0, dtype=np.int64)}, r"shape is \(\)"),
    "text_for_an_integer": ("inference", {"df": "many"}, r"'df' is no integer but 'many'"),
    "counts_of_other_cells": ("inference", {"counts.n": np.ones(3)}, r"3 counts for 8 cells"),
    "points_outside": (
        "decomposition_of_a_list", {"points": np.full((6, 3), 11)}, r"points of the support lie outside the grid"
    ),
    "repeated_basis": ("decomposition", {"basis": np.ones((6, 3), dtype=np.int64)}, r"cells of the basis are repeated"),
    "total": ("decomposition", {"total": -1.0}, r"total is -1"),
    "short_mask": ("completion", {"observed": np.zeros(1, dtype=np.uint8)}, r"its observed has 1 bytes for 16 cells"),
    "no_factors": (
        "balanced",
        {"names": np.array(["X"]), "log_factors.0-1": None, "log_factors.2": None},
        r"'log_factors' is missing",
    ),
    "newer": ("ladder", {"version": 3}, r"its format version is 3, this library reads up to 2\. Update legendre\."),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str, tmp_path: Path) -> None:
    kind, changes, message = WRONG[name]
    path = tmp_path / "result.npz"
    made(kind).save(path)
    with np.load(path) as archive:
        arrays = dict(archive) | changes
    np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(ld.errors.InvalidFile, match=message):
        ld.load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.npz"
    made("ladder").save(path)
    before = path.read_bytes()

    def fail(stream: Any, **arrays: Any) -> None:  # noqa: ARG001 - the signature of savez_compressed
        stream.write(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", fail)
    for name in ("balanced", "completion", "smoothed", "hidden", "inference", "likelihood_ratio"):
        with pytest.raises(ld.errors.InvalidFile, match="No space left on device"):
            made(name).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["result.npz"]


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ld.errors.InvalidFile, match="load takes the name of a file, got 5"):
        ld.load(5)  # type: ignore[arg-type]
