"""The compiled engines of a merged grid: `DenseEngine` forms it, `SlabEngine` sweeps a full grid slab by slab."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from legendre.core.sums.kernels import dense as kernels
from legendre.core.sums.kernels import preconditioner as vecchia_kernels
from legendre.core.sums.kernels import slabs as slab_kernels
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model

VISITS = 6  # how often a pair of sweeps visits each cell, roughly: small grids are swept by one thread


@dataclass(frozen=True, eq=False)
class Sheets:
    """q and eta of every merged cell."""

    q: FloatArray
    eta: FloatArray


@dataclass(frozen=True, eq=False)
class DenseEngine(ReferenceEngine):
    """Compiled sweeps over a grid that is formed, for any weights; the same answers as `ReferenceEngine`."""

    @cached_property
    def _modes(self) -> IntArray:
        return np.array(self._shape[1:], dtype=np.int64)

    def _rows(self, grid: FloatArray) -> FloatArray:
        """View a grid as (first mode) x (all others)."""
        return grid.reshape(self._shape[0], -1)

    def at(self, theta: FloatArray) -> Point:
        q = self._sums_below(theta)
        work = VISITS * q.size
        psi = kernels.exponentiate(work, self._rows(q), self._rows(np.ascontiguousarray(self.model.weights)))
        eta = q.copy()
        kernels.sum_grid(work, self._rows(eta), self._modes, back=True)
        return Point(theta, eta.ravel()[self._flat], psi, Sheets(q, eta))

    def _sums_below(self, vector: FloatArray) -> FloatArray:
        grid = self._scatter(vector)
        kernels.sum_grid(VISITS * grid.size, self._rows(grid), self._modes, back=False)
        return grid

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins, eq. (5), in place: one k x k matrix and no index arrays of that size."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        kernels.fill_fisher(point.cache.eta.ravel(), self._corner, point.eta, g)
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute G x with two sweeps; minus the mean of x on the bottom cell centres every cell at no cost."""
        grid = self._rows(self._scatter(vector))
        grid[0, 0] -= float(point.eta @ vector)
        work = VISITS * grid.size
        kernels.sum_slabs(work, len(grid), grid, self._modes, False)
        kernels.weigh_columns(work, kernels.column_blocks(grid), grid, self._rows(point.cache.q))
        kernels.sum_slabs(work, len(grid), grid, self._modes, True)
        return np.asarray(grid.ravel()[self._flat])

    def preconditioner(self, point: Point, last: Vecchia | None = None) -> Vecchia:
        made = Vecchia(self._corner, self._flat, self.model.positions) if last is None else last
        made.refresh(point, point.cache.eta.ravel())
        return made

    def log_probabilities(self, point: Point) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(point.cache.q))


@dataclass(frozen=True, eq=False)
class SlabEngine(Engine):
    """In the memory of a few slabs (and of G), on a full grid without a base measure."""

    model: Model  # its measure is a product over modes (``model.measure is None``)

    @property
    def _lengths(self) -> tuple[FloatArray, ...]:
        return self.model.quotient.lengths

    @cached_property
    def _plan(self) -> slab_kernels.SlabPlan:
        return slab_kernels.plan_slabs(self._lengths, self.model.positions)

    @property
    def order(self) -> IntArray:
        """The order of parameters in which G needs no permutation."""
        return self._plan.order

    @cached_property
    def _modes_used(self) -> IntArray:
        """How many coordinates of each cell of B are not 0."""
        return np.asarray((self.model.positions > 0).sum(axis=1))

    def _factors(self, theta: FloatArray) -> tuple[list[FloatArray], float] | None:
        """Return Q up to a factor, and the factor's logarithm, where Q is a product over modes; else ``None``."""
        if theta[self._modes_used > 1].any():
            return None
        factors, shift = [], 0.0
        for k, lengths in enumerate(self._lengths):
            rows = np.flatnonzero(self.model.positions[:, k] * (self._modes_used == 1))
            log_ratio = np.zeros(len(lengths))
            log_ratio[self.model.positions[rows, k]] = theta[rows]
            log_ratio = np.cumsum(log_ratio)
            peak = float(log_ratio.max())
            factors.append(lengths * np.exp(log_ratio - peak))
            shift += peak
        return factors, shift

    def at(self, theta: FloatArray) -> Point:
        """Sweep once; where Q is a product over modes, as at theta = 0, there is a closed form."""
        if (product := self._factors(theta)) is not None:
            factors, shift = product
            psi, eta = _products(factors, self.model.positions)
            return Point(theta, eta, psi + shift)
        psi, sorted_eta = slab_kernels.evaluate(self._plan, theta[self.order])
        eta = np.empty(self.n_params)
        eta[self.order] = sorted_eta
        return Point(theta, eta, psi)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins, eq. (5), on the way of one more sweep."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        product = self._factors(point.theta)
        if product is not None:
            _products(product[0], self.model.positions, g)
        else:
            slab_kernels.evaluate(self._plan, point.theta[self.order], g)
        kernels.mirror(g)
        if product is None and not np.array_equal(self.order, np.arange(self.n_params)):
            back = np.argsort(self.order)
            g[:] = g[np.ix_(back, back)]
        return g

    def swing(self, vector: FloatArray) -> float:
        """Return the range of ``zeta(vector)``, by a sweep only where the sum of its entries' sizes does not do."""
        bound = float(np.abs(vector).sum())
        if bound <= 0.1:
            return bound
        low, high = slab_kernels.log_range(self._plan, vector[self.order])
        return float(high - low)


