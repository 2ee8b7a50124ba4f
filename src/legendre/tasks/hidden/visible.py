"""How well the visible marginal of Q fits X."""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor
from legendre.tasks.hidden.em import visible_sums


def visible_fit(data: Dense, fit: Decomposition) -> tuple[float, float]:
    """Compute KL(P, Q) and the log-likelihood of the visible marginal of Q."""
    means = visible_sums(tensor(fit, extend=False), len(data.shape))
    inside = data.values > 0 if data.support.mask is None else data.support.mask & (data.values > 0)
    p = data.values[inside] / np.float64(data.total)  # in float64, whatever the type of X is
    q = means[inside] / data.total
    lost = np.minimum(q, means[inside]) < np.finfo(np.float64).tiny  # as with a base measure of 1e-200 beside 1
    log_q = np.log(np.where(lost, 1.0, q))
    if lost.any():
        log_q[lost] = _log_visible(fit, np.argwhere(inside)[lost])
    return max(float(p @ (np.log(p) - log_q)), 0.0), data.total * float(p @ log_q)  # rounding may leave -1e-17


def _log_visible(fit: Decomposition, cells: IntArray) -> FloatArray:
    """Sum Q over the hidden levels of some visible cells by logarithms."""
    levels = np.indices(fit.shape[cells.shape[1] :]).reshape(len(fit.shape) - cells.shape[1], -1).T
    joint = np.hstack([np.repeat(cells, len(levels), axis=0), np.tile(levels, (len(cells), 1))])
    return np.asarray(np.logaddexp.reduce(fit.log_prob(joint).reshape(len(cells), -1), axis=1))
