"""The order of levels that have none of their own: names of places, carriers, people.

A parameter of a grown basis acts on all levels from one on, so that the order of levels decides what few parameters can
say. Levels without an order are put beside those that they resemble: a tree of their slices by Hellinger distance and,
a little, by their sums, its branches turned so that neighbours are close (Bar-Joseph, Gifford and Jaakkola 2001). Very
many levels have no tree, for it needs the distances of all pairs; they are put on the main axis of their slices. Which
end comes first is settled by growing a small basis both ways. The arrangement is a function of X alone, whatever order
its levels come in.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from numbers import Number
from typing import Any

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.core import limits
from legendre.core.arguments import entries
from legendre.core.errors import InvalidSetting
from legendre.core.labels import Labels, Mode, ascending
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas, rounding_level
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.observation import Observation, Orders
from legendre.fitting.adaptive.grow import grow
from legendre.results.growth_path import on_grid

Unordered = Sequence[Mode] | Mapping[Any, Any] | Mode | None
"""Modes whose levels have no order, or a mapping of modes to orders of their levels; ``None``: by their labels."""
TRIAL = 24
"""Parameters of the basis that is grown to settle which end of an arrangement comes first; at most an eighth of X."""
SIZES = 0.1
"""What a factor of e between the sums of two slices adds to their distance, which is 0 for slices of one shape and the
square root of 2 for slices that share no cell. KL of 300 parameters on taxi trips, metro and flights, by this number:
0: 0.0369, 0.0232, 0.565; 0.05: 0.0369, 0.0231, 0.537; 0.1: 0.0369, 0.0223, 0.525; 0.2: 0.0366, 0.0237, 0.532."""
ORDERED = (date, time, timedelta, Number)  # objects that have an order; those of pandas are known by their names
MOST_TURNS = 3  # arranged modes up to which all combinations of directions are tried; of more, one after the other


@limit_blas()
def arranged(data: Observation, unordered: Unordered, say: Say | None = None) -> Observation:
    """Return X with the levels of its unordered modes in an order that the data choose, or that the caller gives.

    Without a word of the caller's, modes whose levels are names are unordered, where X is in memory or sparse.
    """
    if isinstance(unordered, Mapping):
        return _noted(data.arranged(_given(data.labels, unordered)), "as given")
    if unordered is None:
        modes = _named(data)
    else:
        listed = [unordered] if isinstance(unordered, (str, int, np.integer)) else entries(unordered)
        if listed is None:
            raise InvalidSetting(f"unordered={unordered!r}: name modes, such as ['zone'], or give orders of levels.")
        modes = sorted({data.labels.find_mode(mode, "unordered", InvalidSetting) for mode in listed})
    modes = [k for k in modes if data.shape[k] > 2 or (data.shape[k] == 2 and unordered is not None)]
    if not modes:
        return data
    if say is not None:
        say("arranging levels")
    if not data.whole and data.entries is None:
        data = data.arranged([None] * len(data.shape))  # as it stands, but in memory, where it ends anyway
    order: list[IntArray | None] = [leaves(data, k) if k in modes else None for k in range(len(data.shape))]
    return _noted(_turned(data, order, modes), "by the data")


def _named(data: Observation) -> list[int]:
    """List the modes whose levels are names without an order of their own."""
    if data.entries is None and data.here() is None:
        return []
    levels = enumerate(data.labels.levels or ())
    return [k for k, own in levels if own is not None and not_ordered(own) and k not in data.origin.ranked]


def not_ordered(labels: AnyArray) -> bool:
    """Whether labels are names: texts that are no numbers, dates, times, days of the week or months in their order.

    Of objects those are names that are no dates, times, numbers, nor periods and intervals of pandas.

    >>> [not_ordered(np.array(texts)) for texts in (["BOS", "LAX"], ["7", "10"], ["18-24", "65+"], ["Mon", "Tue"])]
    [True, False, False, False]
    """
    if labels.dtype.kind not in "UO" or not all(isinstance(label, str) for label in labels.tolist()):
        return labels.dtype.kind == "O" and not all(
            isinstance(label, ORDERED) or type(label).__name__ in ("Period", "Interval") for label in labels.tolist()
        )
    return not ascending(labels.tolist())


def _given(labels: Labels, orders: Mapping[Any, Any]) -> list[IntArray | None]:
    """Read orders of levels, by labels or by indices."""
    found: list[IntArray | None] = [None] * len(labels.shape)
    for mode, given in orders.items():
        k = labels.find_mode(mode, "unordered", InvalidSetting)
        listed = entries(given)
        if listed is None:
            raise InvalidSetting(f"unordered: {given!r} is no order of the levels of {labels.mode(k)}; list them all.")
        places = np.array([labels.find_level(k, level, "unordered", InvalidSetting) for level in listed], np.int64)
        if len(set(places.tolist())) < len(places) or len(places) != labels.shape[k]:
            raise InvalidSetting(
                f"unordered: {len(places)} levels of {labels.mode(k)} are listed, {len(set(places.tolist()))} of them "
                f"different; list each of its {labels.shape[k]} levels once."
            )
        found[k] = places
    return found


def _noted(data: Observation, how: str) -> Observation:
    """Say in summaries which modes were arranged."""
    names = [data.labels.mode(k) for k, by in enumerate(data.labels.order or ()) if by is not None]
    note = f"levels of {', '.join(names)} arranged {how}; see fit.arrangement"
    return replace(data, origin=replace(data.origin, notes=(*data.origin.notes, note)))


def leaves(data: Observation, mode: int) -> IntArray:
    """Put the levels of a mode in an order in which neighbours have similar slices.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> leaves(observe([[9, 1], [1, 9], [8, 2], [2, 8]]), 0).tolist()
    [0, 2, 3, 1]
    """
    slices = _slices(data, mode)
    sums = slices.sum(axis=1)
    full = np.flatnonzero(sums > 0)
    roots = np.sqrt(slices[full] / sums[full, None])
    ordered = _ordered(roots, sums[full])
    return np.concatenate((full[ordered], np.flatnonzero(sums == 0))).astype(np.int64)


def _ordered(roots: FloatArray, sums: FloatArray) -> IntArray:
    """Order slices: few by a tree, many on an axis, after groups that share nothing have been put one by one."""
    if len(roots) <= 2:
        return np.arange(len(roots))
    if len(roots) <= limits.MOST_LEAVES:
        return _chained(roots, np.log(sums))
    number, group = _groups(roots)
    if number == 1:
        return _on_one_axis(roots, sums)
    largest_first = np.lexsort((-np.bincount(group), -np.bincount(group, sums)))
    members = [np.flatnonzero(group == which) for which in largest_first]
    return np.concatenate([some[_ordered(roots[some], sums[some])] for some in members])


def _groups(roots: FloatArray) -> tuple[int, IntArray]:
    """Part slices into groups: two that share a cell with data, or are linked by others that do, are of one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, columns = np.nonzero(roots)
    n, m = roots.shape
    links = coo_array((np.ones(len(rows), dtype=np.bool_), (rows, columns + n)), shape=(n + m, n + m))
    _, label = connected_components(links, directed=False)
    names, group = np.unique(label[:n], return_inverse=True)
    return len(names), group


