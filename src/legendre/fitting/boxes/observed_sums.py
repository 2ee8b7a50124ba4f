"""What does not change while boxes grow: P and its running sums, the sample space, and lists of boxes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.sums.zeta import accumulate
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.model.dual import probabilities

SMALLEST = 1e-13  # variances of indicators below this are rounding errors of the sums that they come from


@dataclass(frozen=True, eq=False)
class BoxList:
    """Boxes ``lo <= v < hi``, each k x N."""

    lo: IntArray
    hi: IntArray

    def __len__(self) -> int:
        return len(self.lo)

    def of(self, chosen: IntArray | BoolArray) -> BoxList:
        """Keep some boxes."""
        return BoxList(self.lo[chosen], self.hi[chosen])

    def joined(self, other: BoxList) -> BoxList:
        """Put boxes of another list behind these."""
        return BoxList(np.concatenate([self.lo, other.lo]), np.concatenate([self.hi, other.hi]))

    @property
    def rows(self) -> IntArray:
        """Both corners side by side, k x 2 N."""
        return np.concatenate([self.lo, self.hi], axis=1)


@dataclass(frozen=True, eq=False)
class Ground:
    """P on the grid, and what all boxes are summed with."""

    data: Dense
    p: FloatArray  # P, 0 outside the support
    weights: FloatArray | None  # the measure of each cell; None on a full grid without a base measure

    @classmethod
    def of(cls, data: Dense) -> Ground:
        """Read X as probabilities."""
        mask, weights = data.support.mask, data.base
        if mask is not None:
            weights = np.where(mask, 1.0 if weights is None else weights, 0.0)
        return cls(data, probabilities(data), weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.p.shape

    @cached_property
    def bordered(self) -> tuple[int, ...]:
        """The shape of running sums with a border of zeros."""
        return tuple(n + 1 for n in self.shape)

    @cached_property
    def strides(self) -> IntArray:
        """Of running sums with a border."""
        return np.cumprod((1, *self.bordered[:0:-1]))[::-1].astype(np.int64)

    @cached_property
    def negentropy(self) -> float:
        """The sum of ``p log p``, less that of the base measure."""
        seen = self.p > 0
        logs = np.log(self.p[seen])
        if self.data.base is not None:
            logs = logs - np.log(self.data.base[seen])
        return float(np.sum(self.p[seen] * logs))

    def running(self, grid: FloatArray) -> FloatArray:
        """Sum a grid up along every mode, with a border of zeros in front."""
        out = np.zeros(self.bordered)
        inner = out[(slice(1, None),) * out.ndim]
        inner[...] = grid
        accumulate(inner)
        return out

    @cached_property
    def data_sums(self) -> FloatArray:
        """Running sums of P."""
        return self.running(self.p)

    @cached_property
    def count_sums(self) -> FloatArray | None:
        """Running sums of the number of cells with data; None where every cell of the sample space has some."""
        alive = np.ones(self.shape, dtype=np.bool_) if self.weights is None else self.weights > 0
        return self.running((self.p > 0).astype(np.float64)) if (alive & (self.p == 0)).any() else None

    def sums(self, running: FloatArray, boxes: BoxList) -> FloatArray:
        """Sum over boxes, given running sums."""
        from legendre.core.sums.kernels.boxes import box_sums

        out = np.empty(len(boxes))
        if len(boxes):
            box_sums(len(boxes) << len(self.shape), len(boxes), running.ravel(), *self.corners(boxes), out)
        return out

    def corners(self, boxes: BoxList) -> tuple[IntArray, IntArray]:
        """Return both corners as coordinates times strides."""
        return boxes.lo * self.strides, boxes.hi * self.strides

    def on_grid(self, boxes: BoxList, vector: FloatArray) -> FloatArray:
        """Add up, at each cell, the entries of a vector that belong to boxes around it."""
        modes = len(self.shape)
        grid = np.zeros(int(np.prod(self.bordered)))
        low, high = self.corners(boxes)
        for corner in range(1 << modes):
            ends = np.array([corner >> d & 1 for d in range(modes)], dtype=np.bool_)
            places = np.where(ends, high, low).sum(axis=1)
            sign = -1.0 if int(ends.sum()) % 2 else 1.0
            grid += np.bincount(places, sign * vector, len(grid))
        out = np.ascontiguousarray(grid.reshape(self.bordered)[tuple(slice(n) for n in self.shape)])
        accumulate(out)
        return out
