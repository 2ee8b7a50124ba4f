"""Codings: how coefficients of a log-linear model are written as combinations of theta.

A coding names for each variable a weight on its levels, which sums to 1 (where a coefficient does not speak of the
variable), and for each effect weights that sum to 0. A coefficient is the product of these over all variables, applied
to the logarithms of the means; and ``log mu_v = log N - psi + sum of theta_u over u <= v``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from legendre.core.errors import InvalidQuery, unknown_name
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

Coding = Literal["treatment", "sum", "local"]
INTERCEPT = "(intercept)"


@dataclass(frozen=True, eq=False)
class Combinations:
    """Combinations of theta and of the constant, by name."""

    names: tuple[str, ...]
    weights: FloatArray  # m x |B|
    constants: FloatArray  # m: the weight of the constant, ``log N - psi``


def coefficients_of(fit: Decomposition, coding: str, reference: Mapping[Any, Any] | None) -> Combinations:
    """Write the constant, then the coefficient of every cell of the basis, from single variables to interactions.

    Tied parameters come last, by name, and are what they are in every coding. The others are those of a regression that
    has the tied features beside them, counted from their value at the first cell. Of a term that is tied in part the
    parameters of single cells are theta itself.
    """
    if coding not in get_args(Coding):
        raise InvalidQuery(unknown_name("contrasts", str(coding), get_args(Coding)))
    labels = fit.labels
    places = _references(labels, coding, reference)
    modes = [_Mode(labels, k, coding, places[k]) for k in range(len(labels.shape))]
    columns, others = _single(fit)
    own = fit.basis if fit.ties is None else fit.basis[fit.ties.own[columns]]
    chosen = _ordered(own)
    rows = [np.zeros(len(modes), dtype=np.int64), *chosen]
    weights = np.zeros((len(rows) + len(others), fit.n_params))
    coded = np.ones((len(rows), len(columns)))
    for k, mode in enumerate(modes):
        coded *= mode.above[np.array([row[k] for row in rows])][:, own[:, k]]
    weights[: len(rows), columns] = coded
    weights[np.arange(len(rows), len(weights)), others] = 1.0
    names = [INTERCEPT, *(":".join(modes[k].names[row[k]] for k in np.flatnonzero(row)) for row in chosen)]
    titles = fit.model.terms.titles()
    names += [titles[j] or _local_name(fit, j) for j in others.tolist()]
    return Combinations(tuple(names), weights, np.array([1.0] + [0.0] * (len(names) - 1)))


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


def _references(labels: Labels, coding: str, reference: Mapping[Any, Any] | None) -> list[int]:
    places = [first_level(labels, k) for k in range(len(labels.shape))]
    if reference is None:
        return places
    if coding != "treatment":
        raise InvalidQuery(f'coef(contrasts="{coding}", reference=...): only treatment contrasts have a reference.')
    if not isinstance(reference, Mapping):
        raise InvalidQuery(
            f"coef(reference={reference!r}): pass the reference levels by variable, {{variable: level}}."
        )
    for key, level in reference.items():
        k = labels.find_mode(key, "reference")
        places[k] = labels.find_level(k, level, "reference")
    return places


def first_level(labels: Labels, k: int) -> int:
    """Find the level of a mode that comes first in X, wherever it was arranged."""
    order = labels.order_of(k)
    return 0 if order is None else int(np.argmin(order))


class _Mode:
    """Weights on the levels of one variable, in the coding asked for, and what its effects are called.

    Row 0 of `above` belongs to coefficients that do not speak of the variable, row i to its i-th effect; entry u is the
    sum of the weights at levels >= u, by which theta at level u counts.
    """

    def __init__(self, labels: Labels, k: int, coding: str, reference: int) -> None:
        n, name = labels.shape[k], labels.mode(k)
        weights = np.zeros((n, n))
        level = [labels.level(k, i) for i in range(n)]
        if coding == "treatment":
            others = [i for i in range(n) if i != reference]
            weights[np.arange(1, n), others] = 1.0
            weights[1:, reference] = -1.0
            weights[0, reference] = 1.0
            said = [level[i] for i in others]
        elif coding == "sum":
            weights[1:, :-1] = np.eye(n - 1)
            weights[1:] -= 1.0 / n
            weights[0] = 1.0 / n
            said = level[:-1]
        else:
            weights[np.arange(1, n), np.arange(1, n)] = 1.0
            weights[np.arange(1, n), np.arange(n - 1)] = -1.0
            weights[0, 0] = 1.0
            said = [f"{after}/{before}" for before, after in pairwise(level)]
        self.above = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1]
        self.names = ["", *(f"{name}[{text}]" for text in said)]


def combinations_of_cells(
    fit: Decomposition, names: Sequence[str], cells: IntArray, weights: FloatArray
) -> Combinations:
    """Write combinations of log means: weights (m x c) of some cells (c x N)."""
    below = (fit.basis[None] <= cells[:, None]).all(axis=2).astype(np.float64)
    below = below if fit.ties is None else below @ fit.ties.matrix()
    return Combinations(tuple(names), weights @ below, weights.sum(axis=1))
