"""`decompose` without a basis: which one it takes, why, and that it says so."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import legendre as ld
from legendre.core import limits
from legendre.core.types import AnyArray


def smooth_tensor() -> AnyArray:
    """Make a tensor without counts in which a few cells explain nearly everything."""
    X = np.full((12, 10, 8), 0.5)
    X[4:, 3:, :] *= 4.0
    X[:, 6:, 5:] *= 3.0
    return X * np.exp(0.01 * np.random.default_rng(0).normal(size=X.shape))


def waves() -> AnyArray:
    """Make a matrix without noise, of which every further parameter predicts more."""
    return np.outer(np.exp(np.sin(np.linspace(0, 6, 20))), np.exp(np.cos(np.linspace(0, 5, 20))))


def test_counts_are_grown_while_the_criterion_falls() -> None:
    X = ld.datasets.titanic()
    fit = ld.decompose(X)
    assert fit.recipe == "adaptive('bic', max_params=256)"
    same = ld.decompose(X, ld.adaptive("bic", max_params=256))
    np.testing.assert_array_equal(fit.theta, same.theta)
    np.testing.assert_array_equal(fit.theta, ld.decompose(X, ld.adaptive("bic")).theta)
    grown = "X holds counts: parameters were added as long as each lowered the extended BIC"
    said = f"{grown}; that stopped at {fit.n_params} parameters."
    assert fit.reason == said
    assert f"why this basis      {said}" in fit.summary()
    assert same.reason is None
    assert "why this basis" not in same.summary()


def test_the_size_for_other_tensors_is_the_fewest_within_an_error_of_the_best_held_out_loss() -> None:
    X = waves() * np.random.default_rng(0).gamma(5.0, size=(20, 20))
    fit, whole = ld.decompose(X), ld.decompose(X, ld.adaptive("cv", max_params=100))
    best = min(whole.path, key=lambda step: step.held_out)
    assert best.n_params == whole.n_params
    least = next(step for step in whole.path if step.held_out <= best.held_out + best.spread)
    n = least.n_params
    assert 0 < n < best.n_params
    assert (fit.n_params, fit.recipe) == (n, f"adaptive({n})")
    np.testing.assert_array_equal(fit.theta, ld.decompose(X, fit.recipe).theta)
    assert (fit.path[-1].held_out, fit.path[-1].spread) == pytest.approx((least.held_out, least.spread), rel=1e-14)
    assert fit.reason == (
        f"cells were held out, in 5 parts, and predicted by fits to the others: best with {best.n_params} parameters "
        f"(I-divergence {best.held_out:.4g}, standard error {best.spread:.2g}; {whole.path[0].held_out:.4g} without "
        f"parameters); {n} are the fewest within one standard error of that ({least.held_out:.4g})."
    )


def test_a_held_out_loss_that_goes_on_falling_is_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FIRST_SIZE", 20)
    fit = ld.decompose(waves()[:19])
    assert fit.n_params == 20
    assert str(fit.reason).endswith(". The loss was still falling at 20; for more: adaptive('cv', max_params=40).")


def test_whole_numbers_on_which_the_criterion_finds_no_end_are_cut_by_held_out_cells() -> None:
    X = np.rint(1e9 * smooth_tensor())
    fit, same = ld.decompose(X), ld.decompose(X / 1e9)
    assert (fit.n_params, fit.recipe) == (same.n_params, same.recipe)
    lead = "the extended BIC led to 256 parameters, so cells were held out, in 5 parts, and"
    assert str(fit.reason).startswith(lead)
    np.testing.assert_allclose(fit.path[0].held_out, same.path[0].held_out, rtol=1e-6)
    assert fit.path[-1].held_out <= fit.path[0].held_out


@pytest.mark.parametrize(("seed", "size", "rank"), [(83, 9, 2), (91, 9, 2), (56, 12, 3)])
def test_the_basis_that_is_kept_fits_no_worse_than_smaller_ones(seed: int, size: int, rank: int) -> None:
    """Cells left out one by one led to 7 parameters and a KL of 0.3362, where 6 on the way had 0.303."""
    rng = np.random.default_rng(seed)
    fit = ld.decompose(rng.gamma(0.5, size=(size, rank)) @ rng.gamma(0.5, size=(rank, size)))
    assert all(later.kl < step.kl for step, later in itertools.pairwise(fit.path))
    assert (fit.path[-1].n_params, fit.path[-1].kl) == (fit.n_params, fit.kl)


@pytest.mark.parametrize("border", [((0, 5), (0, 5)), ((5, 0), (5, 0))], ids=["right, bottom", "left, top"])
def test_a_black_border_is_found_on_every_side(border: tuple[tuple[int, int], ...]) -> None:
    """Zeros at the upper end of a mode took parameters by halves: cells with nothing above them were no candidates."""
    rng = np.random.default_rng(0)
    row = np.pad(rng.random((1, 90)), ((0, 89), (0, 0)))
    for X in (np.pad(rng.gamma(5.0, size=(20, 20)), border), np.pad([[0.5]], border), row):
        fit = ld.decompose(X)
        assert fit.n_params <= 3
        assert fit.tensor()[X == 0].max() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_noise_takes_no_parameter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noise = rng.random((12, 12, 12))
    for X in (noise, np.where(rng.random(noise.shape) < 0.3, 0.0, noise), rng.poisson(5.0, (4, 4))):
        assert ld.decompose(X).n_params == 0
    assert ld.decompose(X).reason == (
        "X holds counts: no parameter lowers the extended BIC: cells differ no more than by chance."
    )


def test_of_a_large_tensor_boxes_of_cells_are_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Indian Pines (145 x 145 x 200) was cut to 7 parameters: no cells were held out of what grew on boxes."""
    monkeypatch.setattr(limits, "COARSE_BOXES", 400)
    fit = ld.decompose(smooth_tensor())
    assert fit.n_params >= 2
    assert fit.kl < 0.3 * fit.path[0].kl
    assert "boxes of cells were held out, in 5 parts, and predicted by fits to the others" in str(fit.reason)
    few = ld.SparseTensor(np.array([[1, 2], [300, 20], [7, 7]]), np.array([1.5, 2.0, 3.0]), (1000, 1000))
    assert str(ld.decompose(few).reason).endswith("X has too few cells that are not 0 to hold some out.")


