"""What stays the same while a basis grows: X, sums of it above every cell, and which cells surely vanish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import moebius_adjoint, zeta_adjoint
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.model.dual import probabilities


@dataclass(frozen=True, eq=False)
class Ground:
    """X and sums of it. Grids are flat, in C order; a cell is its place there."""

    data: Dense
    shape: tuple[int, ...]  # the grid: that of X, or of boxes that a basis cuts it into
    eta_hat: FloatArray  # sums of X, as probabilities, at or above each cell
    negentropy: float  # the sum of p log(p / r): KL(P, Q) less the objective
    log_measure: FloatArray | None  # log of the base measure, -inf outside Omega; None where it is 0 everywhere
    seen: FloatArray | None  # the number of cells with data at or above each cell; None when X > 0 on Omega
    observed: IntArray | None  # the cells with data; None when all of the grid is

    @classmethod
    def of(cls, data: Dense) -> Ground:
        """Sum X up once."""
        p, mask = probabilities(data), data.support.mask
        seen = None if data.positive else zeta_adjoint((p > 0).astype(np.float64)).ravel()
        log_measure = None
        if data.base is not None:
            with np.errstate(divide="ignore"):
                log_measure = np.log(data.base)
        if mask is not None:
            log_measure = np.where(mask, 0.0 if log_measure is None else log_measure, -np.inf)
        flat = None if log_measure is None or not log_measure.any() else log_measure.ravel()
        observed = None if seen is None and flat is None else np.flatnonzero(p > 0)
        return cls(data, data.shape, zeta_adjoint(p).ravel(), data.negentropy(), flat, seen, observed)

    @property
    def size(self) -> int:
        """The number of cells of the grid."""
        return len(self.eta_hat)

    @cached_property
    def compiled(self) -> bool:
        """Whether compiled code sums and scores: where there is much to do, or the compiler is there anyway."""
        return self.size > limits.NUMPY_CELLS or self.data.compiled

    @cached_property
    def mostly_seen(self) -> bool:
        """Whether at least half of the cells have data."""
        return self.observed is None or 2 * len(self.observed) >= self.size

    @cached_property
    def strides(self) -> IntArray:
        """How far apart neighbours along each mode are in a flat grid."""
        return np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int64)

    def places(self, cells: IntArray) -> IntArray:
        """Return the places of some cells (k x N)."""
        return np.asarray(cells @ self.strides, dtype=np.int64).reshape(len(cells))

    def cells(self, places: IntArray) -> IntArray:
        """Return the cells (k x N) at some places."""
        return np.stack(np.unravel_index(places, self.shape), axis=1).astype(np.int64).reshape(-1, len(self.shape))

    def merged(self, places: IntArray, fewer: int = 2) -> tuple[Ground, IntArray]:
        """Merge the boxes that some cells cut the grid into, and return where the cells are then: the same problem.

        Where boxes are not `fewer` times fewer than cells, the grid stays as it is. Sums above a box are those above
        its first cell, so that nothing is summed again.
        """
        cells = self.cells(places)
        quotient = Quotient.of(self.shape, cells)
        if fewer * quotient.n_merged > len(self.eta_hat):
            return self, places
        measure, corners, observed = volumes(quotient), np.ix_(*quotient.cuts), self.observed
        if self.log_measure is not None:
            top = float(self.log_measure.max())
            measure = quotient.merge(np.exp(self.log_measure - top).reshape(self.shape)) * np.exp(top)
        seen = None if self.seen is None else self.seen.reshape(self.shape)[corners]
        if observed is not None:
            observed = np.flatnonzero(measure if seen is None else moebius_adjoint(seen))
        with np.errstate(divide="ignore"):
            log_measure = np.log(measure).ravel()
        grid, eta_hat = quotient.merged_shape, self.eta_hat.reshape(self.shape)[corners].ravel()
        flat_seen = None if seen is None else seen.ravel()
        ground = Ground(self.data, grid, eta_hat, self.negentropy, log_measure, flat_seen, observed)
        return ground, quotient.flat_boxes(cells)

    def vanishing(self, places: IntArray, known: int = 0, dead: BoolArray | None = None) -> BoolArray | None:
        """Mark the cells that surely vanish in the limit under a basis; `dead` has those of its first `known` cells.

        Let n_u be the number of cells with data at or above u. (i) ``n_u = 0``: all above u vanishes. (ii) u below w,
        both in B or u the bottom, ``n_u = n_w``: what is above u but not above w vanishes.
        """
        if self.seen is None:
            return None
        out = np.zeros(self.shape, dtype=np.bool_) if dead is None else dead.reshape(self.shape).copy()
        for low, high in self.empty_regions(places, known):
            kept = None if high is None else out[above(high)].copy()
            out[above(low)] = True
            if high is not None and kept is not None:
                out[above(high)] = kept
        return out.ravel() if out.any() else None

    def empty_regions(self, places: IntArray, known: int = 0) -> list[tuple[IntArray, IntArray | None]]:
        """List regions without data that the basis keeps empty, by their corners: above the first, not the second."""
        if self.seen is None:
            return []
        corners = np.concatenate([np.zeros((1, len(self.shape)), dtype=np.int64), self.cells(places)])
        counts = self.seen[np.append(0, places)]
        new = np.arange(len(corners)) > known
        empty = np.flatnonzero(new & (counts == 0))
        regions: list[tuple[IntArray, IntArray | None]] = [(corners[i], None) for i in empty.tolist()]
        some = np.flatnonzero(counts > 0)
        some = some[np.argsort(counts[some], kind="stable")]
        for apart in range(1, len(some)):  # pairs of equal counts stand next to each other, or in a run of equal ones
            first, second = some[:-apart], some[apart:]
            equal = counts[first] == counts[second]
            if not equal.any():
                break
            equal &= new[first] | new[second]
            for one, other in ((first[equal], second[equal]), (second[equal], first[equal])):
                below = (corners[one] <= corners[other]).all(axis=1)
                regions += zip(corners[one[below]], corners[other[below]], strict=True)
        return regions


def above(u: IntArray) -> tuple[slice, ...]:
    """Return the index of all cells at or above u."""
    return tuple(slice(int(i), None) for i in u)
