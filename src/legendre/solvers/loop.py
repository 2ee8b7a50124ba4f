"""What a solver is and what it receives; and the loop that runs it: budget, stopping, history, callback, status."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from enum import Enum
from sys import float_info
from typing import Any, ClassVar

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.engines.protocol import Engine, Point, Preconditioner
from legendre.model.problem import Problem


class Status(Enum):
    """How the fit ended and what to do next.

    ``max|eta - eta_hat|`` is over all of B, dependent parameters included. It is at most tol if and only if the fit has
    `converged`.

    See Also
    --------
    Decomposition : The result of `decompose`.
    legendre.errors.ConvergenceWarning : A fit that did not reach its tolerance.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 5]], "B1")
    >>> fit.status is ld.results.Status.CONVERGED, fit.status.converged
    (True, True)
    """

    CONVERGED = "max|eta - eta_hat| <= tol, and a finite minimiser exists."
    AT_BOUNDARY = (
        "max|eta - eta_hat| <= tol, but no finite theta attains the minimum: the result is the limit Q, in which "
        "`vanishing_cells` have probability 0. Leave them out of the support for an ordinary fit with the same Q."
    )
    UNDECIDED = (
        "max|eta - eta_hat| <= tol, but the problem is too large to decide whether a finite minimiser exists (or "
        "margins to balance to are below 1e-8 of their sum, which a linear program cannot distinguish from 0). "
        "Q is right to tol; some parameters may be diverging. support='nonzero' rules that out."
    )
    OUT_OF_STEPS = "Stopped at max_iter with max|eta - eta_hat| above tol. Raise max_iter or loosen tol."
    STALLED = (
        "No step brought max|eta - eta_hat| further down. What remains is rounding error (loosen tol to the residual "
        "reached), or a learning rate was too large (lower it)."
    )
    STOPPED = "The callback asked to stop before max|eta - eta_hat| <= tol."

    @property
    def converged(self) -> bool:
        """True when max|eta - eta_hat| <= tol."""
        return self in (Status.CONVERGED, Status.AT_BOUNDARY, Status.UNDECIDED)


@frozen(kw_only=True)
class Evaluation(Point):
    """A point of the model, and how far it is from the minimum.

    See Also
    --------
    legendre.solvers.Point : A member of the model.
    legendre.solvers.Target : What a solver is given.

    Examples
    --------
    >>> import legendre as ld
    >>> class Watched(ld.solvers.Natural):
    ...     def advance(self, target, state):
    ...         print(state.point.gradient.shape, state.point.residual < 0.5)
    ...         return super().advance(target, state)
    >>> fit = ld.decompose([[1, 2, 3], [3, 5, 1]], "B1", solver=Watched())
    (3,) True
    (3,) True
    (3,) True
    """

    objective: float  # psi(theta) - theta . eta_hat: KL(P, Q) up to a constant of the data
    gradient: FloatArray  # eta - eta_hat, the gradient of KL(P, Q) in theta
    residual: float  # max|eta - eta_hat| of the gradient: 0 exactly at the decomposition


@frozen
class Target:
    """What a solver receives: an engine for independent parameters, the expectations to meet, and the tolerance.

    See Also
    --------
    legendre.solvers.Solver : The base of all solvers.
    legendre.solvers.Evaluation : A point and how far it is from the minimum.

    Examples
    --------
    >>> import legendre as ld
    >>> class Watched(ld.solvers.Natural):
    ...     def advance(self, target, state):
    ...         print(target.engine.n_params, target.tol, target.at(state.point.theta).residual < 0.5)
    ...         return super().advance(target, state)
    >>> fit = ld.decompose([[1, 2, 3], [3, 5, 1]], "B1", solver=Watched())
    3 1e-10 True
    3 1e-10 True
    3 1e-10 True
    """

    engine: Engine
    problem: Problem
    tol: float
    _: KW_ONLY
    full: Target | None = None  # if parameters that depend on others are left out: the problem with all parameters
    columns: IntArray | None = None  # then, which of all parameters are kept
    attained: bool = True  # False: it is not known whether a finite theta attains the minimum; the tilt is to prove it
    inverse: Preconditioner | None = None  # an approximate inverse of the Fisher matrix at the start, if known

    def residual(self, point: Evaluation) -> float:
        """``max|eta - eta_hat|`` on all of B: at a dependent parameter it may be larger than at all others."""
        return self.complete(point).residual

    def complete(self, point: Evaluation) -> Evaluation:
        """Return the same member of the model with all parameters; dependent ones, which were left out, are 0.

        Convergence is decided on all of B, not only on the parameters that the solver sees.
        """
        if self.full is None or len(point.theta) == self.full.engine.n_params:
            return point
        theta = np.zeros(self.full.engine.n_params)
        theta[self.columns] = point.theta
        return self.full.at(theta)

    def at(self, theta: FloatArray) -> Evaluation:
        """Evaluate the model at theta: psi and eta, and how far eta is from eta_hat."""
        theta = np.asarray(theta, dtype=np.float64)  # a user's solver may pass a list or another type of numbers
        if theta.shape != self.problem.eta_hat.shape:
            k = len(self.problem.eta_hat)
            raise InvalidSetting(f"the solver evaluates theta of shape {theta.shape}; there are {k} parameters.")
        return self.evaluate(self.engine.at(theta))

    def evaluate(self, point: Point) -> Evaluation:
        """Add the objective, the gradient and the residual to a point that an engine has computed."""
        eta_hat = self.problem.eta_hat
        gradient = point.eta - eta_hat
        return Evaluation(
            point.theta,
            point.eta,
            point.psi,
            point.cache,
            objective=point.psi - float((point.theta * eta_hat).sum()),
            gradient=gradient,
            residual=float(np.abs(gradient).max(initial=0.0)),
        )


@frozen
class State:
    """What a solver carries from step to step.

    See Also
    --------
    legendre.solvers.Solver : The base of all solvers.
    legendre.solvers.Evaluation : A point and how far it is from the minimum.

    Examples
    --------
    >>> import legendre as ld
    >>> class Watched(ld.solvers.Natural):
    ...     def advance(self, target, state):
    ...         print(state.step, state.gap)
    ...         return super().advance(target, state)
    >>> fit = ld.decompose([[1, 2, 3], [3, 5, 1]], "B1", solver=Watched())
    0.0 inf
    1.0 inf
    1.0 inf
    """

    point: Evaluation  # the current member of the model, from `Target.at` or `Target.evaluate`
    memory: Any = None  # whatever else the solver needs; nothing else reads it
    step: float = 0.0  # the step length that led here
    gap: float = np.inf  # an upper bound on KL(P, Q) minus its minimum; infinite while the solver has none
    # The bound is proved with a distribution m that has P's expectations (`newton.newton_bound`). In every cell m
    # differs from Q by at most this share of Q. A tilt clearly below 1 shows that m is positive, so a finite theta
    # exists.
    tilt: float = np.inf


class Solver(ABC):
    """A method: its settings, what it needs, and its step. Derive from it to write your own.

    A solver of your own defines `advance`; everything else has a default here. Every solver has the
    settings `max_iter`, the largest number of steps unless the caller sets one, and `patience`, the number of steps
    without progress that end the fit, because what remains is rounding error.

    See Also
    --------
    legendre.solvers.Target : What a solver is given.
    legendre.solvers.State : What a solver carries from step to step.
    legendre.solvers.Step : What is recorded of a step.
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> class Downhill(ld.solvers.Solver):
    ...     def advance(self, target, state):
    ...         step = 8 / (1 + target.engine.n_params)
    ...         return ld.solvers.State(target.at(state.point.theta - step * state.point.gradient), step=step)
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Downhill(), tol=1e-8).converged
    True
    """

    name: ClassVar[str] = "your own"  # the name by which `decompose` and summaries know it
    max_iter: int = 500
    patience: int = 5
    accepts_dependent: ClassVar[bool] = False  # parameters may be linearly dependent on the sample space

    def start(self, target: Target, theta: FloatArray) -> State:
        """Make the first state, at theta."""
        return State(target.at(theta))

    @abstractmethod
    def advance(self, target: Target, state: State) -> State | None:
        """Take one step; ``None`` if there is no better point up to rounding, or another solver should continue."""

    def finish(self, target: Target, state: State) -> State:
        """Return the state to report, once the loop has ended: with a last correction, or a bound on the gap."""
        del target
        return state


@dataclass(frozen=True)
class Step:
    """What is recorded of a step.

    See Also
    --------
    legendre.solvers.Solver : The base of all solvers.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 9]], "B1", solver="natural")
    >>> fit.history[-1].residual < 1e-8
    True
    """

    iteration: int  # 0 for the start
    objective: float  # psi - theta . eta_hat
    residual: float  # max|eta - eta_hat| of the parameters that are fitted: dependent ones are held at 0
    residual_norm: float  # the 2-norm of eta - eta_hat, which the authors' program prints
    step: float  # the step length; 1 is a full natural-gradient step


Callback = Callable[[Step], bool | None]


@frozen
class Outcome:
    """Where and how the loop ended."""

    point: Evaluation
    full: Evaluation  # the same with all parameters, see `Target.complete`
    status: Status
    history: tuple[Step, ...]
    gap: float  # an upper bound on KL(P, Q) minus its minimum, see `State`
    tilt: float  # see `State`
    solver: Solver  # the last one that ran


def run_in_turn(
    solvers: Sequence[Solver],
    target: Target,
    theta: FloatArray,
    *,
    max_iter: int | None,
    callback: Callback | None = None,
) -> Outcome:
    """Run solvers one after the other until one converges; each starts where the one before it gave up.

    Every solver has its own limit of steps. `max_iter`, if it is given, limits the steps of all solvers together, and
    the last solver may use all that is left of it. The history, whose first entry is the start, continues.
    """
    history: tuple[Step, ...] = ()
    for solver in solvers:
        limit = solver.max_iter
        if max_iter is not None:
            left = max_iter - len(history[1:])
            limit = left if solver is solvers[-1] else min(left, limit)
        outcome = run(solver, target, theta, limit, callback, history)
        history = outcome.history
        if outcome.status in (Status.CONVERGED, Status.STOPPED) or len(history) - 1 == max_iter:
            break
        if np.isfinite(outcome.point.theta).all():  # else the next solver starts where this one did
            theta = outcome.point.theta
    return outcome


def run(
    solver: Solver,
    target: Target,
    theta: FloatArray,
    max_iter: int,
    callback: Callback | None = None,
    before: tuple[Step, ...] = (),
) -> Outcome:
    """Take steps until ``max|eta - eta_hat| <= tol``, `max_iter` is reached, progress ends or the callback stops it.

    Progress is measured against `mark`, the last point that was clearly better than the mark before it; `idle` counts
    the steps since then. `before` are the steps of an earlier solver, which ended at theta.
    """
    history, state = list(before), solver.start(target, theta)
    if not before:
        history.append(_record(state, 0))
    first, best, mark, idle, stopped = len(history), state, state.point, 0, False
    # a step that overflows is rejected, or ends the fit with the status STALLED: no warning of NumPy's is needed
    with np.errstate(over="ignore", invalid="ignore"):
        while True:
            point = state.point
            if callback is not None and len(history) > len(before):  # an earlier solver reported its last step itself
                stopped = bool(callback(history[-1]))
            # all of B is within tol, not only the parameters that are fitted
            if point.residual <= target.tol and target.residual(point) <= target.tol:
                outcome = _finish(solver, target, state, Status.STALLED, history)
                if outcome.status is Status.CONVERGED:
                    return outcome
            status = Status.STALLED
            if not math.isfinite(point.objective + point.residual):
                pass  # diverged: STALLED, at the best point so far
            elif stopped:
                status = Status.STOPPED
            elif idle < solver.patience and len(history) - first >= max_iter:
                status = Status.OUT_OF_STEPS
            elif idle < solver.patience and (following := solver.advance(target, state)) is not None:
                state, after, idle = following, following.point, idle + 1
                # progress: the objective falls by more than its rounding error, or the residual by 0.1 %
                noise = 4 * float_info.epsilon * (abs(mark.objective) + 1.0)
                if after.objective < mark.objective - noise or after.residual < 0.999 * mark.residual:
                    mark, idle = after, 0  # the mark stays otherwise, so that small steps can add up to progress
                best = state if after.residual < best.point.residual else best
                history.append(_record(state, len(history)))
                continue
            # a fit that stalls returns the point with the smallest residual, not the last one
            return _finish(solver, target, best if status is Status.STALLED else state, status, history)


def _finish(solver: Solver, target: Target, state: State, otherwise: Status, history: list[Step]) -> Outcome:
    """Let the solver finish, and decide the status from the point that it returns.

    The fit has converged if and only if max|eta - eta_hat| of all parameters is at most tol there; otherwise the status
    is `otherwise`.
    """
    final = solver.finish(target, state)
    if not type(solver).__module__.startswith("legendre."):  # a user's solver may have returned a wrong eta or residual
        final = replace(final, point=target.at(final.point.theta))
    full = target.complete(final.point)
    status = Status.CONVERGED if full.residual <= target.tol else otherwise
    return Outcome(final.point, full, status, tuple(history), final.gap, final.tilt, solver)


def _record(state: State, iteration: int) -> Step:
    """Make the entry of the history for a state."""
    point = state.point
    norm = math.sqrt(float(np.square(point.gradient).sum()))
    return Step(iteration, point.objective, point.residual, norm, state.step)
