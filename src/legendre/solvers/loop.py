"""The only loop: budget, stopping, history and callback for all solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from legendre.arrays import FloatArray
from legendre.engines import Point
from legendre.solvers.protocol import Solver, State, Target
from legendre.status import Status


@dataclass(frozen=True)
class Step:
    """What is recorded of a step.

    Parameters
    ----------
    iteration
        0 for the start.
    objective
        ``psi - theta . eta_hat``.
    residual
        ``max|eta - eta_hat|``.
    residual_norm
        The 2-norm of ``eta - eta_hat``, which the authors' program prints.
    step
        The step length; 1 is a full natural-gradient step.
    """

    iteration: int
    objective: float
    residual: float
    residual_norm: float
    step: float


Callback = Callable[[Step], bool | None]


@dataclass(frozen=True, eq=False)
class Outcome:
    """Where the loop ended, how, on which way, and how far above the minimum at most (see `State`)."""

    point: Point
    status: Status
    history: tuple[Step, ...]
    gap: float
    tilt: float = np.inf


def run(
    solver: Solver, target: Target, theta: FloatArray, *, tol: float, max_iter: int, callback: Callback | None = None
) -> Outcome:
    """Step until ``max|eta - eta_hat| <= tol``, the budget is spent, progress ends or the callback says so."""
    state = solver.start(target, theta)
    history = [_record(target, state, 0)]
    watch = Watch(state, history[0])
    while True:
        stop = callback is not None and bool(callback(history[-1]))
        status = _judge(history[-1], tol=tol, max_iter=max_iter, stop=stop, stalled=watch.idle >= solver.patience)
        if status is None:
            following = solver.advance(target, state)
            if following is not None:
                state = following
                history.append(_record(target, state, len(history)))
                watch.see(state, history[-1])
                continue
            status = Status.STALLED
        final = solver.finish(target, watch.best if status is Status.STALLED else state)
        return Outcome(final.point, status, tuple(history), final.gap, final.tilt)


class Watch:
    """Looks out for progress: the state of lowest residual, and for how many steps nothing has improved."""

    def __init__(self, state: State, step: Step) -> None:
        self.best, self.residual, self.objective, self.idle = state, step.residual, step.objective, 0

    def see(self, state: State, step: Step) -> None:
        """Take note of a step."""
        blur = 4 * float(np.finfo(np.float64).eps) * (abs(self.objective) + 1.0)
        lower = step.objective < self.objective - blur
        self.idle = 0 if lower or step.residual < 0.999 * self.residual else self.idle + 1
        self.objective = min(self.objective, step.objective)
        if step.residual < self.residual:
            self.best, self.residual = state, step.residual


def _record(target: Target, state: State, iteration: int) -> Step:
    gradient = target.gradient(state.point)
    return Step(
        iteration=iteration,
        objective=target.objective(state.point),
        residual=target.residual(state.point),
        residual_norm=float(np.linalg.norm(gradient)),
        step=state.step,
    )


def _judge(last: Step, *, tol: float, max_iter: int, stop: bool, stalled: bool) -> Status | None:
    if not np.isfinite(last.objective + last.residual):
        return Status.STALLED
    if last.residual <= tol:
        return Status.CONVERGED
    if stop:
        return Status.STOPPED
    if stalled:
        return Status.STALLED
    if last.iteration >= max_iter:
        return Status.OUT_OF_STEPS
    return None
