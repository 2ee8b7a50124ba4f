"""Indices and values of a list, checked: what is wrong is named with its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from legendre.core.cells import LIMIT
from legendre.core.types import AnyArray

NameOfPlace = Callable[[int, int], str]  # names an index of the list: (row, mode) -> text


def check_indices(
    column: AnyArray, size: int | None, mode: int, place: NameOfPlace, error: type[ValueError]
) -> AnyArray:
    """Return the indices of one mode as integers >= 0, below the size if there is one."""
    match column.dtype.kind:
        case "b" | "i" | "u":
            indices = column
        case "f":
            indices = _whole(column, mode, place, error)
        case _:
            what = f" = {column[0]!r}" if len(column) else ""
            raise error(
                f"{place(0, mode)}{what} has dtype {column.dtype}; indices are integers counted from 0. For names of "
                "levels see legendre.from_rows."
            )
    if not len(indices):
        return indices
    low, high = int(indices.min()), int(indices.max())
    if low < 0:
        where = place(int(indices.argmin()), mode)
        raise error(f"{where} = {low}: indices count from 0, so none is negative.")
    if size is not None and high >= size:
        where = place(int(np.argmax(indices >= size)), mode)
        found = int(indices[np.argmax(indices >= size)])
        raise error(f"{where} = {found}: mode {mode} has size {size}, so its indices run from 0 to {size - 1}.")
    if high >= LIMIT - 1:
        raise error(f"{place(int(indices.argmax()), mode)} = {high}: indices must be below 2^63 - 1.")
    return indices


def _whole(column: AnyArray, mode: int, place: NameOfPlace, error: type[ValueError]) -> AnyArray:
    with np.errstate(invalid="ignore"):
        bad = ~((column == np.rint(column)) & (np.abs(column) < float(LIMIT)))
    if bad.any():
        row = int(np.argmax(bad))
        found = column[row]
        way_out = (
            "NaN is no index: leave such rows out." if np.isnan(found) else "Indices are whole numbers below 2^63."
        )
        raise error(f"{place(row, mode)} = {found:g}. {way_out}")
    return column.astype(np.int64)


def check_values(values: Any, n: int, name: str, context: Callable[[int], str], error: type[ValueError]) -> AnyArray:
    """Return n numbers >= 0 as float64, or int64 where they are integers whose sum fits."""
    numbers: AnyArray = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        hint = " If True counts as 1, pass it .astype(int)." if numbers.dtype.kind == "b" else ""
        raise error(f"{name} has dtype {numbers.dtype}; it must hold real numbers >= 0.{hint}")
    if numbers.shape != (n,):
        raise error(f"{name} has shape {numbers.shape}; there are {n} cells, so it must hold {n} numbers.")
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(numbers.sum(dtype=np.float64))
    if (n and not numbers.min() >= 0) or not np.isfinite(total):
        _refuse(numbers, name, context, error)
    if numbers.dtype.kind == "f" or total >= LIMIT / 2:
        return numbers.astype(np.float64, copy=False)
    return numbers.astype(np.int64, copy=False)


def _refuse(numbers: AnyArray, name: str, context: Callable[[int], str], error: type[ValueError]) -> None:
    """Name the first value that is none; a finite list whose sum overflows passes, and is refused with the sum."""
    bad = ~((numbers >= 0) & (numbers < np.inf))
    if not bad.any():
        return
    row, count = int(np.argmax(bad)), int(bad.sum())
    found = numbers[row]
    if np.isnan(found):
        way_out = (
            "A cell that is not listed is 0, so a list cannot say which cells are missing. Leave the entry out; if its "
            "cell is not to count as 0, leave that cell out of the support."
        )
    elif found > 0:
        way_out = "Entries must be finite."
    else:
        way_out = "X is read as unnormalised probabilities, so every entry must be >= 0."
    more = f" ({count} such entries in all)" if count > 1 else ""
    raise error(f"{name}[{row}] = {found:g}{context(row)}{more}. {way_out}")


def shape_text(shape: tuple[int, ...]) -> str:
    """Write a shape; a long one shortened.

    >>> shape_text((2, 3)), shape_text((2,) * 100)
    ('2 x 3', '2 x 2 x 2 x 2 x ... x 2, 100 modes')
    """
    if len(shape) <= 6:
        return " x ".join(map(str, shape))
    return f"{' x '.join(map(str, shape[:4]))} x ... x {shape[-1]}, {len(shape)} modes"
