"""The matrix engine, for matrix balancing: one-body bases on a matrix of weights W, by products with W alone.

The members of the model are ``Q = D_f W D_g`` with diagonal matrices of factors exp(f) of rows and exp(g) of columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from legendre.core.types import BoolArray, FloatArray, IntArray, frozen
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model


@frozen
class Scaled:
    """Q in factors: ``log q_ij = log W_ij + f_i + g_j - log_mass``."""

    f: FloatArray  # log factors of the rows
    g: FloatArray  # log factors of the columns
    rows: FloatArray  # the row sums of Q
    columns: FloatArray  # the column sums of Q
    log_mass: float
    per_row: FloatArray  # log of the product W exp(g), with which the next Sinkhorn cycle begins


@frozen
class MatrixEngine(Engine):
    """A matrix of weights, with a factor for each row and each column."""

    model: Model  # one for which `applies` is true

    @staticmethod
    def applies(model: Model) -> bool:
        """Return whether two modes of the merged grid have more than one level and B is all cells on both axes."""
        sides = [length for length in model.quotient.merged_shape if length > 1]
        one_body = bool(((model.positions > 0).sum(axis=1) == 1).all())
        return len(sides) == 2 and one_body and model.n_params == sum(sides) - 2

    @cached_property
    def weights(self) -> FloatArray:
        """The matrix W: modes of the merged grid that have one level are left out."""
        return self.model.weights.reshape([n for n in self.model.quotient.merged_shape if n > 1])

    @cached_property
    def lines(self) -> tuple[IntArray, IntArray]:
        """Numbers of the parameters of the matrix's rows 1, 2, ... and of its columns 1, 2, ..., each in order.

        Row 0 and column 0 have none: theta adds up along an axis, and only differences of log factors matter.
        """
        first, second = (k for k, n in enumerate(self.model.quotient.merged_shape) if n > 1)
        order = np.lexsort((self.model.positions[:, second], self.model.positions[:, first]))
        columns = self.weights.shape[1] - 1  # their first coordinate is 0, so they are sorted before those of rows
        return order[columns:], order[:columns]

    @cached_property
    def _filled(self) -> tuple[BoolArray, BoolArray]:
        """Which rows and which columns have a cell with positive weight."""
        positive = self.weights > 0
        return np.asarray(positive.any(axis=1)), np.asarray(positive.any(axis=0))

    @cached_property
    def _floor(self) -> float:
        """The smallest sum ``W @ factor`` that is surely accurate, although some of its terms may have underflowed."""
        # Factors are at most 1. A product that underflows is below 1e-308, less than 1e-18 of a sum of at least 1e-290.
        # A factor that underflows loses at most 1e-308 W, which is even less of 1e-200 max W.
        return 1e-200 * max(float(self.weights.max()), 1e-90)

    def at(self, theta: FloatArray) -> Point:
        """Add up theta along both axes to log factors, and scale W by their exponentials."""
        f, g = self._log_factors(theta)
        return replace(self.scaled_by(f, g, self.log_product(f, 0)), theta=theta)

    def _log_factors(self, vector: FloatArray) -> tuple[FloatArray, ...]:
        """Add up a vector of parameters along both axes: log factors of rows and of columns, 0 for the first."""
        return tuple(np.concatenate([[0.0], np.cumsum(vector[line])]) for line in self.lines)

    def scaled_by(self, f: FloatArray, g: FloatArray, per_column: FloatArray) -> Point:
        """Return the point of W scaled by log factors f of its rows and g of its columns.

        `per_column` is ``log(exp(f) @ W)``, which a Sinkhorn cycle has computed already. The factors need not be 0 for
        the first row and column: psi makes up for it.
        """
        per_row = self.log_product(g, 1)
        log_rows, log_columns = f + per_row, g + per_column
        peak = float(log_rows.max())
        log_mass = peak + float(np.log(np.exp(log_rows - peak).sum()))
        rows, columns = np.exp(log_rows - log_mass), np.exp(log_columns - log_mass)
        theta, eta = np.empty(self.n_params), np.empty(self.n_params)
        for line, margin, factor in zip(self.lines, (rows, columns), (f, g), strict=True):
            eta[line] = np.cumsum(margin[::-1])[-2::-1]  # suffix sums of a margin, without the first, which is 1
            theta[line] = np.diff(factor)
        return Point(theta, eta, log_mass - float(f[0] + g[0]), Scaled(f, g, rows, columns, log_mass, per_row))

    def log_product(self, log_factor: FloatArray, axis: int) -> FloatArray:
        """Compute ``log(W @ exp(log_factor))`` for axis 1, ``log(exp(log_factor) @ W)`` for axis 0.

        It is one product with W unless a sum is so small that terms may have been lost to underflow; only then is it
        computed in the log domain, which takes an exponential for every cell. Rows without weight get -inf.
        """
        peak = float(log_factor[self._filled[axis]].max())
        factor = np.exp(np.minimum(log_factor - peak, 0.0))
        sums = self.weights @ factor if axis == 1 else factor @ self.weights
        filled = self._filled[1 - axis]
        if (sums[filled] < self._floor).any():
            return self._log_sum_exp(log_factor, axis)
        return np.log(sums, out=np.full_like(sums, -np.inf), where=filled) + peak

    def _log_sum_exp(self, log_factor: FloatArray, axis: int) -> FloatArray:
        """Compute `log_product` in the log domain: each row or column relative to its own largest term."""
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights) + (log_factor if axis == 1 else log_factor[:, None])
            peaks = np.maximum(logs.max(axis=axis, keepdims=True), -1e300)  # finite also for a row without weight
            sums: FloatArray = np.log(np.exp(logs - peaks).sum(axis=axis)) + peaks.squeeze(axis)
            return sums

    def probabilities(self, point: Point) -> FloatArray:
        """Compute Q on the merged grid: W times the factors of rows and columns, normalised."""
        scaled: Scaled = point.cache
        log_factors = (scaled.f - scaled.log_mass)[:, None] + scaled.g
        # no cell of the support has a factor as large as e^700; where W is 0 the factor may be any, but 0 * inf is NaN
        q: FloatArray = self.weights * np.exp(np.minimum(log_factors, 700.0))
        return q.reshape(self.model.quotient.merged_shape)

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        """Compute the Fisher matrix by a `ReferenceEngine`: scaling does not need it, so it may be slow."""
        grid = ReferenceEngine(self.model)
        grid.fill_fisher(grid.at(point.theta), g)

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)``, which is a term of the row plus one of the column: ranges add up."""
        pairs = zip(self._log_factors(vector), self._filled, strict=True)
        return float(sum(np.ptp(factors[filled]) for factors, filled in pairs))
