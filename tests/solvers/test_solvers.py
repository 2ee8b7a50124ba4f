"""Every solver finds the same Q, says how it ended, and loses nothing when it did not get there."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import legendre as ld
from cases import NAMED, Case
from legendre.engines.protocol import Engine, Point
from legendre.solvers.loop import Solver, Target, run
from oracles import FloatArray
from strategies import positive_tensors, problems, seeds, shapes

# Gradient descent may take thousands of steps: too slow to run again and again on ever smaller examples.
UNSHRUNK = [Phase.explicit, Phase.generate]

SOME = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 1.0], [2.0, 2.0, 7.0]])


AGREE: dict[str, tuple[str | Solver, st.SearchStrategy[Case], float]] = {
    "natural": ("natural", problems(), 1e-10),
    "batch gradient": (ld.solvers.Gradient(form="batch"), problems(max_cells=24, max_params=8), 1e-9),
    "gradient": ("gradient", problems(max_cells=16, max_params=4), 1e-9),
    # a rate below 2 / max eigenvalue of G converges; k / 4 bounds the eigenvalues of k features of 0 and 1
    "rate": (ld.solvers.Gradient(form="batch", learning_rate=1.0), problems(max_cells=16, max_params=4), 1e-9),
}


@pytest.mark.parametrize("name", AGREE)
@settings(max_examples=20, phases=UNSHRUNK)
@given(data=st.data())
def test_solvers_agree_with_scipy(name: str, data: st.DataObject) -> None:
    solver, cases, tol = AGREE[name]
    case = data.draw(cases)
    fit = case.fit(solver=solver, tol=tol)
    assert fit.residual <= tol
    assert 0 <= fit.gap < 1e-12
    assert_allclose(case.q(fit), case.answer(), atol=1e-7)


def test_gradient_at_the_boundary() -> None:
    X = np.array([[3.0, 1.0, 0.0], [2.0, 4.0, 0.0], [1.0, 1.0, 0.0]])
    for solver in ("gradient", ld.solvers.Gradient(form="batch")):
        fit = ld.decompose(X, "B1", solver=solver, tol=1e-9)
        assert fit.status is ld.results.Status.AT_BOUNDARY
        assert_allclose(fit.tensor(), ld.decompose(X, "B1").tensor(), atol=1e-7)


def test_small_steps_that_lower_the_residual_are_no_stall() -> None:
    """With the paper's rate every step lowers the residual, by less than a thousandth: it ended STALLED at 4.5e-8."""
    X = np.arange(1.0, 10.0).reshape(3, 3)
    fit = ld.decompose(X, [[1, 0], [0, 1], [1, 1]], solver=ld.solvers.Gradient(learning_rate=0.1), tol=1e-8)
    assert fit.status is ld.results.Status.CONVERGED
    assert fit.residual <= 1e-8


# A heavy-tailed tensor: entries over some ten orders of magnitude, where full Newton steps overshoot.


def wide_tensor(shape: tuple[int, ...], seed: int) -> FloatArray:
    return np.random.default_rng(seed).lognormal(sigma=4.0, size=shape)


def test_the_objective_never_rises() -> None:
    for shape, seed in (((4, 5, 6), 0), ((6, 6, 6), 1)):
        history = ld.decompose(wide_tensor(shape, seed), ld.interactions(2)).history
        # psi and theta . eta_hat are of order 100 here, so that 1e-12 is their rounding
        assert all(b.objective <= a.objective + 1e-12 for a, b in pairwise(history))


@pytest.mark.parametrize("solver", ["natural", "gradient", ld.solvers.Gradient(form="batch")], ids=str)
def test_out_of_steps_warns_and_returns(solver: str | Solver) -> None:
    with pytest.warns(
        ld.ConvergenceWarning, match=r"Stopped at max_iter .* above tol\. .*tol = 1e-10, 2 steps"
    ) as told:
        fit = ld.decompose(SOME, "B1", solver=solver, max_iter=2)
    assert told[0].filename == __file__
    assert fit.status is ld.results.Status.OUT_OF_STEPS
    assert not fit.converged
    assert fit.n_iter == 2
    assert f"{fit.residual:.2e}" in str(told[0].message)
    assert fit.tensor().sum() == pytest.approx(SOME.sum())


def test_tol_zero_stalls_at_rounding() -> None:
    X = wide_tensor((5, 5, 5), 7)
    with pytest.warns(ld.ConvergenceWarning, match=r"What remains is rounding error.*tol = 0, "):
        fit = ld.decompose(X, ld.interactions(2), tol=0)
    assert fit.status is ld.results.Status.STALLED
    assert fit.residual < 1e-14
    assert_allclose(fit.tensor(), ld.decompose(X, ld.interactions(2)).tensor(), rtol=1e-6)


