"""The loop: budget, stopping, history, and callback for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from legendre.core.types import AnyArray, FloatArray
from legendre.solvers.protocol import Evaluation, Solver, State, Target
from legendre.solvers.status import Status


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


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where and how the loop ended."""

    point: Evaluation
    status: Status
    history: tuple[Step, ...]
    gap: float  # how far above the minimum at most, see `State`
    tilt: float
    solver: Solver  # the one that came last


def run_in_turn(
    solvers: Sequence[Solver],
    target: Target,
    theta: FloatArray,
    *,
    max_iter: int | None,
    callback: Callback | None = None,
) -> Outcome:
    """Run solvers one after the other until one converges; each goes on from where the one before it gave up."""
    history: tuple[Step, ...] = ()
    for turn, solver in enumerate(solvers):
        last = turn == len(solvers) - 1
        done = len(history[1:])
        limit = solver.max_iter
        if max_iter is not None:
            limit = max_iter - done if last else min(max_iter - done, limit)
        outcome = run(solver, target, theta, limit, _renumbered(callback, done))
        fresh = outcome.history[1 if history else 0 :]
        history += tuple(replace(step, iteration=step.iteration + done) for step in fresh) if done else fresh
        if outcome.status in (Status.CONVERGED, Status.STOPPED) or len(history) - 1 == max_iter:
            break
        if np.isfinite(outcome.point.theta).all():
            theta = outcome.point.theta
    return replace(outcome, history=history)


def _renumbered(callback: Callback | None, done: int) -> Callback | None:
    """Count a later solver's steps on from the earlier one's; its start was seen as the earlier one's end."""
    if callback is None or not done:
        return callback

    def renumbered(step: Step) -> bool | None:
        return None if not step.iteration else callback(replace(step, iteration=step.iteration + done))

    return renumbered


def run(
    solver: Solver,
    target: Target,
    theta: FloatArray,
    max_iter: int,
    callback: Callback | None = None,
) -> Outcome:
    """Step until ``max|eta - eta_hat| <= tol``, the budget is spent, progress ends or the callback stops it."""
    state = solver.start(target, theta)
    walk = Walk(solver, target, [_recorded(state, 0)], Position(state, state, state.point.objective))
    # a step that overflows is no step, or ends the fit STALLED: no warning is needed
    with np.errstate(over="ignore", invalid="ignore"):
        return walk.to_the_end(max_iter, callback)


@dataclass(frozen=True, eq=False)
class Position:
    """Where a fit stands: the state, the one of lowest residual, and for how many steps nothing has improved."""

    state: State
    best: State
    objective: float  # the lowest so far
    idle: int = 0
    n_steps: int = 0

    def after(self, state: State) -> Position:
        point, lowest = state.point, self.best.point.residual
        blur = 4 * float(np.finfo(np.float64).eps) * (abs(self.objective) + 1.0)
        progress = point.objective < self.objective - blur or point.residual < 0.999 * lowest
        best, idle = state if point.residual < lowest else self.best, 0 if progress else self.idle + 1
        return Position(state, best, min(self.objective, point.objective), idle, self.n_steps + 1)


@dataclass(eq=False)
class Walk:
    """A fit on its way; `place` changes in one assignment, so that an interrupt finds it whole."""

    solver: Solver
    target: Target
    history: list[Step]
    place: Position

    @property
    def last(self) -> Step:
        return self.history[self.place.n_steps]

    def advance(self) -> bool:
        following = self.solver.advance(self.target, self.place.state)
        if following is None:
            return False
        place = self.place.after(following)
        self.history[place.n_steps :] = [_recorded(following, place.n_steps)]
        self.place = place
        return True

    def to_the_end(self, max_iter: int, callback: Callback | None) -> Outcome:
        while True:
            stop = callback is not None and bool(callback(self.last))
            if self._arrived() and (end := self._finished(self.place.state, Status.STALLED)).status is Status.CONVERGED:
                return end
            status = self._status(max_iter, stop)
            if status is None:
                if self.advance():
                    continue
                status = Status.STALLED
            best = status is Status.STALLED and self.solver.convex
            return self._finished(self.place.best if best else self.place.state, status)

    def _arrived(self) -> bool:
        """Whether all of B is within tol, not only the parameters that are fitted; looked at when those are."""
        return self.last.residual <= self.target.tol and self.target.residual(self.place.state.point) <= self.target.tol

    def _finished(self, state: State, otherwise: Status) -> Outcome:
        """Finish: the fit has converged exactly if max|eta - eta_hat| of what is handed out is at most tol."""
        final = self.solver.finish(self.target, state)
        if self.solver.foreign:  # eta and residual are then what somebody put there
            final = replace(final, point=self.target.at(final.point.theta))
        status = Status.CONVERGED if self.target.residual(final.point) <= self.target.tol else otherwise
        return Outcome(final.point, status, tuple(self.history), final.gap, final.tilt, self.solver)

    def _status(self, max_iter: int, stop: bool) -> Status | None:
        last = self.last
        if not math.isfinite(last.objective + last.residual):
            return Status.STALLED
        if stop:
            return Status.STOPPED
        if self.place.idle >= self.solver.patience:
            return Status.STALLED
        return Status.OUT_OF_STEPS if last.iteration >= max_iter else None


def _recorded(state: State, iteration: int) -> Step:
    point = state.point
    norm = math.sqrt(float(np.square(point.gradient).sum()))
    return Step(iteration, point.objective, point.residual, norm, state.step)


def pack_history(history: Sequence[Step]) -> FloatArray:
    """Write steps as rows; their number is that of the row."""
    return np.array([[step.objective, step.residual, step.residual_norm, step.step] for step in history])


def unpack_history(rows: AnyArray) -> tuple[Step, ...]:
    """Read steps from rows."""
    return tuple(Step(i, *(float(x) for x in row)) for i, row in enumerate(rows))
