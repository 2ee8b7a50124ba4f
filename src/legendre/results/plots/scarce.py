"""Levels, and pairs of levels, with hardly any data: what a model says of them is no finding."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray
from legendre.results.effects import Effect

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def is_scarce(fit: Decomposition, effect: Effect) -> BoolArray:
    """Mark the merged levels of an effect that have hardly any data, in a fit of which cells vanish.

    For counts those with few fitted counts, else those where Q is 0. The factor of such a level is a mean over cells
    where log Q is -inf, or far below all data: as large as a finite theta happens to be. None is marked where a table
    of all levels would have more cells than a picture shows.
    """
    shape = tuple(int(lengths.sum()) for lengths in effect.lengths)
    if not fit.n_vanishing or (len(shape) > 1 and math.prod(shape) > limits.MOST_PIXELS):
        return np.zeros(effect.merged.shape, dtype=np.bool_)
    fitted = np.asarray(fit.distribution.marginal(list(effect.modes), {})) * fit.total
    for axis, lengths in enumerate(effect.lengths):
        fitted = np.add.reduceat(fitted, np.cumsum(lengths) - lengths, axis=axis)
    few = fitted < limits.FEW_COUNTS
    return np.asarray(few if has_counts(fit) and not few.all() else fitted == 0)


def has_counts(fit: Decomposition) -> bool:
    """Whether X is at hand and holds counts."""
    return fit.data is not None and fit.data.counts
