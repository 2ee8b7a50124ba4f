"""Growing on a grid too large to score every cell of: candidates are the corners of a coarser grid.

X is merged onto boxes whose sides hold about the same share of it, and then intervals are joined whose slices are
alike. With the number of cells of each box as its base measure the problem on the boxes is exactly the same problem for
every basis of their corners.
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
from legendre.core.sums.quotient import BoxTotals, Quotient, volumes
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.data.support import Support
from legendre.results.growth_path import Round, RoundOfBoxes


@dataclass(frozen=True, eq=False)
class Coarse:
    """A tensor of boxes, the recipe in terms of their corners, and where the corners are in the grid."""

    data: Dense
    recipe: Adaptive
    boxes: Boxes

    @property
    def quotient(self) -> Quotient:
        """Where the boxes are."""
        return self.boxes.quotient

    def cells(self, corners: IntArray) -> IntArray:
        """Return the cells of the grid that some corners (k x N) are."""
        columns = [cut[corners[:, k]] for k, cut in enumerate(self.quotient.cuts)]
        return np.stack(columns, axis=1).astype(np.int64)

    def rounds(self, rounds: tuple[Round, ...], data: Observation) -> tuple[Round, ...]:
        """Mark rounds as measured between boxes of X; `on_grid` restates them for the grid when somebody asks."""
        negentropy = self.data.negentropy()
        return tuple(RoundOfBoxes.of(step, negentropy, data.total) for step in rounds)


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


def coarsen(data: Observation, recipe: Adaptive, boxes: Boxes | None = None) -> Coarse:
    """Choose the boxes and merge X onto them; cells that the recipe names become corners.

    `boxes` are those that the same call chose before.
    """
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
    if boxes is None:
        boxes = _chosen_boxes(data, recipe, quotient) if named is None else Boxes.of(data, quotient)
    quotient = boxes.quotient
    candidates = None if named is None else Cells(quotient.boxes(named))
    on_corners = replace(recipe, start=Cells(quotient.boxes(start)), candidates=candidates)
    return Coarse(boxes.observed(data), on_corners, boxes)


@dataclass(frozen=True, eq=False)
class Boxes(BoxTotals):
    """X summed over boxes."""

    compiled: bool = False  # whether compiled code has read X, and joins boxes

    @classmethod
    def of(cls, data: Observation, quotient: Quotient) -> Boxes:
        """Sum X: one pass over it."""
        return cls(quotient, data.merged(quotient), data.compiled)

    def observed(self, data: Observation) -> Dense:
        """Return the boxes as a tensor; the base measure of a box is its number of cells of Omega."""
        weights = _cells_in(data.support, self.quotient)
        inside = weights > 0
        support = Support(self.quotient.merged_shape, None if inside.all() else inside)
        positive = bool((self.values[inside] > 0).all())
        values, base = frozen(self.values), frozen(weights)
        return Dense(support, base, None, data.total, positive, values, compiled_boxes=data.compiled)

    def without(self, gone: list[IntArray]) -> Boxes:
        """Join intervals: leave out some cuts of each mode, given by their numbers."""
        kept = [np.delete(np.arange(len(cut)), less) for cut, less in zip(self.quotient.cuts, gone, strict=True)]
        cuts = tuple(cut[keep] for cut, keep in zip(self.quotient.cuts, kept, strict=True))
        joining = Quotient(self.quotient.merged_shape, tuple(kept))
        values = joining.merge(self.values)
        return Boxes(Quotient(self.quotient.shape, cuts), values, self.compiled)

    def steps(self, mode: int, root: FloatArray) -> FloatArray:
        """Sum the squared differences of root densities over the boxes side by side; `root` is that of the sums."""
        weights = 1.0 / np.sqrt(self.quotient.lengths[mode])
        if self.compiled:
            from legendre.core.sums.kernels.joining import steps_between_slices

            return steps_between_slices(root, mode, weights)
        rows = np.swapaxes(root, mode, -1)
        steps = np.diff(rows * weights).reshape(math.prod(rows.shape[:-1]), len(weights) - 1)
        return np.asarray(np.einsum("ij,ij->j", steps, steps))


def _cells_in(support: Support, quotient: Quotient) -> FloatArray:
    if support.points is None:
        return volumes(quotient)
    counts = np.bincount(quotient.flat_boxes(support.points), minlength=quotient.n_merged)
    return counts.astype(np.float64).reshape(quotient.merged_shape)


def _chosen_boxes(data: Observation, recipe: Adaptive, fixed: Quotient) -> Boxes:
    """Choose boxes by the mass of the levels, then join what is alike, the more the fewer parameters are wanted.

    A grid whose cells all fit stays as it is, and so do boxes of a sample space that is a list of cells.
    """
    boxes = Boxes.of(data, _quantiles(data, fixed))
    if data.support.points is not None or boxes.quotient.n_merged == math.prod(data.shape):
        return boxes
    most, least = limits.COARSE_BOXES // limits.JOINED_BOXES, limits.COARSE_BOXES // limits.FEWEST_BOXES
    wanted = recipe.size * limits.BOXES_PER_PARAMETER if isinstance(recipe.size, int) else most
    return joined(boxes, fixed, min(most, max(wanted, least)))


def joined(boxes: Boxes, fixed: Quotient, most: int) -> Boxes:
    """Join neighbouring intervals whose slices are alike until at most `most` boxes are left.

    The cuts of `fixed` stay, and one cut of every mode that is cut. In each pass an interval is joined with at most one
    neighbour: what a pass joins it has compared.
    """
    while boxes.quotient.n_merged > most:
        gone = _apart(_missed_least(boxes, fixed, most), boxes.quotient.merged_shape)
        if not any(map(len, gone)):
            break
        boxes = boxes.without(gone)
    return boxes


def _missed_least(boxes: Boxes, fixed: Quotient, most: int) -> list[tuple[int, int]]:
    """List cuts, (mode, number), without which `most` boxes are left; first what loses least for the boxes it saves."""
    sizes = list(boxes.quotient.merged_shape)
    price = [size * losses for size, losses in zip(sizes, _joining_losses(boxes), strict=True)]
    for k, (cut, kept) in enumerate(zip(boxes.quotient.cuts, fixed.cuts, strict=True)):
        price[k][np.isin(cut[1:], kept)] = np.inf
    modes = np.repeat(np.arange(len(sizes)), [len(losses) for losses in price])
    numbers, flat = np.concatenate([np.arange(1, size) for size in sizes]), np.concatenate(price)
    order = np.argsort(flat, kind="stable")[: int(np.isfinite(flat).sum())]
    out: list[tuple[int, int]] = []
    for k, number in zip(modes[order].tolist(), numbers[order].tolist(), strict=True):
        if math.prod(sizes) <= most:
            break
        if sizes[k] > 2:
            out.append((k, number))
            sizes[k] -= 1
    return out


def _apart(cuts: list[tuple[int, int]], shape: tuple[int, ...]) -> list[IntArray]:
    """Keep, mode by mode, those of some cuts that are not next to one that was kept before."""
    kept: list[set[int]] = [set() for _ in shape]
    for k, number in cuts:
        if not {number - 1, number + 1} & kept[k]:
            kept[k].add(number)
    return [np.array(sorted(numbers), dtype=np.int64) for numbers in kept]


def _joining_losses(boxes: Boxes) -> list[FloatArray]:
    """Estimate, mode by mode, by how much the negentropy of the boxes falls if an interval is joined with the next one.

    For densities d, e on v and w cells it is ``2 v w / (v + w) (sqrt d - sqrt e)^2``, to second order in their
    difference, summed over the boxes side by side.
    """
    losses, root = [], boxes.values / boxes.values.sum()
    np.sqrt(root, out=root)
    for k, sides in enumerate(boxes.quotient.lengths):
        losses.append(2.0 / (1.0 / sides[1:] + 1.0 / sides[:-1]) * boxes.steps(k, root))
    return losses


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
