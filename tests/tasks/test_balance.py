"""Balancing against plain proportional fitting, linear programs, SciPy's minimiser and closed forms."""

from __future__ import annotations

from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linprog

import legendre as ld
from legendre.core import limits
from legendre.core.sums.quotient import sum_others
from oracles import FloatArray
from strategies import count_tables

Modes = tuple[int, ...]
Given = dict[Modes, FloatArray]


def ipf(X: FloatArray, margins: Given, cycles: int = 20_000) -> FloatArray:
    """Plain proportional fitting from the definition, until nothing moves any more."""
    q, wanted = X.ravel().astype(np.float64), np.concatenate([m.ravel() for m in margins.values()])
    counted = design(X.shape, margins) > 0
    for _ in range(cycles):
        before = q.copy()
        for inside, total in zip(counted, wanted, strict=True):
            if q[inside].any():
                q[inside] *= total / q[inside].sum()
        if np.abs(q - before).max() <= 1e-15 * q.max():
            break
    return q.reshape(X.shape)


def design(shape: tuple[int, ...], margins: Given) -> FloatArray:
    """Margins' entries x cells, from the definition."""
    entries = [(modes, index) for modes, wanted in margins.items() for index in np.ndindex(wanted.shape)]
    cells = list(np.ndindex(shape))
    return np.array([[float(tuple(cell[k] for k in modes) == index) for cell in cells] for modes, index in entries])


def largest_values(X: FloatArray, margins: Given) -> FloatArray | None:
    """Find each cell's largest value over all tensors with the margins, a program each; None if there are none."""
    A, b = design(X.shape, margins), np.concatenate([m.ravel() for m in margins.values()])
    bounds = [(0.0, None if x > 0 else 0.0) for x in X.ravel()]
    best = np.zeros(X.size)
    for i, cost in enumerate(-np.eye(X.size)):
        answer = linprog(cost, A_eq=A, b_eq=b, bounds=bounds, method="highs")
        if answer.status != 0 or answer.x is None:
            return None
        best[i] = answer.x[i]
    return best.reshape(X.shape)


@settings(max_examples=60)
@given(count_tables((3, 4)), st.lists(st.integers(0, 4), min_size=7, max_size=7), st.floats(0.5, 3.0), st.booleans())
def test_infeasible_margins_are_found_and_proven(X: FloatArray, entries: list[int], unit: float, whole: bool) -> None:
    rows, columns = np.array(entries[:3], dtype=float), np.array(entries[3:], dtype=float)
    if rows.sum() == 0 or columns.sum() == 0:
        return
    columns *= rows.sum() / columns.sum()
    scale = 1.0 if whole else unit * np.pi
    margins: Given = {(0,): rows * scale, (1,): columns * scale}
    if largest_values(X, margins) is None:
        with pytest.raises(ld.errors.InvalidMargins):
            ld.balance(X, margins)
    else:
        assert ld.balance(X, margins).converged


def test_vanishing_cells_are_not_taken_for_a_proof() -> None:
    """Near a limit each Newton step takes all of a vanishing cell: a tensor with the margins, but not positive."""
    X = np.zeros((2, 4, 2))
    X[0, 2:] = [[1.0, 2.0], [0.0, 1.0]]
    X[1, 0, 0] = 3.0
    margins: Given = {(1,): np.array([0.0, 0.0, 1.0, 1.0]), (0, 2): np.array([[1.0, 1.0], [0.0, 0.0]])}
    for solver in ("auto", "natural", "scaling"):
        result = ld.balance(X, margins, solver=solver, max_iter=None if solver != "scaling" else 50)
        assert result.status is ld.results.Status.AT_BOUNDARY
        assert result.vanishing_cells.tolist() == [[0, 2, 1], [1, 0, 0]]


def test_too_large_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_PROGRAM", 0)
    X, margins = np.array([[1.0, 2.0], [0.0, 4.0]]), [np.array([np.pi, 1.0]), np.array([np.pi, 1.0])]
    with pytest.warns(ld.ConvergenceWarning, match="too large to decide"):
        assert ld.balance(X, margins).status is ld.results.Status.UNDECIDED
    with pytest.warns(ld.ConvergenceWarning, match="below 1e-8 of their sum"):
        ld.balance([[1, 1], [1, 0]], {0: [1, 1e-9], 1: [1e-9, 1]})


