"""Tables with a row per event or sample, whole or in parts, counted into a sparse tensor with a mode per column."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidSamples, InvalidSetting, unknown_name
from legendre.core.level_values import have_rank
from legendre.core.text_order import sorted_levels
from legendre.core.types import AnyArray
from legendre.data.readers.columns import Column, Table, level_list, levels_by_column, read_table
from legendre.data.sparse_tensor import SparseTensor, assemble, check_values

LIBRARIES = ("pandas", "polars", "pyarrow")  # of data frames, which answers are given back in


def from_rows(
    table: Any,
    columns: Sequence[Hashable] | None = None,
    counts: ArrayLike | str | None = None,
    levels: int | Sequence[Any] | Mapping[Any, Any] | None = None,
) -> SparseTensor:
    """Count the rows of a table: one row per event or sample, one column per mode.

    The levels of a mode are the values that occur in its column, sorted: dates, whole numbers, or texts, of which those
    that mean numbers, times, days or months are sorted as these. Ordered categories (of pandas and pyarrow, and Enum of
    polars) keep their list and its order.

    Parameters
    ----------
    table
        A data frame of pandas, polars or any other library that narwhals reads, a pyarrow table, a mapping of names to
        columns, or an array with one row per event.
    columns
        Which columns are modes, and in which order: names, or numbers for an array. ``None``: all columns except
        `counts`.
    counts
        The number of times each row counts: numbers >= 0, or the name of the column that holds them. ``None``: once.
    levels
        For each column (a mapping, or a sequence with one item per mode) its levels in order; for a column of indices
        counted from 0, their number; ``None``: the values that occur. A single number is the size of every mode.

    Returns
    -------
    SparseTensor
        With `names` and `levels`. Answers of a fit to it have these labels.

    Raises
    ------
    InvalidSamples
        If an entry is invalid or missing; the message names its row and column.

    See Also
    --------
    from_batches : Count rows that come in parts.
    from_coords : A sparse tensor from cells and values.
    SparseTensor : What these readers return.
    LegendreDensity : The distribution of rows of categories.

    Examples
    --------
    >>> import pandas as pd
    >>> flights = pd.DataFrame({"dest": ["SFO", "BOS", "SFO"], "hour": [6, 7, 6]})
    >>> x = from_rows(flights, levels={"hour": 24})
    >>> x
    SparseTensor: 2 entries > 0 of 48 cells (2 x 24), int64
    >>> x.cells.tolist(), x.values.tolist(), x.levels[0].tolist()
    ([[0, 7], [1, 6]], [1, 2], ['BOS', 'SFO'])

    An array of samples, each with 40 binary variables:

    >>> from_rows(np.random.default_rng(0).integers(0, 2, (1000, 40)), levels=2)
    SparseTensor: 1,000 entries > 0 of 1,099,511,627,776 cells (2 x 2 x 2 x 2 x ... x 2, 40 modes), int64
    """
    source = read_table(table)
    if not source.names or not source.n:
        size = f"{source.n} rows and {len(source.names)} columns"
        raise InvalidSamples(f"the table has {size}: there is nothing to count.")
    modes = _chosen(source, columns, counts if isinstance(counts, str) else None)
    given = levels_by_column(levels, modes)
    read = []
    for name in modes:
        column = source.column(name)
        coded = coded_mode(column, f"column {name!r}", given[name])
        read.append((*coded, column.ordered or have_rank(given[name])))
    indices, found, shape, ordered = zip(*read, strict=True)
    names = None if source.array is not None else tuple(map(str, modes))

    def place(row: int, mode: int) -> str:
        return f"row {row} of column {modes[mode]!r}"

    library = next((name for name in LIBRARIES if type(table).__module__.partition(".")[0] == name), None)
    x = assemble(indices, _counts(source, counts), shape, place, InvalidSamples, names, found, library)
    return replace(x, ranked=tuple(k for k, has in enumerate(ordered) if has))


def _chosen(source: Table, columns: Sequence[Hashable] | None, counts: str | None) -> list[Hashable]:
    if isinstance(columns, (str, bytes)) or not (columns is None or isinstance(columns, Sequence)):
        raise InvalidSetting(f"columns must be a list of columns, got {columns!r}.")
    modes = [name for name in source.names if name != counts] if columns is None else list(columns)
    for name in [*modes, *([] if counts is None else [counts])]:
        if name not in source.names or isinstance(name, bool):
            raise InvalidSetting(unknown_name("column", str(name), map(str, source.names)))
    if not modes or len(set(modes)) < len(modes):
        raise InvalidSetting(f"columns must be different, and at least one; got {modes!r}.")
    return modes


def coded_mode(column: Column, name: str, given: Any) -> tuple[AnyArray, AnyArray | None, int]:
    """Return the index of each row, the levels and the size of the mode; `given` is one of the latter two, or not."""
    if (row := column.missing()) is not None:
        raise InvalidSamples(
            f"{name} is missing in row {row}. Leave such rows out, or make missing a level of its own, e.g. 'unknown'."
        )
    sized = is_whole(given, 1)
    if column.codes is None and sized:
        return _indices(column.values, given, name), None, given
    if column.codes is None and given is None:
        return _distinct(_whole(column.values, name))
    if sized:
        raise InvalidSetting(f"levels of {name} is {given}, but it holds no numbers. List its levels, in order.")
    levels = column.levels(name) if given is None else level_list(given, f"levels of {name} must be its size or")
    indices = column.codes_in(levels, name, "its levels do not list")
    return indices, levels, len(levels)


def _whole(values: AnyArray, name: str) -> AnyArray:
    """Refuse numbers that are not whole: each would be a level of its own."""
    if values.dtype.kind != "f":
        return values
    with np.errstate(invalid="ignore"):  # infinity is refused below
        whole = values.astype(np.int64)
    if (bad := whole != values).any():
        row = int(np.argmax(bad))
        raise InvalidSamples(
            f"{name} holds {values[row]} in row {row}; numbers are read as levels only where they are whole. Bin them "
            "first, or list the levels: levels={column: [...]}."
        )
    return whole


def _indices(values: AnyArray, size: int, name: str) -> AnyArray:
    """Refuse numbers that are no indices of a mode of the size that the caller gives."""
    indices = _whole(values, name)
    if (bad := (indices < 0) | (indices >= size)).any():
        row = int(np.argmax(bad))
        raise InvalidSamples(
            f"{name} holds {indices[row]} in row {row}; with levels = {size} it holds indices from 0 to {size - 1}. "
            "Without levels the values that occur are its levels."
        )
    return indices


def _distinct(values: AnyArray) -> tuple[AnyArray, AnyArray, int]:
    """Give the different values of a column of whole numbers their places, by counting where they are close."""
    low, high = int(values.min()), int(values.max())
    if values.dtype.kind in "bO" or high - low > 4 * len(values) + 1000:
        levels, codes = np.unique(values, return_inverse=True)
        return codes.reshape(-1), levels, len(levels)
    wide: AnyArray = values if values.dtype == np.uint64 else values.astype(np.int64)
    least = wide.dtype.type(low)
    places = (wide - least).astype(np.int64)
    found = np.bincount(places, minlength=high - low + 1) > 0
    levels = np.flatnonzero(found).astype(wide.dtype) + least
    return places if found.all() else (np.cumsum(found) - 1)[places], levels, len(levels)


def _counts(source: Table, counts: Any) -> AnyArray | None:
    if counts is None:
        return None
    given: AnyArray = (
        source.column(counts).rows() if isinstance(counts, str) else rectangular(counts, "counts", InvalidSamples)
    )
    if given.dtype.kind == "f" and (missing := np.isnan(given)).any():
        row = int(np.argmax(missing))
        raise InvalidSamples(f"the count of row {row} is NaN. Leave such rows out, or give them a count.")
    return check_values(given, source.n, "counts", lambda row: f" (row {row})", InvalidSamples)


TOGETHER = 8  # parts of a dask table that are counted at a time


def from_batches(
    batches: Any,
    columns: Sequence[Hashable] | None = None,
    counts: str | None = None,
    levels: int | Sequence[Any] | Mapping[Any, Any] | None = None,
) -> SparseTensor:
    """Count the rows of many tables, one after the other; only a few tables are in memory at a time.

    Parameters
    ----------
    batches
        Tables that `from_rows` takes, one after the other: batches of a parquet file
        (``pyarrow.parquet.ParquetFile(path).iter_batches()``), pieces of a CSV file
        (``pandas.read_csv(path, chunksize=100_000)``), arrays. Or a dask data frame, whose parts are counted by the
        scheduler of dask, on a cluster where there is one. Tables without rows are passed over.
    columns, counts, levels
        As in `from_rows`; counts are a column. Levels that are not given are those that occur in any of the tables.

    Returns
    -------
    SparseTensor
        The same as of all rows in one table.

    See Also
    --------
    from_rows : Count the rows of a table of events.
    SparseTensor : What these readers return.

    Examples
    --------
    >>> x = from_batches([{"dest": ["SFO", "BOS"], "hour": [6, 7]}, {"dest": ["ATL"], "hour": [9]}])
    >>> x.shape, x.levels[0].tolist(), x.cells.tolist()
    ((3, 3), ['ATL', 'BOS', 'SFO'], [[0, 2], [1, 1], [2, 0]])
    """
    if counts is not None and not isinstance(counts, str):
        raise InvalidSetting(f"counts of tables that come in parts are a column's name, got {type(counts).__name__}.")
    parts: list[SparseTensor] = []
    for part in _counted(batches, columns, counts, levels):
        parts.append(part)
        # joining costs as much as what is joined: wait until it doubles
        if sum(some.nnz for some in parts[1:]) >= parts[0].nnz:
            parts = [_joined(parts)]
    if not parts:
        raise InvalidSamples("there are no rows in any of the tables: there is nothing to count.")
    return _joined(parts) if len(parts) > 1 else parts[0]


def _counted(batches: Any, *arguments: Any) -> Iterator[SparseTensor]:
    """Count one table after the other; those of a dask data frame some at a time, in their order."""
    if hasattr(batches, "to_delayed"):
        import dask

        count = dask.delayed(_count, pure=False)
        parts = [count(part, *arguments) for part in batches.to_delayed()]
        for start in range(0, len(parts), TOGETHER):
            yield from (found for found in dask.compute(*parts[start : start + TOGETHER]) if found is not None)
        return
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, Mapping)):
        raise InvalidSamples(f"batches is a {type(batches).__name__}; pass tables one after the other, e.g. a list.")
    yield from (found for table in batches if (found := _count(table, *arguments)) is not None)


def _count(table: Any, *arguments: Any) -> SparseTensor | None:
    rows = next(iter(table.values()), ()) if isinstance(table, Mapping) else table
    return from_rows(table, *arguments) if len(rows) else None


def _joined(parts: list[SparseTensor]) -> SparseTensor:
    """Add up lists whose modes are the same; levels that differ are brought to those of all."""
    first = parts[0]
    for part in parts[1:]:
        if part.names != first.names or len(part.shape) != len(first.shape):
            raise InvalidSamples(
                f"the tables have different columns: {first.names or len(first.shape)} first, then "
                f"{part.names or len(part.shape)}. Name those that are modes: columns=[...]."
            )
    columns, shape, levels, ordered = zip(*(_joined_mode(parts, k) for k in range(len(first.shape))), strict=True)
    values = np.concatenate([part.values for part in parts])
    x = assemble(columns, values, shape, "row {} of mode {}".format, InvalidSamples, first.names, levels, first.library)
    return replace(x, ranked=tuple(k for k, has in enumerate(ordered) if has))


def _joined_mode(parts: list[SparseTensor], k: int) -> tuple[AnyArray, int, AnyArray | None, bool]:
    """Return the indices of one mode in all parts, its size, its levels, and whether these are ordered categories."""
    known = [None if part.levels is None else part.levels[k] for part in parts]
    columns = [part.cells[:, k].astype(np.int64) for part in parts]
    named = [level for level in known if level is not None]
    if not named:
        return np.concatenate(columns), max(part.shape[k] for part in parts), None, False
    label = f"mode {k}" if parts[0].names is None else f"column {parts[0].names[k]!r}"
    if len(named) < len(parts):
        raise InvalidSamples(f"{label} holds indices in some tables, names in others. Give its levels: levels={{...}}.")
    ranked = all(k in part.ranked for part in parts)
    if all(np.array_equal(level, named[0]) for level in named):
        return np.concatenate(columns), len(named[0]), named[0], ranked
    if ranked:  # the longest list, where it has all others in their order
        longest = max(named, key=len)
        places = [Column(level, np.arange(len(level))).codes_in(longest) for level in named]
        if all((np.diff(own, prepend=-1) > 0).all() for own in places):
            moved = [own[column] for own, column in zip(places, columns, strict=True)]
            return np.concatenate(moved), len(longest), longest, True
    mixed = f"{label} holds values of different kinds in different tables. Convert them first."
    try:
        union = sorted_levels(np.concatenate(named))
    except TypeError:
        raise InvalidSamples(mixed) from None
    same = [level.astype(union.dtype) if union.dtype.kind in "mM" else level for level in named]  # dates of any unit
    places = [Column(level, np.arange(len(level))).codes_in(union) for level in same]
    if min(own.min(initial=0) for own in places) < 0:
        raise InvalidSamples(mixed)
    return np.concatenate([own[at] for own, at in zip(places, columns, strict=True)]), len(union), union, False
