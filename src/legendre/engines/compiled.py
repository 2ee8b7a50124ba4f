"""The compiled engines of a merged grid: `DenseEngine` forms it, `SlabEngine` sweeps a full grid slab by slab."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from legendre.core import limits
from legendre.core.memory import check_room
from legendre.core.sums.kernels import preconditioner as vecchia_kernels
from legendre.core.sums.kernels import slabs
from legendre.core.sums.kernels.dense import sum_grid
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class DenseEngine(ReferenceEngine):
    """As `ReferenceEngine`, with compiled sums and a preconditioner for large bases."""

    def _below(self, vector: FloatArray) -> FloatArray:
        grid = np.zeros(self.model.quotient.merged_shape)
        grid.ravel()[self.model.places] = vector
        sum_grid(grid, back=False)
        return grid

    def _above(self, masses: FloatArray) -> FloatArray:
        sums = masses.copy()
        sum_grid(sums, back=True)
        return sums

    def preconditioner(self, point: Point, last: Vecchia | None = None) -> Vecchia:
        """Approximate the inverse of G by sparse factors; those of `last` are brought up to date where they need it."""
        made = Vecchia(self._corner, self.model.positions) if last is None else last
        made.refresh(point, point.cache.above.ravel())
        return made


@dataclass(frozen=True, eq=False)
class SlabEngine(Engine):
    """Full grids without a base measure, in the memory of a few slabs (and of G): see `core.sums.kernels.slabs`."""

    model: Model  # one for which `applies` is true

    @staticmethod
    def applies(model: Model) -> bool:
        """Decide whether the grid is full and G takes less memory than eight grids of cells."""
        k = model.n_params
        return model.measure is None and k <= limits.LARGEST_MATRIX and k * k < 8 * model.n_cells

    @cached_property
    def _plan(self) -> slabs.SlabPlan:
        return slabs.plan_slabs(self.model.quotient.lengths, self.model.positions)

    def at(self, theta: FloatArray) -> Point:
        """Compute psi and eta in one sweep, without the Fisher matrix: the last points of a fit need none."""
        psi, eta = self._evaluate(theta, None)
        return Point(theta, eta, psi, None)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Return the Fisher matrix, eq. (5), read from eta at joins during another sweep."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        self._evaluate(point.theta, g)
        return g

    def _evaluate_uniform(self, g: FloatArray | None) -> tuple[float, FloatArray]:
        """Compute psi and eta where theta = 0, and fill g: most fits start there, and no sweep is needed.

        The part of the grid at or above a cell is a product over modes, and at or above a join, of minima.
        """
        psi, eta, joins = 0.0, np.ones(self.n_params), 1.0
        for lengths, column in zip(self.model.quotient.lengths, self.model.positions.T, strict=True):
            total = lengths.sum()
            part = (lengths[::-1].cumsum()[::-1] / total)[column]
            psi, eta = psi + math.log(total), eta * part
            if g is not None:
                joins = joins * np.minimum.outer(part, part)
        if g is not None:
            g[:] = joins - np.outer(eta, eta)
        return psi, eta

    def _evaluate(self, theta: FloatArray, g: FloatArray | None) -> tuple[float, FloatArray]:
        """Compute psi and eta, and fill g (k x k) with the Fisher matrix if it is given."""
        if not theta.any():
            return self._evaluate_uniform(g)
        order = self._plan.order
        swept = slabs.evaluate(self._plan, theta[order], g)
        if swept is None:  # products overflow or underflow: a formed grid is summed in the log domain
            grid = form_grid(self.model)
            point = grid.at(theta)
            if g is not None:
                grid.fisher(point, g)
            return point.psi, point.eta
        back = np.argsort(order)
        if g is not None and (back != np.arange(len(back))).any():
            g[:] = g[np.ix_(back, back)]
        return swept[0], swept[1][back]

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)``: a small vector by its absolute sum, since a sweep takes long."""
        bound = float(np.abs(vector).sum())
        return bound if bound <= 0.1 else self._plan.log_range(vector[self._plan.order])


def form_grid(model: Model) -> DenseEngine:
    """Return the engine that holds 5 arrays of the size of the merged grid, if there is room for them."""
    what = f"a fit of {model.n_params:,} parameters on a merged grid"
    check_room(model.n_cells, 8 * 5, what, "Use a basis with fewer distinct coordinates.")
    return DenseEngine(model)


