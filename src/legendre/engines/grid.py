"""The grid engine: running sums on the merged grid, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.arrays import FloatArray, IntArray
from legendre.engines.protocol import Point
from legendre.model import Model
from legendre.zeta import zeta, zeta_adjoint


@dataclass(frozen=True, eq=False)
class GridEngine:
    """Answers the five questions on a dense merged grid, in the log domain.

    Parameters
    ----------
    model
        The model; cells of weight 0 are not in the sample space.

    Examples
    --------
    >>> from legendre.support import Support
    >>> engine = GridEngine(Model.of(Support((2, 2)), None, np.array([[1, 0]])))
    >>> engine.at(np.array([np.log(3.0)])).eta.round(12).tolist()
    [0.75]
    """

    model: Model

    @property
    def n_params(self) -> int:
        """|B|."""
        return self.model.n_params

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
        return Point(theta, eta, peak + float(np.log(mass)), log_q, eta_grid)

    def fisher(self, point: Point) -> FloatArray:
        """Read G from eta at joins: ``g_uv = eta[max(u, v)] - eta_u eta_v``, eq. (5)."""
        positions = self.model.positions
        grid = point.eta_grid.ravel()
        strides = np.array([s // 8 for s in point.eta_grid.strides], dtype=np.int64)
        scaled = positions * strides
        g = np.empty((self.n_params, self.n_params))
        for row, (cell, eta) in enumerate(zip(scaled, point.eta, strict=True)):
            join = np.maximum(scaled[: row + 1], cell).sum(axis=1)
            g[row, : row + 1] = grid[join] - eta * point.eta[: row + 1]
            g[: row + 1, row] = g[row, : row + 1]
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute ``G x = zeta' diag(q) (zeta x - E[zeta x])`` with two sweeps."""
        change = self._on_grid(vector)
        change -= float(point.eta @ vector)
        change *= np.exp(point.log_q)
        product: FloatArray = zeta_adjoint(change).ravel()[self._flat_positions]
        return product
