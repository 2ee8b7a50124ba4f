"""The model where Q is a product over modes: psi, eta and the Fisher matrix in closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.sums.kernels import rectangle
from legendre.core.types import FloatArray

ROWS = 64  # of the Fisher matrix, filled together: with a thousand parameters they stay in second-level cache


def products(
    lengths: Sequence[NDArray[Any]], positions: NDArray[Any], gram: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Compute psi and eta of a product over modes (and the Fisher matrix into gram's lower triangle) without a sweep.

    lengths[k]: the weight of each box of mode k; lengths alone make the uniform distribution, where fits begin.
    """
    rectangle.check_positions(positions, [len(n) for n in lengths])
    rectangle.check_gram(len(positions), gram)
    tails = [np.cumsum(np.asarray(n, float)[::-1])[::-1] for n in lengths]
    total = float(np.prod([t[0] for t in tails]))
    tails = [t / t[0] for t in tails]
    columns = np.ascontiguousarray(positions.T, np.int64)
    eta = np.ones(len(positions))
    for t, c in zip(tails, columns, strict=True):
        eta *= t[c]
    if gram is not None:
        for first in range(0, len(eta), ROWS):
            rows, before = slice(first, first + ROWS), slice(0, first + ROWS)
            part = -np.outer(eta[rows], eta[before])
            part += math.prod(t.take(np.maximum(c[rows, None], c[before])) for t, c in zip(tails, columns, strict=True))
            gram[rows, before] = part
    return float(np.log(total)), eta
