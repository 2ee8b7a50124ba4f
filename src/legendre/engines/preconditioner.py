"""A preconditioner for the Fisher matrix of a large basis: its inverse Cholesky factor, which is nearly sparse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from legendre.core.sums.kernels import preconditioner as kernels
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Point

# Mean change of log variance after which neighbours are chosen anew; largest change after which U is recomputed.
RESELECT, REFACTOR = 0.3, 0.1


class Change(Enum):
    """What `Vecchia.refresh` did: nothing, compute U anew, or choose the neighbours anew, too."""

    NONE, FACTORED, SELECTED = range(3)


@dataclass
class Vecchia:
    """Preconditioner for ``G x = b``: choose neighbours once (`select`), refresh values as eta moves (`factor`)."""

    cells: IntArray  # the basis, k x N, sorted by flat index (neighbours are then near in memory)
    shape: tuple[int, ...]  # the grid
    m: int = 64  # most neighbours per feature
    candidates: int = 240  # nearest features looked at, predecessors or not
    # From m / 3 neighbours on, another must lower the variance left by at least this part. (Not from the first: where
    # the mass is concentrated no single neighbour helps but thirty together do.)
    gain: float = 0.002

    def __post_init__(self) -> None:
        strides = np.cumprod((1, *self.shape[:0:-1]))[::-1]
        self.corner = np.ascontiguousarray(self.cells * strides)
        k = len(self.cells)
        self.rank = np.empty(k, dtype=np.int64)
        self.rank[np.argsort(self.cells.sum(axis=1), kind="stable")] = np.arange(k)
        self.middle = np.empty(k)
        self.selected_at = self.factored_at = np.full(k, np.nan)

    def refresh(self, eta_grid: FloatArray, ref: FloatArray) -> Change:
        """Bring U up to date where the features' variances moved; weighing them by q would miss rare events."""
        change = Change.NONE
        spread = np.log(np.maximum(ref * (1.0 - ref), np.finfo(float).tiny))
        if not np.abs(spread - self.selected_at).mean() <= RESELECT:
            self.select(eta_grid, ref)
            self.selected_at, self.factored_at = spread, np.full(ref.size, np.nan)
            change = Change.SELECTED
        if not np.abs(spread - self.factored_at).max() <= REFACTOR:
            self.factor(eta_grid, ref)
            self.factored_at = spread
            change = Change.FACTORED if change is Change.NONE else change
        return change

    def select(self, eta_grid: FloatArray, ref: FloatArray, rows: int = 32768) -> None:
        """Choose the neighbours at the given suffix sums; candidates are found `rows` features at a time."""
        k = len(ref)
        points = self.cells.astype(np.float64)
        tree = cKDTree(points)
        parts, counts = [], []
        for start in range(0, k, rows):
            stop = min(k, start + rows)
            near = tree.query(points[start:stop], k=min(k, self.candidates), p=1, workers=-1)[1]
            near = near.reshape(stop - start, -1)
            chosen = np.full((stop - start, self.m), -1, dtype=np.int32)
            count = np.empty(stop - start, dtype=np.int64)
            settings = self.rank, self.m, self.gain, self.corner
            kernels.select(near.size * self.m, len(near), start, near, *settings, eta_grid.ravel(), ref, chosen, count)
            parts.append(chosen[np.arange(self.m) < count[:, None]])
            counts.append(count)
        self.ptr = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        self.nbr: NDArray[np.int32] = np.concatenate(parts)
        self.width = int(np.diff(self.ptr).max(initial=0))

    def factor(self, eta_grid: FloatArray, ref: FloatArray) -> None:
        """Compute U at the given suffix sums (single precision: half the traffic, still a fixed positive operator)."""
        self.off = np.empty(self.nbr.size, dtype=np.float32)
        self.diag = np.empty(ref.size)
        rows, work = (self.ptr, self.nbr, self.width), self.nbr.size * self.width
        kernels.factor(work, len(ref), *rows, self.corner, eta_grid.ravel(), ref, self.diag, self.off)
        self.tptr = np.empty_like(self.ptr)
        self.trow = np.empty_like(self.nbr)
        self.tval = np.empty_like(self.off)
        kernels.transpose(self.ptr, self.nbr, self.off, self.tptr, self.trow, self.tval)

    def apply(self, r: FloatArray) -> FloatArray:
        """Return ``U' U r``."""
        out = np.empty_like(r)
        work = 2 * self.nbr.size
        kernels.multiply(work, len(r), self.ptr, self.nbr, self.off, self.diag, r, self.middle)
        kernels.multiply(work, len(r), self.tptr, self.trow, self.tval, self.diag, self.middle, out)
        return out


@dataclass(frozen=True, eq=False)
class Sorted:
    """A preconditioner in the sorted order of the layout, for vectors in the order of the basis."""

    factor: Vecchia
    order: IntArray
    origins: tuple[FloatArray, ...]

    def brought_to(self, point: Point, eta: FloatArray) -> Sorted:
        """Bring the factor up to date with a point and its eta on the merged grid."""
        change = self.factor.refresh(eta, point.eta[self.order])
        if change is Change.NONE:
            return self
        before = self.origins if change is Change.FACTORED else ()
        return replace(self, origins=(*before, point.theta))

    def apply(self, vector: FloatArray) -> FloatArray:
        out = np.empty_like(vector)
        out[self.order] = self.factor.apply(vector[self.order])
        return out
