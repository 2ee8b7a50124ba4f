"""Correlations of the features of cells: eta is read at joins, eq. (5), so that no sum is taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from legendre.core import limits
from legendre.core.types import AnyArray, FloatArray, IntArray

TOGETHER = 1 << 15  # places of joins that are computed at a time, so that they stay in cache
NEAREST, NEAR_DAMPING = 6, 1e-6
"""By how many of its nearest features a feature is judged (faces, 800 cells: KL 0.02725 with 1, 0.02683 with 4, 0.02661
with 6 to 8); what is added to the diagonal of their correlations, so that near-duplicates among them do no harm."""
LEAST_VARIANCE = 1e-13  # a feature whose variance is at most this is a constant, and correlated with nothing


@dataclass(frozen=True, eq=False)
class Features:
    """The features of some cells under a distribution: where the cells are, means, and one over standard deviations."""

    offsets: NDArray[np.int32]  # (modes, cells): coordinates times strides, so that a join's place is a sum of maxima
    mean: FloatArray
    scale: FloatArray  # 0 for a feature that is constant

    @classmethod
    def of(cls, eta: FloatArray, places: IntArray, shape: tuple[int, ...]) -> Features:
        """Read means from eta, the sums of the distribution above every cell of the grid, flattened."""
        offsets = np.empty((len(shape), len(places)), dtype=np.int32)
        left, stride = places, 1
        for mode in range(len(shape) - 1, -1, -1):
            left, coordinate = np.divmod(left, shape[mode])
            offsets[mode] = coordinate * stride
            stride *= shape[mode]
        mean = eta[places]
        return cls(offsets, mean, inverse_deviation(mean))

    def joined(self, more: Features, which: IntArray) -> Features:
        """Append some of further features."""
        offsets = np.concatenate([self.offsets, more.offsets[:, which]], axis=1)
        mean, scale = np.append(self.mean, more.mean[which]), np.append(self.scale, more.scale[which])
        return Features(np.ascontiguousarray(offsets), mean, scale)


def inverse_deviation(mean: FloatArray) -> FloatArray:
    """Return one over the standard deviation of a feature that is 1 with probability `mean`, else 0; 0 if constant.

    >>> inverse_deviation(np.array([0.5, 0.0, 1.0])).tolist()
    [2.0, 0.0, 0.0]
    """
    variance = mean * (1.0 - mean)
    usable = variance > LEAST_VARIANCE
    return np.where(usable, 1.0 / np.sqrt(np.where(usable, variance, 1.0)), 0.0)


def correlations(
    eta: FloatArray,
    rows: Features,
    columns: Features,
    *,
    lower: bool = False,
    compiled: bool = False,
    dtype: DTypeLike = np.float64,
) -> AnyArray:
    """Correlate each feature of `rows` with each of `columns`; with `lower` those not above the diagonal are computed.

    By compiled code where there is much to do, or where the caller has it (`compiled`). `dtype` is that of what is
    returned; nothing is computed in less than float64.

    >>> eta = np.array([1.0, 0.5, 0.25])
    >>> features = Features.of(eta, np.array([1, 2]), (3,))
    >>> correlations(eta, features, features).round(4).tolist()
    [[1.0, 0.5774], [0.5774, 1.0]]
    """
    m, k = len(rows.mean), len(columns.mean)
    out = np.zeros((m, k), dtype) if lower else np.empty((m, k), dtype)
    if compiled or len(eta) > limits.NUMPY_CELLS or k > limits.NUMPY_JOINS:
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


def explained_by_nearest(
    eta: FloatArray, places: IntArray, shape: tuple[int, ...], columns: Features, *, compiled: bool = False
) -> FloatArray:
    """Return which share of the variance of each cell's feature is explained by the few of `columns` nearest to it.

    No feature explains itself. For `compiled` see `correlations`.

    >>> eta = np.array([1.0, 0.5, 0.25])
    >>> both = Features.of(eta, np.array([1, 2]), (3,))
    >>> explained_by_nearest(eta, np.array([1, 2]), (3,), both).round(4).tolist()  # the square of the only correlation
    [0.3333, 0.3333]
    """
    rows, m, k = Features.of(eta, places, shape), len(places), len(columns.mean)
    near = min(NEAREST, k)
    if not k:
        return np.zeros(m)
    if compiled or len(eta) > limits.NUMPY_CELLS or k > limits.NUMPY_JOINS:
        from legendre.core.sums.kernels.nearest import explained_share, find_nearest

        order = np.argsort(columns.mean, kind="stable")
        offsets, mean, scale = columns.offsets[:, order], columns.mean[order], columns.scale[order]
        tables = rows.offsets, rows.mean, rows.scale, np.ascontiguousarray(offsets), mean, scale
        counts, which, out = np.empty(m, dtype=np.int64), np.empty((m, near), dtype=np.int64), np.empty(m)
        find_nearest(eta, *tables, near, counts, which)
        explained_share(eta, *tables, counts, which, NEAR_DAMPING, out)
        return out
    own = correlations(eta, rows, columns)
    other = (rows.offsets[:, :, None] != columns.offsets[:, None, :]).any(axis=0)
    own *= other
    which = np.argpartition(-np.abs(own), near - 1, axis=1)[:, :near]
    some = np.take_along_axis(own, which, axis=1)
    offsets, mean, scale = columns.offsets[:, which], columns.mean[which], columns.scale[which]
    at = np.maximum(offsets[:, :, :, None], offsets[:, :, None, :]).sum(axis=0)
    between = eta[at] - mean[:, :, None] * mean[:, None, :]
    between *= scale[:, :, None] * scale[:, None, :]
    between *= np.take_along_axis(other, which, axis=1)[:, :, None]  # a feature itself is correlated with nothing
    between[:, range(near), range(near)] = 1.0 + NEAR_DAMPING
    return np.asarray((some * np.linalg.solve(between, some[:, :, None])[:, :, 0]).sum(axis=1))
