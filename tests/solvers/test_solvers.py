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
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import NAMED, SMALL, Case
from legendre.data.dense import observe
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.problem import Problem
from legendre.solvers.choose import SOLVERS, read_solver
from legendre.solvers.loop import run
from legendre.solvers.protocol import Solver, State, Target
from oracles import FloatArray
from strategies import positive_tensors, problems, seeds, shapes

# Gradient descent may take thousands of steps: too slow to run again and again on ever smaller examples.
UNSHRUNK = [Phase.explicit, Phase.generate]

SOME = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 1.0], [2.0, 2.0, 7.0]])


def agree(case: Case, solver: str | Solver, tol: float = 1e-10) -> None:
    fit = case.fit(solver=solver, tol=tol)
    assert fit.converged
    assert fit.residual <= tol
    assert 0 <= fit.gap < 1e-12
    assert_allclose(case.q(fit), case.answer(), atol=1e-7)


@given(problems())
def test_natural_agrees_with_scipy(case: Case) -> None:
    agree(case, "natural")


@settings(max_examples=40)
@given(problems(max_cells=24))
def test_m_projection_agrees_with_scipy(case: Case) -> None:
    agree(case, "m-projection")


@settings(max_examples=40, phases=UNSHRUNK)
@given(problems(max_cells=24, max_params=8))
def test_batch_gradient_agrees_with_scipy(case: Case) -> None:
    agree(case, ld.solvers.Gradient(form="batch"), tol=1e-9)


@settings(max_examples=25, phases=UNSHRUNK)
@given(problems(max_cells=16, max_params=4))
def test_gradient_sweep_agrees_with_scipy(case: Case) -> None:
    agree(case, "gradient", tol=1e-9)


@settings(max_examples=25, phases=UNSHRUNK)
@given(problems(max_cells=16, max_params=4))
def test_gradient_with_a_learning_rate_agrees_with_scipy(case: Case) -> None:
    """A rate below 2 / max eigenvalue of G converges; k / 4 bounds the eigenvalues of k features of 0 and 1."""
    agree(case, ld.solvers.Gradient(form="batch", learning_rate=4 / max(1, len(case.basis))), tol=1e-9)


@settings(max_examples=15, phases=UNSHRUNK)
@given(problems(max_cells=12, max_params=3))
def test_gradient_sweep_with_a_learning_rate_agrees_with_scipy(case: Case) -> None:
    agree(case, ld.solvers.Gradient(learning_rate=1.5), tol=1e-9)


@settings(max_examples=40)
@given(problems(max_cells=24, weighted=True))
def test_m_projection_with_a_base_measure(case: Case) -> None:
    agree(case, "m-projection")


@pytest.mark.parametrize("name", sorted(SMALL))
def test_batch_gradient_on_named_cases(name: str) -> None:
    """The other solvers are in the table of test_solver_acceptance.py."""
    agree(SMALL[name], ld.solvers.Gradient(form="batch"), tol=1e-9)


@settings(max_examples=40)
@given(problems(max_cells=16, zeros=True))
def test_m_projection_with_zeros_in_p(case: Case) -> None:
    """P itself is no start where it has zeros: an interior point with the same expectations is."""
    fit, other = case.fit(), case.fit(solver="m-projection")
    assert_allclose(case.q(other), case.q(fit), atol=1e-7)
    assert other.status is fit.status


def test_gradient_at_the_boundary() -> None:
    X = np.array([[3.0, 1.0, 0.0], [2.0, 4.0, 0.0], [1.0, 1.0, 0.0]])
    for solver in ("gradient", ld.solvers.Gradient(form="batch")):
        fit = ld.decompose(X, "B1", solver=solver, tol=1e-9)
        assert fit.status is ld.results.Status.AT_BOUNDARY
        assert_allclose(fit.tensor(), ld.decompose(X, "B1").tensor(), atol=1e-7)


