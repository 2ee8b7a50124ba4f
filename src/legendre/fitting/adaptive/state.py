"""A growing basis and its fit: cells, theta, eta of every cell, and the factor of the features' correlations.

Fits between rounds are chord steps with a factor that is kept; a new one is computed only where that is cheaper than
more steps. Faces and rank are not searched for. Two rules, decided cell by cell, take out what surely vanishes
(`Ground.vanishing`); a little on the diagonal of the factor makes dependent parameters harmless; the last fit, an
ordinary one, does the rest. BLAS runs in one thread here (`grow`), so that its sums have the same bits everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.sums.joins import inverse_deviation
from legendre.core.sums.zeta import accumulate
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.adaptive.observed_sums import Ground
from legendre.fitting.adaptive.parts import Anchor, Choice, Member

FAR = math.log(1000.0)  # of the ratio of odds from which the slope at the model says little of the way to go
FARTHEST = 1e100  # no step leads to theta this large, whose square is still a number
DEEPEST = 3.0  # log q falls by no more in the first try of a step, where there is data: else cells die for ever
SUFFICIENT, LEVEL = 0.1, 0.5  # Armijo's share of the slope; the slope that may be left, upwards, at the end of a step
SHORTEST = 1e-4  # the shortest step that is tried, as a share of the first
SLOW = 0.9  # a contraction that leads nowhere
NEWTON_STEPS = 2  # steps that a new factor takes to the same goal
PAST = 2  # rounds to come for which the steps that a new factor saves are counted
FEWER = 6  # times fewer boxes than cells of the grid, from which a fit between rounds is of boxes
BLUR = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class State:
    """A basis and a fit to it."""

    ground: Ground
    places: IntArray  # the cells of the basis, in order
    dead: BoolArray | None  # cells of the grid that vanish
    at: Member
    anchor: Anchor | None = None  # None: not computed yet

    @classmethod
    def of(cls, ground: Ground, places: IntArray, theta: FloatArray) -> State:
        """Evaluate theta."""
        dead = None if ground.seen is None else ground.vanishing(places)
        return cls(ground, places, dead, evaluated(ground, places, theta, dead))

    @property
    def size(self) -> int:
        """The number of parameters."""
        return len(self.places)

    @cached_property
    def cells(self) -> IntArray:
        """The cells of the basis, k x N."""
        return self.ground.cells(self.places)

    @property
    def kl(self) -> float:
        """KL(P, Q)."""
        return max(self.ground.negentropy + self.at.objective, 0.0)

    @cached_property
    def gradient(self) -> FloatArray:
        """``eta_hat - eta`` of the basis."""
        return np.asarray(self.ground.eta_hat[self.places] - self.at.eta[self.places])

    @cached_property
    def scale(self) -> FloatArray:
        """One over the standard deviations of the features here: correlations may be old, these need not be.

        Where the data have far more than the model, or less, it is the variance with which theta alone would arrive.
        """
        eta, goal = self.at.eta[self.places], self.ground.eta_hat[self.places]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scale, ahead = inverse_deviation(eta), np.log(goal * (1.0 - eta) / (eta * (1.0 - goal)))
        far = np.isfinite(ahead) & (np.abs(ahead) > FAR)
        scale[far] = np.sqrt(ahead[far] / self.gradient[far])
        return scale

    @cached_property
    def slope(self) -> FloatArray:
        """The gradient in units of the features' standard deviations."""
        return self.gradient * self.scale

    @cached_property
    def whitened(self) -> FloatArray:
        """The slope in coordinates in which the correlations are the identity: its square is the Newton decrement."""
        assert self.anchor is not None
        return self.anchor.factor.half(self.slope).astype(np.float64)

    @property
    def newton_step(self) -> FloatArray:
        """The change of theta that the factor proposes."""
        assert self.anchor is not None
        return self.anchor.factor.back(self.whitened) * self.scale

    @cached_property
    def keepers(self) -> set[int]:
        """The places of cells that keep others empty, see `Ground.vanishing`."""
        corners = [u for region in self.ground.empty_regions(self.places) for u in region if u is not None]
        return {int(u @ self.ground.strides) for u in corners}

    @property
    def fresh(self) -> bool:
        """Whether the factor was computed here, for all cells at once."""
        return self.anchor is not None and self.anchor.eta is self.at.eta

    @property
    def single(self) -> bool:
        """Whether the factor is in float32, which does not tell near-duplicates from duplicates."""
        return self.anchor is not None and self.anchor.factor.kind == "f"

    def anchored(self, *, double: bool = False) -> State:
        """Factorise the correlations here; in float64 if `double`, which a large basis has no need of but seldom."""
        if self.fresh and not (double and self.single):
            return self
        single = self.size >= limits.SINGLE_FACTOR and not double
        anchor = Anchor.of(self.at.eta, self.places, self.ground.shape, single=single, compiled=self.ground.compiled)
        return State(self.ground, self.places, self.dead, self.at, anchor)

    def grown(self, choice: Choice, share: float, most: int) -> State:
        """Add cells and fit until half the squared Newton decrement is at most `share` of their gain."""
        ground, anchor, places = self.ground, self.anchor, np.concatenate([self.places, choice.places])
        assert anchor is not None
        theta = np.append(self.at.theta, np.zeros(len(choice.places)))
        dead = None if ground.seen is None else ground.vanishing(places, len(self.places), self.dead)
        if len(ground.eta_hat) > limits.NUMPY_CELLS:  # where cells cut few boxes: the same fit in less time
            boxes, on_boxes = ground.merged(places, FEWER)
            if boxes is not ground:
                theta = fitted(State.of(boxes, on_boxes, theta), share * choice.gain, most)[0].at.theta
                return State(ground, places, dead, evaluated(ground, places, theta, dead)).anchored()
        features, factor = (
            anchor.features.joined(choice.features, choice.listed),
            anchor.factor.appended(choice.left, choice.lower),
        )
        same = dead is None or (self.dead is not None and np.array_equal(dead, self.dead))
        at = self.at._replace(theta=theta) if same else evaluated(ground, places, theta, dead)
        grown = State(ground, places, dead, at, Anchor(anchor.eta, features, factor, anchor.damping))
        return renewed(*fitted(grown, share * choice.gain, most))


