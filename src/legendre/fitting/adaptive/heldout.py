"""How many parameters predict best: counts split into folds, the likelihood of each under a fit to the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from legendre.core.checkpoint import Arrays, Record
from legendre.core.types import FloatArray
from legendre.data.dense import Dense
from legendre.fitting.adaptive.search import Search
from legendre.fitting.adaptive.state import Grown, unpack_state

PATIENCE = 5
"""Rounds without a better score after which growing ends."""


class Scored(NamedTuple):
    """A fit on the way, and the log-likelihood of what was held out."""

    fit: Grown
    score: float


@dataclass(frozen=True, eq=False)
class Race:
    """Paths that grow side by side, one for each fold: their sizes and summed scores so far, and where they stand."""

    sizes: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    stage: tuple[Scored, ...] = ()

    def then(self, stage: tuple[Scored, ...]) -> Race:
        """Add a round of all paths."""
        size, score = stage[0].fit.n_params, sum(scored.score for scored in stage)
        return Race((*self.sizes, size), (*self.scores, score), stage)

    @property
    def best(self) -> int:
        """The place of the highest score."""
        return int(np.argmax(self.scores))

    def pack(self) -> dict[str, Any]:
        """List the arrays from which the race goes on."""
        fits = [scored.fit.pack(f"{fold}_") for fold, scored in enumerate(self.stage)]
        scored = {"sizes": np.array(self.sizes), "scores": np.array(self.scores)}
        return scored | {name: part for fit in fits for name, part in fit.items()}


def best_size(search: Search, folds: int, record: Record | None = None) -> int:
    """Grow on all folds at once; return the number of parameters at which the mean held-out likelihood is largest."""
    with nullcontext() if record is None else record.reading():
        ended = None if record is None else record.result()
        if ended is not None:
            return int(ended["size"])
        race, runs = _start(search, folds, None if record is None else record.take())
    with nullcontext() if record is None else record.kept(lambda: race.pack()):
        for stage in zip(*runs, strict=False):  # the shortest path ends the race
            race = race.then(stage)
            if len(race.scores) - 1 - race.best >= PATIENCE:
                break
            if record is not None:
                record.keep(race.pack)
    size = race.sizes[race.best]
    if record is not None:
        record.close({"size": size})
    return size


def _start(search: Search, folds: int, kept: Arrays | None) -> tuple[Race, list[Iterator[Scored]]]:
    """Begin, or go on from where the paths stood."""
    parts = list(enumerate(deal(search.ground.data, folds)))
    if kept is None or not len(kept["sizes"]):
        return Race(), [scored_path(search, counts) for _, counts in parts]
    runs = [scored_path(search, counts, kept, f"{fold}_") for fold, counts in parts]
    stage = tuple(next(run) for run in runs)
    return Race(tuple(kept["sizes"].tolist()), tuple(kept["scores"].tolist()), stage), runs


def scored_path(search: Search, counts: FloatArray, kept: Arrays | None = None, prefix: str = "") -> Iterator[Scored]:
    """Yield fits along a path grown on all but the held-out `counts`, and their scores; from where it stood if kept."""
    rest = search.on(_train(search.ground.data, counts)).among_uncertain()
    first = rest.first()
    # what the start rules out it rules out in every round: the same minus infinity, which tells nothing
    counted = np.where(first.q > 0, counts, 0.0)
    state: Grown | None = first if kept is None else unpack_state(rest.ground, kept, prefix)
    while state is not None:
        yield Scored(state, _log_likelihood(state, counted))
        state = rest.larger(state)


def _log_likelihood(fit: Grown, counts: FloatArray) -> float:
    seen = counts > 0
    with np.errstate(divide="ignore"):  # an event that the fit rules out speaks against it without limit
        return float(counts[seen] @ np.log(fit.q[seen]))


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
