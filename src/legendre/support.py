"""The sample space Omega: any subset of a grid I_1 x ... x I_N."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.arrays import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Support:
    """The sample space Omega of the paper's Section 2.1.

    Parameters
    ----------
    shape
        The grid ``(I_1, ..., I_N)``.
    mask
        True where a cell belongs to Omega; ``None`` means every cell, and costs no memory.

    Examples
    --------
    >>> Support((2, 3), None).n_cells
    6
    """

    shape: tuple[int, ...]
    mask: BoolArray | None = None

    @property
    def order(self) -> int:
        """The number of modes N."""
        return len(self.shape)

    @cached_property
    def n_cells(self) -> int:
        """The number of cells, |Omega|."""
        if self.mask is None:
            return int(np.prod(self.shape, dtype=object))
        return int(np.count_nonzero(self.mask))

    def contains(self, cells: IntArray) -> BoolArray:
        """Tell which of the given cells (k x N, inside the grid) belong to Omega."""
        if self.mask is None:
            return np.ones(len(cells), dtype=np.bool_)
        inside: BoolArray = self.mask[tuple(cells.T)]
        return inside

    def on_grid(self) -> BoolArray:
        """Return the mask, formed where there is none; not to be written to."""
        return np.ones(self.shape, dtype=np.bool_) if self.mask is None else self.mask

    def cells(self) -> IntArray:
        """List Omega, |Omega| x N, in C order."""
        return np.argwhere(self.on_grid()).astype(np.int64)
