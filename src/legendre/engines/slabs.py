"""The slab engine: compiled sweeps slab by slab, for full grids that are better not formed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.sums.kernels import slabs as kernels
from legendre.core.sums.kernels.dense import mirror, permute_rows
from legendre.core.sums.kernels.products import products
from legendre.core.sums.kernels.slabs import SlabPlan, plan_slabs
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class SlabEngine(Engine):
    """In the memory of a few slabs (and of G), on a full grid without a base measure."""

    model: Model  # its measure is a product over modes (``model.measure is None``)

    @property
    def _lengths(self) -> tuple[FloatArray, ...]:
        return self.model.quotient.lengths

    @cached_property
    def _plan(self) -> SlabPlan:
        return plan_slabs(self._lengths, self.model.positions)

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
            psi, eta = products(factors, self.model.positions)
            return Point(theta, eta, psi + shift)
        psi, sorted_eta = kernels.evaluate(self._plan, theta[self.order])
        eta = np.empty(self.n_params)
        eta[self.order] = sorted_eta
        return Point(theta, eta, psi)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Read G from eta at joins, eq. (5), on the way of one more sweep."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        product = self._factors(point.theta)
        if product is not None:
            products(product[0], self.model.positions, g)
        else:
            kernels.evaluate(self._plan, point.theta[self.order], g)
        mirror(g)
        if product is None and not np.array_equal(self.order, np.arange(self.n_params)):
            back = np.argsort(self.order)
            for row in g:  # columns, then rows: no second matrix
                row[:] = row[back]
            permute_rows(g, back)
        return g

    def swing(self, vector: FloatArray) -> float:
        """Return the range of ``zeta(vector)``, by a sweep only where the sum of its entries' sizes does not do."""
        bound = float(np.abs(vector).sum())
        if bound <= 0.1:
            return bound
        low, high = kernels.log_range(self._plan, vector[self.order])
        return float(high - low)