@pytest.mark.parametrize("solver", ["natural", ld.solvers.Gradient(form="batch")], ids=str)
def test_the_history_records_the_way(solver: str | Solver) -> None:
    case = NAMED["cube"]
    fit = case.fit(solver=solver, tol=1e-9)
    assert [step.iteration for step in fit.history] == list(range(fit.n_iter + 1))
    last, first = fit.history[-1], fit.history[0]
    assert last.residual <= 1e-9 < first.residual
    assert first.step == 0.0
    assert all(step.step > 0 for step in fit.history[1:])
    assert all(step.residual <= step.residual_norm * (1 + 1e-12) for step in fit.history)
    # the objective is KL(P, Q) less a constant of the data, -entropy
    assert last.objective + float(case.p @ np.log(case.p)) == pytest.approx(fit.kl, abs=1e-10)


@settings(max_examples=40)
@given(problems(max_cells=24, weighted=True), seeds)
def test_the_gap_bounds_kl_above_its_minimum_near_it(case: Case, seed: int) -> None:
    best = case.fit()
    start = best.theta + 1e-3 * np.random.default_rng(seed).normal(size=len(case.basis))
    early = case.fit(start=start, tol=1.0)
    assert early.kl - best.kl <= early.gap + 1e-14


@pytest.mark.parametrize("X", [[1e-6, 1.0], [1.0, 2.0], [1.0, 1e3, 1.0], [5.0, 1.0, 1e-3]], ids=str)
@pytest.mark.filterwarnings("ignore::legendre.ConvergenceWarning")
def test_the_gap_bounds_kl_above_its_minimum_on_the_way(X: list[float]) -> None:
    """`gap` is documented, and shown by `summary`, as a bound, wherever the run ended."""
    best = ld.decompose(X, ld.full())
    for steps in range(best.n_iter):
        early = ld.decompose(X, ld.full(), max_iter=steps)
        assert early.kl - best.kl <= early.gap + 1e-12, f"after {steps} steps"


@dataclass
class Counting:
    """An engine that counts how often it is asked for the Fisher matrix: every time it is factorised."""

    engine: Engine
    asked: list[Point] = field(default_factory=list)

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        self.asked.append(point)
        self.engine.fill_fisher(point, g)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


def test_the_last_step_saves_a_factorisation() -> None:
    """A chord step, with the factor of the step before, ends most fits."""
    saved = 0
    for seed in range(6):
        X = np.random.default_rng(seed).lognormal(size=(6, 6, 6))
        decided = ld.plan(X, ld.B3(6), solver="natural", tol=1e-10)
        engine: Any = Counting(decided.target.engine)
        target = Target(engine, decided.target.problem, 1e-10)
        outcome = run(ld.solvers.Natural(), target, np.zeros(decided.target.engine.n_params), 500)
        assert outcome.status is ld.results.Status.CONVERGED
        saved += len(outcome.history) - 1 - len(engine.asked)
    assert saved >= 3


def test_a_solver_of_another_kind_is_refused_before_X_is_read() -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=r"a name or a solver object .* from legendre\.solvers\.Solver"):
        ld.decompose("no tensor at all", "B1", solver=ld.solvers.Natural)  # type: ignore[arg-type]


@settings(max_examples=20)
@given(
    shapes(max_cells=12).flatmap(positive_tensors),
    st.sampled_from([(1.0, "sweep"), (4.0, "sweep"), (8.0, "sweep"), (8.0, "batch")]),
)
def test_gradient_descent_never_raises_kl_up_to_a_rate_of_8(X: FloatArray, drawn: tuple[float, Any]) -> None:
    """A variance of 0 or 1 is at most 1/4, so that KL falls up to 2 / (1/4); all together at most |B| / 4."""
    rate, form = drawn
    n_params = X.size - 1
    solver = ld.solvers.Gradient(rate / n_params if form == "batch" and n_params else rate, form)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        fit = ld.decompose(X, "full", solver=solver, max_iter=30)
    objectives = np.array([step.objective for step in fit.history])
    assert (np.diff(objectives) <= 1e-14 * (1 + np.abs(objectives[1:]))).all()


class Painting(Solver):
    """A solver that claims the data's expectations for its own."""

    def start(self, target: Any, theta: Any) -> Any:
        """Begin, and claim to have ended."""
        claimed = {"eta": target.problem.eta_hat.copy(), "gradient": 0.0 * theta, "residual": 0.0}
        return ld.solvers.State(replace(target.at(theta), **claimed))

    def advance(self, target: Any, state: Any) -> Any:
        """Stay."""
        return self.start(target, state.point.theta)


def test_what_a_solver_says_of_eta_is_computed_anew() -> None:
    with pytest.warns(ld.ConvergenceWarning):
        fit = ld.decompose([[1, 2], [3, 5]], "B1", solver=Painting())
    assert not fit.converged
    assert fit.residual == pytest.approx(0.2273, abs=1e-4)
