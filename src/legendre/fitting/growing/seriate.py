"""Seriation: an order for levels that have none of their own, such as names of places, carriers, people.

A parameter of a grown basis acts on a level and all levels after it, so the order of levels decides what few parameters
can describe. Levels without an order are put beside those that they resemble. The slices of X at the levels are
clustered by Hellinger distance and, a little, by their sums, and the branches of the tree are turned so that neighbours
are close (Bar-Joseph, Gifford and Jaakkola 2001). That needs the distances of all pairs, so if there are very many
levels, they are put on the main axis of their slices, as in correspondence analysis. To decide which end comes first, a
small basis is grown for both directions. The order depends on X alone, not on the order in which its levels come.
"""

from __future__ import annotations

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
from legendre.core.labels import Labels, Mode, Orders, is_ascending
from legendre.core.progress import Say, show_nothing
from legendre.core.sums.linalg import limit_blas, rounding_level
from legendre.core.sums.quotient import Quotient
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.fitting.growing.canonical import hash_levels, order_modes
from legendre.fitting.growing.select import grow_basis

Unordered = Sequence[Mode] | Mapping[Any, Any] | Mode | None
"""Modes whose levels have no order, or a mapping of modes to orders of their levels; ``None``: by their labels."""


def arrange(data: Observation, unordered: Unordered, say: Say = show_nothing) -> Observation:
    """Return X with the levels of its unordered modes in an order that the data choose, or that the caller gives.

    If the caller names no modes, those whose levels are names are unordered, if X is in memory or sparse; ordered
    categories (`origin.ranked`) are not.
    """
    if isinstance(unordered, Mapping):
        return _add_note(data.reorder(_read_orders(data.labels, unordered)), "as given")
    if unordered is not None:
        named = sorted(data.labels.find_modes(unordered, "unordered", InvalidSetting))
    elif data.entries is None and data.as_dense() is None:
        named = []
    else:
        named = find_names(data)
    if not (modes := [k for k in named if data.shape[k] > 1]):
        return data
    say("arranging levels")
    if not data.whole and data.entries is None:
        data = data.reorder([None] * data.n_modes)  # in the same order, but in memory: reordering needs that
    # sort the levels by hashes first, so that the order in which X has them does not matter, then seriate
    hashes = hash_levels(data, modes)
    axes = order_modes(hashes)
    order = [np.argsort(of_levels, kind="stable") if k in modes else None for k, of_levels in enumerate(hashes)]
    by_hash = data.reorder(order)
    order = [None if by is None else by[seriate(by_hash, k, axes)] for k, by in enumerate(order)]
    return _add_note(_orient(data, order, [k for k in axes if k in modes]), "by the data")


def find_names(data: Observation) -> list[int]:
    """List the modes whose levels are names; ordered categories (`origin.ranked`) are not."""
    listed = enumerate(data.labels.levels or ())
    return [k for k, levels in listed if levels is not None and k not in data.origin.ranked and are_names(levels)]


def are_names(labels: AnyArray) -> bool:
    """Whether the labels of a mode are names, which have no natural order.

    Strings are names unless they have a natural order, such as numbers, dates, days of the week (`is_ascending`).
    Other objects are names unless all are dates, times, numbers, or pandas periods and intervals.

    >>> [are_names(np.array(texts)) for texts in (["BOS", "LAX"], ["7", "10"], ["18-24", "65+"], ["Mon", "Tue"])]
    [True, False, False, False]
    """
    listed = labels.tolist()
    if labels.dtype.kind in "UO" and all(isinstance(label, str) for label in listed):
        return not is_ascending(listed)
    ordered = (date, time, timedelta, Number)
    return labels.dtype.kind == "O" and not all(
        isinstance(label, ordered) or type(label).__name__ in ("Period", "Interval") for label in listed
    )


def _read_orders(labels: Labels, orders: Mapping[Any, Any]) -> list[IntArray | None]:
    """Read a caller's orders: for each mode, the positions of its levels in the new order; ``None`` if not named.

    A mode's levels are given by labels or by indices, and each must occur once.
    """
    found: list[IntArray | None] = [None] * labels.n_modes
    for mode, given in orders.items():
        k = labels.find_mode(mode, "unordered", InvalidSetting)
        levels = entries(given) or []
        places = [labels.find_level(k, level, "unordered", InvalidSetting) for level in levels]
        if sorted(places) != list(range(labels.shape[k])):
            raise InvalidSetting(
                f"unordered: {len(places)} levels of {labels.mode(k)} are listed, {len(set(places))} of them "
                f"different; list each of its {labels.shape[k]} levels once."
            )
        found[k] = np.array(places, np.int64)
    return found


