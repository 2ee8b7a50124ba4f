"""What is chosen before the first step, what the plan says of it, and how one solver takes over from another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.core import limits
from legendre.data.dense import observe
from legendre.data.observation import Support
from legendre.engines.choose import choose_engine
from legendre.engines.junction import JunctionEngine
from legendre.model.model import Model
from legendre.model.problem import Problem
from legendre.solvers.choose import choose
from oracles import IntArray

pytestmark = pytest.mark.usefixtures("one_thread")

# the package exports a function of the same name
CHOICE = sys.modules["legendre.solvers.choose"]
RNG = np.random.default_rng(0)
CUBE = RNG.uniform(0.1, 1.0, size=(5, 5, 5))


def named(decided: ld.results.Plan) -> tuple[list[str], str]:
    """Name the solvers and the engine."""
    engine = type(decided.target.engine).__name__.removesuffix("Engine").lower()
    return [solver.name for solver in decided.solvers], engine


CHOICES: dict[str, tuple[Callable[[], ld.results.Plan], list[str], str]] = {
    "one_body": (lambda: ld.plan(CUBE, "B1"), ["closed", "natural"], "junction"),
    "one_body_in_part": (lambda: ld.plan(CUBE, [[2, 0, 0], [0, 4, 0]]), ["closed", "natural"], "junction"),
    "one_body_masked": (lambda: ld.plan(CUBE, "B1", support=CUBE > 0.5), ["natural"], "reference"),
    "one_body_weighted": (lambda: ld.plan(CUBE, "B1", base=CUBE), ["natural"], "reference"),
    "small": (lambda: ld.plan(CUBE, "B3(3)"), ["natural"], "reference"),
    "few_pairs": (lambda: ld.plan(CUBE, ld.interactions(2)), ["natural"], "reference"),
    "decomposable": (lambda: ld.plan(CUBE, ld.interactions([(0, 1), (1, 2)])), ["scaling", "natural"], "reference"),
    "full": (lambda: ld.plan(CUBE, "full"), ["scaling", "natural"], "reference"),
    "many_pairs": (lambda: ld.plan(np.ones((11, 11, 11)), ld.interactions(2)), ["scaling", "natural"], "reference"),
    "many_but_no_margins": (lambda: ld.plan(RNG.random((11, 11, 11)), ld.B3(30)), ["natural"], "reference"),
    "empty": (lambda: ld.plan(CUBE, "empty"), ["natural"], "reference"),
    "asked": (lambda: ld.plan(CUBE, "B1", solver="natural"), ["natural"], "junction"),
    "asked_otherwise": (lambda: ld.plan(CUBE, "B3(3)", solver="natural-cg"), ["natural-cg"], "reference"),
    "asked_by_object": (lambda: ld.plan(CUBE, "B3(3)", solver=ld.solvers.Gradient()), ["gradient"], "reference"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_typical_problems(name: str) -> None:
    make, solvers, engine = CHOICES[name]
    assert named(make()) == (solvers, engine)


def some_cells(shape: tuple[int, ...], count: int) -> IntArray:
    return np.argwhere(np.ones(shape))[1 : count + 1].astype(np.int64)


def spread_cells(shape: tuple[int, ...], count: int) -> IntArray:
    """Return cells with many different coordinates, so that the merged grid is large."""
    return np.unique(np.random.default_rng(0).integers(1, shape, size=(count, len(shape))), axis=0)


def on_thousand_rows(shape: tuple[int, ...], basis: IntArray, *, masked: bool = False) -> Model:
    mask = np.ones(shape, dtype=np.bool_)
    mask[-1] = False
    return Model.of(Support(shape, mask if masked else None), None, basis)


LARGE: list[tuple[Model, str, str]] = [
    (on_thousand_rows((60, 50, 40), some_cells((60, 50, 40), 10_000)), "natural", "ReferenceEngine"),
    (on_thousand_rows((400, 400, 40), spread_cells((400, 400, 40), 300)), "natural", "SlabEngine"),
    (on_thousand_rows((400, 400, 40), spread_cells((400, 400, 40), 300), masked=True), "natural", "DenseEngine"),
    (on_thousand_rows((60, 50, 40), some_cells((60, 50, 40), 10_001)), "natural-cg", "DenseEngine"),
]


def posed(model: Model) -> Problem:
    """Make a problem of a model; of its data nothing is asked but that they can be summed over the merged cells."""
    data = observe(np.ones((1, 1)))
    return Problem(data, model, np.zeros(model.n_params), given=np.zeros(1))


@pytest.mark.parametrize(("model", "solver", "engine"), LARGE, ids=lambda part: part if isinstance(part, str) else "")
def test_large_bases(model: Model, solver: str, engine: str) -> None:
    assert [chosen.name for chosen in choose(posed(model), certain=True)] == [solver]
    assert type(choose_engine(model, products=solver == "natural-cg")).__name__ == engine


def test_the_plan_of_a_newton_fit() -> None:
    assert str(ld.plan(np.ones((20, 10, 5)), [[1, 1, 0], [10, 0, 3]])).splitlines() == [
        "1,000 cells in the sample space, merged into 12",
        "2 parameters, 2 of them independent",
        "solver natural on the reference engine",
        "one sweep: 3.6e+01 additions",
        "one step: a Fisher matrix of 0.0 MiB, 2.7e+00 flops to factor",
    ]


@pytest.mark.filterwarnings("ignore::legendre.ConvergenceWarning")
def test_the_gap_of_the_closed_form_is_an_upper_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    best = ld.decompose(CUBE, "B1").kl
    exact = JunctionEngine.closed_form
    for error in (1e-4, 0.01, 0.1, 3.0):
        wrong = partial(lambda error, *given: exact(*given) + error, error)
        monkeypatch.setattr(JunctionEngine, "closed_form", lambda *given, wrong=wrong: wrong(*given))
        early = ld.decompose(CUBE, "B1", max_iter=0)
        assert 0 < early.kl - best <= early.gap + 1e-14


@pytest.fixture
def _one_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scaling begin every fit of margins, and give up after one cycle."""
    monkeypatch.setattr(limits, "SCALING_FROM", 1)
    monkeypatch.setattr(limits, "SCALING_CYCLES", 1)


