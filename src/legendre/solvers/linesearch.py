"""How far to go along a descent direction of a convex function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core.types import FloatArray
from legendre.solvers.protocol import Evaluation, Target

SUFFICIENT = 0.1
"""The share of the predicted decrease that a step must bring (Armijo)."""
OVERSHOT = 0.5
"""A step has gone too far when the slope behind it is steeper than this share of the slope before it."""
SHORTEST = 2.0**-80


@dataclass(frozen=True, eq=False)
class Landing:
    """Where a line search ended."""

    point: Evaluation
    step: float


def search(target: Target, point: Evaluation, direction: FloatArray, first: float = 1.0) -> Landing | None:
    """Backtrack from `first` until the objective has fallen enough and the step does not overshoot.

    A full step is kept whenever it is good. A step far beyond the minimum on the line may still lower the objective,
    yet land where one cell has all the probability and the Fisher matrix says nothing: too small a share of the
    predicted decrease, or a steep slope behind it, give it away. Near the minimum the decrease drowns in the rounding
    error of the objective; the slope, ``(eta - eta_hat) . direction``, is known far better and decides alone. ``None``
    when no step is good.
    """
    slope = float(point.gradient @ direction)
    blur = rounding(target, point)
    step = first if slope < 0 else 0.0
    while step > SHORTEST:
        trial = target.at(point.theta + step * direction)
        rise = trial.objective - point.objective
        new_slope = float(trial.gradient @ direction)
        falls = rise <= SUFFICIENT * step * slope or abs(rise) <= blur
        if falls and new_slope <= OVERSHOT * abs(slope):
            return Landing(trial, step)
        step *= _shrink(slope, new_slope)
    return None


def rounding(target: Target, point: Evaluation) -> float:
    """Bound the rounding error of the objective at a point."""
    size = abs(point.psi) + float(np.abs(point.theta) @ target.problem.eta_hat) + 1.0
    return 8 * float(np.finfo(np.float64).eps) * size


def _shrink(slope: float, new_slope: float) -> float:
    """Move to where the secant of the slope is 0, within a tenth and a half of the last step."""
    secant = slope / (slope - new_slope) if new_slope > slope else 0.5
    return min(max(secant, 0.1), 0.5)