def test_where_nothing_can_be_held_out_the_largest_size_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    few = ld.decompose([[0.1, 0.2], [0.3, 0.4]])
    assert few.reason == (
        "grown to 1 parameter, the most for a first look at an X of this size. For more: adaptive(2). X has too few "
        "cells that are not 0 to hold some out."
    )
    monkeypatch.setattr(limits, "FIRST_HELD_OUT", 0)
    fit = ld.decompose(np.random.default_rng(0).random((6, 6, 6)))
    assert (fit.recipe, fit.n_params) == ("adaptive(54)", 54)
    assert "No cells were held out" in str(fit.reason)


@pytest.mark.parametrize("X", [np.full((4, 5), 0.1), np.where(np.eye(6) > 0, np.nan, 2.5)], ids=["all", "with gaps"])
def test_a_constant_tensor_takes_no_parameter_and_no_warning(X: AnyArray) -> None:
    fit = ld.decompose(X)
    assert (fit.n_params, fit.status) == (0, ld.results.Status.CONVERGED)


def test_high_orders_take_interactions() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, 100))
    fit = ld.decompose(ld.from_rows(rows, levels=2))
    assert (fit.recipe, fit.n_params) == ("interactions(1)", 100)
    assert fit.reason == (
        "X is too large to grow a basis on within a minute (1.3e30 cells, 100 modes): this one keeps the sum over each "
        "level as it is."
    )


def test_grids_that_are_too_large_take_pairs_where_these_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).random((6, 5, 4))
    monkeypatch.setattr(limits, "FIRST_WORK", 1000)
    fit = ld.decompose(X)
    assert (fit.recipe, "sum over each pair of levels as it is" in str(fit.reason)) == ("interactions(2)", True)
    monkeypatch.setattr(limits, "FIRST_PAIRS", 58)
    assert ld.decompose(X).recipe == "interactions(1)"
    monkeypatch.setattr(limits, "FIRST_PAIRS", 59)
    assert ld.decompose(X).recipe == "interactions(2)"
    monkeypatch.setattr(limits, "FIRST_PAIR_CELLS", 119)
    assert ld.decompose(X).recipe == "interactions(1)"


def test_the_reason_is_in_the_file(tmp_path: Path) -> None:
    fit = ld.decompose(smooth_tensor())
    fit.save(tmp_path / "fit.npz")
    again = ld.load(tmp_path / "fit.npz")
    assert (again.reason, again.summary()) == (fit.reason, fit.summary())
    named = ld.decompose([[1, 2], [3, 4]], "B1")
    named.save(tmp_path / "named.npz")
    assert ld.load(tmp_path / "named.npz").reason is None


def test_flights_grow_to_the_limit_and_nearly_empty_cells_do_not_decide_their_effects() -> None:
    """When the limit was reached and a cell given back, the reason was that the criterion had ended growing.

    And effects weighed every cell alike: carrier HA (342 flights) had a factor of 2.6, AA (32,729) one of 0.47.
    """
    X = ld.datasets.flights()
    fit = ld.decompose(X)
    effects = fit.effects(max_order=1)
    factors = effects.to_frame().set_index("carrier")["factor"]
    assert factors["AA"] > 2 * factors["HA"]
    assert "are in another order under the uniform measure" in repr(effects)
    assert 230 < fit.n_params <= 256
    assert fit.reason == (
        "X holds counts: parameters were added as long as each lowered the extended BIC, up to "
        f"{fit.n_params} parameters; a first look takes at most 256. For more: adaptive('bic', max_params=512)."
    )
