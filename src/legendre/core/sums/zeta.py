"""The zeta transform of the grid's partial order, its adjoint and its inverse.

``zeta(u, v) = 1`` if ``u <= v`` in every coordinate, else 0 (eq. 2). On a grid each transform is one running sum
per mode: O(order * cells), however large the basis is, where the paper states O(|Omega| |B|).
"""

from __future__ import annotations

import numpy as np

from legendre.core import limits
from legendre.core.types import FloatArray


def zeta(grid: FloatArray) -> FloatArray:
    """Sum what stands at or below each cell: ``h[v] = sum(grid[u] for u <= v)``.

    Eq. (2): ``log q = zeta(theta) - psi``. The adjoint is `zeta_adjoint`, the inverse `moebius`.

    >>> zeta(np.array([[0.0, 1.0], [2.0, 3.0]])).tolist()
    [[0.0, 1.0], [2.0, 6.0]]
    """
    out = np.array(grid, dtype=np.float64)
    accumulate(out)
    return out


def zeta_adjoint(grid: FloatArray) -> FloatArray:
    """Sum what stands at or above each cell: ``eta[v] = sum(grid[u] for u >= v)``, eq. (3).

    >>> zeta_adjoint(np.array([[0.1, 0.2], [0.3, 0.4]])).round(12).tolist()
    [[1.0, 0.6], [0.7, 0.4]]
    """
    out = np.array(grid, dtype=np.float64)
    accumulate(np.flip(out))
    return out


def accumulate(out: FloatArray, first: int = 0) -> None:
    """Replace a grid by its running sums along every mode, in place; the axes before `first` number grids."""
    for axis, length in enumerate(out.shape):
        if axis < first:
            continue
        if out.size >= limits.WIDE_SLICE * length or (axis == 0 and out.size >= limits.WIDE_SLICE * length // 2):
            # NumPy's accumulate goes cell by cell; adding whole slices is several times faster where they are wide
            line = np.moveaxis(out, axis, 0)
            for i in range(1, length):
                np.add(line[i], line[i - 1], out=line[i])
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
