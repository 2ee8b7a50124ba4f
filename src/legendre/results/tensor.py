"""Q as a tensor, and how far it is from X."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidBasis, InvalidQuery
from legendre.core.memory import check_room, rows_of, size_name
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dask import per_block as pieces
from legendre.data.dask.observation import Blocks
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.data.sparse import Sparse
from legendre.engines.choose import engine_for
from legendre.results.on_cliques import Law

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

LEVEL = 1e-6
"""A direction of recession that comes from a linear program changes a cell by about 1, or by rounding error."""


def merged_density(fit: Decomposition) -> FloatArray:
    """``q_v / r_v`` on every merged cell, in Omega or not; 0, or NaN if there is no limit, where theta diverges."""
    with np.errstate(over="ignore"):
        density = np.exp(on_merged(fit, fit.theta) - fit.psi)
    if fit.alive is None:
        return density
    fall = on_merged(fit, fit.recession)
    fall -= fall[fit.alive].max()
    fall[fit.alive] = 0.0
    return np.where(fall < -LEVEL, 0.0, np.where(fall > LEVEL, np.nan, density))


def on_merged(fit: Decomposition, vector: FloatArray) -> FloatArray:
    """Sum a vector on B at or below each merged cell, as a grid."""
    return fit.model.on_full_grid().below(vector)


def probability(
    fit: Decomposition, density: FloatArray, rows: slice, shown: BoolArray | None, unit: float = 1.0
) -> FloatArray:
    """Q on some rows of the grid, 0 where `shown` is False; with a base measure times the unit, see `in_units`."""
    q: FloatArray = np.array(fit.model.quotient.spread(density, rows), dtype=np.float64)
    if fit.model.base is not None:
        q *= fit.model.base[rows]
        q *= unit
    if shown is not None:
        q[~shown[rows]] = 0.0
    return q


def check_formed(fit: Decomposition, name: str, way_out: str = "Ask for log_prob, marginal, sample or mode.") -> None:
    """Refuse to form what does not fit in memory, or has more modes than an array can."""
    n_cells = math.prod(fit.shape)
    if len(fit.shape) > limits.MOST_AXES:
        raise InvalidQuery(
            f"{name}: Q has {size_name(n_cells)} cells in {len(fit.shape)} modes, and is never formed. {way_out}"
        )
    check_room(n_cells, 8, f"{name}: an array", way_out)


def tensor(fit: Decomposition, *, extend: bool) -> FloatArray:
    """Q in X's units."""
    check_formed(fit, "tensor")
    if fit.model.support.points is not None and not extend:
        out = np.zeros(fit.shape)
        out[tuple(fit.model.support.points.T)] = np.exp(log_prob(fit, fit.model.support.points)) * fit.total
        return out
    visible = None if extend else shown(fit)
    density, unit = in_units(fit)
    out = np.empty(fit.shape)
    for rows in rows_of(fit.shape):
        out[rows] = probability(fit, density, rows, visible, unit)
    return out


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


def log_prob(fit: Decomposition, cells: AnyArray) -> FloatArray:
    """Log probability of given cells; ``-inf`` outside the support and where Q vanishes."""
    index = _checked(cells, fit.shape)
    if fit.model.by_cliques and fit.alive is None:
        return Law(fit.model, fit.theta).log_prob(index)
    boxes = fit.model.quotient.boxes(index)
    log_q = fit.model.below_at(fit.theta, boxes) - fit.psi
    if fit.model.base is not None:
        with np.errstate(divide="ignore"):
            log_q = log_q + np.log(fit.model.base[tuple(index.T)])
    inside = fit.model.support.contains(index)
    if fit.alive is not None:
        inside = inside & fit.model.carries(boxes, fit.alive)
    return np.where(inside, log_q, -np.inf)


def _checked(cells: AnyArray, shape: tuple[int, ...]) -> IntArray:
    index = np.atleast_2d(np.asarray(cells))
    if index.dtype.kind not in "iu" or index.ndim != 2 or index.shape[1] != len(shape):
        raise InvalidBasis(f"cells must be integers, k x {len(shape)}; got shape {index.shape}, dtype {index.dtype}.")
    outside = np.flatnonzero(((index < 0) | (index >= shape)).any(axis=1))
    if len(outside):
        raise InvalidBasis(f"cell {cell_name(index[outside[0]])} is outside the grid {shape}. Indices start at 0.")
    return index.astype(np.int64)


def theta_tensor(fit: Decomposition) -> FloatArray:
    """Build the paper's T: theta on B, -psi at the bottom, 0 elsewhere."""
    check_formed(fit, "theta_tensor", "Its entries are theta, at the cells of basis.")
    out = np.zeros(fit.shape)
    out[tuple(fit.basis.T)] = fit.theta
    out[(0,) * out.ndim] = -fit.psi
    return out


def eta_tensor(fit: Decomposition) -> FloatArray:
    """Eta of every cell of the grid: the probability that Q gives to all that lies above it."""
    check_formed(fit, "eta_tensor", "On the basis its entries are eta.")
    if fit.model.support.points is not None:
        return zeta_adjoint(tensor(fit, extend=False) / fit.total)
    density, mask = merged_density(fit), fit.model.support.mask
    q = np.concatenate([probability(fit, density, rows, mask) for rows in rows_of(fit.shape)])
    return zeta_adjoint(q)


def rmse_from(fit: Decomposition, data: Observation) -> float:
    """Root mean square of X - Q in X's units, over every cell of X that is a number."""
    if isinstance(data, Sparse):
        return _rmse_from_entries(fit, data)
    if isinstance(data, Blocks):
        law = pieces.FittedModel(fit.basis, fit.theta, fit.psi, data.total, fit.model.quotient, fit.alive)
        return float(np.sqrt(data.distance(law) / math.prod(fit.shape))) * data.total
    dense = in_memory(data, "rmse")
    (density, unit), mask = in_units(fit), dense.support.mask
    square, count = 0.0, 0
    for rows in rows_of(dense.shape):
        # relative to the total, so that no square overflows or vanishes
        difference = (dense.values[rows] - probability(fit, density, rows, mask, unit)) / dense.total
        if dense.missing is not None:
            difference = difference[~dense.missing[rows]]
        square += float(np.vdot(difference, difference))
        count += difference.size
    return float(np.sqrt(square / count)) * dense.total


def _rmse_from_entries(fit: Decomposition, data: Sparse) -> float:
    """Sum ``(p - q)^2`` over the entries, and over all other cells, where p is a pseudo-count's share or 0."""
    each, n_cells = data.each, math.prod(data.shape)
    p, q = data.values / data.total + each, np.exp(log_prob(fit, data.cells))
    square = float(np.vdot(p - q, p - q))
    if data.support.full:
        # the squares of what is left add up to no more than its square: a bound where the difference cancels
        left = max(1.0 - float(q.sum()), 0.0)
        square += min(max(_square(fit) - float(np.vdot(q, q)), 0.0), left**2)
        square += each * (data.even / data.total - 2.0 * (1.0 - float(q.sum())) - each * len(q))
    return math.exp(0.5 * (math.log(square) - math.log(n_cells))) * data.total if square > 0 else 0.0


def _square(fit: Decomposition) -> float:
    """Sum ``q^2`` over all cells of a full grid: ``exp(psi(2 theta) - 2 psi(theta))`` where no grid is formed."""
    if fit.alive is None and (fit.model.by_cliques or fit.model.n_merged > limits.LARGEST_GRID):
        return math.exp(engine_for(fit.model).at(2.0 * fit.theta).psi - 2.0 * fit.psi)
    return float(np.sum(fit.model.weights * merged_density(fit) ** 2))
