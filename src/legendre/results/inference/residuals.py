"""How far each count is from its mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.errors import InvalidQuery, unknown_name
from legendre.core.types import FloatArray
from legendre.results.inference.counts import Counts
from legendre.results.inference.wald import Information, leverages

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

KINDS = ("adjusted", "deviance", "pearson")
EXACT = 1e-9
"""Leverages this close to 1 are 1, but for the rounding error of the solve: mean and count are equal, always."""


def residuals(fit: Decomposition, counts: Counts, info: Callable[[], Information], kind: str) -> FloatArray:
    """Put the residuals of one kind on X's grid."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidQuery(unknown_name("kind of residuals", str(kind), KINDS))
    out = np.full(fit.shape, np.nan)
    out[counts.support] = np.nan if kind == "adjusted" else 0.0
    out[counts.alive] = _deviance(counts) if kind == "deviance" else _pearson(counts)
    if kind == "adjusted":
        out[counts.alive] /= _spread(fit, counts, info())
    return out


def _pearson(counts: Counts) -> FloatArray:
    difference: FloatArray = counts.n - counts.mu
    return difference / np.sqrt(counts.mu)


def _deviance(counts: Counts) -> FloatArray:
    signed: FloatArray = np.sign(counts.n - counts.mu) * np.sqrt(counts.deviances())
    return signed


def _spread(fit: Decomposition, counts: Counts, info: Information) -> FloatArray:
    """``sqrt(1 - leverage)`` of each cell that can be positive; NaN where that is 0."""
    leverage = fit.model.quotient.spread(leverages(fit, info))[counts.alive] * counts.mu
    return np.sqrt(np.where(leverage < 1.0 - EXACT, 1.0 - leverage, np.nan))
