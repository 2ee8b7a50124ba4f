"""Levels, and pairs of levels, with hardly any data: what a model says of them is no finding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray
from legendre.data.observation import Observation
from legendre.results.effects import Effect
from legendre.results.plots.pair import inside_of, sums_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def is_scarce(fit: Decomposition, data: Observation | None, effect: Effect) -> BoolArray:
    """Mark the merged levels of an effect that have no cell in the sample space, or hardly any data if cells vanish.

    Where X holds counts those with few of them, else those where Q is 0. The factor of such a level is a mean over
    cells where log Q is -inf, or far below all data: as large as a finite theta happens to be. None is marked where a
    table of all levels would have more cells than a picture shows.
    """
    shape = tuple(int(lengths.sum()) for lengths in effect.lengths)
    if len(shape) > 1 and math.prod(shape) > limits.MOST_PIXELS:
        return np.zeros(effect.merged.shape, dtype=np.bool_)
    unseen = np.asarray(_merged(inside_of(fit.model.support, effect.modes).astype(np.float64), effect) == 0)
    if not fit.n_vanishing:
        return unseen
    if data is not None and data.counts:
        few = _merged(sums_of(data, effect.modes), effect) < limits.FEW_COUNTS
        if not few.all():
            return np.asarray(few | unseen)
    zero = _merged(fit.distribution.marginal(list(effect.modes), {}), effect) == 0
    return np.asarray(zero | unseen)


def _merged(table: FloatArray, effect: Effect) -> FloatArray:
    """Sum a table over levels up to one over merged levels."""
    for axis, lengths in enumerate(effect.lengths):
        table = np.add.reduceat(table, np.cumsum(lengths) - lengths, axis=axis)
    return table
