"""The line search: how far to go along a descent direction of a convex function.

`natural`, `natural_cg`, `gradient` and the Newton steps of `matrix_scaling` call it. What moves something other than
theta, or many fits at once, has a search of its own; CONTRIBUTING lists them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legendre.core.sums.linalg import dot
from legendre.core.types import FloatArray
from legendre.solvers.protocol import Evaluation, State, Target

SUFFICIENT = 0.1  # the share of the predicted decrease that a step must bring (Armijo)
OVERSHOT = 0.5  # a step has gone too far when the slope behind it is steeper than this share of the slope before it
SHORTEST, EPS = 2.0**-80, float(np.finfo(np.float64).eps)


def search(
    target: Target, point: Evaluation, direction: FloatArray, memory: Any = None, first: float = 1.0
) -> State | None:
    """Backtrack from `first` until the objective has fallen enough and the step does not overshoot.

    A step far beyond the minimum on the line may still lower the objective, yet land where one cell has all the
    probability and the Fisher matrix is nearly singular. Near the minimum the decrease drowns in the rounding error of
    the objective; the slope, ``(eta - eta_hat) . direction``, decides alone. ``None`` when no step is good.
    """
    slope = dot(point.gradient, direction)  # not finite where the direction is not, which ends it
    step = first if -np.inf < slope < 0 else 0.0
    while step > SHORTEST:
        trial = target.at(point.theta + step * direction)
        rise = trial.objective - point.objective
        new_slope = dot(trial.gradient, direction)
        falls = rise <= SUFFICIENT * step * slope or abs(rise) <= _blur(target, point)
        if falls and new_slope <= OVERSHOT * abs(slope):
            return State(trial, memory, step)
        # to where the secant of the slope is 0, within a tenth and a half of the last step
        secant = slope / (slope - new_slope) if new_slope > slope else 0.5
        step *= min(max(secant, 0.1), 0.5)
    return None


def _blur(target: Target, point: Evaluation) -> float:
    """Return the rounding error of the objective."""
    return 8 * EPS * (abs(point.psi) + dot(np.abs(point.theta), target.problem.eta_hat) + 1.0)