def _add_note(data: Observation, how: str) -> Observation:
    """Add a note, which summaries print, on the modes whose levels were arranged and `how`."""
    names = [data.labels.mode(k) for k, by in enumerate(data.labels.order or ()) if by is not None]
    note = f"levels of {', '.join(names)} arranged {how}; see fit.arrangement"
    return replace(data, origin=replace(data.origin, notes=(*data.origin.notes, note)))


def seriate(data: Observation, mode: int, axes: Sequence[int] | None = None) -> IntArray:
    """Return the levels of a mode in an order in which neighbours have similar slices; empty ones come last.

    The other modes are summed in the order of `axes`, so that rounding errors do not depend on X's order of modes.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> seriate(observe([[9, 1], [1, 9], [8, 2], [2, 8]]), 0).tolist()
    [0, 2, 3, 1]
    """
    slices = _slices(data, mode, axes)
    sums = slices.sum(axis=1)
    full = np.flatnonzero(sums > 0)
    find_order = _order_by_tree if len(full) <= limits.MOST_LEAVES else _order_on_axis
    with limit_blas():
        roots = np.sqrt(slices[full] / sums[full, None])  # rows of length 1: their distances are Hellinger's
        # a tree of two leaves has no order to find
        order = np.arange(len(full)) if len(full) <= 2 else find_order(roots, sums[full])
    return np.concatenate((full[order], np.flatnonzero(sums == 0))).astype(np.int64)


def look_unordered(data: Observation, mode: int, fewest: int = 8) -> bool:
    """Whether neighbouring levels are no more alike than any two levels, though each has others like it.

    A first fit then suggests `unordered=`. With fewer levels than `fewest` it may be chance, and more than
    `limits.MOST_LEAVES` would take too long; for these the answer is False.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> kinds = np.array([0, 1, 1, 0, 1, 0, 0, 1, 0, 1])
    >>> mixed, sorted_ = np.eye(2)[kinds] + 0.1, np.eye(2)[np.sort(kinds)] + 0.1
    >>> look_unordered(observe(mixed), 0), look_unordered(observe(sorted_), 0)
    (True, False)
    """
    if not fewest <= data.shape[mode] <= limits.MOST_LEAVES:
        return False
    slices = _slices(data, mode)
    slices = slices[slices.sum(axis=1) > 0]
    if len(slices) < fewest:
        return False
    roots = np.sqrt(slices / slices.sum(axis=1, keepdims=True))
    with limit_blas():
        apart = np.sqrt(np.clip(2.0 - 2.0 * roots @ roots.T, 0.0, None))
    neighbours, pairs = apart.diagonal(1).mean(), apart[np.triu_indices(len(apart), 1)].mean()  # mean distances
    np.fill_diagonal(apart, np.inf)
    # by chance a mean over n neighbours differs by about 1 / sqrt(n); below 1e-3 slices are equal up to rounding
    mixed = pairs > 1e-3 and neighbours > (1.0 - 1.0 / np.sqrt(len(apart))) * pairs
    # slices of pure noise are all equally far apart; an order can help only if each has others that are clearly nearer
    return bool(mixed and apart.min(axis=1).mean() < 0.7 * pairs)


def _order_by_tree(roots: FloatArray, sums: FloatArray, by_size: float = 0.1) -> IntArray:
    """Order levels as the leaves of a tree of average linkage, turned so that neighbours are close.

    `roots` has a row for each level, the square roots of its slice's shares; `sums` are the sums of the slices. The
    distance of two levels is the hypotenuse of two parts: the Hellinger distance, from 0 for proportional slices to the
    square root of 2 for slices without a common cell; and `by_size` times the difference of the logarithms of the sums.
    """
    from scipy.cluster.hierarchy import leaves_list, linkage

    alike = np.clip(roots @ roots.T, 0.0, 1.0)  # cosines: 1 for proportional slices
    (first, second), log_sums = np.triu_indices(len(alike), 1), np.log(sums)
    apart = np.hypot(np.sqrt(2.0 - 2.0 * alike[first, second]), by_size * (log_sums[first] - log_sums[second]))
    return np.asarray(leaves_list(linkage(apart, "average", optimal_ordering=True)), dtype=np.int64)


