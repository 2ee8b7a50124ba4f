"""What is left of a fit: its steps and its outcome, and both as arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core.checkpoint import Arrays
from legendre.core.types import AnyArray, FloatArray
from legendre.engines.protocol import Point
from legendre.solvers.protocol import State, Target
from legendre.solvers.status import Status


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


def record_step(target: Target, state: State, iteration: int) -> Step:
    """Note what is recorded of a step."""
    gradient = target.gradient(state.point)
    return Step(
        iteration=iteration,
        objective=target.objective(state.point),
        residual=target.residual(state.point),
        residual_norm=float(np.linalg.norm(gradient)),
        step=state.step,
    )


def pack_outcome(outcome: Outcome) -> dict[str, Any]:
    """List the arrays that an outcome consists of, without what the engine keeps for itself."""
    point = outcome.point
    bounds = {"gap": outcome.gap, "tilt": outcome.tilt, "status": outcome.status.name}
    history = pack_history(outcome.history)
    return {"theta": point.theta, "eta": point.eta, "psi": point.psi, "history": history, **bounds}


def unpack_outcome(arrays: Arrays) -> Outcome:
    """Put an outcome together again."""
    point = Point(arrays["theta"], arrays["eta"], float(arrays["psi"]))
    status, history = Status[str(arrays["status"])], unpack_history(arrays["history"])
    return Outcome(point, status, history, float(arrays["gap"]), float(arrays["tilt"]))


def pack_history(history: Sequence[Step]) -> FloatArray:
    """Write steps as rows; their number is that of the row."""
    return np.array([[step.objective, step.residual, step.residual_norm, step.step] for step in history])


def unpack_history(rows: AnyArray) -> tuple[Step, ...]:
    """Read steps from rows."""
    return tuple(Step(i, *(float(x) for x in row)) for i, row in enumerate(rows))
