"""Algorithm 2: the natural gradient, which for this model is Newton's method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.arrays import FloatArray
from legendre.engines import Point
from legendre.linalg import Factor, factorise
from legendre.solvers.linesearch import search
from legendre.solvers.protocol import State, Target


@dataclass(frozen=True)
class Natural:
    """Solve ``G delta = eta_hat - eta`` by Cholesky and step by delta, shortened only where the full step is bad.

    Parameters
    ----------
    max_iter
        Default budget of steps.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Natural()).n_iter <= 5
    True
    """

    max_iter: int = 500
    name: str = "natural"

    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin at theta."""
        return State(target.engine.at(theta))

    def advance(self, target: Target, state: State) -> State | None:
        """Take one natural-gradient step."""
        point = state.point
        anchor = Anchor(point, factorise(target.engine.fisher(point), point.log_q.size))
        landing = search(target, point, -anchor.factor.solve(target.gradient(point)))
        return None if landing is None else _state(target, landing.point, anchor, landing.step)

    def finish(self, target: Target, state: State) -> State:
        """Correct once more with the last factor: a sweep's cost, and cells far below tol gain their digits too."""
        if state.memory is None:
            return State(state.point, gap=newton_gap(target, state.point))
        theta = state.point.theta - state.memory.factor.solve(target.gradient(state.point))
        polished = target.engine.at(theta)
        if target.residual(polished) >= target.residual(state.point):
            return state
        return _state(target, polished, state.memory, state.step)


@dataclass(frozen=True, eq=False)
class Anchor:
    """A factorised Fisher matrix and the point it belongs to."""

    point: Point
    factor: Factor


def newton_gap(target: Target, point: Point) -> float:
    """Half the squared Newton decrement, ``1/2 g' G^-1 g``: how far KL(P, Q) is above its minimum, to second order."""
    return _gap(target, point, Anchor(point, factorise(target.engine.fisher(point), point.log_q.size)))


def _state(target: Target, point: Point, anchor: Anchor, step: float) -> State:
    return State(point, memory=anchor, step=step, gap=_gap(target, point, anchor))


def _gap(target: Target, point: Point, anchor: Anchor) -> float:
    """Bound the decrement at `point` with the factor from an earlier one.

    Where no probability changed by more than a factor e^r, no variance did, so that ``G >= e^-r G_anchor``.
    """
    gradient = target.gradient(point)
    inside = np.isfinite(point.log_q)
    drift = float(np.abs(point.log_q[inside] - anchor.point.log_q[inside]).max(initial=0.0))
    decrement = max(float(gradient @ anchor.factor.solve(gradient)), 0.0)
    return 0.5 * decrement * float(np.exp(min(drift, 700.0)))
