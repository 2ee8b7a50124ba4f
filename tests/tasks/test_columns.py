"""Densities of many columns: gaps against a brute-force optimum, classes, smoothing, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import xlogy

import legendre as ld
from legendre.basis.graph import Graph
from legendre.core.labels import Labels
from legendre.core.types import FloatArray, IntArray
from legendre.fitting.columns import CodedRows, Network, grow_graph, learn_classes

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = (2, 3, 2, 2)
STATES = np.array(list(product(*map(range, SHAPE))))


def draw_rows(n: int, seed: int = 0) -> IntArray:
    """Draw rows of four columns, of which each goes with the one before it."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = (a + rng.integers(0, 2, n)) % 3
    c = np.where(rng.random(n) < 0.8, b % 2, rng.integers(0, 2, n))
    d = np.where(rng.random(n) < 0.7, c ^ a, rng.integers(0, 2, n))
    return np.stack([a, b, c, d], axis=1)


def with_gaps(rows: IntArray, share: float = 0.25, seed: int = 1) -> FloatArray:
    lost = np.random.default_rng(seed).random(rows.shape) < share
    return np.where(lost, np.nan, rows.astype(float))


def by_graph(**settings: Any) -> ld.LegendreDensity:
    return ld.LegendreDensity(ld.graph(), **settings)


def fits(row: FloatArray) -> Any:
    """Mark the states that a row with gaps may be."""
    return (np.isnan(row) | (row == STATES)).all(axis=1)


def test_a_fit_to_rows_with_gaps_is_the_optimum() -> None:
    rows = with_gaps(draw_rows(300))
    density = ld.LegendreDensity(ld.graph("aic"), alpha=0.0, tol=1e-12).fit(rows)
    basis = density.graph_.basis(SHAPE)
    Z = (basis[None] <= STATES[:, None]).all(axis=-1).astype(float)
    inside = np.array([fits(row) for row in rows])

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        logs = Z @ theta
        q = np.exp(logs - logs.max())
        q /= q.sum()
        shown = inside @ q
        return -float(np.log(shown).sum()), len(rows) * Z.T @ q - Z.T @ (q * (inside.T @ (1 / shown)))

    best = minimize(loss, np.zeros(len(basis)), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    assert density.score(rows) * len(rows) == pytest.approx(-best.fun, abs=1e-8)


@pytest.fixture(scope="module", params=["graph", "gaps", "classes", "both", "shared"])
def density(request: pytest.FixtureRequest) -> ld.LegendreDensity:
    rows = draw_rows(400) if request.param in ("graph", "classes") else with_gaps(draw_rows(400))
    if request.param in ("classes", "both", "shared"):
        graph = ld.graph(shared=request.param == "shared")
        return ld.LegendreDensity(graph, classes=3).fit(rows, valid=draw_rows(200, 5))
    return by_graph().fit(rows)


def test_answers_are_sums_over_all_states(density: ld.LegendreDensity) -> None:
    q = np.exp(density.score_samples(STATES))
    assert q.sum() == pytest.approx(1.0, abs=1e-12)
    row = np.array([[1.0, np.nan, np.nan, 0.0]])
    inside = fits(row[0])
    assert density.score(row) == pytest.approx(np.log(q[inside].sum()), abs=1e-12)
    given = q * inside / q[inside].sum()
    assert_allclose(density.impute(row)[0], given @ STATES, atol=1e-12)
    expected = [given[STATES[:, 1] == level].sum() for level in range(3)]
    assert_allclose(density.conditional({0: 1, 3: 0}, of=1), expected, atol=1e-12)
    whole = np.array([[1, 0, 1, 0]])
    both = [q[(np.array([1, 0, level, 0]) == STATES).all(axis=1)][0] for level in (0, 1)]
    assert_allclose(density.predict_proba(whole, 2)[0], np.array(both) / sum(both), atol=1e-12)
    joint = q[:, None] * density.class_probabilities(STATES)  # of states and classes
    assert_allclose(density.class_probabilities(row)[0], joint[inside].sum(axis=0) / q[inside].sum(), atol=1e-12)
    found = density.class_effects()
    assert_allclose(found.shares, joint.sum(axis=0), atol=1e-12)
    for k, size in enumerate(SHAPE):
        table = np.array([joint[STATES[:, k] == level].sum(axis=0) for level in range(size)])
        assert_allclose(found.probabilities[k], table / table.sum(axis=0), atol=1e-12)
        apart = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
        assert found.information[k] == pytest.approx((table * np.log(table / apart)).sum(), abs=1e-12)


def test_draws_follow_the_answers(density: ld.LegendreDensity) -> None:
    q = np.exp(density.score_samples(STATES))
    n = 20_000
    for given, inside in ((None, q > 0), ({0: 1, 3: 0}, (STATES[:, [0, 3]] == [1, 0]).all(axis=1))):
        expected = q * inside / q[inside].sum()
        drawn = density.sample(n, 0, given)
        counted = np.array([(drawn == state).all(axis=1).mean() for state in STATES])
        assert_allclose(counted, expected, atol=5 * np.sqrt(expected.max() / n))
    row = np.full((n, 4), np.nan)
    row[:, 0], row[:, 3] = 1, 0
    drawn = density.impute(row, draw=True, rng=1)
    assert_allclose(drawn.mean(axis=0), expected @ STATES, atol=0.03)
    assert (drawn[:, [0, 3]] == [1, 0]).all()


def test_a_fit_draws_given_levels_of_some_modes() -> None:
    X = np.random.default_rng(0).integers(1, 9, (3, 4, 2))
    for fit in (ld.decompose(X, ld.interactions(2)), ld.decompose(ld.from_coords(np.argwhere(X), X[X > 0]), "B1")):
        drawn = np.asarray(fit.sample(20_000, 0, given={1: 2}))
        assert (drawn[:, 1] == 2).all()
        expected = np.asarray(fit.condition({1: 2}))
        counted = np.zeros(expected.shape)
        np.add.at(counted, tuple(drawn[:, [0, 2]].T), 1 / 20_000)
        assert_allclose(counted, expected, atol=0.02)


def test_gaps_are_filled_better_than_by_means() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (600, 40))
    for j in range(1, 40):
        copied = rng.random(600) < 0.7
        rows[copied, j] = rows[copied, j - 1]
    gaps = with_gaps(rows, 0.2)
    lost = np.isnan(gaps)
    filled = by_graph().fit(gaps).impute(gaps)
    assert (filled[~lost] == rows[~lost]).all()
    error = np.abs(filled - rows)[lost].mean()
    assert error < 0.7 * np.abs(np.nanmean(gaps, axis=0) - rows)[lost].mean()