def _order_on_axis(roots: FloatArray, sums: FloatArray) -> IntArray:
    """Order very many levels by their places on the main axis of their slices, and levels at one place by their sums.

    As in correspondence analysis, the places are the second eigenvector of the similarities ``roots @ roots.T``, scaled
    by their row sums so that the first eigenvector is constant. It is found on the smaller side of `roots` (levels x
    cells), so a number for each pair of levels is needed only if there are more cells than levels. The axis points to
    larger sums. If all slices are alike, there is no axis, and levels are ordered by sums.
    """
    from scipy.linalg import eigh

    side = np.sqrt((roots * roots.sum(axis=0)).sum(axis=1))  # the square roots of the sums of similarities
    scaled = roots / side[:, None]
    wide, size = scaled.shape[1] > len(scaled), min(scaled.shape)
    if size < 2:
        return np.argsort(sums, kind="stable")
    gram = scaled @ scaled.T if wide else scaled.T @ scaled
    values, vectors = eigh(gram, subset_by_index=[size - 2, size - 1], overwrite_a=True)
    if values[0] <= rounding_level(size, scaled.size):  # the second eigenvalue is 0 if all slices are proportional
        return np.argsort(sums, kind="stable")
    axis = vectors[:, 0] @ scaled if wide else vectors[:, 0]
    # each row is summed in the same way, unlike in BLAS, so that proportional slices have equal places to the last bit
    places = (scaled * axis).sum(axis=1) / side
    return np.lexsort((sums, places if (places * sums).sum() >= 0 else -places))


def _slices(data: Observation, mode: int, axes: Sequence[int] | None = None) -> FloatArray:
    """Return X as a matrix with a row for each level of a mode; the other modes are in the order of `axes`, or of X.

    The matrix has at most 2^22 entries (32 MiB), unless the mode alone has more levels. If X has more cells, the
    longest of the other modes is cut into half as many pieces, again and again, and X is summed over these.
    """
    axes, room, pieces = axes or range(data.n_modes), max(1, (1 << 22) // data.shape[mode]), list(data.shape)
    pieces[mode] = 1
    while np.prod([float(n) for n in pieces]) > room:
        longest = max(axes, key=lambda k: pieces[k])
        pieces[longest] = (pieces[longest] + 1) // 2
    pieces[mode] = data.shape[mode]
    cuts = [
        np.unique(np.linspace(0, n, count, endpoint=False).astype(np.int64)) if count < n else np.arange(n)
        for n, count in zip(data.shape, pieces, strict=True)
    ]
    merged = data.merged(Quotient(data.shape, tuple(cuts)))
    return merged.transpose([mode, *(k for k in axes if k != mode)]).reshape(data.shape[mode], -1)


def _orient(data: Observation, order: Orders, modes: list[int]) -> Observation:
    """Reverse the order of arranged modes, one after another, wherever a small basis then fits better.

    Seriation gives an order up to its direction, but a parameter acts on a level and those after it.
    """
    best = data.reorder(order)
    least = _small_fit_kl(best)
    for k in modes:
        turned = [by[::-1] if by is not None and j == k else by for j, by in enumerate(order)]
        other = data.reorder(turned)
        if (kl := _small_fit_kl(other)) < (1.0 - 1e-9) * least - 1e-14:  # less by more than rounding
            best, least, order = other, kl, turned
    return best


def _small_fit_kl(data: Observation, most: int = 24) -> float:
    """Return KL of a small grown basis on X: one cell for each eight of the support, at most `most`.

    `_orient` compares directions of levels by it, because a small basis feels the direction most, and is quickly grown.
    """
    growth = grow_basis(Adaptive(max(1, min(most, data.support.n_cells // 8)), swaps=0), data)
    kl, grown = growth.rounds[-1].kl, growth.grown
    # if it grew on boxes, KL within the boxes is missing, see `measure_rounds`
    return kl if grown is None or grown.negentropy is None else kl + data.negentropy - grown.negentropy
