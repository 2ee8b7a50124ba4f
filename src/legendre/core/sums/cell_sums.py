"""Sums over the grid's partial order between two lists of cells, where a grid would be too large to form.

``sums_below`` is the zeta transform (eq. 2) read at some cells, ``sums_above`` its adjoint (eq. 3) read at the basis.
"""

from __future__ import annotations

import math

import numpy as np

from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray

FEW_PAIRS = 20_000_000  # pairs of a cell and a basis cell up to which lists are compared without compiled code


def sums_below(shape: tuple[int, ...], cells: IntArray, basis: IntArray, values: FloatArray) -> FloatArray:
    """Sum, for each of the cells (m x N), the values of the basis cells (k x N) at or below it."""
    if _sweeps(shape, cells, basis):
        from legendre.core.sums.kernels.cell_sums import sweep

        return sweep(shape, basis, values, cells, down=False)
    if len(cells) < len(basis):  # one turn for each cell of the shorter list
        return np.array([float(values[(basis <= v).all(axis=1)].sum()) for v in cells])
    out = np.zeros(len(cells))
    for u, value in zip(basis, values, strict=True):
        out[above(cells, u)] += value
    return out


def sums_above(shape: tuple[int, ...], cells: IntArray, basis: IntArray, masses: FloatArray) -> FloatArray:
    """Sum, for each of the basis cells (k x N), the masses of the cells (m x N) at or above it."""
    if _sweeps(shape, cells, basis):
        from legendre.core.sums.kernels.cell_sums import sweep

        return sweep(shape, cells, masses, basis, down=True)
    if len(cells) < len(basis):
        out = np.zeros(len(basis))
        for v, mass in zip(cells, masses, strict=True):
            out[(basis <= v).all(axis=1)] += mass
        return out
    return np.array([float(masses[above(cells, u)].sum()) for u in basis])


def suffix_sums(x: AnyArray, cells: IntArray, few: int = 4) -> FloatArray:
    """Sum a grid at or above each of some of its cells (k x N), in the memory of one slab of it.

    Slabs of the first mode are added up from the last to the first. Of a sum of slabs, rectangles above `few` cells for
    each mode are summed one by one; for more all suffix sums are formed.
    """
    if x.flags.f_contiguous:
        x, cells = x.T, cells[:, ::-1]
    if x.ndim == 1:
        x, cells = x[:, None], np.column_stack([cells, np.zeros(len(cells), dtype=np.int64)])
    out, order = np.empty(len(cells)), np.argsort(-cells[:, 0], kind="stable")
    starts, first = np.unique(-cells[order, 0], return_index=True)
    slab, stop = np.zeros(x.shape[1:]), len(x)
    for start, own in zip(-starts, np.split(order, first[1:]), strict=True):
        slab += x[start] if stop == start + 1 else x[start:stop].sum(axis=0, dtype=np.float64)
        stop = start
        places = cells[own, 1:]
        if len(own) > few * slab.ndim:
            out[own] = zeta_adjoint(slab)[tuple(places.T)]
        else:
            out[own] = [slab[tuple(slice(u, None) for u in place)].sum() for place in places.tolist()]
    return out


def second_moments(
    shape: tuple[int, ...],
    cells: IntArray,
    basis: IntArray,
    masses: FloatArray,
    out: FloatArray,
    together: int = 1 << 11,
) -> None:
    """Fill `out` (k x k) with the mass at or above both of any two basis cells, `name_levels` cells at a time."""
    if len(basis) > 1 and _sweeps(shape, cells, basis):
        from legendre.core.sums.kernels.cell_sums import sweep_joins

        sweep_joins(shape, cells, basis, masses, out)
        return
    out[:] = 0.0
    for start in range(0, len(cells), together):
        some = slice(start, start + together)
        block = zeta_rows(cells[some], basis) * np.sqrt(masses[some, None])
        out += block.T @ block


def zeta_rows(cells: IntArray, basis: IntArray) -> FloatArray:
    """Rows of zeta for the given cells: 1 where u <= v."""
    out = np.ones((len(cells), len(basis)))
    for k in range(cells.shape[1]):
        if basis[:, k].any():
            out *= basis[:, k] <= cells[:, k, None]
    return out


def _sweeps(shape: tuple[int, ...], cells: IntArray, basis: IntArray) -> bool:
    """Whether the compiled sweep is faster, and its tree fits."""
    # the tree of compiled sums is the grid of all modes but the longest, at most 2^26 cells
    return len(cells) * len(basis) > FEW_PAIRS and math.prod(shape) // max(shape) <= 1 << 26


def above(cells: IntArray, u: IntArray) -> BoolArray:
    """Mark the cells at or above u; only u's coordinates away from 0 say anything."""
    mark: BoolArray = np.ones(len(cells), dtype=np.bool_)
    for k in np.flatnonzero(u):
        mark &= cells[:, k] >= u[k]
    return mark