# A heavy-tailed tensor: entries over some ten orders of magnitude, where full Newton steps overshoot.
WIDE = [
    ((6, 6, 6), 0),
    ((6, 6, 6), 1),
    ((12, 10), 2),
    ((4, 3, 4, 3), 3),
    ((40,), 4),
    ((8, 8, 8), 5),
    ((5, 5, 5), 3),
    ((5, 5, 5), 53),
]


def wide_tensor(shape: tuple[int, ...], seed: int) -> FloatArray:
    return np.random.default_rng(seed).lognormal(sigma=4.0, size=shape)


def wide_bases(order: int) -> list[ld.Basis]:
    return [ld.interactions(min(2, order)), ld.B1() | ld.B3(4), ld.B1()]


@pytest.mark.parametrize(("shape", "seed"), WIDE)
def test_lognormal_tensors_converge(shape: tuple[int, ...], seed: int) -> None:
    for basis in wide_bases(len(shape)):
        fit = ld.decompose(wide_tensor(shape, seed), basis)
        assert fit.status is ld.results.Status.CONVERGED, basis
        assert fit.residual <= 1e-10, basis
        assert np.isfinite(fit.tensor()).all(), basis


def undamped_residuals(X: FloatArray, basis: ld.Basis, steps: int) -> list[float]:
    """Algorithm 2 as printed: full steps, whatever they do."""
    data = observe(X)
    problem = Problem.of(data, basis.select(data))
    engine = ReferenceEngine(problem.model)
    theta = np.zeros(problem.model.n_params)
    residuals = []
    for _ in range(steps):
        with np.errstate(all="ignore"):
            point = engine.at(theta)
        residuals.append(float(np.abs(point.eta - problem.eta_hat).max()))
        if not np.isfinite(residuals[-1]):
            break
        step, *_ = np.linalg.lstsq(engine.fisher(point), problem.eta_hat - point.eta, rcond=None)
        theta = theta + step
    return residuals


def test_full_steps_alone_diverge_where_ours_converge() -> None:
    stuck = []
    for shape, seed in WIDE[:3]:
        residuals = undamped_residuals(wide_tensor(shape, seed), ld.interactions(2), 30)
        stuck.append(not residuals[-1] <= max(1e-6, 1e-3 * residuals[0]))
    assert any(stuck)


def test_a_full_step_is_kept_where_it_is_good() -> None:
    history = ld.decompose(SOME, "B1").history
    assert [step.step for step in history[1:]] == [1.0] * (len(history) - 1)


def test_the_objective_never_rises() -> None:
    for shape, seed in WIDE[:4]:
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


def test_no_steps_returns_the_start() -> None:
    start = np.array([0.1, 0.2, -0.3, 0.4])
    with pytest.warns(ld.ConvergenceWarning, match="0 steps"):
        fit = ld.decompose(SOME, "B1", solver="natural", max_iter=0, start=start)
    assert_array_equal(fit.theta, start)
    assert len(fit.history) == 1


def test_tol_zero_stalls_at_rounding() -> None:
    X = wide_tensor((5, 5, 5), 7)
    with pytest.warns(ld.ConvergenceWarning, match=r"What remains is rounding error.*tol = 0, "):
        fit = ld.decompose(X, ld.interactions(2), tol=0)
    assert fit.status is ld.results.Status.STALLED
    assert fit.residual < 1e-14
    assert_allclose(fit.tensor(), ld.decompose(X, ld.interactions(2)).tensor(), rtol=1e-6)


def test_the_callback_sees_every_step_and_may_stop() -> None:
    seen: list[ld.solvers.Step] = []

    def third(step: ld.solvers.Step) -> bool:
        seen.append(step)
        return step.iteration == 2

    with pytest.warns(ld.ConvergenceWarning, match="The callback asked to stop"):
        fit = ld.decompose(SOME, "B1", solver="natural", callback=third)
    assert fit.status is ld.results.Status.STOPPED
    assert [step.iteration for step in seen] == [0, 1, 2]
    assert fit.history == tuple(seen)


