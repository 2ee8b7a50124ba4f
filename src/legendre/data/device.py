"""X on the device of another array library: read there, so that only what is small is transferred."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.array_libraries import Device, host
from legendre.core.cells import cells_in_slices, frozen
from legendre.core.sums.device_sums import merged, rows_of, suffix_sums
from legendre.core.sums.quotient import Quotient
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense, observe
from legendre.data.largest_entries import ranked_there
from legendre.data.observation import Comparable, Observation
from legendre.data.support import Support


def observe_there(
    X: Any, device: Device, support: str | ArrayLike = "all", base: ArrayLike | None = None
) -> Observation:
    """Check an array of another library: by NumPy if it is small or on the processor, else on its device.

    A large one with missing or wrong entries, a support or a base measure is copied once and checked here.
    """
    xp = device.xp
    # every function of the standard takes these; anything else is read or refused by NumPy
    plain = X.dtype in (xp.int8, xp.int16, xp.int32, xp.int64, xp.uint8, xp.float32, xp.float64)
    large = math.prod(X.shape) >= limits.COMPILED_CELLS and 0 < X.ndim <= limits.MOST_AXES
    if not (device.remote and large and plain):
        return observe(host(X), support, base)
    array = X.detach() if device.library == "torch" else X
    if base is None and isinstance(support, str) and support == "all":
        total, smallest = float(xp.sum(array, dtype=xp.float64)), float(xp.min(array))
        if 0 < total < math.inf and smallest >= 0 and (smallest == 0 or smallest / total > 0):
            return Remote(Support(tuple(array.shape)), None, None, total, smallest > 0, array, device, device=device)
    copy = observe(host(array), support, base)
    parts = copy.support, copy.base, copy.missing, copy.total, copy.positive
    return Remote(*parts, array, device, copy, device=device)


@dataclass(frozen=True, eq=False)
class Remote(Observation):
    """X on a device."""

    kind = "an array on another device"
    whole = True

    array: Any  # X as an array of its library
    there: Device  # its library and device
    copy: Dense | None = None  # the same in NumPy, if it had to be read there

    @cached_property
    def _here(self) -> Dense:
        parts = {name: getattr(self, name) for name in ("support", "base", "missing", "total", "positive")}
        return Dense(**parts, values=frozen(self.there.host(self.array))) if self.copy is None else self.copy

    def here(self) -> Dense:
        return self._here

    @cached_property
    def counts(self) -> bool:
        if self.support.mask is not None:
            return self.here().counts
        xp = self.there.xp
        return not xp.isdtype(self.array.dtype, "real floating") or bool(xp.all(self.array == xp.round(self.array)))

    @property
    def largest_grid(self) -> float:
        """Merged grids of more cells than this are not transferred."""
        return limits.COMPILED_CELLS

    def merged(self, quotient: Quotient, boxes: IntArray | None = None) -> FloatArray:
        sums: FloatArray = self.there.host(merged(self.there, self.array, quotient, self.support.mask))
        return sums if boxes is None else sums[tuple(boxes.T)]

    def above(self, quotient: Quotient, positions: IntArray) -> FloatArray:
        xp = self.there.xp
        sums = suffix_sums(xp, merged(self.there, self.array, quotient, self.support.mask))
        flat = np.ravel_multi_index(tuple(positions.T), quotient.merged_shape)
        return self.there.host(xp.take(xp.reshape(sums, (-1,)), self.there.bring(flat), axis=0))

    def margins(self, quotient: Quotient) -> list[FloatArray]:
        xp, every, out = self.there.xp, range(len(self.shape)), []
        for k in every:
            sums = xp.sum(self.array, axis=tuple(j for j in every if j != k), dtype=xp.float64)
            out.append(np.add.reduceat(self.there.host(sums), quotient.cuts[k]))
        return out

    def at(self, cells: IntArray) -> FloatArray:
        xp = self.there.xp
        flat = self.there.bring(np.ravel_multi_index(tuple(cells.T), self.shape))
        entries = self.there.host(xp.take(xp.reshape(self.array, (-1,)), flat, axis=0))
        return np.where(self.support.contains(cells), entries, 0.0)

    def largest(self, count: int, axis: int) -> IntArray:
        if not self.support.full:
            return self.here().largest(count, axis)
        xp, length, places = self.there.xp, self.shape[axis], []
        for i in range(length):
            entries = xp.reshape(self.array[(slice(None),) * axis + (i, ...)], (-1,))
            places.append(self.there.host(ranked_there(xp, entries, count)))
        numbers = np.repeat(np.arange(length), [len(place) for place in places])
        return cells_in_slices(np.concatenate(places), numbers, self.shape, axis)

    def negentropy(self) -> float:
        xp, own = self.there.xp, 0.0
        for rows in rows_of(self.shape):
            p = xp.astype(self.array[rows, ...], xp.float64) / self.total
            inside = p > 0 if self.support.mask is None else self.there.bring(self.support.mask[rows]) & (p > 0)
            log_ratio = xp.log(xp.where(inside, p, xp.ones_like(p)))
            if self.base is not None:
                log_ratio = log_ratio - xp.log(xp.where(inside, self.there.bring(self.base[rows]), xp.ones_like(p)))
            own += float(xp.sum(xp.where(inside, p * log_ratio, xp.zeros_like(p))))
        return own

    @property
    def unit(self) -> float:
        return self.total if self.copy is None else self.copy.unit

    def squared_error(self, q: Comparable) -> float:
        xp, squares = self.there.xp, []
        for rows in rows_of(self.shape):
            difference = (xp.astype(self.array[rows, ...], xp.float64) - q.rows_on(self.there, rows)) / self.unit
            if self.missing is not None:
                difference = xp.where(self.there.bring(self.missing[rows]), xp.zeros_like(difference), difference)
            squares.append(float(xp.sum(difference * difference)))
        return sum(squares)
