"""How far to go along a descent direction of a convex function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.arrays import FloatArray
from legendre.engines import Point
from legendre.solvers.protocol import Target

SUFFICIENT = 1e-4
"""The share of the predicted decrease that a step must bring (Armijo)."""
SHORTEST = 2.0**-60


@dataclass(frozen=True, eq=False)
class Landing:
    """Where a line search ended."""

    point: Point
    step: float


def search(target: Target, point: Point, direction: FloatArray, first: float = 1.0) -> Landing | None:
    """Backtrack from `first` until the objective falls enough; ``None`` when rounding hides every decrease.

    A full step is kept whenever it is good. Near the minimum the decrease drowns in the rounding error of the
    objective; its slope, ``(eta - eta_hat) . direction``, is known far better, and for a convex function a slope that
    has shrunk without the objective rising beyond rounding is as good a proof of progress.
    """
    start = target.objective(point)
    slope = float(target.gradient(point) @ direction)
    rounding = 8 * np.finfo(np.float64).eps * (abs(point.psi) + float(np.abs(point.theta) @ np.abs(target.eta_hat)) + 1)
    step = first
    while step > SHORTEST:
        trial = target.engine.at(point.theta + step * direction)
        rise = target.objective(trial) - start
        new_slope = float(target.gradient(trial) @ direction)
        if rise <= SUFFICIENT * step * slope or (rise <= rounding and abs(new_slope) < 0.9 * abs(slope)):
            return Landing(trial, step)
        step *= _shrink(slope, new_slope)
    return None


def _shrink(slope: float, new_slope: float) -> float:
    """Move to where the secant of the slope is 0, within a tenth and a half of the last step."""
    secant = slope / (slope - new_slope) if new_slope > slope else 0.5
    return min(max(secant, 0.1), 0.5)
