"""Features of a growing basis, and what does not change while it grows: X, its sums, and which cells surely vanish.

A feature is 1 on a box, ``lo <= v < hi``, and 0 elsewhere. The feature of a cell is the box from it to the end of every
mode; its mean is one suffix sum, and what two of them share is the suffix sum at their join, eq. (5). Other boxes take
suffix sums at all of their corners.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike, NDArray

from legendre.core import limits
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import accumulate, moebius_adjoint, zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.model.dual import probabilities

LEAST_VARIANCE = 1e-13
"""A feature with no more variance than this is a constant: smaller ones are rounding errors of the suffix sums."""
Region = tuple[tuple[slice, ...], tuple[slice, ...] | None, tuple[int, ...]]
"""Cells without data that a basis keeps empty: in the first box, not in the second; and the features that do so."""


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
        """Keep some."""
        high = None if self.high is None else np.ascontiguousarray(self.high[:, chosen])
        return Features(np.ascontiguousarray(self.low[:, chosen]), high)

    def joined(self, other: Features) -> Features:
        """Put others behind these."""
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
        """Sum X up once."""
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
        return cls(data, p.shape, int(boxes), zeta_adjoint(p).ravel(), data.negentropy(), flat, seen, observed)

    @property
    def size(self) -> int:
        """The number of cells of the grid."""
        return len(self.eta_hat)

    @cached_property
    def compiled(self) -> bool:
        """Whether compiled code sums and scores: where there is much to do, or the compiler is there anyway."""
        return self.size > limits.NUMPY_CELLS or self.data.compiled or self.border > 0

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
        cells = np.stack(np.unravel_index(places, self.shape)).astype(np.int64).reshape(len(self.shape), -1)
        return self.boxes(cells.T)

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
        """Sum over boxes, given suffix sums."""
        if features.high is None:
            return eta[features.places]
        from legendre.core.sums.kernels.growing import box_sums

        out = np.empty(len(features))
        box_sums(len(features) << len(self.shape), len(features), eta, features.low, features.high, out)
        return out

    def spread(self, features: Features, values: FloatArray) -> FloatArray:
        """Add up, at each cell, the values of the boxes around it."""
        grid = np.zeros(self.size)
        if features.high is None:
            grid[features.places] = values
        else:
            for corner in range(1 << len(self.shape)):
                far = np.array([corner >> d & 1 for d in range(len(self.shape))], dtype=np.bool_)
                places = np.where(far[:, None], features.high, features.low).sum(axis=0)
                np.add.at(grid, places, values * (-1.0) ** int(far.sum()))
        self.sum_up(grid, back=False)
        return grid

    def sum_up(self, grid: FloatArray, *, back: bool) -> None:
        """Replace a grid by its sums at or below each cell; at or above it if `back`."""
        if self.compiled:
            from legendre.core.sums.kernels.dense import sum_grid

            sum_grid(0, grid.reshape(self.shape[0], -1), np.array(self.shape[1:], dtype=np.int64), back=back)
        else:
            accumulate(np.flip(grid.reshape(self.shape)) if back else grid.reshape(self.shape))

    def merged(self, features: Features, fewer: int = 2) -> tuple[Ground, Features]:
        """Merge the boxes that the features of some cells cut the grid into: the same problem on fewer cells.

        Where they are not `fewer` times fewer, or there is a border, the grid stays as it is. Sums above a merged cell
        are those above its first cell, so that nothing is summed again.
        """
        cells = self.corners(features)[0]
        quotient = Quotient.of(self.shape, cells)
        if self.border or fewer * quotient.n_merged > self.size:
            return self, features
        measure, first, observed = volumes(quotient), np.ix_(*quotient.cuts), self.observed
        if self.log_measure is not None:
            top = float(self.log_measure.max())
            measure = quotient.merge(np.exp(self.log_measure - top).reshape(self.shape)) * np.exp(top)
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
        return ground, ground.boxes(quotient.boxes(cells))

    def vanishing(self, features: Features, known: int = 0, dead: BoolArray | None = None) -> BoolArray | None:
        """Mark the cells that surely vanish in the limit; `dead` has those of the first `known` features."""
        if self.seen is None:
            return None
        out = np.zeros(self.shape, dtype=np.bool_) if dead is None else dead.reshape(self.shape).copy()
        for outer, hole, _ in self.empty_regions(features, known):
            kept = None if hole is None else out[hole].copy()
            out[outer] = True
            if hole is not None and kept is not None:
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

        regions: list[Region] = [(box(i), None, (i - 1,)) for i in np.flatnonzero(new & (counts == 0)).tolist()]
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
                    regions.append((box(i), box(j), tuple(k - 1 for k in (i, j) if k)))
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
        """Read means from suffix sums."""
        mean = ground.means(eta, features)
        return cls(ground, eta, features, mean, inverse_deviation(mean))

    def joined(self, other: Moments, chosen: IntArray) -> Moments:
        """Put some of others behind these."""
        mean, scale = np.append(self.mean, other.mean[chosen]), np.append(self.scale, other.scale[chosen])
        return replace(self, features=self.features.joined(other.features.of(chosen)), mean=mean, scale=scale)

    def correlations(
        self, others: Moments, some: slice = slice(None), *, lower: bool = False, dtype: DTypeLike = np.float64
    ) -> AnyArray:
        """Correlate these features, or some of them, with others; with `lower` what is not above the diagonal."""
        ground, own, columns = self.ground, self.features, others.features
        rows = np.ascontiguousarray(own.low[:, some]), self.mean[some], self.scale[some]
        m, k = rows[0].shape[1], len(columns)
        out = np.zeros((m, k), dtype) if lower else np.empty((m, k), dtype)
        if own.high is not None and columns.high is not None:
            from legendre.core.sums.kernels.growing import box_correlations

            high = np.ascontiguousarray(own.high[:, some])
            boxes = rows[0], high, *rows[1:], columns.low, columns.high, others.mean, others.scale
            box_correlations(m * k << len(ground.shape), m, self.eta, *boxes, out, lower)
            return out
        if ground.compiled or k > limits.NUMPY_JOINS:
            from legendre.core.sums.kernels.growing import fill_correlations

            fill_correlations(self.eta, *rows, columns.low, others.mean, others.scale, out, lower)
            return out
        step = max(1, (1 << 15) // max(k, 1))  # places of joins that stay in cache
        for first in range(0, m, step):
            part = slice(first, first + step)
            stop = min(first + step, k) if lower else k
            at = np.maximum(rows[0][0, part, None], columns.low[0, :stop])
            for one, other in zip(rows[0][1:], columns.low[1:], strict=True):
                at += np.maximum(one[part, None], other[:stop])
            found = self.eta.take(at)
            found -= rows[1][part, None] * others.mean[:stop]
            found *= rows[2][part, None] * others.scale[:stop]
            out[part, :stop] = found
        return out

    def nearest(self, others: Moments) -> FloatArray:
        """Return the largest squared correlation of each feature with one of the others."""
        out, step = np.zeros(len(self.mean)), max(1, (1 << 16) // max(len(others.mean), 1))
        for first in range(0, len(out) if len(others.mean) else 0, step):
            part = slice(first, first + step)
            found = self.correlations(others, part)
            out[part] = np.maximum(found.max(axis=1), -found.min(axis=1)) ** 2
        return out
