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

from legendre.core.cells import frozen
from legendre.core.sums.quotient import Quotient
from legendre.core.tied_parameters import Terms, Ties
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.support import Support
from legendre.model.space import Grid, Space, space_for


@dataclass(frozen=True, eq=False)
class Model:
    """The set of fully decomposable tensors with basis B on Omega (eq. 1), as an engine needs it."""

    support: Support  # the sample space Omega
    base: FloatArray | None  # the base measure r, or ``None`` for r = 1
    basis: IntArray  # the cells of B, k x N
    space: Space  # the merged cells, in the form in which they are summed over

    @classmethod
    def of(
        cls,
        support: Support,
        base: FloatArray | None,
        basis: IntArray,
        ties: Ties | None = None,
    ) -> Model:
        """Merge the sample space along the basis, whose parameters may be tied."""
        quotient = Quotient.of(support.shape, basis)
        space = space_for(support, base, quotient, quotient.boxes(basis))
        return cls(support, base, frozen(basis), space if ties is None else replace(space, ties=ties))

    @cached_property
    def n_params(self) -> int:
        """The number of parameters: |B|, unless some are tied."""
        return self.space.n_params

    @cached_property
    def ties(self) -> Ties | None:
        """How the parameters of the cells are tied, ``theta = A beta``; ``None`` where each cell has its own."""
        return self.space.ties

    @property
    def terms(self) -> Terms:
        """The cells and their ties."""
        return Terms(self.basis, self.ties)

    @property
    def plain(self) -> bool:
        """Whether B is independent by its form: on a full grid without a base measure no cell depends on others."""
        return self.space.whole and self.space.ties is None

    @property
    def untied(self) -> Model:
        """The model in which every cell has its own parameter, on the same merged cells."""
        return self if self.ties is None else replace(self, space=replace(self.space, ties=None))

    @property
    def quotient(self) -> Quotient:
        """The boxes that B cuts."""
        return self.space.quotient

    @property
    def positions(self) -> IntArray:
        """The cells of B in merged coordinates, k x N."""
        return self.space.positions

    @property
    def measure(self) -> FloatArray | None:
        """The measure of each merged cell; ``None`` on a full grid without a base measure."""
        return self.space.measure

    @property
    def weights(self) -> FloatArray:
        """The measure of each merged cell, formed where it is a product over modes."""
        return self.space.weights

    @property
    def n_merged(self) -> int:
        """The number of merged cells."""
        return self.space.n_cells

    @cached_property
    def alive(self) -> BoolArray:
        """True for merged cells that can carry probability."""
        return self.weights > 0

    @property
    def n_alive(self) -> int:
        """The number of merged cells that can carry probability."""
        return self.n_merged if self.space.whole else int(np.count_nonzero(self.alive))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Mark those of some merged cells (n x N) that can carry probability, or belong to a face."""
        return self.space.marked(self.alive if alive is None else alive, boxes)

    @cached_property
    def one_body(self) -> bool:
        """True when every cell of B lies on an axis of a full grid without a base measure; all cuts used, none tied."""
        shape, k = self.space.quotient.merged_shape, len(self.basis)
        if self.ties is not None or not self.space.whole or not k or sum(shape) - len(shape) != k:
            return False
        return bool((np.count_nonzero(self.positions, axis=1) == 1).all())

    @cached_property
    def patterns(self) -> dict[tuple[int, ...], int]:
        """For each set of modes in which a cell's coordinates are not 0, the number of such cells of B."""
        used = self.positions > 0
        order = used.shape[1]
        if order >= 63:
            rows, counts = np.unique(used, axis=0, return_counts=True)
            return {tuple(np.flatnonzero(row).tolist()): n for row, n in zip(rows, counts.tolist(), strict=True)}
        # one number per set of modes: sorting numbers is far cheaper than sorting rows
        codes, counts = np.unique(used @ (1 << np.arange(order)), return_counts=True)
        pairs = zip(codes.tolist(), counts.tolist(), strict=True)
        return {tuple(k for k in range(order) if code >> k & 1): n for code, n in pairs}

    @property
    def every_cell(self) -> bool:
        """True when B has every merged cell but the bottom one, none tied: its margins are told without counting."""
        return self.ties is None and 0 < len(self.basis) == self.quotient.n_merged - 1

    @cached_property
    def whole_interactions(self) -> bool:
        """True when B has all cells of each interaction of which it has one: only then can it be a set of margins."""
        cells, shape = self.space.positions, self.space.quotient.merged_shape
        if self.ties is not None or self.every_cell:
            return self.ties is None
        if len(cells) and math.prod(n - 1 for n, at in zip(shape, cells[0].tolist(), strict=True) if at) > len(cells):
            return False
        return all(n == math.prod(shape[k] - 1 for k in modes) for modes, n in self.patterns.items())

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that vanish in the limit; ``None`` means that none does."""
        return self if alive is None else replace(self, space=self.space.on_face(alive))

    def on_full_grid(self) -> Model:
        """Take every merged cell, not only those of a list; the weights are those of the full grid."""
        if self.space.form != "list":
            return self
        return replace(self, space=Grid(self.quotient, self.positions, ties=self.ties))

    def on_measure(self, weights: FloatArray) -> Model:
        """Take other weights on the merged cells."""
        return replace(self, space=self.space.weighed(weights))

    def with_columns(self, columns: IntArray) -> Model:
        """Keep some parameters only; the merged cells stay as they are, cut by the whole basis."""
        basis = self.basis if self.ties is not None else frozen(self.basis[columns])
        return replace(self, basis=basis, space=self.space.with_columns(columns))