def test_texts_are_filled_by_the_most_probable() -> None:
    frame = pandas.DataFrame({"colour": ["red", "red", "blue", "blue"] * 20, "size": [1, 1, 2, 2] * 20})
    density = by_graph().fit(frame)
    filled = density.impute(pandas.DataFrame({"colour": [None, "blue"], "size": [1, np.nan]}))
    assert filled[0].tolist() == ["red", 1.0]
    assert filled[1, 1] == pytest.approx(2.0, abs=0.01)


def test_the_pseudo_count_predicts_left_out_rows_best() -> None:
    """The loss of each row given all others, of which the smallest counts, is that of a fit without the row."""
    rows = draw_rows(60)
    density = by_graph().fit(rows)
    assert np.isfinite(density.score_samples(STATES)).all()
    counted = Network.count(density.graph_, CodedRows.of(rows, None, SHAPE))
    levels, basis = [list(range(n)) for n in SHAPE], ld.interactions(density.graph_.cliques)
    for alpha in (1.0, 8.0):
        plain = ld.LegendreDensity(basis, alpha=alpha, levels=levels)
        slow = [plain.fit(np.delete(rows, i, axis=0)).score(rows[i : i + 1]) for i in range(60)]
        assert counted.left_out_loss(alpha) == pytest.approx(-sum(slow), abs=1e-9)
        assert counted.left_out_loss(density.alpha_) <= counted.left_out_loss(alpha)
        assert_allclose(
            by_graph(alpha=alpha).fit(rows).score_samples(STATES),
            plain.fit(rows).score_samples(STATES),
            atol=1e-9,
        )
    other = by_graph().fit(rows, valid=draw_rows(400, 9))
    assert other.score(draw_rows(400, 9)) >= density.score(draw_rows(400, 9)) - 1e-12


def test_classes_that_are_far_apart_are_found() -> None:
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 900)
    rows = (rng.random((900, 12)) < np.where(kind[:, None] == 1, 0.85, 0.15)).astype(int)
    density = by_graph(classes="auto").fit(rows)
    assert density.tried_[-1].n_classes >= 2
    two = by_graph(classes=2).fit(rows)
    found = two.class_probabilities(rows)[:, 0] > 0.5
    assert max((found == kind).mean(), (found != kind).mean()) > 0.97
    assert two.score(rows) > by_graph().fit(rows).score(rows)
    few = by_graph(classes=4).fit(rows[:60, :3])  # no class would have twenty rows
    assert few.class_probabilities(rows[:60, :3]).shape[1] >= 1


def test_classes_chosen_on_rows_that_are_given_are_not_fitted_to_others() -> None:
    """The sum of fractional weights depends on the order of rows, which says nothing about rows that were held out."""
    weights = np.random.default_rng(0).random(400)
    rows, valid = (CodedRows.of(some, weights, SHAPE) for some in (draw_rows(400), draw_rows(400)[::-1]))
    best, valid = learn_classes(rows, valid, Graph(), 2)[-1], valid.merge()
    logs = np.logaddexp.reduce(best.mixture.joint(valid), axis=1)
    assert best.held_out == pytest.approx(float(valid.weights @ logs) / valid.total, abs=1e-12)


