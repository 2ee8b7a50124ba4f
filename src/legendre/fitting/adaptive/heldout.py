"""How many parameters predict best: counts split into folds, the likelihood of each under a fit to the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from legendre.core import stored
from legendre.core.checkpoint import Arrays, Record
from legendre.core.progress import Say
from legendre.core.types import FloatArray
from legendre.data.dense import Dense
from legendre.fitting.adaptive.ground import Ground
from legendre.fitting.adaptive.search import Search
from legendre.fitting.adaptive.state import State

PATIENCE = 1.5, 12  # growing ends when the basis is so many times as large as the best so far, and so many cells larger


class Scored(NamedTuple):
    """The fit of a round, and the log-likelihood of what was held out."""

    fit: State
    score: float


class Race(NamedTuple):
    """Paths that grow side by side, one for each fold."""

    sizes: tuple[int, ...] = ()  # numbers of parameters, round by round
    scores: tuple[float, ...] = ()  # scores, summed over the folds
    stage: tuple[Scored, ...] = ()  # the last round

    @property
    def best(self) -> int:
        """The number of parameters with the best score so far."""
        return self.sizes[int(np.argmax(self.scores))]

    def pack(self) -> dict[str, Any]:
        """List the arrays from which the race goes on."""
        out: dict[str, Any] = {"sizes": np.array(self.sizes), "scores": np.array(self.scores)}
        for fold, scored in enumerate(self.stage):
            out |= scored.fit.pack(f"{fold}_")
        return out


def best_size(search: Search, folds: int, record: Record | None = None, say: Say | None = None) -> int:
    """Grow on all folds at once; return the number of parameters at which the mean held-out likelihood is largest."""
    with nullcontext() if record is None else record.reading():
        ended = None if record is None else record.result()
        if ended is not None:
            return stored.whole(ended, "size", len(search.start), search.most)
        race, runs = _start(search, folds, None if record is None else record.take())
    with nullcontext() if record is None else record.kept(lambda: race.pack()):
        for stage in zip(*runs, strict=False):  # the shortest path ends the race
            size, score = stage[0].fit.size, sum(scored.score for scored in stage)
            race = Race((*race.sizes, size), (*race.scores, score), stage)
            if say is not None:
                say(f"{folds} folds   {size} parameters   best so far {race.best}")
            if size >= PATIENCE[0] * race.best + PATIENCE[1]:
                break
            if record is not None:
                record.keep(race.pack)
    if record is not None:
        record.close({"size": race.best})
    return race.best


def _start(search: Search, folds: int, kept: Arrays | None) -> tuple[Race, list[Iterator[Scored]]]:
    """Begin, or go on from the round that was kept."""
    parts = list(deal(search.ground.data, folds))
    if kept is None or not np.size(kept["sizes"]):
        return Race(), [scored_path(search, counts) for counts in parts]
    runs = [scored_path(search, counts, kept, f"{fold}_") for fold, counts in enumerate(parts)]
    stage = tuple(next(run) for run in runs)
    sizes, scores = kept["sizes"], stored.floats(kept, "scores", len(kept["sizes"]), finite=False)
    if sizes.dtype.kind not in "iu" or sizes[-1] != stage[0].fit.size or np.isnan(scores).any():
        raise ValueError("sizes are not those of the cells")
    return Race(tuple(sizes.tolist()), tuple(scores.tolist()), stage), runs


def scored_path(search: Search, counts: FloatArray, kept: Arrays | None = None, prefix: str = "") -> Iterator[Scored]:
    """Yield fits grown on all but the held-out `counts`, and their scores; from the round that was kept, if any."""
    data = search.ground.data
    values = np.where(np.isnan(data.values), 0.0, data.values) - counts
    others = replace(data, values=values, total=float(data.total - counts.sum()), positive=False, first_margin=None)
    search = replace(search, ground=Ground.of(others), known=False, always_fresh=True).among_uncertain()
    first = search.first()
    # cells that the start rules out would make the score of every round minus infinity
    counted = np.where(first.at.q > 0, counts.ravel(), 0.0)
    seen = counted > 0
    state: State | None = first if kept is None else State.unpack(search.ground, kept, prefix).anchored()
    while state is not None:
        with np.errstate(divide="ignore"):  # a fit that rules a held-out event out scores minus infinity
            score = float(counted[seen] @ np.log(state.at.q[seen]))
        yield Scored(state, score)
        state = search.larger(state)


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