def _products(
    lengths: Sequence[NDArray[Any]], positions: NDArray[Any], gram: FloatArray | None = None, together: int = 64
) -> tuple[float, FloatArray]:
    """Compute psi and eta of a product over modes (and the Fisher matrix into gram's lower triangle) without a sweep.

    lengths[k]: the weight of each box of mode k; lengths alone make the uniform distribution, where fits begin. Rows of
    the matrix are filled `together`.
    """
    tails = [np.cumsum(np.asarray(n, float)[::-1])[::-1] for n in lengths]
    total = float(np.prod([t[0] for t in tails]))
    tails = [t / t[0] for t in tails]
    columns = np.ascontiguousarray(positions.T, np.int64)
    eta = np.ones(len(positions))
    for t, c in zip(tails, columns, strict=True):
        eta *= t[c]
    if gram is not None:
        for first in range(0, len(eta), together):
            rows, before = slice(first, first + together), slice(0, first + together)
            part = -np.outer(eta[rows], eta[before])
            part += math.prod(t.take(np.maximum(c[rows, None], c[before])) for t, c in zip(tails, columns, strict=True))
            gram[rows, before] = part
    return float(np.log(total)), eta


@dataclass(eq=False)
class Vecchia:
    """A preconditioner for ``G x = b``, near the inverse Cholesky factor of G, which is nearly sparse.

    Neighbours are chosen once (`select`), and values are brought up to date as eta moves (`factor`).
    """

    places: IntArray  # N x k: what each coordinate of a cell of B adds to its place in the grid
    flat: IntArray  # these places
    positions: IntArray  # the cells of B, k x N
    m: int = 64  # most neighbours per feature
    candidates: int = 240  # nearest features looked at, predecessors or not
    # From m / 3 neighbours on, another must lower the variance left by at least this part. (Not from the first: where
    # the mass is concentrated no single neighbour helps but thirty together do.)
    gain: float = 0.002

    def __post_init__(self) -> None:
        self.order = np.argsort(self.flat, kind="stable")  # neighbours are then near in memory
        self.cells, self.corner = self.positions[self.order], np.ascontiguousarray(self.places[:, self.order].T)
        k = len(self.cells)
        self.rank = np.empty(k, dtype=np.int64)
        self.rank[np.argsort(self.cells.sum(axis=1), kind="stable")] = np.arange(k)
        self.selected_at = self.factored_at = np.full(k, np.nan)

    def refresh(self, point: Point, eta: FloatArray, reselect: float = 0.3, refactor: float = 0.1) -> None:
        """Bring U up to date where the features' variances moved; weighing them by q would miss rare events.

        Neighbours are chosen anew after a mean change of log variance by `reselect`, and U is computed anew after a
        largest change by `refactor`.
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
            work = near.size * self.m
            vecchia_kernels.select(work, len(near), start, near, *settings, eta, ref, chosen, count)
            parts.append(chosen[np.arange(self.m) < count[:, None]])
            counts.append(count)
        self.ptr = np.concatenate(([0], np.cumsum(np.concatenate(counts))))
        self.nbr: NDArray[np.int32] = np.concatenate(parts)
        self.width = int(np.diff(self.ptr).max(initial=0))

    def factor(self, eta: FloatArray, ref: FloatArray) -> None:
        """Compute U at the given suffix sums (single precision: half the traffic, still a fixed positive operator)."""
        k, self.off = ref.size, np.empty(self.nbr.size, dtype=np.float32)
        self.diag = np.empty(k)
        rows, work = (self.ptr, self.nbr, self.width), self.nbr.size * self.width
        vecchia_kernels.factor(work, k, *rows, self.corner, eta, ref, self.diag, self.off)
        # the columns, so that U' too is applied without two threads writing one entry
        self.columns = csr_array((self.off, self.nbr, self.ptr), shape=(k, k)).tocsc()

    def apply(self, vector: FloatArray) -> FloatArray:
        """Return ``U' U r``, for a vector in the order of the parameters."""
        r, middle, last, out = vector[self.order], *(np.empty(len(vector)) for _ in range(3))
        work, columns = 2 * self.nbr.size, self.columns
        vecchia_kernels.multiply(work, len(r), self.ptr, self.nbr, self.off, self.diag, r, middle)
        vecchia_kernels.multiply(work, len(r), columns.indptr, columns.indices, columns.data, self.diag, middle, last)
        out[self.order] = last
        return out
