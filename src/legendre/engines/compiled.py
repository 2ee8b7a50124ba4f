"""The compiled engines of a merged grid: `DenseEngine` forms it, `SlabEngine` sweeps a full grid slab by slab."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from sys import float_info

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.memory import check_room
from legendre.core.sums.kernels import preconditioner as vecchia_kernels
from legendre.core.sums.kernels import slabs
from legendre.core.sums.kernels.dense import sum_grid
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model, Packed


@frozen
class DenseEngine(ReferenceEngine):
    """`ReferenceEngine` with compiled prefix and suffix sums, and a preconditioner for bases too large for G."""

    def _sum(self, grid: FloatArray, *, back: bool) -> None:
        """Replace a grid by its prefix or suffix sums, in compiled code that uses several threads on a large grid."""
        sum_grid(grid, back=back)

    def preconditioner(self, point: Point, last: Vecchia | None = None) -> Vecchia:
        """Approximate the inverse of G by sparse factors; update those of `last` if the point has moved far enough."""
        made = Vecchia(self._corner, self.model.positions) if last is None else last
        made.refresh(point, point.cache.above.ravel())
        return made


@frozen
class SlabEngine(Engine):
    """Full grids, and `Packed` ones, in the memory of a few slabs (and of G): see `core.sums.kernels.slabs`."""

    model: Model  # one for which `applies` is true

    @staticmethod
    def applies(model: Model) -> bool:
        """Return whether no measure is formed and G takes less memory than eight grids: else little memory is saved."""
        k = model.n_params
        return model.measure is None and k <= limits.LARGEST_MATRIX and k * k < 8 * model.n_cells

    @cached_property
    def _plan(self) -> slabs.SlabPlan:
        """What the sweeps need to know of the grid and of B; it does not depend on theta."""
        mode = self.model.mode if isinstance(self.model, Packed) else None
        return slabs.plan_slabs(self.model.quotient.lengths, self.model.positions, mode)

    def at(self, theta: FloatArray) -> Point:
        """Compute psi and eta in one sweep, without the Fisher matrix: the last points of a fit need none.

        Only a sweep with gaps fills it too: it takes far longer than that, and so the next one is saved.
        """
        g = np.empty((self.n_params, self.n_params)) if isinstance(self.model, Packed) else None
        psi, eta = self._evaluate(theta, g)
        return Point(theta, eta, psi, g)

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        """Read the Fisher matrix, eq. (5), from eta at joins during another sweep."""
        if point.cache is None:
            self._evaluate(point.theta, g)
        else:
            g[:] = point.cache

    def _evaluate_uniform(self, g: FloatArray | None) -> tuple[float, FloatArray]:
        """Compute psi and eta at theta = 0, where Q is uniform, and fill g with G if it is given.

        Most fits start there, and no sweep is needed: eta, the share of the grid at or above a cell, is the product
        over the modes of the share of levels at or above. At the join of two cells, the smaller share counts.
        """
        psi, eta, joins = 0.0, np.ones(self.n_params), 1.0
        for lengths, column in zip(self.model.quotient.lengths, self.model.positions.T, strict=True):
            total = lengths.sum()
            share = (lengths[::-1].cumsum()[::-1] / total)[column]  # of this mode's levels, by parameter
            psi, eta = psi + math.log(total), eta * share
            if g is not None:
                joins = joins * np.minimum.outer(share, share)
        if g is not None:
            g[:] = joins - np.outer(eta, eta)
        return psi, eta

    def _evaluate(self, theta: FloatArray, g: FloatArray | None) -> tuple[float, FloatArray]:
        """Compute psi and eta at theta, and fill g (k x k) with the Fisher matrix if it is given.

        `slabs.evaluate` works in its own order of the parameters; here they are back in the order of B.
        """
        measure = self.model.slab if isinstance(self.model, Packed) else None
        if measure is None and not theta.any():
            return self._evaluate_uniform(g)
        order = self._plan.order
        swept = slabs.evaluate(self._plan, theta[order], g, measure)
        if swept is None:  # products overflow or underflow: a formed grid is summed in the log domain
            grid = form_grid(self.model)
            point = grid.at(theta)
            if g is not None:
                grid.fill_fisher(point, g)
            return point.psi, point.eta
        back = np.argsort(order)
        if g is not None and (back != np.arange(len(back))).any():
            g[:] = g[np.ix_(back, back)]
        return swept[0], swept[1][back]

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)``: by the absolute sum if that is small enough to serve, else exactly.

        The exact range takes a sweep of all slabs, in NumPy, which is a fifth of a short fit. A sum of 0.5 serves: it
        raises the bound on the gap by at most e^0.5, and is not above `limits.PROOF_TILT`.
        """
        bound = float(np.abs(vector).sum())
        return bound if bound <= 0.5 else self._plan.log_range(vector[self._plan.order])


