"""A growing basis and its fit: features, theta, eta of every cell, and a factor of the features' correlations.

Fits between rounds are chord steps with a factor that is kept; a new one is computed only where that is cheaper than
more steps. Faces and rank are not searched for: `Ground.vanishing` takes out what surely vanishes, a little on the
diagonal of the factor makes dependent parameters harmless, and the last fit, an ordinary one, does the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import blas, lapack

from legendre.core import limits
from legendre.core.sums.linalg import limit_blas
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.fitting.growing.features import Features, Ground, Moments, inverse_deviation
from legendre.solvers.linesearch import backtrack

DAMPING = {"d": 1e-9, "f": 1e-6}
"""What is added to the correlations' diagonal, by the type of the factor, if no more is needed: dependent parameters
are not moved far."""


@dataclass(frozen=True, eq=False)
class GrowingFactor:
    """``A = L L'``, to which rows are appended.

    It has the type of the matrix that it was computed of. In float32 it takes half the time, and is good to some six
    digits: enough for a preconditioner.

    >>> first = GrowingFactor.of(np.array([[4.0, 0.0], [2.0, 5.0]]))
    >>> grown = first.append(first.half(np.array([[2.0], [3.0]])).T, np.array([[2.0]]))
    >>> grown.solve(np.array([8.0, 10.0, 11.0])).tolist()  # A = [[4, 2, 2], [2, 5, 3], [2, 3, 6]]
    [1.0, 1.0, 1.0]
    """

    panels: tuple[tuple[AnyArray, AnyArray], ...] = ()
    """Some rows each: left of the diagonal block, and the transpose of that block. Nothing is copied when it grows."""
    kind: str = "d"  # the character of NumPy's type of its numbers: "d" for float64, "f" for float32

    @classmethod
    def of(cls, lower: AnyArray, height: int = 256) -> GrowingFactor | None:
        """Factorise a matrix given by its lower triangle (C order), which is overwritten; ``None`` if not positive.

        Panels have some `height`: products of matrices are nearly twice as fast as triangular solves.
        """
        k, kind = len(lower), lower.dtype.char
        if not k:
            return cls(kind=kind)
        factorise = lapack.dpotrf if kind == "d" else lapack.spotrf
        upper, info = factorise(lower.T, lower=0, clean=0, overwrite_a=1)
        if info or not np.isfinite(upper.diagonal()).all():  # BLAS need not notice NaN
            return None
        rows = [slice(first, min(first + height, k)) for first in range(0, k, height)]
        return cls(tuple((upper.T[some, : some.start], np.asfortranarray(upper[some, some])) for some in rows), kind)

    def append(self, left: AnyArray, lower: FloatArray) -> GrowingFactor:
        """Append rows of L: left of the diagonal, and the lower triangle there."""
        panel = np.ascontiguousarray(left, self.kind), np.ascontiguousarray(lower, self.kind).T
        return GrowingFactor((*self.panels, panel), self.kind)

    def half(self, right: AnyArray, *, overwrite: bool = False) -> AnyArray:
        """Solve ``L x = right`` for a vector or for the columns of a matrix; in the type of the factor.

        In place (C order, and that type) if `overwrite`.
        """
        out = right if overwrite else np.array(right, self.kind, order="C")
        solve = (blas.dtrsv, blas.dtrsm) if self.kind == "d" else (blas.strsv, blas.strsm)
        for left, block in self.panels:
            rows = out[left.shape[1] : left.shape[1] + len(block)]
            if left.size:
                rows -= left @ out[: left.shape[1]]
            if out.ndim == 1:
                rows[:] = solve[0](block, rows, lower=0, trans=1)
            elif out.shape[1]:
                solve[1](1.0, block, rows.T, side=1, lower=0, overwrite_b=1)  # contiguous: in place
        return out

    def back(self, right: AnyArray) -> AnyArray:
        """Solve ``L' x = right`` for a vector."""
        out, solve = np.array(right, self.kind), blas.dtrsv if self.kind == "d" else blas.strsv
        for left, block in reversed(self.panels):
            first, stop = left.shape[1], left.shape[1] + len(block)
            out[first:stop] = solve(block, out[first:stop], lower=0, trans=0)
            out[:first] -= out[first:stop] @ left
        return out

    def solve(self, right: FloatArray) -> AnyArray:
        """Solve ``A x = right`` for a vector."""
        return self.back(self.half(right))

    @cached_property
    def inverse(self) -> AnyArray:
        """The inverse of L; the squares in its columns sum to the diagonal of the inverse of A."""
        k = sum(len(block) for _, block in self.panels)
        lower = np.zeros((k, k), self.kind)
        for left, block in self.panels:
            rows = slice(left.shape[1], left.shape[1] + len(block))
            lower[rows, : rows.start], lower[rows, rows] = left, np.tril(block.T)
        invert = lapack.dtrtri if self.kind == "d" else lapack.strtri
        return np.asarray(invert(lower.T, lower=0, overwrite_c=1)[0].T) if k else lower


