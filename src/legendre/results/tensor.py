"""Q as a tensor, and how far it is from X."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidBasis
from legendre.core.memory import rows_of
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dask import per_block
from legendre.data.dask.observation import Blocks
from legendre.data.dense import in_memory
from legendre.data.observation import Entries, Observation
from legendre.results.on_grid import OnGrid, check_formed

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

LEVEL = 1e-6
"""A direction of recession that comes from a linear program changes a cell by about 1, or by rounding error."""
WAY_OUT = "Ask for log_prob, marginal, sample or most_probable."


def merged_density(fit: Decomposition) -> FloatArray:
    """``q_v / r_v`` on every merged cell, in Omega or not; 0, or NaN if there is no limit, where theta diverges."""
    space = fit.model.on_full_grid().space
    with np.errstate(over="ignore"):
        density = np.exp(space.below(fit.point.theta) - fit.point.psi)
    if fit.alive is None:
        return density
    fall = space.below(fit.recession)
    fall -= fall[fit.alive].max()
    fall[fit.alive] = 0.0
    return np.where(fall < -LEVEL, 0.0, np.where(fall > LEVEL, np.nan, density))


def tensor(fit: Decomposition, *, extend: bool) -> FloatArray:
    """Q in X's units."""
    check_formed(fit.shape, "tensor", WAY_OUT)
    out = np.zeros(fit.shape)
    if fit.model.support.points is not None and not extend:
        out[tuple(fit.model.support.points.T)] = np.exp(fit.distribution.log_prob(fit.model.support.points)) * fit.total
        return out
    visible = None if extend else shown(fit)
    (density, unit), grid = in_units(fit), _on_grid(fit)
    for rows in rows_of(fit.shape):
        out[rows] = grid.rows(density, rows, visible, unit)
    return out


def _on_grid(fit: Decomposition) -> OnGrid:
    return OnGrid(fit.model, fit.theta, fit.psi, fit.alive)


def in_units(fit: Decomposition) -> tuple[FloatArray, float]:
    """Return the density and the unit that makes it X's; without a base measure the density has it already.

    With one, X's unit over that of the base may leave the range of float64.
    """
    density = merged_density(fit)
    return (density * fit.total, 1.0) if fit.model.base is None else (density, fit.total)


def shown(fit: Decomposition) -> BoolArray | None:
    """Mark the cells that are not 0 for being outside the support; ``None`` when all are."""
    mask = fit.model.support.mask
    return mask if mask is None or fit.missing is None else mask | fit.missing


def checked_cells(cells: AnyArray, shape: tuple[int, ...]) -> IntArray:
    """Read cells (k x N, or one cell) that a caller asks about."""
    index = np.atleast_2d(np.asarray(cells))
    if index.dtype.kind not in "iu" or index.ndim != 2 or index.shape[1] != len(shape):
        raise InvalidBasis(f"cells must be integers, k x {len(shape)}; got shape {index.shape}, dtype {index.dtype}.")
    outside = np.flatnonzero(((index < 0) | (index >= shape)).any(axis=1))
    if len(outside):
        raise InvalidBasis(f"cell {cell_name(index[outside[0]])} is outside the grid {shape}. Indices start at 0.")
    return index.astype(np.int64)


def theta_tensor(fit: Decomposition) -> FloatArray:
    """Build the paper's T: theta on B, -psi at the bottom, 0 elsewhere."""
    check_formed(fit.shape, "theta_tensor", "Its entries are theta, at the cells of basis.")
    out = np.zeros(fit.shape)
    out[tuple(fit.basis.T)] = fit.theta
    out[(0,) * out.ndim] = -fit.psi
    return out


def eta_tensor(fit: Decomposition) -> FloatArray:
    """Eta of every cell of the grid: the probability that Q gives to all that lies above it."""
    check_formed(fit.shape, "eta_tensor", "On the basis its entries are eta.")
    if fit.model.support.points is not None:
        return zeta_adjoint(tensor(fit, extend=False) / fit.total)
    density, mask, grid = merged_density(fit), fit.model.support.mask, _on_grid(fit)
    q = np.concatenate([grid.rows(density, rows, mask) for rows in rows_of(fit.shape)])
    return zeta_adjoint(q)


def rmse_from(fit: Decomposition, data: Observation) -> float:
    """Root mean square of X - Q in X's units, over every cell of X that is a number."""
    if data.entries is not None:
        return _rmse_from_entries(fit, data, data.entries)
    if isinstance(data, Blocks):
        law = per_block.FittedModel(fit.basis, fit.theta, fit.psi, data.total, fit.model.quotient, fit.alive)
        return float(np.sqrt(data.distance(law) / math.prod(fit.shape))) * data.total
    dense = in_memory(data, "rmse")
    (density, unit), mask, grid = in_units(fit), dense.support.mask, _on_grid(fit)
    square, count = 0.0, 0
    for rows in rows_of(dense.shape):
        # relative to the total, so that no square overflows or vanishes
        difference = (dense.values[rows] - grid.rows(density, rows, mask, unit)) / dense.total
        if dense.missing is not None:
            difference = difference[~dense.missing[rows]]
        square += float(np.vdot(difference, difference))
        count += difference.size
    return float(np.sqrt(square / count)) * dense.total


def _rmse_from_entries(fit: Decomposition, data: Observation, entries: Entries) -> float:
    """Sum ``(p - q)^2`` over the entries, and over all other cells, where p is a pseudo-count's share or 0."""
    n_cells, total = math.prod(data.shape), data.total
    each = math.exp(math.log(entries.even / total) - math.log(n_cells)) if entries.even else 0.0
    p, q = entries.values / total + each, np.exp(fit.distribution.log_prob(entries.cells))
    square = float(np.vdot(p - q, p - q))
    if data.support.full:
        # the squares of what is left add up to no more than its square: a bound where the difference cancels
        left = max(1.0 - float(q.sum()), 0.0)
        square += min(max(fit.distribution.sum_of_squares() - float(np.vdot(q, q)), 0.0), left**2)
        square += each * (entries.even / total - 2.0 * (1.0 - float(q.sum())) - each * len(q))
    return math.exp(0.5 * (math.log(square) - math.log(n_cells))) * total if square > 0 else 0.0