def _chained(roots: FloatArray, log_sums: FloatArray) -> IntArray:
    """Order by similarity, and a little by size: the leaves of a tree."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    alike = np.clip(roots @ roots.T, 0.0, 1.0)  # 1 where two slices are the same but for their sums
    first, second = np.triu_indices(len(alike), 1)
    apart = np.hypot(np.sqrt(2.0 - 2.0 * alike[first, second]), SIZES * (log_sums[first] - log_sums[second]))
    return np.asarray(leaves_list(linkage(apart, "average", optimal_ordering=True)), dtype=np.int64)


def _on_one_axis(roots: FloatArray, sums: FloatArray) -> IntArray:
    """Order very many levels by their places on the main axis of their slices, and levels at one place by their sums.

    The places are those of the second eigenvector of the similarities ``roots @ roots.T``, scaled so that the first is
    the same for all levels; they grow towards larger sums. Slices that are all alike have no axis, and go by sums. Rows
    are summed one by one, not by BLAS, so that slices of one shape have one place to the last bit.
    """
    side = np.sqrt((roots * roots.sum(axis=0)).sum(axis=1))  # the square roots of the sums of similarities
    scaled = roots / side[:, None]
    axis = _second_axis(scaled)
    if axis is None:
        return np.argsort(sums, kind="stable")
    places = (scaled * axis).sum(axis=1) / side
    return np.lexsort((sums, places if (places * sums).sum() >= 0 else -places))


def _second_axis(scaled: FloatArray) -> FloatArray | None:
    """Return the second right singular vector of a matrix (n x m) of norm 1; ``None`` if its rank is one.

    It is found on the smaller side: a matrix of min(n, m)^2 <= n m entries, in one thread for the same bits always.
    """
    from scipy.linalg import eigh

    wide = scaled.shape[1] > len(scaled)
    size = min(scaled.shape)
    if size < 2:
        return None
    values, vectors = eigh(
        scaled @ scaled.T if wide else scaled.T @ scaled, subset_by_index=[size - 2, size - 1], overwrite_a=True
    )
    if values[0] <= rounding_level(size, scaled.size):
        return None
    return vectors[:, 0] @ scaled if wide else vectors[:, 0]


def _slices(data: Observation, mode: int) -> FloatArray:
    """Return X with a row for each level of a mode; the other modes are merged where X is large."""
    others = [k for k in range(len(data.shape)) if k != mode]
    room = max(1, limits.LARGEST_SLICES // data.shape[mode])
    boxes = {k: data.shape[k] for k in others}
    while np.prod([float(n) for n in boxes.values()]) > room:
        longest = max(boxes, key=lambda k: boxes[k])
        boxes[longest] = (boxes[longest] + 1) // 2
    cuts = [
        np.arange(n) if k == mode else np.unique(np.linspace(0, n, boxes[k], endpoint=False).astype(np.int64))
        for k, n in enumerate(data.shape)
    ]
    merged = data.merged(Quotient(data.shape, tuple(cuts)))
    return np.moveaxis(merged, mode, 0).reshape(data.shape[mode], -1)


def _turned(data: Observation, order: Orders, modes: list[int]) -> Observation:
    """Turn arranged modes around where a small basis is better then; of equal ones the first tried stays."""
    if len(modes) <= MOST_TURNS:
        tries = [_turn(order, ends) for n in range(len(modes) + 1) for ends in itertools.combinations(modes, n)]
        found = [data.arranged(some) for some in tries]
        return found[int(np.argmin([_trial(some) for some in found]))]
    best = data.arranged(order)
    least = _trial(best)
    for k in modes:
        other = data.arranged(turned := _turn(order, (k,)))
        if (kl := _trial(other)) < least:
            best, least, order = other, kl, turned
    return best


def _turn(order: Orders, modes: Sequence[int]) -> list[IntArray | None]:
    return [by[::-1] if by is not None and k in modes else by for k, by in enumerate(order)]


def _trial(data: Observation) -> float:
    grown = grow(Adaptive(max(1, min(TRIAL, data.support.n_cells // 8)), swaps=0), data)
    return on_grid(grown.rounds[-1:], data)[0].kl