@dataclass(frozen=True, eq=False)
class Anchor:
    """The factor of the correlations between the features of the basis, and the distribution they were taken under."""

    moments: Moments
    factor: GrowingFactor
    damping: float  # added to the diagonal

    @classmethod
    def of(cls, moments: Moments, *, single: bool) -> Anchor:
        """Factorise, in float32 if `single` and if that succeeds; more is added to the diagonal where rounding asks it.

        Where nothing helps, as where eta holds NaN, correlations are taken for 0.
        """
        attempts = [("d", 10.0**power) for power in range(-9, -1)]
        for kind, damping in [*([("f", DAMPING["f"])] if single else []), *attempts]:
            matrix = moments.correlations(moments, lower=True, dtype=kind)
            np.fill_diagonal(matrix, 1.0 + damping)
            if (factor := GrowingFactor.of(matrix)) is not None:
                return cls(moments, factor, damping)
        identity = np.empty((len(moments.mean), 0)), np.eye(len(moments.mean))
        return cls(moments, GrowingFactor((identity,)), 1.0)


@dataclass(frozen=True, eq=False)
class Inverse:
    """Near the inverse of the Fisher matrix: the factor of older correlations, the variances of the present."""

    factor: GrowingFactor
    scale: FloatArray  # one over the features' standard deviations
    origins: ClassVar[tuple[FloatArray, ...]] = ()

    def apply(self, vector: FloatArray) -> FloatArray:
        """Solve with the factor."""
        with limit_blas():
            return self.factor.solve(vector * self.scale) * self.scale


