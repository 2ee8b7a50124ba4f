"""The matrix engine: one-body bases on a matrix of weights, ``Q = D_u W D_v``, by products with W alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class Scaled:
    """Q in factors: ``log q = log W + f + g - log_mass``."""

    f: FloatArray  # log factors of the rows
    g: FloatArray  # and of the columns
    rows: FloatArray  # the margins of Q
    columns: FloatArray
    log_mass: float
    per_row: FloatArray  # log W exp(g), which the next cycle begins with


@dataclass(frozen=True, eq=False)
class MatrixEngine(Engine):
    """A matrix of weights, with a factor for each row and each column."""

    model: Model  # one for which `applies` is true

    @staticmethod
    def applies(model: Model) -> bool:
        """Decide whether two modes of the merged grid have more than one level and B is all cells of both axes."""
        sides = [length for length in model.quotient.merged_shape if length > 1]
        one_body = bool(((model.positions > 0).sum(axis=1) == 1).all())
        return len(sides) == 2 and one_body and model.n_params == sum(sides) - 2

    @cached_property
    def weights(self) -> FloatArray:
        """The matrix W: modes of the merged grid that have one level are left out."""
        return self.model.weights.reshape([n for n in self.model.quotient.merged_shape if n > 1])

    @cached_property
    def lines(self) -> tuple[IntArray, IntArray]:
        """The parameters of the matrix's rows 1, 2, ... and of its columns 1, 2, ..."""
        first, second = (k for k, n in enumerate(self.model.quotient.merged_shape) if n > 1)
        order = np.lexsort((self.model.positions[:, second], self.model.positions[:, first]))
        columns = self.weights.shape[1] - 1  # their first coordinate is 0
        return order[columns:], order[:columns]

    @cached_property
    def _seen(self) -> tuple[BoolArray, BoolArray]:
        """Which rows and which columns hold a cell."""
        positive = self.weights > 0
        return np.asarray(positive.any(axis=1)), np.asarray(positive.any(axis=0))

    @cached_property
    def _floor(self) -> float:
        """The least sum that has surely lost nothing to underflow, of a factor or of its product with W."""
        # factors are at most 1; lost terms are below 1e-308, so less than 1e-18 of a sum of at least 1e-290
        return 1e-200 * max(float(self.weights.max()), 1e-90)

    def at(self, theta: FloatArray) -> Point:
        """Add up theta along both axes and multiply W by the exponentials."""
        f, g = self._log_factors(theta)
        return replace(self.scaled_by(f, g, self.log_product(f, 0)), theta=theta)

    def _log_factors(self, vector: FloatArray) -> tuple[FloatArray, ...]:
        """Add up a vector of parameters along both axes: the log factors of rows and columns, up to a constant."""
        return tuple(np.concatenate([[0.0], np.cumsum(vector[line])]) for line in self.lines)

    def scaled_by(self, f: FloatArray, g: FloatArray, per_column: FloatArray) -> Point:
        """Evaluate W with log factors of its rows and columns; `per_column` is the product of W with those of rows."""
        per_row = self.log_product(g, 1)
        log_rows, log_columns = f + per_row, g + per_column
        peak = float(log_rows.max())
        log_mass = peak + float(np.log(np.exp(log_rows - peak).sum()))
        rows, columns = np.exp(log_rows - log_mass), np.exp(log_columns - log_mass)
        theta, eta = np.empty(self.n_params), np.empty(self.n_params)
        for line, margin, factor in zip(self.lines, (rows, columns), (f, g), strict=True):
            eta[line] = np.cumsum(margin[::-1])[-2::-1]
            theta[line] = np.diff(factor)
        return Point(theta, eta, log_mass - float(f[0] + g[0]), Scaled(f, g, rows, columns, log_mass, per_row))

    def log_product(self, log_factor: FloatArray, axis: int) -> FloatArray:
        """Compute ``log sum of W exp(log_factor)`` along an axis; in the log domain only where it might underflow."""
        peak = float(log_factor[self._seen[axis]].max())
        factor = np.exp(np.minimum(log_factor - peak, 0.0))
        sums = self.weights @ factor if axis == 1 else factor @ self.weights
        seen = self._seen[1 - axis]
        if (sums[seen] < self._floor).any():
            return self._log_product(log_factor, axis)
        return np.log(sums, out=np.full_like(sums, -np.inf), where=seen) + peak

    def _log_product(self, log_factor: FloatArray, axis: int) -> FloatArray:
        """Compute the same where sums leave the range of floating point: each row by its own largest term."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.weights) + (log_factor if axis == 1 else log_factor[:, None])
            peaks = logs.max(axis=axis, keepdims=True)
            sums: FloatArray = np.log(np.exp(logs - peaks).sum(axis=axis)) + peaks.squeeze(axis)
        return np.where(np.isnan(sums), -np.inf, sums)

    def probabilities(self, point: Point) -> FloatArray:
        """Multiply W by the factors of rows and columns."""
        at: Scaled = point.cache
        # no cell of the support has a factor as large as e^700; where W is 0 it may have any
        q: FloatArray = self.weights * np.exp(np.minimum((at.f - at.log_mass)[:, None] + at.g, 700.0))
        return q.reshape(self.model.quotient.merged_shape)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Compute the Fisher matrix as on any grid: matrix scaling itself does not form it."""
        grid = ReferenceEngine(self.model)
        return grid.fisher(grid.at(point.theta), out)

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)``: the ranges of rows and columns add up."""
        pairs = zip(self._log_factors(vector), self._seen, strict=True)
        return float(sum(np.ptp(factors[seen]) for factors, seen in pairs))
