"""Q as a tensor on the device where X lives: only the merged grid crosses over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.sums.device_sums import rows_of, spread
from legendre.results.tensor import in_units, shown

if TYPE_CHECKING:
    from legendre.core.array_libraries import Home
    from legendre.core.types import BoolArray
    from legendre.data.device import Remote
    from legendre.results.decomposition import Decomposition


def tensor(fit: Decomposition, *, extend: bool) -> Any:
    """Q in X's units."""
    visible = None if extend else shown(fit)
    density, unit = in_units(fit)
    there = fit.home.bring(density)
    parts = [_rows(fit, fit.home, there, rows, visible, unit) for rows in rows_of(fit.shape)]
    return fit.home.xp.concat(parts, axis=0)


def rmse(fit: Decomposition, data: Remote) -> float:
    """Root mean square of X - Q in X's units, over every cell of X that is a number."""
    (density, unit), mask, home = in_units(fit), data.support.mask, data.home
    there = home.bring(density)
    square = sum(data.error_of_rows(rows, _rows(fit, home, there, rows, mask, unit)) for rows in rows_of(fit.shape))
    missing = 0 if data.missing is None else int(data.missing.sum())
    return float(np.sqrt(square / (np.prod(fit.shape) - missing))) * data.total


def _rows(fit: Decomposition, home: Home, density: Any, rows: slice, visible: BoolArray | None, unit: float) -> Any:
    """Q on some rows of the grid, 0 where `visible` is False; with a base measure times the unit."""
    q = spread(home, density, fit.model.quotient, rows)
    if fit.model.base is not None:
        q = q * home.bring(fit.model.base[rows]) * unit
    if visible is not None:
        q = home.xp.where(home.bring(visible[rows]), q, home.xp.zeros_like(q))
    return q