def test_cells_of_a_tiny_margin_are_not_listed_as_vanishing() -> None:
    X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0], [1.0, 1.0, 0.0]])
    T = np.where(X > 0, 1.0, 0.0) * np.array([1e-14, 1.0, 1.0])[:, None]
    result = ld.balance(X, [T.sum(axis=1), T.sum(axis=0)])
    assert result.status is ld.results.Status.CONVERGED
    assert len(result.vanishing_cells) == 0
    assert_allclose(result.tensor()[0].sum(), 2e-14, rtol=1e-3)


@pytest.mark.parametrize("solver", ["matrix-scaling", "scaling", "natural", "natural-cg"])
def test_every_solver_finds_the_same_matrix(solver: str, rng: np.random.Generator) -> None:
    X = np.exp(rng.normal(size=(6, 9)))
    margins: Given = {(0,): rng.random(6), (1,): rng.random(9)}
    margins[(1,)] *= margins[(0,)].sum() / margins[(1,)].sum()
    result = ld.balance(X, margins, solver=solver)
    assert result.solver == solver
    assert_allclose(result.tensor(), ipf(X, margins), rtol=1e-8)


def test_default_margins_are_ones_where_modes_are_equal() -> None:
    X = np.arange(1.0, 28.0).reshape(3, 3, 3)
    each, fibres = ld.balance(X).tensor(), ld.balance(X, modes=2).tensor()
    for k in range(3):
        assert_allclose(sum_others(each, (k,)), 1.0, rtol=1e-9)
        assert_allclose(fibres.sum(axis=k), 1.0, rtol=1e-9)
    assert_allclose(ld.balance(X, modes=[(0,)], total=6.0).tensor().sum(axis=(1, 2)), [2.0, 2.0, 2.0], rtol=1e-12)
    assert_allclose(ld.balance(np.ones((2, 4))).tensor(), np.full((2, 4), 0.25), rtol=1e-12)


def test_a_margin_may_come_with_its_modes_in_any_order(rng: np.random.Generator) -> None:
    X, other = rng.random((2, 3, 4)), rng.random((2, 3, 4))
    straight = ld.balance(X, {(0, 2): other.sum(axis=1), 1: other.sum(axis=(0, 2))})
    turned = ld.balance(X, {(2, 0): other.sum(axis=1).T, 1: other.sum(axis=(0, 2))})
    assert_allclose(straight.tensor(), turned.tensor(), rtol=1e-12)
    assert set(straight.log_factors) == {1, (0, 2)}


def test_margins_inside_others_are_checked_and_met(rng: np.random.Generator) -> None:
    X, other = rng.random((3, 4)), rng.random((3, 4))
    result = ld.balance(X, {(0, 1): other, 0: other.sum(axis=1)})
    assert_allclose(result.tensor(), other, rtol=1e-9)
    assert set(result.factors) == {(0, 1)}


def test_zero_margins_empty_their_cells() -> None:
    X = [[1, 2, 0], [3, 0, 5], [1, 1, 1]]
    result = ld.balance(X, {0: [0, 1, 1], 1: [1, 0.5, 0.5]})
    assert result.vanishing_cells.tolist() == [[0, 0], [0, 1]]
    assert result.log_factors[0][0] == -np.inf
    assert_allclose(result.tensor().sum(axis=0), [1, 0.5, 0.5], rtol=1e-9)
    empty_anyway = ld.balance([[0, 0], [1, 2]], {0: [0, 1], 1: [0.3, 0.7]})
    assert empty_anyway.status is ld.results.Status.CONVERGED
    assert_allclose(empty_anyway.tensor(), [[0.0, 0.0], [0.3, 0.7]], rtol=1e-9)


@pytest.mark.parametrize("link", [1e-4, 1e-8, 1e-12])
def test_nearly_decomposable_matrices_take_few_steps(link: float, rng: np.random.Generator) -> None:
    X = link * rng.random((40, 40))
    X[:20, :20], X[20:, 20:] = rng.random((2, 20, 20)) + 0.1
    rows = np.ones(40)
    rows[:20] += 1e-3
    result = ld.balance(X, [rows, np.full(40, rows.sum() / 40)])
    assert result.status is ld.results.Status.CONVERGED
    assert result.n_iter < 50
    # the blocks exchange what their margins lack
    assert_allclose(result.tensor()[:20, 20:].sum() - result.tensor()[20:, :20].sum(), 0.01, rtol=1e-6)


