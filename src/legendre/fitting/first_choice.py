"""A first fit without choices: which basis to take where the caller names none, and why.

Counts are described by a basis that grows while a criterion says that a cell pays for itself. For everything else, and
for arrays of whole numbers on which the criterion finds no end, such as images, cells are held out, and the basis is
the smallest that predicts them as well as the best does, within a standard error. Of an X so large that a basis grows
on boxes of cells, boxes are held out. Nothing is where that takes too long, or X has too few cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from legendre.basis.adaptive import Adaptive, adaptive
from legendre.basis.basis import Basis
from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.memory import size_name
from legendre.core.progress import Say
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation
from legendre.fitting.fit import Settings, fit_recipe
from legendre.fitting.growing.coarse import divisible, observe_boxes, too_large
from legendre.fitting.growing.select import LEAST_HELD_OUT, count_nonzero, curve_of_cells, note_losses
from legendre.fitting.growing.seriate import look_unordered
from legendre.results.decomposition import Decomposition
from legendre.results.growth_path import GrowthStep, add_round

FOLDS = 5


def first_basis(data: Observation) -> Basis:
    """Choose a basis by the size of X and by whether it holds counts; nothing is fitted.

    Where growing one would take more than a minute it is that of pairs of modes, if these are few, or of single modes.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> first_basis(observe([[4, 1], [2, 5]])), first_basis(observe([[0.4, 0.1, 0.2], [0.2, 0.5, 0.3]]))
    (adaptive('bic', max_params=256), adaptive(1))
    >>> import numpy as np
    >>> first_basis(observe(np.random.default_rng(0).random((8, 6))))
    adaptive('cv', max_params=12)
    """
    cells = math.prod(data.shape)
    most = min(limits.FIRST_SIZE, limits.FIRST_WORK // (min(cells, limits.COARSE_BOXES) if too_large(data) else cells))
    # for fewer parameters growing is not worth while: on more than 2^24 cells each round takes a second
    if most < 16 or not (data.whole or divisible(data.shape)):
        free = [length - 1 for length in data.shape]
        pairs = (sum(free) ** 2 - sum(n * n for n in free)) // 2
        few = sum(free) + pairs <= limits.FIRST_PAIRS and cells <= limits.FIRST_PAIR_CELLS
        return interactions(2 if few else 1)
    if data.counts:
        return adaptive("bic", max_params=most)
    most = max(1, min(most, data.support.n_cells // 4))  # where no criterion limits their number
    if too_large(data) or why_none_held_out(in_memory(data, "adaptive")):
        return adaptive(most)
    return adaptive("cv", max_params=most)


def explain(
    data: Observation, recipe: Basis, fit: Decomposition, settings: Settings, say: Say | None, *, hint: bool = True
) -> Decomposition:
    """Cut a first fit to the size that held-out cells ask for, and say why it is what it is.

    With `hint` modes without labels are named whose levels look unordered.
    """
    fit = _choose_size(data, recipe, fit, settings, say)
    levels = data.labels.levels or (None,) * len(data.shape)
    bare = [k for k, own in enumerate(levels) if own is None] if hint and data.whole and recipe.growing else []
    if not (mixed := [k for k in bare if look_unordered(data, k)]):
        return fit
    names = ", ".join(data.labels.mode(k) for k in mixed)
    said = f"Neighbouring levels of {names} are no more alike than others: if they have no order, unordered={mixed}."
    return replace(fit, reason=f"{fit.reason} {said}")


def _choose_size(
    data: Observation, recipe: Basis, fit: Decomposition, settings: Settings, say: Say | None
) -> Decomposition:
    growing = recipe.growing
    if growing is None:
        what = "each pair of levels" if fit.recipe == repr(interactions(2)) else "each level"
        size = f"{size_name(math.prod(fit.shape))} cells, {len(fit.shape)} modes"
        return replace(
            fit,
            reason=f"X is too large to grow a basis on within a minute ({size}): this one keeps the sum over {what} as "
            "it is.",
        )
    most = growing.max_params or 0
    # next to the limit a criterion may have ended there because of it; rows, entries and tables surely are counts
    ended = fit.n_params < 0.9 * most
    counted = data.origin.counted or data.entries is not None or data.origin.form in ("rows", "series", "table")
    if growing.n == "bic" and (ended or counted):
        return replace(fit, reason=_why_criterion(fit, ended, most))
    if fit.path[0].kl < 1e-12:  # but for rounding
        return _part(data, fit, growing, settings, 0, "X is the same in every cell, which takes no parameter.")
    totals = None if fit._grown is None else fit._grown.totals
    seen = in_memory(data, "adaptive") if totals is None else observe_boxes(data, totals)
    lead, end, limit = "", "", most
    if (why_not := why_none_held_out(seen)) is not None:
        return replace(fit, reason=f"{_why_size(fit, growing)} {why_not}")
    if growing.n != "cv":
        limit = fit.n_params
        if growing.n == "bic":
            lead = f"the extended BIC led to {_parameters(limit)}, so "
            end = " If X holds counts, as rows and tables of pandas are taken to do, pass counts=True."
        curve = curve_of_cells(seen, [step.n_params for step in fit.path], FOLDS, say)
        fit = replace(fit, _rounds=note_losses(fit.path, curve, seen.total), _negentropy=None)
    n = fewest(fit.path)
    what = "cells" if totals is None else f"{math.prod(seen.shape):,} boxes of cells"
    loss = "I-divergence" if seen.positive else "squared error"
    return _part(data, fit, growing, settings, n, lead + _why_held_out(fit.path, n, what, loss, limit, growing) + end)


def _part(
    data: Observation, fit: Decomposition, growing: Adaptive, settings: Settings, n: int, reason: str
) -> Decomposition:
    """Fit n cells, with the rounds that led to as many: those that matter most in the larger basis.

    Where the round of n fitted closer than these do, leaving cells out one by one has led astray, and a basis is
    grown to n.
    """
    if n == fit.n_params:
        return replace(fit, reason=reason)
    then = next(step for step in fit.path if step.n_params == n)
    part, recipe = fit.at(n), f"{growing!r}.at({n})"
    if n and part.kl > then.kl:
        grown = fit_recipe(data, replace(growing, n=n, max_params=None), settings)
        if grown.n_params == n and grown.kl < part.kl:
            part, recipe = grown, grown.recipe
    end = GrowthStep.measured(n, part.kl, part.rmse, part.total)
    path = add_round(fit.path, replace(end, held_out=then.held_out, spread=then.spread))
    return replace(part, recipe=recipe, _rounds=tuple(path), _negentropy=None, reason=reason)


def fewest(path: Sequence[GrowthStep]) -> int:
    """Return the fewest parameters whose loss on held-out cells is within one standard error of the least.

    >>> losses = [(0, 2.0), (5, 1.05), (8, 1.0), (9, math.nan)]
    >>> path = [GrowthStep(n, 1.0, 0.0, 0.0, 0.0, loss, 0.1) for n, loss in losses]
    >>> fewest(path)
    5
    """
    best = _best(path)
    most = best.held_out + (best.spread if math.isfinite(best.spread) else 0.0)
    return next(step.n_params for step in path if step.held_out <= most)


def _best(path: Sequence[GrowthStep]) -> GrowthStep:
    return min((step for step in path if not math.isnan(step.held_out)), key=lambda step: step.held_out)


def why_none_held_out(data: Dense) -> str | None:
    """Say why no cells of X, or boxes of them, are held out; ``None`` where they can be."""
    if count_nonzero(data) < LEAST_HELD_OUT * FOLDS:
        return "X has too few cells that are not 0 to hold some out."
    if math.prod(data.shape) * len(data.shape) > limits.FIRST_HELD_OUT:
        return "No cells were held out, which would take more than some seconds for an X of this size."
    return None


def _why_criterion(fit: Decomposition, ended: bool, most: int) -> str:
    if not fit.n_params:
        return "X holds counts: no parameter lowers the extended BIC, for cells differ by no more than chance may do."
    grown = "X holds counts: grown while each parameter lowered the extended BIC,"
    if ended:
        return f"{grown} which ended at {fit.n_params}."
    return (
        f"{grown} up to {_parameters(fit.n_params)}; a first look takes at most {most}. For more: "
        f"adaptive('bic', max_params={2 * most})."
    )


def _why_size(fit: Decomposition, growing: Adaptive) -> str:
    if isinstance(growing.n, int) and fit.n_params < growing.n:
        return f"grown until no cell was left that lowers KL, at {_parameters(fit.n_params)}."
    more = f"'bic', max_params={2 * fit.n_params}" if isinstance(growing.n, str) else str(2 * growing.n)
    return (
        f"grown to {_parameters(fit.n_params)}, the most for a first look at an X of this size; KL was still falling. "
        f"For more: adaptive({more})."
    )


def _why_held_out(path: Sequence[GrowthStep], n: int, what: str, loss: str, limit: int, growing: Adaptive) -> str:
    """Say in numbers what held-out cells say."""
    losses, best = {step.n_params: step.held_out for step in path}, _best(path)
    uniform = f"; {losses[0]:.4g} without parameters" if 0 in losses else ""  # not on a path that began with a rise
    said = (
        f"{what} were held out, in {FOLDS} parts, and predicted by fits to the others: best with "
        f"{_parameters(best.n_params)} ({loss} {best.held_out:.4g}, standard error {best.spread:.2g}{uniform})"
    )
    if n < best.n_params:
        said += f"; {n} {'is' if n == 1 else 'are'} the fewest within one standard error of that ({losses[n]:.4g})"
    if best.n_params < limit:
        return f"{said}."
    more = 2 * growing.n if isinstance(growing.n, int) else f"{growing.n!r}, max_params={2 * (growing.max_params or 1)}"
    return f"{said}. The loss was still falling at {best.n_params}; for more: adaptive({more})."


def _parameters(n: int) -> str:
    return "1 parameter" if n == 1 else f"{n} parameters"
