"""The m-projection: move P along the flat family of distributions with its expectations until it meets the model.

Every iterate has eta = eta_hat on B exactly; what goes to zero is theta outside B, about |Omega| - |B| coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, null_space

from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.types import FloatArray
from legendre.model.problem import Problem
from legendre.solvers.linesearch import backtrack
from legendre.solvers.loop import Solver, State, Target
from legendre.solvers.newton import newton_gap
from legendre.solvers.structure.faces import features


@dataclass(frozen=True, eq=False)
class Plane:
    """The m-flat family ``{q : eta = eta_hat on B}`` on the merged cells: ``q + tangent z``."""

    q: FloatArray
    tangent: FloatArray
    design: FloatArray  # a constant, and the features
    log_weights: FloatArray

    def score(self, q: FloatArray) -> FloatArray:
        """Return ``log(q / weights)``."""
        return np.log(q) - self.log_weights


@dataclass(frozen=True)
class MProjection(Solver):
    """Minimise ``KL(Q, uniform)`` over distributions with the data's expectations, by Newton's method.

    See Also
    --------
    legendre.solvers.Scaling : Proportional fitting of margins, in cycles.
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=MProjection()).converged
    True
    """

    max_iter: int = 500
    patience: int = 5
    name: ClassVar[str] = "m-projection"
    needs_mass: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:  # noqa: ARG002 - it begins at P
        """Begin at P, or at another positive distribution with its expectations."""
        model, problem = target.problem.model, target.problem
        if (n := model.n_alive) > 4_000:
            raise InvalidSetting(
                f"m-projection needs a dense basis of its tangent space: {size_name(n)} merged cells are more than "
                "4,000. Use solver='natural'."
            )
        mass = problem.mass[model.alive]
        q, design = mass if (mass > 0).all() else interior_point(problem), _design(problem)
        return _state(target, Plane(q, null_space(design.T), design, np.log(model.weights[model.alive])), step=0.0)

    def advance(self, target: Target, state: State) -> State | None:
        """Take one Newton step inside the plane, staying positive."""
        plane: Plane = state.memory
        tangent, q, score = plane.tangent, plane.q, plane.score(plane.q)
        try:
            hessian = cho_factor(tangent.T @ (tangent / q[:, None]))
            move = -tangent @ cho_solve(hessian, tangent.T @ score)
        except (LinAlgError, ValueError):  # no direction is left, or probabilities differ too much for float64
            return None
        falling = move < 0
        positive = 0.95 * float((q[falling] / -move[falling]).min(initial=np.inf))

        def phi(step: float) -> tuple[float, float, FloatArray]:
            after = q + step * move
            return 0.0, float(move @ plane.score(after)), after  # the slope alone decides

        found = backtrack(phi, float(move @ score), first=min(1.0, positive), overshoot=0.9)
        return None if found is None else _state(target, replace(plane, q=found[1]), found[0])

    def finish(self, target: Target, state: State) -> State:
        return replace(state, gap=newton_gap(target, state.point))


def interior_point(problem: Problem) -> FloatArray:
    """Of the distributions with the data's expectations, find one whose smallest ratio to the weights is largest."""
    from scipy.optimize import linprog

    model, design = problem.model, _design(problem)
    weights, right = model.weights[model.alive], np.append(1.0, problem.eta_hat)
    # q = smallest * weights + rest, rest >= 0
    equality, cost = np.hstack([design.T, (design.T @ weights)[:, None]]), np.append(np.zeros(len(weights)), -1.0)
    answer = linprog(cost, A_eq=equality, b_eq=right, bounds=(0, None), method="highs")
    q = np.zeros(1) if answer.x is None else np.asarray(answer.x[:-1] + answer.x[-1] * weights)
    if (q > 0).all():
        # the program meets the expectations to 1e-7 only; one weighted least-squares correction meets them to rounding
        correction, *_ = np.linalg.lstsq(design.T @ (q[:, None] * design), right - design.T @ q, rcond=None)
        q = q * (1 + design @ correction)
    if not (q > 0).all():
        raise InvalidSetting(
            "m-projection found no positive distribution with the data's expectations to start from; it may be that "
            "its smallest probabilities are below the rounding error of the largest. Use solver='natural'."
        )
    return q


def _design(problem: Problem) -> FloatArray:
    rows = features(problem.model, problem.model.alive)
    return np.hstack([np.ones((len(rows), 1)), rows])


def _state(target: Target, plane: Plane, step: float) -> State:
    """Read theta off the iterate: the member of the model nearest to it in the Fisher metric at q."""
    root = np.sqrt(plane.q)
    solution, *_ = np.linalg.lstsq(root[:, None] * plane.design, root * plane.score(plane.q), rcond=None)
    return State(target.at(np.ascontiguousarray(solution[1:])), memory=plane, step=step)
