"""Cross-validation: observed cells are held out in turn, and bases are compared by how well they predict these cells.

Cells are held out in the shapes in which cells are missing (single cells, fibres, slabs, blocks), unless the caller
says how: single cells are easier to predict than an entire fibre.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.arguments import Rng
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSetting
from legendre.core.labels import Labels, Mode
from legendre.core.progress import Say
from legendre.core.text import Table, shorten
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Modes, Shape, frozen
from legendre.data.dense import Dense, observe
from legendre.fitting.fit import Settings, fit_recipe
from legendre.fitting.growing.canonical import hash_levels, order_modes
from legendre.results.base import Storable
from legendre.results.decomposition import Decomposition
from legendre.results.distribution import tensor
from legendre.results.views import deviance_terms
from legendre.solvers.structure.identifiability import identify

HoldOut = Mode | Sequence[Mode] | None  # "cells", the modes of the fibres that are held out, or None: like the gaps


@frozen
class Folds:
    """Which observed cells are held out together, and in which shapes; the arrays have the modes in the order `order`.

    Parameters
    ----------
    order, levels
        The modes of X, and the levels of each of them, in an order that depends on X only, not on the order in which
        the caller has them; only levels without an order are rearranged. So a transposed X gets the same folds, and the
        same answers. `sort` puts an array in this order, `restore` in that of X.
    unordered
        The places, in `order`, of the modes whose levels have no order.
    shapes, shares
        The shapes in which cells are held out: boxes of as many levels of each mode, 1 and all for fibres, 1 of each
        mode for single cells. And the share of the missing cells that are in gaps of this shape.
    gaps
        For each missing cell the index of its gap's shape in `shapes`, -1 for observed cells.
    held
        By fold and cell, the index of the shape as part of which the cell is held out, -1 for cells that stay. Folds
        that are empty, or without which X would be zero everywhere, are left out.
    """

    order: list[int]
    levels: list[IntArray]
    unordered: list[int]
    shapes: list[Shape]
    shares: FloatArray
    gaps: IntArray
    held: IntArray

    def sort(self, array: AnyArray) -> AnyArray:
        """Return a copy of an array over all cells with modes and levels in the order of the folds."""
        return array[np.ix_(*self.levels)].transpose(self.order).copy()

    def restore(self, array: AnyArray) -> AnyArray:
        """Return an array that is in the order of the folds in that of X: undo `sort`."""
        return array.transpose(np.argsort(self.order))[np.ix_(*map(np.argsort, self.levels))]

    def name(self, labels: Labels) -> str:
        """Name the shapes in words, for the summary: ``"cells"``, ``"cells (80%), fibres along mode hour (20%)"``.

        A block is called fibres along mode ``day (9 of 28), hour (8 of 24)``.
        """
        names, texts = labels.names or range(len(self.order)), list[str]()
        for shape, share in zip(self.shapes, self.shares, strict=True):
            sizes = [shape[self.order.index(k)] for k in range(len(shape))]  # in the caller's order of modes
            modes = [pair for pair in zip(names, sizes, labels.shape, strict=True) if pair[1] > 1]
            listed = ", ".join(str(name) if size == n else f"{name} ({size} of {n})" for name, size, n in modes)
            named = f"fibres along mode {listed}" if listed else "cells"
            texts.append(named if share == 1.0 else f"{named} ({share:.0%})")
        return ", ".join(texts)


def deal(
    values: FloatArray,
    observed: BoolArray,
    n_folds: int | None = None,
    along: Modes | None = None,
    rng: Rng = 0,
    unordered: Sequence[int] = (),
) -> Folds:
    """Assign the observed cells to folds; the folds of a transposed X are the same cells.

    All folds hold out about the same number of observed cells. Within a fold, each shape has about the share of cells
    that it has among the missing ones, so that held-out cells are as hard to predict as missing ones.

    Parameters
    ----------
    values, observed
        X, with 0 for missing cells, and which of its cells were observed.
    n_folds
        The number of folds; by default five, or fewer if there are fewer observed fibres.
    along
        The modes of the fibres that are held out; () for single cells; ``None`` for shapes like the gaps.
    rng
        A seed or a generator, which shuffles the fibres.
    unordered
        The modes whose levels have no order. They are put in one that X decides; levels with the same gaps are
        neighbours, so that gaps are found to be blocks.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]])
    >>> dealt = deal(X, X > 0, 2)
    >>> dealt.order, dealt.shapes, dealt.held[0].tolist()
    ([0, 1], [(1, 1)], [[-1, -1, 0], [-1, 0, 0]])
    """
    # X is hashed only if need be, in units of its largest value; an observed 0 is marked by a small number
    most = values.size if unordered or len(set(values.shape)) < values.ndim else 0
    marked = np.where(observed, np.maximum(values / values.max(), 1e-9), 0.0), observed.astype(np.float64)
    hashes, of_gaps = (hash_levels(observe(part), unordered, most=most) for part in marked)
    order, pairs = order_modes(hashes), zip(hashes, of_gaps, strict=True)
    levels = [np.lexsort(pair) if k in unordered else np.arange(len(pair[0])) for k, pair in enumerate(pairs)]
    places = [order.index(k) for k in unordered]
    inside, x = observed[np.ix_(*levels)].transpose(order), values[np.ix_(*levels)].transpose(order)
    shapes, gaps = _find_gap_shapes(inside)
    if along is not None:
        shapes, gaps = [tuple(x.shape[i] if k in along else 1 for i, k in enumerate(order))], np.where(inside, -1, 0)
    missing = np.bincount(gaps[~inside], minlength=len(shapes))
    shares = missing / missing.sum() if missing.any() else np.ones(1)
    fibres = [number_boxes(inside.shape, shape) for shape in shapes]
    n_fibres = max(len(np.unique(fibre[inside])) for fibre in fibres)
    n_folds = min(5, n_fibres) if n_folds is None else n_folds
    if n_folds > n_fibres:
        what = "fibres with an observed cell" if along else "observed cells"
        raise InvalidSetting(f"folds={n_folds} needs at least as many {what}; X has {n_fibres}.")
    held_out = np.full((n_folds, *inside.shape), -1)
    rng = np.random.default_rng(rng)
    for number, (fibre, share) in enumerate(zip(fibres, shares, strict=True)):
        sizes = np.bincount(fibre[inside], minlength=fibre.max() + 1)  # observed cells of each fibre
        shuffled = rng.permutation(np.flatnonzero(sizes))
        before = np.cumsum(sizes[shuffled]) - sizes[shuffled]
        fold_of = np.full(len(sizes), n_folds)  # n_folds and above: never held out
        # the first fibres, up to the shape's share of the observed cells, are cut into n_folds equal parts
        fold_of[shuffled] = before * n_folds // max(sizes.sum() * share, 1.0)
        for fold in range(n_folds):  # a cell that an earlier shape holds out in this fold belongs to that one
            held_out[fold][inside & (held_out[fold] < 0) & (fold_of[fibre] == fold)] = number
    useful = [bool((fold >= 0).any() and (x[inside & (fold < 0)] > 0).any()) for fold in held_out]
    return Folds(order, levels, places, shapes, shares, gaps, held_out[useful])


def _find_gap_shapes(observed: BoolArray, least: float = 0.02, fewest: int = 10) -> tuple[list[Shape], IntArray]:
    """Find the shapes of gaps: for each missing cell the largest box around it in which nothing was observed.

    A box has one level of a mode, a third (a block), or all (a fibre). Return the shapes, the largest first, and for
    each cell the index of its shape, -1 if it was observed. A shape with at most the share `least` of the missing cells
    is not listed: it would be rare among held-out cells. Nor are blocks that may be there by chance, or of which fewer
    than `fewest` would be held out. Their cells count as the next smaller shape that holds them.
    """
    from scipy.ndimage import grey_opening

    # left: missing cells without a shape yet
    left, shapes, gaps = ~observed, list[Shape](), np.full(observed.shape, -1)
    every = product(*(sorted({1, max(n // 3, 1), n}, reverse=True) for n in observed.shape))
    for shape in sorted(every, key=math.prod, reverse=True):
        whole, needed = tuple(k for k, n in enumerate(observed.shape) if shape[k] == n), least
        fibres = math.prod(shape) // math.prod(observed.shape[k] for k in whole)  # in one block
        if fibres > 1:  # a fibre is in so many blocks, and their other fibres may be missing by chance
            by_chance = fibres * np.mean(~observed.any(axis=whole)) ** (fibres - 1)
            needed = max(least + by_chance, fewest * math.prod(shape) / observed.size)
        # the union of the boxes without an observed cell
        found = left & grey_opening(~observed, shape, mode="constant")
        if np.count_nonzero(found) > needed * np.count_nonzero(~observed):
            gaps[found], left = len(shapes), left & ~found
            shapes.append(shape)
    gaps[left] = len(shapes) - 1  # cells of the rare shapes that no later shape took
    return shapes or [(1,) * observed.ndim], gaps


def number_boxes(shape: Shape, sizes: Shape) -> IntArray:
    """Return a grid of this shape, cut into boxes of `sizes` levels, with the number of the box that each cell is in.

    If the levels of a mode are no multiple of the size, its last boxes are larger.
    """
    places = (np.minimum(np.arange(n) // size, n // size - 1) for n, size in zip(shape, sizes, strict=True))
    return np.ravel_multi_index(np.ix_(*places), shape)


def read_modes(hold_out: HoldOut, labels: Labels) -> Modes | None:
    """Read the argument `hold_out` as the modes of fibres; () for single cells, ``None`` for shapes like the gaps."""
    if hold_out is None:
        return None
    if isinstance(hold_out, str) and hold_out == "cells":
        return ()
    modes = labels.find_modes(hold_out, "hold_out (None, 'cells', a mode or several modes)", InvalidSetting)
    if not 0 < len(modes) < labels.n_modes:
        every = labels.n_modes
        raise InvalidSetting(f"hold_out={hold_out!r}: fibres run along at least one mode and not along all {every}.")
    return tuple(sorted(modes))


@dataclass(frozen=True)
class Score:
    """How well a basis predicts held-out cells: means over the folds and their standard errors."""

    basis: str
    rmse: float  # root mean square error in X's units
    rmse_se: float
    deviance: float  # Poisson deviance per cell, see `deviance_terms`; infinite where the model says 0 and X does not
    deviance_se: float
    undetermined: int  # held-out cells that the others do not determine; they are not scored


@dataclass(frozen=True, repr=False)
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
        title = f"{self.n_folds} folds of {self.folds}; {self.scored} of {self.held_out} held-out cells scored"
        return [Table(title, rows, "<")]


def _list_sizes(recipe: Basis, data: Dense, count: int = 8) -> dict[int, Basis]:
    """List the sizes, at most `count`, among which cross-validation chooses for ``adaptive(n)``, with their bases.

    They are spaced evenly in the logarithm, from the size of the part that is given to n. The dict is empty for a basis
    that does not grow, or whose size is chosen by a criterion such as "bic".
    """
    growing = recipe.growing
    if growing is None or isinstance(growing.n, str):
        return {}
    least = max(1, len(as_basis(growing.include).select(data)))
    sizes = np.geomspace(min(least, growing.n), growing.n, count).round()
    return {n: replace(growing, n=n) for n in sorted({int(size) for size in sizes})}


def select(
    data: Dense,
    values: FloatArray,
    observed: BoolArray,
    recipes: list[Basis],
    settings: Settings,
    folds: Folds,
    criterion: str,
    say: Say,
    share: float = 1e-3,
) -> tuple[Basis, CrossValidation]:
    """Compare candidate bases, and sizes of adaptive ones, by cross-validation; return the best and the table.

    `values` are X, with 0 at missing cells, and `observed` marks the others. In each fold, every candidate is fitted to
    the observed cells that stay, and predicts those that are held out. These fits have the tolerance `share` times the
    mean probability of a cell (at least tol), because the errors of held-out cells are far larger.
    """
    candidates = [(recipe, _list_sizes(recipe, data)) for recipe in recipes]
    bases = [basis for recipe, sizes in candidates for basis in sizes.values() or [recipe]]
    if not len(folds.held):
        raise InvalidSetting("folds: without the cells of any fold X is zero everywhere. Leave folds out.")
    predictions = []  # for each fold X at the held-out cells, and what each basis predicts there: bases x cells
    for turn, ordered in enumerate(folds.held):
        fold = folds.restore(ordered)
        held_out, left = fold >= 0, observed & (fold < 0)
        rough = replace(settings, tol=max(settings.tol, share / int(left.sum())), ranked=False)
        kept, fits = replace(observe(values, left), origin=data.origin), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fold's last digits do not matter
            for place, (recipe, sizes) in enumerate(candidates):
                done = (turn * len(candidates) + place) / (len(folds.held) * len(candidates))
                say(f"fold {turn + 1} of {len(folds.held)}   {shorten(repr(recipe), 60)}", done)
                fit = fit_recipe(kept, recipe, rough)
                # an adaptive basis grows once, to its largest size; the smaller ones keep the cells that matter most
                fits += [fit.at(min(n, fit.n_params)) for n in sizes] or [fit]
            predictions.append((values[held_out], np.array([extrapolate(fit)[0][held_out] for fit in fits])))
    table = _compare(predictions, [repr(basis) for basis in bases], criterion, folds.name(data.labels))
    return bases[table.best], table


def extrapolate(fit: Decomposition, undetermined: str = "nan") -> tuple[FloatArray, BoolArray | None]:
    """Compute the model's value at every cell, in X's units, and a mask of the cells where the support determines it.

    Elsewhere several theta fit the support equally well and differ in the value. It is NaN there, or with ``"theta0"``
    the value at the theta that was found: at the boundary its limit, NaN if there is none. If the question is too large
    to decide, the mask is ``None`` and no value is NaN for this reason.
    """
    spread = fit.model.quotient.spread  # from merged cells to cells
    value = tensor(fit, extend=True)
    found = identify(fit.model, fit._alive)
    if found is None:
        return value, None
    value[spread(found.zero)] = 0.0  # exactly, also where `tensor` takes a slow fall for a rounding error
    determined: BoolArray = np.array(spread(found.value | found.zero))
    if undetermined == "nan":
        value[~determined] = np.nan
    return value, determined


def _compare(
    predictions: list[tuple[FloatArray, FloatArray]], names: Sequence[str], criterion: str, folds: str
) -> CrossValidation:
    """Score the candidates on held-out cells and find the best by the criterion.

    `predictions` has for each fold X at its n held-out cells, and the values of the candidates there (candidates x n),
    NaN where a candidate does not determine the cell. Candidates that leave more than half of the cells undetermined
    get no score. The others are all scored on the same cells, those that each of them determines: otherwise a candidate
    that leaves the hard cells undetermined would look better. `folds` says in words what was held out.
    """
    lost = sum(np.isnan(filled).sum(axis=1) for _, filled in predictions)
    held_out = sum(len(x) for x, _ in predictions)
    usable = lost <= 0.5 * held_out
    if len(names) > 1 and not usable.any():
        raise InvalidBasis(
            f"folds: every candidate leaves more than half of the held-out cells undetermined ({folds}). "
            "Offer smaller bases, or hold out cells instead of fibres: hold_out='cells'."
        )
    common = [~np.isnan(filled[usable]).any(axis=0) & usable.any() for _, filled in predictions]
    scored = [(x[ok], filled[:, ok]) for (x, filled), ok in zip(predictions, common, strict=True) if ok.any()]
    rmse = [np.sqrt(np.mean((x - filled) ** 2, axis=1)) for x, filled in scored]
    # an infinite prediction is infinitely wrong; the formula of the deviance would give NaN
    deviance = [np.mean(np.where(np.isinf(m), np.inf, deviance_terms(x, m)), axis=1) for x, m in scored]
    errors = np.array([deviance, rmse]).reshape(2, -1, len(names))  # by criterion, fold and candidate
    errors[..., ~usable] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one fold has no standard error, and none has no mean
        means, se = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(len(scored))
    # the deviance may be infinite for several candidates: the RMSE breaks such ties (lexsort's last key comes first)
    ranked = np.where(np.isnan(means), np.inf, means)
    best = int(np.lexsort(ranked[::-1] if criterion == "deviance" else ranked[1:])[0])
    columns = means[1].tolist(), se[1].tolist(), means[0].tolist(), se[0].tolist()
    scores = [Score(*row) for row in zip(names, *columns, map(int, lost), strict=True)]
    n_scored = sum(int(ok.sum()) for ok in common)
    return CrossValidation(tuple(scores), best, len(predictions), folds, held_out, n_scored, criterion)
