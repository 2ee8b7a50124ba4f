"""A column of a table as indices of a mode: whole numbers as they are, anything else by its levels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.types import AnyArray

Given = Any
"""What the caller says about a mode: nothing, its size, or its levels in order."""


@dataclass(frozen=True, eq=False)
class Mode:
    """Indices of the rows; the levels they stand for, or ``None``; the size, where it does not follow from the rows."""

    indices: AnyArray
    levels: AnyArray | None = None
    size: int | None = None


@dataclass(frozen=True, eq=False)
class _Raw:
    """A column as its library gives it: numbers, or codes of distinct values (in an order that counts, or not)."""

    numbers: AnyArray | None = None
    codes: AnyArray | None = None
    distinct: AnyArray | None = None
    ordered: bool = False


def read_mode(column: Any, name: str, given: Given) -> Mode:
    """Read one column; `given` is its size, its levels in order, or ``None``."""
    library = type(column).__module__.split(".")[0]
    raw = {"pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}.get(library, _numpy)(column, name)
    if given is None or is_whole(given, 1):
        if raw.numbers is not None:
            return Mode(raw.numbers, size=given)
        if given is not None:
            raise InvalidSetting(f"levels of {name} is {given}, but it holds no numbers. List its levels, in order.")
        return _own_levels(raw, name)
    return _given_levels(raw, name, given)


def missing(name: str, row: int) -> NoReturn:
    """Refuse a missing value."""
    raise InvalidSamples(
        f"{name} is missing in row {row}. Leave such rows out, or make missing a level of its own, e.g. 'unknown'."
    )


def _own_levels(raw: _Raw, name: str) -> Mode:
    """Levels in the column's own order if it has one, else those that occur, sorted."""
    assert raw.codes is not None
    assert raw.distinct is not None
    if raw.ordered:
        return Mode(raw.codes, raw.distinct, len(raw.distinct))
    used = np.flatnonzero(np.bincount(raw.codes, minlength=len(raw.distinct)))
    try:
        order = used[np.argsort(raw.distinct[used], kind="stable")]
    except TypeError:
        kinds = sorted({type(value).__name__ for value in raw.distinct[used].tolist()})
        raise InvalidSamples(
            f"{name} mixes values of types {', '.join(kinds)}, which have no order. Convert it to one type, or list "
            "its levels."
        ) from None
    rank = np.empty(len(raw.distinct), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return Mode(rank[raw.codes], raw.distinct[order], len(order))


def _given_levels(raw: _Raw, name: str, given: Given) -> Mode:
    levels = _level_list(name, given)
    if raw.numbers is not None:
        distinct, codes = np.unique(raw.numbers, return_inverse=True)
    else:
        assert raw.distinct is not None
        assert raw.codes is not None
        distinct, codes = raw.distinct, raw.codes
    place = {value: k for k, value in enumerate(levels.tolist())}
    found = np.array([place.get(value, -1) for value in distinct.tolist()], dtype=np.int64)
    indices = found[codes]
    if len(indices) and indices.min() < 0:
        row = int(indices.argmin())
        value = distinct[codes[row]]
        raise InvalidSamples(f"{name} holds {value!s} in row {row}, which its levels do not list.")
    return Mode(indices, levels, len(levels))


def _level_list(name: str, given: Given) -> AnyArray:
    listed = list(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else []
    if not listed or len(set(listed)) < len(listed):
        raise InvalidSetting(f"levels of {name} must be its size or different values in a list, got {given!r}.")
    levels: AnyArray = np.asarray(listed)
    if levels.ndim != 1 or (levels.dtype.kind in "US" and not all(isinstance(level, str) for level in listed)):
        levels = np.empty(len(listed), dtype=object)  # levels of several types: NumPy would make strings of them
        levels[:] = listed
    return levels


def _numpy(column: Any, name: str) -> _Raw:
    if isinstance(column, np.ma.MaskedArray) and np.ma.getmaskarray(column).any():
        missing(name, int(np.argmax(np.ma.getmaskarray(column))))
    if isinstance(column, np.ndarray):
        values: AnyArray = np.asarray(column)
    else:  # a list: NumPy would make strings of ["a", 1]
        values = np.empty(len(column), dtype=object)
        values[:] = list(column)
    match values.dtype.kind:
        case "b" | "i" | "u":
            return _Raw(values)
        case "f":
            return _floats(values, name)
        case "O":
            return _objects(values, name)
        case "U" | "S" | "M" | "m":
            if values.dtype.kind in "Mm" and np.isnat(values).any():
                missing(name, int(np.argmax(np.isnat(values))))
            distinct, codes = np.unique(values, return_inverse=True)
            return _Raw(codes=codes, distinct=distinct)
    raise InvalidSamples(f"{name} has dtype {values.dtype}; a mode needs whole numbers from 0 on, or names of levels.")


def _floats(values: AnyArray, name: str) -> _Raw:
    if np.isnan(values).any():
        missing(name, int(np.argmax(np.isnan(values))))
    return _Raw(values)


def _objects(values: AnyArray, name: str) -> _Raw:
    listed = values.tolist()
    for row, value in enumerate(listed):
        if value is None or value != value or type(value).__name__ == "NAType":  # NaN and NaT differ from themselves
            missing(name, row)
    if all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in listed):
        return _Raw(np.array(listed))
    codes, place = np.empty(len(listed), dtype=np.int64), dict[Any, int]()
    for row, value in enumerate(listed):
        codes[row] = place.setdefault(value, len(place))
    distinct = np.empty(len(place), dtype=object)
    distinct[:] = list(place)
    return _Raw(codes=codes, distinct=distinct)


def _pandas(series: Any, name: str) -> _Raw:
    absent = series.isna().to_numpy()
    if absent.any():
        missing(name, int(absent.argmax()))
    if hasattr(series.dtype, "categories"):
        return _Raw(None, series.cat.codes.to_numpy(), series.dtype.categories.to_numpy(), bool(series.dtype.ordered))
    if getattr(series.dtype, "kind", "O") in "biuf":
        return _numpy(series.to_numpy(), name)
    codes, distinct = series.factorize()
    return _Raw(codes=codes, distinct=np.asarray(distinct))


def _polars(series: Any, name: str) -> _Raw:
    if series.null_count():
        missing(name, int(series.is_null().arg_max()))
    kind = str(series.dtype)
    if series.dtype.is_numeric() or kind == "Boolean":
        return _numpy(series.to_numpy(), name)
    if kind.startswith("Enum"):
        return _Raw(None, series.to_physical().to_numpy(), series.dtype.categories.to_numpy(), True)
    if kind.startswith("Categorical"):
        series = series.cast(type(series)([""]).dtype)  # to strings
    distinct = series.unique(maintain_order=True)
    codes = series.replace_strict(distinct, list(range(len(distinct)))).to_numpy()
    return _Raw(codes=codes, distinct=np.asarray(distinct.to_numpy()))


def _pyarrow(column: Any, name: str) -> _Raw:
    if column.null_count:
        missing(name, int(np.argmax(np.asarray(column.is_null()))))
    if hasattr(column.type, "ordered"):
        column = column.unify_dictionaries().combine_chunks() if hasattr(column, "chunks") else column
        ordered = bool(column.type.ordered)
    else:
        column = column.combine_chunks() if hasattr(column, "chunks") else column
        if str(column.type).startswith(("int", "uint", "float", "double", "halffloat", "bool")):
            return _numpy(column.to_numpy(zero_copy_only=False), name)
        column, ordered = column.dictionary_encode(), False
    codes, distinct = (part.to_numpy(zero_copy_only=False) for part in (column.indices, column.dictionary))
    return _Raw(codes=codes, distinct=distinct, ordered=ordered)
