"""The reference engine: running sums on the merged grid, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.model.model import Model

BLOCK = 32
"""Rows of the Fisher matrix that are filled at a time."""
TINY = 1e-3
"""A range bounded by this need not be known better."""


@dataclass(frozen=True, eq=False)
class Grids:
    """log q and eta of every merged cell."""

    log_q: FloatArray
    eta: FloatArray


@dataclass(frozen=True, eq=False)
class ReferenceEngine(Engine):
    """On a dense merged grid, in the log domain.

    Parameters
    ----------
    model
        The model; cells of weight 0 are not in the sample space.

    Examples
    --------
    >>> from legendre.data.support import Support
    >>> engine = ReferenceEngine(Model.of(Support((2, 2)), None, np.array([[1, 0]])))
    >>> engine.at(np.array([np.log(3.0)])).eta.round(12).tolist()
    [0.75]
    """

    model: Model

    @cached_property
    def _layout(self) -> Layout:
        return Layout.of(self.model)

    def _on_grid(self, vector: FloatArray) -> FloatArray:
        """Sum a vector on B at or below each merged cell, eq. (2)."""
        layout = self._layout
        grid = np.zeros(layout.size)
        grid[layout.flat] = vector
        grid = grid.reshape(layout.shape)
        accumulate(grid)
        return grid

    def at(self, theta: FloatArray) -> Point:
        """Decode theta to Q (eq. 2) and encode Q to eta (eq. 3)."""
        layout = self._layout
        if layout.full and not theta.any():
            return self._uniform(theta)
        log_q = self._on_grid(theta)
        if layout.log_weights is not None:
            log_q += layout.log_weights
        peak = float(log_q.max())
        log_q -= peak  # so that no exponential overflows
        eta_grid = np.exp(log_q)
        mass = float(eta_grid.sum())
        log_mass = math.log(mass)
        eta_grid /= mass
        log_q -= log_mass
        accumulate(eta_grid[layout.reverse])  # Q becomes eta
        eta = eta_grid.ravel()[layout.flat]
        return Point(theta, eta, peak + log_mass, Grids(log_q, eta_grid))

    def _uniform(self, theta: FloatArray) -> Point:
        """At theta = 0 on a full grid everything is a product over modes."""
        quotient = self.model.space.quotient
        eta_grid = np.ones(())
        for sides, length in zip(quotient.lengths, quotient.shape, strict=True):
            eta_grid = np.multiply.outer(eta_grid, np.cumsum(sides[::-1])[::-1] / length)
        psi = sum(math.log(length) for length in quotient.shape)
        layout = self._layout
        log_q = np.full(layout.shape, -psi) if layout.log_weights is None else layout.log_weights - psi
        return Point(theta, eta_grid.ravel()[layout.flat], psi, Grids(log_q, eta_grid))

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins: ``g_uv = eta[max(u, v)] - eta_u eta_v``, eq. (5)."""
        grid = point.cache.eta.ravel()
        k = len(point.eta)
        g = np.empty((k, k)) if out is None else out
        for start, joins in zip(range(0, k, BLOCK), self._joins(), strict=True):
            rows, columns = slice(start, start + BLOCK), slice(0, start + len(joins))
            block = g[rows, columns]
            np.subtract(grid.take(joins), point.eta[rows, None] * point.eta[columns], out=block)
            g[columns, rows] = block.T
        return g

    def _joins(self) -> Iterable[IntArray]:
        """Flat positions of max(u, v), block row by block row up to the diagonal; kept while they are small."""
        few = len(self._layout.flat) <= limits.KEPT_JOINS
        return self._kept_joins if few else self._fresh_joins()

    @cached_property
    def _kept_joins(self) -> list[IntArray]:
        return list(self._fresh_joins())

    def _fresh_joins(self) -> Iterator[IntArray]:
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
        """Compute ``G x = zeta' diag(q) (zeta x - E[zeta x])`` with two sweeps."""
        layout, change = self._layout, self._on_grid(vector)
        change -= float(point.eta @ vector)
        change *= np.exp(point.cache.log_q)
        accumulate(change[layout.reverse])
        product: FloatArray = change.ravel()[layout.flat]
        return product

    def eta_everywhere(self, point: Point) -> FloatArray:
        """Return eta of the merged cells."""
        eta: FloatArray = point.cache.eta
        return eta

    def log_probabilities(self, point: Point) -> FloatArray:
        """Return log q of the merged cells."""
        log_q: FloatArray = point.cache.log_q
        return log_q

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
    """The merged grid as the sweeps want it, laid out once.

    Parameters
    ----------
    shape, size
        Of the merged grid.
    full
        Whether it is a full grid without a base measure.
    flat, corner
        Where the cells of B stand, and each coordinate's part of that place (N x k).
    log_weights
        The logarithm of the measure of each merged cell; ``None`` where all are 1.
    reverse
        Views a grid with every mode reversed.
    """

    shape: tuple[int, ...]
    size: int
    full: bool
    flat: IntArray
    corner: IntArray
    log_weights: FloatArray | None
    reverse: tuple[slice, ...]

    @classmethod
    def of(cls, model: Model) -> Layout:
        """Read it off the model's space."""
        space, shape = model.space, model.space.quotient.merged_shape
        strides = np.cumprod((1, *shape[:0:-1]))[::-1].astype(np.int64)
        corner = (space.positions * strides).T
        full = space.measure is None
        log_weights = None
        if not full or shape != space.quotient.shape:
            with np.errstate(divide="ignore"):
                log_weights = np.log(space.weights)
        reverse = (slice(None, None, -1),) * len(shape)
        return cls(shape, math.prod(shape), full, corner.sum(axis=0), corner, log_weights, reverse)
