"""The state of boxes that grow: which, where their fit stands, and which cells they keep empty."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.fitting.boxes.candidates import candidates, choose
from legendre.fitting.boxes.factor import BoxFactor, correlations, inverse_deviation
from legendre.fitting.boxes.observed_sums import BoxList, Ground
from legendre.fitting.boxes.span import Span

OVER = 3  # candidates whose gains given the basis are computed, for each box that is added
FEWEST = 128  # at least so many of them
WIDER = 4  # times as many after a round that found nothing
SHARE = 0.1  # boxes that a round adds, as a share of those there are
DONE = 1e-4  # a round's fit ends when half the squared Newton decrement is below this share of what the round gained
STEPS = 8  # steps of a round's fit at most
SLOW = 0.3  # the decrement may fall to this share in a step; where it falls more slowly, the factor is computed anew
FALL = 3.0  # by which log q falls at most in one step where there is data: more may end at a point that nothing leaves
SUFFICIENT, OVERSHOT, SHORTEST = 0.1, 0.5, 1e-4  # see `solvers.linesearch`
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Point:
    """A member of the model."""

    theta: FloatArray  # of the free boxes
    z: FloatArray  # theta summed over the boxes around each cell
    q: FloatArray
    sums: FloatArray  # running sums of q
    psi: float
    objective: float  # KL(P, Q) up to a constant of the data
    means: FloatArray  # of the free boxes


@dataclass(eq=False)
class Growing:
    """Boxes on their way. Those that only keep cells empty have no finite parameter; the others are `free`."""

    ground: Ground
    weights: FloatArray | None  # the measure of each cell; 0 where cells vanish
    boxes: BoxList  # all that were chosen, in order
    free: IntArray  # the places of those with a finite parameter
    turn: int = 0  # rounds so far
    hat: FloatArray = field(init=False)  # their means under P
    point: Point = field(init=False)
    factor: BoxFactor = field(init=False)
    _span: Span | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        boxes = self._free_boxes
        self.hat = self.ground.sums(self.ground.data_sums, boxes)
        self.point = self._at(np.zeros(len(boxes)), np.zeros(self.ground.shape))
        self.factor = BoxFactor.of(self.ground, self.point.sums, boxes)

    @classmethod
    def of(cls, ground: Ground, boxes: BoxList, target: float = 1e-8) -> Growing:
        """Begin with some boxes, and fit them: half the squared Newton decrement is then at most `target`."""
        started = cls(ground, ground.weights, BoxList(boxes.lo[:0], boxes.hi[:0]), np.arange(0))
        if len(boxes):
            started._take(boxes)
            started.factor = BoxFactor.of(ground, started.point.sums, started._free_boxes)
            started.fit(target, 10 * STEPS)
        return started

    @property
    def _free_boxes(self) -> BoxList:
        return self.boxes.of(self.free)

    @property
    def kl(self) -> float:
        """KL(P, Q)."""
        return max(self.ground.negentropy + self.point.objective, 0.0)

    @property
    def theta(self) -> FloatArray:
        """Of all boxes; 0 for those that only keep cells empty."""
        out = np.zeros(len(self.boxes))
        out[self.free] = self.point.theta
        return out

    @property
    def span(self) -> Span:
        """What the boxes span; only those that grow need it."""
        if self._span is None:
            self._span = Span.of(self.ground, self.boxes)
        return self._span

    def _at(self, theta: FloatArray, z: FloatArray) -> Point:
        """Evaluate the model at theta, whose sums around each cell are z."""
        peak = float(z.max() if self.weights is None else z[self.weights > 0].max())
        q = np.exp(np.minimum(z - peak, 0.0))
        if self.weights is not None:
            q *= self.weights
        mass = float(q.sum())
        q /= mass
        psi, sums = peak + float(np.log(mass)), self.ground.running(q)
        means = self.ground.sums(sums, self._free_boxes)
        return Point(theta, z, q, sums, psi, psi - float(theta @ self.hat), means)

    def add(self, count: int, least: float = 0.0, idle: int = 0) -> float:
        """Add boxes, at most `count`; return what they gain together, to second order.

        After `idle` rounds that found nothing more candidates are looked at: those that gain most alone may be sums of
        boxes that are there.
        Where each must gain something, boxes with none or all of the data are left out: no sample shows that an event
        is impossible.
        """
        ground, factor = self.ground, self.factor
        among = max(OVER * count, FEWEST) * WIDER**idle
        found = candidates(ground, self.point.sums, factor, among, self.turn)
        if least > 0:
            found = found.of(inverse_deviation(ground.sums(ground.data_sums, found)) > 0)
        self.turn += 1
        if not len(found):
            return 0.0
        eta = ground.sums(factor.anchor, found)
        scale = inverse_deviation(eta)
        rows = factor.eliminated(factor.with_others(found, eta, scale))
        schur = correlations(ground, factor.anchor, found, eta, scale) - rows @ rows.T
        gap = (ground.sums(ground.data_sums, found) - ground.sums(self.point.sums, found)) * scale
        gap -= rows @ factor.half((self.hat - self.point.means) * factor.scale)
        span = self.span
        chosen, gains, own = choose(schur, gap, count, least, lambda i: span.take(found.lo[i], found.hi[i]))
        if not len(chosen):
            return 0.0
        kept = self._take(found.of(chosen))
        if kept.all():
            self.factor = factor.appended(
                found.of(chosen), eta[chosen], scale[chosen], np.hstack([rows[chosen], own[:, chosen].T])
            )
        else:
            self.factor = BoxFactor.of(ground, self.point.sums, self._free_boxes)
        return float(gains.sum())

    def _take(self, fresh: BoxList) -> BoolArray:
        """Take boxes into the basis; return which of them have a finite parameter."""
        kept = np.ones(len(fresh), dtype=np.bool_)
        before = len(self.boxes)
        self.boxes = self.boxes.joined(fresh)
        if (seen := self.ground.count_sums) is not None:
            kept = self._emptied(before, seen)
        self.free = np.append(self.free, before + np.flatnonzero(kept))
        theta = np.append(self.point.theta, np.zeros(int(kept.sum())))
        self.hat = self.ground.sums(self.ground.data_sums, self._free_boxes)
        self.point = self._at(theta, self.point.z)
        return kept

    def _emptied(self, before: int, seen: FloatArray) -> BoolArray:
        """Leave out the cells that the newest boxes keep empty in the limit; return which have a finite parameter.

        A box without data vanishes. Of two boxes with the same data, one inside the other, what lies between them does;
        so does what lies outside a box with all of the data.
        """
        counts = np.rint(self.ground.sums(seen, self.boxes))
        total = float(np.rint(seen.flat[-1]))
        kept = np.ones(len(self.boxes) - before, dtype=np.bool_)
        dead = np.zeros(self.ground.shape, dtype=np.bool_)
        for new in range(len(kept)):
            i = before + new
            inside = _slices(self.boxes, i)
            if counts[i] == 0:
                dead[inside], kept[new] = True, False
                continue
            if counts[i] == total:
                outside = np.ones(self.ground.shape, dtype=np.bool_)
                outside[inside] = False
                dead |= outside
                kept[new] = False
                continue
            for j in np.flatnonzero(counts[:i] == counts[i]).tolist():
                one, other = (i, j) if _within(self.boxes, i, j) else (j, i)
                if _within(self.boxes, one, other):  # the smaller one first
                    between = np.zeros(self.ground.shape, dtype=np.bool_)
                    between[_slices(self.boxes, other)] = True
                    between[_slices(self.boxes, one)] = False
                    dead |= between
                    kept[new] = False
        if dead.any():
            self.weights = np.where(dead, 0.0, 1.0 if self.weights is None else self.weights)
        return kept

    def losses(self) -> FloatArray:
        """Estimate what KL rises by without each box, to second order; 0 for those that only keep cells empty."""
        out, anchored = np.zeros(len(self.boxes)), BoxFactor.of(self.ground, self.point.sums, self._free_boxes)
        out[self.free] = self.point.theta**2 / (2.0 * anchored.inverse_diagonal())
        return out

    def fit(self, target: float, steps: int) -> None:
        """Take chord steps until half the squared Newton decrement is at most `target`."""
        last = None
        for _ in range(steps):
            point = self.point
            gap = self.hat - point.means
            half = self.factor.half(gap * self.factor.scale)
            decrement = 0.5 * float(half @ half)
            if decrement <= target:
                return
            fresh = self.factor.anchor is point.sums
            if not fresh and (len(self.free) < limits.FEW_BOXES or (last is not None and decrement > SLOW * last)):
                self.factor, last = BoxFactor.of(self.ground, point.sums, self._free_boxes), None
                half = self.factor.half(gap * self.factor.scale)
                decrement = 0.5 * float(half @ half)
            moved = self._moved(self.factor.solve(half), gap)
            if moved is None:
                return
            self.point, last = moved, decrement

    def _moved(self, direction: FloatArray, gap: FloatArray) -> Point | None:
        """Go along a direction, less far where the objective does not fall enough or the step overshoots.

        The rule is that of `solvers.linesearch`, which evaluates by an engine; here the change of log q on the grid is
        computed once for all lengths, and bounds the first of them.
        """
        point, ground = self.point, self.ground
        change = ground.on_grid(self._free_boxes, direction)
        fall = float(direction @ point.means) - float(change[ground.p > 0].min())
        slope, step = -float(gap @ direction), min(1.0, FALL / max(fall, EPS))
        blur = 8 * EPS * (abs(point.psi) + float(np.abs(point.theta) @ self.hat) + 1.0)
        while step > SHORTEST:
            trial = self._at(point.theta + step * direction, point.z + step * change)
            rise, behind = trial.objective - point.objective, float((trial.means - self.hat) @ direction)
            if (rise <= SUFFICIENT * step * slope or abs(rise) <= blur) and behind <= OVERSHOT * abs(slope):
                return trial
            secant = slope / (slope - behind) if behind > slope else 0.5
            step *= min(max(secant, 0.1), 0.5)
        return None


def _slices(boxes: BoxList, i: int) -> tuple[slice, ...]:
    return tuple(slice(int(a), int(b)) for a, b in zip(boxes.lo[i], boxes.hi[i], strict=True))


def _within(boxes: BoxList, i: int, j: int) -> bool:
    """Whether box i lies inside box j."""
    return bool((boxes.lo[i] >= boxes.lo[j]).all() and (boxes.hi[i] <= boxes.hi[j]).all())
