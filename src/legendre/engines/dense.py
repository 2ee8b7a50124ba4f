"""The dense engine: compiled sweeps over a dense merged grid, for any weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.sums.blas_threads import dot
from legendre.core.sums.kernels import dense as kernels
from legendre.core.types import FloatArray, IntArray
from legendre.engines.preconditioner import Sorted, Vecchia
from legendre.engines.protocol import Engine, Point
from legendre.model.model import Model

VISITS = 6  # how often a pair of sweeps visits each cell, roughly: small grids are swept by one thread


@dataclass(frozen=True, eq=False)
class Sheets:
    """q and eta of every merged cell, as (first mode) x (all others)."""

    q: FloatArray
    eta: FloatArray


@dataclass(frozen=True, eq=False)
class DenseEngine(Engine):
    """Compiled sweeps; the same answers as `ReferenceEngine`, whatever the number of threads."""

    model: Model  # cells of weight 0 are not in the sample space

    @cached_property
    def _layout(self) -> SortedBasis:
        return SortedBasis.of(self.model)

    def at(self, theta: FloatArray) -> Point:
        layout = self._layout
        q = np.empty_like(layout.weights)
        work = VISITS * q.size
        kernels.scatter_forward(work, theta[layout.order], 0.0, layout.flat, layout.first, layout.modes, q)
        kernels.columns_forward(work, q)
        shift, total = kernels.exponentiate(work, q, layout.weights)
        kernels.scale(work, q, 1.0 / total)
        eta_grid = q.copy()
        kernels.columns_backward(work, eta_grid)
        kernels.slabs_backward(work, eta_grid, layout.modes)
        eta = np.empty(self.n_params)
        eta[layout.order] = eta_grid.ravel()[layout.flat]
        return Point(theta, eta, shift + math.log(total), Sheets(q, eta_grid))

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins, eq. (5), in place: one k x k matrix and no index arrays of that size."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        kernels.fill_fisher(g.size, point.cache.eta.ravel(), self._layout.corner, point.eta, g)
        kernels.mirror(g.size, g)
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute G x with two sweeps; minus the mean of x on the bottom cell centres every cell at no cost."""
        layout = self._layout
        grid = np.empty_like(layout.weights)
        mean = dot(point.eta, vector)
        sums = np.empty(self.n_params)
        work = VISITS * grid.size
        kernels.scatter_forward(work, vector[layout.order], -mean, layout.flat, layout.first, layout.modes, grid)
        kernels.columns_weigh(work, grid, point.cache.q)
        kernels.backward_gather(work, grid, layout.flat, layout.first, layout.modes, sums)
        out = np.empty_like(sums)
        out[layout.order] = sums
        return out

    def preconditioner(self, point: Point, last: Sorted | None = None) -> Sorted:
        layout = self._layout
        if last is None:
            last = Sorted(Vecchia(layout.cells, self.model.quotient.merged_shape), layout.order, ())
        return last.brought_to(point, point.cache.eta)

    def eta_everywhere(self, point: Point) -> FloatArray:
        return np.asarray(point.cache.eta.reshape(self.model.quotient.merged_shape))

    def log_probabilities(self, point: Point) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(point.cache.q.reshape(self.model.quotient.merged_shape)))

    def swing(self, vector: FloatArray) -> float:
        layout = self._layout
        change = np.empty_like(layout.weights)
        work = VISITS * change.size
        kernels.scatter_forward(work, vector[layout.order], 0.0, layout.flat, layout.first, layout.modes, change)
        kernels.columns_forward(work, change)
        inside = layout.weights > 0
        return float(change.max(where=inside, initial=-np.inf) - change.min(where=inside, initial=np.inf))


@dataclass(frozen=True, eq=False)
class SortedBasis:
    """Where the basis stands in the grid; parameters sorted by their place, so that memory is read in order."""

    weights: FloatArray
    modes: IntArray
    order: IntArray
    flat: IntArray
    first: IntArray
    cells: IntArray
    corner: IntArray

    @classmethod
    def of(cls, model: Model) -> SortedBasis:
        shape = model.quotient.merged_shape
        rows, width = shape[0], math.prod(shape[1:])
        strides = np.cumprod((1, *shape[:0:-1]))[::-1].astype(np.int64)
        place = model.positions @ strides
        order = np.argsort(place, kind="stable")
        flat = place[order]
        return cls(
            weights=np.ascontiguousarray(model.weights).reshape(rows, width),
            modes=np.array(shape[1:], dtype=np.int64),
            order=order,
            flat=flat,
            first=np.searchsorted(flat, np.arange(rows + 1) * width).astype(np.int64),
            cells=np.ascontiguousarray(model.positions[order]),
            corner=np.ascontiguousarray((model.positions * strides).T),
        )
