"""The sample space Omega: any subset of a grid I_1 x ... x I_N."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.cells import member
from legendre.core.memory import check_room
from legendre.core.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Support:
    """The sample space Omega of the paper's Section 2.1."""

    shape: tuple[int, ...]  # the grid (I_1, ..., I_N)
    mask: BoolArray | None = None  # True where a cell belongs to Omega; None is every cell, and costs no memory
    points: IntArray | None = None  # the cells of Omega (n x N) in C order, where the grid is too large for a mask

    @property
    def full(self) -> bool:
        """True when Omega is the whole grid."""
        return self.mask is None and self.points is None

    @cached_property
    def n_cells(self) -> int:
        """The number of cells, |Omega|."""
        if self.points is not None:
            return len(self.points)
        return math.prod(self.shape) if self.mask is None else int(np.count_nonzero(self.mask))

    def contains(self, cells: IntArray) -> BoolArray:
        """Mark those of some cells (k x N, inside the grid) that belong to Omega."""
        if self.points is not None:
            return member(cells, self.points)
        return np.ones(len(cells), dtype=np.bool_) if self.mask is None else np.asarray(self.mask[tuple(cells.T)])

    def on_grid(self) -> BoolArray:
        """Return the mask, formed where there is none; not to be written to."""
        if self.mask is not None:
            return self.mask
        check_room(math.prod(self.shape), 1, "a mask of the sample space", "Ask about some cells only.")
        grid = np.full(self.shape, self.points is None)
        if self.points is not None:
            grid[tuple(self.points.T)] = True
        return grid

    def cells(self) -> IntArray:
        """List Omega, |Omega| x N, in C order."""
        if self.points is not None:
            return self.points.astype(np.int64)
        check_room(self.n_cells, 8 * len(self.shape), "a list of all cells", "Ask about some cells only.")
        return np.argwhere(self.on_grid()).astype(np.int64)
