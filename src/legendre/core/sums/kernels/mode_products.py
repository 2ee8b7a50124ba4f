"""Psi, eta and the Fisher matrix in closed form where Q is a product over modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from legendre.core.sums.kernels.rectangle import balanced_row, check_gram, check_positions, threads
from legendre.core.types import FloatArray


@njit(cache=True, parallel=True)
def _products(tails, starts, positions, eta, gram):
    """Lower triangle of the Fisher matrix where Q, and with it eta at a join, is a product over modes."""
    k = positions.shape[1]
    for i in prange(k):
        u = balanced_row(i, k)
        row = gram[u]
        row[: u + 1] = 1.0
        for d in range(len(positions)):
            tail, line, a = tails[starts[d] :], positions[d], positions[d, u]
            for v in range(u + 1):
                row[v] *= tail[max(a, line[v])]
        for v in range(u + 1):
            row[v] -= eta[u] * eta[v]


def products(
    lengths: Sequence[NDArray[Any]], positions: NDArray[Any], gram: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """Compute psi and eta of a product over modes in closed form (and the Fisher matrix into gram's lower triangle).

    lengths[k]: the weight of each box of mode k; lengths alone make the uniform distribution.  Rows come as in
    `positions`.  This is the first step of every fit that starts at such a product: no sweep.
    """
    check_positions(positions, [len(n) for n in lengths])
    check_gram(len(positions), gram)
    tails = [np.cumsum(np.asarray(n, float)[::-1])[::-1] for n in lengths]
    total = float(np.prod([t[0] for t in tails]))
    tails = [t / t[0] for t in tails]
    columns = np.ascontiguousarray(positions.T, np.int64)
    eta = np.ones(len(positions))
    for t, c in zip(tails, columns, strict=True):
        eta *= t[c]
    if gram is not None:
        starts = np.concatenate(([0], np.cumsum([len(t) for t in tails])[:-1])).astype(np.int64)
        with threads(len(lengths) * len(eta) ** 2 / 2):
            _products(np.concatenate(tails), starts, columns, eta, gram)
    return float(np.log(total)), eta
