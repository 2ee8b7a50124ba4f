"""The zeta transform of the grid's partial order, its adjoint and its inverse.

``zeta(u, v) = 1`` if ``u <= v`` in every coordinate, else 0 (eq. 2). On a grid each transform is one running sum
per mode: O(order * cells), however large the basis is, where the paper states O(|Omega| |B|).
"""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray


def zeta(grid: FloatArray) -> FloatArray:
    """Sum what stands at or below each cell, ``h[v] = sum(grid[u] for u <= v)``: log q + psi of theta, eq. (2)."""
    out = np.array(grid, dtype=np.float64)
    accumulate(out)
    return out


def zeta_adjoint(grid: FloatArray) -> FloatArray:
    """Sum what stands at or above each cell: ``eta[v] = sum(grid[u] for u >= v)``, eq. (3)."""
    out = np.array(grid, dtype=np.float64)
    accumulate(np.flip(out))
    return out


def accumulate(out: FloatArray, first: int = 0) -> None:
    """Replace a grid by its running sums along every mode, in place; the axes before `first` number grids."""
    for axis, length in enumerate(out.shape):
        if axis < first:
            continue
        # adding whole slices is faster than a running sum from this many cells a slice; less where they are contiguous
        if out.size >= (800 if axis else 150) * length:
            # NumPy's accumulate goes cell by cell; adding whole slices is several times faster where they are wide,
            # and fastest upwards in memory: within a slice the direction makes no difference
            ways = [-1 if stride < 0 and k != axis else 1 for k, stride in enumerate(out.strides)]
            slices = iter(out[tuple(slice(None, None, way) for way in ways)].swapaxes(0, axis))
            last = next(slices)
            for piece in slices:
                piece += last
                last = piece
        elif length > 1:
            np.add.accumulate(out, axis=axis, out=out)


def moebius(grid: FloatArray) -> FloatArray:
    """Invert `zeta` by one difference per mode."""
    out = np.array(grid, dtype=np.float64)
    for axis in range(out.ndim):
        out = np.diff(out, axis=axis, prepend=0.0)
    return out


def moebius_adjoint(grid: FloatArray) -> FloatArray:
    """Invert `zeta_adjoint`: from eta back to probabilities on a full grid."""
    return np.flip(moebius(np.flip(grid)))
