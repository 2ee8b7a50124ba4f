"""The saturated model of partially classified counts: the largest likelihood that any probabilities have.

It is concave in the probabilities, so that its maximum is known with a certificate, whatever the margins are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core.types import FloatArray
from legendre.tasks.loglinear.observed import Margin

CLOSE = 1e-8  # by how much the maximum may exceed what is reported, relative to the number of rows (at most 1,000)
SPREADING = 30  # steps of expectation-maximisation before the first of Newton's
MOST_STEPS = 200  # Newton steps; about ten suffice
HALVINGS = 40  # how often a step is halved


@dataclass(frozen=True, eq=False)
class Saturated:
    """The maximum, where it is, and by how much it may be too small."""

    log_likelihood: float
    q: FloatArray
    gap: float


def saturated(margins: tuple[Margin, ...]) -> Saturated:
    """Maximise ``sum of n log(q summed over the cells of an entry)`` over all probabilities q.

    The constrained Newton method of Wang (2007): each step solves a problem of nonnegative least squares. Where
    ``D = sum of n / (N q_entry)`` over the entries of a cell is at most 1 everywhere, this is the maximum; the gap is
    at most ``N (max D - 1)``.
    """
    matrix = np.vstack([margin.matrix[margin.counts > 0].toarray() for margin in margins])
    n = np.concatenate([margin.counts[margin.counts > 0] for margin in margins])
    total = float(n.sum())
    q = np.full(matrix.shape[1], 1.0 / matrix.shape[1])
    for _ in range(SPREADING):
        q = q * (matrix.T @ (n / (matrix @ q))) / total
    best = Saturated(_value(matrix, n, q), q, np.inf)
    for _ in range(MOST_STEPS):
        entry = matrix @ best.q
        slopes = matrix.T @ (n / entry) / total
        best = Saturated(best.log_likelihood, best.q, total * max(float(slopes.max()) - 1.0, 0.0))
        if best.gap <= close(total):
            break
        following = _stepped(matrix, n, best, _proposed(matrix / entry[:, None], n / total))
        if following is None:
            following = _stepped(matrix, n, best, best.q * slopes)
        if following is None:
            break
        best = following
    return best


def close(total: float) -> float:
    """Return by how much the maximum may exceed what is reported, for this number of rows."""
    return CLOSE * min(total, 1e3)


def _proposed(ratios: FloatArray, weights: FloatArray) -> FloatArray | None:
    """Minimise the quadratic approximation over all probabilities (Dax 1990: the sum of 1 is one more row)."""
    from scipy.optimize import nnls

    rows = np.sqrt(weights)[:, None] * (ratios - 2.0)
    try:
        found, _ = nnls(np.vstack([rows, np.ones(rows.shape[1])]), np.append(np.zeros(len(rows)), 1.0))
    except RuntimeError:  # too many changes of its active set
        return None
    return np.asarray(found / found.sum()) if found.sum() > 0 else None


def _stepped(matrix: FloatArray, n: FloatArray, now: Saturated, aim: FloatArray | None) -> Saturated | None:
    """Go towards some probabilities as far as the likelihood rises; ``None`` where it does not.

    It does not call `solvers.linesearch`, which moves theta: here the probabilities move, and there is no basis.
    """
    if aim is None:
        return None
    length = 1.0
    for _ in range(HALVINGS):
        q = now.q + length * (aim - now.q)
        value = _value(matrix, n, q)
        if value > now.log_likelihood:
            return Saturated(value, q, np.inf)
        length /= 2.0
    return None


def _value(matrix: FloatArray, n: FloatArray, q: FloatArray) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(n @ np.log(matrix @ q))
