"""Correlations of the features of cells: eta is read at joins, eq. (5), so that no sum is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from legendre.core import limits
from legendre.core.types import FloatArray, IntArray

TOGETHER = 1 << 15  # places of joins that are computed at a time, so that they stay in cache
LEAST_VARIANCE = 1e-13  # a feature whose variance is at most this is a constant, and correlated with nothing


@dataclass(frozen=True, eq=False)
class Features:
    """The features of some cells under a distribution: where the cells are, means, and one over standard deviations."""

    offsets: NDArray[np.int32]  # (modes, cells): coordinates times strides, so that a join's place is a sum of maxima
    mean: FloatArray
    scale: FloatArray  # 0 for a feature that is constant

    @classmethod
    def of(cls, eta: FloatArray, places: IntArray, offsets: NDArray[np.int32]) -> Features:
        """Read means from eta, the sums of the distribution above every cell of the grid, flattened."""
        mean = eta[places]
        return cls(offsets, mean, inverse_deviation(mean))

    def joined(self, more: Features) -> Features:
        """Append the features of further cells."""
        offsets = np.ascontiguousarray(np.concatenate([self.offsets, more.offsets], axis=1))
        mean, scale = np.concatenate([self.mean, more.mean]), np.concatenate([self.scale, more.scale])
        return Features(offsets, mean, scale)

    def some(self, which: IntArray) -> Features:
        """Return the features of some of the cells."""
        return Features(np.ascontiguousarray(self.offsets[:, which]), self.mean[which], self.scale[which])


def inverse_deviation(mean: FloatArray) -> FloatArray:
    """Return one over the standard deviation of a feature that is 1 with probability `mean`, else 0; 0 if constant.

    >>> inverse_deviation(np.array([0.5, 0.0, 1.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    variance = mean * (1.0 - mean)
    usable = variance > LEAST_VARIANCE
    return np.where(usable, 1.0 / np.sqrt(np.where(usable, variance, 1.0)), 0.0)


def correlations(eta: FloatArray, rows: Features, columns: Features, *, lower: bool = False) -> FloatArray:
    """Correlate each feature of `rows` with each of `columns`; with `lower` those not above the diagonal are computed.

    >>> eta = np.array([1.0, 0.5, 0.25])
    >>> features = Features.of(eta, np.array([1, 2]), np.array([[1, 2]], dtype=np.int32))
    >>> correlations(eta, features, features).round(4).tolist()
    [[1.0, 0.5774], [0.5774, 1.0]]
    """
    m, k = len(rows.mean), len(columns.mean)
    out = np.zeros((m, k)) if lower else np.empty((m, k))
    if len(eta) > limits.NUMPY_CELLS or k > limits.NUMPY_JOINS:
        from legendre.core.sums.kernels.joins import fill_correlations

        tables = rows.offsets, rows.mean, rows.scale, columns.offsets, columns.mean, columns.scale
        fill_correlations(eta, *tables, out, lower)
        return out
    step = max(1, TOGETHER // max(k, 1))
    for first in range(0, m, step):
        some = slice(first, first + step)
        stop = min(first + step, k) if lower else k
        at = np.maximum(rows.offsets[0, some, None], columns.offsets[0, :stop])
        for own, others in zip(rows.offsets[1:], columns.offsets[1:], strict=True):
            at += np.maximum(own[some, None], others[:stop])
        part = eta.take(at)
        part -= rows.mean[some, None] * columns.mean[:stop]
        part *= rows.scale[some, None] * columns.scale[:stop]
        out[some, :stop] = part
    return out


def largest_squared(eta: FloatArray, rows: Features, columns: Features) -> FloatArray:
    """Return the largest squared correlation of each feature of `rows` with one of `columns`."""
    m, k = len(rows.mean), len(columns.mean)
    out, step = np.zeros(m), max(1, 4 * TOGETHER // max(k, 1))
    for first in range(0, m, step):
        some = np.arange(first, min(first + step, m))
        part = correlations(eta, rows.some(some), columns)
        np.square(part, out=part)
        out[some] = part.max(axis=1, initial=0.0)
    return out
