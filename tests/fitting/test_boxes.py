"""Boxes that grow: their kernels against loops, what they find, zeros, supports, names, files."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core.labels import Labels
from legendre.core.sums.kernels import growing as kernels
from legendre.core.tied_parameters import box_terms
from legendre.core.types import IntArray
from legendre.data.dense import observe
from legendre.data.observation import Support
from legendre.engines.choose import choose_engine
from legendre.engines.tied import TiedEngine
from legendre.fitting.growing.candidates import pick
from legendre.fitting.growing.state import DataGrid, Features, Moments, inverse_deviation
from legendre.model.model import Model
from oracles import FloatArray
from strategies import seeds, shapes


def random_boxes(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> tuple[IntArray, IntArray]:
    ends = np.sort([[rng.choice(n + 1, 2, replace=False) for n in shape] for _ in range(count)], axis=2)
    return ends[:, :, 0], ends[:, :, 1]


def indicators(lo: IntArray, hi: IntArray, shape: tuple[int, ...]) -> FloatArray:
    """Tabulate each box on the grid, count x cells."""
    grid = np.indices(shape).reshape(len(shape), -1)
    inside = (grid[None] >= lo[:, :, None]) & (grid[None] < hi[:, :, None])
    return inside.all(axis=1).astype(float)


@pytest.mark.parametrize("masked", [False, True])
def test_the_fisher_matrix_of_boxes_is_that_of_the_definition(*, masked: bool) -> None:
    """On so large a grid it is not computed from a table of features, but from sums over intersections of boxes."""
    shape, rng = (40, 42, 44), np.random.default_rng(0)
    lo, hi = random_boxes(rng, shape, 90)
    lo[0], hi[1] = 0, shape  # from the first cell, and to the last
    terms = box_terms(lo, hi, Labels(shape))
    support = Support(shape, rng.random(shape) < 0.8) if masked else Support(shape)
    engine = choose_engine(Model.of(support, None, terms.cells, terms.ties))
    theta, features = rng.normal(size=90), indicators(lo, hi, shape)
    weights = np.exp(theta @ features) * support.on_grid().ravel()
    q = weights / weights.sum()
    expected = (features * q) @ features.T - np.outer(features @ q, features @ q)
    assert isinstance(engine, TiedEngine)
    assert engine._design is None
    assert_allclose(engine.fisher(engine.at(theta)), expected, atol=1e-14)


@pytest.mark.uncompiled
@settings(max_examples=20)
@given(shapes(max_cells=40, max_order=4), seeds)
def test_sums_and_correlations_are_those_of_the_definition(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2, shape)
    grid, p = DataGrid.of(observe(x), boxes=True), x.ravel() / x.sum()
    some, others = random_boxes(rng, shape, 5), random_boxes(rng, shape, 4)
    one, two = indicators(*some, shape), indicators(*others, shape)
    boxes, other = (Moments.of(grid, grid.eta_hat, grid.box_features(*ends)) for ends in (some, others))
    assert_allclose(boxes.mean, one @ p, atol=1e-13)
    assert_array_equal(np.hstack(grid.corners(boxes.features)), np.hstack(some))
    vector, inside = rng.normal(size=5), tuple(slice(n) for n in shape)
    spread = grid.spread(boxes.features, vector).reshape(grid.shape)[inside]
    assert_allclose(spread.ravel(), vector @ one, atol=1e-12)
    scale, other_scale = inverse_deviation(one @ p), inverse_deviation(two @ p)
    expected = ((one * p) @ two.T - np.outer(one @ p, two @ p)) * np.outer(scale, other_scale)
    assert_allclose(boxes.correlations(other), expected, atol=1e-9)
    terms = box_terms(*some, observe(x).labels)
    zeta = (terms.cells[None] <= np.indices(shape).reshape(len(shape), -1).T[:, None]).all(axis=2)
    different = np.unique(one - one[:, :1], axis=0)  # a feature counts from the first cell, and the same are one
    assert_array_equal(np.unique((zeta @ terms.as_ties().matrix()).T, axis=0), different)


@pytest.mark.uncompiled
@pytest.mark.parametrize("shape", [(7,), (4, 5), (3, 4, 3), (2, 3, 2, 3)])
def test_ascent_finds_larger_gains(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 2, shape)
    p, q = x.ravel() / x.sum(), rng.dirichlet(np.ones(x.size))
    grid, other = DataGrid.of(observe(x), boxes=True), DataGrid.of(observe(q.reshape(shape)), boxes=True)

    def gain(lo: IntArray, hi: IntArray) -> FloatArray:
        inside = indicators(lo, hi, shape)
        data, model = inside @ p, inside @ q
        return np.where(model * (1 - model) > 1e-13, (data - model) ** 2 / np.maximum(model * (1 - model), 1e-13), 0.0)

    some = random_boxes(rng, shape, 6)
    for longest in (99, 1):
        boxes = grid.box_features(*some)
        assert boxes.high is not None
        low, high = boxes.low.copy(), boxes.high.copy()
        kernels.ascend(1, 6, grid.eta_hat, other.eta_hat, grid.strides, grid.ends, low, high, 3, 1e-13, longest)
        lo, hi = grid.corners(Features(low, high))
        assert (gain(lo, hi) >= gain(*some) - 1e-12).all()
        assert (lo < hi).all()
        if len(shape) == 1:  # of both ends together the best interval is found, of one at a time the best for the other
            every = np.array([(a, b) for a in range(shape[0]) for b in range(a + 1, shape[0] + 1)])
            best = gain(every[:, :1], every[:, 1:])
            ends = [(every[:, 0] == a) & (longest == 1) | (longest == 99) for a in lo[:, 0]]
            assert_allclose(gain(lo, hi), [best[among].max() for among in ends], rtol=1e-9)


def test_features_are_chosen_given_those_before_them() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 9))
    left, gap = root @ root.T, rng.normal(size=5)
    chosen, gains, rows = pick(left, gap, 5, 0.0, 1e-3)
    order = list(chosen)
    for c in range(1, 6):  # all gains together are that of a joint step
        part = left[np.ix_(order[:c], order[:c])]
        assert gains[:c].sum() == pytest.approx(0.5 * gap[order[:c]] @ np.linalg.solve(part, gap[order[:c]]))
    assert_allclose(rows[:, order].T, np.linalg.cholesky(left[np.ix_(order, order)]), atol=1e-10)


def test_planted_boxes_are_found_and_read_as_sentences() -> None:
    x = np.full((6, 24), 10.0)
    x[1:4, 6:10] *= 3.2
    x[:, 15:] *= 0.5
    carriers = ["AA", "B6", "DL", "EV", "UA", "WN"]
    fit = ld.decompose(x, ld.boxes(2), names=["carrier", "hour"], levels={"carrier": carriers}, unordered=[])
    found = dict(zip(fit.parameters().names, fit.parameters().factor.round(6), strict=True))
    assert found["carrier B6 to EV, hour 6 to 9"] == 3.2
    assert found.keys() - {"carrier B6 to EV, hour 6 to 9"} <= {"hour 15 to 23", "hour 0 to 14"}
    assert fit.kl < 1e-12
    assert fit.status is ld.results.Status.CONVERGED
    assert fit.path[0].n_params == 0
    assert fit.at(1).n_params == 1
    assert fit.recipe == "boxes(2)"
    assert "boxes(2)" in fit.summary()


def test_more_boxes_fit_better_and_the_end_is_certified() -> None:
    i, j, k = np.indices((12, 10, 8))
    x = 5 + 20 * np.exp(-((i - 4) ** 2 + (j - 5) ** 2) / 9) + 10 * np.exp(-((j - 2) ** 2 + (k - 6) ** 2) / 4)
    fit = ld.decompose(x, ld.boxes(60))
    assert fit.status is ld.results.Status.CONVERGED
    assert fit.residual <= 1e-10
    assert (fit.n_params, fit.rank) == (60, 60)
    assert all(later.kl < earlier.kl for earlier, later in zip(fit.path[:-1], fit.path[1:], strict=True))
    assert fit.kl < 0.75 * ld.decompose(x, ld.adaptive(60)).kl
    assert ld.decompose(np.ones((4, 4)), ld.boxes(5)).n_params == 0
    assert_array_equal(fit.theta, ld.decompose(x, ld.boxes(60)).theta)  # the same bits


def exact_rank(matrix: list[list[int]]) -> int:
    """Count independent rows of whole numbers, by fractions."""
    rows = [[Fraction(entry) for entry in row] for row in matrix]
    rank = 0
    for column in range(len(rows[0])):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            by = rows[i][column] / rows[rank][column]
            rows[i] = [a - by * b for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


@pytest.mark.filterwarnings("ignore::legendre.ConvergenceWarning")
@settings(max_examples=60)
@given(shapes(max_cells=16, max_order=3), seeds, st.sampled_from([0.5, 4.0, 8.0]), st.booleans())
@example((3, 2), 43, 8.0, False)
def test_no_box_is_a_sum_of_others(shape: tuple[int, ...], seed: int, decades: float, holes: bool) -> None:
    rng = np.random.default_rng(seed)
    x = 10.0 ** rng.uniform(-decades, decades, shape)
    if holes:
        x[rng.random(shape) < 0.2] = np.nan
        x.flat[rng.integers(x.size)] = 1.0
    fit, inside = ld.decompose(x, ld.boxes(16)), ~np.isnan(x).ravel()
    ends = np.zeros((0, 2 * len(shape)), dtype=np.int64) if fit.model.ties is None else fit.model.ties.boxes
    assert ends is not None
    lo, hi = np.hsplit(ends, 2)
    features = indicators(lo, hi, shape)[:, inside].astype(int).tolist()
    assert fit.converged
    assert len(ends) == fit.n_params == fit.rank
    assert exact_rank([[1] * int(inside.sum()), *features]) - 1 == fit.n_params


@pytest.mark.parametrize("seed", [20, 28, 40, 44, 79, 105, 125, 166, 192])
def test_growing_does_not_end_before_nothing_is_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, size=rng.integers(1, 4)).tolist())
    x = 10.0 ** rng.uniform(-8, 8, shape)
    fit = ld.decompose(x, ld.boxes(10))
    assert fit.kl < 1e-12


@settings(max_examples=25)
@given(shapes(max_cells=40, max_order=3), seeds)
def test_eta_in_the_table_is_the_probability_of_the_box(shape: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2.0, shape)
    fit = ld.decompose(x, ld.boxes(4))
    ends = np.zeros((0, 2 * len(shape)), dtype=np.int64) if fit.model.ties is None else fit.model.ties.boxes
    assert ends is not None
    lo, hi = np.hsplit(ends, 2)
    inside = indicators(lo, hi, shape)
    table = fit.parameters(kl_lost=None)
    assert_allclose(table.eta, inside @ np.asarray(fit.tensor()).ravel() / fit.total, atol=1e-12)
    assert_allclose(table.eta_hat, inside @ x.ravel() / x.sum(), atol=1e-12)
    if fit.n_params:  # the model's own is that of the ties: features count from the first cell
        assert_allclose(fit.eta, table.eta - inside[:, 0], atol=1e-12)


TWO = np.ones((3, 3)) + np.eye(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ld.boxes(0), "boxes: the number of parameters must be an integer >= 1"),
        (lambda: ld.boxes(1.5), "boxes: the number of parameters must be an integer >= 1"),  # type: ignore[arg-type]
        (lambda: ld.boxes("cv"), "unknown criterion 'cv'"),  # type: ignore[arg-type]
        (lambda: ld.decompose(TWO + 0.5, ld.boxes("bic")), r"boxes\('bic'\) needs counts"),
        (lambda: ld.decompose(TWO, ld.boxes(2) | ld.B1()), r"boxes\(\.\.\.\) stands alone: only decompose can grow it"),
        (lambda: ld.decompose(TWO, ld.boxes(2, include="B1")), "to include already has 4 parameters"),
        (lambda: ld.decompose(np.ones((2,) * 9), ld.boxes(1)), r"boxes\(1\) on 9 modes: boxes grow on up to 8"),
        (lambda: ld.decompose(TWO, "boxes(2)", start=[0.0, 0.0]), "start has no meaning"),
        (
            lambda: ld.decompose(ld.from_coords([[0, 0], [1, 5]], [1.0, 2.0], (10**5, 10**5)), ld.boxes(3)),
            r"adaptive\(n\) and bases that you name take it as it is\.$",
        ),
    ],
)
def test_what_boxes_refuse(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ld.LegendreError, match=message):
        make()


@pytest.mark.parametrize("labelled", [True, False])
def test_arranged_levels_are_listed_everywhere_and_never_a_range(labelled: bool, tmp_path: Path) -> None:
    """Between two levels of an arranged mode lie others than a reader thinks."""
    rng = np.random.default_rng(8)
    busy = np.zeros((30, 12))
    busy[np.ix_(range(0, 30, 3), range(3, 6))] = 1.4
    x = 20 * np.exp(busy) * rng.uniform(0.95, 1.05, busy.shape)
    zones = [f"z{i}" for i in range(30)] if labelled else list(range(30))
    levels = {"zone": zones} if labelled else None
    fit = ld.decompose(x, ld.boxes(1), names=["zone", "hour"], levels=levels, unordered=["zone"])
    (name,) = fit.parameters().names
    order = fit.arrangement["zone"]
    first = min(order.index(zones[i]) for i in range(0, 30, 3))
    said = f"{', '.join(str(level) for level in order[first : first + 3])} and 7 more"
    assert name == f"zone in {said}, hour 3 to 5"
    figure = fit.plot.boxes()
    assert [text.get_text() for text in figure.axes[0].texts] == [said]
    assert not len(figure.axes[0].get_xticks())
    fit.report(tmp_path / "page.html")
    assert name in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_picture_shows_levels_and_factors() -> None:
    x = np.ones((6, 8))
    x[2:4, 3:7] = 5
    x[5] = 0.5
    fit = ld.decompose(x, ld.boxes(2))
    figure = fit.plot.boxes()
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["× 5", "× 2"]
    patches: list[Any] = list(figure.axes[1].patches)
    bars = [bar for bar in patches if bar.get_height() > 0.5]
    assert [(bar.get_x(), bar.get_width()) for bar in bars] == [(2.5, 4), (-0.5, 8)]
    assert "1 largest factors of 2" in fit.plot.boxes(most=1).get_suptitle()
    with pytest.raises(ld.errors.InvalidQuery, match="no parameter of this fit acts on a box"):
        ld.decompose(x, ld.features({"f": lambda i, j: i * j**2 + 0.5 * i})).plot.boxes()
    with pytest.raises(ld.errors.InvalidSetting, match="most must be an integer >= 1"):
        fit.plot.boxes(most=0)


@pytest.mark.parametrize("criterion", ["bic", "aic"])
@pytest.mark.parametrize("start", ["empty", "interactions(1)"])
def test_every_box_that_a_criterion_keeps_pays(criterion: Any, start: str) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.poisson(5.0, (6, 7))
        x[1:4, 2:5] += rng.poisson(40.0, (3, 3))
        fit = ld.decompose(x, ld.boxes(criterion, include=start))
        n, own = x.sum(), 0 if start == "empty" else 11
        price = 2.0 if criterion == "aic" else np.log(n) + 2.0 * np.log(21 * 28)
        assert fit.n_params > own
        for i in range(own, fit.n_params):
            without = fit._fit_part(np.delete(np.arange(fit.n_params), i))
            assert 2.0 * n * (without.kl - fit.kl) > 0.999 * price
        assert [step.n_params for step in fit.path] == sorted(step.n_params for step in fit.path)
        assert fit.path[-1].kl == fit.kl


def test_bic_finds_the_boxes_that_are_there_and_none_in_noise() -> None:
    rng = np.random.default_rng(4)
    mean = np.full((8, 9), 6.0)
    mean[2:5, 1:6] *= 3.0
    fit = ld.decompose(rng.poisson(mean), ld.boxes("bic"))
    assert fit.parameters().names == ("mode 0 2 to 4, mode 1 1 to 5",)
    assert fit.recipe == "boxes('bic')"
    assert ld.decompose(rng.poisson(6.0, (8, 9)), "boxes('bic')").n_params == 0
