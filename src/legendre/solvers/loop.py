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
    """Where the loop ended, how, on which way, and how far above the minimum at most."""

    point: Point
    status: Status
    history: tuple[Step, ...]
    gap: float


def run(
    solver: Solver, target: Target, theta: FloatArray, *, tol: float, max_iter: int, callback: Callback | None = None
) -> Outcome:
    """Step until ``max|eta - eta_hat| <= tol``, the budget is spent, rounding stops progress or the callback does."""
    state = solver.start(target, theta)
    history = [_record(target, state, 0)]
    while True:
        stop = callback is not None and bool(callback(history[-1]))
        status = _judge(history[-1], tol=tol, max_iter=max_iter, stop=stop)
        if status is None:
            following = solver.advance(target, state)
            if following is not None:
                state = following
                history.append(_record(target, state, len(history)))
                continue
            status = Status.STALLED
        state = solver.finish(target, state)
        return Outcome(state.point, status, tuple(history), state.gap)


def _record(target: Target, state: State, iteration: int) -> Step:
    gradient = target.gradient(state.point)
    return Step(
        iteration=iteration,
        objective=target.objective(state.point),
        residual=target.residual(state.point),
        residual_norm=float(np.linalg.norm(gradient)),
        step=state.step,
    )


def _judge(last: Step, *, tol: float, max_iter: int, stop: bool) -> Status | None:
    if last.residual <= tol:
        return Status.CONVERGED
    if stop:
        return Status.STOPPED
    if last.iteration >= max_iter:
        return Status.OUT_OF_STEPS
    return None
