"""Lists of cells, sorted and merged: index vectors packed into as few 63-bit integers as hold them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legendre.core.types import AnyArray, BoolArray, IntArray

LIMIT = 2**63


def merged(columns: Sequence[AnyArray], values: AnyArray | None, shape: tuple[int, ...]) -> tuple[AnyArray, AnyArray]:
    """Sort cells as C order has them and add the values of equal ones; without values, count them.

    The columns hold one index per mode, checked against the shape. Returns cells (nnz x N, each mode's column
    contiguous, in the smallest unsigned type) and their values.

    Examples
    --------
    >>> cells, counts = merged([np.array([1, 0, 1]), np.array([0, 2, 0])], None, (2, 3))
    >>> cells.tolist(), counts.tolist()
    ([[0, 2], [1, 0]], [1, 2])
    """
    runs = packed_modes(shape)
    words = [pack([columns[k] for k in run], [shape[k] for k in run]) for run in runs]
    words, values = _in_order(words, values)
    first = np.flatnonzero(_changes(words))
    n = len(words[0])
    if values is None:
        values = np.diff(np.append(first, n))
    elif len(first) < n:
        values = np.add.reduceat(values, first) if n else values
    cells = np.empty((len(first), len(shape)), dtype=index_type(shape), order="F")
    for run in runs:
        word = words.pop(0)
        unpack(word if len(first) == n else word[first], run, shape, cells)
    return cells, values


def index_type(shape: tuple[int, ...]) -> np.dtype[Any]:
    """Find the smallest type that holds every index: unsigned up to 32 bits, then int64.

    >>> [str(index_type((2, size))) for size in (256, 257, 2**32, 2**32 + 1)]
    ['uint8', 'uint16', 'uint32', 'int64']
    """
    largest = max(shape) - 1
    return np.min_scalar_type(largest) if largest < 2**32 else np.dtype(np.int64)


def packed_modes(shape: tuple[int, ...]) -> list[range]:
    """Cut the modes into runs, in order, whose grids have fewer than 2^63 cells each.

    >>> packed_modes((2,) * 100)
    [range(0, 62), range(62, 100)]
    """
    runs, start, size = [], 0, 1
    for k, length in enumerate(shape):
        if size * length >= LIMIT:
            runs.append(range(start, k))
            start, size = k, 1
        size *= length
    return [*runs, range(start, len(shape))]


def pack(columns: Sequence[AnyArray], sizes: Sequence[int]) -> IntArray:
    """Give each cell of a grid its number in C order."""
    word = columns[0].astype(np.int64)
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        word *= size
        np.add(word, column, out=word, casting="unsafe")  # uint64 indices below 2^63
    return word


def unpack(word: IntArray, run: range, shape: tuple[int, ...], cells: AnyArray) -> None:
    """Write the indices behind the numbers into the columns of `cells`."""
    for k in reversed(run):
        if k == run.start:
            cells[:, k] = word
        else:
            word, cells[:, k] = np.divmod(word, shape[k])


def _in_order(words: list[IntArray], values: AnyArray | None) -> tuple[list[IntArray], AnyArray | None]:
    """Sort; equal cells keep their order, so that their sums do not depend on the machine's way of sorting."""
    if _increasing(words):
        return words, values
    if len(words) == 1 and values is None:
        words[0].sort()
        return words, None
    order = np.argsort(words[0], kind="stable") if len(words) == 1 else np.lexsort(words[::-1])
    for k, word in enumerate(words):
        words[k] = word[order]
    return words, None if values is None else values[order]


def _increasing(words: list[IntArray]) -> bool:
    """Tell whether the rows stand in order already; equal neighbours are in order."""
    tied: BoolArray | None = None
    for word in words:
        falls = word[1:] < word[:-1]
        if (falls if tied is None else falls & tied).any():
            return False
        same = word[1:] == word[:-1]
        tied = same if tied is None else tied & same
    return True


def _changes(words: list[IntArray]) -> BoolArray:
    """Tell where a row differs from the one before it; the first does."""
    new = np.ones(len(words[0]), dtype=np.bool_)
    if len(new):
        new[1:] = words[0][1:] != words[0][:-1]
        for word in words[1:]:
            new[1:] |= word[1:] != word[:-1]
    return new
