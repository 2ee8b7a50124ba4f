"""The fit if the caller names no basis: which basis it takes, and the reason that the result prints.

For counts a basis grows while each cell lowers the extended BIC. For everything else cells are held out, and the basis
has the fewest cells whose predictions are within one standard error of the best. So it is for arrays of whole numbers
on which the criterion finds no end, such as images. If X is so large that a basis grows on boxes of cells, boxes are
held out. If that would take too long, or X has too few cells, nothing is held out, and the basis has a fixed size.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

from legendre.basis.adaptive import Adaptive, adaptive
from legendre.basis.basis import Basis
from legendre.basis.interactions import interactions
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.memory import size_name
from legendre.core.progress import Say
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.fitting.fit import Settings, fit_recipe
from legendre.fitting.growing.coarse import coarsen, divisible, too_large
from legendre.fitting.growing.select import (
    LEAST_HELD_OUT,
    Curve,
    add_losses,
    best_size,
    count_nonzero,
    hold_out_cells,
    standard_error,
)
from legendre.fitting.growing.seriate import look_unordered
from legendre.results.decomposition import Decomposition

FOLDS = 5  # parts in which cells are held out


def first_basis(data: Observation) -> Basis:
    """Return the recipe for an X without a named basis, by its size and by whether it holds counts; nothing is fitted.

    If growing a basis would take more than a minute, it is ``interactions(2)``, all pairs of modes, if these have few
    parameters and cells (`limits.FIRST_PAIRS`, `limits.FIRST_PAIR_CELLS`); otherwise ``interactions(1)``.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> first_basis(observe([[4, 1], [2, 5]])), first_basis(observe([[0.4, 0.1, 0.2], [0.2, 0.5, 0.3]]))
    (adaptive('bic', max_params=256), adaptive('cv', max_params=256))
    """
    cells = math.prod(data.shape)
    most = min(limits.FIRST_SIZE, limits.FIRST_WORK // (min(cells, limits.COARSE_BOXES) if too_large(data) else cells))
    # a basis of fewer than 16 parameters is not worth growing: on more than 2^24 cells each round takes a second
    if most < 16 or not (data.whole or divisible(data.shape)):
        free = [length - 1 for length in data.shape]  # parameters of each mode; a pair has their product
        pairs = sum(one * other for one, other in combinations(free, 2))
        few = sum(free) + pairs <= limits.FIRST_PAIRS and cells <= limits.FIRST_PAIR_CELLS
        return interactions(2 if few else 1)
    return adaptive("bic" if data.counts else "cv", max_params=most)


def first_fit(data: Observation, recipe: Basis, settings: Settings, say: Say, *, hint: bool = True) -> Decomposition:
    """Fit the recipe of `first_basis`, and set `Decomposition.reason`, which says why the basis is what it is.

    With `hint`, the reason also names modes without labels whose levels look unordered.
    """
    if recipe.growing is None:
        what = "each pair of levels" if recipe == interactions(2) else "each level"
        size = f"{size_name(math.prod(data.shape))} cells, {data.n_modes} modes"
        why = f"X is too large to grow a basis on within a minute ({size}): this one keeps the sum over {what} as it is"
        return replace(fit_recipe(data, recipe, settings, say), reason=f"{why}.")
    fit = _fit_grown(data, recipe.growing, settings, say)
    levels = data.labels.levels or (None,) * data.n_modes
    bare = [k for k, own in enumerate(levels) if own is None] if hint and data.whole else []
    if not (mixed := [k for k in bare if look_unordered(data, k)]):
        return fit
    names = ", ".join(data.labels.mode(k) for k in mixed)
    said = f"Neighbouring levels of {names} are no more alike than others: if they have no order, unordered={mixed}."
    return replace(fit, reason=f"{fit.reason} {said}")


def _fit_grown(data: Observation, recipe: Adaptive, settings: Settings, say: Say) -> Decomposition:
    """Grow by the BIC; for an X without counts, or if that finds no end, to the size that held-out cells choose.

    The end is not trusted if the basis has nearly as many parameters as it may have, and X is an array of whole numbers
    that may not be counts, such as an image. Cells are held out then too, or boxes of them, unless there are too few or
    it would take long: then the basis grows to a fixed size.
    """
    most, lead, end = recipe.max_params or 1, "", ""  # `lead` and `end`: the first and the last words of the reason
    if recipe.n == "bic":
        fit = fit_recipe(data, recipe, settings, say)
        # near the limit a criterion may have stopped because of it; rows, entries and tables surely are counts
        ended = fit.n_params < 0.9 * most
        counts = data.origin.counted or data.entries is not None or data.origin.form in ("rows", "series", "table")
        # a model that does not hold raises X2, so that X varies less than counts if it does so beside any model
        unsure = not data.origin.counted and data.entries is None and (counts or ended)
        models = [fit, fit_recipe(data, interactions(1), settings, say)] if unsure else []
        measured = any(model.inference()._varies_too_little() for model in models if model.converged)
        if counts or (ended and not measured):
            doubt = " It varies less than counts do: if it holds measurements, pass counts=False." if measured else ""
            return replace(fit, reason=f"{_explain_criterion(fit.n_params, ended, most)}{doubt}")
        lead = f"the extended BIC led to {_parameters(fit.n_params)}, so "
        if measured:
            lead = "X holds whole numbers that vary less than counts do, so "
            data = replace(data, origin=replace(data.origin, counted=False))
        end = " If X holds counts, as rows and tables of pandas are taken to do, pass counts=True."
    most = max(1, min(most, data.support.n_cells // 4))  # at least four cells for each parameter
    coarse = too_large(data)
    # its cells are held out: those of X, or of X summed over boxes
    dense = coarsen(data, Adaptive(most))[0] if coarse else data.in_memory("adaptive")
    if (why_not := why_none_held_out(dense)) is not None:
        fit = fit_recipe(data, adaptive(most), settings, say)
        size = f"grown to {_parameters(fit.n_params)}"
        more = f", the most for a first look at an X of this size. For more: adaptive({2 * most})."
        return replace(fit, reason=f"{size}{more if fit.n_params == most else ', all that lower KL.'} {why_not}")
    curve = hold_out_cells(dense, most, FOLDS, say)
    n = find_fewest(curve)
    fit = fit_recipe(data, adaptive(n) if n else as_basis("empty"), settings, say)
    what = f"{math.prod(dense.shape):,} boxes of cells" if coarse else "cells"
    loss = "I-divergence" if dense.positive else "squared error"
    shares = {size: [fold / dense.total for fold in losses] for size, losses in curve.items()}
    why = _explain_size(shares, n, what, loss, most)
    return replace(fit, _rounds=add_losses(fit._rounds, curve, dense.total), reason=f"{lead}{why}{end}")


def find_fewest(curve: Curve) -> int:
    """Return the fewest parameters whose loss on held-out cells is within one standard error of the least.

    This one-standard-error rule (Breiman, Friedman, Olshen and Stone 1984) prefers a small basis.

    >>> find_fewest({0: [1.0, 1.0], 5: [0.5, 0.55], 8: [0.45, 0.55]})
    5
    """
    best = curve[best_size(curve)]
    spread = standard_error(best)
    most = sum(best) + (spread if math.isfinite(spread) else 0.0)
    return next(size for size, losses in curve.items() if sum(losses) <= most)


def why_none_held_out(data: Dense) -> str | None:
    """Return the sentence that says why no cells of X, or boxes of them, are held out; ``None`` if they can be.

    The basis then has a fixed size, and the sentence is part of `Decomposition.reason`.
    """
    if count_nonzero(data) < LEAST_HELD_OUT * FOLDS:
        return "X has too few cells that are not 0 to hold some out."
    if math.prod(data.shape) * data.n_modes > limits.FIRST_HELD_OUT:
        return "No cells were held out, which would take more than some seconds for an X of this size."
    return None


def _explain_criterion(n: int, ended: bool, most: int) -> str:
    """Return the reason for a basis of n parameters that the BIC chose; `ended`: it stopped before the limit `most`."""
    if not n:
        return "X holds counts: no parameter lowers the extended BIC: cells differ no more than by chance."
    grown = "X holds counts: parameters were added as long as each lowered the extended BIC"
    if ended:
        return f"{grown}; that stopped at {_parameters(n)}."
    more = f"adaptive('bic', max_params={2 * most})"
    return f"{grown}, up to {_parameters(n)}; a first look takes at most {most}. For more: {more}."


def _explain_size(curve: Curve, n: int, what: str, loss: str, most: int) -> str:
    """Return the reason for a basis of n parameters that held-out cells chose, with the losses of `curve`.

    `what` was held out, `loss` names the measure, and `most` is the largest number of parameters that was tried.
    """
    best = best_size(curve)
    least, spread = sum(curve[best]), standard_error(curve[best])
    said = (
        f"{what} were held out, in {FOLDS} parts, and predicted by fits to the others: best with {_parameters(best)} "
        f"({loss} {least:.4g}, standard error {spread:.2g}; {sum(curve[0]):.4g} without parameters)"
    )
    if n < best:
        said += f"; {n} {'is' if n == 1 else 'are'} the fewest within one standard error of that ({sum(curve[n]):.4g})"
    falling = f" The loss was still falling at {best}; for more: adaptive('cv', max_params={2 * most})."
    return f"{said}.{falling if best >= most else ''}"


def _parameters(n: int) -> str:
    """Write a number of parameters, for the sentences of a reason."""
    return "1 parameter" if n == 1 else f"{n} parameters"
