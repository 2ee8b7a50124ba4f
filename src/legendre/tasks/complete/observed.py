"""What was observed, and what must be known where nothing was."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import host
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidSupport
from legendre.core.types import BoolArray
from legendre.data.dense import Dense


def observed_cells(data: Dense, support: str | ArrayLike) -> BoolArray:
    """Mark what was observed: cells of base measure 0 may be, although they are not in the support."""
    number = np.ones(data.shape, dtype=np.bool_) if data.missing is None else ~data.missing
    if isinstance(support, str):
        return number if support == "all" else number & (data.values > 0)
    mask: BoolArray = number & np.asarray(host(support))
    return mask


def check_base(data: Dense, seen: BoolArray) -> None:
    """Refuse a base measure that is no measure at a cell that is to be filled in."""
    if data.base is None:
        return
    bad = np.argwhere(~seen & ~(np.isfinite(data.base) & (data.base >= 0)))
    if len(bad):
        place = tuple(bad[0])
        raise InvalidSupport(
            f"base{cell_name(place)} = {data.base[place]:g} at a missing cell; to fill it in, it must be finite and "
            ">= 0 there."
        )
