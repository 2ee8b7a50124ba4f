"""Tables with a row per event or sample, counted into a sparse tensor with a mode per column."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSamples, InvalidSetting, unknown_name
from legendre.core.types import AnyArray
from legendre.data.entry_checks import check_values
from legendre.data.readers.columns import read_mode
from legendre.data.sorted_cells import LIMIT
from legendre.data.sparse_tensor import SparseTensor, assemble


def from_rows(
    table: Any,
    columns: Sequence[Hashable] | None = None,
    weights: ArrayLike | str | None = None,
    levels: int | Sequence[Any] | Mapping[Any, Any] | None = None,
) -> SparseTensor:
    """Count the rows of a table: one row per event or sample, one column per mode.

    Whole numbers are indices counted from 0. Strings, dates and other values become levels: those that occur, sorted.
    Ordered categories (of pandas and pyarrow, and Enum of polars) keep their list and its order.

    Parameters
    ----------
    table
        A data frame of pandas or polars, a pyarrow table, a mapping of names to columns, or an array with one row per
        event.
    columns
        Which columns are modes, and in which order: names, or numbers for an array. ``None`` is all of them, but for
        that of the weights.
    weights
        How much each row counts: numbers >= 0, or the name of the column that holds them. ``None`` is 1.
    levels
        By column (a mapping, or a sequence with one item per mode) the values that 0, 1, ... stand for, listed in
        order; or the number of levels of a mode that comes as indices; ``None`` leaves it to the rows. One number is
        the size of every mode.

    Returns
    -------
    SparseTensor
        With `names` and `levels`, to translate indices back.

    Raises
    ------
    InvalidSamples
        With the row and the column of what is wrong, missing values among them.

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
    source = _Table.read(table)
    by_name = weights if isinstance(weights, str) else None
    modes = _chosen(source, columns, by_name)
    given = _levels(levels, modes)
    read = [read_mode(source.column(name), _label(name), given[name]) for name in modes]
    for name, mode in zip(modes, read, strict=True):
        if len(mode.indices) != source.n:
            raise InvalidSamples(f"{_label(name)} has {len(mode.indices)} rows, the table has {source.n}.")
    found = tuple(mode.levels for mode in read)
    sizes = [mode.size for mode in read]
    indices = [_checked(mode.indices, size, _label(name)) for mode, size, name in zip(read, sizes, modes, strict=True)]
    shape = [int(c.max()) + 1 if size is None else size for c, size in zip(indices, sizes, strict=True)]
    return assemble(
        indices,
        _weights(source, weights),
        shape,
        lambda row, mode: f"row {row} of {_label(modes[mode])}",
        InvalidSamples,
        tuple(map(str, modes)) if source.named else None,
        found if any(level is not None for level in found) else None,
    )


@dataclass(frozen=True)
class _Table:
    """Columns by name, whatever library the table is of."""

    names: list[Hashable]
    column: Callable[[Any], Any]
    n: int
    named: bool

    @classmethod
    def read(cls, table: Any) -> _Table:
        library = type(table).__module__.split(".")[0]
        if isinstance(table, Mapping):
            names = list(table)
            found = cls(names, table.__getitem__, len(table[names[0]]) if names else 0, True)
        elif library == "pandas" and hasattr(table, "columns"):
            found = _by_position(list(table.columns), lambda k: table.iloc[:, k], len(table))
        elif library == "polars" and hasattr(table, "get_columns"):
            found = _by_position(table.columns, table.get_columns().__getitem__, len(table))
        elif library == "pyarrow" and hasattr(table, "column_names"):
            found = _by_position(table.column_names, table.column, table.num_rows)
        else:
            found = _of_array(table)
        if not found.names or not found.n:
            raise InvalidSamples(
                f"the table has {found.n} rows and {len(found.names)} columns: there is nothing to count."
            )
        return found


