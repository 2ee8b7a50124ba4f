"""`from_rows`: tables with a row for each event, sample or cell, counted into a tensor with a mode per column."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.labels import Labels, sorted_levels
from legendre.core.origin import Origin, read_array
from legendre.core.types import AnyArray
from legendre.data.readers.encode import Column, Encoded, Table, encode, read_table
from legendre.data.sparse_tensor import SparseTensor, check_values, merge


def from_rows(
    data: Any,
    columns: Sequence[Hashable] | None = None,
    counts: ArrayLike | str | None = None,
    *,
    levels: int | Sequence[Any] | Mapping[Any, Any] | None = None,
    missing: Literal["error", "drop"] = "error",
) -> SparseTensor:
    """Count the rows of a table or of several: a row for each event, sample or cell, a column for each mode.

    The levels of a mode are the values that occur in its column, sorted: dates, whole numbers or strings. Strings that
    represent numbers, times, days or months are sorted as such. Ordered categories (of pandas and pyarrow, and polars
    Enum) keep their list and its order.

    Parameters
    ----------
    data
        A pandas or polars data frame, or one of any other library that narwhals reads; a pyarrow table; a mapping of
        names to columns; or an array with a row for each event. Or several of these, of which only a few are in memory
        at a time: an iterator or a list, such as the batches of a parquet file (``pyarrow.parquet.ParquetFile(path)
        .iter_batches()``) and the pieces of a CSV file (``pandas.read_csv(path, chunksize=100_000)``), a pyarrow
        dataset, or a dask data frame, whose parts are counted by dask's scheduler.
    columns
        Which columns are modes, and in which order: names, or numbers for an array. ``None``: all columns except
        `counts`.
    counts
        The number of times each row counts: numbers >= 0, or the name of the column that holds them. ``None``: once.
    levels
        For each column (a mapping, or a sequence with an item for each mode) its levels in order; for a column of
        indices counted from 0, their number; ``None``: the values that occur. A single number is the size of every
        mode.
    missing
        What to do with rows that lack a value: "error" names the first of them; "drop" leaves them out, and `notes`
        says how many. (`loglinear` can use them: ``missing="em"``.)

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

    Rows that come in parts:

    >>> x = from_rows([{"dest": ["SFO", "BOS"], "hour": [6, 7]}, {"dest": ["ATL"], "hour": [9]}])
    >>> x.shape, x.levels[0].tolist(), x.cells.tolist()
    ((3, 3), ['ATL', 'BOS', 'SFO'], [[0, 2], [1, 1], [2, 0]])

    An array of samples, each with 40 binary variables:

    >>> from_rows(np.random.default_rng(0).integers(0, 2, (1000, 40)), levels=2)
    SparseTensor: 1,000 entries > 0 of 1,099,511,627,776 cells (2 x 2 x 2 x 2 x ... x 2, 40 modes), int64
    """
    check_choice(missing, "missing", ("error", "drop"))
    if hasattr(data, "to_batches") and not hasattr(data, "column_names"):  # a dataset of pyarrow
        data = data.to_batches()
    if not _has_parts(data):
        if (found := _count(data, columns, counts, levels, missing)) is None:
            raise InvalidSamples("the table has no rows or no columns: there is nothing to count.")
        return found
    if counts is not None and not isinstance(counts, str):
        raise InvalidSetting(f"counts of tables that come in parts are a column's name, got {type(counts).__name__}.")
    parts: list[SparseTensor] = []
    for part in _count_parts(data, columns, counts, levels, missing):
        if part is None:
            continue
        parts.append(part)
        # Joining takes time in proportion to all entries. If it waits until the new parts have as many entries as the
        # old ones, each entry is joined a logarithmic number of times only.
        if sum(some.nnz for some in parts[1:]) >= parts[0].nnz:
            parts = [_join(parts)]
    if not parts:
        raise InvalidSamples("there are no rows in any of the tables: there is nothing to count.")
    return _join(parts) if len(parts) > 1 else parts[0]


def _count(data: Any, columns: Any, counts: Any, levels: Any, missing: Any) -> SparseTensor | None:
    """Count the rows of one table; ``None`` if it has none. The arguments are those of `from_rows`."""
    source = read_table(data)
    if not source.names or not source.n:
        return None
    modes = source.choose(columns, counts)
    found = encode(source, modes, levels, missing)
    names = None if isinstance(source.names, range) else tuple(map(str, modes))
    return merge(found.codes, row_counts(source, counts, found), found.shape, frame_origin(data, names, found))


def frame_origin(data: Any, names: tuple[str, ...] | None, found: Encoded) -> Origin:
    """Return the origin of rows that were counted: answers are Series for pandas, data frames for polars and pyarrow.

    For other tables answers are NumPy arrays. `names` are those of the modes, ``None`` if the columns had none.
    """
    labels = Labels(found.shape, names, found.levels if any(own is not None for own in found.levels) else None)
    root = type(data).__module__.partition(".")[0]
    form: Any = {"pandas": "series", "polars": "rows", "pyarrow": "rows"}.get(root, "array")
    library = root if form == "rows" else "pandas"
    return Origin(labels, form=form, library=library, notes=found.notes, ranked=found.ranked)


def row_counts(source: Table, counts: Any, found: Encoded) -> AnyArray | None:
    """Return how often each row that is left counts, checked; ``None`` if each counts once.

    `counts` is a list with a number for each row of the table, or the name of a column.
    """
    if counts is None:
        return None
    column = source.column(counts) if isinstance(counts, str) else None
    given: AnyArray = read_array(counts, "counts", InvalidSamples) if column is None else column.rows()
    values = check_values(given, source.n, "counts", InvalidSamples)
    return values if found.kept is None else values[found.kept]


# --- tables that come in parts ---------------------------------------------------------------------------------------


def _has_parts(data: Any) -> bool:
    """Whether the data are several tables: an iterator, a dask data frame, or a list of tables.

    A list whose first item is a mapping, a frame or a matrix holds tables; any other list holds rows.
    """
    if isinstance(data, (list, tuple)) and data:
        first = data[0]
        return isinstance(first, Mapping) or hasattr(first, "columns") or getattr(first, "ndim", 0) == 2
    return isinstance(data, Iterator) or hasattr(data, "to_delayed")


def _count_parts(data: Any, *arguments: Any, together: int = 8) -> Iterator[SparseTensor | None]:
    """Count the rows of one table after the other; ``None`` for a table without rows.

    Parts of a dask data frame are counted by dask, `together` at a time, because the counts of all parts may not fit
    in memory. `arguments` are the further ones of `_count`.
    """
    if hasattr(data, "to_delayed"):
        import dask

        count = dask.delayed(_count, pure=False)
        parts = [count(part, *arguments) for part in data.to_delayed()]
        for start in range(0, len(parts), together):
            yield from dask.compute(*parts[start : start + together])
    else:
        yield from (_count(table, *arguments) for table in data)


def _join(parts: list[SparseTensor]) -> SparseTensor:
    """Add up tensors with the same modes, counted from parts of a table.

    A mode whose levels differ between parts gets the levels of all parts, sorted, and codes are changed accordingly.
    """
    first = parts[0]
    for part in parts[1:]:
        if part.names != first.names or len(part.shape) != len(first.shape):
            raise InvalidSamples(
                f"the tables have different columns: {first.names or len(first.shape)} first, then "
                f"{part.names or len(part.shape)}. Name those that are modes: columns=[...]."
            )
    columns, levels, ranked = [], [], []
    for k, places in enumerate(zip(*(part.cells.T for part in parts), strict=True)):
        listed: list[Any] = [part.levels[k] for part in parts if part.levels is not None]
        joined = listed[0] if listed else None  # None, as in all parts, where the caller gave the number of levels
        codes = np.concatenate(places)
        if joined is None or all(np.array_equal(some, joined) for some in listed):
            # all parts have the same levels, so that codes have the same meaning
            ranked += [k] if all(k in part.origin.ranked for part in parts) else []
        else:
            # a part's levels follow those of the parts before it, so its codes move up by their number
            before = np.cumsum([0, *map(len, listed[:-1])])
            all_levels: AnyArray = np.concatenate(listed)
            name = k if first.names is None else first.names[k]
            joined = sorted_levels(all_levels, f"column {name!r} of several tables")
            codes = Column(all_levels, codes + np.repeat(before, [part.nnz for part in parts])).codes_in(joined)
        columns.append(codes)
        levels.append(joined)
    shape = tuple(size if joined is None else len(joined) for size, joined in zip(first.shape, levels, strict=True))
    labels = Labels(shape, first.names, None if first.levels is None else tuple(levels))
    notes = tuple(note for part in parts for note in part.notes)
    origin = replace(first.origin, labels=labels, ranked=tuple(ranked), notes=notes)
    return merge(columns, np.concatenate([part.values for part in parts]), shape, origin)
