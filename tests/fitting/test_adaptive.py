"""Bases chosen by the data."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.basis.adaptive import Adaptive
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import observe
from legendre.fitting.growing.grow import Search, losses
from legendre.fitting.growing.select import _split_cells, _split_events, held_out_path
from legendre.fitting.growing.state import DataGrid, State


def blocks(rng: np.random.Generator, shape: tuple[int, ...], cells: Sequence[tuple[int, ...]]) -> FloatArray:
    """Build a tensor of the model with large parameters at the given cells."""
    theta = np.zeros(shape)
    for cell in cells:
        theta[cell] = rng.choice([-1.0, 1.0]) * rng.uniform(0.8, 1.5)
    q: FloatArray = ld.dual.from_theta(theta)
    return q


def test_the_first_choice_is_the_best_single_parameter_and_few_generating_cells_are_found(
    rng: np.random.Generator,
) -> None:
    X = rng.gamma(1.0, size=(4, 5, 3))
    singles = [ld.decompose(X, [cell]).kl for cell in np.argwhere(np.ones(X.shape))[1:]]
    assert ld.decompose(X, ld.adaptive(1)).kl == pytest.approx(min(singles), rel=1e-9)
    cells = [(2, 0, 0), (0, 3, 1), (3, 2, 2)]
    fit = ld.decompose(blocks(rng, (5, 6, 4), cells), ld.adaptive(3))
    assert sorted(map(tuple, fit.basis.tolist())) == sorted(cells)


def test_kl_never_rises_and_the_path_is_nested(rng: np.random.Generator) -> None:
    X = rng.lognormal(sigma=1.5, size=(8, 7, 6))
    fit = ld.decompose(X, ld.adaptive(60, include="B1"))
    assert fit.n_params == 60
    kls = [step.kl for step in fit.path]
    assert all(after <= before + 1e-12 for before, after in pairwise(kls))
    assert fit.path[-1].n_params == 60
    assert fit.path[-1].kl == fit.kl
    assert_array_equal(fit.basis[:18], ld.decompose(X, "B1").basis)


def test_swapping_pays_and_keeps_the_start(rng: np.random.Generator) -> None:
    X = rng.lognormal(sigma=1.5, size=(9, 8, 7))
    forward, swapped = (ld.decompose(X, ld.adaptive(60, include="B1", swaps=n)) for n in (0, 3))
    assert swapped.n_params == forward.n_params == 60
    assert swapped.kl < forward.kl
    assert_array_equal(swapped.basis[:21], ld.decompose(X, "B1").basis)
    assert_array_equal(np.sort(swapped.order()[:21]), np.arange(21))
    assert [step.n_params for step in swapped.path] == sorted(step.n_params for step in swapped.path)
    for step in swapped.path:
        assert swapped.at(step.n_params).kl <= 1.05 * step.kl


def test_growing_past_the_size_and_cutting_back_is_never_worse(rng: np.random.Generator) -> None:
    X = rng.lognormal(sigma=1.5, size=(9, 8, 7)).cumsum(axis=0).cumsum(axis=1)
    for n in (1, 2, 3, 30):
        forward, cut = (ld.decompose(X, ld.adaptive(n, include=[[2, 1, 0]], **how)) for how in ({"swaps": 0}, {}))
        assert cut.n_params == cut.path[-1].n_params == n
        assert cut.basis[0].tolist() == [2, 1, 0]
        assert cut.kl <= forward.kl + 1e-12
        assert [step.n_params for step in cut.path] == sorted({step.n_params for step in cut.path})
    assert cut.kl < 0.95 * forward.kl


def losses_of(X: object, cells: object, theta: FloatArray, support: object = "all") -> FloatArray:
    """Estimate the losses of a growing basis at a given theta."""
    grid = DataGrid.of(observe(X, support))  # type: ignore[arg-type]
    state = State.of(grid, grid.box_features(np.asarray(cells)), theta).with_factor()
    return losses(state, state.factored.factor.inverse())


def test_the_loss_of_a_parameter_is_that_of_a_refit(rng: np.random.Generator) -> None:
    """Leave each cell out and fit again: the estimate is right for a small theta, and not far off for a large one."""
    cells = np.array([[1, 0], [0, 2], [2, 1], [3, 3]])
    p = ld.decompose(rng.gamma(5.0, size=(4, 4)), cells)
    X = p.tensor() * (1 + 1e-4 * rng.normal(size=(4, 4)))
    larger = np.concatenate([cells, [[2, 2]]])
    null, without = ld.decompose(X, larger), ld.decompose(X, cells)
    assert losses_of(X, larger, null.theta)[4] == pytest.approx(without.kl - null.kl, rel=1e-2)


@pytest.mark.parametrize("strength", [-9.0, 4.0])
def test_the_loss_of_a_large_parameter_is_large(strength: float) -> None:
    """Wald's form alone tends to 0: at theta = -9 it is a thousand times too small."""
    theta = np.zeros((6, 6))
    theta[3, 2], theta[1, 4] = strength, 0.5
    X, cells = ld.dual.from_theta(theta), np.array([[3, 2], [1, 4]])
    fit = ld.decompose(X, cells)
    exact = ld.decompose(X, cells[1:]).kl - fit.kl
    assert 0.5 * exact < losses_of(X, cells, fit.theta)[0] < 2.0 * exact