def sum_grid(ground: Ground, grid: FloatArray, *, back: bool) -> None:
    """Replace a grid by its sums at or below each cell; at or above it if `back`."""
    if ground.compiled:
        from legendre.core.sums.kernels.dense import sum_grid as compiled_sum

        compiled_sum(0, grid.reshape(ground.shape[0], -1), np.array(ground.shape[1:], dtype=np.int64), back=back)
    else:
        accumulate(np.flip(grid.reshape(ground.shape)) if back else grid.reshape(ground.shape))


def zeta_at(ground: Ground, places: IntArray, values: FloatArray) -> FloatArray:
    """Sum values, which stand on some cells, over what is at or below each cell."""
    grid = np.zeros(len(ground.eta_hat))
    grid[places] = values
    sum_grid(ground, grid, back=False)
    return grid


def evaluated(ground: Ground, places: IntArray, theta: FloatArray, dead: BoolArray | None) -> Member:
    """Evaluate the member of the model with parameters theta, without the cells that vanish."""
    return _decoded(ground, places, theta, _log_density(ground, places, theta, dead))


def _log_density(ground: Ground, places: IntArray, theta: FloatArray, dead: BoolArray | None) -> FloatArray:
    """Return the logarithm of q up to psi; -inf where q = 0."""
    z = zeta_at(ground, places, theta)
    if ground.log_measure is not None:
        z += ground.log_measure
    if dead is not None:
        z[dead] = -np.inf
    return z


def _decoded(ground: Ground, places: IntArray, theta: FloatArray, z: FloatArray) -> Member:
    """Compute q, eta and psi from the logarithms of q up to a constant."""
    top = float(z.max())
    q = np.subtract(z, top)
    np.exp(q, out=q)
    total = float(q.sum())
    q /= total
    eta = q.copy()
    sum_grid(ground, eta, back=True)
    psi = top + math.log(total) if total > 0 else math.nan
    return Member(theta, z, q, eta, psi, psi - float(theta @ ground.eta_hat[places]))


