"""Running sums and boxes of a grid on any device, by functions of the array API standard alone.

The same as `zeta` and `Quotient` compute with NumPy; `xp` is the library's namespace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core import memory
from legendre.core.types import BoolArray, IntArray

if TYPE_CHECKING:
    from legendre.core.array_libraries import Device
    from legendre.core.sums.quotient import Quotient

BLOCK = 1 << 24  # cells handled at a time where a whole extra tensor would be a waste
TOGETHER = 64  # intervals summed by one product: few enough that it is memory that takes the time


def prefix_sums(xp: Any, grid: Any) -> Any:
    """Sum what stands at or below each cell, eq. (2)."""
    for axis, length in enumerate(grid.shape):
        if length > 1:
            grid = xp.cumulative_sum(grid, axis=axis)
    return grid


def suffix_sums(xp: Any, grid: Any) -> Any:
    """Sum what stands at or above each cell, eq. (3)."""
    return xp.flip(prefix_sums(xp, xp.flip(grid)))


def merged(device: Device, grid: Any, quotient: Quotient, mask: BoolArray | None = None) -> Any:
    """Sum a grid over each box, in float64 whatever its own type, some rows at a time; only where `mask` is True."""
    xp, parts = device.xp, []
    for rows in rows_of(quotient.shape):
        part = xp.astype(grid[rows, ...], xp.float64)
        if mask is not None:
            part = xp.where(device.bring(mask[rows]), part, xp.zeros_like(part))
        for axis in range(1, len(quotient.shape)):
            part = _interval_sums(device, part, quotient.cuts[axis], axis)
        parts.append(part)
    return _interval_sums(device, xp.concat(parts, axis=0), quotient.cuts[0], 0)


def _interval_sums(device: Device, grid: Any, cuts: IntArray, axis: int) -> Any:
    """Sum the intervals of one mode: a product with zeros and ones for every few of them.

    Differences of running sums would be fewer operations and lose digits; scattered additions would depend on the
    order in which threads finish.
    """
    length = grid.shape[axis]
    if len(cuts) == length:
        return grid
    xp, parts, ends = device.xp, [], np.append(cuts, length)
    for first in range(0, len(cuts), TOGETHER):
        some = cuts[first : first + TOGETHER]
        start, end = int(some[0]), int(ends[first + len(some)])
        members = np.searchsorted(some, np.arange(start, end), side="right")[:, None] == np.arange(1, len(some) + 1)
        lines = grid[(slice(None),) * axis + (slice(start, end), ...)]
        parts.append(xp.tensordot(lines, device.bring(members.astype(np.float64)), axes=((axis,), (0,))))
    return xp.moveaxis(xp.concat(parts, axis=-1), -1, axis)


def spread(device: Device, grid: Any, quotient: Quotient, rows: slice) -> Any:
    """Copy each box's value to its cells, on some rows of the first mode."""
    grid = device.xp.take(grid, device.bring(quotient.box_of(0)[rows]), axis=0)
    for axis in range(1, grid.ndim):
        if len(quotient.cuts[axis]) < quotient.shape[axis]:
            grid = device.xp.take(grid, device.bring(quotient.box_of(axis)), axis=axis)
    return grid


def rows_of(shape: tuple[int, ...]) -> Iterator[slice]:
    """Cut the first mode into blocks of moderate size."""
    return memory.rows_of(shape, BLOCK)
