"""A Cholesky factor to which rows are appended, kept as panels of rows: nothing is copied, nothing computed again.

A factor has the type of the matrix that it was computed of. In float32 it takes half the time, and is good to some six
digits: enough for a preconditioner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from legendre.core.types import AnyArray, FloatArray, IntArray

HEIGHT = 256  # rows of a panel: products of matrices, most of the work, are nearly twice as fast as triangular solves


class Routines(NamedTuple):
    """What BLAS and LAPACK have for one type of numbers."""

    factorise: Any
    invert: Any
    solve_matrix: Any
    solve_vector: Any


ROUTINES = {
    "d": Routines(lapack.dpotrf, lapack.dtrtri, blas.dtrsm, blas.dtrsv),
    "f": Routines(lapack.spotrf, lapack.strtri, blas.strsm, blas.strsv),
}


@dataclass(frozen=True, eq=False)
class Panel:
    """Some rows of L: left of the diagonal block, and that block."""

    left: AnyArray  # c x (rows before)
    block: AnyArray  # c x c, the transpose of the lower triangle, in Fortran order

    @property
    def start(self) -> int:
        """The number of rows before."""
        return int(self.left.shape[1])

    @property
    def stop(self) -> int:
        """The number of rows up to the last of this panel."""
        return self.start + len(self.block)


@dataclass(frozen=True, eq=False)
class GrowingFactor:
    """``A = L L'``.

    >>> first = GrowingFactor.of(np.array([[4.0, 0.0], [2.0, 5.0]]))
    >>> grown = first.appended(first.half(np.array([[2.0], [3.0]])).T, np.array([[2.0]]))
    >>> grown.solve(np.array([8.0, 10.0, 11.0])).tolist()  # A = [[4, 2, 2], [2, 5, 3], [2, 3, 6]]
    [1.0, 1.0, 1.0]
    """

    panels: tuple[Panel, ...] = ()
    kind: str = "d"  # the character of NumPy's type of its numbers: "d" for float64, "f" for float32

    @property
    def size(self) -> int:
        """The number of rows."""
        return self.panels[-1].stop if self.panels else 0

    @property
    def _routines(self) -> Routines:
        return ROUTINES[self.kind]

    @classmethod
    def of(cls, lower: AnyArray) -> GrowingFactor | None:
        """Factorise a matrix given by its lower triangle (C order), which is overwritten; ``None`` if not positive."""
        k, kind = len(lower), lower.dtype.char
        if not k:
            return cls(kind=kind)
        upper, info = ROUTINES[kind].factorise(lower.T, lower=0, clean=0, overwrite_a=1)
        if info or not np.isfinite(upper.diagonal()).all():  # BLAS need not notice what is no number
            return None
        cuts = [*range(0, k, HEIGHT), k]
        rows = [(slice(a, b), slice(0, a)) for a, b in pairwise(cuts)]
        panels = (Panel(upper.T[some, left], np.asfortranarray(upper[some, some])) for some, left in rows)
        return cls(tuple(panels), kind)

    def appended(self, left: AnyArray, lower: FloatArray) -> GrowingFactor:
        """Append rows of L: left of the diagonal, and the lower triangle there."""
        panel = Panel(np.ascontiguousarray(left, self.kind), np.ascontiguousarray(lower, self.kind).T)
        return GrowingFactor((*self.panels, panel), self.kind)

    def half(self, right: AnyArray, *, overwrite: bool = False) -> AnyArray:
        """Solve ``L x = right`` for a vector or for the columns of a matrix; in the type of the factor.

        In place (C order, and that type) if `overwrite`.
        """
        out, use = right if overwrite else np.array(right, self.kind, order="C"), self._routines
        for panel in self.panels:
            rows = out[panel.start : panel.stop]
            if panel.start:
                rows -= panel.left @ out[: panel.start]
            if out.ndim == 1:
                rows[:] = use.solve_vector(panel.block, rows, lower=0, trans=1)
            elif out.shape[1]:
                use.solve_matrix(1.0, panel.block, rows.T, side=1, lower=0, overwrite_b=1)  # contiguous: in place
        return out

    def back(self, right: AnyArray) -> AnyArray:
        """Solve ``L' x = right`` for a vector."""
        out = np.array(right, self.kind)
        for panel in reversed(self.panels):
            rows = out[panel.start : panel.stop]
            rows[:] = self._routines.solve_vector(panel.block, rows, lower=0, trans=0)
            if panel.start:
                out[: panel.start] -= rows @ panel.left
        return out

    def solve(self, right: FloatArray) -> AnyArray:
        """Solve ``A x = right`` for a vector."""
        return self.back(self.half(right))

    def inverse_columns(self, positions: IntArray) -> AnyArray:
        """Return some columns, in ascending order, of the inverse of L, whose rows above a column's 1 are 0.

        >>> GrowingFactor.of(np.array([[4.0, 0.0], [2.0, 5.0]])).inverse_columns(np.array([0])).tolist()
        [[0.5], [-0.25]]
        """
        out = np.zeros((self.size, len(positions)), self.kind)
        out[positions, np.arange(len(positions))] = 1.0
        starts = [*(panel.start for panel in self.panels), self.size]
        columns = [slice(*pair) for pair in pairwise(np.searchsorted(positions, starts).tolist())]
        for number, panel in enumerate(self.panels):
            rows, begun = out[panel.start : panel.stop], columns[number].stop
            for some, start in zip(columns[:number], starts, strict=False):
                if some.stop > some.start:
                    rows[:, some] -= panel.left[:, start:] @ out[start : panel.start, some]
            if begun:
                part = np.ascontiguousarray(rows[:, :begun])
                self._routines.solve_matrix(1.0, panel.block, part.T, side=1, lower=0, overwrite_b=1)
                rows[:, :begun] = part
        return out

    @cached_property
    def inverse(self) -> AnyArray:
        """The inverse of L; the squares in its columns sum to the diagonal of the inverse of A."""
        lower = np.zeros((self.size, self.size), self.kind)
        for panel in self.panels:
            lower[panel.start : panel.stop, : panel.start] = panel.left
            lower[panel.start : panel.stop, panel.start : panel.stop] = np.tril(panel.block.T)
        if not self.size:
            return lower
        inverse, _ = self._routines.invert(lower.T, lower=0, overwrite_c=1)
        return np.asarray(inverse.T)
