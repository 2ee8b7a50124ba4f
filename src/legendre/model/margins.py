"""Hierarchical bases: those that fit whole margins, on the merged grid."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from legendre.model.model import Model

Modes = tuple[int, ...]


def fitted_margins(model: Model) -> list[Modes]:
    """List the largest sets of modes S such that B holds every merged cell with non-zero coordinates in S only.

    Of tied parameters none are listed: their cells do not move by themselves.
    """
    if model.ties is not None:
        return []
    if model.every_cell:
        return [tuple(k for k, n in enumerate(model.quotient.merged_shape) if n > 1)]
    closed = _closed(model)
    every = tuple(range(len(model.quotient.merged_shape)))
    if every in closed:
        return [every]
    # what lies in a closed set is closed: one that is not largest lacks a single mode of another
    return sorted(closed - {part for s in closed for part in combinations(s, len(s) - 1)})


def generating_margins(model: Model) -> list[Modes] | None:
    """List the margins that B fits if B is nothing but those margins, else ``None``.

    A list of cells has no axes along which margins could be summed: ``None`` there too.
    """
    if model.form == "list" or not model.whole_interactions:
        return None
    if model.every_cell:
        return fitted_margins(model)
    return fitted_margins(model) or None if _closed(model) == set(model.patterns) else None


def _closed(model: Model) -> set[Modes]:
    """Collect the sets of modes of which B has every cell, and every cell of every part of them."""
    shape = model.quotient.merged_shape
    complete = {modes for modes, count in model.patterns.items() if count == math.prod(shape[k] - 1 for k in modes)}
    if len(complete) == 2 ** len(shape) - 1:
        return complete
    closed: set[Modes] = set()
    for s in sorted(complete, key=len):  # parts of one mode less are closed: so are theirs
        if all(part in closed for part in combinations(s, len(s) - 1) if part):
            closed.add(s)
    return closed


def in_running_order(modes: list[Modes]) -> list[Modes]:
    """Order sets of modes so that each meets those before it in one of them, where that is possible.

    >>> in_running_order([(0, 1), (2, 3), (1, 2)])
    [(0, 1), (1, 2), (2, 3)]
    """
    holders: dict[int, list[int]] = {}  # for each mode the sets that hold it
    for i, group in enumerate(modes):
        for k in group:
            holders.setdefault(k, []).append(i)
    common = np.zeros(len(modes))  # how many of each set's modes have been seen; -inf where the set has been taken
    ordered: list[Modes] = []
    for _ in modes:
        best = int(common.argmax())
        ordered.append(modes[best])
        common[best] = -np.inf
        for k in modes[best]:
            common[holders.pop(k, [])] += 1
    return ordered


def decomposable(margins: list[Modes]) -> bool:
    """Whether in a running order each set meets all before it in what it shares with one: one scaling cycle is exact.

    >>> decomposable([(0, 1), (1, 2)]), decomposable([(0, 1), (1, 2), (0, 2)])
    (True, False)
    """
    if len(margins) > len({k for group in margins for k in group}):  # a tree has at most one clique for each mode
        return False
    before: list[set[int]] = []
    for group in in_running_order(margins):
        shared = set(group) & set().union(*before)
        if before and not any(shared <= other for other in before):
            return False
        before.append(set(group))
    return True
