"""The zeta transform of the grid's partial order, its adjoint, and the inverses of both.

``zeta(u, v) = 1`` if ``u <= v`` in every coordinate, else 0 (eq. 2). On a grid each transform is one running sum
per mode: O(order * cells), however large the basis is, where the paper states O(|Omega| |B|).
"""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray


def zeta(grid: FloatArray) -> FloatArray:
    """Sum over the cells at or below each cell, ``h[v] = sum(grid[u] for u <= v)``: log q + psi of theta, eq. (2)."""
    out = np.array(grid, dtype=np.float64)
    accumulate(out)
    return out


def zeta_adjoint(grid: FloatArray) -> FloatArray:
    """Sum over the cells at or above each cell, ``eta[v] = sum(grid[u] for u >= v)``, eq. (3)."""
    out = np.array(grid, dtype=np.float64)
    accumulate(out[(slice(None, None, -1),) * out.ndim])  # np.flip does the same in ten times the time
    return out


def accumulate(out: FloatArray, first: int = 0) -> None:
    """Replace a grid by its running sums along every mode, in place: the zeta transform.

    Axes before `first` are not summed along: `out` is then a stack of grids.
    """
    for axis, length in enumerate(out.shape):
        if axis < first:
            continue
        # NumPy's accumulate goes cell by cell. Adding slice after slice is several times faster if slices are wide:
        # from 800 cells (measured), or from 150 along the first axis, where slices are contiguous
        if out.size >= (800 if axis else 150) * length:
            # A flipped array has negative strides. Within a slice the direction makes no difference to the sums, so
            # other axes than this one are flipped back: going upwards in memory is fastest
            steps = [-1 if stride < 0 and k != axis else 1 for k, stride in enumerate(out.strides)]
            slices = iter(out[tuple(slice(None, None, step) for step in steps)].swapaxes(0, axis))
            last = next(slices)
            for piece in slices:
                piece += last
                last = piece
        elif length > 1:
            np.add.accumulate(out, axis=axis, out=out)


def moebius(grid: FloatArray) -> FloatArray:
    """Invert `zeta` by one difference per mode: from log q back to theta on a full grid."""
    out = np.array(grid, dtype=np.float64)
    for axis in range(out.ndim):
        out = np.diff(out, axis=axis, prepend=0.0)
    return out


def moebius_adjoint(grid: FloatArray) -> FloatArray:
    """Invert `zeta_adjoint`: from eta back to probabilities on a full grid."""
    return np.flip(moebius(np.flip(grid)))