@pytest.mark.usefixtures("_one_cycle")
def test_natural_takes_over_from_scaling() -> None:
    fit = ld.decompose(CUBE, ld.interactions(2))
    reference = ld.decompose(CUBE, ld.interactions(2), solver="natural")
    assert (fit.solver, fit.status) == ("natural", ld.results.Status.CONVERGED)
    assert [step.iteration for step in fit.history] == list(range(fit.n_iter + 1))
    assert fit.n_iter >= 2
    assert_allclose(fit.tensor(), reference.tensor(), rtol=1e-8)
    assert fit.history[0] == reference.history[0]
    scaled = ld.decompose(CUBE, ld.interactions(2), solver="scaling")
    assert fit.history[1] == scaled.history[1]
    # it goes on from there, so that the objective falls all the way
    objective = np.array([step.objective for step in fit.history])
    assert (np.diff(objective) <= 1e-14).all()


@pytest.mark.usefixtures("_one_cycle")
def test_the_callback_sees_the_history_across_solvers() -> None:
    """Called with a `Step` at the start and after every step, says `decompose`: once each, numbered on."""
    seen: list[ld.solvers.Step] = []
    fit = ld.decompose(CUBE, ld.interactions(2), callback=seen.append)
    assert tuple(seen) == fit.history


@pytest.mark.usefixtures("_one_cycle")
def test_a_callback_stops_for_good() -> None:
    with pytest.warns(ld.ConvergenceWarning, match="The callback asked to stop"):
        fit = ld.decompose(CUBE, ld.interactions(2), callback=lambda step: step.iteration == 1)
    assert (fit.solver, fit.n_iter) == ("scaling", 1)


def test_plan_searches_for_no_face(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.ones((2, 2, 2))
    X[0, 0, 0] = X[1, 1, 1] = 0.0
    monkeypatch.setattr("legendre.fitting.fit.search_face", pytest.fail)
    decided = ld.plan(X, ld.interactions(2))
    assert not decided.face.certain
    assert "whether cells vanish in the limit is known after the fit" in str(decided)


def test_the_certificate_proves_existence_before_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros that harm nothing cost no search, with a solver of every kind; the others are searched afterwards."""
    X = np.random.default_rng(0).random((4, 4, 4)) + 0.1
    X[0, 0, 0] = X[1, 2, 3] = 0.0
    monkeypatch.setattr("legendre.core.limits.QUICK_SEARCH", 0)
    corners = X.copy()
    corners[:2, :2, :2] = np.arange(8.0).reshape(2, 2, 2) % 7
    expected = ld.decompose(corners, ld.interactions(2))
    monkeypatch.setattr("legendre.fitting.fit.search_face", pytest.fail)
    for solver in ("auto", "natural", "natural-cg"):
        assert ld.decompose(X, ld.interactions(2), solver=solver).status is ld.results.Status.CONVERGED
    empty = X.copy()
    empty[0, 0] = 0.0  # an empty margin is left out, and the rest is proved
    fit = ld.decompose(empty, ld.interactions(2))
    assert fit.status is ld.results.Status.AT_BOUNDARY
    assert fit.n_vanishing == 4
    assert expected.status in (ld.results.Status.CONVERGED, ld.results.Status.AT_BOUNDARY)
