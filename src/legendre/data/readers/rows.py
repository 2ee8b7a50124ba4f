"""`from_rows`: tables with a row for each event, sample or cell, counted into a tensor with a mode per column."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import check_choice
from legendre.core.cells import index_type
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.labels import Labels, sorted_levels
from legendre.core.memory import check_room
from legendre.core.origin import Origin, package_of, read_array
from legendre.core.types import AnyArray, IntArray
from legendre.data.readers.encode import Column, Encoded, Table, encode, note_lost, read_table
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
        dataset, a polars lazy frame (of polars 1.34 or newer), or a dask data frame, whose parts are counted by dask's
        scheduler. They are read once, and only the columns that are needed.
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
    in_parts = has_parts(data)
    if in_parts and counts is not None and not isinstance(counts, str):
        raise InvalidSetting(f"counts of tables that come in parts are a column's name, got {type(counts).__name__}.")
    counted = (_count_parts if in_parts else _count)(data, columns, counts, levels, missing)
    if counted is None:
        raise InvalidSamples("there are no rows or no columns: there is nothing to count.")
    names = range(len(counted.tally) - 2) if counted.names is None else counted.names
    notes = note_lost(names, counted.tally)
    if counted.found is None:
        raise InvalidSamples(f"no row is left. {notes[0]}")
    values = counted.found.values
    for value in values[values != np.rint(values)][:1]:  # the first, if there is one
        notes = (*notes, f"X holds amounts, not counts: {value:g} is not a whole number.")
    return replace(counted.found, origin=replace(counted.found.origin, notes=notes))


class Counted(NamedTuple):
    """What was counted in a table, or in several parts of one."""

    names: tuple[str, ...] | None  # of the modes
    tally: IntArray  # how many rows were left out, see `Encoded`
    found: SparseTensor | None  # None: all of them


def _count(data: Any, columns: Any, counts: Any, levels: Any, missing: Any) -> Counted | None:
    """Count the rows of one table; ``None`` if it has none. The arguments are those of `from_rows`."""
    source = read_table(data)
    if not source.names or not source.n:
        return None
    modes = source.choose(columns, counts)
    found = encode(source, modes, levels, missing)
    names = None if isinstance(source.names, range) else tuple(map(str, modes))
    if not found.codes:
        return Counted(names, found.tally, None)
    origin = frame_origin(data, names, found)
    return Counted(names, found.tally, merge(found.codes, row_counts(source, counts, found), found.shape, origin))


def frame_origin(data: Any, names: tuple[str, ...] | None, found: Encoded) -> Origin:
    """Return the origin of rows that were counted: answers are Series for pandas, data frames for polars and pyarrow.

    For other tables answers are NumPy arrays. `names` are those of the modes, ``None`` if the columns had none.
    """
    labels = Labels(found.shape, names, found.levels if any(part is not None for part in found.levels) else None)
    root = package_of(data)
    form: Any = {"pandas": "series", "polars": "rows", "pyarrow": "rows"}.get(root, "array")
    library = root if form == "rows" else "pandas"
    notes = note_lost(names or range(len(found.shape)), found.tally)
    return Origin(labels, form=form, library=library, notes=notes, ranked=found.ranked)


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


def has_parts(data: Any) -> bool:
    """Whether the data are several tables: an iterator, a list of tables, or a frame whose rows are not in memory.

    A list whose first item is a mapping, a frame or a matrix holds tables; any other list holds rows.
    """
    if isinstance(data, (list, tuple)) and data:
        first = data[0]
        return isinstance(first, Mapping) or hasattr(first, "columns") or getattr(first, "ndim", 0) == 2
    return isinstance(data, Iterator) or _column_names(data) is not None


def _column_names(data: Any) -> list[Any] | None:
    """List the columns of a dask data frame, a pyarrow dataset or a polars lazy frame; ``None`` for anything else."""
    if hasattr(data, "to_delayed"):
        return list(data.columns)
    if hasattr(data, "to_batches") and hasattr(data, "schema") and not hasattr(data, "column_names"):
        return list(data.schema.names)
    return data.collect_schema().names() if hasattr(data, "collect_batches") else None


def _count_parts(data: Any, columns: Any, counts: Any, *others: Any) -> Counted | None:
    """Count the rows of one table after the other, or let dask do it where they are; `_count` has the arguments.

    Of a frame whose rows are not in memory only the columns that are needed are read.
    """
    if (names := _column_names(data)) is not None:
        columns = Table(names, 0, ()).choose(columns, counts)
        wanted = columns if counts is None else [*columns, counts]
        if hasattr(data, "to_delayed"):
            return _count_by_dask(data[wanted], columns, counts, *others)
        # few batches at a time are read ahead
        if hasattr(data, "to_batches"):
            data = data.to_batches(columns=wanted, batch_readahead=2, fragment_readahead=1)
        else:
            data = data.select(wanted).collect_batches(chunk_size=1 << 18)
    counted = []
    for k, table in enumerate(data):
        counted.append(_count_part(k, table, columns, counts, *others))
        # Joining takes time in proportion to all entries. If it waits until the new parts have as many entries as the
        # old ones, each entry is joined a logarithmic number of times only.
        sizes = [0 if part is None or part.found is None else part.found.nnz for part in counted]
        if sum(sizes[1:]) >= sizes[0]:
            counted = [_join(counted)]
    return _join(counted)


def _count_by_dask(frame: Any, *arguments: Any, together: int = 8) -> Counted | None:
    """Count the rows of each part of a dask data frame where the part is; `arguments` are those of `_count`.

    The counts are joined there too, `together` at a time: a tree, so that no process holds those of all parts.
    """
    import dask

    count, join = dask.delayed(_count_part, pure=False), dask.delayed(_join, pure=False)
    counted = [count(k, part, *arguments) for k, part in enumerate(frame.to_delayed())]
    while len(counted) > 1:
        counted = [join(counted[first : first + together]) for first in range(0, len(counted), together)]
    found: Counted | None = dask.compute(*counted)[0]
    return found


def _count_part(k: int, table: Any, *arguments: Any) -> Counted | None:
    """Count the rows of part k; errors in rows name the part."""
    try:
        return _count(table, *arguments)
    except InvalidSamples as problem:
        raise InvalidSamples(f"part {k} of the rows: {problem}") from None


def _join(counted: Sequence[Counted | None]) -> Counted | None:
    """Add up the counts of parts of a table; ``None`` if there are no rows.

    A mode whose levels differ between parts gets the levels of all parts, sorted, and codes are changed accordingly.
    """
    counts_of_parts = [part for part in counted if part is not None]
    if not counts_of_parts:
        return None
    names = counts_of_parts[0].names
    for part in counts_of_parts:
        if part.names != names or len(part.tally) != len(counts_of_parts[0].tally):
            raise InvalidSamples(
                f"the tables have different columns: {names or len(counts_of_parts[0].tally) - 2} first, then "
                f"{part.names or len(part.tally) - 2}. Name those that are modes: columns=[...]."
            )
    tables = [part.found for part in counts_of_parts if part.found is not None]
    found = _add(tables) if len(tables) > 1 else next(iter(tables), None)
    return Counted(names, np.sum([part.tally for part in counts_of_parts], axis=0), found)


def _add(tensors: Sequence[SparseTensor]) -> SparseTensor:
    """Add up tensors with the same modes, whose levels may differ."""
    first, size = tensors[0], sum(tensor.nnz for tensor in tensors)
    # codes and counts, the same sorted, and an order
    check_room(size, 2 * (first.cells.itemsize * len(first.shape) + 16), "a table of counts", "Name fewer columns.")
    columns, levels, ranked = [], [], []
    for k, places in enumerate(zip(*(tensor.cells.T for tensor in tensors), strict=True)):
        listed: list[Any] = [tensor.levels[k] for tensor in tensors if tensor.levels is not None]
        joined = listed[0] if listed else None  # None, as in all parts, where the caller gave the number of levels
        codes = np.concatenate(places)
        if joined is None or all(np.array_equal(some, joined) for some in listed):
            # all parts have the same levels, so that codes have the same meaning
            if all(k in tensor.origin.ranked for tensor in tensors):
                ranked.append(k)
        else:
            # a part's levels follow those of the parts before it, so its codes move up by their number
            before = np.cumsum([0, *map(len, listed[:-1])])
            all_levels: AnyArray = np.concatenate(listed)
            name = k if first.names is None else first.names[k]
            joined = sorted_levels(all_levels, f"column {name!r} of several tables")
            codes = Column(all_levels, codes + np.repeat(before, [tensor.nnz for tensor in tensors])).codes_in(joined)
            codes = codes.astype(index_type((len(joined),)))
        columns.append(codes)
        levels.append(joined)
    shape = tuple(size if joined is None else len(joined) for size, joined in zip(first.shape, levels, strict=True))
    labels = Labels(shape, first.names, None if first.levels is None else tuple(levels))
    origin = replace(first.origin, labels=labels, ranked=tuple(ranked))
    return merge(columns, np.concatenate([tensor.values for tensor in tensors]), shape, origin)
