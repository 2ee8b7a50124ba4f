"""The line search: how far to go along a descent direction of a convex function.

`backtrack` works on any function of the step length. `search` is the same rule for a solver that moves theta.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import float_info
from typing import Any, TypeVar

import numpy as np

from legendre.core.types import FloatArray
from legendre.solvers.loop import Evaluation, State, Target

Payload = TypeVar("Payload")


def backtrack(
    phi: Callable[[float], tuple[float, float, Payload]],
    slope: float,
    *,
    first: float = 1.0,
    shortest: float = 2.0**-80,
    noise: float = 0.0,
    sufficient: float = 0.1,
    overshoot: float = 0.5,
) -> tuple[float, Payload] | None:
    """Shorten the step until the function has fallen enough and the step does not overshoot.

    A step far beyond the minimum on the line may still lower the function, yet land where it is nearly flat in other
    directions. Near the minimum the decrease is smaller than the rounding error; then only the slope decides.

    Parameters
    ----------
    phi
        Maps a step length to the rise of the function from the start, its slope there, and whatever the caller needs.
    slope
        The slope at the start. A slope that is not finite and negative ends the search at once.
    first, shortest
        The first step length, and the one at which the search gives up.
    noise
        The rounding error of the rise.
    sufficient
        The share of the predicted decrease that a step must bring (Armijo).
    overshoot
        A step has gone too far when the new slope is steeper than this share of the slope at the start.

    Returns
    -------
    tuple or None
        The step and what `phi` returned with it; ``None`` when no step is good.

    Examples
    --------
    >>> backtrack(lambda step: ((step - 0.25) ** 2 - 0.0625, 2 * (step - 0.25), "landed"), slope=-0.5)
    (0.25, 'landed')
    """
    step = first if -np.inf < slope < 0 else 0.0
    while step > shortest:
        rise, new_slope, payload = phi(step)
        falls = rise <= sufficient * step * slope or abs(rise) <= noise
        if falls and new_slope <= overshoot * abs(slope):
            return step, payload
        # go where the secant of the slope is 0, but shorten the step by a factor between 0.1 and 0.5
        secant = slope / (slope - new_slope) if new_slope > slope else 0.5
        step *= min(max(secant, 0.1), 0.5)
    return None


def search(
    target: Target, point: Evaluation, direction: FloatArray, memory: Any = None, first: float = 1.0
) -> State | None:
    """Search along a direction in theta with `backtrack`; return the new state, ``None`` if no step is good.

    All solvers that move theta along a direction use this. `memory` becomes that of the new state; `first` is the first
    step length.
    """

    def phi(step: float) -> tuple[float, float, Evaluation]:
        """Return how far the objective has risen after a step, its slope along the direction there, and the point."""
        trial = target.at(point.theta + step * direction)
        return trial.objective - point.objective, float(trial.gradient @ direction), trial

    # the rounding error of the objective psi - theta . eta_hat is proportional to the absolute sum of its terms
    size = abs(point.psi) + float(np.abs(point.theta) @ target.problem.eta_hat) + 1.0
    noise = 8 * float_info.epsilon * size
    found = backtrack(phi, float(point.gradient @ direction), first=first, noise=noise)
    return None if found is None else State(found[1], memory, found[0])
