"""Levels, and pairs of levels, with hardly any data: what a model says of them is no finding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray
from legendre.data.observation import Observation
from legendre.results.effects import Effect
from legendre.results.plots.pair import sums_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def is_scarce(fit: Decomposition, data: Observation | None, effect: Effect) -> BoolArray:
    """Mark the merged levels of an effect that have hardly any data, in a fit of which cells vanish.

    Where X holds counts those with few of them, else those where Q is 0. The factor of such a level is a mean over
    cells where log Q is -inf, or far below all data: as large as a finite theta happens to be. None is marked where a
    table of all levels would have more cells than a picture shows.
    """
    shape = tuple(int(lengths.sum()) for lengths in effect.lengths)
    if not fit.n_vanishing or (len(shape) > 1 and math.prod(shape) > limits.MOST_PIXELS):
        return np.zeros(effect.merged.shape, dtype=np.bool_)
    if data is not None and data.counts:
        few = _merged(sums_of(data, effect.modes), effect) < limits.FEW_COUNTS
        if not few.all():
            return np.asarray(few)
    return np.asarray(_merged(fit.distribution.marginal(list(effect.modes), {}), effect) == 0)


def _merged(table: FloatArray, effect: Effect) -> FloatArray:
    """Sum a table over levels up to one over merged levels."""
    for axis, lengths in enumerate(effect.lengths):
        table = np.add.reduceat(table, np.cumsum(lengths) - lengths, axis=axis)
    return table
