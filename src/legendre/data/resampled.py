"""X with other counts on the same sample space: what a bootstrap fits."""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.data.support import Support


def with_counts(data: Observation, counts: FloatArray) -> Observation:
    """Replace the entries of X on the cells of Omega, in C order.

    >>> from legendre.data.dense import observe
    >>> with_counts(observe([[1, 2], [3, 4]]), np.array([4.0, 3.0, 2.0, 1.0])).values.tolist()
    [[4.0, 3.0], [2.0, 1.0]]
    """
    inside = data.support.on_grid()
    values = np.zeros(data.shape)
    values[inside] = counts
    support = Support(data.shape, None if data.support.full else inside)
    return Dense(support, data.base, data.missing, float(counts.sum()), bool((counts > 0).all()), values=values)
