"""Residuals of counts: Pearson's, adjusted for leverage, and those of the deviance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.errors import InvalidBasis, InvalidQuery, unknown_name
from legendre.core.origin import rectangular
from legendre.core.types import FloatArray, IntArray
from legendre.results.distribution import check_formed, checked_cells
from legendre.results.inference.counts import deviances
from legendre.results.inference.wald import leverage_grid, leverages

if TYPE_CHECKING:
    from legendre.results.inference.result import Inference

KINDS = ("adjusted", "deviance", "pearson")
EXACT = 1e-9  # leverages this close to 1 are 1 up to rounding: the model fits such a count exactly, whatever it is


def residuals_of(tests: Inference, kind: str, cells: ArrayLike | None) -> Any:
    """Compute residuals on all of X, in its form; or those of some cells."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidQuery(unknown_name("kind of residuals", str(kind), KINDS))
    fit, counts, support = tests.fit, tests.counts, tests.fit.model.support
    if cells is not None:
        index = checked_cells(rectangular(cells, "cells", InvalidBasis), fit.shape)
        return _at(tests, kind, fit.labels.places(index))
    check_formed(fit.shape, "residuals", "Name some cells: residuals(kind, cells).")
    out = np.full(fit.shape, np.nan)
    if counts.alive is None:
        index = support.cells()
        out[tuple(index.T)] = _at(tests, kind, index)
        return fit.origin.give(out, what="residual")
    out[support.on_grid()] = np.nan if kind == "adjusted" else 0.0
    out[counts.alive] = _raw(kind, counts.n, counts.mu, counts.log_mu)
    if kind == "adjusted":
        out[counts.alive] /= _spread(leverage_grid(fit, tests.information)[counts.alive] * counts.mu)
    return fit.origin.give(out, what="residual")


def _at(tests: Inference, kind: str, cells: IntArray) -> FloatArray:
    fit = tests.fit
    log_mu = fit.distribution.log_prob(cells) + float(np.log(fit.total))
    alive = log_mu > -np.inf
    out = np.where(fit.model.support.contains(cells) & (kind != "adjusted"), 0.0, np.nan)
    cells, log_mu = cells[alive], log_mu[alive]
    mu = np.exp(log_mu)
    out[alive] = _raw(kind, tests.counts.at(cells), mu, log_mu)
    if kind == "adjusted":
        out[alive] /= _spread(leverages(fit, tests.information, fit.model.quotient.boxes(cells)) * mu)
    return out


def _raw(kind: str, n: FloatArray, mu: FloatArray, log_mu: FloatArray) -> FloatArray:
    """Compute deviance residuals, or Pearson's, which adjusted ones begin with."""
    difference = n - mu
    if kind == "deviance":
        return np.asarray(np.sign(difference) * np.sqrt(deviances(n, mu, log_mu)))
    with np.errstate(over="ignore"):
        return difference * np.exp(-0.5 * log_mu) if (mu == 0).any() else difference / np.sqrt(mu)


def _spread(leverage: FloatArray) -> FloatArray:
    """``sqrt(1 - leverage)``; NaN where that is 0."""
    return np.sqrt(np.where(leverage < 1.0 - EXACT, 1.0 - leverage, np.nan))
