"""One form of X for growing, whatever the order of its modes, and of levels that have no order.

Candidates that are equally good are chosen by their places, and so are the cells that are held out. So that an answer
does not depend on the order of modes, a basis grows on X with its modes in an order that X itself decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legendre.core.origin import PLAIN
from legendre.core.types import AnyArray, BoolArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation, Support

Hashes = NDArray[np.uint64]


def hash_levels(data: Observation, unordered: Sequence[int] = (), rounds: int = 3, most: int = 1 << 22) -> list[Hashes]:
    """Hash each level of each mode by the entries of X there and by the levels of the other modes that they are at.

    In the first of some `rounds` levels of `unordered` modes are all alike, and those of other modes known by their
    places; later ones know what was found before. Sums of hashes depend neither on the order of modes nor on that of
    levels. Of more than `most` entries the levels of unordered modes stay alike.

    >>> from legendre.data.dense import observe
    >>> one, other = (hash_levels(observe(x), [0, 1]) for x in ([[1, 2, 2], [3, 4, 5]], [[5, 3, 4], [2, 1, 2]]))
    >>> (one[0] == other[0][[1, 0]]).all(), (one[1] == other[1][[1, 2, 0]]).all()
    (np.True_, np.True_)
    """
    hashes = [
        _mix(np.full(n, n, np.uint64) if k in unordered else np.arange(n, dtype=np.uint64))
        for k, n in enumerate(data.shape)
    ]
    if data.entries is not None:
        cells, values = data.entries.cells, data.entries.values
    elif isinstance(data, Dense) and data.values.size <= most:
        cells = np.argwhere(data.values > 0)
        values = data.values[tuple(cells.T)]
    else:
        return hashes
    own = _mix(np.ascontiguousarray(values, dtype=np.float64).view(np.uint64))
    for _ in range(rounds):
        found = own.copy()
        for hashed, column in zip(hashes, cells.T, strict=True):
            found += hashed[column]
        found = _mix(found)
        for k, column in enumerate(cells.T):
            sums = np.zeros_like(hashes[k])
            np.add.at(sums, column, found)
            hashes[k] = _mix(hashes[k] + sums)
    return hashes


def _mix(x: Hashes) -> Hashes:
    """Spread 64 bits over 64 bits (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def order_modes(hashes: list[Hashes]) -> list[int]:
    """List the modes, shorter ones first, and of equal lengths by the hashes of their levels."""
    return sorted(range(len(hashes)), key=lambda k: (len(hashes[k]), int(hashes[k].sum())))


def sort_modes(data: Dense) -> tuple[Dense, list[int]]:
    """Return X with its modes in that order, and the order."""
    axes = order_modes(hash_levels(data, rounds=2 if len(set(data.shape)) < len(data.shape) else 0))
    if axes == sorted(axes):
        return data, axes

    def move(array: AnyArray) -> AnyArray:
        return np.ascontiguousarray(array.transpose(axes))

    mask: BoolArray | None = data.support.mask
    return replace(
        data,
        support=Support(tuple(data.shape[k] for k in axes), None if mask is None else move(mask)),
        base=None if data.base is None else move(data.base),
        missing=None if data.missing is None else move(data.missing),
        values=move(data.values),
        by_mode=(),
        last_ranking=None,
        origin=PLAIN,
    ), axes
