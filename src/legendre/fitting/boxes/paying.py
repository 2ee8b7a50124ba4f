"""Boxes that pay for themselves: what one must gain, and which are dropped again, decided by refits."""

from __future__ import annotations

import math

import numpy as np

from legendre.basis.boxes import Boxes
from legendre.core.errors import InvalidBasis
from legendre.data.dense import Dense
from legendre.fitting.boxes.state import Growing

SHARPLY = 1e-4  # half the squared Newton decrement that a refit leaves, as a share of the price
DOUBTFUL = 4.0  # a loss that is estimated at more than this many times the price is not computed by a refit
MOST_PASSES = 8  # times that boxes are added in place of those that were dropped


def price(recipe: Boxes, data: Dense) -> float:
    """Return the gain in KL at which a box pays for itself; 0 where a number of boxes is asked for.

    The best of M boxes is taken, of which there are ``n (n + 1) / 2`` intervals for each mode of n levels.
    """
    if not isinstance(recipe.size, str):
        return 0.0
    if not data.counts:
        raise InvalidBasis(f"{recipe!r} needs counts, for it weighs the fit by their number; X has fractions.")
    penalty = 2.0
    if recipe.size == "bic":
        penalty = math.log(data.total) + 2.0 * sum(math.log(n * (n + 1) / 2) for n in data.shape)
    return penalty / (2.0 * data.total)


def cost(growing: Growing, least: float) -> float:
    """Weigh the fit and the number of its boxes."""
    return growing.kl + least * len(growing.boxes)


def paying(growing: Growing, least: float, own: int) -> Growing:
    """Drop the boxes without which KL, all others fitted again, rises by less than the price; the first `own` stay."""
    goal = SHARPLY * least
    growing = Growing.of(growing.ground, growing.boxes, goal)
    while len(growing.boxes) > own:
        estimate = growing.losses()
        estimate[:own] = np.inf
        tried = [i for i in np.argsort(estimate, kind="stable").tolist() if estimate[i] < DOUBTFUL * least]
        for i in tried:
            less = Growing.of(growing.ground, growing.boxes.of(np.delete(np.arange(len(growing.boxes)), i)), goal)
            if less.kl - growing.kl < least:
                growing = less
                break
        else:
            break
    return growing
