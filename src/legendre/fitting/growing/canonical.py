"""A canonical order of modes, and of levels that have no order, so that answers do not depend on the order in X.

Ties between equally good candidates are broken by their places in the grid, and the cells that are held out are drawn
by their places too. So a basis grows on X with its modes in an order that the entries of X decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from legendre.core.origin import PLAIN
from legendre.data.dense import Dense
from legendre.data.observation import Observation

Hashes = NDArray[np.uint64]


def hash_levels(data: Observation, unordered: Sequence[int] = (), rounds: int = 3, most: int = 1 << 22) -> list[Hashes]:
    """Hash each level of each mode by the entries of X there; return an array of hashes for each mode.

    It is colour refinement (Weisfeiler and Leman 1968). A level starts with the hash of its index; in `unordered` modes
    all start with the same. In each of the `rounds`, an entry is hashed with the levels that it is at, and a level with
    the sum of the hashes of its entries. Sums depend neither on the order of modes nor on that of levels. The start is
    returned as it is if a dense X has more than `most` cells.

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
    bits = np.asarray(values, dtype=np.float64)
    if data.origin.counted is False or not np.array_equal(bits, np.rint(bits)):
        # not counts: of the share of the largest, 32 bits; neither the unit of X nor the rounding of sums decides
        bits = (bits / bits.max()).view(np.uint64) + np.uint64(1 << 19) >> np.uint64(20)
    of_values = _mix(np.ascontiguousarray(bits).view(np.uint64))
    for _ in range(rounds):
        of_entries = of_values.copy()
        for hashed, column in zip(hashes, cells.T, strict=True):
            of_entries += hashed[column]
        of_entries = _mix(of_entries)
        for k, column in enumerate(cells.T):
            sums = np.zeros_like(hashes[k])
            np.add.at(sums, column, of_entries)
            hashes[k] = _mix(hashes[k] + sums)
    return hashes


def _mix(x: Hashes) -> Hashes:
    """Scramble 64-bit numbers one to one, so that sums of them seldom collide (splitmix64; Steele, Lea, Flood 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def order_modes(hashes: list[Hashes]) -> list[int]:
    """List the modes in canonical order: shorter ones first, those of equal lengths by the sum of their hashes.

    The order in which X has its modes does not matter, so a basis that grows in this order is the same for every one.
    """
    return sorted(range(len(hashes)), key=lambda k: (len(hashes[k]), int(hashes[k].sum())))


def sort_modes(data: Dense) -> tuple[Dense, list[int]]:
    """Return X with its modes in the order of `order_modes`, and that order; cells of it have columns in that order.

    The total is added up in that order too: its last bit decides between candidates that are equally good.
    """
    # the lengths decide unless two are equal; only then is X hashed
    axes = order_modes(hash_levels(data, rounds=2 if len(set(data.shape)) < data.n_modes else 0))
    moved = data.rearrange(lambda array: np.ascontiguousarray(array.transpose(axes)), PLAIN)
    mask = moved.support.mask
    total = float((moved.values if mask is None else moved.values[mask]).sum(dtype=np.float64))
    return replace(moved, total=total), axes
