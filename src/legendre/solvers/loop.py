"""The loop: budget, stopping, history, callback and checkpoints for every solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.core import checkpoint_arrays as stored
from legendre.core.checkpoint import Arrays, Record
from legendre.core.errors import InvalidSetting
from legendre.core.types import AnyArray, FloatArray
from legendre.engines.protocol import Point
from legendre.engines.rounding import rounding
from legendre.solvers.protocol import Evaluation, Solver, State, Target, check_evaluation
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
    record: Record | None = None,
) -> Outcome:
    """Run solvers one after the other until one converges; each goes on from where the one before it gave up."""
    history: tuple[Step, ...] = ()
    for turn, solver in enumerate(solvers):
        last = turn == len(solvers) - 1
        part = None if record is None else record.section(f"{turn}")
        done = len(history[1:])
        limit = solver.max_iter
        if max_iter is not None:
            limit = max_iter - done if last else min(max_iter - done, limit)
        outcome = run(solver, target, theta, limit, _renumbered(callback, done), part)
        fresh = outcome.history[1 if history else 0 :]
        history += tuple(replace(step, iteration=step.iteration + done) for step in fresh) if done else fresh
        if outcome.status in (Status.CONVERGED, Status.STOPPED) or len(history) - 1 == max_iter:
            break
        if part is not None and not last:
            part.close(pack_outcome(outcome), now=False)
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
    record: Record | None = None,
) -> Outcome:
    """Step until ``max|eta - eta_hat| <= tol``, the budget is spent, progress ends or the callback stops it."""
    ended = None if record is None else record.result()
    if record is not None and ended is not None:
        with record.reading():
            outcome = _unpack_outcome(ended, solver, target)
        _check_budget(solver, outcome.history[-1], max_iter)
        return outcome
    walk = _walk(solver, target, theta, record)
    _check_budget(solver, walk.last, max_iter)
    # a step that overflows is no step, or ends the fit STALLED: no warning is needed
    with nullcontext() if record is None else record.kept(walk.pack), np.errstate(over="ignore", invalid="ignore"):
        outcome = walk.to_the_end(max_iter, callback, record)
    if record is not None:
        if outcome.status in (Status.CONVERGED, Status.STALLED):
            record.close(pack_outcome(outcome))
        else:  # the same call comes to the same end from here, and one with more steps goes on
            record.keep(walk.pack, now=True)
    return outcome


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

    def to_the_end(self, max_iter: int, callback: Callback | None, record: Record | None) -> Outcome:
        while True:
            stop = callback is not None and bool(callback(self.last))
            if self._arrived() and (end := self._finished(self.place.state, Status.STALLED)).status is Status.CONVERGED:
                return end
            status = self._status(max_iter, stop)
            if status is None:
                if record is not None:
                    record.keep(self.pack)
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

    def pack(self) -> dict[str, Any]:
        """List the arrays from which the walk goes on; those of the best state only if it is not the last one."""
        place, pack = self.place, self.solver.pack
        best = {} if place.best is place.state else pack(place.best)
        return {
            **{f"state.{name}": part for name, part in pack(place.state).items()},
            **{f"best.{name}": part for name, part in best.items()},
            "watch": np.array([place.best.point.residual, place.objective, place.idle]),
            "history": pack_history(self.history[: place.n_steps + 1]),
        }


def _walk(solver: Solver, target: Target, theta: FloatArray, record: Record | None) -> Walk:
    """Begin at theta, or go on from what was recorded."""
    kept = None if record is None else record.take()
    if record is not None and kept is not None:
        with record.reading():
            return _unpack_walk(solver, target, kept)
    state = solver.start(target, theta)
    return Walk(solver, target, [_recorded(state, 0)], Position(state, state, state.point.objective))


def _recorded(state: State, iteration: int) -> Step:
    point = state.point
    norm = math.sqrt(float(np.square(point.gradient).sum()))
    return Step(iteration, point.objective, point.residual, norm, state.step)


def _unpack_walk(solver: Solver, target: Target, arrays: Arrays) -> Walk:
    def part(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}

    with np.errstate(all="ignore"):  # theta of a file may be anything
        state, best = solver.unpack(target, part("state.")), part("best.")
        other = solver.unpack(target, best, state) if best else state
    for point in (state.point, other.point):
        if point.theta.shape != (target.engine.n_params,):
            raise ValueError(f"theta has shape {point.theta.shape} for {target.engine.n_params} parameters")
    lowest, objective, idle = (float(x) for x in stored.floats(arrays, "watch", 3))
    history = list(unpack_history(stored.rows(arrays, "history", 4)))
    last, here = history[-1], state.point
    off = max(abs(last.residual - here.residual), abs(lowest - other.point.residual))
    off = max(off, abs(last.objective - here.objective) / (1.0 + abs(here.objective)))
    if not (off <= rounding(target.problem.model, here) and idle in range(len(history))):
        raise ValueError(f"the history ends elsewhere than the state, {off:.2g} from it")
    return Walk(solver, target, history, Position(state, other, objective, int(idle), last.iteration))


def _check_budget(solver: Solver, last: Step, max_iter: int) -> None:
    if last.iteration > max_iter:
        raise InvalidSetting(
            f"the checkpoint has {last.iteration} steps of {solver.name} behind it, and max_iter leaves {max_iter} to "
            "it. Raise max_iter, or give another path to start anew."
        )


def pack_outcome(outcome: Outcome) -> dict[str, Any]:
    """List the arrays that an outcome consists of, without what the engine keeps for itself."""
    point, history = outcome.point, pack_history(outcome.history)
    bounds = {"gap": outcome.gap, "tilt": outcome.tilt, "status": outcome.status.name}
    return {"theta": point.theta, "eta": point.eta, "psi": point.psi, "history": history, **bounds}


def _unpack_outcome(arrays: Arrays, solver: Solver, target: Target) -> Outcome:
    """Read an outcome; eta and psi are believed, to the last bit, when one evaluation at theta confirms them."""
    k, status = target.engine.n_params, Status[stored.text(arrays, "status")]
    theta, eta = stored.floats(arrays, "theta", k), stored.floats(arrays, "eta", k, finite=False)
    found = Point(theta, eta, stored.number(arrays, "psi", finite=False))
    point = target.evaluated(replace(found, cache=check_evaluation(target, found).cache))
    if status is Status.CONVERGED and not point.residual <= target.tol + rounding(target.problem.model, point):
        raise ValueError(f"{status.name} with max|eta - eta_hat| = {point.residual:.2g} and tol = {target.tol:g}")
    gap, tilt = (stored.number(arrays, name, finite=False, least=0.0) for name in ("gap", "tilt"))
    return Outcome(point, status, unpack_history(stored.rows(arrays, "history", 4)), gap, tilt, solver)


def pack_history(history: Sequence[Step]) -> FloatArray:
    """Write steps as rows; their number is that of the row."""
    return np.array([[step.objective, step.residual, step.residual_norm, step.step] for step in history])


def unpack_history(rows: AnyArray) -> tuple[Step, ...]:
    """Read steps from rows."""
    return tuple(Step(i, *(float(x) for x in row)) for i, row in enumerate(rows))
