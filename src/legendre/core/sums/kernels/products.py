"""The model where Q is a product over modes: psi, eta and the Fisher matrix in closed form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from legendre.core.compiled import ParallelKernel
from legendre.core.sums.kernels import rectangle
from legendre.core.types import FloatArray


@ParallelKernel
def _products(first, last, tails, starts, positions, eta, gram):
    """Lower triangle of the Fisher matrix where Q, and with it eta at a join, is a product over modes."""
    k = positions.shape[1]
    for i in range(first, last):
        u = rectangle.balanced_row(i, k)
        row = gram[u]
        for v in range(u + 1):
            row[v] = 1.0
        for d in range(len(positions)):
            start, a = starts[d], positions[d, u]
            for v in range(u + 1):
                row[v] *= tails[start + max(a, positions[d, v])]
        for v in range(u + 1):
            row[v] -= eta[u] * eta[v]


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
        starts = np.concatenate(([0], np.cumsum([len(t) for t in tails])[:-1])).astype(np.int64)
        _products(len(lengths) * len(eta) ** 2 / 2, len(eta), np.concatenate(tails), starts, columns, eta, gram)
    return float(np.log(total)), eta
