"""Engines that sum over every merged cell, in NumPy and in the log domain: on a grid, or in a list of cells."""

from __future__ import annotations

import math
from functools import cached_property, reduce

import numpy as np

from legendre.core.sums.cell_sums import second_moments
from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.engines.protocol import Engine, Point
from legendre.model.model import CellList, Model


@frozen
class Sums:
    """What a point keeps: the probability of every merged cell, and the sums of these at or above other cells."""

    q: FloatArray
    above: FloatArray  # for each cell of B; on a grid, for every merged cell


@frozen
class CellListEngine(Engine):
    """The engine of a `CellList`: sums over the partial order between the listed merged cells and B.

    `ReferenceEngine` derives from it and replaces these sums by running sums on a grid.
    """

    model: Model  # cells of weight 0 are not in the sample space

    @cached_property
    def _log_weights(self) -> FloatArray | None:
        """The logarithm of the measure of each merged cell, -inf where that is 0; ``None`` if all measures are 1."""
        quotient = self.model.quotient
        if self.model.measure is None:  # a product over modes: one logarithm for each level is enough
            merges = quotient.merged_shape != quotient.shape
            return reduce(np.add.outer, [np.log(lengths) for lengths in quotient.lengths]) if merges else None
        with np.errstate(divide="ignore"):
            return np.log(self.model.weights)

    def _below(self, vector: FloatArray) -> FloatArray:
        """Sum a vector on B at or below each merged cell: the zeta of eq. (2)."""
        return self.model.below(vector)

    def _above(self, masses: FloatArray) -> FloatArray:
        """Sum masses of merged cells at or above each cell of B, eq. (3); on a grid, above every merged cell."""
        return self.model.above(masses)

    def _on_basis(self, sums: FloatArray) -> FloatArray:
        """Read what `_above` returned at the cells of B."""
        return sums

    def at(self, theta: FloatArray) -> Point:
        """Compute psi and eta: log q by sums below (eq. 2), normalised, then sums of q above the cells of B (eq. 3)."""
        q = self._below(theta)
        if self._log_weights is not None:
            q += self._log_weights
        peak = float(q.max())
        q -= peak  # so that no exponential overflows
        np.exp(q, out=q)
        mass = float(q.sum())
        q /= mass
        above = self._above(q)
        return Point(theta, self._on_basis(above), peak + math.log(mass), Sums(q, above))

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        """Compute G, eq. (5): second moments of the features minus the products of their means."""
        assert isinstance(self.model, CellList)
        second_moments(self.model.quotient.merged_shape, self.model.cells, self.model.positions, point.cache.q, g)
        for row, eta in zip(g, point.eta, strict=True):
            row -= eta * point.eta

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute ``G x`` without G: covariances of the features with ``zeta x``, by one sum below and one above."""
        change = self._below(vector)
        change -= float(point.eta @ vector)  # the mean of zeta x
        change *= point.cache.q
        return self._on_basis(self._above(change))

    def probabilities(self, point: Point) -> FloatArray:
        """Return the probability of each merged cell, which the point has kept."""
        return np.asarray(point.cache.q)

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)``: by the absolute sum if that is tiny, else exactly over the support.

        Sums below a cell lie between the sum of the negative and that of the positive entries, so the absolute sum
        bounds their range. A bound of 1e-3 is good enough for the callers, and saves a sweep.
        """
        bound = float(np.abs(vector).sum())
        if bound <= 1e-3:
            return bound
        change = self._below(vector)
        return float(np.ptp(change if self.model.measure is None else change[self.model.alive]))


@frozen
class ReferenceEngine(CellListEngine):
    """A dense merged grid, by running sums."""

    @cached_property
    def _corner(self) -> IntArray:
        """Coordinates of the cells of B times strides, N x k.

        The sum over modes is a cell's place in the flattened grid; for the join of two cells, take maxima first.
        """
        strides = np.cumprod((1, *self.model.quotient.merged_shape[:0:-1]))[::-1].astype(np.int64)
        return np.ascontiguousarray((self.model.positions * strides).T)

    def _below(self, vector: FloatArray) -> FloatArray:
        """Form the prefix sums at every merged cell; of theta = 0, where most fits begin, all are 0."""
        grid = np.zeros(self.model.quotient.merged_shape)
        grid.ravel()[self.model.places] = vector
        if vector.any():
            self._sum(grid, back=False)
        return grid

    def _above(self, masses: FloatArray) -> FloatArray:
        """Form the suffix sums above every merged cell: the Fisher matrix needs them at joins."""
        sums = masses.copy()
        self._sum(sums, back=True)
        return sums

    def _sum(self, grid: FloatArray, *, back: bool) -> None:
        """Replace a grid by its prefix sums over every mode, or by its suffix sums if `back`: in NumPy here."""
        accumulate(grid[(slice(None, None, -1),) * grid.ndim] if back else grid)

    def _on_basis(self, sums: FloatArray) -> FloatArray:
        """Read sums above every merged cell at the cells of B."""
        return sums.ravel()[self.model.places]

    def fill_fisher(self, point: Point, g: FloatArray, block: int = 64) -> None:
        """Read G from eta at joins: ``g_uv = eta[max(u, v)] - eta_u eta_v``, eq. (5).

        The product of two features is the feature of the join of their cells, so no sum over cells is needed. The lower
        triangle is filled, `block` rows at a time, and mirrored.
        """
        grid, eta, k = point.cache.above.ravel(), point.eta, len(point.eta)
        # 32 bits, if every place in the grid fits into them, halve the memory traffic
        corner = self._corner.astype(np.int32 if grid.size < 2**31 else np.int64)
        for start in range(0, k, block):
            rows, columns = slice(start, start + block), slice(0, start + block)
            joins = np.maximum(corner[0, rows, None], corner[0, columns])
            for mode in corner[1:]:
                joins += np.maximum(mode[rows, None], mode[columns])
            part = g[rows, columns]
            np.subtract(grid.take(joins), eta[rows, None] * eta[columns], out=part)
            g[columns, rows] = part.T
