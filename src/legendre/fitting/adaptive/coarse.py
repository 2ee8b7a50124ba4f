"""Growing on a grid too large to score every cell of: candidates are the corners of a coarser grid.

X is merged onto boxes whose sides hold about the same share of it; with the number of cells of each box as its base
measure the problem on the boxes is exactly the same problem for every basis of their corners.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Cells
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.errors import InvalidBasis
from legendre.core.sums.quotient import Quotient, volumes
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.data.support import Support
from legendre.results.growth_path import Round


@dataclass(frozen=True, eq=False)
class Coarse:
    """A tensor of boxes, the recipe in terms of their corners, and where the corners are in the grid."""

    data: Dense
    recipe: Adaptive
    quotient: Quotient

    def cells(self, corners: IntArray) -> IntArray:
        """Return the cells of the grid that some corners (k x N) are."""
        columns = [cut[corners[:, k]] for k, cut in enumerate(self.quotient.cuts)]
        return np.stack(columns, axis=1).astype(np.int64)

    def rounds(self, rounds: tuple[Round, ...], data: Observation) -> tuple[Round, ...]:
        """Restate rounds for the whole grid: the entropy of X within boxes adds to KL; RMSE is not known."""
        within = data.negentropy() - self.data.negentropy()
        deviance = 2.0 * data.total * within
        return tuple(
            replace(r, kl=r.kl + within, rmse=float("nan"), aic=r.aic + deviance, bic=r.bic + deviance) for r in rounds
        )


def too_large(data: Observation) -> bool:
    """Whether a basis grows on the corners of a coarser grid: where X is not in memory, or has too many cells to score.

    A sample space that is marked cell by cell stays as it is, and so does a grid of more modes than can be cut in two.
    """
    if not data.whole:
        return True
    plain = data.support.full and data.base is None and divisible(data.shape)
    cells: int = math.prod(data.shape)
    return plain and cells > limits.COARSE_BOXES


def divisible(shape: tuple[int, ...]) -> bool:
    """Whether the boxes suffice for two pieces of each mode."""
    long = sum(length > 1 for length in shape)
    return bool(2**long <= limits.COARSE_BOXES)


def coarsen(data: Observation, recipe: Adaptive) -> Coarse:
    """Choose the boxes and merge X onto them; cells that the recipe names become corners."""
    if not divisible(data.shape):
        raise InvalidBasis(
            f"{recipe!r}: candidates are scored on a grid, and one of {len(data.shape)} modes has too many cells. "
            "Name the basis: interactions(...), boltzmann(...) or cells(...)."
        )
    start = as_basis(recipe.start).select(data)
    named = None if recipe.candidates is None else as_basis(recipe.candidates).select(data)
    quotient = Quotient.of(data.shape, start if named is None else np.concatenate([start, named]))
    if quotient.n_merged > limits.COARSE_BOXES * limits.NAMED_BOXES:
        raise InvalidBasis(
            f"{recipe!r}: the cells it names cut the grid into {quotient.n_merged:.2g} boxes; on a grid as large as "
            f"X's, {data.shape}, at most {limits.COARSE_BOXES * limits.NAMED_BOXES:,} can be scored. "
            "Name fewer coordinates."
        )
    if named is None:
        quotient = _quantiles(data, quotient)
    candidates = None if named is None else Cells(quotient.boxes(named))
    on_corners = replace(recipe, start=Cells(quotient.boxes(start)), candidates=candidates)
    return Coarse(_merged(data, quotient), on_corners, quotient)


def _merged(data: Observation, quotient: Quotient) -> Dense:
    """Sum X over boxes; the base measure of a box is its number of cells of Omega."""
    weights, values = _cells_in(data.support, quotient), data.merged(quotient)
    inside = weights > 0
    support = Support(quotient.merged_shape, None if inside.all() else inside)
    positive = bool((values[inside] > 0).all())
    return Dense(support, frozen(weights), None, data.total, positive, values=frozen(values))


def _cells_in(support: Support, quotient: Quotient) -> FloatArray:
    if support.points is None:
        return volumes(quotient)
    counts = np.bincount(quotient.flat_boxes(support.points), minlength=quotient.n_merged)
    return counts.astype(np.float64).reshape(quotient.merged_shape)


def _quantiles(data: Observation, fixed: Quotient) -> Quotient:
    """Cut each mode into pieces of about equal mass: as finely as the number of boxes allows, alike in all modes."""
    finest = Quotient(data.shape, tuple(_levels(data, k) for k in range(len(data.shape))))
    margins = data.margins(finest)
    low, high = 1, min(max(finest.merged_shape), limits.COARSE_BOXES)
    while low < high:
        middle = (low + high + 1) // 2
        if _cut(margins, finest, fixed, middle).n_merged <= limits.COARSE_BOXES:
            low = middle
        else:
            high = middle - 1
    return _cut(margins, finest, fixed, low)


def _levels(data: Observation, mode: int) -> IntArray:
    """List the levels of a mode; of a long one, where X is a list of entries, those that occur."""
    if data.entries is None or data.shape[mode] <= limits.LONG_MODE:
        return np.arange(data.shape[mode])
    return np.unique(np.append(data.entries.cells[:, mode], 0)).astype(np.int64)


def _cut(margins: list[FloatArray], finest: Quotient, fixed: Quotient, pieces: int) -> Quotient:
    """Cut each mode into at most `pieces` intervals of about equal mass, and where `fixed` has its cuts."""
    cuts = []
    for margin, own, kept in zip(margins, finest.cuts, fixed.cuts, strict=True):
        if pieces < len(margin):
            share = np.cumsum(margin) / margin.sum()
            ends = np.searchsorted(share, np.arange(1, pieces) / pieces, side="left") + 1
            own = own[ends[ends < len(margin)]]
        cuts.append(np.union1d(kept, own).astype(np.int64))
    return Quotient(fixed.shape, tuple(cuts))