def test_cycles_that_converge_slowly_hand_over_to_newtons_steps(rng: np.random.Generator) -> None:
    X = np.exp(5 * rng.normal(size=(120, 90)))
    assert ld.balance(X).n_iter < 60
    assert_allclose(ld.balance(X).tensor(), ld.balance(X, solver="natural").tensor(), atol=1e-9)


def test_many_parameters_begin_with_scaling(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCALING_FROM", 100)
    X = np.exp(rng.normal(size=(6, 7, 8)))
    result = ld.balance(X, modes=2)
    assert result.solver == "scaling"
    assert_allclose(result.tensor(), ld.balance(X, modes=2, solver="natural").tensor(), rtol=1e-8)
    slow = ld.balance(np.exp(6 * rng.normal(size=X.shape)), modes=2)
    assert slow.converged
    assert slow.solver == "natural"


def test_result_and_summary() -> None:
    result = ld.balance(np.array([[1, 2], [3, 4]]), {0: [30, 70], 1: [50, 50]})
    assert repr(result).startswith("<Balanced 2x2: CONVERGED after ")
    text = result.summary()
    for part in ("2x2, 4 of 4 cells positive", "0, 1; total 100", "matrix-scaling", "CONVERGED", "max margin error"):
        assert part in text
    q, x = result.tensor() / 100, np.array([[0.1, 0.2], [0.3, 0.4]])
    assert result.kl_to_X == pytest.approx(float((q * np.log(q / x)).sum()), rel=1e-12)
    assert result.eta.shape == result.eta_hat.shape == (2,)
    with pytest.raises(ValueError, match="read-only"):
        result.tensor()[0, 0] = 1.0


def test_limits_and_callbacks(rng: np.random.Generator) -> None:
    X = np.exp(3 * rng.normal(size=(30, 30)))
    with pytest.warns(ld.ConvergenceWarning, match="Raise max_iter"):
        short = ld.balance(X, max_iter=2)
    assert short.n_iter == 2
    with pytest.warns(ld.ConvergenceWarning, match="callback asked"):
        assert ld.balance(X, callback=lambda step: step.iteration == 3).n_iter == 3
    assert ld.balance(X, solver="scaling", tol=1e-4).n_iter < ld.balance(X, solver="scaling").n_iter


NAN, INF = float("nan"), float("inf")


SQUARE, CUT = [[1, 2], [3, 4]], [[1, 0, 0], [2, 0, 0], [1, 1, 1]]
DIFFER = np.array([[0.0, 0.5], [0.5, 0.0]]) + 0.01  # three binary variables cannot differ pairwise
UNEVEN = np.array([[1.0], [0.25], [1.0]]) * np.ones(4) * 6 / 9
TROUBLE: list[tuple[Any, Any, dict[str, Any], str]] = [
    ([[1, -2], [3, 4]], None, {}, r"X has 1 negative entry: it is X\[0, 1\] = -2"),
    ([[1, 2], [NAN, 4]], None, {}, r"1 entries that are NaN; the first is X\[1, 0\].*must stay empty is 0"),
    (da.from_array(np.array([[1, 2], [NAN, 4]])), None, {}, r"1 entries that are NaN; the first is X\[1, 0\]"),
    (np.zeros((2, 2)), None, {}, "zero everywhere"),
    (SQUARE, {0: [1, 1], 1: [1, 2]}, {}, r"margins 0 and 1 have different sums, 2 and 3. .* rescale one"),
    (SQUARE, {0: [1, -1], 1: [1, 1]}, {}, r"margin 0\[1\] = -1; entries must be finite and >= 0"),
    (SQUARE, {1: [INF, 1]}, {}, r"margin 1\[0\] = inf; entries"),
    (SQUARE, {0: [1, 2, 3]}, {}, r"margin 0 has shape \(3,\); X has shape \(2, 2\).* has shape \(2,\)"),
    (SQUARE, {0: [0, 0]}, {}, "margin 0 sums to 0"),
    (SQUARE, {0: ["a", "b"]}, {}, "margin 0 has dtype"),
    (SQUARE, {0: [[1], [1, 2]]}, {}, "margin 0 is not a rectangular array"),
    (SQUARE, {0: np.ma.array([1.0, 1.0], mask=[True, False])}, {}, r"margin 0\[0\] = nan"),
    (SQUARE, {2: [1, 1]}, {}, "2 is not a mode of X, which has 2, counted from 0 to 1"),
    (SQUARE, {(0, 0): [1, 1]}, {}, "names a mode twice"),
    (SQUARE, {"rows": [1, 1]}, {}, "'rows' is not a mode of X, which has 2, .* They have no names"),
    (SQUARE, {(): 1.0}, {}, "a margin is named by its modes"),
    (SQUARE, {(0, 1): SQUARE, (1, 0): SQUARE}, {}, r"modes \(0, 1\) is given twice"),
    (SQUARE, {}, {}, "one per mode of X; got {}"),
    (SQUARE, [[1, 1]], {}, "a list of 2 one-way margins, one per mode of X; got \\[\\[1, 1"),
    (SQUARE, np.ones((2, 2)), {}, "got array"),
    (np.ones((2, 3, 4)), {(0, 1): np.ones((2, 3)), (1, 2): UNEVEN}, {}, r"margins \(0, 1\) and \(1, 2\) disagree about "
     r"what they share, the margin over modes 1: 2 and 0.666\d* at \[1\]"),
    (CUT, {0: [0.3, 0.3, 0.4], 1: [0.4, 0.3, 0.3]}, {}, r"X is 0 on rows \{0, 1\} outside columns \{0\}, yet those "
     "rows need 0.6 and those columns have only 0.4"),
    (CUT, [np.array([0.3, 0.3, 0.4]) * np.pi, np.array([0.4, 0.3, 0.3]) * np.pi], {}, "those rows need 1.88496"),
    ([[1, 2], [0, 0]], None, {}, r"margin 0 wants 1 at \[1\], but on all of its cells X is 0"),
    (np.ones((2, 2, 2)), {(0, 1): DIFFER, (1, 2): DIFFER, (0, 2): DIFFER}, {}, r"no tensor that is 0 where X is 0 has "
     "these margins"),
    (SQUARE, None, {"modes": 3}, "an order from 1 to 2"),
    (SQUARE, None, {"modes": object()}, "an order from 1 to 2"),
    (SQUARE, None, {"modes": {0: [1, 1]}}, "Margins of your own go to margins, e.g. {0: row_sums}"),
    (SQUARE, None, {"total": np.complex128(1 + 2j)}, "total must be a finite number > 0"),
    (SQUARE, {0: [1, 1]}, {"total": 2.0}, "leave them out when margins are given"),
    (SQUARE, None, {"solver": "closed"}, "'closed' needs a tensor with the margins"),
    (SQUARE, None, {"solver": "sinkhorn"}, "unknown solver"),
    (SQUARE, None, {"tol": -1}, "tol must be"),
    (SQUARE, None, {"max_iter": 1.5}, "max_iter must be"),
    (SQUARE, None, {"callback": 5}, "callback must be a function of a Step, got 5"),
    (np.ones((2, 2, 2)), None, {"solver": "matrix-scaling"}, "balances matrices"),
]  # fmt: skip


@pytest.mark.parametrize(("X", "margins", "words", "text"), TROUBLE, ids=range(len(TROUBLE)))
def test_trouble_is_named(X: Any, margins: Any, words: dict[str, Any], text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        ld.balance(X, margins, **words)


# ---------------------------------------------------------------- without X: the distribution of largest entropy


@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_the_largest_entropy_is_that_of_a_balanced_uniform_tensor(
    zeros: float, rng: np.random.Generator, tmp_path: Path
) -> None:
    gone = 0
    for _ in range(25):
        shape = tuple(rng.integers(1, 4, int(rng.integers(2, 5))).tolist())
        T = rng.random(shape) * (rng.random(shape) >= zeros)
        sets = [s for n in (1, 2, 3) for s in combinations(range(len(shape)), n) if rng.random() < 0.5]
        if not sets or not T.any():
            continue
        margins: Given = {s: sum_others(T, s) for s in sets}
        fit, twin = ld.balance(None, margins, shape=shape), ld.balance(np.ones(shape), margins)
        assert fit.status is twin.status
        assert_allclose(fit.tensor(), twin.tensor(), atol=1e-9)
        assert fit.vanishing_cells.tolist() == twin.vanishing_cells.tolist()
        assert_allclose([fit.total, fit.kl_uniform], [T.sum(), twin.kl_to_X], atol=1e-8)
        q = twin.tensor() / T.sum()
        alone = reduce(np.multiply.outer, [sum_others(q, (k,)) for k in range(q.ndim)])
        assert fit.kl_independence == pytest.approx(ld.dual.kl(q, alone), abs=1e-8)
        fit.save(tmp_path / "fit.npz")
        assert_allclose(ld.load(tmp_path / "fit.npz").tensor(), fit.tensor(), atol=1e-12)
        gone += len(fit.vanishing_cells) > 0
        if not zeros:
            prior = ld.decompose(rng.random(shape), ld.interactions(min(2, T.ndim)))
            assert_allclose(
                ld.balance(prior, margins).tensor(), ld.balance(prior.tensor(), margins).tensor(), atol=1e-8
            )
    assert gone > 5 or not zeros


def pair_margins(n: int, width: int, levels: int) -> Given:
    """Count all pairs that some modes of a random graph of this treewidth form, in rows that depend on each other."""
    rng = np.random.default_rng(n)
    cliques = [tuple(range(width + 1))]
    for k in range(width + 1, n):
        kept = rng.choice(cliques[rng.integers(len(cliques))], width, replace=False).tolist()
        cliques.append((*sorted(kept), k))
    rows = rng.integers(0, levels, (2000, n))
    for k in range(1, n):
        rows[:, k] = np.where(rng.random(2000) < 0.5, rows[:, rng.integers(k)], rows[:, k])
    pairs = {pair for clique in cliques for pair in combinations(clique, 2)}
    return {(a, b): np.histogram2d(rows[:, a], rows[:, b], levels)[0] for a, b in pairs}


def test_margins_of_fifty_modes() -> None:
    margins = pair_margins(50, 4, 2)
    fit = ld.balance(None, margins, shape=[2] * 50)
    assert fit.status is ld.results.Status.CONVERGED
    assert fit.gap < 1e-12
    for pair, wanted in margins.items():
        assert_allclose(fit.marginal(pair) * fit.total, wanted, atol=1e-9 * fit.total)
    assert np.count_nonzero(fit.basis, axis=1).max() == 2  # log q is a sum over pairs: no distribution has more entropy


def test_margins_that_contradict_each_other_are_named() -> None:
    same, other = np.diag([0.5, 0.5]), np.array([[0.0, 0.5], [0.5, 0.0]])
    with pytest.raises(ld.errors.InvalidMargins, match=r"\(0, 1\) and \(0, 2\) disagree .* 0.5 and 0.7 .* 0.2"):
        ld.balance(None, {(0, 1): same, (0, 2): [[0.6, 0.1], [0.1, 0.2]]}, shape=(2, 2, 2))
    with pytest.raises(ld.errors.InvalidMargins, match="their zeros leave no cell"):
        ld.balance(None, {(0, 1): same, (1, 2): same, (0, 2): other}, shape=(2, 2, 2))
    # each two of three coins differ with probability 0.9, but never all three: the sum is 2.7, and at most 2
    apart = 0.1 * same + 0.9 * other
    pairs: Given = {(7, 8): apart, (8, 9): apart, (7, 9): apart, **{(k, k + 1): same * 0.2 + 0.2 for k in range(7)}}
    with pytest.raises(ld.errors.InvalidMargins, match=r"\(7, 8\), \(7, 9\), \(8, 9\): .* change by 0.35 altogether"):
        ld.balance(None, pairs, shape=[2] * 10)
    fit = ld.balance(None, pairs, shape=[2] * 10, slack=1e-3)
    assert fit.status is ld.results.Status.CONVERGED


def test_slack_minimises_squared_errors_beside_kl(rng: np.random.Generator) -> None:
    T = rng.dirichlet(np.ones(12)).reshape(3, 2, 2)
    margins: Given = {s: sum_others(T, s) for s in ((0, 1), (1, 2), (0, 2))}

    def cost(q: FloatArray) -> float:
        off = sum(float(((sum_others(q, s) - m) ** 2).sum()) for s, m in margins.items())
        return float((q * np.log(q)).sum()) + off / (2 * 0.01)

    soft = ld.balance(None, margins, shape=T.shape, slack=0.01).tensor()
    for _ in range(20):
        step = rng.normal(size=T.shape) * soft
        step -= step.mean()
        slopes = [(cost(soft + h * step) - cost(soft)) / h for h in (1e-4, -1e-4)]
        assert slopes[0] > 0 > slopes[1]
    near = ld.balance(None, margins, shape=T.shape, slack=1e-9).tensor()
    assert_allclose(near, ld.balance(None, margins, shape=T.shape).tensor(), atol=1e-6)


def test_without_x_names_belong_to_modes_and_a_shape_is_needed() -> None:
    levels = {"age": ["young", "old"], "sex": ["f", "m"]}
    names = ["age", "sex", "zone"]
    fit = ld.balance(None, {"age": {"old": 3, "young": 1}}, shape=(2, 2, 3), names=names, levels=levels)
    assert_allclose(fit.marginal("age", given={"sex": "m", "zone": 2}), [0.25, 0.75])
    for wrong in ({"X": None}, {"X": np.ones((2, 2)), "shape": (2, 2)}, {"X": np.ones((2, 2)), "slack": 0.1}):
        with pytest.raises(ld.errors.InvalidSetting, match=r"shape .* margins without X"):
            ld.balance(**wrong, margins=[[1, 1], [1, 1]])
    with pytest.raises(ld.errors.InvalidSetting, match="slack"):
        ld.balance(None, [[1, 1]], shape=(2,), slack=-1.0)
    with pytest.raises(ld.errors.InvalidSetting, match="vanishing cells"):
        ld.balance(ld.decompose(np.eye(2), "full"), {0: [1, 1]})


def test_weights_of_rows() -> None:
    X = np.array([[4.0, 1.0], [2.0, 3.0]])
    result = ld.balance(X, [[6.0, 4.0], [5.0, 5.0]])
    rows = np.repeat(np.argwhere(X), X[X > 0].astype(int), axis=0)
    weighted = np.zeros((2, 2))
    np.add.at(weighted, tuple(rows.T), result.weights(rows))
    assert_allclose(weighted, result.tensor(), rtol=1e-12)


def test_weights_within_bounds_are_the_nearest(rng: np.random.Generator) -> None:
    """A weight is a product of factors, or a bound: no direction that keeps the margins lowers KL."""
    X = rng.poisson(6, (4, 5, 3)).astype(float)
    X[0, 0, 0] = 0
    table = X.sum(axis=0) * rng.uniform(0.9, 1.1, (5, 3))
    rows = X.sum(axis=(1, 2)) * [0.5, 1.6, 0.7, 1.3]
    margins = {0: rows * table.sum() / rows.sum(), (1, 2): table}
    raked, cells = ld.balance(X, margins), np.argwhere(X > 0)
    free = raked.weights(cells)
    low, high = 1.1 * free.min(), 0.9 * free.max()
    found = np.zeros(X.shape)
    found[X > 0] = raked.weights(cells, bounds=(low, high))
    weights, x = found[X > 0], X[X > 0]
    assert (weights.min(), weights.max()) == pytest.approx((low, high))
    for modes, wanted in margins.items():
        assert_allclose(sum_others(found * X, modes if isinstance(modes, tuple) else (modes,)), wanted, rtol=1e-9)
    sums = np.array([*(cells[:, :1] == np.arange(4)).T, *(cells[:, 1] * 3 + cells[:, 2] == np.arange(15)[:, None])])
    # the linear program of all moves of first order: it gains nothing
    move = linprog(x * np.log(weights), A_eq=sums * x, b_eq=sums @ (x * weights), bounds=(low, high))
    assert move.fun == pytest.approx(float(x * np.log(weights) @ weights), abs=1e-6)
    with pytest.raises(ld.LegendreError, match="no weights from 1 to 2 with these margins were found"):
        raked.weights(cells, bounds=(1, 2))
