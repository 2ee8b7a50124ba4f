"""Which boxes are new: exact linear independence of their features, whatever probabilities their cells have.

Correlations under Q do not decide it. Where probabilities differ by many powers of ten they are rounding errors, and a
box that is a sum of others seems to be new.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

import numpy as np

from legendre.core import limits
from legendre.core.box_features import box_corners
from legendre.core.types import IntArray
from legendre.fitting.boxes.observed_sums import BoxList, Ground

PRIME = 2**61 - 1
"""Coefficients are counted modulo this prime: what is independent there is independent. The converse fails where the
prime divides a determinant of entries -1, 0 and 1; a box is then left out that could have been taken."""

Vector = dict[int, int]  # coefficients that are not 0, by cells


@dataclass(eq=False)
class Span:
    """The functions that boxes span together with the constant, as a system in echelon form.

    A feature is, but for a constant, a signed sum over the corners of its box. Two kinds of rows are kept, and used up
    in this order: those with a corner that no earlier row has, newest first, as they stand; then those without, from
    which all else was eliminated, oldest first. So the pivot of a row is in none that are used later, each row is used
    once, and the first kind, nearly all of large boxes, costs nothing to take.
    """

    shape: IntArray
    rows: dict[int, tuple[int, Vector]] = field(default_factory=dict)  # by pivot, where they are 1: when they are used
    seen: set[int] = field(default_factory=set)  # cells of all rows

    @classmethod
    def of(cls, ground: Ground, boxes: BoxList) -> Span:
        """Begin with some boxes, and with the holes of the sample space if these are few: values there do not count."""
        span = cls(np.array(ground.shape, dtype=np.int64))
        holes = np.argwhere(ground.weights == 0) if ground.weights is not None else span.shape[:0, None]
        if len(holes) <= limits.EXACT_HOLES:
            for cell in holes:
                span.take(cell, cell + 1)
        for lo, hi in zip(boxes.lo, boxes.hi, strict=True):
            span.take(lo, hi)
        return span

    def take(self, lo: IntArray, hi: IntArray) -> bool:
        """Take a box in, unless it is a sum of those there are; return whether it was taken."""
        vector = self._vector(lo, hi)
        fresh = next((cell for cell in vector if cell not in self.seen), None)
        if fresh is not None:
            self._keep(fresh, vector, -len(self.rows))
            return True
        self._eliminate(vector)
        if vector:
            self._keep(next(iter(vector)), vector, len(self.rows))
        return bool(vector)

    def _vector(self, lo: IntArray, hi: IntArray) -> Vector:
        """Write a box as cells and signs; the bottom cell, a constant, is left out."""
        corners, signs = box_corners(lo, hi, self.shape)
        cells = np.ravel_multi_index(tuple(corners.T), tuple(self.shape.tolist())).tolist()
        return {cell: int(sign) % PRIME for cell, sign in zip(cells, signs.tolist(), strict=True) if cell}

    def _keep(self, pivot: int, vector: Vector, order: int) -> None:
        unit = pow(vector[pivot], -1, PRIME)
        self.rows[pivot] = order, {cell: value * unit % PRIME for cell, value in vector.items()}
        self.seen.update(vector)

    def _eliminate(self, vector: Vector) -> None:
        """Subtract rows until no pivot is left, in place."""
        waiting = [(self.rows[cell][0], cell) for cell in vector if cell in self.rows]
        heapify(waiting)
        while waiting:
            _, pivot = heappop(waiting)
            factor = vector.get(pivot, 0)
            if not factor:  # it was there twice, or has gone
                continue
            for cell, value in self.rows[pivot][1].items():
                left = (vector.get(cell, 0) - factor * value) % PRIME
                if not left:
                    del vector[cell]
                    continue
                if cell not in vector and cell in self.rows:
                    heappush(waiting, (self.rows[cell][0], cell))
                vector[cell] = left
