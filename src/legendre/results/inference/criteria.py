"""Akaike's and Schwarz's criterion: what a model is charged for its parameters, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.memory import rows_of
from legendre.core.types import AnyArray
from legendre.data.observation import Observation
from legendre.results.growth_path import GrowthStep
from legendre.solvers.structure.rank import independent, rank_of

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def support_rank(fit: Decomposition) -> float:
    """Count the independent parameters on the whole support, vanishing cells included; NaN where that is not known.

    `Decomposition.rank` counts on the cells that carry probability. At the boundary it is smaller: parameters that run
    to infinity keep cells empty, and they were chosen by the data like any other.
    """
    if fit._alive is None:
        return float("nan") if fit.rank_is_bound else float(fit.rank)
    found = rank_of(fit.model, independent(fit.model))
    return float(found.n) if found.exact else float("nan")


def criteria(log_likelihood: float, rank: float, total: float) -> tuple[float, float]:
    """Return AIC and BIC: minus twice the Poisson log-likelihood, and 2 or log N for each parameter and the constant.

    >>> [round(value, 3) for value in criteria(-10.0, 2, 100.0)]
    [26.0, 33.816]
    """
    return 2.0 * (rank + 1.0) - 2.0 * log_likelihood, float(np.log(total)) * (rank + 1.0) - 2.0 * log_likelihood


def saturated_log_likelihood(data: Observation) -> float | None:
    """Return the Poisson log-likelihood of counts whose means are the counts; ``None`` where X is not in memory."""
    if not data.counts:
        return None
    if (entries := data.entries) is not None:
        return None if entries.even else _saturated(entries.values)
    held = data.here() if data.whole else None
    if held is None:
        return None
    mask = held.support.mask
    return sum(
        _saturated(held.values[rows] if mask is None else held.values[rows][mask[rows]]) for rows in rows_of(held.shape)
    )


def _saturated(counts: AnyArray) -> float:
    from scipy.special import gammaln, xlogy

    n = counts.astype(np.float64)
    return float((xlogy(n, n) - n - gammaln(n + 1.0)).sum())


def rounds_judged(path: Sequence[GrowthStep], fit: Decomposition) -> tuple[GrowthStep, ...]:
    """Give the rounds that led to a fit of counts the criteria that its `inference` reports.

    Parameters of a start that depend on each other are counted once, in every round.
    """
    best = None if fit.data is None else saturated_log_likelihood(fit.data)
    if best is None:
        return tuple(path)
    dependent = fit.n_params - support_rank(fit)
    return tuple(_judged(step, best, dependent, fit.total) for step in path)


def _judged(step: GrowthStep, best: float, dependent: float, total: float) -> GrowthStep:
    aic, bic = criteria(best - total * step.kl, step.n_params - dependent, total)
    return replace(step, aic=aic, bic=bic)
