"""Growing a basis round by round, on the grid of X or on a coarser one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import most_of
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.errors import InvalidBasis
from legendre.core.memory import size_name
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.types import AnyArray
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation, Rankings
from legendre.fitting.adaptive.coarse import coarsen, too_large
from legendre.fitting.adaptive.heldout import Curve, deal, deal_cells, held_out_curve, not_zero
from legendre.fitting.adaptive.one_round import Search
from legendre.fitting.adaptive.stage import PHASES, Growth, Plan, Stage

LEAST_EVENTS, MOST_EVENTS = 5, 2.0**53
"""Events, or cells, of each fold at least; events of all together, since larger numbers are not exact counts."""


def grow(recipe: Adaptive, data: Observation, say: Say | None = None) -> Growth:
    """Add cells until the size is reached, no cell is left or none pays; swap on the way and at the end.

    Where X is not in memory as a whole, or very large, the cells are chosen among the corners of a coarser grid.
    """
    counts = isinstance(recipe.size, str) and data.counts
    if recipe.size in ("aic", "bic") and not counts:
        raise InvalidBasis(
            f"{recipe!r} needs counts, for it weighs the fit by their number; X has fractions. adaptive('cv') holds "
            "cells out instead."
        )
    if not too_large(data):
        return _grow(recipe, in_memory(data, "adaptive"), counts, say)
    coarse = coarsen(data, recipe)
    between = None if say is None else _between_boxes(say)
    growth = _grow(coarse.recipe, coarse.data, counts, between)
    rounds = coarse.rounds(growth.rounds, data)
    return replace(growth, cells=coarse.cells(growth.cells), rounds=rounds, boxes=coarse.boxes, inverse=None)


def _between_boxes(say: Say) -> Say:
    """Say of KL on a coarser grid that it is of boxes."""

    def between(text: str, share: float | None = None, /) -> None:
        say(text.replace("KL", "KL between boxes"), share)

    return between


def rankings_while_growing(recipe: Adaptive) -> Rankings:
    """Name the slices of X that will be ranked while a basis grows, for an X of a given shape."""
    start, candidates = as_basis(recipe.start), as_basis(recipe.candidates or "empty")
    return lambda shape: most_of(start.rankings(shape), candidates.rankings(shape))


def _grow(recipe: Adaptive, data: Dense, counts: bool, say: Say | None) -> Growth:
    """Grow, with BLAS in one thread.

    `counts` tells whether a criterion has counts to weigh, which sums over boxes of X do not show: they may be whole
    where X is not.
    """
    with limit_blas():
        return _grow_alone(recipe, data, counts, say)


def _grow_alone(recipe: Adaptive, data: Dense, counts: bool, say: Say | None) -> Growth:
    search, curve = _search(recipe, data, counts, say)
    plan = Plan.of(search, recipe)
    stage = Stage.first(plan)
    while stage.phase != "end":
        stage = stage.next(plan)
        if say is not None:
            size, kl = stage.fit.size, stage.fit.kl
            say(f"{PHASES[stage.phase]}   {size} of {plan.sizes[-1]} parameters   KL = {kl:.4g}")
    return _noted(curve, data.total, stage.growth(search))


def _noted(curve: Curve | None, total: float, growth: Growth) -> Growth:
    """Write held-out losses into the rounds."""
    return growth if curve is None else replace(growth, rounds=curve.noted(growth.rounds, total))


def _check_growth(recipe: Adaptive, search: Search) -> None:
    """Refuse to grow a basis so large that its many fits take hours."""
    cells = int(search.candidates.sum())
    grown = min(int((recipe.overshoot or 1.0) * search.most), len(search.start) + cells)
    if grown > limits.LARGEST_GROWN:
        raise InvalidBasis(
            f"{recipe!r}: of {size_name(cells)} cells {size_name(grown)} would be chosen a few at a time, with a fit "
            f"in every round; a basis grows up to {limits.LARGEST_GROWN:,} parameters. Ask for fewer, name fewer "
            "candidates, or take a basis that need not grow, such as interactions(2), B3(n) or full()."
        )


def _search(recipe: Adaptive, data: Dense, counts: bool, say: Say | None) -> tuple[Search, Curve | None]:
    """Prepare the search; find the size, or what a parameter must gain, by the recipe's criterion."""
    most = recipe.size if isinstance(recipe.size, int) else recipe.most
    search = replace(Search.of(data, recipe.start, recipe.candidates, most), known=isinstance(recipe.size, int))
    if len(search.start) > search.most:
        raise InvalidBasis(f"{recipe!r}: the start already has {len(search.start)} parameters.")
    if isinstance(recipe.size, int):
        _check_growth(recipe, search)
        return search, None
    search = search.among_uncertain() if counts else search
    if recipe.size == "cv":
        parts = _parts_of_events(data, recipe.folds) if counts else _parts_of_cells(data, recipe.folds)
        curve = held_out_curve(search, parts, say)
        # with sizes that are tried one after the other all of the curve is in the path
        return replace(search, most=curve.best, known=counts), curve
    penalty = 2.0
    if recipe.size == "bic":
        penalty = float(np.log(data.total)) + 2.0 * float(np.log(max(int(search.candidates.sum()), 1)))
    return replace(search, least=penalty / (2.0 * data.total)), None


def _parts_of_events(data: Dense, folds: int) -> list[AnyArray]:
    """Deal out the events of counts, to be held out in turn."""
    if data.total >= MOST_EVENTS:
        raise InvalidBasis(
            f"adaptive('cv'): X sums to {data.total:g}; events are dealt out one by one, up to {MOST_EVENTS:.0e}."
        )
    if data.total < LEAST_EVENTS * folds:
        raise InvalidBasis(
            f"adaptive('cv'): {data.total:.0f} events are too few for {folds} folds; there must be at least "
            f"{LEAST_EVENTS} for each. Use adaptive('bic')."
        )
    return list(deal(data, folds))


def _parts_of_cells(data: Dense, folds: int) -> list[AnyArray]:
    """Deal out the cells, or the boxes of a coarser grid."""
    if data.support.n_cells < LEAST_EVENTS * folds:
        raise InvalidBasis(
            f"adaptive('cv'): {data.support.n_cells} cells are too few for {folds} folds; there must be at least "
            f"{LEAST_EVENTS} for each."
        )
    parts, seen = list(deal_cells(data, folds)), not_zero(data)
    if any(np.count_nonzero(data.values[part]) == seen for part in parts):
        raise InvalidBasis(
            f"adaptive('cv'): X is not 0 in {seen} of {data.support.n_cells} cells only, and one of {folds} folds "
            "holds all of it, so that without that fold nothing is left to fit. Name a number of parameters, as in "
            "adaptive(3)."
        )
    return parts
