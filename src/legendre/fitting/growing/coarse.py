"""Growing on a grid that has too many cells to score each: candidates are the corners of a coarser grid.

Each mode is cut into intervals that hold about the same share of X. Then neighbouring intervals whose slices are alike
are joined. X is summed over the boxes that result. If the base measure of a box is its number of cells, the problem on
the boxes is exactly the same as on the cells, for every basis of their corners.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import replace

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Cells
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.cells import freeze, other_modes
from legendre.core.errors import InvalidBasis
from legendre.core.sums.quotient import BoxTotals, Quotient
from legendre.core.types import FloatArray, Shape
from legendre.data.dense import Dense
from legendre.data.observation import Observation, Support


def too_large(data: Observation) -> bool:
    """Whether a basis grows on a coarser grid: X is not in memory, or has too many cells to score.

    An X in memory keeps its grid if it has a mask or a base measure, which `observe_boxes` does not take into account,
    or too many modes to cut each in two.
    """
    plain = data.support.full and data.base is None and divisible(data.shape)
    return not data.whole or (plain and math.prod(data.shape) > limits.COARSE_BOXES)


def divisible(shape: Shape) -> bool:
    """Whether each mode can be cut in two without exceeding the largest number of boxes, 2^19: at most 19 modes.

    With more modes no coarser grid can be scored, so no basis can grow on it.
    """
    return bool(2 ** sum(length > 1 for length in shape) <= limits.COARSE_BOXES)


def coarsen(data: Observation, recipe: Adaptive) -> tuple[Dense, Adaptive, BoxTotals]:
    """Choose the boxes; return X summed over them as a tensor, the recipe in coordinates of the boxes, and the sums.

    The grid is always cut where the cells that the recipe names start, so that they are corners. If it names the
    candidates, there are no other cuts.
    """
    if not divisible(data.shape):
        raise InvalidBasis(
            f"{recipe!r}: candidates are scored on a grid, and one of {data.n_modes} modes has too many cells. "
            "Name the basis: interactions(...) or an array of cells."
        )
    start = as_basis(recipe.include).select(data)
    named = None if recipe.candidates is None else as_basis(recipe.candidates).select(data)
    fixed, _ = Quotient.of(data.shape, start if named is None else np.vstack([start, named]))
    most = limits.COARSE_BOXES
    if fixed.n_merged > 8 * most:  # a caller may ask for some more boxes than are chosen here
        raise InvalidBasis(
            f"{recipe!r}: the cells it names cut the grid into {fixed.n_merged:.2g} boxes; on a grid as large as "
            f"X's, {data.shape}, at most {8 * most:,} can be scored. Name fewer coordinates."
        )
    quotient = _cut_by_mass(data, fixed) if named is None else fixed
    totals = BoxTotals(quotient, data.merged(quotient))
    if named is None and data.support.points is None and quotient.n_merged < math.prod(data.shape):
        # fewer boxes suffice for fewer parameters: 512 for each, within 1/32 and 1/4 of the most
        wanted = 512 * recipe.n if isinstance(recipe.n, int) else most
        totals = join_alike(totals, fixed, min(most // 4, max(wanted, most // 32)))
    quotient = totals.quotient
    candidates = None if named is None else Cells(quotient.boxes(named))
    on_corners = replace(recipe, include=Cells(quotient.boxes(start)), candidates=candidates)
    return observe_boxes(data, totals), on_corners, totals


def observe_boxes(data: Observation, totals: BoxTotals) -> Dense:
    """Return X summed over boxes as a tensor, in which the base measure of a box is its number of cells of Omega.

    A box without a cell of Omega is outside the support of the tensor.
    """
    quotient, points = totals.quotient, data.support.points
    weights = quotient.volumes
    if points is not None:
        counts = np.bincount(quotient.flat_boxes(points), minlength=quotient.n_merged)
        weights = counts.astype(np.float64).reshape(quotient.merged_shape)
    inside = weights > 0
    support = Support(quotient.merged_shape, None if inside.all() else inside)
    positive = bool((totals.values[inside] > 0).all())
    values, base = freeze(totals.values), freeze(weights)
    return Dense(support, base, None, data.total, positive, values, compiled_boxes=data.compiled)


def join_alike(totals: BoxTotals, fixed: Quotient, most: int) -> BoxTotals:
    """Join neighbouring intervals whose slices are alike until at most `most` boxes are left, or none can be joined.

    The cuts of `fixed` stay, and at least two intervals of every mode that is cut. In each pass an interval is joined
    with at most one neighbour, because the losses are those of joining the present intervals.
    """
    while totals.quotient.n_merged > most:
        quotient = totals.quotient
        losses = _joining_losses(totals)
        for k, cut in enumerate(quotient.cuts):
            losses[k] *= len(cut)  # the loss for each box saved: to join two of n intervals saves 1 / n of the boxes
            losses[k][np.isin(cut[1:], fixed.cuts[k])] = np.inf
        listed = sorted(
            (loss, k, number)
            for k, of_mode in enumerate(losses)
            for number, loss in enumerate(of_mode.tolist(), start=1)
            if loss < math.inf
        )
        # `kept` marks the cuts that stay, and `tried` counts the intervals left if every cut that is tried goes
        kept, tried = [np.ones(n, dtype=np.bool_) for n in quotient.merged_shape], list(quotient.merged_shape)
        for _, k, number in listed:
            if math.prod(tried) <= most:
                break
            if tried[k] > 2:  # two intervals of a mode stay
                tried[k] -= 1
                # a cut goes if both cuts next to it stay
                kept[k][number] = not kept[k][number - 1 : number + 2].all()
        if all(marks.all() for marks in kept):  # nothing more can be joined
            break
        cuts = tuple(cut[marks] for cut, marks in zip(quotient.cuts, kept, strict=True))
        merged = Quotient(quotient.merged_shape, tuple(map(np.flatnonzero, kept))).merge(totals.values)
        totals = BoxTotals(Quotient(quotient.shape, cuts), merged)
    return totals


def _joining_losses(totals: BoxTotals) -> list[FloatArray]:
    """Estimate, for each mode and cut, by how much the negentropy of the boxes falls if the cut is removed.

    That is how much a fit on the boxes can no longer see. If two boxes of v and w cells have densities d and e, it is
    ``2 v w / (v + w) (sqrt d - sqrt e)^2`` to second order in their difference, summed over the boxes on both sides of
    the cut. Each mode has an array with an entry for each cut but the first, which is 0.
    """
    out, root = [], np.sqrt(totals.values / totals.values.sum())
    for k, sides in enumerate(totals.quotient.lengths):
        summed = other_modes([k], root.ndim)
        # divided by lengths along mode k alone: boxes on both sides of a cut have the same lengths in other modes
        scaled = root / np.sqrt(np.expand_dims(sides, summed))
        steps = np.square(np.diff(scaled, axis=k)).sum(axis=summed)
        out.append(2.0 / (1.0 / sides[1:] + 1.0 / sides[:-1]) * steps)
    return out


def _cut_by_mass(data: Observation, fixed: Quotient) -> Quotient:
    """Cut each mode into pieces of about equal shares of X, the same number in all modes, as many as boxes allow.

    A mode with fewer levels is cut at every level. The cuts of `fixed` are added. If X is a list of entries with a mode
    of more than `limits.LONG_MODE` levels, cuts are made only at levels that occur.
    """
    if data.entries is not None and max(data.shape) > limits.LONG_MODE:
        levels = [np.unique(np.append(column, 0)).astype(np.int64) for column in data.entries.cells.T]
    else:
        levels = [np.arange(n, dtype=np.int64) for n in data.shape]
    finest = Quotient(data.shape, tuple(levels))
    margins = data.margins(finest)

    def cut(pieces: int) -> Quotient:
        """Cut each mode at the quantiles 1 / pieces, 2 / pieces, ... of its margin."""
        cuts = []
        for margin, starts, named in zip(margins, finest.cuts, fixed.cuts, strict=True):
            if pieces < len(margin):
                share = np.cumsum(margin) / margin.sum()
                ends = np.searchsorted(share, np.arange(1, pieces) / pieces, side="left") + 1
                starts = starts[ends[ends < len(margin)]]
            cuts.append(np.union1d(named, starts).astype(np.int64))
        return Quotient(fixed.shape, tuple(cuts))

    tried = range(1, min(max(finest.merged_shape), limits.COARSE_BOXES) + 1)
    # the number of boxes grows with that of pieces, so bisection finds the largest that is allowed
    return cut(max(1, bisect_right(tried, limits.COARSE_BOXES, key=lambda pieces: cut(pieces).n_merged)))
