"""Sums over the grid's partial order between two lists of cells, where a grid would be too large to form.

``u <= v``, "u is below v", means that it holds in every coordinate. ``sums_below`` is the zeta transform (eq. 2) at
some cells, ``sums_above`` its adjoint (eq. 3) at the cells of the basis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, FloatArray, IntArray, Shape

FEW_PAIRS = 20_000_000  # pairs of a cell and a basis cell up to which lists are compared without compiled code


def sums_below(shape: Shape, cells: IntArray, basis: IntArray, values: FloatArray) -> FloatArray:
    """Sum, for each cell (m x N), the values of the basis cells (k x N) at or below it: of theta, log q + psi."""
    if _sweeps(shape, cells, basis):
        from legendre.core.sums.kernels.cell_sums import sweep

        return sweep(shape, basis, values, cells, down=False)
    out = np.empty(len(cells))
    for some, rows in _in_blocks(cells, basis):
        out[some] = rows @ values
    return out


def sums_above(shape: Shape, cells: IntArray, basis: IntArray, masses: FloatArray) -> FloatArray:
    """Sum, for each basis cell (k x N), the masses of the cells (m x N) at or above it: of probabilities, eta."""
    if _sweeps(shape, cells, basis):
        from legendre.core.sums.kernels.cell_sums import sweep

        return sweep(shape, cells, masses, basis, down=True)
    out = np.zeros(len(basis))
    for some, rows in _in_blocks(cells, basis):
        out += masses[some] @ rows
    return out


def suffix_sums(x: AnyArray, cells: IntArray, few: int = 4) -> FloatArray:
    """Sum a grid at or above each of some of its cells (k x N) with the memory of one slab, a slice of the first mode.

    Slabs are added up from the last one down to the first coordinate of each cell. The sum of these slabs is then
    summed over the other coordinates at or above the cell. If more than `few` cells for each mode of a slab have the
    same first coordinate, all suffix sums of the slab are cheaper than a sum for each cell.
    """
    if x.flags.f_contiguous:  # slabs of the last mode are contiguous then: transpose, and it is the first
        x, cells = x.T, cells[:, ::-1]
    out, order = np.empty(len(cells)), np.argsort(-cells[:, 0], kind="stable")
    # first coordinates, the largest first (hence the signs), and where the cells that have each begin in `order`
    starts, first = np.unique(-cells[order, 0], return_index=True)
    slab, stop = np.zeros(x.shape[1:]), len(x)  # the sum of the slabs from `stop` on
    for start, members in zip(-starts, np.split(order, first[1:]), strict=True):
        slab += x[start] if stop == start + 1 else x[start:stop].sum(axis=0, dtype=np.float64)
        stop = start
        rests = cells[members, 1:]  # the other coordinates of the cells that begin at this slab
        if len(members) > few * slab.ndim:
            out[members] = zeta_adjoint(slab)[tuple(rests.T)]
        else:
            out[members] = [slab[tuple(slice(u, None) for u in rest)].sum() for rest in rests.tolist()]
    return out


def second_moments(shape: Shape, cells: IntArray, basis: IntArray, masses: FloatArray, out: FloatArray) -> None:
    """Fill `out` (k x k) with the mass of the cells (m x N) that are at or above both of any two basis cells (k x N).

    These are the expectations of products of two features, from which the Fisher matrix is made. A product of features
    is the feature of the join, so they are also sums above joins, which compiled code computes for long lists. In
    NumPy they are the matrix product Z' diag(masses) Z, where Z has the rows of zeta of all cells.
    """
    if len(basis) > 1 and _sweeps(shape, cells, basis):
        from legendre.core.sums.kernels.cell_sums import sweep_joins

        sweep_joins(shape, cells, basis, masses, out)
        return
    out[:] = 0.0
    for some, rows in _in_blocks(cells, basis):
        rows *= np.sqrt(masses[some, None])  # the product below is symmetric then
        out += rows.T @ rows


def _in_blocks(cells: IntArray, basis: IntArray, together: int = 1 << 11) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the rows of zeta of `together` cells at a time, and which cells these are: all might not fit in memory."""
    for start in range(0, len(cells), together):
        some = slice(start, start + together)
        yield some, zeta_rows(cells[some], basis)


def zeta_rows(cells: IntArray, basis: IntArray) -> FloatArray:
    """Compute the rows of zeta (m x k) of some cells v (m x N): 1 where a basis cell u (k x N) is at or below v."""
    out = np.ones((len(cells), len(basis)))
    for k in range(cells.shape[1]):
        if basis[:, k].any():  # else every cell is at or above in this mode
            out *= basis[:, k] <= cells[:, k, None]
    return out


def _sweeps(shape: Shape, cells: IntArray, basis: IntArray) -> bool:
    """Decide whether to sweep in compiled code: where it is faster, and its tree takes at most 2^26 numbers (512 MiB).

    It takes less than quadratic time, so it is faster for long lists. Short ones are compared pair by pair in NumPy,
    because the first sweep of a process loads the compiler. The tree (a Fenwick tree, see `kernels/cell_sums.py`) has a
    number for each cell of the grid of all modes but the longest.
    """
    return len(cells) * len(basis) > FEW_PAIRS and math.prod(shape) // max(shape) <= 1 << 26
