"""How large a basis grows: to a number, while a criterion falls, or to the size that predicts held-out data best.

Cross-validation divides the data into folds, holds each fold out once, and grows a basis on the others. If X holds
counts, events are held out, and the loss of an event is minus its log-likelihood. Otherwise cells are held out, and
fits to the other cells predict them: a model has values at cells that it was not fitted to. The loss of a cell is its
term of the I-divergence, ``p log(p / q) - p + q``. If X has zeros, that is often infinite, because a fit may give
probability 0 to what it did not see; the loss is then the squared error, as a share of the sum of squares of X. That
is always finite, so cells with none of X above them, such as the border of an image, can be candidates. If events are
held out, they are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Cells
from legendre.basis.parse import as_basis
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels
from legendre.core.progress import Say, show_nothing
from legendre.core.sums.linalg import limit_blas
from legendre.core.tied_parameters import Terms, box_terms
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, frozen
from legendre.data.dense import Dense
from legendre.data.observation import Observation, Support
from legendre.fitting.growing.canonical import sort_modes
from legendre.fitting.growing.coarse import coarsen, observe_boxes, too_large
from legendre.fitting.growing.grow import Search, grow, order_features
from legendre.fitting.growing.state import DataGrid, FactoredCorrelations, State
from legendre.results.growth_path import Grown, GrowthStep, keep_rounds

LEAST_HELD_OUT = 5  # the fewest events, or cells, in a fold


@frozen
class Growth:
    """What growing found: the features in the order of their choice, a start for their last fit, and the rounds."""

    terms: Terms
    theta: FloatArray
    rounds: tuple[GrowthStep, ...]
    recession: FloatArray  # a direction in theta that makes cells vanish, see `State.recession`
    inverse: FactoredCorrelations | None = None  # of the last state; None where it saves the last fit no time
    grown: Grown | None = None  # what `order_basis` needs; None for boxes, which it does not order


def grow_basis(recipe: Adaptive, data: Observation, say: Say = show_nothing) -> Growth:
    """Grow a basis on X by a recipe; `say` shows progress.

    If X is not in memory or very large, it is summed onto a coarser grid, and the cells are chosen among the corners of
    that grid.
    """
    counts = isinstance(recipe.n, str) and data.counts
    if recipe.n in ("aic", "bic") and not counts:
        other = "" if recipe.boxed else " adaptive('cv') holds cells out instead."
        raise InvalidBasis(
            f"{recipe!r} needs counts, because it weighs the fit by their number; X has fractions.{other}"
        )
    if recipe.boxed:
        dense = data.in_memory("boxes", "adaptive(n) and bases that you name take it as it is")
        if data.n_modes > 8:
            raise InvalidBasis(f"{recipe!r} on {data.n_modes} modes: boxes grow on up to 8 modes. Sum modes out.")
    elif too_large(data):
        boxes, recipe, totals = coarsen(data, recipe)
        growth = _grow(recipe, boxes, data.labels, counts, say)
        # back from coordinates of the coarser grid to cells of X
        corners = zip(totals.quotient.cuts, growth.terms.cells.T, strict=True)
        terms = Terms(np.stack([cut[column] for cut, column in corners], axis=1))
        assert growth.grown is not None
        grown = Grown(growth.grown.n_included, totals, boxes.negentropy)
        return replace(growth, terms=terms, inverse=None, grown=grown)
    else:
        dense = data.in_memory("adaptive")
    return _grow(recipe, dense, data.labels, counts, say)


def _grow(recipe: Adaptive, data: Dense, labels: Labels, counts: bool, say: Say) -> Growth:
    """Grow a basis on X in memory, to the size or by the criterion that the recipe names.

    `counts` says whether there is a criterion and X holds counts; it is an argument, because X may have been summed
    over boxes, which no longer show it.
    """
    # grow with modes in an order that X decides (see `canonical`), and bring the cells that the caller named to it
    named = [None if cells is None else as_basis(cells).select(data) for cells in (recipe.include, recipe.candidates)]
    data, axes = sort_modes(data)
    include, candidates = (None if cells is None else Cells(cells[:, axes]) for cells in named)
    with limit_blas():
        search = Search.of(data, replace(recipe, include=include or "empty", candidates=candidates))
        search, curve = _set_end(search, recipe, counts, say)
        state, rounds = grow(search, recipe, say)
        state, inverse = search.finish(state)
        rounds = keep_rounds([*rounds, state.measure()])
        # back to the caller's order of modes
        lo, hi = (corner[:, np.argsort(axes)] for corner in state.grid.corners(state.features))
    terms = box_terms(lo, hi, labels, len(search.start)) if recipe.boxed else Terms(lo)
    path = tuple(rounds) if curve is None else add_losses(rounds, curve, data.total)
    grown = None if recipe.boxed else Grown(len(search.start))
    return Growth(terms, state.theta, path, state.recession, inverse, grown)


def _set_end(search: Search, recipe: Adaptive, counts: bool, say: Say) -> tuple[Search, Curve | None]:
    """Set what ends the growth if a criterion does: the size that ``"cv"`` finds, or the price of a parameter.

    Also return the validation curve of ``"cv"``; ``None`` without one.
    """
    if not isinstance(recipe.n, str):
        return search, None
    search, data = search.exclude_certain() if counts else search, search.grid.data
    if recipe.n != "cv":
        return replace(search, price=_penalty(recipe, data, search) / (2.0 * data.total)), None
    curve = _cross_validate(search, recipe.folds, counts, say)
    # size_given=False repeats the small rounds of the cross-validation of cells: the path has all sizes of the curve
    return replace(search, most=best_size(curve), size_given=counts), curve


def _penalty(recipe: Adaptive, data: Dense, search: Search) -> float:
    """Return the penalty of a parameter on the scale of the deviance: 2 for aic, ``log N + 2 log M`` for bic.

    The latter is the extended BIC (Chen and Chen 2008), because the best of M candidates is taken. N is the sum of X. M
    is the number of cells to choose from; if boxes grow, a mode of n levels has n (n + 1) / 2 intervals.
    """
    if recipe.n == "aic":
        return 2.0
    if search.candidates is None:
        log_number = sum(math.log(n * (n + 1) / 2) for n in data.shape)
    else:
        log_number = math.log(max(int(search.candidates.sum()), 1))
    return math.log(data.total) + 2.0 * log_number


def order_basis(data: Observation, cells: IntArray, theta: FloatArray, grown: Grown) -> IntArray:
    """Return the positions of a grown basis's cells, so that for every m the first m are a good basis.

    Cells that were included come first. `Decomposition.order` asks for it. If the basis grew on boxes of X, it is
    ordered on the same boxes.
    """
    if grown.totals is not None:
        data, cells = observe_boxes(data, grown.totals), grown.totals.quotient.boxes(cells)
    dense, axes = sort_modes(data.in_memory("adaptive"))
    grid = DataGrid.of(dense)
    features = grid.box_features(cells[:, axes])
    search = Search(grid, features.take(np.arange(grown.n_included)), None, len(cells))
    with limit_blas(), np.errstate(all="ignore"):
        return order_features(search, State.of(grid, features, theta))


Curve = dict[int, list[float]]
"""A validation curve: the loss on each held-out fold, by the number of parameters, rising."""


def best_size(curve: Curve) -> int:
    """Return the number of parameters with the least loss, summed over the folds: the size that ``"cv"`` takes."""
    return min(curve, key=lambda size: sum(curve[size]))


def standard_error(losses: Sequence[float]) -> float:
    """Return the standard error of the sum of the losses of the folds; NaN if one is infinite.

    The losses are taken as n independent draws, so their sum has sqrt(n) times the deviation of one.
    """
    return math.sqrt(len(losses)) * float(np.std(losses, ddof=1)) if all(map(math.isfinite, losses)) else math.nan


def add_losses(rounds: Sequence[GrowthStep], curve: Curve, unit: float) -> tuple[GrowthStep, ...]:
    """Return the rounds with held-out losses and their standard errors, for `Decomposition.path`.

    Both are divided by `unit`, the sum of X, and are NaN for sizes that were not tried.
    """
    losses = [curve.get(step.n_params, [math.nan]) for step in rounds]
    return tuple(
        replace(step, held_out=sum(some) / unit, spread=standard_error(some) / unit)
        for step, some in zip(rounds, losses, strict=True)
    )


def hold_out_cells(data: Dense, most: int, folds: int, say: Say = show_nothing) -> Curve:
    """Cross-validate bases of up to `most` parameters by holding cells out, for `decompose` without a basis.

    The cells may be those of X or of a coarser grid.
    """
    with limit_blas():
        return _cross_validate(Search.of(sort_modes(data)[0], Adaptive("cv", max_params=most)), folds, False, say)


def _cross_validate(search: Search, folds: int, counts: bool, say: Say) -> Curve:
    """Cross-validate: grow one basis without each fold, all at the same pace, until the best size has been passed.

    Folds are of events if `counts`, else of cells. Sizes are compared after each round, and growing ends once the size
    exceeds the best one by half and 12 more, which saves the fits of larger bases.
    """
    parts = (_split_events if counts else _split_cells)(search.grid.data, folds)
    curve, paths = Curve(), [held_out_path(search, part) for part in parts]
    for stage in zip(*paths, strict=False):  # one round of each fold; when one of them cannot grow, all end
        size = stage[0][0].theta.size
        curve[size] = [loss for _, loss in stage]
        say(f"{folds} folds   {size} parameters   best so far {best_size(curve)}")
        if size >= 1.5 * best_size(curve) + 12:
            break
    return curve


def held_out_path(search: Search, part: AnyArray) -> Iterator[tuple[State, float]]:
    """Grow a basis without a part of X; yield the fit of each round and its loss on that part.

    `part` has the shape of X. It holds the counts of the events that are held out, or is True for cells that are.
    """
    data, of_cells = search.grid.data, part.dtype == np.bool_
    if of_cells:
        mask = data.support.on_grid() & ~part
        left = data.values[mask]
        support, positive = Support(data.shape, mask), bool((left > 0).all())
        fitted = replace(data, support=support, total=float(left.sum(dtype=np.float64)), positive=positive)
    else:
        values = np.nan_to_num(data.values) - part
        fitted = replace(data, values=values, total=float(data.total - part.sum()), positive=False)
    # `by_mode` was found for all of X. Without a size to reach, rounds are small at first, so that the curve has small
    # sizes too
    search = replace(search, grid=DataGrid.of(replace(fitted, by_mode=())), size_given=False)
    if not of_cells:
        search = search.exclude_certain()
    state: State | None = (first := search.fit_start())
    if not of_cells:  # held-out events with probability 0 under the start would make the loss of every round infinite
        part = np.where(first.q > 0, part.ravel(), 0.0)
    while state is not None:
        yield state, _cell_loss(state, data, part) if of_cells else _event_loss(state, part)
        state = search.add_features(state)


def _event_loss(state: State, counts: FloatArray) -> float:
    """Return minus the log-likelihood of held-out events, in nats; infinity if the fit gives one probability 0.

    `counts` are the numbers of held-out events, over the flat grid.
    """
    with np.errstate(divide="ignore"):
        return -float(counts[counts > 0] @ (state.log_weights[counts > 0] - state.psi))


def _cell_loss(state: State, data: Dense, cells: BoolArray) -> float:
    """Return the loss on held-out cells: the I-divergence from their predictions, or the squared error if X has zeros.

    `data` is X, and `cells` is True for the cells held out. Both losses are on the scale of X: divided by the sum of X
    they are those that the top of this module defines.
    """
    values, total = data.values[cells].astype(np.float64), state.grid.data.total
    # q sums to 1 over the other cells, and `total` is the sum of X there, so total * q predicts X on all cells
    log_q = state.grid.spread(state.features, state.theta)[cells.ravel()] - state.psi
    if data.base is not None:
        log_q += np.log(data.base[cells])
    if state.vanished is not None:
        log_q[state.vanished[cells.ravel()]] = -np.inf
    with np.errstate(over="ignore"):  # a prediction beyond float64 loses infinitely much
        predicted = total * np.exp(log_q)
        if data.positive:
            return float((predicted - values + values * (np.log(values / total) - log_q)).sum())
        squares = np.square(data.values[data.support.on_grid()] / data.total).sum()
        return float(np.square((predicted - values) / data.total).sum() / squares * data.total)


def _split_events(data: Dense, folds: int) -> list[AnyArray]:
    """Split counts into `folds` arrays of counts that add up to X, each event going to any fold with equal chances.

    The seed is fixed, so that a basis is the same each time.
    """
    if not LEAST_HELD_OUT * folds <= data.total < 2.0**53:
        raise InvalidBasis(
            f"adaptive('cv'): X sums to {data.total:g}; {folds} folds take from {LEAST_HELD_OUT * folds} to 2^53 "
            "events. Use adaptive('bic')."
        )
    rng, parts = np.random.default_rng(0), []
    left = np.where(data.support.on_grid(), data.values, 0).astype(np.int64)
    for folds_left in range(folds, 0, -1):  # of the events left, each goes to this fold or to one of those after it
        taken = rng.binomial(left, 1.0 / folds_left)
        left -= taken
        parts.append(taken.astype(np.float64))
    return parts


def _split_cells(data: Dense, folds: int) -> list[AnyArray]:
    """Split the cells of the support at random into `folds` boolean arrays of about equal numbers of cells.

    The seed is fixed, so that a basis is the same each time. Refused are folds that are too small, or that hold all
    cells with X > 0, as nothing would be left to fit.
    """
    places, parts = np.random.default_rng(0).permutation(np.flatnonzero(data.support.on_grid())), []
    for fold in range(folds):
        part = np.zeros(data.shape, dtype=np.bool_)
        part.ravel()[places[fold::folds]] = True
        parts.append(part)
    seen = count_nonzero(data)
    if len(places) < LEAST_HELD_OUT * folds or any(np.count_nonzero(data.values[part]) == seen for part in parts):
        raise InvalidBasis(
            f"adaptive('cv'): X is not 0 in {seen} of {len(places)} cells, too few for {folds} folds of at least "
            f"{LEAST_HELD_OUT} cells, of which none holds all of X. Name a number of parameters, as in adaptive(3)."
        )
    return parts


def count_nonzero(data: Dense) -> int:
    """Count the cells of the support in which X is not 0: whether there are enough of them to hold some out."""
    return data.support.n_cells if data.positive else int(np.count_nonzero(data.values[data.support.on_grid()]))
