"""Fits between rounds: chord steps with a factor that is kept, a new one only where that is cheaper than more steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from legendre.core.sums.blas_threads import dot
from legendre.core.types import FloatArray
from legendre.fitting.adaptive.state import FARTHEST, Member, State, decoded, log_density

DEEPEST = (
    3.0  # log q falls by no more than this in the first try of a step, where there is data: else cells die for ever
)
SUFFICIENT, LEVEL = 0.1, 0.5  # Armijo's share of the slope; the slope that may be left, upwards, at the end of a step
SHORTEST = 1e-4  # the shortest step that is tried
SLOW = 0.9  # a contraction that leads nowhere
NEWTON_STEPS = 2  # steps that a new factor takes to the same goal
PAST = 2  # rounds to come for which the steps that a new factor saves are counted
BLUR = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A state near the minimum, and the number of steps that led there."""

    state: State
    steps: int


def fitted(state: State, goal: float, most: int, tol: float | None = None) -> Fitted:
    """Step until half the squared Newton decrement is at most `goal`; or max|eta - eta_hat| at most `tol`, if given."""
    if not state.size:
        return Fitted(state, 0)
    state = state if state.anchor is not None else state.anchored()
    last, done = math.inf, 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            assert state.anchor is not None
            factor, scale = state.anchor.factor, state.scale
            half = factor.half(state.gradient * scale)
            decrement = dot(half, half) / 2.0
            arrived = decrement <= goal if tol is None else float(np.abs(state.gradient).max()) <= tol
            if arrived or done >= most or not math.isfinite(decrement):
                break
            if not state.fresh and _factor_pays(state, decrement, last, goal):
                state, last = state.anchored(), math.inf
                continue
            member = _searched(state, factor.back(half) * scale)
            if member is None:
                if state.fresh:
                    break
                state, last = state.anchored(), math.inf
                continue
            state, last, done = state.moved(member), decrement, done + 1
    return Fitted(state, done)


def renewed(fit: Fitted) -> State:
    """Factorise anew at the end of a round, where that saves later rounds more steps than it costs."""
    state = fit.state
    saved = (fit.steps - NEWTON_STEPS) * PAST * step_time(state)
    return state.anchored() if not state.fresh and (saved > factor_time(state) or cheap(state)) else state


def cheap(state: State) -> bool:
    """Whether a factor takes less time than a step."""
    return factor_time(state) <= step_time(state)


def step_time(state: State) -> float:
    """Estimate the nanoseconds of a step: sweeps, and two triangular solves."""
    return 14.0 * state.ground.p.size + 1.0 * state.size**2 + 1e5


def factor_time(state: State) -> float:
    """Estimate the nanoseconds of a new factor: its entries, and Cholesky."""
    return state.size**3 / 90.0 + 1.0 * state.size**2 + 5e4


def _factor_pays(state: State, decrement: float, last: float, goal: float) -> bool:
    """Whether a new factor is cheaper than the steps that the present one will take, judged by the last contraction."""
    left = 3.0
    if last < math.inf:
        rate = decrement / last if last > 0 else math.inf
        left = math.inf if rate >= SLOW else math.log(max(goal, 1e-18) / decrement) / math.log(max(rate, 1e-9))
    return left * step_time(state) > factor_time(state) + NEWTON_STEPS * step_time(state)


def _searched(state: State, direction: FloatArray) -> Member | None:
    """Go along a direction, by a full step if it is good, else by a shorter one; ``None`` if none is good."""
    ground, places, at = state.ground, state.places, state.at
    if not np.isfinite(direction).all():
        return None
    step, z = _first_step(state, direction)
    slope = -dot(state.gradient, direction)
    blur = BLUR * (abs(at.psi) + dot(np.abs(at.theta), ground.eta_hat[places]) + 1.0)
    while step >= SHORTEST:
        theta = at.theta + step * direction
        if np.abs(theta).max() > FARTHEST:
            return None
        after = decoded(ground, places, theta, log_density(ground, places, theta, state.dead) if z is None else z)
        rise = after.objective - at.objective
        ahead = dot(after.eta[places] - ground.eta_hat[places], direction)
        if (rise <= SUFFICIENT * step * slope or abs(rise) <= blur) and ahead <= LEVEL * abs(slope):
            return after
        step *= min(max(slope / (slope - ahead) if ahead > slope else 0.5, 0.1), 0.5)
        z = None
    return None


def _first_step(state: State, direction: FloatArray) -> tuple[float, FloatArray | None]:
    """Return the length of the first step to try and, if it is the full one, log q up to psi at its end."""
    ground, places, at = state.ground, state.places, state.at
    z = log_density(ground, places, at.theta + direction, state.dead)
    mean, change = dot(at.eta[places], direction), z - at.z
    fall = mean - float(np.fmin.reduce(change))  # of all cells but those that vanish, where it is not a number
    if fall > DEEPEST and ground.observed is not None:
        fall = mean - float(change[ground.observed].min())
    return (1.0, z) if fall <= DEEPEST else (DEEPEST / max(fall, 1e-300), None)
