"""The cell-list engine: a list of merged cells in a grid too large to form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core.sums.cell_sums import second_moments
from legendre.core.types import FloatArray
from legendre.engines.protocol import Engine, Point
from legendre.model.model import CellList, Model


@dataclass(frozen=True, eq=False)
class CellListEngine(Engine):
    """By sums over the partial order between the list of cells and B."""

    model: Model  # its space is a `CellList`

    @property
    def _space(self) -> CellList:
        assert isinstance(self.model, CellList)
        return self.model

    def at(self, theta: FloatArray) -> Point:
        with np.errstate(divide="ignore"):
            log_q = self._space.below(theta) + np.log(self.model.weights)
        peak = float(log_q.max())
        log_q -= peak
        q = np.exp(log_q)
        mass = float(q.sum())
        q /= mass
        return Point(theta, self._space.above(q), peak + float(np.log(mass)), q)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        second_moments(self.model.quotient.merged_shape, self._space.cells, self.model.positions, point.cache, g)
        for row, eta in zip(g, point.eta, strict=True):
            row -= eta * point.eta
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        change = self._space.below(vector)
        change -= float(point.eta @ vector)
        change *= point.cache
        return self._space.above(change)

    def swing(self, vector: FloatArray) -> float:
        return float(np.ptp(self._space.below(vector)[self.model.alive]))
