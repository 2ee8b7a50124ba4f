"""Codings: how coefficients of a log-linear model are written as combinations of theta.

A coding names for each variable a weight on its levels, which sums to 1 (where a coefficient does not speak of the
variable), and for each effect weights that sum to 0. A coefficient is the product of these over all variables, applied
to the logarithms of the means; and ``log mu_v = log N - psi + sum of theta_u over u <= v``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice, check_number, entries
from legendre.core.errors import InvalidQuery, unknown_name
from legendre.core.labels import Labels, Mode
from legendre.core.origin import rectangular
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.results.distribution import read_cells, read_event

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Coding = Literal["treatment", "sum", "local"]


Combinations = tuple[tuple[str, ...], FloatArray, FloatArray, FloatArray]
"""Combinations of parameters: names, weights of theta (m x |B|) and of the constant ``log N - psi``, and offsets."""
Side = tuple[int, list[str], FloatArray]
"""A variable, names of rows, and for each row by how much theta at each of its levels counts."""


def coefficients_of(fit: Decomposition, coding: str, reference: Mapping[Any, Any] | None) -> Combinations:
    """Write the constant, then the coefficient of every cell of the basis, from single variables to interactions.

    Tied parameters come last, by name, and are what they are in every coding. The others are those of a regression that
    has the tied features beside them, counted from their value at the first cell. Of a term that is tied in part the
    parameters of single cells are theta itself.
    """
    check_choice(coding, "contrasts", get_args(Coding), InvalidQuery)
    if reference is not None and coding != "treatment":
        raise InvalidQuery(f'coef(contrasts="{coding}", reference=...): only treatment contrasts have a reference.')
    labels = fit.labels
    given = read_event(labels, reference or {}, "reference")
    order = range(len(labels.shape))
    effects, above = zip(*(_code(labels, k, coding, given.get(k, _first_level(labels, k))) for k in order), strict=True)
    columns, others = _single(fit)
    own = fit.basis if fit.ties is None else fit.basis[fit.ties.own[columns]]
    chosen = _ordered(own)
    rows = np.vstack([np.zeros((1, len(labels.shape)), dtype=np.int64), chosen])
    weights = np.zeros((len(rows) + len(others), fit.n_params))
    coded = np.ones((len(rows), len(columns)))
    for k in order:
        coded *= above[k][rows[:, k]][:, own[:, k]]
    weights[: len(rows), columns] = coded
    weights[np.arange(len(rows), len(weights)), others] = 1.0
    names = ["(intercept)", *(":".join(effects[k][row[k]] for k in np.flatnonzero(row)) for row in chosen)]
    titles = fit.model.terms.titles()
    names += [titles[j] or _local_name(fit, j) for j in others.tolist()]
    return tuple(names), weights, np.eye(len(names))[0], np.zeros(len(names))


def _single(fit: Decomposition) -> tuple[IntArray, IntArray]:
    """Tell the parameters of single cells, of whole terms, from tied ones and from those beside them in a term."""
    every, ties = np.arange(fit.n_params), fit.ties
    if ties is None:
        return every, every[:0]
    alone = (ties.own >= 0) & np.array([not name for name in ties.names])
    terms: dict[tuple[int, ...], list[int]] = {}
    for j in np.flatnonzero(alone).tolist():
        terms.setdefault(tuple(np.flatnonzero(fit.basis[ties.own[j]]).tolist()), []).append(j)
    for term, found in terms.items():
        if len(found) < math.prod(fit.shape[k] - 1 for k in term):
            alone[found] = False
    return every[alone], every[~alone]


def _local_name(fit: Decomposition, j: int) -> str:
    """Name the parameter of a single cell as what it is: each level against the one before."""
    assert fit.ties is not None
    cell, labels = fit.basis[fit.ties.own[j]], fit.labels
    steps = ((k, int(cell[k])) for k in np.flatnonzero(cell).tolist())
    return ":".join(f"{labels.mode(k)}[{labels.level(k, i)}/{labels.level(k, i - 1)}]" for k, i in steps)


def _ordered(basis: IntArray) -> IntArray:
    """Put single variables first, then pairs, and so on; within a term the levels of the first variable run slowest."""
    used = basis > 0
    keys: list[AnyArray] = [basis[:, k] for k in reversed(range(basis.shape[1]))]
    keys += [~used[:, k] for k in reversed(range(basis.shape[1]))]
    return basis[np.lexsort([*keys, used.sum(axis=1)])]


def _first_level(labels: Labels, k: int) -> int:
    """Find the level of a mode that comes first in X, wherever it was arranged."""
    order = labels.order_of(k)
    return 0 if order is None else int(np.argmin(order))


def _code(labels: Labels, k: int, coding: str, reference: int) -> tuple[list[str], FloatArray]:
    """Return the names of the effects of a variable, and by how much theta at each of its levels counts in them.

    Row 0 belongs to coefficients that do not speak of the variable, row i to its i-th effect. Entry u is the sum of the
    weights at levels >= u.
    """
    n, weights = labels.shape[k], np.zeros((labels.shape[k],) * 2)
    level, effects = [labels.level(k, i) for i in range(n)], np.arange(1, n)
    if coding == "treatment":
        others = [i for i in range(n) if i != reference]
        weights[effects, others] = 1.0
        weights[1:, reference] = -1.0
        weights[0, reference] = 1.0
        said = [level[i] for i in others]
    elif coding == "sum":
        weights[1:, :-1] = np.eye(n - 1)
        weights[1:] -= 1.0 / n
        weights[0] = 1.0 / n
        said = level[:-1]
    else:
        weights[effects, effects] = 1.0
        weights[effects, effects - 1] = -1.0
        weights[0, 0] = 1.0
        said = [f"{after}/{before}" for before, after in pairwise(level)]
    return ["", *(f"{labels.mode(k)}[{text}]" for text in said)], np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]


# --- what a caller asks for ------------------------------------------------------------------------------------------


def log_means(fit: Decomposition, names: Sequence[str], places: IntArray) -> Combinations:
    """Write the logarithms of the means of some cells."""
    below: Any = (fit.basis[None] <= places[:, None]).all(axis=2).astype(np.float64)
    below = below if fit.ties is None else below @ fit.ties.matrix()
    return tuple(names), below, np.ones(len(places)), _log_base(fit)[tuple(places.T)]


def _log_base(fit: Decomposition) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.zeros(fit.shape) if fit.model.base is None else np.log(fit.model.base)


def read_contrasts(
    fit: Decomposition, weights: Any, cells: ArrayLike | None, names: Sequence[str] | None
) -> Combinations:
    """Read the combinations that a caller writes as weights."""
    if isinstance(weights, Mapping):
        return _of_coefficients(fit, weights, cells, names)
    places = None if cells is None else read_cells(fit.labels, cells, "contrast")
    size, of = (fit.n_params, "parameters") if places is None else (len(places), "cells")
    rows = np.atleast_2d(rectangular(weights, "weights", InvalidQuery))
    if rows.ndim != 2 or rows.dtype.kind not in "biuf" or rows.shape[1] != size or not np.isfinite(rows).all():
        raise InvalidQuery(
            f"contrast: weights have shape {rows.shape} and dtype {rows.dtype}; each row needs one finite number for "
            f"each of the {size} {of}."
        )
    rows = rows.astype(np.float64)
    n = len(rows)
    listed = entries(names) if names is not None else [f"contrast {i + 1}" for i in range(n)] if n > 1 else ["contrast"]
    if listed is None or len(listed) != n:
        raise InvalidQuery(f"contrast: names={names!r}; give one name for each of the {n} combinations.")
    called = tuple(map(str, listed))
    if places is None:
        return called, rows, np.zeros(n), np.zeros(n)
    _, below, ones, offsets = log_means(fit, called, places)
    return called, rows @ below, rows @ ones, rows @ offsets


def _of_coefficients(fit: Decomposition, weights: Mapping[Any, Any], cells: Any, names: Any) -> Combinations:
    """Combine treatment coefficients by their names."""
    if cells is not None:
        raise InvalidQuery("contrast: weights by name are of coefficients, so that cells have no meaning.")
    known, own, constants, _ = coefficients_of(fit, "treatment", None)
    row: FloatArray = np.zeros(len(known))
    terms = []
    for name, weight in weights.items():
        if name not in known:
            raise InvalidQuery(f"contrast: {unknown_name('coefficient', str(name), known)}")
        w = check_number(weight, f"contrast: the weight of {name!r}", error=InvalidQuery)
        row[known.index(name)] = w
        terms.append(f"{'-' if w < 0 else '+'} {'' if abs(w) == 1 else f'{abs(w):g} '}{name}")
    called = " ".join(terms).removeprefix("+ ") if names is None else str((entries(names) or [names])[0])
    return (called,), (row @ own)[None], np.array([row @ constants]), np.zeros(1)


def odds_ratios(
    fit: Decomposition,
    first: Mode,
    second: Mode,
    given: Mapping[Any, Any] | None,
    contrasts: str,
    reference: Mapping[Any, Any] | None = None,
    most: int = 10_000,
) -> Combinations:
    """List the odds ratios of two variables, for each level of those on which they depend and that are not given."""
    labels = fit.labels
    a, b = labels.find_mode(first, "odds"), labels.find_mode(second, "odds")
    check_choice(contrasts, "odds: contrasts", ("local", "treatment"), InvalidQuery)
    fixed = read_event(labels, given or {}, "odds: given")
    if a == b or a in fixed or b in fixed:
        why = "odds ratios are of two different variables" if a == b else "the two variables cannot be given"
        raise InvalidQuery(f"odds({first!r}, {second!r}): {why}.")
    both = fit.basis[(fit.basis[:, a] > 0) & (fit.basis[:, b] > 0)] > 0  # interactions with both
    free = [k for k in np.flatnonzero(both.any(axis=0)).tolist() if k not in (a, b, *fixed)]
    own = read_event(labels, reference or {}, "odds: reference")
    sides: list[Side] = []
    for k in (*fixed, *free):
        levels = [fixed[k]] if k in fixed else list(range(labels.shape[k]))
        sides.append((k, [f"{labels.mode(k)} {labels.level(k, i)}" for i in levels], np.tri(labels.shape[k])[levels]))
    for k in (a, b):
        every, start = np.tri(labels.shape[k]), own.get(k, _first_level(labels, k))
        upper = [i for i in range(len(every)) if (i > 0 if contrasts == "local" else i != start)]
        lower = [i - 1 if contrasts == "local" else start for i in upper]
        steps = [f"{labels.level(k, i)}/{labels.level(k, j)}" for i, j in zip(upper, lower, strict=True)]
        sides.append((k, [f"{labels.mode(k)}[{step}]" for step in steps], every[upper] - every[lower]))
    _check_rows(sides, f"odds({first!r}, {second!r})", "Use given=.", most)
    titles = []
    for *where, one, other in product(*(names for _, names, _ in sides)):
        titles.append(f"{one}:{other}" + (f" given {', '.join(where)}" if where else ""))
    return tuple(titles), *_weigh(fit, sides), np.zeros(len(titles))


def marginal_means(fit: Decomposition, by: Any, most: int = 10_000) -> Combinations:
    """Average the logarithms of the means over the levels of all variables but some."""
    labels = fit.labels
    if not fit.model.support.full:
        raise InvalidQuery("means are averages over all levels, and some cells of this table cannot occur.")
    kept = [labels.find_mode(mode, "means") for mode in ([by] if isinstance(by, (str, int)) else entries(by) or ())]
    others = [k for k in range(len(labels.shape)) if k not in kept]
    sides: list[Side] = [(k, [""], np.tri(labels.shape[k]).mean(axis=0)[None]) for k in others]
    for k in kept:
        levels = [f"{labels.mode(k)} {labels.level(k, i)}" for i in range(labels.shape[k])]
        sides.append((k, levels, np.tri(labels.shape[k])))
    _check_rows(sides, "means", "Name fewer variables: means(by=...).", most)
    names = product(*(names for _, names, _ in sides[len(others) :]))
    offsets = _log_base(fit).transpose(*kept, *others).reshape(*(labels.shape[k] for k in kept), -1).mean(axis=-1)
    return tuple(", ".join(row) or "all" for row in names), *_weigh(fit, sides), offsets.ravel()


def _check_rows(sides: list[Side], asked: str, advice: str, most: int) -> None:
    if (n := math.prod(len(names) for _, names, _ in sides)) > most:
        raise InvalidQuery(f"{asked}: {n:,} rows; at most {most:,} are listed. {advice}")


def _weigh(fit: Decomposition, sides: list[Side]) -> tuple[FloatArray, FloatArray]:
    """Multiply the weights of several variables, each row with each."""
    sizes = [len(names) for _, names, _ in sides]
    weights, constants = np.ones((math.prod(sizes), len(fit.basis))), np.ones(math.prod(sizes))
    for (k, _, levels), at in zip(sides, np.indices(sizes).reshape(len(sizes), -1), strict=True):
        weights *= levels[at][:, fit.basis[:, k]]
        constants *= levels[at, 0]  # all levels lie above the first
    return weights if fit.ties is None else np.asarray(weights @ fit.ties.matrix()), constants