def fitted(
    state: State, goal: float, most: int, tol: float | None = None, factors: float = math.inf
) -> tuple[State, int]:
    """Step until half the squared Newton decrement is at most `goal`; or max|eta - eta_hat| at most `tol`, if given.

    At most `factors` new ones are computed. Returned are a state near the minimum, and the number of steps.
    """
    if not len(state.places):
        return state, 0
    state = state if state.anchor is not None else state.anchored()
    last, done = math.inf, 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            decrement = float(state.whitened @ state.whitened) / 2.0
            arrived = decrement <= goal if tol is None else float(np.abs(state.gradient).max()) <= tol
            if arrived or done >= most or not math.isfinite(decrement):
                break
            stay = state.fresh or not _factor_pays(state, decrement, last, goal)
            member = _searched(state, state.newton_step, -2.0 * decrement) if stay else None
            if member is None:
                if state.fresh or not factors:
                    break
                state, last, factors = state.anchored(), math.inf, factors - 1
                continue
            state, last, done = State(state.ground, state.places, state.dead, member, state.anchor), decrement, done + 1
    return state, done


def renewed(state: State, steps: int) -> State:
    """Factorise anew at the end of a round, where that saves later rounds more steps than it costs."""
    saved = max((steps - NEWTON_STEPS) * PAST, 1) * step_time(state)
    return state.anchored() if not state.fresh and saved >= factor_time(state) else state


def step_time(state: State) -> float:
    """Estimate the nanoseconds of a step: sweeps, and two triangular solves."""
    return 8.0 * len(state.ground.eta_hat) + 1.0 * len(state.places) ** 2 + 1e5


def factor_time(state: State) -> float:
    """Estimate the nanoseconds of a new factor: its entries, and Cholesky."""
    k = len(state.places)
    return k**3 / 90.0 + 1.0 * k**2 + 5e4


def _factor_pays(state: State, decrement: float, last: float, goal: float) -> bool:
    """Whether a new factor is cheaper than the steps that the present one will take, judged by the last contraction."""
    left, step = 3.0, step_time(state)
    if not decrement > 0.0:  # nothing is left to go
        return False
    if last < math.inf:
        rate = decrement / last if last > 0 else math.inf
        left = math.inf if rate >= SLOW else math.log(max(goal, 1e-18) / decrement) / math.log(max(rate, 1e-9))
    return left * step > factor_time(state) + NEWTON_STEPS * step


def _searched(state: State, direction: FloatArray, slope: float) -> Member | None:
    """Go along a direction, by a full step if it is good, else by a shorter one; ``None`` if none is good.

    Not by `solvers.linesearch`, which has an engine: here sums above all cells are at hand, and cells must not die.
    """
    ground, places, at = state.ground, state.places, state.at
    if not np.isfinite(direction).all():
        return None
    step, z = _first_step(state, direction)
    eta_hat, shortest = ground.eta_hat[places], SHORTEST * step
    while step >= shortest > 0.0:
        theta = at.theta + step * direction
        if np.abs(theta).max() > FARTHEST:
            return None
        after = _decoded(ground, places, theta, _log_density(ground, places, theta, state.dead) if z is None else z)
        rise, ahead = after.objective - at.objective, float((after.eta[places] - eta_hat) @ direction)
        lower = rise <= SUFFICIENT * step * slope
        if not lower:  # or as low as can be told
            lower = abs(rise) <= BLUR * (abs(at.psi) + float(np.abs(at.theta) @ eta_hat) + 1.0)
        if lower and ahead <= LEVEL * abs(slope):
            return after
        step *= min(max(slope / (slope - ahead) if ahead > slope else 0.5, 0.1), 0.5)
        z = None
    return None


def _first_step(state: State, direction: FloatArray) -> tuple[float, FloatArray | None]:
    """Return the length of the first step to try and, if it is the full one, log q up to psi at its end."""
    ground, places, at = state.ground, state.places, state.at
    z = _log_density(ground, places, at.theta + direction, state.dead)
    mean, change = float(at.eta[places] @ direction), z - at.z
    fall = mean - float(np.fmin.reduce(change))  # of all cells but those that vanish, where it is not a number
    if fall > DEEPEST and ground.observed is not None:
        fall = mean - float(change[ground.observed].min())
    return (1.0, z) if fall <= DEEPEST else (DEEPEST / max(fall, 1e-300), None)