def test_a_callback_that_returns_nothing_changes_nothing() -> None:
    seen: list[ld.solvers.Step] = []
    fit = ld.decompose(SOME, "B1", callback=seen.append)
    assert_array_equal(fit.theta, ld.decompose(SOME, "B1").theta)
    assert fit.history == tuple(seen)


def test_a_callback_that_stops_at_the_minimum_has_not_stopped_it() -> None:
    fit = ld.decompose(SOME, "B1", callback=lambda step: step.residual <= 1e-10)
    assert fit.status is ld.results.Status.CONVERGED


@pytest.mark.parametrize("solver", ["natural", "m-projection", ld.solvers.Gradient(form="batch")], ids=str)
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


def test_the_first_record_is_the_uniform_distribution() -> None:
    fit = ld.decompose(SOME, "B1", solver="natural")
    uniform = ld.dual.to_eta(np.ones((3, 3)))[tuple(fit.basis.T)]
    assert fit.history[0].objective == pytest.approx(np.log(9))
    assert fit.history[0].residual == pytest.approx(np.abs(uniform - fit.eta_hat).max())
    assert fit.history[0].residual_norm == pytest.approx(np.linalg.norm(uniform - fit.eta_hat))


@given(problems())
def test_the_gap_of_a_converged_fit_is_tiny(case: Case) -> None:
    assert 0 <= case.fit().gap < 1e-15


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


def test_dependent_parameters() -> None:
    """On two cells one of three features is enough: Q is unique, theta is chosen once and for all."""
    case = NAMED["dependent"]
    fit = case.fit()
    assert (fit.n_params, fit.rank) == (3, 1)
    assert_allclose(case.q(fit), case.p, rtol=1e-9)
    assert np.count_nonzero(fit.theta) == 1
    assert_array_equal(case.fit().theta, fit.theta)


@given(problems())
def test_the_rank_is_that_of_the_features(case: Case) -> None:
    centred = case.Z - case.Z.mean(axis=0)
    fit = case.fit()
    assert fit.rank == (np.linalg.matrix_rank(centred) if centred.size else 0)
    assert np.count_nonzero(fit.theta) <= fit.rank


@given(problems())
def test_the_same_input_gives_the_same_bits(case: Case) -> None:
    fit, again = case.fit(), case.fit()
    assert_array_equal(again.theta, fit.theta)
    assert again.psi == fit.psi
    assert_array_equal(again.tensor(), fit.tensor())


def test_names_and_settings() -> None:
    assert {"closed", "gradient", "m-projection", "natural", "natural-cg", "matrix-scaling", "scaling"} == set(SOLVERS)
    assert read_solver("auto") is None
    mine = ld.solvers.Gradient(form="batch", max_iter=7)
    assert read_solver(mine) is mine
    assert ld.decompose(SOME, "B1", solver=ld.solvers.Natural()).solver == "natural"


class Careful(Solver):
    """A solver of one's own: nothing but a start and a step."""

    def start(self, target: Target, theta: FloatArray) -> State:
        return State(target.at(theta))

    def advance(self, target: Target, state: State) -> State | None:
        return State(target.at(state.point.theta - 2.0 * state.point.gradient), step=2.0)


def test_a_solver_of_ones_own_needs_a_start_and_a_step() -> None:
    fit = ld.decompose(SOME, "B1", solver=Careful(), max_iter=5000)
    assert (fit.converged, fit.solver) == (True, "your own")
    assert_allclose(fit.tensor(), ld.decompose(SOME, "B1").tensor(), rtol=1e-7)


class Boasting(Solver):
    """A solver that hands out points with a residual of its own making."""

    def start(self, target: Any, theta: Any) -> Any:
        """Begin."""
        return self.advance(target, ld.solvers.State(target.at(theta)))

    def advance(self, target: Any, state: Any) -> Any:
        """Stay where it is."""
        return ld.solvers.State(replace(target.at(state.point.theta), residual=0.0))


