"""The fit with all interactions, held back by a penalty: convex, with one answer whatever is missing.

Its unknowns are the coefficients of log q in cosine waves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy.fft import dct, idct

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray
from legendre.solvers.loop import Step

STEPS = 100
LARGE = 1e100  # squares of larger entries, summed, may leave the range of float64
CG_STEPS = 200  # products per Newton step; a direction that is not exact costs another step, no more
SUFFICIENT = 1e-4  # the share of the promised decrease that a step must keep (Armijo)
ROUNDING = 1e-11  # the objective is a sum of many terms; decreases below this share of it are lost in rounding


@dataclass(frozen=True)
class Waves:
    """The cosine waves of a grid, orthonormal, and the variances of their coefficients.

    A mode is level (the same for all its coordinates), free (coordinates have nothing to do with one another) or a walk
    (neighbours are alike, as in a random walk). A term says which for each mode, and has a variance: that of log q,
    cell by cell. The waves diagonalise all terms at once, so that the variance of a coefficient is a sum over terms of
    products over modes.
    """

    shape: tuple[int, ...]

    @cached_property
    def matrices(self) -> tuple[FloatArray | None, ...]:
        """The waves of each mode, one per row; ``None`` for a long mode."""
        short = limits.LARGEST_COSINES
        return tuple(dct(np.eye(n), norm="ortho", axis=0) if n <= short else None for n in self.shape)

    def to_cells(self, a: FloatArray) -> FloatArray:
        """Sum the waves: from coefficients to cells. The adjoint is `to_waves`."""
        for rows in self.matrices:
            a = _transform(a, idct) if rows is None else _product(a, rows)
        return a

    def to_waves(self, h: FloatArray) -> FloatArray:
        """Compute the coefficients of a function on the grid."""
        for rows in self.matrices:
            h = _transform(h, dct) if rows is None else _product(h, rows.T)
        return h

    @cached_property
    def spectra(self) -> tuple[FloatArray, ...]:
        """For each mode the variances of its waves when it is level, free or a walk, each with mean 1 over the cells.

        One coordinate can be level only, and of two a walk is nothing else than free.
        """
        return tuple(_spectrum(n) for n in self.shape)

    @cached_property
    def terms(self) -> BoolArray:
        """True for terms that have a variance: all but the constant one, or those of few modes if that is too many."""
        kinds = [len(rows) for rows in self.spectra]
        modes = np.zeros(kinds, dtype=np.int64)
        for kind in np.indices(kinds, sparse=True):
            modes += kind > 0
        chosen: list[BoolArray] = [(modes > 0) & (modes <= most) for most in range(1, len(kinds) + 1)]
        return max((terms for terms in chosen[1:] if terms.sum() <= limits.MOST_TERMS), key=np.sum, default=chosen[0])

    def variances(self, tau: FloatArray) -> FloatArray:
        """Sum over terms: the variance of each coefficient."""
        return reduce(_product, self.spectra, tau)

    def by_term(self, t: FloatArray) -> FloatArray:
        """Sum over coefficients: the adjoint of `variances`."""
        return reduce(_product, (rows.T for rows in self.spectra), t)

    def name(self, term: tuple[int, ...]) -> str:
        """Name a term: the modes that are not level, with ~ for a walk: ``"1 x 2~"`` for (0, 1, 2)."""
        return " x ".join(f"{k}{'~' * (kind - 1)}" for k, kind in enumerate(term) if kind)


def _product(a: FloatArray, matrix: FloatArray) -> FloatArray:
    """Multiply the first mode by a matrix and make it the last one: after all modes, each is in its place again."""
    product: FloatArray = a.reshape(len(a), -1).T @ matrix
    return product.reshape(*a.shape[1:], matrix.shape[1])


def _transform(a: FloatArray, by: Callable[..., FloatArray]) -> FloatArray:
    return np.moveaxis(by(a, norm="ortho", axis=0), 0, -1)


def _spectrum(n: int) -> FloatArray:
    wave = np.arange(1, n)
    steps = 2.0 - 2.0 * np.cos(np.pi * wave / n)  # the squared steps of a wave from neighbour to neighbour
    rows = np.zeros((min(n, 3), n))
    rows[0, 0] = 1.0
    rows[1:2, 1:] = 1.0
    rows[2:, 1:] = 1.0 / steps
    normal: FloatArray = n * rows / rows.sum(axis=1, keepdims=True)
    return normal


@dataclass(frozen=True, eq=False)
class Observed:
    """The data of the fit."""

    waves: Waves
    p: FloatArray  # X on the observed cells, scaled to sum to 1; 0 elsewhere
    measure: FloatArray  # the base measure on the observed cells, 0 elsewhere

    @cached_property
    def n_cells(self) -> int:
        """The number of observed cells; P weighs as much as one count in each of them."""
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
    """The objective and what its derivatives need, at one b: log q = sum of spread * b * wave - psi."""

    observed: Observed
    spread: FloatArray  # standard deviations of the coefficients of the waves
    b: FloatArray
    h: FloatArray  # log q + psi at every cell
    q: FloatArray  # Q on the observed cells
    psi: float
    value: float  # the objective

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
        """Solve with the Hessian by conjugate gradients until a share `accuracy` of the right-hand side is left.

        The preconditioner is the Hessian's diagonal where cells are evenly spread.
        """
        unit = float(np.abs(right).max())
        if 0.0 < unit < np.inf and not 1.0 / LARGE <= unit <= LARGE:  # squares would leave the range of float64
            return unit * self.solve(right / unit, accuracy)
        scale = 1.0 / (1.0 + self.spread**2 * (self.observed.n_cells / self.q.size))
        found, left = np.zeros_like(right), right.copy()
        enough = accuracy * float(np.linalg.norm(right))
        along = scaled = scale * left
        size = float(np.vdot(left, scaled))
        for _ in range(CG_STEPS):
            if float(np.linalg.norm(left)) <= enough:
                break
            image = self.curvature(along)
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
    n, norm = place.observed.n_cells, float(np.linalg.norm(place.gradient))
    return Step(iteration, place.value / n, place.residual, norm / n, length)


def _line_search(place: PenalisedPoint, direction: FloatArray) -> tuple[PenalisedPoint, float]:
    """Halve the step until the objective has fallen enough; return where it ends, and its length.

    It does not call `solvers.linesearch`, which moves theta of a model with a basis: here the coefficients of waves
    move, and the objective has a penalty.
    """
    slope, length = float(np.vdot(place.gradient, direction)), 1.0
    while True:
        there = place.observed.at(place.b + length * direction, place.spread)
        allowed = place.value + SUFFICIENT * length * slope + ROUNDING * abs(place.value)
        if there.value <= allowed or length < ROUNDING:
            return there, length
        length /= 2