def form_grid(model: Model) -> DenseEngine:
    """Return a `DenseEngine`, which holds 5 arrays of the merged grid's size; raise an error if they do not fit."""
    what = f"a fit of {model.n_params:,} parameters on a merged grid"
    check_room(model.n_cells, 8 * 5, what, "Use a basis with fewer distinct coordinates.")
    return DenseEngine(model.on_measure(model.weights) if isinstance(model, Packed) else model)


@dataclass(eq=False)
class Vecchia:
    """A preconditioner for ``G x = b``: ``U' U``, where U is a sparse approximate inverse Cholesky factor of G.

    Row i of U comes from a regression of feature i on a few others, its neighbours (`core.sums.kernels.preconditioner`
    has the method). The neighbours are chosen rarely (`select`), and the values are updated more often as eta moves
    (`factor`).
    """

    places: IntArray  # N x k: what each coordinate of a cell of B adds to its place in the grid
    positions: IntArray  # the cells of B, k x N
    m: int = 64  # largest number of neighbours of a feature
    candidates: int = 240  # how many nearest features are considered as neighbours, of lower rank or not
    # From m / 3 neighbours on, another must lower the variance left by at least this share. (Not from the first one on:
    # where the mass is concentrated, no single neighbour helps, but thirty together do.)
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
        """Update U to a point if that has moved far enough; `eta` has the point's suffix sums on the grid, flattened.

        Neighbours are chosen anew once the log variances of the features have changed by `reselect` on average, and U
        is computed anew once one of them has changed by `refactor`. The average is not weighted by q, because then rare
        events would not count. At first the old log variances are NaN, so both are done.
        """
        ref = point.eta[self.order]
        log_variance = np.log(np.maximum(ref * (1.0 - ref), float_info.min))
        if not np.abs(log_variance - self.selected_at).mean() <= reselect:
            self.select(eta, ref)
            self.selected_at, self.factored_at = log_variance, np.full(ref.size, np.nan)
        if not np.abs(log_variance - self.factored_at).max() <= refactor:
            self.factor(eta, ref)
            self.factored_at = log_variance

    def select(self, eta: FloatArray, ref: FloatArray, rows: int = 32768) -> None:
        """Choose the neighbours of each feature, at suffix sums `eta` of the grid and means `ref` of the features.

        The neighbours of feature i are ``nbr[ptr[i]:ptr[i + 1]]``, as in a sparse matrix by rows. The candidates are
        the nearest cells of B in the L1 distance of merged coordinates. `rows` features are treated at a time, which
        bounds the memory.
        """
        from scipy.spatial import cKDTree

        points = self.cells.astype(np.float64)  # floats, as the tree wants them
        tree = cKDTree(points)
        lists, counts = [], []  # the neighbours of all features, one after the other; and how many each has
        for start in range(0, len(points), rows):
            block = points[start : start + rows]
            near = tree.query(block, k=min(len(points), self.candidates), p=1, workers=-1)[1].reshape(len(block), -1)
            chosen, count = np.empty((len(block), self.m), dtype=np.int32), np.empty(len(block), dtype=np.int64)
            settings = self.rank, self.m, self.gain, self.corner
            work = near.size * self.m
            vecchia_kernels.select(work, len(near), start, near, *settings, eta, ref, chosen, count)
            lists.append(chosen[np.arange(self.m) < count[:, None]])  # the entries that were filled, row by row
            counts.append(count)
        self.ptr = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        self.nbr: NDArray[np.int32] = np.concatenate(lists)

    def factor(self, eta: FloatArray, ref: FloatArray) -> None:
        """Compute U at suffix sums `eta` of the grid and means `ref` of the features.

        Off the diagonal it is in single precision, which halves the memory traffic. That is allowed: ``U' U`` is
        positive semidefinite whatever the rounding errors of U are.
        """
        from scipy.sparse import csr_array

        k, work = len(ref), self.nbr.size * self.m
        self.diag, self.off = np.empty(k), np.empty(self.nbr.size, dtype=np.float32)
        vecchia_kernels.factor(work, k, self.ptr, self.nbr, self.m, self.corner, eta, ref, self.diag, self.off)
        # U is kept by columns too: in a product with its transpose no two threads then write to one entry
        self.columns = csr_array((self.off, self.nbr, self.ptr), shape=(k, k)).tocsc()

    def apply(self, vector: FloatArray) -> FloatArray:
        """Return ``U' U r`` for a vector r in the order of B; U itself is in the order of places in the grid."""
        r, middle, last, out = vector[self.order], *(np.empty(len(vector)) for _ in range(3))
        work, columns = 2 * self.nbr.size, self.columns
        vecchia_kernels.multiply(work, len(r), self.ptr, self.nbr, self.off, self.diag, r, middle)
        vecchia_kernels.multiply(work, len(r), columns.indptr, columns.indices, columns.data, self.diag, middle, last)
        out[self.order] = last
        return out