def test_classes_that_share_a_graph_have_a_hidden_mode_in_every_clique() -> None:
    """An edge gains N I(a; b | S, class), the conditional mutual information in the table with the class."""
    rows = draw_rows(500, 3)
    kind = np.random.default_rng(4).integers(0, 2, 500)
    classes = [CodedRows.of(rows[kind == h], None, SHAPE) for h in (0, 1)]
    graph = grow_graph(CodedRows.of(rows, None, SHAPE), Graph(), Labels(SHAPE), 0.1, classes)
    table = np.zeros((*SHAPE, 2))
    np.add.at(table, (*rows.T, kind), 1)

    def information(*kept: int) -> float:
        margin = table.sum(axis=tuple(set(range(5)) - set(kept)))
        return float(xlogy(margin, margin).sum())

    assert max(len(edge.given) for edge in graph.edges) >= 1
    for edge in graph.edges:
        a, b, *S = map(int, (edge.a, edge.b, *edge.given, 4))
        expected = information(a, b, *S) + information(*S) - information(a, *S) - information(b, *S)
        assert edge.gain == pytest.approx(expected, abs=1e-9)
    density = ld.LegendreDensity(ld.graph(shared=True), classes=2).fit(rows)
    first, second = density.mixture_.parts if density.mixture_ else []
    assert list(map(list, first.families)) == list(map(list, second.families))


def test_a_picture_shows_what_tells_classes_apart() -> None:
    rng = np.random.default_rng(0)
    kind = rng.random(600) < 0.5
    rows = {f"x{k}": rng.random(600) < np.where(kind, 0.9, 0.1 + 0.1 * k) for k in range(8)}
    found = by_graph(classes=2).fit(rows).class_effects()
    ax = found.plot(most=3)
    first = found.to_frame().iloc[0]
    assert ax.get_yticklabels()[0].get_text() == f"{first['column']} = True"
    assert ax.texts[0].get_text() == f"{100 * first['class 0']:.0f}"
    assert np.asarray(ax.images[0].get_array())[0, 0] == pytest.approx(np.log(first["class 0"] / first["all"]))
    assert "to_frame() has all levels" not in found.summary()


ROWS, fit = draw_rows(50), by_graph().fit
TROUBLE: list[tuple[Callable[[], object], str]] = [
    (lambda: ld.LegendreDensity(2, classes=2).fit(ROWS), r"classes is for basis=ld\.graph\(\)"),
    (lambda: ld.hidden(ROWS, ld.graph(), (2, 2)), "takes one hidden mode, and no missing cells, support or base"),
    (lambda: ld.LegendreDensity(2).fit(ROWS, valid=ROWS), r"valid is for basis=ld\.graph\(\)"),
    (lambda: ld.LegendreDensity(2).fit(with_gaps(ROWS)), "contains NaN or infinity"),
    (
        lambda: ld.LegendreDensity(2).fit(ROWS).impute(ROWS),
        r"gaps and classes are for LegendreDensity\(basis=ld\.graph",
    ),
    (
        lambda: by_graph(classes=0).fit(ROWS),
        "classes, if not None or 'auto', must be an integer >= 1, got 0",
    ),
    (lambda: by_graph(classes=2).fit(ROWS[:5]), "pass at least ten rows, or valid"),
    (lambda: fit(ROWS, valid=ROWS[:, :3]), "X has 3 features, but .* is expecting 4"),
    (lambda: fit(ROWS, sample_weight=[-1] * 50), r"sample_weight\[0\] = -1"),
    (lambda: fit(ROWS, sample_weight=[0] * 50), "every sample_weight is zero"),
    (lambda: fit([[np.nan], [np.nan]]), "column 0 has no value in any row"),
    (lambda: fit([[np.inf, 1.0], [1.0, 2.0]]), "column 0 is inf in row 0"),
    (
        lambda: by_graph(handle_unknown="error").fit(ROWS).score([[0, 9, 0, 0]]),
        "column 1 holds 9 in row 0, which is not one of its levels",
    ),
]


@pytest.mark.parametrize(("call", "text"), TROUBLE, ids=range(len(TROUBLE)))
def test_trouble_is_named(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        call()


def test_levels_never_seen_are_taken_for_missing_and_cost_what_a_new_level_does() -> None:
    density = by_graph().fit(ROWS)
    score = density.score([[0, np.nan, 0, 0]]) - np.log(51)
    assert density.score([[0, 9, 0, 0]]) == pytest.approx(score, abs=1e-12)
    assert density.set_params(handle_unknown="-inf").score_samples([[0, 9, 0, 0]])[0] == -np.inf
    few = by_graph().fit(np.eye(6, 30, dtype=int))  # fewer rows than columns
    assert np.isfinite(few.score(np.ones((1, 30), dtype=int)))
