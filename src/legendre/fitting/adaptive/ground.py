"""What stays the same while a basis grows: X, sums of it above every cell, and which cells surely vanish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import accumulate, zeta_adjoint
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.model.dual import probabilities
from legendre.results.rounds import Round


@dataclass(frozen=True, eq=False)
class Ground:
    """X and sums of it. Grids are flat, in C order; a cell is its place there."""

    data: Dense
    shape: tuple[int, ...]  # the grid: that of X, or of boxes that a basis cuts it into
    p: FloatArray  # X as probabilities
    eta_hat: FloatArray  # sums of p at or above each cell
    negentropy: float  # the sum of p log(p / r): KL(P, Q) less the objective
    log_measure: FloatArray | None  # log of the base measure, -inf outside Omega; None where it is 0 everywhere
    seen: FloatArray | None  # the number of cells with data at or above each cell; None when X > 0 on Omega

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
        return cls(data, data.shape, p.ravel(), zeta_adjoint(p).ravel(), data.negentropy(), flat, seen)

    @cached_property
    def strides(self) -> IntArray:
        """How far apart neighbours along each mode are in a flat grid."""
        return np.cumprod((1, *self.shape[:0:-1]))[::-1].astype(np.int64)

    @cached_property
    def observed(self) -> IntArray | None:
        """The cells with data; ``None`` when all of the grid is."""
        return None if self.seen is None and self.log_measure is None else np.flatnonzero(self.p > 0)

    def places(self, cells: IntArray) -> IntArray:
        """Return the places of some cells (k x N)."""
        return np.asarray(cells @ self.strides, dtype=np.int64).reshape(len(cells))

    def cells(self, places: IntArray) -> IntArray:
        """Return the cells (k x N) at some places."""
        return np.stack(np.unravel_index(places, self.shape), axis=1).astype(np.int64).reshape(-1, len(self.shape))

    def offsets(self, places: IntArray) -> NDArray[np.int32]:
        """Return coordinates times strides (N x k), so that the place of a join is a sum of maxima."""
        return np.ascontiguousarray((self.cells(places) * self.strides).T.astype(np.int32))

    def merged(self, places: IntArray) -> tuple[Ground, IntArray]:
        """Merge the boxes that some cells cut the grid into, and return where the cells are then: the same problem."""
        cells = self.cells(places)
        quotient = Quotient.of(self.shape, cells)
        if 2 * quotient.n_merged > self.p.size:
            return self, places
        measure = volumes(quotient)
        if self.log_measure is not None:
            top = float(self.log_measure.max())
            measure = quotient.merge(np.exp(self.log_measure - top).reshape(self.shape)) * np.exp(top)
        with np.errstate(divide="ignore"):
            log_measure = np.log(measure).ravel()
        p = quotient.merge(self.p.reshape(self.shape))
        seen = None if self.seen is None else zeta_adjoint((p > 0).astype(np.float64)).ravel()
        grid, eta_hat = quotient.merged_shape, zeta_adjoint(p).ravel()
        ground = Ground(self.data, grid, p.ravel(), eta_hat, self.negentropy, log_measure, seen)
        return ground, quotient.flat_boxes(cells)

    def sum_below(self, grid: FloatArray) -> None:
        """Replace a grid by its sums at or below each cell."""
        self._sum(grid, back=False)

    def sum_above(self, grid: FloatArray) -> None:
        """Replace a grid by its sums at or above each cell."""
        self._sum(grid, back=True)

    def _sum(self, grid: FloatArray, *, back: bool) -> None:
        if grid.size > limits.NUMPY_CELLS:
            from legendre.core.sums.kernels.dense import sum_grid

            sum_grid(0, grid.reshape(self.shape[0], -1), np.array(self.shape[1:], dtype=np.int64), back=back)
        else:
            accumulate(np.flip(grid.reshape(self.shape)) if back else grid.reshape(self.shape))

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
        some = np.flatnonzero((counts > 0) & np.isin(counts, counts[new]))
        some = some[np.argsort(counts[some], kind="stable")]
        for group in np.split(some, np.flatnonzero(np.diff(counts[some])) + 1):
            if len(group) > 1:
                below = (corners[group][:, None] <= corners[group]).all(axis=2) & (new[group][:, None] | new[group])
                np.fill_diagonal(below, val=False)
                regions += [(corners[group[i]], corners[group[j]]) for i, j in np.argwhere(below).tolist()]
        return regions

    def round(self, n_params: int, kl: float, q: FloatArray) -> Round:
        """Measure how well a Q fits."""
        data = self.data
        difference = data.values / np.float64(data.total) - q.reshape(self.shape)  # in float64, whatever X's type is
        if data.missing is not None:
            difference = difference[~data.missing]
        top = max(float(difference.max(initial=0.0)), -float(difference.min(initial=0.0)))
        if not 1e-100 < top < 1e100:  # squares in the unit of the largest do not leave the range of float64
            difference = difference / top if 0 < top < np.inf else difference
        square = float(np.einsum("i,i->", difference.ravel(), difference.ravel())) / max(difference.size, 1)
        unit = 1.0 if 1e-100 < top < 1e100 else top or 1.0
        return Round.measured(n_params, kl, float(np.sqrt(square)) * unit * data.total, data.total)


def above(u: IntArray) -> tuple[slice, ...]:
    """Return the index of all cells at or above u."""
    return tuple(slice(int(i), None) for i in u)
