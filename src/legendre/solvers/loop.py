"""The loop: budget, stopping, history, and callback for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from legendre.core.types import FloatArray
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
    for solver in solvers:
        limit = solver.max_iter
        if max_iter is not None:
            left = max_iter - len(history[1:])
            limit = left if solver is solvers[-1] else min(left, limit)
        outcome = run(solver, target, theta, limit, callback, history)
        history = outcome.history
        if outcome.status in (Status.CONVERGED, Status.STOPPED) or len(history) - 1 == max_iter:
            break
        if np.isfinite(outcome.point.theta).all():
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
    """Step until ``max|eta - eta_hat| <= tol``, the budget is spent, progress ends or the callback stops it.

    `before` are the steps of an earlier solver, which ended at theta.
    """
    history, state = list(before), solver.start(target, theta)
    if not before:
        history.append(_record(state, 0))
    first, best, lowest, idle, stopped = len(history), state, state.point.objective, 0, False
    # a step that overflows is no step, or ends the fit STALLED: no warning is needed
    with np.errstate(over="ignore", invalid="ignore"):
        while True:
            point = state.point
            if callback is not None and len(history) > len(before):
                stopped = bool(callback(history[-1]))
            # all of B is within tol, not only the parameters that are fitted
            if point.residual <= target.tol and target.residual(point) <= target.tol:
                outcome = _finish(solver, target, state, Status.STALLED, history)
                if outcome.status is Status.CONVERGED:
                    return outcome
            status = Status.STALLED
            if not math.isfinite(point.objective + point.residual):
                pass
            elif stopped:
                status = Status.STOPPED
            elif idle < solver.patience and len(history) - first >= max_iter:
                status = Status.OUT_OF_STEPS
            elif idle < solver.patience and (following := solver.advance(target, state)) is not None:
                noise = 4 * float(np.finfo(np.float64).eps) * (abs(lowest) + 1.0)
                state, after, least = following, following.point, best.point.residual
                idle = 0 if after.objective < lowest - noise or after.residual < 0.999 * least else idle + 1
                best, lowest = state if after.residual < least else best, min(lowest, after.objective)
                history.append(_record(state, len(history)))
                continue
            chosen = best if status is Status.STALLED and solver.convex else state
            return _finish(solver, target, chosen, status, history)


def _finish(solver: Solver, target: Target, state: State, otherwise: Status, history: list[Step]) -> Outcome:
    """Finish: the fit has converged exactly if max|eta - eta_hat| of what is handed out is at most tol."""
    final = solver.finish(target, state)
    if not type(solver).__module__.startswith("legendre."):  # eta and residual are then what somebody put there
        final = replace(final, point=target.at(final.point.theta))
    status = Status.CONVERGED if target.residual(final.point) <= target.tol else otherwise
    return Outcome(final.point, status, tuple(history), final.gap, final.tilt, solver)


def _record(state: State, iteration: int) -> Step:
    point = state.point
    norm = math.sqrt(float(np.square(point.gradient).sum()))
    return Step(iteration, point.objective, point.residual, norm, state.step)
