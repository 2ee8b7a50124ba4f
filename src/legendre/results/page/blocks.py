"""Blocks of neighbouring levels: how long modes are made short."""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray, IntArray


def blocks(length: int, most: int) -> IntArray:
    """Cut a mode into at most `most` blocks of about equal lengths; return the first level of each.

    >>> blocks(7, 3).tolist(), blocks(2, 3).tolist()
    ([0, 2, 4], [0, 1])
    """
    n = min(length, most)
    return np.asarray((np.arange(n) * length) // n, dtype=np.int64)


def block_sums(values: FloatArray, axis: int, starts: IntArray, cuts: IntArray, length: int) -> FloatArray:
    """Sum a function over the levels of each block, along one axis on which it is constant between `starts`.

    >>> block_sums(np.array([1.0, 10.0]), 0, np.array([0, 3]), np.array([0, 2, 4]), 6).tolist()
    [2.0, 11.0, 20.0]
    """
    every = np.union1d(starts, cuts)
    weights = np.diff(every, append=length).reshape((-1,) + (1,) * (values.ndim - 1 - axis))
    parts = values.take(np.searchsorted(starts, every, side="right") - 1, axis=axis) * weights
    return np.asarray(np.add.reduceat(parts, np.searchsorted(every, cuts), axis=axis))
