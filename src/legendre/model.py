"""The model S_B on its quotient grid: everything about Omega and B that does not depend on the data.

Every member of the model is constant (up to the base measure) on the boxes cut by the coordinates that B uses. Cells of
one box are merged into one cell of weight ``w = sum of r over Omega ∩ box``; the problem on the merged grid is
exactly the same problem, and often far smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.arrays import AnyArray, BoolArray, FloatArray, IntArray, frozen
from legendre.support import Support


@dataclass(frozen=True, eq=False)
class Quotient:
    """Boxes of a grid: ``cuts[k]`` holds the first coordinate of each interval of mode k."""

    shape: tuple[int, ...]
    cuts: tuple[IntArray, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], basis: IntArray) -> Quotient:
        """Cut each mode where a cell of the basis starts.

        Examples
        --------
        >>> Quotient.of((4, 5), np.array([[2, 0], [0, 3]])).merged_shape
        (2, 2)
        """
        return cls(shape, tuple(_cuts(length, basis[:, k]) for k, length in enumerate(shape)))

    @property
    def merged_shape(self) -> tuple[int, ...]:
        """The shape of the merged grid."""
        return tuple(len(cut) for cut in self.cuts)

    @cached_property
    def lengths(self) -> tuple[FloatArray, ...]:
        """The length of each interval, mode by mode."""
        pairs = zip(self.cuts, self.shape, strict=True)
        return tuple(np.diff(cut, append=length).astype(np.float64) for cut, length in pairs)

    @cached_property
    def box_of(self) -> tuple[IntArray, ...]:
        """The interval of each coordinate, mode by mode."""
        pairs = zip(self.cuts, self.shape, strict=True)
        return tuple(np.searchsorted(cut, np.arange(length), side="right") - 1 for cut, length in pairs)

    def boxes(self, cells: IntArray) -> IntArray:
        """Find the box of each cell (k x N), as merged coordinates."""
        return np.stack([box[cells[:, k]] for k, box in enumerate(self.box_of)], axis=1).astype(np.int64)

    def merge(self, grid: AnyArray) -> FloatArray:
        """Sum a grid over each box; a grid that nothing is merged in comes back as it is."""
        out: AnyArray = grid
        # The mode that shrinks most goes first, so that the later sums run over less.
        for axis in sorted(range(len(self.cuts)), key=lambda k: len(self.cuts[k]) / self.shape[k]):
            if len(self.cuts[axis]) < self.shape[axis]:
                out = np.add.reduceat(out, self.cuts[axis], axis=axis, dtype=np.float64)
        return np.asarray(out, dtype=np.float64)

    def spread(self, merged: AnyArray, rows: slice = slice(None)) -> AnyArray:
        """Copy each box's value to all of its cells; only to the given rows of the first mode if asked."""
        out = merged[self.box_of[0][rows]]
        for axis in range(1, len(self.shape)):
            if len(self.cuts[axis]) < self.shape[axis]:
                out = out.take(self.box_of[axis], axis=axis)
        return out


@dataclass(frozen=True, eq=False)
class Model:
    """The set of fully decomposable tensors with basis B on Omega (eq. 1), as an engine needs it.

    Parameters
    ----------
    support
        The sample space Omega.
    base
        The base measure r, or ``None`` for r = 1.
    basis
        The cells of B, k x N.
    quotient
        The boxes that B cuts.
    measure
        The measure of each box; 0 where a box holds no cell of Omega (or of the face, see `on_face`). ``None`` on a
        full grid without a base measure, where it is a product over modes that need not be multiplied out.
    """

    support: Support
    base: FloatArray | None
    basis: IntArray
    quotient: Quotient
    measure: FloatArray | None

    @classmethod
    def of(cls, support: Support, base: FloatArray | None, basis: IntArray) -> Model:
        """Merge the sample space along the basis."""
        quotient = Quotient.of(support.shape, basis)
        measure = None
        if base is not None:
            measure = frozen(quotient.merge(base if support.mask is None else np.where(support.mask, base, 0.0)))
        elif support.mask is not None:
            measure = frozen(quotient.merge(support.mask))
        return cls(support, base, frozen(basis), quotient, measure)

    @property
    def n_params(self) -> int:
        """|B|."""
        return len(self.basis)

    @cached_property
    def positions(self) -> IntArray:
        """The cells of B in merged coordinates, k x N."""
        return self.quotient.boxes(self.basis)

    @property
    def n_merged(self) -> int:
        """The number of merged cells."""
        return math.prod(self.quotient.merged_shape)

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each box, as a grid."""
        return frozen(_volumes(self.quotient)) if self.measure is None else self.measure

    @cached_property
    def alive(self) -> BoolArray:
        """True for merged cells that can carry probability."""
        return self.weights > 0

    @property
    def n_alive(self) -> int:
        """The number of merged cells that can carry probability."""
        return self.n_merged if self.measure is None else int(np.count_nonzero(self.alive))

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that vanish in the limit; ``None`` means that none does."""
        return self if alive is None else self.on_measure(np.where(alive, self.weights, 0.0))

    def on_measure(self, weights: FloatArray) -> Model:
        """Take other weights on the merged grid."""
        other = replace(self, measure=frozen(weights))
        other.__dict__["positions"] = self.positions
        return other

    def with_columns(self, columns: IntArray) -> Model:
        """Keep some parameters only; the merged grid stays as it is."""
        small = replace(self, basis=frozen(self.basis[columns]))
        small.__dict__["positions"] = self.positions[columns]  # the cuts are those of the whole basis
        return small


def _cuts(length: int, used: IntArray) -> IntArray:
    cut = np.zeros(length, dtype=np.bool_)
    cut[0] = True
    cut[used] = True
    return np.flatnonzero(cut).astype(np.int64)


def _volumes(quotient: Quotient) -> FloatArray:
    volumes = np.ones((1,) * len(quotient.shape))
    for axis, sides in enumerate(quotient.lengths):
        volumes = volumes * np.expand_dims(sides, [k for k in range(len(quotient.shape)) if k != axis])
    return volumes