def test_a_dependent_parameter_is_not_missed() -> None:
    mask = np.array([[True, True], [False, True]])
    X, cells = [[1.0, 2.0], [0.0, 3.0]], np.array([[0, 1], [1, 0], [1, 1]])
    fit = ld.decompose(X, cells, support=mask)
    assert fit.rank == 2
    assert sorted(losses_of(X, cells, fit.theta, mask) > 1e-9) == [False, False, True]


def test_bic_leaves_noise_alone_and_finds_a_strong_effect() -> None:
    rng = np.random.default_rng(7)
    noise = [
        ld.decompose(rng.multinomial(5000, np.full(125, 1 / 125)).reshape(5, 5, 5), ld.adaptive("bic")).n_params
        for _ in range(20)
    ]
    assert sum(noise) <= 1
    p = blocks(rng, (5, 5, 5), [(2, 3, 0), (0, 1, 4)])
    fit = ld.decompose(rng.multinomial(20000, p.ravel()).reshape(5, 5, 5), ld.adaptive("bic"))
    assert {(2, 3, 0), (0, 1, 4)} <= set(map(tuple, fit.basis.tolist()))
    assert fit.n_params <= 4


def price_of(criterion: str, X: FloatArray, start: IntArray) -> float:
    """Compute what a parameter must gain in KL: half its penalty for each count."""
    eta_hat = np.asarray(ld.dual.to_eta(X))
    uncertain = (eta_hat > 0) & (eta_hat < 1)
    uncertain[tuple(start.T)] = False
    penalty = 2.0 if criterion == "aic" else np.log(X.sum()) + 2 * np.log(uncertain.sum())
    return float(penalty / (2 * X.sum()))


@pytest.mark.parametrize("criterion", ["bic", "aic"])
@pytest.mark.parametrize("start", ["empty", "B1"])
@pytest.mark.parametrize("seed", range(4))
def test_every_cell_that_a_criterion_keeps_pays(criterion: Literal["bic", "aic"], start: str, seed: int) -> None:
    """Leave each out and fit the others again: KL rises by at least the price."""
    rng = np.random.default_rng(seed)
    theta = np.where(rng.random((6, 5, 3)) < 0.06, rng.normal(size=(6, 5, 3)), 0.0)
    X = rng.poisson([300, 3000, 30000][seed % 3] * np.asarray(ld.dual.from_theta(theta))).astype(float)
    fit, first = ld.decompose(X, ld.adaptive(criterion, include=start)), ld.decompose(X, start).basis
    assert_array_equal(fit.basis[: len(first)], first)
    price = price_of(criterion, X, first)
    for u in range(len(first), fit.n_params):
        assert ld.decompose(X, np.delete(fit.basis, u, axis=0)).kl - fit.kl >= price


def test_bic_recovers_the_model_that_counts_were_drawn_from() -> None:
    """Five cells of strength 1, 100,000 counts: nearly all are found, and next to nothing else (docs/choosing.md)."""
    exact = spurious = 0
    for draw in range(8):
        rng = np.random.default_rng(draw)
        cells = {tuple(int(i) for i in cell) for cell in rng.integers(1, 8, (5, 3))}
        theta = np.zeros((8, 8, 8))
        theta[tuple(np.array(sorted(cells)).T)] = rng.choice([-1.0, 1.0], len(cells))
        X = rng.multinomial(100_000, np.ravel(ld.dual.from_theta(theta))).reshape(theta.shape)
        found = {tuple(cell) for cell in ld.decompose(X, "adaptive('bic')").basis.tolist()}
        exact, spurious = exact + len(found & cells), spurious + len(found - cells)
    assert exact >= 4.5 * 8
    assert spurious <= 0.25 * 8


def test_cv_predicts_better_than_too_few_and_too_many() -> None:
    rng = np.random.default_rng(5)
    p = blocks(rng, (8, 8, 8), [(2, 3, 0), (0, 5, 4), (4, 0, 0), (6, 6, 6), (1, 0, 3)])
    counts = rng.multinomial(3000, p.ravel()).reshape(8, 8, 8)
    fit = ld.decompose(counts, ld.adaptive("cv"))
    few, many = ld.decompose(counts, ld.adaptive(1)), ld.decompose(counts, ld.adaptive(150))
    assert ld.dual.kl(p, fit.tensor()) < min(ld.dual.kl(p, few.tensor()), ld.dual.kl(p, many.tensor()))


