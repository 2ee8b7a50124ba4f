"""A growing basis and its fit: features, the data they are fitted to, theta, and a factor of their correlations.

A feature is 1 on a box, ``lo <= v < hi``, and 0 elsewhere. The feature of a cell is the box from it to the end of every
mode; its mean is one suffix sum, and what two of them share is the suffix sum at their join, eq. (5). Other boxes take
suffix sums at all of their corners.

Fits between rounds are chord steps with a factor that is kept; a new one is computed only where that is cheaper than
more steps. Faces and rank are not searched for: `Ground.vanishing` takes out what surely vanishes, a little on the
diagonal of the factor makes dependent parameters harmless, and the last fit, an ordinary one, does the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.linalg import blas, lapack

from legendre.core import limits
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import accumulate, moebius_adjoint, zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.model.dual import probabilities
from legendre.solvers.linesearch import backtrack

LEAST_VARIANCE = 1e-13
"""A feature with no more variance than this is a constant: smaller ones are rounding errors of the suffix sums."""
Region = tuple[tuple[slice, ...], tuple[slice, ...], int, int]
"""Cells without data that a basis keeps empty: those in the first box and not in the second, which may be empty. The
numbers are those of the two features that do so, counted from 1; 0 stands for the grid itself, or for no feature."""


def inverse_deviation(mean: FloatArray) -> FloatArray:
    """Return one over the standard deviation of a feature that is 1 with probability `mean`, else 0; 0 if constant.

    >>> inverse_deviation(np.array([0.5, 0.0, 1.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    variance = mean * (1.0 - mean)
    usable = variance > LEAST_VARIANCE
    return np.where(usable, 1.0 / np.sqrt(np.where(usable, variance, 1.0)), 0.0)


@dataclass(frozen=True, eq=False)
class Features:
    """Boxes by their corners: coordinates times strides, (modes, k), so that a place in the grid is a sum of them."""

    low: NDArray[np.int32]
    high: NDArray[np.int32] | None = None  # the first coordinates behind each box; None: all boxes are those of cells

    def __len__(self) -> int:
        return int(self.low.shape[1])

    @cached_property
    def places(self) -> IntArray:
        """Where the first corners are in the flat grid."""
        return np.asarray(self.low.sum(axis=0, dtype=np.int64))

    def of(self, chosen: IntArray | BoolArray) -> Features:
        """Return the features at some positions, or those that are marked True."""
        high = None if self.high is None else np.ascontiguousarray(self.high[:, chosen])
        return Features(np.ascontiguousarray(self.low[:, chosen]), high)

    def joined(self, other: Features) -> Features:
        """Return these features followed by others."""
        high = None if self.high is None or other.high is None else np.concatenate([self.high, other.high], axis=1)
        return Features(np.concatenate([self.low, other.low], axis=1), high)


@dataclass(frozen=True, eq=False)
class Ground:
    """X and sums of it. Grids are flat, in C order; with a border behind the last level of each mode for boxes."""

    data: Dense
    shape: tuple[int, ...]  # of the grid: that of X, or of boxes that a basis cuts it into, with the border
    border: int  # 1 if there is a border, else 0
    eta_hat: FloatArray  # suffix sums of X as probabilities
    negentropy: float  # the sum of p log(p / r): KL(P, Q) less the objective
    log_measure: FloatArray | None  # log of the base measure, -inf outside Omega; None where it is 0 everywhere
    seen: FloatArray | None  # suffix sums of the number of cells with data; None when X > 0 on Omega
    observed: IntArray | None  # the cells with data; None when all of the grid is

    @classmethod
    def of(cls, data: Dense, *, boxes: bool = False) -> Ground:
        """Compute all suffix sums that growing needs, in one pass over X; `boxes` adds the border that boxes need."""
        p, mask = probabilities(data), data.support.mask
        log_measure: FloatArray = np.zeros(p.shape)
        with np.errstate(divide="ignore"):
            if data.base is not None:
                log_measure = np.log(data.base)
        if mask is not None:
            log_measure = np.where(mask, log_measure, -np.inf)
        if boxes:
            p, log_measure = np.pad(p, (0, 1)), np.pad(log_measure, (0, 1), constant_values=-np.inf)
        seen = None if data.positive else zeta_adjoint((p > 0).astype(np.float64)).ravel()
        flat = log_measure.ravel() if log_measure.any() else None
        observed = None if seen is None and flat is None else np.flatnonzero(p > 0)
        return cls(data, p.shape, int(boxes), zeta_adjoint(p).ravel(), data.negentropy, flat, seen, observed)

    @cached_property
    def compiled(self) -> bool:
        """Whether compiled code sums and scores. A small X is spared the time that loading the compiler takes."""
        return self.eta_hat.size > limits.NUMPY_CELLS or self.data.compiled or self.border > 0

    @cached_property
    def strides(self) -> IntArray:
        """How far apart neighbours along each mode are in a flat grid."""
        return np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int64)

    @property
    def ends(self) -> IntArray:
        """The number of levels of each mode, without the border."""
        return np.array(self.shape, dtype=np.int64) - self.border

    def at(self, places: IntArray) -> Features:
        """Return the features of the cells at some places."""
        return self.boxes(np.stack(np.unravel_index(places, self.shape), axis=-1))

    def boxes(self, lo: IntArray, hi: IntArray | None = None) -> Features:
        """Return the features of boxes given by coordinates, k x N; of cells where `hi` is not given."""
        if hi is None and self.border:
            hi = np.broadcast_to(self.ends, lo.shape)
        low = (lo * self.strides).T.astype(np.int32, order="C")
        return Features(low, None if hi is None else (hi * self.strides).T.astype(np.int32, order="C"))

    def corners(self, features: Features) -> tuple[IntArray, IntArray]:
        """Return the coordinates of both corners of boxes, k x N each."""
        lo = features.low.T // self.strides
        return lo, np.broadcast_to(self.ends, lo.shape) if features.high is None else features.high.T // self.strides

    def means(self, eta: FloatArray, features: Features) -> FloatArray:
        """Return the sum over each box, read from suffix sums of a grid: the mean of its feature if they are eta."""
        if features.high is None:
            return eta[features.places]
        return np.asarray(sum(sign * eta[places] for sign, places in self._signed_corners(features)))

    def spread(self, features: Features, values: FloatArray) -> FloatArray:
        """Return for each cell the sum of the values of the boxes that contain it: theta becomes log q + psi."""
        grid = np.zeros(self.eta_hat.size)
        for sign, places in self._signed_corners(features):
            np.add.at(grid, places, sign * values)
        self.sum_up(grid, back=False)
        return grid

    def _signed_corners(self, features: Features) -> Iterator[tuple[float, IntArray]]:
        """Yield, for each of the 2^N corners of a box, the sign of its suffix sum and the corner's places, one per box.

        The sum over a box is their sum, by inclusion and exclusion; the box of a cell has one corner in the grid.
        """
        if features.high is None:
            yield 1.0, features.places
            return
        for far in itertools.product((False, True), repeat=len(self.shape)):
            places = np.where(np.array(far)[:, None], features.high, features.low).sum(axis=0)
            yield (-1.0) ** sum(far), places

    def sum_up(self, grid: FloatArray, *, back: bool) -> None:
        """Replace a grid by its sums at or below each cell; at or above it if `back`."""
        if self.compiled:
            from legendre.core.sums.kernels.dense import sum_grid

            sum_grid(grid.reshape(self.shape), back=back)
        else:
            accumulate(np.flip(grid.reshape(self.shape)) if back else grid.reshape(self.shape))

    def merged(self, features: Features, fewer: int = 2) -> tuple[Ground, Features]:
        """Merge the boxes that the features of some cells cut the grid into: the same problem on fewer cells.

        Where they are not `fewer` times fewer, or there is a border, the grid stays as it is. Sums above a merged cell
        are those above its first cell, so that nothing is summed again.
        """
        cells = self.corners(features)[0]
        quotient, boxes = Quotient.of(self.shape, cells)
        if self.border or fewer * quotient.n_merged > self.eta_hat.size:
            return self, features
        measure, first, observed = volumes(quotient), np.ix_(*quotient.cuts), self.observed
        if self.log_measure is not None:
            measure = quotient.merge(np.exp(self.log_measure).reshape(self.shape))
        seen = None if self.seen is None else self.seen.reshape(self.shape)[first]
        if observed is not None:
            observed = np.flatnonzero(measure if seen is None else moebius_adjoint(seen))
        with np.errstate(divide="ignore"):
            log_measure = np.log(measure).ravel()
        ground = replace(
            self,
            shape=quotient.merged_shape,
            eta_hat=self.eta_hat.reshape(self.shape)[first].ravel(),
            log_measure=log_measure,
            seen=None if seen is None else seen.ravel(),
            observed=observed,
        )
        return ground, ground.boxes(boxes)

    def vanishing(self, features: Features, known: int = 0, dead: BoolArray | None = None) -> BoolArray | None:
        """Mark the cells whose probability tends to 0 in the fit, as far as single features show it; ``None``: none.

        They are left out of the fit, because their theta would run to infinity. `dead` marks those that the first
        `known` features make vanish, which are not looked for again.
        """
        out = np.zeros(self.shape, dtype=np.bool_) if dead is None else dead.reshape(self.shape).copy()
        for outer, hole, *_ in self.empty_regions(features, known):
            kept = out[hole].copy()
            out[outer] = True
            out[hole] = kept
        return out.ravel() if out.any() else None

    def empty_regions(self, features: Features, known: int = 0) -> list[Region]:
        """List the regions that features after the first `known` keep empty.

        A box without data is one. Of two boxes with the same data, one inside the other, what lies between them is one;
        the grid itself is such a box.
        """
        if self.seen is None:
            return []
        ends = self.corners(features)
        lo, hi = np.vstack([0 * self.ends, ends[0]]), np.vstack([self.ends, ends[1]])
        counts = np.append(self.seen[0], np.rint(self.means(self.seen, features)))
        new = np.arange(len(lo)) > known

        def box(i: int) -> tuple[slice, ...]:
            return tuple(map(slice, lo[i].tolist(), hi[i].tolist()))

        nothing = (slice(0),) * len(self.shape)
        regions: list[Region] = [(box(i), nothing, i, 0) for i in np.flatnonzero(new & (counts == 0)).tolist()]
        some = np.flatnonzero(counts > 0)
        some = some[np.argsort(counts[some], kind="stable")]
        for apart in range(1, len(some)):  # pairs of equal counts stand next to each other, or in a run of equal ones
            one, other = some[:-apart], some[apart:]
            equal = counts[one] == counts[other]
            if not equal.any():
                break
            equal &= new[one] | new[other]
            one, other = one[equal], other[equal]
            for outer, inner in ((one, other), (other, one)):
                inside = (lo[inner] >= lo[outer]).all(axis=1) & (hi[inner] <= hi[outer]).all(axis=1)
                for i, j in zip(outer[inside].tolist(), inner[inside].tolist(), strict=True):
                    regions.append((box(i), box(j), i, j))
        return regions


@dataclass(frozen=True, eq=False)
class Moments:
    """Features under one distribution: their means, and one over their standard deviations."""

    ground: Ground
    eta: FloatArray
    features: Features
    mean: FloatArray
    scale: FloatArray  # 0 for a feature that is constant

    @classmethod
    def of(cls, ground: Ground, eta: FloatArray, features: Features) -> Moments:
        """Read the means of features from `eta`, the suffix sums of a distribution."""
        mean = ground.means(eta, features)
        return cls(ground, eta, features, mean, inverse_deviation(mean))

    def joined(self, other: Moments, chosen: IntArray) -> Moments:
        """Return these followed by the `chosen` of others, as when features are added to a basis."""
        mean, scale = np.append(self.mean, other.mean[chosen]), np.append(self.scale, other.scale[chosen])
        return replace(self, features=self.features.joined(other.features.of(chosen)), mean=mean, scale=scale)

    def correlations(self, others: Moments, *, lower: bool = False, dtype: DTypeLike = np.float64) -> AnyArray:
        """Return the correlations of these features (rows) with others (columns), in some type of numbers.

        With `lower` only the lower triangle is computed, which is all that a Cholesky factor needs.
        """
        own, columns, size = self.features, others.features, (len(self.features), len(others.features))
        rest = others.mean, others.scale
        if own.high is not None and columns.high is not None:
            from legendre.core.sums.kernels.growing import box_correlations

            out, work = np.zeros(size, dtype), size[0] * size[1] << len(own.low)
            boxes = own.low, own.high, self.mean, self.scale, columns.low, columns.high
            box_correlations(work, size[0], self.eta, *boxes, *rest, out, lower)
            return out
        if self.ground.compiled or size[0] * size[1] > 1 << 20:
            from legendre.core.sums.kernels.growing import fill_correlations

            out = np.zeros(size, dtype) if lower else np.empty(size, dtype)
            fill_correlations(self.eta, own.low, self.mean, self.scale, columns.low, *rest, out, lower)
            return out
        found = self.eta.take(sum(map(np.maximum.outer, own.low, columns.low)))
        found -= np.outer(self.mean, others.mean)
        found *= np.outer(self.scale, others.scale)
        return np.asarray(found, dtype)


STEPS = 8  # of a fit between rounds
ROUGH = 3e-5  # half the squared Newton decrement that a fit between rounds leaves, as a share of the round's gain
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
        """Return the factor with c more rows: `left` (c x k) is left of their diagonal block `lower` (c x c).

        The caller has them from `half` and from choosing the features, so that adding features factorises nothing.
        """
        panel = np.ascontiguousarray(left, self.kind), np.ascontiguousarray(lower, self.kind).T
        return GrowingFactor((*self.panels, panel), self.kind)

    def half(self, right: AnyArray, *, overwrite: bool = False) -> AnyArray:
        """Solve ``L x = right`` for a vector or for the columns of a matrix; in the type of the factor.

        In place (C order, and that type) if `overwrite`.
        """
        out = right if overwrite else np.array(right, self.kind, order="C")
        solve_vector, solve_matrix = blas.get_blas_funcs(("trsv", "trsm"), dtype=self.kind)
        for left, block in self.panels:
            rows = out[left.shape[1] : left.shape[1] + len(block)]
            if left.size:
                rows -= left @ out[: left.shape[1]]
            if out.ndim == 1:
                rows[:] = solve_vector(block, rows, lower=0, trans=1)
            elif out.shape[1]:
                solve_matrix(1.0, block, rows.T, side=1, lower=0, overwrite_b=1)  # contiguous: in place
        return out

    def back(self, right: AnyArray) -> AnyArray:
        """Solve ``L' x = right`` for a vector."""
        out, (solve,) = np.array(right, self.kind), blas.get_blas_funcs(("trsv",), dtype=self.kind)
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
        attempts = [("f", DAMPING["f"]), *(("d", 10.0**power) for power in range(-9, -1))]
        for kind, damping in attempts if single else attempts[1:]:
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
    """A basis and one member of its model: the fit, or a point on the way to it. It is never changed, only replaced."""

    ground: Ground
    features: Features
    goal: FloatArray  # means of the features in X
    dead: BoolArray | None  # cells of the grid that vanish
    theta: FloatArray
    z: FloatArray  # sums of theta around each cell, plus the log measure: log q up to psi; -inf where q = 0
    q: FloatArray
    eta: FloatArray  # suffix sums of q
    psi: float
    known: Anchor | None = None  # a factor that was computed at this theta or at an earlier one

    @classmethod
    def of(cls, ground: Ground, features: Features, theta: FloatArray) -> State:
        """Return the member of the model with parameters theta; it has no factor yet."""
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
        """One over the standard deviations of the features at this theta; the factor's correlations may be older.

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
    def recession(self) -> FloatArray:
        """A direction in theta that lowers the cells that vanish alone; not 0 for the features that keep them empty."""
        direction = np.zeros(self.theta.size + 1)
        for *_, outer, inner in self.ground.empty_regions(self.features):
            direction[outer] -= 1.0
            direction[inner] += 1.0
        return direction[1:]

    @property
    def anchor(self) -> Anchor:
        """The factor, where there must be one: `anchored` and `fit` make it."""
        assert self.known is not None
        return self.known

    @property
    def fresh(self) -> bool:
        """Whether the factor was computed at this theta, so that a new one would be the same."""
        return self.known is not None and self.known.moments.eta is self.eta

    def anchored(self, *, double: bool = False) -> State:
        """Return this state with a factor of the correlations at this theta; the state itself if it has one.

        The factor of a large basis is in float32, which takes half the time. `double` asks for float64, which is needed
        to tell near-duplicates apart.
        """
        if self.fresh and not (double and self.anchor.factor.kind == "f"):
            return self
        single = self.theta.size >= limits.SINGLE_FACTOR and not double
        return replace(self, known=Anchor.of(Moments.of(self.ground, self.eta, self.features), single=single))

    def on_boxes(self) -> State:
        """Return the same fit on the boxes that the features cut the grid into, if these are few; without a factor."""
        return State.of(*self.ground.merged(self.features), self.theta)

    def counting(self) -> State:
        """Return the basis under the uniform distribution on Omega, with a factor in float64.

        Linear dependence is the same under every distribution, but under this one rounding does not hide it.
        """
        measure = self.ground.log_measure
        ground = replace(
            self.ground, seen=None, log_measure=None if measure is None else np.where(measure > -np.inf, 0.0, measure)
        )
        return State.of(ground, self.features, np.zeros(self.theta.size)).anchored(double=True)

    def nearest(self, found: Features) -> FloatArray:
        """Return for each further feature its largest squared correlation with a feature of the basis.

        It is a cheap bound on what the basis explains of the feature, by which candidates are listed.
        """
        basis, out = self.anchor.moments, np.zeros(len(found))
        step = max(1, (1 << 17) // max(self.theta.size, 1))  # blocks stay in cache
        for first in range(0, len(out), step):
            part = np.arange(first, min(first + step, len(out)))
            own = Moments.of(self.ground, basis.eta, found.of(part)).correlations(basis, dtype=np.float32)
            out[part] = np.maximum(own.max(axis=1, initial=0.0), -own.min(axis=1, initial=0.0)) ** 2
        return out

    def condition(self, found: Features) -> tuple[Moments, FloatArray, FloatArray, AnyArray]:
        """Return what further features are worth beside the basis, in units of their standard deviations.

        That is their moments, slopes and covariances given the basis, and the rows of the factor that they would have.
        """
        ground, anchor = self.ground, self.anchor
        listed, mean = Moments.of(ground, anchor.moments.eta, found), ground.means(self.eta, found)
        given = anchor.factor.half(anchor.moments.correlations(listed, dtype=anchor.factor.kind), overwrite=True)
        # the basis's own residual is no candidate's gain
        slope = (ground.means(ground.eta_hat, found) - mean) * inverse_deviation(mean)
        slope -= self.whitened.astype(given.dtype) @ given
        left = listed.correlations(listed, dtype=anchor.factor.kind)
        left -= given.T @ given
        np.fill_diagonal(left, np.where(listed.scale > 0, left.diagonal() + anchor.damping, 0.0))
        return listed, slope, left, given

    def extend(self, listed: Moments, chosen: IntArray, left: AnyArray, lower: FloatArray, target: float) -> State:
        """Return the fit with the `chosen` of listed features added, to a precision of `target`.

        `left` and `lower` are their rows of the factor, see `GrowingFactor.append`.
        """
        ground, theta = self.ground, np.append(self.theta, np.zeros(len(chosen)))
        moments = self.anchor.moments.joined(listed, chosen)
        anchor = replace(self.anchor, moments=moments, factor=self.anchor.factor.append(left, lower))
        features, goal = moments.features, ground.means(ground.eta_hat, moments.features)
        larger = replace(self, features=features, goal=goal, theta=theta, known=anchor)
        dead = ground.vanishing(features, self.theta.size, self.dead)
        # on a large grid that few features cut: the same fit in less time
        boxes, merged = ground.merged(features, 6) if ground.eta_hat.size > limits.NUMPY_CELLS else (ground, features)
        if boxes is not ground:
            return larger.at(State.of(boxes, merged, theta).fit(target, STEPS)[0].theta, dead).anchored()
        if dead is not None and not (self.dead is not None and np.array_equal(dead, self.dead)):
            larger = larger.at(theta, dead)
        settled = larger.settle(target)
        # from this size on a factor is in float32; one that is kept would stay in float64 for many rounds
        return settled.anchored() if self.theta.size < limits.SINGLE_FACTOR <= theta.size else settled

    def settle(self, target: float) -> State:
        """Return a fit to a precision of `target`, with a new factor where that saves later rounds time."""
        state, steps = self.fit(target, STEPS)
        # a new factor takes two steps to the same goal; two later rounds are counted
        pays = max(2 * (steps - 2), 1) >= state._factor_cost
        return state.anchored() if pays else state

    def fit(self, target: float, steps: int, tol: float = math.inf, factors: float = math.inf) -> tuple[State, int]:
        """Step until half the squared Newton decrement is at most `target`, and max|eta - eta_hat| at most `tol`.

        At most `factors` new ones are computed. Returned are a state near the minimum, and the number of steps.
        """
        state, last, done = self if self.known is not None else self.anchored(), math.inf, 0
        with np.errstate(all="ignore"):
            while state.theta.size:
                decrement = float(state.whitened @ state.whitened) / 2.0
                arrived = decrement <= target and float(np.abs(state.goal - state.mean).max()) <= tol
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

    @property
    def _factor_cost(self) -> float:
        """How many steps of a fit take as long as a new factor.

        A factor is its entries and Cholesky's k^3; a step is sweeps over the grid and two triangular solves. The
        numbers are measured times.
        """
        size = self.theta.size
        return (size**3 / 90.0 + size**2 + 5e4) / (8.0 * self.ground.eta_hat.size + size**2 + 1e5)

    def _factor_pays(self, decrement: float, last: float, target: float) -> bool:
        """Whether a new factor, with two steps, is cheaper than the steps that the present factor still needs.

        Their number follows from how much the last step shrank the decrement; before the first step it is taken as 3.
        """
        rate, left = decrement / last if last > 0 else math.inf, 3.0
        if decrement > 0 and last < math.inf:
            left = math.log(max(target, 1e-18) / decrement) / math.log(max(rate, 1e-9)) if rate < 0.9 else math.inf
        return decrement > 0 and left - 2 > self._factor_cost

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
        """Return the state without the features at positions `gone`, with a new factor; it is not fitted yet.

        The parameters of the others take the Newton step that makes up for the loss, a good start for a fit. Where that
        raises KL by more than 5 %, it is compared with theta as it is, and the better one is taken.
        """
        ground, left = self.ground, np.delete(np.arange(self.theta.size), gone)
        lost = ground.spread(self.features.of(gone), self.theta[gone])
        lost -= float(self.q @ lost)
        lost *= self.q
        ground.sum_up(lost, back=True)
        theta = self.theta[left]
        less = replace(self, features=self.features.of(left), goal=self.goal[left], theta=theta, known=None).anchored()
        dead = ground.vanishing(less.features) if self.recession[gone].any() else self.dead
        move = less.anchor.factor.solve(ground.means(lost, less.features) * less.scale) * less.scale
        after = less.at(theta + move, dead)
        if not after.objective - self.objective < 0.05 * self.kl:  # too far for the second order
            plain = less.at(theta, dead)
            after = after if after.objective < plain.objective else plain
        return after
