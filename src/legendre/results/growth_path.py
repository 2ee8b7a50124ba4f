"""The stages of a basis that grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from legendre.core.sums.quotient import BoxTotals

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


@dataclass(frozen=True)
class GrowthStep:
    """One stage of growing an adaptive basis.

    Parameters
    ----------
    n_params, kl, rmse
        The size of the basis and how well it fits; rmse is NaN where the basis grew on a coarser grid than X's.
    aic, bic
        Akaike's and Schwarz's criterion. For counts those that `Inference` reports; if X does not hold counts, or is
        not in memory, ``2 N KL`` plus 2, or log N, for each parameter, where N is the sum of X, without a constant.

    held_out, spread
        The loss on held-out data, summed over the folds, and the standard error of that sum. For ``adaptive("cv")`` on
        counts, events were held out: minus their log-likelihood, in nats per event. For ``adaptive("cv")`` on other
        tensors, and for `decompose` without a basis, cells were held out: the I-divergence of these cells from their
        predictions, for a sum of X of 1; if X has zeros, their squared error, for a sum of squares of 1. NaN for sizes
        that were not tried, and where nothing was held out.

    See Also
    --------
    adaptive : A basis that the data choose.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> fit = ld.decompose(np.random.default_rng(0).poisson(5.0, (6, 6)), ld.adaptive(12))
    >>> fit.path[-1].n_params
    12
    """

    n_params: int
    kl: float
    rmse: float
    aic: float = math.nan
    bic: float = math.nan
    held_out: float = math.nan
    spread: float = math.nan


def keep_rounds(steps: Sequence[GrowthStep]) -> list[GrowthStep]:
    """Keep the rounds that led to the last one, so that sizes rise and KL falls along the path.

    When features are dropped and others added, rounds before may be at least as large, or fit at least as well, as a
    later one. Those were given up.
    """
    kept: list[GrowthStep] = []
    for last in steps:
        kept = [*(step for step in kept if step.n_params < last.n_params and step.kl > last.kl), last]
    return kept


class Grown(NamedTuple):
    """What is needed to order the cells of a grown basis later, see `order_basis`."""

    n_included: int  # the first cells of the basis, which the caller included
    totals: BoxTotals | None = None  # X summed over boxes, if the basis grew on these
    negentropy: float | None = None  # that of X summed over these boxes


def measure_rounds(rounds: Sequence[GrowthStep], fit: Decomposition) -> tuple[GrowthStep, ...]:
    """Return the rounds that led to a fit, as `Decomposition.path` shows them; the last round is the fit itself.

    Each gets AIC and BIC, those of `Inference` if X holds counts. The fit's own measures may read X twice, so it is
    done when a caller asks for the path.
    """
    from legendre.results.inference.counts import add_criteria

    within, grown = 0.0, fit._grown
    # KL on boxes lacks what X varies within them, which is the same for every round; RMSE on cells is not known
    if grown is not None and grown.negentropy is not None:
        within = fit._observed.negentropy - grown.negentropy
    steps = [replace(step, kl=step.kl + within, rmse=math.nan if within else step.rmse) for step in rounds[:-1]]
    steps.append(replace(rounds[-1], n_params=fit.n_params, kl=fit.kl, rmse=fit.rmse))
    return tuple(add_criteria(steps, fit))
