"""Cross-validation: observed cells are held out in turn, and bases compared by how well they are filled in."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSetting
from legendre.core.progress import Say
from legendre.core.text import Columns, Table, shorten
from legendre.core.types import BoolArray, FloatArray
from legendre.data.dense import Dense, observe
from legendre.fitting.fit import Settings, fit_recipe
from legendre.results.base import Storable
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor
from legendre.solvers.structure.identifiability import identify
from legendre.tasks.complete.folds import Dealer


@dataclass(frozen=True)
class Score:
    """How well a basis fills in held-out cells: means over the folds and their standard errors."""

    basis: str
    rmse: float  # root mean square error in X's units
    rmse_se: float
    deviance: float  # Poisson deviance per cell, see `poisson_deviance`; infinite where the model says 0 and X does not
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
    if not folds.held:
        raise InvalidSetting("folds: without the cells of any fold X is zero everywhere. Leave folds out.")
    answers = []
    for turn, fold in enumerate(folds.held):
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
    deviance = [np.mean(poisson_deviance(x, filled), axis=1) for x, filled in scored]
    errors = np.array([deviance, square]).reshape(2, -1, len(names))  # by criterion, fold and candidate
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(usable, errors.sum(axis=1) / np.float64(len(scored)), np.nan)
        squares = ((errors - means[:, None]) ** 2).sum(axis=1)
        off = np.sqrt(squares / np.float64(len(scored) - 1) / len(scored)) if scored else means
    # where the deviance is infinite for several, the RMSE decides
    ranked = np.where(np.isnan(means), np.inf, means)
    best = int(np.lexsort(ranked[::-1] if criterion == "deviance" else ranked[1:])[0])
    rows = zip(names, means[1].tolist(), off[1].tolist(), means[0].tolist(), off[0].tolist(), lost, strict=True)
    scores = [Score(name, rmse, rmse_se, dev, dev_se, int(n)) for name, rmse, rmse_se, dev, dev_se, n in rows]
    n_scored = sum(int(ok.sum()) for ok in common)
    return CrossValidation(tuple(scores), best, len(answers), folds, held_out, n_scored, criterion)


def poisson_deviance(x: FloatArray, mean: FloatArray) -> FloatArray:
    """``2 (x log(x / m) - x + m)``, cell by cell: twice the generalised KL divergence."""
    from scipy.special import kl_div

    return np.where(np.isinf(mean), np.inf, 2.0 * kl_div(x, mean))
