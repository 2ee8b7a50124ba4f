"""Features that are 1 on a box, ``lo <= v < hi``: from the box to cells and signs, and back."""

from __future__ import annotations

import numpy as np

from legendre.core.tied_parameters import Terms
from legendre.core.types import FloatArray, IntArray


def box_corners(lo: IntArray, hi: IntArray, shape: IntArray) -> tuple[IntArray, FloatArray]:
    """List the cells of the grid at the corners of a box, and their signs: those of its Möbius inversion.

    >>> [part.tolist() for part in box_corners(np.array([1, 0]), np.array([3, 2]), np.array([3, 5]))]
    [[[1, 0], [1, 2]], [1.0, -1.0]]
    """
    cells, signs = np.asarray(lo, dtype=np.int64)[None, :], np.ones(1)
    for d in np.flatnonzero(hi < shape).tolist():
        far = cells.copy()
        far[:, d] = hi[d]
        cells, signs = np.concatenate([cells, far]), np.concatenate([signs, -signs])
    return cells, signs


def boxes_of(terms: Terms, shape: tuple[int, ...]) -> tuple[IntArray, IntArray, IntArray]:
    """Find the parameters whose feature is 1 on a box: their places, and both corners, k x N.

    The bottom cell, which no parameter has, may be a corner: a feature is told up to its value there.
    """
    ties, sides = terms.tied(), np.array(shape)
    places, lows, highs = [], [], []
    for j, (start, end) in enumerate(zip(ties.starts[:-1].tolist(), ties.starts[1:].tolist(), strict=True)):
        cells, values = terms.cells[ties.rows[start:end]], ties.values[start:end]
        if not len(cells):
            continue
        first = (cells == cells.min(axis=0)).all(axis=1) & (values == 1.0)
        lo = cells.min(axis=0) if first.any() else np.zeros(len(shape), dtype=np.int64)
        hi = np.where(cells.max(axis=0) > lo, cells.max(axis=0), sides)
        corners, signs = box_corners(lo, hi, sides)
        kept = corners.any(axis=1)
        if _entries(cells, values) == _entries(corners[kept], signs[kept]):
            places.append(j)
            lows.append(lo)
            highs.append(hi)
    low, high = (np.array(ends, dtype=np.int64).reshape(-1, len(shape)) for ends in (lows, highs))
    return np.array(places, dtype=np.int64), low, high


def short_of_boxes(terms: Terms, shape: tuple[int, ...]) -> FloatArray:
    """Return by what eta of each parameter falls short of the probability of its box: 1 if that holds the bottom cell.

    A feature is 0 at the bottom cell; that of a box which holds it is therefore 0 inside and -1 outside.
    """
    out = np.zeros(terms.n_params)
    if terms.ties is not None:
        places, lo, _ = boxes_of(terms, shape)
        out[places[~lo.any(axis=1)]] = 1.0
    return out


def _entries(cells: IntArray, values: FloatArray) -> dict[tuple[int, ...], float]:
    return dict(zip(map(tuple, cells.tolist()), values.tolist(), strict=True))
