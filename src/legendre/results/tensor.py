"""Q as a tensor, in memory or on X's device, in the forms in which X is compared with it."""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.array_libraries import Device
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidBasis
from legendre.core.memory import rows_of, size_name
from legendre.core.progress import waiting
from legendre.core.sums import device_sums
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.dask.per_block import FittedModel
from legendre.data.observation import Observation
from legendre.results.on_grid import box_values, check_formed, grid_rows, merged_log_density

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

WAY_OUT = "Ask for log_prob, marginal, sample or most_probable."


@dataclass(frozen=True, eq=False)
class FittedTensor:
    """Q in X's units, some rows at a time; `Observation.squared_error` compares X with it."""

    fit: Decomposition
    visible: BoolArray | None  # False for the cells of the grid that are set to 0; None where no cell is
    brought: dict[Device, Any] = field(default_factory=dict)  # what is copied to cells, on other devices

    @cached_property
    def _boxes(self) -> FloatArray:
        """What is copied to the cells of each merged box, see `box_values`."""
        return box_values(self.fit.model, merged_log_density(self.fit), self.fit.total)

    def rows(self, rows: slice) -> FloatArray:
        """Return Q on some rows of the grid."""
        return grid_rows(self.fit.model, self._boxes, rows, self.visible, self.fit.total)

    def rows_on(self, device: Device, rows: slice) -> Any:
        """Return the same as an array of another library, on its device; only the merged grid is transferred."""
        if device not in self.brought:
            self.brought[device] = device.bring(self._boxes)
        q = device_sums.spread(device, self.brought[device], self.fit.model.quotient, rows)
        if self.fit.model.base is not None:
            with np.errstate(divide="ignore", invalid="ignore"):  # outside Omega the base may be anything
                log_base = np.log(self.fit.model.base[rows])
            root = device.xp.exp(0.5 * (q + device.bring(log_base)))  # see `in_units`
            q = root * self.fit.total * root
        return (
            q if self.visible is None else device.xp.where(device.bring(self.visible[rows]), q, device.xp.zeros_like(q))
        )

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return log q of some cells (k x N)."""
        return self.fit.distribution.log_prob(cells)

    def sum_of_squares(self) -> float:
        """Return the sum of q^2 over all cells."""
        return self.fit.distribution.sum_of_squares()

    def on_blocks(self) -> FittedModel:
        """Return Q as a function of the rectangle of the grid that is wanted."""
        fit = self.fit
        alive = None if fit.alive is None else fit.model.space.on_grid(fit.alive)
        return FittedModel(
            fit.basis, fit.model.space.on_cells(fit.theta), fit.psi, fit.total, fit.model.quotient, alive
        )


def tensor(fit: Decomposition, *, extend: bool) -> FloatArray:
    """Q in X's units: everywhere, or 0 outside the support except for missing cells."""
    check_formed(fit.shape, "tensor", WAY_OUT, fit.model.quotient.n_merged)
    out, points = np.zeros(fit.shape), fit.model.support.points
    if points is not None and not extend:
        out[tuple(points.T)] = np.exp(fit.distribution.log_prob(points)) * fit.total
        return out
    q = _in_units(fit, extend)
    with _told("tensor", fit.shape):
        for rows in rows_of(fit.shape):
            out[rows] = q.rows(rows)
    return out


def tensor_on_device(fit: Decomposition, *, extend: bool) -> Any:
    """Compute the same on the device of X."""
    q = _in_units(fit, extend)
    device = fit.origin.device
    return device.xp.concat([q.rows_on(device, rows) for rows in device_sums.rows_of(fit.shape)], axis=0)


def _in_units(fit: Decomposition, extend: bool) -> FittedTensor:
    mask = None if extend else fit.model.support.mask
    return FittedTensor(fit, mask if mask is None or fit.missing is None else mask | fit.missing)


def rmse(fit: Decomposition, data: Observation) -> float:
    """Root mean square of X - Q in X's units, over every cell of X that is a number."""
    square, n = data.squared_error(FittedTensor(fit, fit.model.support.mask)), data.n_numbers
    if n < sys.float_info.max:
        return math.sqrt(square / n) * data.unit
    return math.exp(0.5 * (math.log(square) - math.log(n))) * data.unit if square > 0 else 0.0


def checked_cells(cells: AnyArray, shape: tuple[int, ...]) -> IntArray:
    """Read a caller's cells (k x N, or one cell)."""
    index = np.atleast_2d(np.asarray(cells))
    if index.dtype.kind not in "iu" or index.ndim != 2 or index.shape[1] != len(shape):
        hint = " They are indices, counted from 0." if index.dtype.kind in "OUSM" else ""
        got = f"got shape {index.shape}, dtype {index.dtype}"
        raise InvalidBasis(f"cells must be integers, k x {len(shape)}; {got}.{hint}")
    outside = np.flatnonzero(((index < 0) | (index >= shape)).any(axis=1))
    if len(outside):
        raise InvalidBasis(f"cell {cell_name(index[outside[0]])} is outside the grid {shape}. Indices start at 0.")
    return index.astype(np.int64)


def theta_tensor(fit: Decomposition) -> FloatArray:
    """Build the paper's T: theta on B, -psi at the bottom, 0 elsewhere."""
    check_formed(fit.shape, "theta_tensor", "Its entries are theta, at the cells of basis.")
    out = np.zeros(fit.shape)
    out[tuple(fit.basis.T)] = fit.model.space.on_cells(fit.theta)
    out[(0,) * out.ndim] = -fit.psi
    return out


def eta_tensor(fit: Decomposition) -> FloatArray:
    """Eta of every cell of the grid: the probability that Q gives to all that lies above it."""
    check_formed(fit.shape, "eta_tensor", "On the basis its entries are eta.", fit.model.quotient.n_merged)
    if fit.model.support.points is not None:
        return zeta_adjoint(tensor(fit, extend=False) / fit.total)
    with _told("eta_tensor", fit.shape):
        boxes, mask = box_values(fit.model, merged_log_density(fit)), fit.model.support.mask
        return zeta_adjoint(np.concatenate([grid_rows(fit.model, boxes, rows, mask) for rows in rows_of(fit.shape)]))


def _told(name: str, shape: tuple[int, ...]) -> AbstractContextManager[None]:
    """Show on a terminal what is being formed, and how long it has taken; most of it passes before the first row."""
    n_cells = math.prod(shape)
    return waiting(f"{name}: {size_name(n_cells)} cells", n_cells)
