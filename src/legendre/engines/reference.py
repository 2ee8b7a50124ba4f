"""The reference engine: running sums on the merged grid, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from legendre.core import limits
from legendre.core.sums.zeta import accumulate, decode
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.model.model import Model

BLOCK = 64  # rows of the Fisher matrix that are filled at a time: of 32, 64, 100 and 128 the fastest for 400 parameters
TINY = 1e-3  # A range bounded by this need not be known better


@dataclass(frozen=True, eq=False)
class Grids:
    """log q and eta of every merged cell."""

    log_q: FloatArray
    eta: FloatArray


@dataclass(frozen=True, eq=False)
class ReferenceEngine(Engine):
    """On a dense merged grid, in the log domain."""

    model: Model  # cells of weight 0 are not in the sample space

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.model)

    def _on_grid(self, vector: FloatArray) -> FloatArray:
        """Sum a vector on B at or below each merged cell, eq. (2)."""
        grid = self._layout.grid_of(vector)
        accumulate(grid)
        return grid

    def at(self, theta: FloatArray) -> Point:
        layout = self._layout
        if layout.full and not theta.any():
            return self._uniform(theta)
        psi, log_q, eta = decode(layout.grid_of(theta), layout.log_weights)
        return Point(theta, eta.ravel()[layout.flat], psi, Grids(log_q, eta))

    def _uniform(self, theta: FloatArray) -> Point:
        """At theta = 0 on a full grid everything is a product over modes."""
        quotient, layout = self.model.space.quotient, self._layout
        pairs = zip(quotient.lengths, quotient.shape, strict=True)
        eta = reduce(np.multiply.outer, [np.cumsum(sides[::-1])[::-1] / length for sides, length in pairs])
        psi = sum(math.log(length) for length in quotient.shape)
        log_q = np.full(layout.shape, -psi) if layout.log_weights is None else layout.log_weights - psi
        return Point(theta, eta.ravel()[layout.flat], psi, Grids(log_q, eta))

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins: ``g_uv = eta[max(u, v)] - eta_u eta_v``, eq. (5)."""
        grid = point.cache.eta.ravel()
        k = len(point.eta)
        g = np.empty((k, k)) if out is None else out
        few = k <= limits.KEPT_JOINS
        for start, joins in zip(range(0, k, BLOCK), self._kept_joins if few else self._joins(), strict=True):
            rows, columns = slice(start, start + BLOCK), slice(0, start + len(joins))
            block = g[rows, columns]
            np.subtract(grid.take(joins), point.eta[rows, None] * point.eta[columns], out=block)
            g[columns, rows] = block.T
        return g

    @cached_property
    def _kept_joins(self) -> list[IntArray]:
        return list(self._joins())

    def _joins(self) -> Iterator[IntArray]:
        """Compute the flat positions of max(u, v), block row by block row up to the diagonal."""
        layout, k = self._layout, len(self._layout.flat)
        small = np.int32 if layout.size < 2**31 else np.int64  # half the memory to go through
        scaled = layout.corner.astype(small)
        for start in range(0, k, BLOCK):
            stop = min(start + BLOCK, k)
            joins = np.maximum(scaled[0, start:stop, None], scaled[0, :stop])
            for mode in scaled[1:]:
                joins += np.maximum(mode[start:stop, None], mode[:stop])
            yield joins.astype(np.int64)

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        layout, change = self._layout, self._on_grid(vector)
        change -= float(point.eta @ vector)
        change *= np.exp(point.cache.log_q)
        accumulate(change[(slice(None, None, -1),) * change.ndim])
        return np.asarray(change.ravel()[layout.flat])

    def eta_everywhere(self, point: Point) -> FloatArray:
        return np.asarray(point.cache.eta)

    def log_probabilities(self, point: Point) -> FloatArray:
        return np.asarray(point.cache.log_q)

    def swing(self, vector: FloatArray) -> float:
        """Return the range of ``zeta(vector)`` over the cells that carry probability, or a bound where it is tiny."""
        bound = float(np.abs(vector).sum())
        if bound <= TINY:
            return bound
        change = self._on_grid(vector)
        if not self._layout.full:
            change = change[self.model.alive]
        return float(change.max() - change.min())


@dataclass(frozen=True, eq=False)
class Layout:
    """The merged grid as the sweeps want it, laid out once."""

    shape: tuple[int, ...]  # of the merged grid
    size: int
    full: bool  # whether it is a full grid without a base measure
    flat: IntArray  # where the cells of B stand, and each coordinate's part of that place (N x k)
    corner: IntArray
    log_weights: FloatArray | None  # the logarithm of the measure of each merged cell; ``None`` where all are 1

    @classmethod
    def of(cls, model: Model) -> Layout:
        space, shape = model.space, model.space.quotient.merged_shape
        strides = np.cumprod((1, *shape[:0:-1]))[::-1].astype(np.int64)
        corner, full, log_weights = (space.positions * strides).T, space.measure is None, None
        if not full:
            with np.errstate(divide="ignore"):
                log_weights = np.log(space.weights)
        elif shape != space.quotient.shape:  # the measure is a product over modes
            log_weights = reduce(np.add.outer, [np.log(sides) for sides in space.quotient.lengths])
        return cls(shape, math.prod(shape), full, corner.sum(axis=0), corner, log_weights)

    def grid_of(self, vector: FloatArray) -> FloatArray:
        """Put a vector on B on the merged grid, 0 elsewhere."""
        grid = np.zeros(self.size)
        grid[self.flat] = vector
        return grid.reshape(self.shape)