@dataclass(eq=False)
class Vecchia:
    """A preconditioner for ``G x = b``, near the inverse Cholesky factor of G, which is nearly sparse.

    Neighbours are chosen once (`select`), and values are brought up to date as eta moves (`factor`).
    """

    places: IntArray  # N x k: what each coordinate of a cell of B adds to its place in the grid
    positions: IntArray  # the cells of B, k x N
    m: int = 64  # most neighbours per feature
    candidates: int = 240  # nearest features looked at, predecessors or not
    # From m / 3 neighbours on, another must lower the variance left by at least this part. (Not from the first: where
    # the mass is concentrated no single neighbour helps but thirty together do.)
    gain: float = 0.002

    def __post_init__(self) -> None:
        """Sort the features by their place in the grid, so that neighbours are near in memory, and rank them.

        A feature is regressed on features of lower rank: those with a smaller sum of coordinates.
        """
        self.order = np.argsort(self.places.sum(axis=0), kind="stable")
        self.cells, self.corner = self.positions[self.order], np.ascontiguousarray(self.places[:, self.order].T)
        self.rank = np.argsort(np.argsort(self.cells.sum(axis=1), kind="stable"))
        self.selected_at = self.factored_at = np.full(len(self.cells), np.nan)

    def refresh(self, point: Point, eta: FloatArray, reselect: float = 0.3, refactor: float = 0.1) -> None:
        """Bring U up to date with a point, whose suffix sums on the grid are `eta` (flat), if it has moved far enough.

        Neighbours are chosen anew once the log variances of the features have changed by `reselect` on average, and U
        is computed anew once one has changed by `refactor`. The average is not weighted by q, which would miss rare
        events.
        """
        ref = point.eta[self.order]
        spread = np.log(np.maximum(ref * (1.0 - ref), np.finfo(float).tiny))
        if not np.abs(spread - self.selected_at).mean() <= reselect:
            self.select(eta, ref)
            self.selected_at, self.factored_at = spread, np.full(ref.size, np.nan)
        if not np.abs(spread - self.factored_at).max() <= refactor:
            self.factor(eta, ref)
            self.factored_at = spread

    def select(self, eta: FloatArray, ref: FloatArray, rows: int = 32768) -> None:
        """Choose the neighbours of each feature, at suffix sums `eta` of the grid and means `ref` of the features.

        They are kept as the rows of a sparse matrix, in `ptr` and `nbr`. Candidates are found `rows` features at a
        time.
        """
        points = self.cells.astype(np.float64)
        tree = cKDTree(points)
        parts, counts = [], []
        for start in range(0, len(points), rows):
            some = points[start : start + rows]
            near = tree.query(some, k=min(len(points), self.candidates), p=1, workers=-1)[1].reshape(len(some), -1)
            chosen, count = np.empty((len(some), self.m), dtype=np.int32), np.empty(len(some), dtype=np.int64)
            settings = self.rank, self.m, self.gain, self.corner
            work = near.size * self.m
            vecchia_kernels.select(work, len(near), start, near, *settings, eta, ref, chosen, count)
            parts.append(chosen[np.arange(self.m) < count[:, None]])
            counts.append(count)
        self.ptr = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        self.nbr: NDArray[np.int32] = np.concatenate(parts)

    def factor(self, eta: FloatArray, ref: FloatArray) -> None:
        """Compute U at suffix sums `eta` of the grid and means `ref` of the features.

        Off the diagonal it is in single precision, which halves the traffic; it stays a fixed positive operator.
        """
        k, work = len(ref), self.nbr.size * self.m
        self.diag, self.off = np.empty(k), np.empty(self.nbr.size, dtype=np.float32)
        vecchia_kernels.factor(work, k, self.ptr, self.nbr, self.m, self.corner, eta, ref, self.diag, self.off)
        # U by columns too, so that its transpose is applied without two threads that write to one entry
        self.columns = csr_array((self.off, self.nbr, self.ptr), shape=(k, k)).tocsc()

    def apply(self, vector: FloatArray) -> FloatArray:
        """Return ``U' U r``, for a vector in the order of the parameters."""
        r, middle, last, out = vector[self.order], *(np.empty(len(vector)) for _ in range(3))
        work, columns = 2 * self.nbr.size, self.columns
        vecchia_kernels.multiply(work, len(r), self.ptr, self.nbr, self.off, self.diag, r, middle)
        vecchia_kernels.multiply(work, len(r), columns.indptr, columns.indices, columns.data, self.diag, middle, last)
        out[self.order] = last
        return out
