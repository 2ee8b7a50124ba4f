"""How many parameters predict best: the loss on what fits to the rest did not see, along paths that grow side by side.

Of counts each event is held out once, and its loss is minus its log-likelihood. Of other tensors each cell is: fits to
the remaining cells predict it, for a model says something about cells that it was not fitted to, and its loss is its
part of the I-divergence, ``p log(p / q) - p + q``. Where X has zeros that is soon infinite, for a fit may rule out what
it did not see; the loss is then the squared error, as a share of the sum of squares of X. It is finite whatever a fit
rules out, so that cells with none of X above them, such as the border of an image, are candidates too; where events
are held out they are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.data.dense import Dense
from legendre.data.support import Support
from legendre.fitting.adaptive.observed_sums import Ground
from legendre.fitting.adaptive.one_round import Search
from legendre.fitting.adaptive.state import State, zeta_at
from legendre.results.growth_path import Round

PATIENCE = 1.5, 12  # growing ends when the basis is so many times as large as the best so far, and so many cells larger


class Scored(NamedTuple):
    """The fit of a round, and the score of what was held out: minus its loss."""

    fit: State
    score: float


class Curve(NamedTuple):
    """Held-out scores, summed over the folds, by the number of parameters."""

    sizes: tuple[int, ...] = ()
    scores: tuple[float, ...] = ()
    spreads: tuple[float, ...] = ()  # standard errors of the scores

    @property
    def best(self) -> int:
        """The number of parameters with the best score so far."""
        return self.sizes[int(np.argmax(self.scores))]

    def with_round(self, size: int, scores: list[float]) -> Curve:
        """Add the scores of the folds at a size."""
        spread = math.nan
        if all(map(math.isfinite, scores)):
            unit = max(map(abs, scores)) or 1.0  # squares of extreme scores would leave the range of float64
            spread = math.sqrt(len(scores)) * unit * float(np.std(np.divide(scores, unit), ddof=1))
        return Curve((*self.sizes, size), (*self.scores, sum(scores)), (*self.spreads, spread))

    def noted(self, rounds: Sequence[Round], unit: float) -> tuple[Round, ...]:
        """Write losses, divided by `unit`, into the rounds of sizes that were tried."""
        known = dict(zip(self.sizes, zip(self.scores, self.spreads, strict=True), strict=True))
        return tuple(
            replace(step, held_out=-known[step.n_params][0] / unit, spread=known[step.n_params][1] / unit)
            if step.n_params in known
            else step
            for step in rounds
        )


def held_out_curve(
    search: Search,
    parts: list[AnyArray],
    say: Say | None = None,
    sizes: Sequence[int] | None = None,
) -> Curve:
    """Grow without each of the parts, all paths side by side, until the best size is surely behind.

    A part is an array of counts or of booleans, see `scored_path`; `sizes` are tried, or those of usual rounds.
    """
    curve, runs = Curve(), [scored_path(search, part, sizes) for part in parts]
    for stage in zip(*runs, strict=False):  # the shortest path ends the race
        size = stage[0].fit.size
        curve = curve.with_round(size, [scored.score for scored in stage])
        if say is not None:
            say(f"{len(parts)} folds   {size} parameters   best so far {curve.best}")
        if size >= PATIENCE[0] * curve.best + PATIENCE[1]:
            break
    return curve


@limit_blas()
def curve_of_cells(data: Dense, sizes: Sequence[int], folds: int, say: Say | None = None) -> Curve:
    """Hold out cells, of counts too, along paths with given numbers of parameters; BLAS runs in one thread."""
    # of the candidates that a criterion has
    search = replace(Search.of(data, "empty", None, max(sizes)), known=False).among_uncertain()
    return held_out_curve(search, list(deal_cells(data, folds)), say, sizes)


def scored_path(search: Search, part: AnyArray, sizes: Sequence[int] | None = None) -> Iterator[Scored]:
    """Yield fits grown without a part of X, and their scores on it.

    They have the given sizes, or those of usual rounds. A part is an array of counts, the events that are held out, or
    of booleans: the cells that are.
    """
    data, of_cells = search.ground.data, part.dtype == np.bool_
    others = _other_cells(data, part) if of_cells else _other_events(data, part)
    search = replace(search, ground=Ground.of(others), known=False)
    search = search if of_cells else search.among_uncertain()
    first = search.first()
    score = _cell_score(data, part, others.total) if of_cells else _event_score(part, first)
    state: State | None = first
    while state is not None:
        yield Scored(state, score(state))
        state = search.larger(state) if sizes is None else _of_next_size(search, state, sizes)


def _of_next_size(search: Search, state: State, sizes: Sequence[int]) -> State | None:
    """Grow to the next of some sizes; ``None`` where there is none, or no candidate is left."""
    size = min((n for n in sizes if n > state.size), default=None)
    larger: State | None = None if size is None else state
    while larger is not None and size is not None and larger.size < size:
        larger = search.larger(larger, size)
    return larger


def _other_events(data: Dense, counts: FloatArray) -> Dense:
    values = np.where(np.isnan(data.values), 0.0, data.values) - counts
    return replace(data, values=values, total=float(data.total - counts.sum()), positive=False, by_mode=())


def _event_score(counts: FloatArray, first: State) -> Callable[[State], float]:
    """Score by the log-likelihood of held-out events."""
    # cells that the start rules out would make the score of every round minus infinity
    counted = np.where(first.at.q > 0, counts.ravel(), 0.0)
    seen = counted > 0

    def score(state: State) -> float:
        with np.errstate(divide="ignore"):  # a fit that rules a held-out event out scores minus infinity
            return float(counted[seen] @ np.log(state.at.q[seen]))

    return score


def _other_cells(data: Dense, cells: BoolArray) -> Dense:
    mask = data.support.on_grid() & ~cells
    own = data.values[mask]
    total, positive = float(own.sum(dtype=np.float64)), bool((own > 0).all())
    return replace(
        data, support=Support(data.shape, mask), total=total, positive=positive, by_mode=(), last_ranking=None
    )


def _cell_score(data: Dense, cells: BoolArray, total: float) -> Callable[[State], float]:
    """Score by minus the I-divergence of held-out cells from their predictions, or by the squared error: see above."""
    places = np.flatnonzero(cells)
    values = data.values.ravel()[places].astype(np.float64)
    log_base = 0.0 if data.base is None else np.log(data.base.ravel()[places])
    squares = 0.0 if data.positive else float(np.square(data.values[data.support.on_grid()] / data.total).sum())

    def score(state: State) -> float:
        # a fit to the other cells sums to 1 there
        log_q = zeta_at(state.ground, state.places, state.at.theta)[places] + log_base - state.at.psi
        if state.dead is not None:
            log_q = np.where(state.dead[places], -np.inf, log_q)
        with np.errstate(over="ignore"):  # a prediction beyond float64 scores minus infinity
            predicted = total * np.exp(log_q)
            if data.positive:
                return -float((predicted - values + values * (np.log(values / total) - log_q)).sum())
            return -float(np.square((predicted - values) / data.total).sum()) / squares * data.total

    return score


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


def deal_cells(data: Dense, folds: int) -> Iterator[BoolArray]:
    """Deal the cells of the support out to the folds, about as many to each; always the same way."""
    places = np.random.default_rng(0).permutation(np.flatnonzero(data.support.on_grid()))
    for fold in range(folds):
        part = np.zeros(data.shape, dtype=np.bool_)
        part.ravel()[places[fold::folds]] = True
        yield part


def not_zero(data: Dense) -> int:
    """Count the cells of the support in which X is not 0."""
    return data.support.n_cells if data.positive else int(np.count_nonzero(data.values[data.support.on_grid()]))
