"""The device engine: running sums on the merged grid where X lives, by functions of the array API standard."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.array_libraries import HERE, Device
from legendre.core.sums.device_sums import prefix_sums, suffix_sums
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import Grids
from legendre.model.model import Model

if TYPE_CHECKING:
    from legendre.engines.preconditioner import Sorted

BLOCK = 1 << 22  # entries of the Fisher matrix that are computed at a time


@dataclass(frozen=True, eq=False)
class DeviceEngine(Engine):
    """A dense merged grid that stays on its device, in arrays that cannot be changed in place; vectors on B cross."""

    model: Model  # cells of weight 0 are not in the sample space; without a device of its own NumPy computes

    @property
    def _device(self) -> Device:
        return self.model.device or HERE

    @cached_property
    def _strides(self) -> IntArray:
        return np.cumprod((1, *self.model.quotient.merged_shape[:0:-1]))[::-1].astype(np.int64)

    @cached_property
    def _flat(self) -> Any:
        """Where the cells of B stand in the grid."""
        return self._device.bring(self.model.positions @ self._strides)

    @cached_property
    def _log_weights(self) -> Any:
        with np.errstate(divide="ignore"):
            return self._device.bring(np.log(self.model.weights))

    @cached_property
    def _owner(self) -> Any:
        """The parameter that stands at each merged cell, or |B|: to fill a grid is then to read from a vector."""
        owner = np.full(self.model.n_merged, self.n_params, dtype=np.int64)
        owner[self.model.positions @ self._strides] = np.arange(self.n_params)
        return self._device.bring(owner)

    def _on_grid(self, vector: FloatArray) -> Any:
        xp = self._device.xp
        grid = xp.take(self._device.bring(np.append(vector, 0.0)), self._owner, axis=0)
        return prefix_sums(xp, xp.reshape(grid, self.model.quotient.merged_shape))

    def _on_basis(self, grid: Any) -> FloatArray:
        xp = self._device.xp
        return np.array(self._device.host(xp.take(xp.reshape(grid, (-1,)), self._flat, axis=0)))

    def at(self, theta: FloatArray) -> Point:
        xp = self._device.xp
        log_q = self._on_grid(theta) + self._log_weights
        peak = float(xp.max(log_q))
        q = xp.exp(log_q - peak)  # so that no exponential overflows
        mass = float(xp.sum(q))
        psi = peak + float(np.log(mass))
        eta = suffix_sums(xp, q / mass)
        return Point(theta, self._on_basis(eta), psi, Grids(log_q - psi, eta))

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        xp, k = self._device.xp, self.n_params
        g = np.empty((k, k)) if out is None else out
        grid, eta = xp.reshape(point.cache.eta, (-1,)), self._device.bring(point.eta)
        corners = self._device.bring((self.model.positions * self._strides).T)
        step = max(1, BLOCK // max(k, 1))
        for start in range(0, k, step):
            rows = slice(start, min(start + step, k))
            joins = sum(xp.maximum(corners[m, rows][:, None], corners[m, :][None, :]) for m in range(corners.shape[0]))
            above = xp.reshape(xp.take(grid, xp.reshape(joins, (-1,)), axis=0), joins.shape)
            g[rows] = self._device.host(above - eta[rows][:, None] * eta[None, :])
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        xp = self._device.xp
        change = self._on_grid(vector) - float(point.eta @ vector)
        return self._on_basis(suffix_sums(xp, change * xp.exp(point.cache.log_q)))

    def preconditioner(self, point: Point, last: Sorted | None = None) -> Sorted:
        """Bring the sparse inverse factor, which is computed here, up to date with the point: one grid crosses over."""
        from legendre.engines.preconditioner import Sorted, Vecchia

        if last is None:
            order = np.argsort(self.model.positions @ self._strides, kind="stable")
            last = Sorted(Vecchia(self.model.positions[order], self.model.quotient.merged_shape), order, ())
        return last.brought_to(point, np.ascontiguousarray(self._device.host(point.cache.eta)))

    def log_probabilities(self, point: Point) -> FloatArray:
        return self._device.host(point.cache.log_q)

    def swing(self, vector: FloatArray) -> float:
        xp = self._device.xp
        change, dead = self._on_grid(vector), self._log_weights == -np.inf
        high, low = (xp.where(dead, sign * xp.ones_like(change) * np.inf, change) for sign in (-1.0, 1.0))
        return float(xp.max(high)) - float(xp.min(low))
