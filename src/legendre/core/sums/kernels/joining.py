"""How much neighbouring slices of a grid differ, for every mode, compiled."""

from __future__ import annotations

import math

import numpy as np

from legendre.core.compiled import U, compiled, inner
from legendre.core.types import FloatArray


@inner
def _squares(grid, low, high, n, one, other):
    """Sum the squares of differences of two stretches, each times its weight, in parts that need not wait."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    i, j, whole = U(low), U(high), U(n) // U(4)
    for _ in range(whole):
        s, t = grid[j] * other - grid[i] * one, grid[j + U(1)] * other - grid[i + U(1)] * one
        u, v = grid[j + U(2)] * other - grid[i + U(2)] * one, grid[j + U(3)] * other - grid[i + U(3)] * one
        a += s * s
        b += t * t
        c += u * u
        d += v * v
        i += U(4)
        j += U(4)
    for _ in range(whole * U(4), U(n)):
        s = grid[j] * other - grid[i] * one
        a += s * s
        i += U(1)
        j += U(1)
    return (a + b) + (c + d)


@compiled
def _add_steps(grid, before, n, after, weights, out):
    """Add to out what each slice of a (before, n, after) grid differs from the next."""
    for b in range(before):
        row = b * n * after
        if after == 1:
            for i in range(n - 1):
                step = grid[U(row + i + 1)] * weights[i + 1] - grid[U(row + i)] * weights[i]
                out[i] += step * step
        else:
            for i in range(n - 1):
                low = row + i * after
                out[i] += _squares(grid, low, low + after, after, weights[i], weights[i + 1])


def steps_between_slices(grid: FloatArray, axis: int, weights: FloatArray) -> FloatArray:
    """Sum ``(weights[i + 1] grid[i + 1] - weights[i] grid[i])^2`` over the slices i and i + 1 along one axis.

    >>> steps_between_slices(np.array([[1.0, 2.0], [5.0, 5.0]]), 0, np.array([1.0, 1.0])).tolist()
    [25.0]
    """
    shape, out = grid.shape, np.zeros(len(weights) - 1)
    _add_steps(grid.ravel(), math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]), weights, out)
    return out
