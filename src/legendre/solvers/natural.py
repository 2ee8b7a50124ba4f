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
        factor = factorise(target.engine.fisher(point), point.log_q.size)
        direction = -factor.solve(target.gradient(point))
        landing = search(target, point, direction)
        if landing is None:
            return None
        return State(landing.point, step=landing.step, gap=_gap(target, point, landing.point, factor))


def newton_gap(target: Target, point: Point) -> float:
    """Half the squared Newton decrement, ``1/2 g' G^-1 g``: how far KL(P, Q) is above its minimum, to second order."""
    gradient = target.gradient(point)
    factor = factorise(target.engine.fisher(point), point.log_q.size)
    return 0.5 * max(float(gradient @ factor.solve(gradient)), 0.0)


def _gap(target: Target, before: Point, after: Point, factor: Factor) -> float:
    """Bound the decrement after a step with the factor from before it.

    Where no probability changed by more than a factor e^r, no variance did, so that ``G_after >= e^-r G_before``.
    """
    gradient = target.gradient(after)
    inside = np.isfinite(before.log_q)
    drift = float(np.abs(after.log_q[inside] - before.log_q[inside]).max(initial=0.0))
    decrement = max(float(gradient @ factor.solve(gradient)), 0.0)
    return 0.5 * decrement * float(np.exp(min(drift, 700.0)))
