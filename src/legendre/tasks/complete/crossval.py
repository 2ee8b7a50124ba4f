"""Cross-validation: observed cells are held out in turn, and bases compared by how well they are filled in.

What is held out has the shapes in which cells are missing, unless the caller says which.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSetting
from legendre.core.labels import Labels, Mode
from legendre.core.progress import Say
from legendre.core.text import Columns, Table, shorten
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense, observe
from legendre.fitting.fit import Settings, fit_recipe
from legendre.results.base import Storable
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import find_modes, sum_others, tensor
from legendre.results.views import deviance_terms
from legendre.solvers.structure.identifiability import identify

HoldOut = Mode | Sequence[Mode] | None  # "cells", the modes of the fibres that are held out, or None: like the gaps
Rng = int | np.random.Generator | None  # the same integer always deals in the same way, ``None`` never does
Modes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Folds:
    """Observed cells that are held out together; all but `shares` have the modes in the order `order`.

    Parameters
    ----------
    order
        The modes of X in an order that X itself decides, so that neither folds nor answers depend on theirs.
    shapes, shares
        The shapes of what is held out, the modes of a fibre or none for single cells; and each one's share of the
        missing cells.
    gaps
        For each cell that is missing the number of its shape, -1 for the others.
    held
        For each fold and cell the number of the shape as part of which it is held out, -1 for cells that stay. Folds
        that are empty, or without which X would be zero everywhere, are left out.
    """

    order: list[int]
    shapes: list[Modes]
    shares: FloatArray
    gaps: IntArray
    held: IntArray

    def name(self, labels: Labels) -> str:
        """Name the shapes in words."""
        names = labels.names or range(len(self.order))
        modes = [", ".join(str(names[k]) for k in sorted(self.order[k] for k in shape)) for shape in self.shapes]
        named = [f"fibres along mode {listed}" if listed else "cells" for listed in modes]
        texts = [f"{name} ({share:.0%})" for name, share in zip(named, self.shares, strict=True)]
        return named[0] if len(named) == 1 else ", ".join(texts)


Dealer = Callable[[FloatArray, BoolArray], Folds]  # `deal` with what the caller asked for


def deal(
    values: FloatArray, seen: BoolArray, n_folds: int | None = None, along: Modes | None = None, rng: Rng = 0
) -> Folds:
    """Deal the observed cells into folds; what is dealt does not depend on the order of the modes.

    Each fold holds out as large a share of the observed cells as every other, and of each shape as large a share as it
    has among the missing cells.

    Parameters
    ----------
    values, seen
        X, with 0 for missing cells, and which of its cells were observed.
    n_folds
        The number of folds; at most five where the caller does not say.
    along
        The modes of the fibres that are held out; none for single cells; ``None``: like the gaps.
    rng
        Where random numbers come from.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]])
    >>> dealt = deal(X, X > 0, 2)
    >>> dealt.order, dealt.shapes, dealt.held[0].tolist()
    ([0, 1], [()], [[-1, -1, 0], [-1, 0, 0]])
    """
    order = sorted(range(values.ndim), key=partial(_centre_of_mass, values))
    inside, x = seen.transpose(order), values.transpose(order)
    shapes, gaps = _shapes_of_gaps(inside)
    if along is not None:
        shapes, gaps = [tuple(sorted(order.index(k) for k in along))], np.where(inside, -1, 0)
    missing = np.bincount(gaps[~inside], minlength=len(shapes))
    shares = missing / missing.sum() if missing.any() else np.ones(1)
    groups = [_groups(inside.shape, shape) for shape in shapes]
    n_groups = max(len(np.unique(group[inside])) for group in groups)
    n_folds = min(5, n_groups) if n_folds is None else n_folds
    if n_folds > n_groups:
        what = "fibres with an observed cell" if along else "observed cells"
        raise InvalidSetting(f"folds={n_folds} needs at least as many {what}; X has {n_groups}.")
    held = np.full((n_folds, *inside.shape), -1)
    rng = np.random.default_rng(rng)
    for number, (group, share) in enumerate(zip(groups, shares, strict=True)):
        sizes = np.bincount(group[inside], minlength=group.max() + 1)
        mixed = rng.permutation(np.flatnonzero(sizes))
        before = np.cumsum(sizes[mixed]) - sizes[mixed]
        turn = np.full(len(sizes), n_folds)
        turn[mixed] = before * n_folds // max(sizes.sum() * share, 1.0)
        for fold in range(n_folds):
            held[fold][inside & (held[fold] < 0) & (turn[group] == fold)] = number
    useful = [bool((fold >= 0).any() and (x[inside & (fold < 0)] > 0).any()) for fold in held]
    return Folds(order, shapes, shares, gaps, held[useful])


def _centre_of_mass(values: FloatArray, k: int) -> tuple[int, float]:
    """Return the length of a mode and where the mass of X lies along it: modes are told apart by these.

    Neither depends on the order of the modes or on the unit of X; digits that depend on the order of a sum are cut off.
    """
    mass = sum_others(values, [k])
    return len(mass), round(float(np.average(np.arange(len(mass)), weights=mass)), 9)


def _shapes_of_gaps(seen: BoolArray, least: float = 0.02) -> tuple[list[Modes], IntArray]:
    """Find the shapes of gaps: for each missing cell the largest fibre through it of which nothing was observed.

    A shape with less than the share `least` of the missing cells counts as the next smaller one.
    """
    every = chain.from_iterable(combinations(range(seen.ndim), size) for size in range(seen.ndim))
    left, shapes, gaps = ~seen, list[Modes](), np.full(seen.shape, -1)
    for shape in sorted(every, key=lambda shape: -math.prod(seen.shape[k] for k in shape)):
        found = left & ~seen.any(axis=shape, keepdims=True) if shape else left
        if np.count_nonzero(found) > least * np.count_nonzero(~seen):
            gaps[found], left = len(shapes), left & ~found
            shapes.append(shape)
    gaps[left] = len(shapes) - 1
    return shapes or [()], gaps


def _groups(shape: tuple[int, ...], along: Modes) -> IntArray:
    """Give the cells of each fibre along some modes a number that they share."""
    short = [1 if k in along else n for k, n in enumerate(shape)]
    return np.broadcast_to(np.arange(math.prod(short)).reshape(short), shape)


def read_modes(hold_out: HoldOut, labels: Labels) -> Modes | None:
    """Read what is held out together: the modes of fibres, () for single cells, ``None`` for shapes like the gaps."""
    if hold_out is None or (isinstance(hold_out, str) and hold_out == "cells"):
        return None if hold_out is None else ()
    modes = find_modes(labels, hold_out, "hold_out (None, 'cells', a mode or several modes)", InvalidSetting)
    if not 0 < len(modes) < len(labels.shape):
        every = len(labels.shape)
        raise InvalidSetting(f"hold_out={hold_out!r}: fibres run along at least one mode and not along all {every}.")
    return tuple(sorted(modes))


@dataclass(frozen=True)
class Score:
    """How well a basis fills in held-out cells: means over the folds and their standard errors."""

    basis: str
    rmse: float  # root mean square error in X's units
    rmse_se: float
    deviance: float  # Poisson deviance per cell, see `deviance_terms`; infinite where the model says 0 and X does not
    deviance_se: float
    undetermined: int  # held-out cells that the others do not determine; they are not scored


@dataclass(frozen=True)
class CrossValidation(Storable):
    """The table of a cross-validation; print it.

    Parameters
    ----------
    scores
        One `Score` per candidate, in the order given; NaN for a candidate that leaves most held-out cells undetermined.
    best
        The index of the best candidate.
    n_folds, folds
        The number of folds, and what they consist of: ``"cells"`` or the modes of the fibres.
    held_out, scored
        The number of cells that were held out, and the number of those that every candidate determines.
    criterion
        The criterion by which `best` is chosen.

    See Also
    --------
    complete : Fill missing cells by a model with some basis.
    legendre.results.Completion : The result of `complete`.

    Examples
    --------
    >>> import numpy as np, legendre as ld
    >>> X = np.where(np.eye(4) > 0, np.nan, np.outer([1.0, 2, 3, 5], [4.0, 5, 6, 9]))
    >>> cv = ld.complete(X, ["empty", "B1"], folds=3).cv
    >>> cv.scores[cv.best].basis
    'B1()'
    """

    scores: tuple[Score, ...]
    best: int
    n_folds: int
    folds: str
    held_out: int
    scored: int
    criterion: str

    def tables(self) -> list[Table]:
        """List a row for each basis; the best has a star."""
        rows = [("", "basis", "deviance per cell", "RMSE", "undetermined")]
        for at, score in enumerate(self.scores):
            errors = f"{score.deviance:.5g} +- {score.deviance_se:.2g}", f"{score.rmse:.5g} +- {score.rmse_se:.2g}"
            rows += [("*" if at == self.best else "", score.basis, *errors, str(score.undetermined))]
        lead = f"{self.n_folds} folds of {self.folds}; {self.scored} of {self.held_out} held-out cells scored"
        return [Columns("Cross-validation", rows, "<", lead)]

    def __str__(self) -> str:
        return "\n".join(self.summary().splitlines()[2:])  # without title and rule


def _list_sizes(recipe: Basis, data: Dense, count: int = 8) -> dict[int, Basis]:
    """List the bases to compare in place of one that grows up to a size: sizes spaced evenly in the logarithm."""
    growing = recipe.growing
    if growing is None or isinstance(growing.n, str):
        return {}
    least = max(1, len(as_basis(growing.include).select(data)))
    sizes = np.geomspace(min(least, growing.n), growing.n, count).round()
    return {n: replace(growing, n=n) for n in sorted({int(size) for size in sizes})}


def select(
    data: Dense,
    seen: BoolArray,
    recipes: list[Basis],
    settings: Settings,
    dealer: Dealer,
    criterion: str,
    say: Say | None = None,
    share: float = 1e-3,
) -> tuple[Basis, CrossValidation]:
    """Compare the candidates, and the sizes of those that grow; return the best one and the table.

    Fits to folds are exact to this share of a mean cell (or to tol): held-out errors are far larger.
    """
    offers = [(recipe, _list_sizes(recipe, data)) for recipe in recipes]
    every = [basis for recipe, sizes in offers for basis in sizes.values() or [recipe]]
    values = np.where(seen, np.asarray(data.values, dtype=np.float64), 0.0)
    # a cell of base measure 0 is no test of a model
    inside = seen if data.base is None else seen & (data.base > 0)
    folds = dealer(values, inside)
    if not len(folds.held):
        raise InvalidSetting("folds: without the cells of any fold X is zero everywhere. Leave folds out.")
    answers = []
    for turn, ordered in enumerate(folds.held):
        fold = ordered.transpose(np.argsort(folds.order))
        held, left = fold >= 0, inside & (fold < 0)
        rough = replace(settings, tol=max(settings.tol, share / int(left.sum())), ranked=False)
        part, fits = replace(observe(values, left, data.base), origin=data.origin), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fold's last digits do not matter
            for place, (recipe, sizes) in enumerate(offers):
                if say is not None:
                    done = (turn * len(offers) + place) / (len(folds.held) * len(offers))
                    say(f"fold {turn + 1} of {len(folds.held)}   {shorten(repr(recipe), 60)}", done)
                fit = fit_recipe(part, recipe, rough)
                fits += [fit.at(min(n, fit.n_params)) for n in sizes] or [fit]
            answers.append((values[held], np.array([extrapolate(fit)[0][held] for fit in fits])))
    table = _compare(answers, [repr(basis) for basis in every], criterion, folds.name(data.labels))
    return every[table.best], table


def extrapolate(fit: Decomposition, undetermined: str = "nan") -> tuple[FloatArray, BoolArray | None]:
    """Compute the model's value at every cell in X's units, and mark where the support determines it.

    Where it does not, the value is NaN, or with ``"theta0"`` that of the model whose open parameters are 0. When the
    question is too large, the mark is ``None`` and no value is NaN.
    """
    spread, base = fit.model.quotient.spread, fit.model.base
    value = tensor(fit, extend=True)
    if base is not None:
        value[base == 0] = 0.0
    found = identify(fit.model, fit._alive)
    if found is None:
        return value, None
    value[spread(found.zero)] = 0.0
    determined: BoolArray = np.array(spread(found.value | found.zero))
    if base is not None:
        determined |= base == 0
    if undetermined == "nan":
        value[~determined] = np.nan
    return value, determined


def _compare(
    answers: list[tuple[FloatArray, FloatArray]], names: Sequence[str], criterion: str, folds: str
) -> CrossValidation:
    """Score held-out cells: of each fold X and what the candidates say, NaN where they determine nothing.

    All candidates are scored on the same cells: those that each of them determines, apart from candidates that leave
    most cells undetermined.
    """
    lost = sum(np.isnan(filled).sum(axis=1) for _, filled in answers)
    held_out = sum(len(x) for x, _ in answers)
    usable = lost <= 0.5 * held_out
    if len(names) > 1 and not usable.any():
        raise InvalidBasis(
            f"folds: every candidate leaves more than half of the held-out cells undetermined ({folds}). "
            "Offer smaller bases, or hold out cells instead of fibres: hold_out='cells'."
        )
    common = [~np.isnan(filled[usable]).any(axis=0) & usable.any() for _, filled in answers]
    scored = [(x[ok], filled[:, ok]) for (x, filled), ok in zip(answers, common, strict=True) if ok.any()]
    square = [np.sqrt(np.mean((x - filled) ** 2, axis=1)) for x, filled in scored]
    deviance = [np.mean(np.where(np.isinf(m), np.inf, deviance_terms(x, m)), axis=1) for x, m in scored]
    errors = np.array([deviance, square]).reshape(2, -1, len(names))  # by criterion, fold and candidate
    errors[..., ~usable] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one fold has no standard error, and none has no mean
        means, off = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(len(scored))
    # where the deviance is infinite for several, the RMSE decides
    ranked = np.where(np.isnan(means), np.inf, means)
    best = int(np.lexsort(ranked[::-1] if criterion == "deviance" else ranked[1:])[0])
    numbers = np.stack([means[1], off[1], means[0], off[0]], axis=1).tolist()
    rows = zip(names, numbers, lost, strict=True)
    scores = [Score(name, rmse, rmse_se, dev, dev_se, int(n)) for name, (rmse, rmse_se, dev, dev_se), n in rows]
    n_scored = sum(int(ok.sum()) for ok in common)
    return CrossValidation(tuple(scores), best, len(answers), folds, held_out, n_scored, criterion)
