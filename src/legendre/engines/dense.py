"""The dense engine: compiled sweeps over a dense merged grid, for any weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.sums.kernels import dense as kernels
from legendre.core.sums.linalg import dot
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
        q = self._sums_below(theta)
        work = VISITS * q.size
        psi = kernels.exponentiate(work, q, layout.weights)
        eta_grid = q.copy()
        kernels.sum_columns(work, kernels.column_blocks(q), eta_grid, True)
        kernels.sum_slabs(work, len(q), eta_grid, layout.modes, True)
        eta = np.empty(self.n_params)
        eta[layout.order] = eta_grid.ravel()[layout.flat]
        return Point(theta, eta, psi, Sheets(q, eta_grid))

    def _sums_below(self, vector: FloatArray) -> FloatArray:
        """Sum the entries of a vector at or below each cell."""
        layout = self._layout
        grid = layout.scattered(vector)
        kernels.sum_grid(VISITS * grid.size, grid, layout.modes, back=False)
        return grid

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins, eq. (5), in place: one k x k matrix and no index arrays of that size."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        kernels.fill_fisher(point.cache.eta.ravel(), self._layout.corner, point.eta, g)
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute G x with two sweeps; minus the mean of x on the bottom cell centres every cell at no cost."""
        layout = self._layout
        grid = layout.scattered(vector)
        grid[0, 0] -= dot(point.eta, vector)
        work = VISITS * grid.size
        kernels.sum_slabs(work, len(grid), grid, layout.modes, False)
        kernels.weigh_columns(work, kernels.column_blocks(grid), grid, point.cache.q)
        kernels.sum_slabs(work, len(grid), grid, layout.modes, True)
        out = np.empty(self.n_params)
        out[layout.order] = grid.ravel()[layout.flat]
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
        change = self._sums_below(vector)
        inside = layout.weights > 0
        return float(change.max(where=inside, initial=-np.inf) - change.min(where=inside, initial=np.inf))


@dataclass(frozen=True, eq=False)
class SortedBasis:
    """Where the basis stands in the grid; parameters sorted by their place, so that memory is read in order."""

    weights: FloatArray
    modes: IntArray
    order: IntArray
    flat: IntArray
    model: Model

    @classmethod
    def of(cls, model: Model) -> SortedBasis:
        shape = model.quotient.merged_shape
        rows, width = shape[0], math.prod(shape[1:])
        place = np.zeros(len(model.positions), dtype=np.int64)
        for column, length in zip(model.positions.T, shape, strict=True):
            place *= length
            place += column
        order = np.argsort(place, kind="stable")
        return cls(
            weights=np.ascontiguousarray(model.weights).reshape(rows, width),
            modes=np.array(shape[1:], dtype=np.int64),
            order=order,
            flat=place[order],
            model=model,
        )

    @cached_property
    def cells(self) -> IntArray:
        """The cells of the basis in the order of their places, for the preconditioner."""
        return np.ascontiguousarray(self.model.positions[self.order])

    @cached_property
    def corner(self) -> IntArray:
        """By mode, what each cell's coordinate adds to its place: joins are read with that, for Fisher matrices."""
        strides = np.cumprod((1, *self.model.quotient.merged_shape[:0:-1]))[::-1].astype(np.int64)
        return np.ascontiguousarray((self.model.positions * strides).T)

    def scattered(self, vector: FloatArray) -> FloatArray:
        """Put a vector, in the order of the basis, on its cells; zero elsewhere."""
        grid = np.zeros(self.weights.shape)
        grid.ravel()[self.flat] = vector[self.order]
        return grid
