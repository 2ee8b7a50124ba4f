"""Models of features that are no up-sets: ties, formulas, boxes, arranged levels; written from the definitions.

A model is a list of functions on the grid, counted from their value at the first cell. Nothing here knows of corners,
ties or Möbius inversion: the features that a fit has are computed from its matrix A, and compared with these.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .fit_rules import need
from .oracle import EPS, Problem

Array = Any
Spec = dict[str, Any]  # a part of a basis: its "kind", its modes, its scores, ...


@dataclass(frozen=True, eq=False)
class FeatureProblem(Problem):
    """P, Omega, the base measure and features on the cells of Omega."""

    features: Array  # n x m
    terms: Array  # n x m: how large what is added up to each of them is

    @classmethod
    def of_features(cls, X: Array, mask: Array, features: Array, terms: Array, base: Array | None = None) -> Any:
        """List the cells; features are given on the whole grid, in C order."""
        plain = Problem.of(X, mask, np.empty((0, X.ndim), dtype=np.int64), base)
        at = np.flatnonzero(mask.ravel())
        own = np.zeros((features.shape[1], X.ndim), dtype=np.int64)
        return cls(plain.shape, plain.omega, plain.x, own, plain.log_r, plain.grid, features[at], terms[at])

    @cached_property
    def Z(self) -> Array:
        """One row for each cell of Omega, one column for each parameter."""
        return self.features

    @cached_property
    def size(self) -> float:
        """How large features get, and what is added up to them."""
        return float(max(1.0, self.terms.max(initial=0.0)))

    def rounding(self, theta: Array) -> float:
        """Relative rounding error of a q that float64 computes from theta: that of the terms that are added up."""
        reach = float((self.terms @ np.abs(np.asarray(theta, dtype=np.float64))).max(initial=0.0))
        size = reach + 2.0 * float(np.abs(self.log_r).max(initial=0.0)) + np.log(len(self.x) + 1.0)
        return float(16.0 * EPS * (size * (2 + len(self.shape)) + len(self.x) + len(self.basis) + 8.0))


def steps(shape: tuple[int, ...], cells: Array, order: Any = None) -> Array:
    """``1[v >= u]`` for every cell v of the grid and each u; levels may stand in another order, place by place."""
    v = np.argwhere(np.ones(shape, dtype=bool))
    for k, places in enumerate(order or ()):
        if places is not None:
            v[:, k] = np.argsort(places)[v[:, k]]
    return (v[:, None, :] >= np.asarray(cells).reshape(-1, len(shape))[None]).all(axis=2).astype(np.float64)


def features_of(fit: Any) -> tuple[Array, Array]:
    """Compute the features of a fit on the grid of X, from its cells and its matrix A; and the size of their terms."""
    order = fit.labels.order
    Z = steps(fit.shape, fit.basis, order)
    if fit.ties is None:
        return Z, Z
    A = fit.ties.matrix().toarray()
    return Z @ A, Z @ np.abs(A)


def defined(specs: list[Spec], shape: tuple[int, ...]) -> Array:
    """List the different features of a basis, n x m, counted from their value at the first cell."""
    found = [column - column[0] for spec in specs for column in _columns(spec, shape)]
    kept: list[Array] = []
    for column in found:
        if not any(np.allclose(column, other, rtol=0.0, atol=1e-12 * (1 + np.abs(column).max())) for other in kept):
            kept.append(column)
    return np.array(kept).reshape(len(kept), -1).T if kept else np.zeros((int(np.prod(shape)), 0))


def _columns(spec: Spec, shape: tuple[int, ...]) -> list[Array]:
    v = np.argwhere(np.ones(shape, dtype=bool))
    kind, modes = spec["kind"], spec.get("modes", ())
    if kind == "interactions":
        every = [u for u in v if u.any() and any(set(np.flatnonzero(u)) <= set(group) for group in spec["sets"])]
        return list(steps(shape, np.array(every).reshape(-1, len(shape))).T)
    if kind == "cells":
        return list(steps(shape, spec["cells"]).T)
    if kind == "features":
        return [_spread(table, modes, v) for table in spec["tables"]]
    if kind == "topological":
        table = spec["levels"]
        return [_spread((table == level).astype(float), modes, v) for level in np.unique(table)[1:]]
    i, j = v[:, modes[0]], v[:, modes[1]]
    n = shape[modes[0]]
    match kind:
        case "uniform":
            return [(i * j).astype(float)]
        case "linear":
            one, other = (np.asarray(s, dtype=float) for s in spec["scores"])
            return [(one[i] - one[0]) * (other[j] - other[0])]
        case "rows":
            return [(i == a) * j.astype(float) for a in range(1, n)]
        case "columns":
            return [(j == b) * i.astype(float) for b in range(1, shape[modes[1]])]
        case "diagonal":
            return [((i == a) & (j == a)).astype(float) for a in range(n)]
        case "symmetric":
            pairs = [(a, b) for a in range(n) for b in range(a, n) if b]
        case _:  # quasi-symmetric
            pairs = [(a, b) for a in range(1, n) for b in range(a, n)]
    both = [
        ((i >= a) & (j >= b)).astype(float) + (((i >= b) & (j >= a)).astype(float) if a != b else 0.0) for a, b in pairs
    ]
    axes = [] if kind == "symmetric" else [(w >= a).astype(float) for w in (i, j) for a in range(1, n)]
    return [*axes, *both]


def _spread(table: Array, modes: Any, v: Array) -> Array:
    """Give a table over some modes (all where none are named) a value at every cell."""
    return np.asarray(table, dtype=float)[tuple(v[:, k] for k in (modes or range(v.shape[1])))]


def same_features(found: Array, right: Array) -> None:
    """Raise Wrong unless two lists of features hold the same, in any order, those that are 0 aside."""
    one, other = (F[:, np.abs(F).max(axis=0, initial=0.0) > 1e-12] for F in (found, right))
    need(one.shape == other.shape, f"{one.shape[1]} features, by definition {other.shape[1]}")
    left = list(range(other.shape[1]))
    for j in range(one.shape[1]):
        size = 1e-12 * (1 + np.abs(one[:, j]).max())
        match = [i for i in left if np.abs(one[:, j] - other[:, i]).max() <= size]
        need(bool(match), f"the feature of parameter {j} is none of the model's")
        left.remove(match[0])


def is_box(feature: Array, shape: tuple[int, ...]) -> bool:
    """Whether a feature, up to a constant, marks a product of intervals."""
    marks = feature.reshape(shape) - feature.min() > 0.5
    if not np.allclose(feature - feature.min(), marks.ravel()):
        return False
    places = np.argwhere(marks)
    if not len(places) or marks.all():
        return not len(places) or bool(marks.all())
    low, high = places.min(axis=0), places.max(axis=0) + 1
    return int(np.prod(high - low)) == len(places)
