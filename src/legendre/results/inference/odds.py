"""Odds ratios of two variables, given the others, as combinations of log means."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels, Mode
from legendre.core.types import IntArray
from legendre.results.inference.coding import Combinations, combinations_of_cells, first_level

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition

MOST = 10_000  # odds ratios that are listed
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])


def odds_ratios(
    fit: Decomposition,
    first: Mode,
    second: Mode,
    given: Mapping[Any, Any] | None,
    contrasts: str,
    reference: Mapping[Any, Any] | None = None,
) -> Combinations:
    """List the odds ratios of two variables; for each level of those on which they depend and that are not given."""
    labels = fit.labels
    a, b = labels.find_mode(first, "odds"), labels.find_mode(second, "odds")
    if a == b:
        raise InvalidQuery(f"odds({first!r}, {second!r}): odds ratios are of two different variables.")
    if contrasts not in ("local", "treatment"):
        raise InvalidQuery(f'odds(contrasts={contrasts!r}): it is "local" or "treatment".')
    fixed = _fixed(labels, given, a, b)
    free = [k for k in modifiers(fit, a, b) if k not in fixed]
    pairs = [_steps(labels, k, contrasts, reference) for k in (a, b)]
    if (n := len(pairs[0]) * len(pairs[1]) * int(np.prod([labels.shape[k] for k in free]))) > MOST:
        raise InvalidQuery(f"odds({first!r}, {second!r}): {n:,} odds ratios; at most {MOST:,} are listed. Use given=.")
    names, corners = [], []
    for place in product(*(range(labels.shape[k]) for k in free)):
        at = fixed | dict(zip(free, place, strict=True))
        told = ", ".join(f"{labels.mode(k)} {labels.level(k, i)}" for k, i in at.items())
        for one, other in product(*pairs):
            names.append(f"{_said(labels, a, one)}:{_said(labels, b, other)}" + (f" given {told}" if told else ""))
            corners.append(_corners(len(labels.shape), at, (a, one), (b, other)))
    cells = np.concatenate(corners) if corners else np.empty((0, len(labels.shape)), dtype=np.int64)
    weights = np.kron(np.eye(len(names)), SIGNS)
    return combinations_of_cells(fit, names, cells, weights)


def modifiers(fit: Decomposition, a: int, b: int) -> list[int]:
    """List the variables on which the odds ratios of two others depend: those in an interaction with both."""
    both = fit.basis[(fit.basis[:, a] > 0) & (fit.basis[:, b] > 0)] > 0
    return [k for k in np.flatnonzero(both.any(axis=0)).tolist() if k not in (a, b)]


def _fixed(labels: Labels, given: Mapping[Any, Any] | None, a: int, b: int) -> dict[int, int]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidQuery(f"odds(given={given!r}): pass levels of other variables, {{variable: level}}.")
    fixed = {}
    for key, level in given.items():
        k = labels.find_mode(key, "odds")
        if k in (a, b):
            raise InvalidQuery(f"odds: {labels.mode(k)} is one of the two variables, and cannot be given.")
        fixed[k] = labels.find_level(k, level, "odds")
    return fixed


def _steps(labels: Labels, k: int, contrasts: str, reference: Mapping[Any, Any] | None) -> list[tuple[int, int]]:
    """List the pairs of levels that are compared: (numerator, denominator)."""
    n, start = labels.shape[k], first_level(labels, k)
    if contrasts == "local":
        return [(i, i - 1) for i in range(1, n)]
    for key, level in (reference or {}).items():
        if labels.find_mode(key, "odds") == k:
            start = labels.find_level(k, level, "odds")
    return [(i, start) for i in range(n) if i != start]


def _said(labels: Labels, k: int, step: tuple[int, int]) -> str:
    return f"{labels.mode(k)}[{labels.level(k, step[0])}/{labels.level(k, step[1])}]"


def _corners(order: int, at: dict[int, int], one: tuple[int, tuple[int, int]], other: Any) -> IntArray:
    """List the four cells of one odds ratio, in the order of `SIGNS`."""
    cells = np.zeros((4, order), dtype=np.int64)
    for k, i in at.items():
        cells[:, k] = i
    (a, (i, j)), (b, (m, n)) = one, other
    cells[:, a], cells[:, b] = [i, i, j, j], [m, n, m, n]
    return cells