def test_a_solver_cannot_claim_to_have_converged() -> None:
    with pytest.warns(ld.ConvergenceWarning):
        fit = ld.decompose([[1, 2], [3, 5]], "B1", solver=Boasting())
    assert fit.status is not ld.results.Status.CONVERGED
    assert fit.residual > 0.01


class Painting(Boasting):
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
    assert fit.status is not ld.results.Status.CONVERGED
    assert fit.residual == pytest.approx(0.2273, abs=1e-4)


class Downhill(Solver):
    """A solver that holds theta in some other form."""

    def __init__(self, form: Any) -> None:
        self.form = form

    def start(self, target: Any, theta: Any) -> Any:
        """Begin."""
        return ld.solvers.State(target.at(theta))

    def advance(self, target: Any, state: Any) -> Any:
        """Go down."""
        return ld.solvers.State(target.at(self.form(state.point.theta - 2 * state.point.gradient)))


def test_a_solver_that_forgets_parameters_is_a_sentence() -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=r"theta of shape \(1,\); there are 2 parameters"):
        ld.decompose([[1, 2], [3, 5]], "B1", solver=Downhill(lambda theta: theta[:1]))


def test_the_solver_brings_its_own_budget() -> None:
    with pytest.warns(ld.ConvergenceWarning, match="1 steps"):
        fit = ld.decompose(SOME, "B1", solver=ld.solvers.Natural(max_iter=1))
    assert fit.n_iter == 1


def test_m_projection_refuses_what_is_too_large() -> None:
    X = np.arange(1.0, 4802.0)
    with pytest.raises(
        ld.errors.InvalidSetting, match=r"4,801 merged cells are more than 4,000\. Use solver='natural'"
    ):
        ld.decompose(X, ld.full(), solver="m-projection")


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[ld.solvers.Step] = []
    fit = ld.decompose(SOME, "B1", progress=True, callback=seen.append)
    assert fit.history == tuple(seen)
    assert capsys.readouterr().out == ""


@dataclass
class Counting:
    """An engine that counts how often it is asked for the Fisher matrix: every time it is factorised."""

    engine: Engine
    asked: list[Point] = field(default_factory=list)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        self.asked.append(point)
        return self.engine.fisher(point, out)

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
        outcome = run(ld.solvers.Natural(), target, np.zeros(len(decided.columns)), 500)
        assert outcome.status is ld.results.Status.CONVERGED
        saved += len(outcome.history) - 1 - len(engine.asked)
    assert saved >= 3


def test_a_solver_of_another_kind_is_refused_before_X_is_read() -> None:
    with pytest.raises(ld.errors.InvalidSetting, match=r"a name or a solver object .* from legendre\.solvers\.Solver"):
        ld.decompose("no tensor at all", "B1", solver=ld.solvers.Natural)  # type: ignore[arg-type]


@pytest.mark.parametrize("solver", ["natural", "natural-cg", "scaling", "closed"], ids=str)
@pytest.mark.parametrize("sigma", [1.0, 4.0, 8.0])
def test_solvers_of_one_body_bases_agree(solver: str | Solver, sigma: float) -> None:
    X = np.random.default_rng(5).lognormal(sigma=sigma, size=(7, 6, 5))
    fit = ld.decompose(X, "B1", solver=solver, tol=1e-12)
    product = np.multiply.outer(np.multiply.outer(X.sum((1, 2)), X.sum((0, 2))), X.sum((0, 1))) / X.sum() ** 2
    assert_allclose(fit.tensor() / X.sum(), product / X.sum(), atol=1e-11)


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


@pytest.mark.parametrize(("rate", "rises"), [(4.0, False), (8.0, False), (8.5, True)])
def test_beyond_a_rate_of_8_gradient_descent_may_raise_kl(rate: float, rises: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ld.ConvergenceWarning)
        fit = ld.decompose([0.499, 0.501], "full", solver=ld.solvers.Gradient(rate), max_iter=1)
    assert (fit.history[1].objective > fit.history[0].objective) is rises
