"""The reference engine: running sums on the merged grid, in NumPy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.sums.zeta import zeta, zeta_adjoint
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
    def _log_weights(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.model.weights)

    @cached_property
    def _flat_positions(self) -> IntArray:
        return np.asarray(np.ravel_multi_index(tuple(self.model.positions.T), self.model.weights.shape), dtype=np.int64)

    def _on_grid(self, vector: FloatArray) -> FloatArray:
        grid = np.zeros(self.model.weights.shape)
        grid.ravel()[self._flat_positions] = vector
        return zeta(grid)

    def at(self, theta: FloatArray) -> Point:
        """Decode theta to Q (eq. 2) and encode Q to eta (eq. 3)."""
        if self.model.measure is None and not theta.any():
            return self._uniform(theta)
        log_q = self._on_grid(theta)
        log_q += self._log_weights
        peak = float(log_q.max())
        log_q -= peak  # so that no exponential overflows
        q = np.exp(log_q)
        mass = float(q.sum())
        q /= mass
        log_q -= np.log(mass)
        eta_grid = zeta_adjoint(q)
        eta = eta_grid.ravel()[self._flat_positions]
        return Point(theta, eta, peak + float(np.log(mass)), Grids(log_q, eta_grid))

    def _uniform(self, theta: FloatArray) -> Point:
        """At theta = 0 on a full grid everything is a product over modes."""
        shape = self.model.quotient.shape
        eta_grid = np.ones(())
        for sides, length in zip(self.model.quotient.lengths, shape, strict=True):
            eta_grid = np.multiply.outer(eta_grid, np.cumsum(sides[::-1])[::-1] / length)
        psi = float(np.log(np.array(shape, dtype=np.float64)).sum())
        eta = eta_grid.ravel()[self._flat_positions]
        return Point(theta, eta, psi, Grids(self._log_weights - psi, eta_grid))

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
        few = len(self.model.basis) <= limits.KEPT_JOINS
        return self._kept_joins if few else self._fresh_joins()

    @cached_property
    def _kept_joins(self) -> list[IntArray]:
        return list(self._fresh_joins())

    def _fresh_joins(self) -> Iterator[IntArray]:
        strides = np.array([s // 8 for s in np.empty(self.model.weights.shape).strides], dtype=np.int64)
        small = np.int32 if self.model.n_merged < 2**31 else np.int64  # half the memory to go through
        scaled = (self.model.positions * strides).T.astype(small)
        for start in range(0, self.n_params, BLOCK):
            stop = min(start + BLOCK, self.n_params)
            joins = np.maximum(scaled[0, start:stop, None], scaled[0, :stop])
            for mode in scaled[1:]:
                joins += np.maximum(mode[start:stop, None], mode[:stop])
            yield joins.astype(np.int64)

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute ``G x = zeta' diag(q) (zeta x - E[zeta x])`` with two sweeps."""
        change = self._on_grid(vector)
        change -= float(point.eta @ vector)
        change *= np.exp(point.cache.log_q)
        product: FloatArray = zeta_adjoint(change).ravel()[self._flat_positions]
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
        if self.model.measure is not None:
            change = change[self.model.alive]
        return float(change.max() - change.min())
