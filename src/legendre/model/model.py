"""The model S_B on its quotient grid: everything about Omega and B that does not depend on the data.

Every member of the model is constant (up to the base measure) on the boxes cut by the coordinates that B uses. Cells of
one box are merged into one cell of weight ``w = sum of r over Omega ∩ box``; the problem on the merged grid is
exactly the same problem, and often far smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.array_libraries import Home
from legendre.core.cells import cell_keys, find
from legendre.core.errors import InvalidBasis
from legendre.core.memory import check_room
from legendre.core.sums.cell_sums import sums_above, sums_below
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.sums.zeta import zeta, zeta_adjoint
from legendre.core.types import BoolArray, FloatArray, IntArray, frozen
from legendre.data.support import Support
from legendre.model.cliques.graph import CliqueTree, clique_tree


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
    cells
        The merged cells (m x N) that hold some of Omega, where the merged grid is too large to form; what belongs to
        merged cells, such as `measure`, is then a vector over these and not a grid. ``None`` elsewhere.
    device
        Where grids are swept, if not here.
    """

    support: Support
    base: FloatArray | None
    basis: IntArray
    quotient: Quotient
    measure: FloatArray | None
    cells: IntArray | None = None
    device: Home | None = None

    @classmethod
    def of(cls, support: Support, base: FloatArray | None, basis: IntArray, device: Home | None = None) -> Model:
        """Merge the sample space along the basis."""
        quotient = Quotient.of(support.shape, basis)
        if support.points is not None:
            cells, counts = _merged_points(quotient, support.points)
            return cls(support, base, frozen(basis), quotient, frozen(counts), cells, device)
        measure = None
        if base is not None:
            measure = frozen(quotient.merge(base if support.mask is None else np.where(support.mask, base, 0.0)))
        elif support.mask is not None:
            measure = frozen(quotient.merge(support.mask))
        return cls(support, base, frozen(basis), quotient, measure, device=device)

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
        """The number of merged cells, or of those that are kept as a list."""
        return self.quotient.n_merged if self.cells is None else len(self.cells)

    def below(self, vector: FloatArray) -> FloatArray:
        """Sum a vector on B at or below each merged cell."""
        shape = self.quotient.merged_shape
        if self.cells is not None:
            return sums_below(shape, self.cells, self.positions, vector)
        check_room(self.n_merged, 8, "a merged grid", "Ask about some cells only.")
        grid = np.zeros(shape)
        grid[tuple(self.positions.T)] = vector
        return zeta(grid)

    def above(self, masses: FloatArray) -> FloatArray:
        """Sum what merged cells hold at or above each cell of B."""
        if self.cells is not None:
            return sums_above(self.quotient.merged_shape, self.cells, self.positions, masses)
        found: FloatArray = zeta_adjoint(masses)[tuple(self.positions.T)]
        return found

    def below_at(self, vector: FloatArray, boxes: IntArray) -> FloatArray:
        """Sum a vector on B at or below each of some merged cells (n x N), in the grid or not."""
        if self.cells is None and self.n_merged <= limits.LARGEST_GRID and len(self.support.shape) <= limits.MOST_AXES:
            found: FloatArray = self.below(vector)[tuple(boxes.T)]
            return found
        return sums_below(self.quotient.merged_shape, boxes, self.positions, vector)

    @cached_property
    def weights(self) -> FloatArray:
        """The measure of each box, as a grid."""
        return frozen(volumes(self.quotient)) if self.measure is None else self.measure

    @cached_property
    def alive(self) -> BoolArray:
        """True for merged cells that can carry probability."""
        return self.weights > 0

    @property
    def n_alive(self) -> int:
        """The number of merged cells that can carry probability."""
        return self.n_merged if self.measure is None else int(np.count_nonzero(self.alive))

    def carries(self, boxes: IntArray, alive: BoolArray | None = None) -> BoolArray:
        """Tell which of some merged cells (n x N) can carry probability, or belong to a face."""
        marks = self.alive if alive is None else alive
        if self.cells is None:
            found: BoolArray = marks[tuple(boxes.T)]
            return found
        place = find(boxes, self.cells)
        return (place >= 0) & marks[place]

    @cached_property
    def cliques(self) -> CliqueTree:
        """The tree of cliques of the modes that B couples."""
        return self.cliques_with(())

    @cached_property
    def by_cliques(self) -> bool:
        """Whether sums over all cells are taken in tables over the cliques; refused where no other way is left."""
        only = self.n_merged > limits.MOST_SWEPT or len(self.support.shape) > limits.MOST_AXES
        if self.measure is not None or not (only or self.n_merged > limits.CLIQUES_FROM):
            return False
        if only and not self.cliques.fits:
            raise InvalidBasis(self.cliques.trouble())
        return self.cliques.fits and (only or self._cliques_pay)

    @property
    def formable(self) -> bool:
        """Whether a grid of all merged cells can be formed."""
        return self.n_merged <= limits.MOST_FORMED and len(self.support.shape) <= limits.MOST_AXES

    @property
    def _cliques_pay(self) -> bool:
        """Compare with sweeps over the merged grid, whose Fisher matrix takes no more than eta."""
        carried = self.cliques.largest.n_cells * self.n_params // limits.CLIQUES_CARRY
        return limits.CLIQUES_GAIN * (self.cliques.n_cells + carried) <= self.n_merged

    @property
    def n_summed(self) -> int:
        """How many cells are summed over, for the rounding error of the sums."""
        return self.cliques.n_cells if self.by_cliques else self.n_merged

    def cliques_with(self, modes: Sequence[int]) -> CliqueTree:
        """Arrange the cliques so that one of them holds the given modes."""
        used = (self.positions > 0).astype(np.float32)
        graph = used.T @ used > 0
        graph[np.ix_(modes, modes)] = True
        return clique_tree(graph, self.quotient.merged_shape)

    def on_face(self, alive: BoolArray | None) -> Model:
        """Leave out the merged cells that vanish in the limit; ``None`` means that none does."""
        return self if alive is None else self.on_measure(np.where(alive, self.weights, 0.0))

    def on_full_grid(self) -> Model:
        """Take every merged cell, not only those of a list; the weights are those of the full grid."""
        return self if self.cells is None else replace(self, measure=None, cells=None)

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


def _merged_points(quotient: Quotient, points: IntArray) -> tuple[IntArray | None, FloatArray]:
    """Count the points of each box: on the merged grid, or for a list of the boxes that hold any."""
    n = quotient.n_merged
    formed = n <= limits.ALWAYS_A_GRID or n <= min(limits.CELLS_PER_POINT * len(points), limits.LARGEST_GRID)
    if formed and len(quotient.shape) <= limits.MOST_AXES:
        counts = np.bincount(quotient.flat_boxes(points), minlength=n).astype(np.float64)
        return None, counts.reshape(quotient.merged_shape)
    boxes = quotient.boxes(points)
    _, first, number = np.unique(cell_keys(boxes), return_index=True, return_counts=True)
    return np.asfortranarray(boxes[first]), number.astype(np.float64)
