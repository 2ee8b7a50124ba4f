"""How many parameters predict best: counts split into folds, the likelihood of each under a fit to the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from legendre.arrays import FloatArray
from legendre.decomposition import Decomposition
from legendre.growing.search import Search
from legendre.intake import Dense

PATIENCE = 5
"""Rounds without a better score after which growing ends."""


def best_size(search: Search, folds: int) -> int:
    """Grow on all folds at once; return the number of parameters at which the mean held-out likelihood is largest."""
    runs = [scored_path(search, counts) for counts in deal(search.data, folds)]
    sizes: list[int] = []
    scores: list[float] = []
    for stage in zip(*runs, strict=False):  # the shortest path ends the race
        sizes.append(stage[0][0])
        scores.append(sum(score for _, score in stage))
        if len(scores) - 1 - int(np.argmax(scores)) >= PATIENCE:
            break
    return sizes[int(np.argmax(scores))]


def scored_path(search: Search, counts: FloatArray) -> Iterator[tuple[int, float]]:
    """Yield size and log-likelihood of the held-out `counts` along a path grown on the rest."""
    rest = search.on(_train(search.data, counts)).among_uncertain()
    first = rest.first()
    # what the start rules out it rules out in every round: the same minus infinity, which tells nothing
    counted = np.where(first.tensor() > 0, counts, 0.0)
    for fit in rest.forward(first):
        yield fit.n_params, _log_likelihood(fit, counted)


def _log_likelihood(fit: Decomposition, counts: FloatArray) -> float:
    seen = counts > 0
    with np.errstate(divide="ignore"):  # an event that the fit rules out speaks against it without limit
        return float(counts[seen] @ np.log(fit.tensor()[seen] / fit.total))


def _train(data: Dense, counts: FloatArray) -> Dense:
    values = np.where(np.isnan(data.values), 0.0, data.values) - counts
    return replace(data, values=values, total=float(data.total - counts.sum()), positive=False, first_margin=None)


def deal(data: Dense, folds: int) -> Iterator[FloatArray]:
    """Deal every count out to the folds, each event to one of them with equal chances; always the same way."""
    rng = np.random.default_rng(0)
    left = np.where(np.isnan(data.values), 0, data.values).astype(np.int64)
    if data.support.mask is not None:
        left[~data.support.mask] = 0
    for fold in range(folds, 0, -1):
        dealt = rng.binomial(left, 1.0 / fold)
        left -= dealt
        yield dealt.astype(np.float64)