def test_cv_scores_are_held_out_likelihoods() -> None:
    """The slow twin: deal the events out one by one, fit each path by hand."""
    rng = np.random.default_rng(6)
    counts = rng.multinomial(400, blocks(rng, (4, 5), [(2, 3), (1, 0)]).ravel()).reshape(4, 5)
    data = observe(counts.astype(float))
    folds = _split_events(data, 3)
    assert_array_equal(sum(folds), counts)
    search = Search.of(data, Adaptive("bic"))
    fit, loss = next(iter(held_out_path(search, folds[0])))
    assert fit.theta.size == 0
    assert loss == pytest.approx(folds[0].sum() * np.log(20))
    path = list(held_out_path(search, folds[0]))
    n = path[1][0].theta.size
    grown = ld.decompose(counts - folds[0], ld.adaptive(n, swaps=0))
    logs = np.log(grown.tensor() / grown.total)
    assert path[1][1] == pytest.approx(-float((folds[0] * logs).sum()), rel=1e-3)


@pytest.mark.parametrize("zeros", [False, True])
def test_cv_of_fractions_predicts_cells_that_were_held_out(zeros: bool) -> None:
    """The slow twin: normalise on the cells that are left, and predict the others from the definition."""
    rng = np.random.default_rng(2)
    X = np.ones((5, 6))
    X[2:, 3:] *= 4.0
    X *= np.exp(0.2 * rng.normal(size=X.shape))
    X[4, 5] *= not zeros
    X[0, 1] = np.nan
    data = observe(X)
    parts = _split_cells(data, 3)
    assert_array_equal(sum(part.astype(int) for part in parts), ~np.isnan(X))
    search = Search.of(data, Adaptive("cv", include="B1"))
    for fit, found in itertools.islice(held_out_path(search, parts[0]), 3):
        cells = fit.grid.corners(fit.features)[0]
        left = np.where(parts[0], np.nan, X)
        loss, total = 0.0, float(np.nansum(left))
        weight = {tuple(v): math.exp(fit.theta[(cells <= v).all(axis=1)].sum()) for v in np.argwhere(X == X)}
        for u in cells:  # where nothing lies above a cell of the basis, nothing is predicted
            if not np.nansum(left[u[0] :, u[1] :]):
                weight |= {v: 0.0 for v in weight if (u <= v).all()}
        mass = sum(weight[tuple(v)] for v in np.argwhere(left == left))
        for v in np.argwhere(parts[0]):
            predicted, seen = total * weight[tuple(v)] / mass, X[tuple(v)]
            loss += (predicted - seen) ** 2 if zeros else predicted - seen + seen * math.log(seen / predicted)
        loss *= data.total / np.nansum(X**2) if zeros else 1.0
        assert found == pytest.approx(loss, rel=1e-9)
        assert fit.kl == pytest.approx(ld.decompose(left, cells).kl, rel=1e-3)


