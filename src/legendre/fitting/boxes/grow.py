"""Growing boxes: rounds of a few at a time, each fitted roughly; the exact fit of what was found is an ordinary one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.basis.boxes import Boxes
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.box_features import box_corners
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.tied_parameters import Terms, column_terms
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.fitting.boxes.observed_sums import BoxList, Ground
from legendre.fitting.boxes.paying import MOST_PASSES, cost, paying, price
from legendre.fitting.boxes.stage import Goal, Stage, measured
from legendre.fitting.boxes.state import Growing
from legendre.results.growth_path import Round

MOST_MODES = 8  # a box has 2^8 corners then


@dataclass(frozen=True, eq=False)
class BoxGrowth:
    """The boxes that were found, a start for their fit, and the rounds."""

    boxes: BoxList
    terms: Terms
    theta: FloatArray
    rounds: tuple[Round, ...]


@limit_blas()
def grow_boxes(recipe: Boxes, data: Observation, say: Say | None = None) -> BoxGrowth:
    """Add boxes until there are as many as wanted, or none is left that gains."""
    dense = in_memory(data, "boxes", "adaptive(n) and bases that you name take it as it is")
    least, most = price(recipe, dense), recipe.size if isinstance(recipe.size, int) else limits.LARGEST_GROWN
    if len(data.shape) > MOST_MODES or most > limits.LARGEST_GROWN:
        raise InvalidBasis(
            f"{recipe!r} on {len(data.shape)} modes: boxes grow up to {limits.LARGEST_GROWN:,} parameters and "
            f"{MOST_MODES} modes. Ask for fewer, or sum modes out."
        )
    cells, ground, goal = as_basis(recipe.start).select(data), Ground.of(dense), Goal(most, least)
    if len(cells) > most:
        raise InvalidBasis(f"{recipe!r}: the start already has {len(cells)} parameters.")
    start = BoxList(cells, np.broadcast_to(ground.shape, cells.shape).astype(np.int64))
    stage = Stage.first(Growing.of(ground, start))
    while not stage.ended:
        stage = stage.next(goal)
        _tell(stage, goal, say)
    last = stage if least == 0 else _settled(stage, goal, len(cells), say)
    boxes = last.growing.boxes
    return BoxGrowth(boxes, box_terms(boxes, data.labels, len(cells)), last.growing.theta, last.rounds)


def _tell(stage: Stage, goal: Goal, say: Say | None) -> None:
    if say is not None:
        count, known = len(stage.growing.boxes), goal.least == 0
        place = f"{count} of {goal.most} boxes" if known else f"{count} boxes"
        say(f"growing   {place}   KL = {stage.growing.kl:.4g}", count / goal.most if known else None)


def _settled(stage: Stage, goal: Goal, own: int, say: Say | None) -> Stage:
    """Drop boxes that do not pay, and add others in their place while that pays; every box that is left does."""
    least = goal.least
    best = paying(stage.growing, least, own)
    for _ in range(MOST_PASSES):
        more = Stage(Growing.of(best.ground, best.boxes))
        while not more.ended:
            more = more.next(goal)
            _tell(more, goal, say)
        if len(more.growing.boxes) == len(best.boxes):
            break
        other = paying(more.growing, least, own)
        if not cost(other, least) < cost(best, least):
            break
        best = other
    rounds = tuple(step for step in stage.rounds if step.n_params < len(best.boxes))
    return Stage(best, (*rounds, measured(best)), ended=True)


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
    """Name a box: the levels of each mode that it does not take whole, by the first and the last of them.

    Levels that were arranged are listed instead, as those of cells are.

    >>> labels = Labels.read((4, 24), ["carrier", "hour"], {"carrier": ["AA", "B6", "DL", "UA"]})
    >>> box = np.array([0, 6]), np.array([2, 9])
    >>> box_name(*box, labels), box_name(*box, labels.arranged([np.array([3, 1, 0, 2]), None]))
    ('carrier AA to B6, hour 6 to 8', 'carrier in UA, B6, hour 6 to 8')
    """
    parts = []
    for k, (first, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        if first > 0 or end < labels.shape[k]:
            listed = labels.order_of(k) is not None and end - first > 1
            parts.append(f"{labels.mode(k)} {'in ' if listed else ''}{labels.together(k, first, end)}")
    return ", ".join(parts)
