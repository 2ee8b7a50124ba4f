"""The fit with all interactions, held back by a penalty: convex, with one answer whatever is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.types import FloatArray
from legendre.solvers.loop import Step
from legendre.tasks.smooth.waves import Waves

STEPS = 100
CG_STEPS = 200
"""Products per Newton step; a direction that is not exact costs another step, no more."""
SUFFICIENT = 1e-4
"""The share of the decrease that a step promises and must keep (Armijo)."""
ROUNDING = 1e-11
"""The objective is a sum of many terms; decreases below this share of it are lost in rounding."""


@dataclass(frozen=True, eq=False)
class Observed:
    """What the fit sees.

    Parameters
    ----------
    waves
        The coordinates.
    p
        X on the observed cells, scaled to sum to 1; 0 elsewhere.
    measure
        The base measure on the observed cells, 0 elsewhere.
    n_cells
        How many there are. P weighs as much as one count per observed cell.
    """

    waves: Waves
    p: FloatArray
    measure: FloatArray

    @cached_property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return int(np.count_nonzero(self.measure))

    def at(self, b: FloatArray, spread: FloatArray) -> PenalisedPoint:
        """Evaluate ``n KL(P, Q) + |b|^2 / 2`` (up to a constant) where log q has the coefficients spread * b."""
        h = self.waves.to_cells(spread * b)
        seen = self.measure > 0
        top = float(h[seen].max())
        mass = self.measure * np.exp(np.where(seen, h - top, 0.0))
        psi = float(np.log(mass.sum())) + top
        value = self.n_cells * (psi - float(np.vdot(self.p, h))) + 0.5 * float(np.vdot(b, b))
        return PenalisedPoint(self, spread, b, h, mass / mass.sum(), psi, value)


@dataclass(frozen=True, eq=False)
class PenalisedPoint:
    """The objective and what its derivatives need, at one b.

    Parameters
    ----------
    spread
        Standard deviations of the coefficients of the waves: log q = sum of spread * b * wave - psi.
    h, q, psi, value
        log q + psi at every cell, Q on the observed ones, and the objective.
    """

    observed: Observed
    spread: FloatArray
    b: FloatArray
    h: FloatArray
    q: FloatArray
    psi: float
    value: float

    @cached_property
    def excess(self) -> FloatArray:
        """The gradient of the first part in the coefficients of the waves: n (eta - eta_hat) in their coordinates."""
        return self.observed.n_cells * self.observed.waves.to_waves(self.q - self.observed.p)

    @cached_property
    def gradient(self) -> FloatArray:
        """The gradient in b."""
        return self.b + self.spread * self.excess

    @property
    def residual(self) -> float:
        """The largest entry of the gradient, for a total of 1."""
        return float(np.abs(self.gradient).max()) / self.observed.n_cells

    @property
    def gap(self) -> float:
        """Bound the objective over n above its minimum: with the penalty ``|b|^2 / 2`` its curvature is at least 1."""
        return 0.5 * float(np.vdot(self.gradient, self.gradient)) / self.observed.n_cells

    def fisher(self, u: FloatArray) -> FloatArray:
        """Multiply a function on the cells by the covariance of Q, n times."""
        weighted = self.q * u
        product: FloatArray = self.observed.n_cells * (weighted - self.q * weighted.sum())
        return product

    def curvature(self, y: FloatArray) -> FloatArray:
        """Multiply by the Hessian in b."""
        waves = self.observed.waves
        return y + self.spread * waves.to_waves(self.fisher(waves.to_cells(self.spread * y)))

    def solve(self, right: FloatArray, accuracy: float) -> FloatArray:
        """Solve with the Hessian, by conjugate gradients; its diagonal is about that of evenly spread cells."""
        scale = 1.0 / (1.0 + self.spread**2 * (self.observed.n_cells / self.q.size))
        return conjugate_gradients(self.curvature, right, scale, accuracy)


def conjugate_gradients(
    product: Callable[[FloatArray], FloatArray], right: FloatArray, scale: FloatArray, accuracy: float
) -> FloatArray:
    """Solve a positive definite system until the residual has fallen to a share of the right-hand side.

    Examples
    --------
    >>> diagonal = np.array([2.0, 4.0])
    >>> conjugate_gradients(lambda y: diagonal * y, np.array([2.0, 2.0]), np.ones(2), 1e-12).round(9).tolist()
    [1.0, 0.5]
    """
    found, left = np.zeros_like(right), right.copy()
    enough = accuracy * float(np.linalg.norm(right))
    along = scaled = scale * left
    size = float(np.vdot(left, scaled))
    for _ in range(CG_STEPS):
        if float(np.linalg.norm(left)) <= enough:
            break
        image = product(along)
        step = size / float(np.vdot(along, image))
        found += step * along
        left -= step * image
        scaled = scale * left
        size, before = float(np.vdot(left, scaled)), size
        along = scaled + (size / before) * along
    return found


def fit(
    observed: Observed, spread: FloatArray, b: FloatArray, tol: float, max_iter: int = STEPS
) -> tuple[PenalisedPoint, tuple[Step, ...]]:
    """Minimise from b by Newton steps until the residual is at most tol; return the place and the steps.

    A loop of its own: the unknowns are coefficients of waves and the objective has a penalty, so that there is neither
    an engine nor a `Target` that `solvers.loop` could be given.
    """
    place = observed.at(b, spread)
    history = [_recorded(place, 0, 0.0)]
    for step in range(1, max_iter + 1):
        if place.residual <= tol:
            break
        # the fewer digits the gradient has left to lose, the more exact the direction
        accuracy = min(0.1, float(np.sqrt(np.linalg.norm(place.gradient) / observed.n_cells)))
        place, length = _line_search(place, place.solve(-place.gradient, accuracy))
        history.append(_recorded(place, step, length))
    return place, tuple(history)


def _recorded(place: PenalisedPoint, iteration: int, length: float) -> Step:
    """Note a step; the objective and the gradient are those for a total of 1."""
    n = place.observed.n_cells
    norm = float(np.linalg.norm(place.gradient)) / n
    return Step(iteration, place.value / n, place.residual, norm, length)


def _line_search(place: PenalisedPoint, direction: FloatArray) -> tuple[PenalisedPoint, float]:
    slope = float(np.vdot(place.gradient, direction))
    length = 1.0
    while True:
        there = place.observed.at(place.b + length * direction, place.spread)
        allowed = place.value + SUFFICIENT * length * slope + ROUNDING * abs(place.value)
        if there.value <= allowed or length < ROUNDING:
            return there, length
        length /= 2