def _by_position(names: list[Hashable], column: Callable[[int], Any], n: int) -> _Table:
    place = {name: k for k, name in enumerate(names)}
    if len(place) < len(names):
        twice = next(name for k, name in enumerate(names) if place[name] != k)
        raise InvalidSamples(f"the table has two columns named {twice!r}. Rename one.")
    return _Table(names, lambda name: column(place[name]), n, True)


def _of_array(table: Any) -> _Table:
    if hasattr(table, "collect") or hasattr(table, "toarray") or hasattr(table, "todense"):
        way_out = ".collect() it first" if hasattr(table, "collect") else "for a sparse tensor see legendre.from_coords"
        raise InvalidSamples(f"table is a {type(table).__name__}, which has no rows to count; {way_out}.")
    try:
        rows: AnyArray = table if isinstance(table, np.ndarray) else np.array(table, dtype=object)
    except ValueError as problem:
        raise InvalidSamples(f"table is not rectangular ({problem}).") from None
    if rows.dtype.names is not None and rows.ndim == 1:
        return _Table(list(rows.dtype.names), rows.__getitem__, len(rows), True)
    if rows.ndim != 2:
        raise InvalidSamples(
            f"table has shape {rows.shape}; it needs a row per event and a column per mode. For one mode: "
            ".reshape(-1, 1)."
        )
    return _Table(list(range(rows.shape[1])), lambda k: rows[:, k], len(rows), False)


def _label(name: Hashable) -> str:
    return f"column {name!r}"


def _chosen(source: _Table, columns: Sequence[Hashable] | None, weights: str | None) -> list[Hashable]:
    if isinstance(columns, (str, bytes)) or not (columns is None or isinstance(columns, Sequence)):
        raise InvalidSetting(f"columns must be a list of columns, got {columns!r}.")
    modes = [name for name in source.names if name != weights] if columns is None else list(columns)
    for name in [*modes, *([] if weights is None else [weights])]:
        if name not in source.names or isinstance(name, bool):
            raise InvalidSetting(unknown_name("column", str(name), map(str, source.names)))
    if not modes or len(set(modes)) < len(modes):
        raise InvalidSetting(f"columns must be different, and at least one; got {modes!r}.")
    return modes


def _levels(levels: Any, modes: list[Hashable]) -> dict[Hashable, Any]:
    if levels is None or is_whole(levels, 1):
        return dict.fromkeys(modes, levels)
    if isinstance(levels, Mapping):
        for name in levels:
            if name not in modes:
                raise InvalidSetting(f"levels: {unknown_name('column', str(name), map(str, modes))}")
        return {name: levels.get(name) for name in modes}
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Sequence) or len(levels) != len(modes):
        raise InvalidSetting(
            f"levels must be a mapping of columns, a list with one item for each of the {len(modes)} modes, or one "
            f"size >= 1; got {levels!r}."
        )
    return dict(zip(modes, levels, strict=True))


def _checked(indices: AnyArray, size: int | None, label: str) -> AnyArray:
    """Say of numbers that are no indices what else the caller may have meant."""
    with np.errstate(invalid="ignore"):  # infinity is refused below
        whole = indices.astype(np.int64) if indices.dtype.kind == "f" else indices
    bad = (whole != indices) | (whole < 0) | (whole >= (LIMIT - 1 if size is None else size))
    if bad.any():
        row = int(np.argmax(bad))
        size_text = "" if size is None else f", below {size}"
        raise InvalidSamples(
            f"{label} holds {indices[row]} in row {row}; indices are whole numbers from 0 on{size_text}. To count each "
            "distinct value as a level pass levels={column: values}, e.g. np.unique of it; bin continuous ones first."
        )
    return whole


def _weights(source: _Table, weights: Any) -> AnyArray | None:
    if weights is None:
        return None
    given: AnyArray = np.asarray(source.column(weights) if isinstance(weights, str) else weights)
    if given.dtype.kind == "f" and np.isnan(given).any():
        row = int(np.argmax(np.isnan(given)))
        raise InvalidSamples(f"the weight of row {row} is NaN. Leave such rows out, or give them a weight.")
    return check_values(given, source.n, "weights", lambda row: f" (row {row})", InvalidSamples)
