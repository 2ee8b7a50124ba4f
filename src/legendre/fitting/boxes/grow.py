"""Growing boxes: rounds of a few at a time, each fitted roughly; the exact fit of what was found is an ordinary one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.basis.boxes import Boxes
from legendre.basis.parse import as_basis
from legendre.core import checkpoint_arrays as stored
from legendre.core import limits
from legendre.core.box_features import box_corners
from legendre.core.checkpoint import Record
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels
from legendre.core.progress import Say
from legendre.core.sums.linalg import few_threads
from legendre.core.tied_parameters import Terms, column_terms
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.fitting.boxes.observed_sums import BoxList, Ground
from legendre.fitting.boxes.paying import MOST_PASSES, cost, paying, price
from legendre.fitting.boxes.state import DONE, SHARE, STEPS, Growing
from legendre.results.growth_path import Round, pack_rounds, unpack_rounds

MOST_MODES = 8  # a box has 2^8 corners then
LISTED = 4  # levels of an arranged mode that the name of a box lists
MOST_AT_FIRST, FIRST = 8, 40  # rounds add 1 box for each 40 that are wanted, from 1 to 8 of them, and then a share


@dataclass(frozen=True, eq=False)
class BoxGrowth:
    """The boxes that were found, a start for their fit, and the rounds."""

    boxes: BoxList
    terms: Terms
    theta: FloatArray
    rounds: tuple[Round, ...]

    def pack(self) -> dict[str, Any]:
        """List the arrays from which `_unpacked` makes the same again."""
        return {"boxes": self.boxes.rows, "theta": self.theta, "rounds": pack_rounds(self.rounds)}


def _unpacked(arrays: Mapping[str, Any], recipe: Boxes, data: Observation) -> BoxGrowth:
    """Read what a record ended with; a ValueError where that is none."""
    modes, shape = len(data.shape), np.array(data.shape)
    rows = np.asarray(arrays["boxes"])
    if rows.dtype.kind not in "iu" or rows.ndim != 2 or rows.shape[1] != 2 * modes:
        raise ValueError(f"boxes have shape {rows.shape}, dtype {rows.dtype}")
    boxes = BoxList(rows[:, :modes].astype(np.int64), rows[:, modes:].astype(np.int64))
    if (boxes.lo < 0).any() or (boxes.lo >= boxes.hi).any() or (boxes.hi > shape).any():
        raise ValueError("boxes lie outside the grid")
    theta, rounds = stored.floats(arrays, "theta", len(boxes)), unpack_rounds(stored.rows(arrays, "rounds", 5))
    return BoxGrowth(boxes, box_terms(boxes, data.labels, len(as_basis(recipe.start).select(data))), theta, rounds)


def grow_boxes(recipe: Boxes, data: Observation, record: Record | None = None, say: Say | None = None) -> BoxGrowth:
    """Grow boxes, or read those that a record ended with."""
    if record is None:
        return _grow(recipe, data, say)
    with record.reading():
        if (ended := record.result()) is not None:
            return _unpacked(ended, recipe, data)
    growth = _grow(recipe, data, say)
    record.close(growth.pack())
    return growth


def _grow(recipe: Boxes, data: Observation, say: Say | None) -> BoxGrowth:
    """Add boxes until there are as many as wanted, or none is left that gains."""
    dense = in_memory(data, "boxes", "adaptive(n) and bases that you name take it as it is")
    least, most = price(recipe, dense), recipe.size if isinstance(recipe.size, int) else limits.LARGEST_GROWN
    if len(data.shape) > MOST_MODES or most > limits.LARGEST_GROWN:
        raise InvalidBasis(
            f"{recipe!r} on {len(data.shape)} modes: boxes grow up to {limits.LARGEST_GROWN:,} parameters and "
            f"{MOST_MODES} modes. Ask for fewer, or sum modes out."
        )
    start = as_basis(recipe.start).select(data)
    if len(start) > most:
        raise InvalidBasis(f"{recipe!r}: the start already has {len(start)} parameters.")
    ground = Ground.of(dense)
    growing = Growing.of(ground, BoxList(start, np.broadcast_to(ground.shape, start.shape).astype(np.int64)))
    rounds = [_round(growing)]
    _forward(growing, rounds, most, least, say)
    if least > 0:
        growing = _settled(growing, rounds, least, len(start), say)
    terms = box_terms(growing.boxes, data.labels, len(start))
    return BoxGrowth(growing.boxes, terms, growing.theta, tuple(rounds))


def _forward(growing: Growing, rounds: list[Round], most: int, least: float, say: Say | None) -> None:
    """Add boxes, a few in each round, until there are `most` or none gains more than `least`."""
    at_first = min(max(most // FIRST, 1), MOST_AT_FIRST) if least == 0 else 1
    while len(growing.boxes) < most:
        known = len(growing.boxes)
        with few_threads(known, least=0):
            gained = growing.add(min(max(int(SHARE * known), at_first), most - known), least)
            if len(growing.boxes) == known:
                break
            growing.fit(DONE * gained, STEPS)
        rounds.append(_round(growing))
        if say is not None:
            place = f"{len(growing.boxes)} boxes" if least > 0 else f"{len(growing.boxes)} of {most} boxes"
            say(f"growing   {place}   KL = {growing.kl:.4g}", None if least > 0 else len(growing.boxes) / most)


def _settled(growing: Growing, rounds: list[Round], least: float, own: int, say: Say | None) -> Growing:
    """Drop boxes that do not pay, and add others in their place while that pays; every box that is left does."""
    with few_threads(len(growing.boxes), least=0):
        best = paying(growing, least, own)
        for _ in range(MOST_PASSES):
            other = Growing.of(best.ground, best.boxes)
            _forward(other, [], limits.LARGEST_GROWN, least, say)
            if len(other.boxes) == len(best.boxes):
                break
            other = paying(other, least, own)
            if not cost(other, least) < cost(best, least):
                break
            best = other
    rounds[:] = [step for step in rounds if step.n_params < len(best.boxes)] + [_round(best)]
    return best


def _round(growing: Growing) -> Round:
    """Measure the size of the basis and how well it fits."""
    data, q = growing.ground.data, growing.point.q
    difference = growing.ground.p - q
    if data.missing is not None:
        difference = difference[~data.missing]
    rmse = float(np.sqrt(np.mean(difference**2))) * data.total
    return Round.measured(len(growing.boxes), growing.kl, rmse, data.total)


def box_terms(boxes: BoxList, labels: Labels, own: int) -> Terms:
    """Tie the parameter of each box over its corners; the first `own` boxes are cells of a start, which name them."""
    cells, values, names = [], [], []
    shape = np.array(labels.shape)
    for i, (lo, hi) in enumerate(zip(boxes.lo, boxes.hi, strict=True)):
        corners, signs = box_corners(lo, hi, shape)
        cells.append(corners)
        values.append(signs)
        names.append("" if i < own else box_name(lo, hi, labels))
    return column_terms(cells, values, names, len(shape))


def box_name(lo: IntArray, hi: IntArray, labels: Labels) -> str:
    """Name a box: the first and the last level of each mode that it does not take whole.

    Of a mode whose levels were arranged by the data, a few levels are listed instead.

    >>> labels = Labels.read((4, 24), ["carrier", "hour"], {"carrier": ["AA", "B6", "DL", "UA"]})
    >>> box_name(np.array([0, 6]), np.array([2, 9]), labels)
    'carrier AA to B6, hour 6 to 8'
    """
    parts = []
    for k, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        if first == 0 and end == labels.shape[k]:
            continue
        ends = dict.fromkeys((labels.level(k, first), labels.level(k, end - 1)))
        said = " to ".join(ends)
        if labels.order_of(k) is not None and end - first <= LISTED:
            said = " + ".join(labels.level(k, i) for i in range(first, end))
        parts.append(f"{labels.mode(k)} {said}")
    return ", ".join(parts)
