"""Orders of levels: for each mode the level of X that stands at each place, or None for a mode as it stands."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from legendre.core.cells import frozen
from legendre.core.types import AnyArray, IntArray


def ordered_parts_bits(lengths: Sequence[Sequence[int]]) -> float:
    """Return log2 of the number of ways to deal the levels of each mode out to intervals of these lengths, in order.

    >>> ordered_parts_bits([[2, 2]]), ordered_parts_bits([[1, 1, 1, 1], [5]])  # 6 ways; 4! ways, and one
    (2.584..., 4.584...)
    """
    return sum(math.lgamma(sum(n) + 1) - sum(math.lgamma(k + 1) for k in n) for n in lengths) / math.log(2.0)


def inverse(order: IntArray | None) -> IntArray | None:
    """Return the place of each level of X, given the level at each place."""
    return None if order is None else np.argsort(order)


def taken(
    levels: tuple[AnyArray | None, ...] | None, order: Sequence[IntArray | None]
) -> tuple[AnyArray | None, ...] | None:
    """Put the labels of every mode in an order."""
    if levels is None:
        return None
    pairs = zip(levels, order, strict=True)
    return tuple(own if own is None or by is None else frozen(own[by]) for own, by in pairs)


def along_modes(array: AnyArray, order: Sequence[IntArray | None] | None) -> AnyArray:
    """Put an array over all modes in an order, mode by mode."""
    for k, by in enumerate(order or ()):
        array = array if by is None else array.take(by, axis=k)
    return array


def mapped(cells: IntArray, tables: Sequence[IntArray | None] | None) -> IntArray:
    """Look up each coordinate of some cells (k x N) in the table of its mode."""
    if tables is None:
        return cells
    columns = [cells[:, k] if table is None else table[cells[:, k]] for k, table in enumerate(tables)]
    return np.column_stack(columns).astype(np.int64)