@dataclass(frozen=True, eq=False)
class State:
    """A basis and a fit to it."""

    ground: Ground
    features: Features
    goal: FloatArray  # means of the features in X
    dead: BoolArray | None  # cells of the grid that vanish
    theta: FloatArray
    z: FloatArray  # sums of theta around each cell, plus the log measure: log q up to psi; -inf where q = 0
    q: FloatArray
    eta: FloatArray  # suffix sums of q
    psi: float
    known: Anchor | None = None  # a factor that was computed here or elsewhere

    @classmethod
    def of(cls, ground: Ground, features: Features, theta: FloatArray) -> State:
        """Evaluate theta."""
        empty = np.empty(0)
        state = cls(ground, features, ground.means(ground.eta_hat, features), None, theta, empty, empty, empty, 0.0)
        return state.at(theta, ground.vanishing(features))

    def at(self, theta: FloatArray, dead: BoolArray | None, z: FloatArray | None = None) -> State:
        """Evaluate the member of the model with parameters theta, without the cells that vanish."""
        z = self.log_density(theta, dead) if z is None else z
        top = float(z.max())
        q = np.subtract(z, top)
        np.exp(q, out=q)
        total = float(q.sum())
        q /= total
        eta = q.copy()
        self.ground.sum_up(eta, back=True)
        psi = top + math.log(total) if total > 0 else math.nan
        return State(self.ground, self.features, self.goal, dead, theta, z, q, eta, psi, self.known)

    def log_density(self, theta: FloatArray, dead: BoolArray | None) -> FloatArray:
        """Return the logarithm of q up to psi; -inf where q = 0."""
        z = self.ground.spread(self.features, theta)
        if self.ground.log_measure is not None:
            z += self.ground.log_measure
        if dead is not None:
            z[dead] = -np.inf
        return z

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.theta)

    @cached_property
    def objective(self) -> float:
        """``psi - theta . eta_hat``."""
        return self.psi - float(self.theta @ self.goal)

    @property
    def kl(self) -> float:
        """KL(P, Q)."""
        return max(self.ground.negentropy + self.objective, 0.0)

    @cached_property
    def mean(self) -> FloatArray:
        """The means of the features."""
        return self.ground.means(self.eta, self.features)

    @cached_property
    def scale(self) -> FloatArray:
        """One over the standard deviations of the features here: correlations may be old, these need not be.

        Where the data have far more than the model, or less, it is the variance with which theta alone would arrive.
        """
        with np.errstate(all="ignore"):
            scale = inverse_deviation(self.mean)
            ahead = np.log(self.goal * (1.0 - self.mean) / (self.mean * (1.0 - self.goal)))
            # odds that differ by more than 1000: the slope at the model says little of the distance to go
            far = np.isfinite(ahead) & (np.abs(ahead) > math.log(1000.0))
            scale[far] = np.sqrt(ahead[far] / (self.goal - self.mean)[far])
        return scale

    @cached_property
    def whitened(self) -> FloatArray:
        """The slope in coordinates in which the correlations are the identity: its square is the Newton decrement."""
        return self.anchor.factor.half((self.goal - self.mean) * self.scale).astype(np.float64)

    @cached_property
    def keepers(self) -> set[int]:
        """The features that keep cells empty."""
        return {i for *_, owners in self.ground.empty_regions(self.features) for i in owners}

    @property
    def anchor(self) -> Anchor:
        """The factor."""
        assert self.known is not None
        return self.known

    @property
    def fresh(self) -> bool:
        """Whether the factor was computed here."""
        return self.known is not None and self.known.moments.eta is self.eta

    def anchored(self, *, double: bool = False) -> State:
        """Factorise the correlations here; in float64 if `double`, which a large basis has no need of but seldom."""
        if self.fresh and not (double and self.anchor.factor.kind == "f"):
            return self
        single = self.size >= limits.SINGLE_FACTOR and not double
        return replace(self, known=Anchor.of(Moments.of(self.ground, self.eta, self.features), single=single))

    def fit(self, target: float, steps: int, tol: float | None = None, factors: float = math.inf) -> tuple[State, int]:
        """Step until half the squared Newton decrement is at most `target`, or max|eta - eta_hat| at most `tol`.

        At most `factors` new ones are computed. Returned are a state near the minimum, and the number of steps.
        """
        state, last, done = self if self.known is not None else self.anchored(), math.inf, 0
        with np.errstate(all="ignore"):
            while state.size:
                decrement = float(state.whitened @ state.whitened) / 2.0
                arrived = decrement <= target if tol is None else float(np.abs(state.goal - state.mean).max()) <= tol
                if arrived or done >= steps or not math.isfinite(decrement):
                    break
                stay = state.fresh or not state._factor_pays(decrement, last, target)
                after = state._search(-2.0 * decrement) if stay else None
                if after is None:
                    if state.fresh or not factors:
                        break
                    state, last, factors = state.anchored(), math.inf, factors - 1
                    continue
                state, last, done = after, decrement, done + 1
        return state, done

    def renew(self, steps: int) -> State:
        """Factorise anew after a fit of some steps, where that saves later ones more time than it costs."""
        # a new factor takes two steps to the same goal; two later rounds are counted
        pays = max(2 * (steps - 2), 1) * self._step_time >= self._factor_time
        return self.anchored() if pays and not self.fresh else self

    @property
    def _step_time(self) -> float:
        """The nanoseconds of a step, roughly: sweeps, and two triangular solves."""
        return 8.0 * self.ground.size + self.size**2 + 1e5

    @property
    def _factor_time(self) -> float:
        """The nanoseconds of a new factor, roughly: its entries, and Cholesky."""
        return self.size**3 / 90.0 + self.size**2 + 5e4

    def _factor_pays(self, decrement: float, last: float, target: float) -> bool:
        """Whether a new factor is cheaper than the steps that the present one will take, by the last contraction."""
        rate, left = decrement / last if last > 0 else math.inf, 3.0
        if decrement > 0 and last < math.inf:
            left = math.log(max(target, 1e-18) / decrement) / math.log(max(rate, 1e-9)) if rate < 0.9 else math.inf
        return decrement > 0 and (left - 2) * self._step_time > self._factor_time

    def _search(self, slope: float, deepest: float = 3.0) -> State | None:
        """Go in the direction that the factor proposes, by a full step if that is good; ``None`` if no step is good.

        Where there are data, log q falls by no more than `deepest` in the first try: else cells die for ever.
        """
        direction = self.anchor.factor.back(self.whitened) * self.scale
        z = self.log_density(self.theta + direction, self.dead)
        mean, change = float(self.mean @ direction), z - self.z
        fall = mean - float(np.fmin.reduce(change))  # of all cells but those that vanish, where it is NaN
        if fall > deepest and self.ground.observed is not None:
            fall = mean - float(change[self.ground.observed].min())
        first = 1.0 if fall <= deepest else deepest / fall

        def phi(step: float) -> tuple[float, float, State]:
            after = self.at(self.theta + step * direction, self.dead, z if step == 1.0 else None)
            return after.objective - self.objective, float((after.mean - self.goal) @ direction), after

        if not (np.isfinite(direction).all() and np.abs(direction).max(initial=0.0) < 1e100):
            return None
        noise = 8 * float(np.finfo(np.float64).eps) * (abs(self.psi) + float(np.abs(self.theta) @ self.goal) + 1.0)
        found = backtrack(phi, slope, first=first, shortest=1e-4 * first, noise=noise)
        return None if found is None else found[1]

    def without(self, gone: IntArray) -> State:
        """Leave features out; to second order the others make up for it."""
        ground, left = self.ground, np.delete(np.arange(self.size), gone)
        lost = ground.spread(self.features.of(gone), self.theta[gone])
        lost -= float(self.q @ lost)
        lost *= self.q
        ground.sum_up(lost, back=True)
        theta = self.theta[left]
        less = replace(self, features=self.features.of(left), goal=self.goal[left], theta=theta, known=None).anchored()
        dead = self.dead if self.keepers.isdisjoint(gone.tolist()) else ground.vanishing(less.features)
        move = less.anchor.factor.solve(ground.means(lost, less.features) * less.scale) * less.scale
        after = less.at(theta + move, dead)
        if not after.objective - self.objective < 0.05 * self.kl:  # too far for the second order
            plain = less.at(theta, dead)
            after = after if after.objective < plain.objective else plain
        return after
