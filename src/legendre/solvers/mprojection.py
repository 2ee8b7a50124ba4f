"""The m-projection: move P along the flat family of distributions with its expectations until it meets the model.

Every iterate has eta = eta_hat on B exactly; what goes to zero is theta outside B, about |Omega| - |B| coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, null_space

from legendre.core import limits
from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.types import FloatArray
from legendre.solvers.before.faces import features, interior_point
from legendre.solvers.natural import newton_gap
from legendre.solvers.protocol import Solver, State, Target


@dataclass(frozen=True, eq=False)
class Plane:
    """The m-flat family ``{q : eta = eta_hat on B}`` on the merged cells: ``q + tangent z``."""

    q: FloatArray
    tangent: FloatArray
    design: FloatArray
    weights: FloatArray

    def score(self, q: FloatArray) -> FloatArray:
        """Return ``log(q / weights)``, also where the ratio leaves the range of float64."""
        return np.log(q) - np.log(self.weights)


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

    def start(self, target: Target, theta: FloatArray) -> State:  # noqa: ARG002 - P, not theta, is where it starts
        """Begin at P, or at a positive distribution with the same expectations where P has zeros."""
        model = target.problem.model
        if (n := model.n_alive) > limits.LARGEST_NULL_SPACE:
            raise InvalidSetting(
                f"m-projection needs a dense basis of its tangent space: {size_name(n)} merged cells are more than "
                f"{limits.LARGEST_NULL_SPACE:,}. Use solver='natural'."
            )
        mass = target.problem.mass[model.alive]
        q = mass if (mass > 0).all() else interior_point(target.problem)
        return _state(target, _plane(target, q), step=0.0)

    def advance(self, target: Target, state: State) -> State | None:
        """Take one Newton step inside the plane, staying positive."""
        plane: Plane = state.memory
        if plane.tangent.shape[1] == 0:
            return None
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                hessian = plane.tangent.T @ (plane.tangent / plane.q[:, None])
                slope = plane.tangent.T @ plane.score(plane.q)
                factor = cho_factor(hessian, check_finite=False)
                move = -plane.tangent @ cho_solve(factor, slope, check_finite=False)
        except LinAlgError:  # probabilities differ by too many orders of magnitude for float64
            return None
        if not np.isfinite(move).all():
            return None
        step = _step_length(plane, move)
        return _state(target, replace(plane, q=plane.q + step * move), step) if step else None

    def finish(self, target: Target, state: State) -> State:
        return replace(state, gap=newton_gap(target, state.point))


def _plane(target: Target, q: FloatArray) -> Plane:
    model = target.problem.model
    design = np.hstack([np.ones((len(q), 1)), features(model, model.alive)])
    return Plane(q, null_space(design.T), design, model.weights[model.alive])


def _step_length(plane: Plane, move: FloatArray) -> float:
    """Stay positive, then halve until the entropy objective's slope no longer points back hard.

    It does not call `solvers.linesearch`, which moves theta: here the probabilities move.
    """
    falling, slope = move < 0, float(move @ plane.score(plane.q))
    step = min(1.0, 0.95 * float((plane.q[falling] / -move[falling]).min(initial=np.inf)))
    while step > 2.0**-50:
        if float(move @ plane.score(plane.q + step * move)) <= 0.9 * abs(slope):
            return step
        step /= 2
    return 0.0


def _state(target: Target, plane: Plane, step: float) -> State:
    """Read theta off the iterate: the member of the model nearest to it in the Fisher metric at q."""
    root, score = np.sqrt(plane.q), plane.score(plane.q)
    solution, *_ = np.linalg.lstsq(root[:, None] * plane.design, root * score, rcond=None)
    return State(target.at(np.ascontiguousarray(solution[1:])), memory=plane, step=step)
