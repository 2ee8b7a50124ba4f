"""The only loop: budget, stopping, history and callback for all solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core.checkpoint import UNRECORDED, Arrays, Record
from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray
from legendre.solvers.history import Callback as Callback
from legendre.solvers.history import Outcome as Outcome
from legendre.solvers.history import Step as Step
from legendre.solvers.history import pack_history, pack_outcome, record_step, unpack_history, unpack_outcome
from legendre.solvers.protocol import Solver, State, Target
from legendre.solvers.status import Status


def run(
    solver: Solver,
    target: Target,
    theta: FloatArray,
    *,
    tol: float,
    max_iter: int,
    callback: Callback | None = None,
    record: Record = UNRECORDED,
) -> Outcome:
    """Step until ``max|eta - eta_hat| <= tol``, the budget is spent, progress ends or the callback says so.

    A record that has a place on the way goes on from there; one that has the end returns it.
    """
    ended = record.result()
    if ended is not None:
        with record.reading():
            outcome = unpack_outcome(ended)
        _check_budget(solver, outcome.history[-1], max_iter)
        return outcome
    walk = Walk.of(solver, target, theta, record)
    _check_budget(solver, walk.last, max_iter)
    with record.kept(walk.pack):
        outcome = walk.to_the_end(tol, max_iter, callback, record)
    if outcome.status in (Status.CONVERGED, Status.STALLED):
        record.close(pack_outcome(outcome))
    else:  # the same call comes to the same end from here, and one with more steps goes on
        record.keep(walk.pack, now=True)
    return outcome


@dataclass(frozen=True, eq=False)
class Watch:
    """Looks out for progress: the state of lowest residual, and for how many steps nothing has improved."""

    best: State
    residual: float
    objective: float
    idle: int = 0

    def see(self, state: State, step: Step) -> Watch:
        """Take note of a step."""
        blur = 4 * float(np.finfo(np.float64).eps) * (abs(self.objective) + 1.0)
        progress = step.objective < self.objective - blur or step.residual < 0.999 * self.residual
        nearer = step.residual < self.residual
        return Watch(
            best=state if nearer else self.best,
            residual=step.residual if nearer else self.residual,
            objective=min(self.objective, step.objective),
            idle=0 if progress else self.idle + 1,
        )


@dataclass(frozen=True, eq=False)
class Position:
    """Where a fit stands: the state, what was seen on the way, and after how many steps."""

    state: State
    watch: Watch
    n_steps: int


@dataclass(eq=False)
class Walk:
    """A fit on its way; `place` changes in one assignment, so that an interrupt finds it whole."""

    solver: Solver
    target: Target
    history: list[Step]
    place: Position

    @classmethod
    def of(cls, solver: Solver, target: Target, theta: FloatArray, record: Record) -> Walk:
        """Begin at theta, or go on from what was recorded."""
        kept = record.take()
        if kept is not None:
            with record.reading():
                return cls(solver, target, *_unpack_place(solver, target, kept))
        state = solver.start(target, theta)
        first = record_step(target, state, 0)
        return cls(solver, target, [first], Position(state, Watch(state, first.residual, first.objective), 0))

    @property
    def last(self) -> Step:
        """The last step that was taken in full."""
        return self.history[self.place.n_steps]

    def advance(self) -> bool:
        """Take a step, if there is one."""
        following = self.solver.advance(self.target, self.place.state)
        if following is None:
            return False
        n = self.place.n_steps + 1
        self.history[n:] = [record_step(self.target, following, n)]
        self.place = Position(following, self.place.watch.see(following, self.history[n]), n)
        return True

    def to_the_end(self, tol: float, max_iter: int, callback: Callback | None, record: Record) -> Outcome:
        """Walk until there is a status."""
        status = None
        while status is None:
            stop = callback is not None and bool(callback(self.last))
            stalled = self.place.watch.idle >= self.solver.patience
            status = _judge(self.last, tol=tol, max_iter=max_iter, stop=stop, stalled=stalled)
            if status is None:
                record.keep(self.pack)
                status = None if self.advance() else Status.STALLED
        end = self.place.watch.best if status is Status.STALLED else self.place.state
        final = self.solver.finish(self.target, end)
        return Outcome(final.point, status, tuple(self.history), final.gap, final.tilt)

    def pack(self) -> dict[str, Any]:
        """List the arrays from which the walk goes on; those of the best state only if it is not the last one."""
        state, watch = self.place.state, self.place.watch
        best = {} if watch.best is state else self.solver.pack(watch.best)
        return {
            **{f"state.{name}": part for name, part in self.solver.pack(state).items()},
            **{f"best.{name}": part for name, part in best.items()},
            "watch": np.array([watch.residual, watch.objective, watch.idle]),
            "history": pack_history(self.history[: self.place.n_steps + 1]),
        }


def _unpack_place(solver: Solver, target: Target, arrays: Arrays) -> tuple[list[Step], Position]:
    state = solver.unpack(target, _part(arrays, "state."))
    if state.point.theta.shape != (target.engine.n_params,):
        raise ValueError(f"theta has shape {state.point.theta.shape} for {target.engine.n_params} parameters")
    best = _part(arrays, "best.")
    residual, objective, idle = (float(x) for x in arrays["watch"])
    watch = Watch(solver.unpack(target, best, state) if best else state, residual, objective, int(idle))
    history = list(unpack_history(arrays["history"]))
    return history, Position(state, watch, history[-1].iteration)


def _part(arrays: Arrays, prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}


def _check_budget(solver: Solver, last: Step, max_iter: int) -> None:
    if last.iteration > max_iter:
        raise InvalidSetting(
            f"the checkpoint has {last.iteration} steps of {solver.name} behind it, and max_iter leaves {max_iter} to "
            "it. Raise max_iter, or give another path to start anew."
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