def test_cv_of_fractions_finds_what_noise_hides(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    means = np.full((12, 10, 8), 0.5)
    means[4:, 3:] *= 4.0
    means[8:, :, 2:] *= 0.3
    means[:, 6:, 5:] *= 3.0
    X = means * np.exp(0.3 * rng.normal(size=means.shape))
    fit = ld.decompose(X, ld.adaptive("cv"))
    assert {(4, 3, 0), (8, 0, 2), (0, 6, 5)} <= {tuple(cell) for cell in fit.basis.tolist()}
    assert fit.n_params <= 5
    losses = [step.held_out for step in fit.path]
    assert losses[-1] == min(losses)  # every size on the way was tried
    assert all(step.spread > 0 for step in fit.path)
    assert losses[-1] > fit.kl  # what was not seen is predicted worse
    fit.save(tmp_path / "fit.npz")
    assert ld.load(tmp_path / "fit.npz").path == fit.path
    (ax,) = [ax for ax in fit.plot.path().axes if ax.get_ylabel() == "loss on what was held out"]
    assert_array_equal(ax.lines[0].get_ydata(), losses)


def test_cv_with_a_mask_a_start_and_missing_cells() -> None:
    rng = np.random.default_rng(8)
    X = rng.poisson(20.0, size=(6, 5)).astype(float)
    X[3:, 2:] += 60
    X[0, 4] = np.nan
    mask = np.ones(X.shape, dtype=bool)
    mask[5, 0] = False
    fit = ld.decompose(X, ld.adaptive("cv", include="B1", folds=4), support=mask)
    assert fit.n_params >= 8  # seven of the start; that of the block is the only other that the counts were made with
    assert [3, 2] in fit.basis.tolist()
    sparse = np.zeros((4, 4))
    sparse[0, 0], sparse[2, 3] = 1, 30  # some fold has no event in row 0, which its start then rules out
    assert ld.decompose(sparse, ld.adaptive("cv", include="B1")).status.converged


def test_empty_levels_are_seen() -> None:
    """A cell with no data above it empties all of that: the largest gain of all."""
    X = np.ones((6, 6))
    X[4:] = 0
    assert ld.decompose(X, ld.adaptive(1)).basis.tolist() == [[4, 0]]
    assert ld.decompose(X, ld.adaptive(5)).kl == pytest.approx(0, abs=1e-12)
    assert ld.decompose(np.diag([0, 0, 7]), ld.adaptive(3)).kl == pytest.approx(0, abs=1e-12)
    counts = np.zeros((5, 5), dtype=int)
    counts[:4] = 10  # from a sample nobody knows that the last level is empty for ever
    fit = ld.decompose(counts, ld.adaptive("aic"))
    assert (fit.tensor() > 0).all()


def test_a_grown_fit_can_be_pickled(rng: np.random.Generator) -> None:
    fit = ld.decompose(rng.gamma(1.0, size=(4, 5)), ld.adaptive(6))
    again = pickle.loads(pickle.dumps(fit))
    assert_array_equal(again.theta, fit.theta)
    assert_array_equal(again.at(3).theta, fit.at(3).theta)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ld.adaptive(0), r"adaptive: the number of parameters must be an integer >= 1, got 0"),
        (lambda: ld.adaptive(3, swaps=-1), r"adaptive: swaps must be an integer >= 0, got -1"),
        (lambda: ld.adaptive("cv", folds=1), r"adaptive: folds must be an integer >= 2, got 1"),
        (lambda: ld.adaptive(5, max_params=7), r"max_params is the limit of a criterion"),
        (lambda: ld.decompose([[0.5, 1.0]], ld.adaptive("bic")), r"needs counts.*adaptive\('cv'\) holds cells out"),
        (lambda: ld.decompose([[0.5, 1.0]], ld.adaptive("cv")), r"X is not 0 in 2 of 2 cells, too few for 5 folds"),
        (
            lambda: ld.decompose(np.pad([[0.5]], ((2, 3), (3, 2))), ld.adaptive("cv")),
            r"adaptive\('cv'\): X is not 0 in 1 of 36 cells, too few for 5 folds",
        ),
        (
            lambda: ld.decompose([[1, 0], [0, 1]], ld.adaptive("cv")),
            r"X sums to 2; 5 folds take from 25 to 2",
        ),
        (lambda: ld.decompose([[1, 2]], ld.adaptive(1), start=[0.0]), r"start has no meaning while a basis grows"),
        (
            lambda: ld.decompose(np.ones((30, 30, 30)), ld.adaptive(10**9)),
            r"26,999 cells would .* up to 5,000",
        ),
        (lambda: ld.decompose([[1, 2]], ld.adaptive(1)).at(1.0), r"at\(1\.0\): the path has 0 to 1"),  # type: ignore[arg-type]
        (lambda: ld.adaptive("bica"), r"unknown criterion 'bica'; did you mean 'bic'\?"),  # type: ignore[arg-type]
        (lambda: ld.decompose(np.ones((3, 3)), ld.adaptive(2) | ld.B1()), r"adaptive\(\.\.\.\) stands alone"),
        (lambda: ld.plan(np.ones((3, 3)), "boxes(5)"), r"^plan: boxes\(5\) is chosen by the data, .* fit\.basis\)\.$"),
        (
            lambda: ld.decompose(np.ones((3, 3)), ld.adaptive(2, include="B1")),
            r"to include already has 4 parameters",
        ),
        (lambda: ld.decompose([[1.0, 2.0]], "B1").at(1), r"was not grown"),
    ],
)
def test_bad_requests(make: object, message: str) -> None:
    with pytest.raises(ld.LegendreError, match=message):
        make()  # type: ignore[operator]


def test_a_basis_that_grew_to_a_boundary_is_fitted_to_its_end() -> None:
    """Its parameters cancel each other there, and those that are kept, without the others, are no start."""
    X = np.array([[33, 0, 167, 3, 0, 14], [0, 984, 10, 1, 4, 0], [0, 0, 0, 0, 4, 0]])
    fit = ld.decompose(X, ld.adaptive("aic"))
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.kl == pytest.approx(ld.decompose(X, fit.basis).kl, abs=1e-12)


def test_growing_stops_when_no_candidate_is_left_or_adds_anything() -> None:
    """Of a single step along a fine grid one cell explains everything."""
    X = np.arange(1.0, 7.0).reshape(2, 3)
    assert_allclose(ld.decompose(X, ld.adaptive(10**9)).tensor(), X, rtol=1e-9)
    assert ld.decompose(np.repeat([1.0, 3.0], 200), "adaptive(5)").basis.tolist() == [[200]]
