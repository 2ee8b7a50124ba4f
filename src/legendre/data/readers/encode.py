"""Columns of a table, of any library, as integer codes and levels; data frames are read through narwhals.

`read_table` makes a `Table` of what the caller passes, `Table.column` reads one of its columns, and `encode` turns
several into codes. A *level* is a value that a column can have; the *code* of a row is the index of its level.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from os import PathLike
from typing import Any, Literal

import numpy as np

from legendre.core.arguments import check_name, entries, is_whole
from legendre.core.cells import first_cell
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.labels import NUMBERS, as_objects, have_rank, read_levels, sorted_levels
from legendre.core.origin import read_array, unmask
from legendre.core.types import AnyArray, BoolArray, IntArray, Modes, Shape, frozen
from legendre.data.sparse_tensor import check_indices

Missing = Literal["error", "drop", "keep"]


@frozen
class Column:
    """A column: its different values, and in `codes` the index of each row's value among them, -1 where it is missing.

    Floats may be listed more than once, because finding equal ones takes a sort and they seldom are. If `ordered`,
    the values are ordered categories and listed in their order, whether they occur or not.
    """

    values: AnyArray
    codes: IntArray
    ordered: bool = False

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.values.dtype.kind in "biuf"

    def rows(self) -> AnyArray:
        """Return the value of each row; NaN or None where it is missing."""
        if not self.mark_absent().any():
            return self.values[self.codes]
        # code -1 is the last entry
        return np.append(self.values, np.full(1, np.nan if self.numeric else None))[self.codes]

    def at(self, row: int) -> Any:
        """Return the value of one row as a Python object, so that errors show 'c', not np.str_('c')."""
        value = self.rows()[row]
        return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value

    def take(self, rows: Any) -> Column:
        """Return a column of some of the rows, given by numbers or by a mask."""
        return replace(self, codes=self.codes[rows])

    def mark_absent(self) -> BoolArray:
        """Mark the rows without a value (NaN, NaT, NA or None)."""
        return self.codes < 0

    def levels(self, label: str) -> AnyArray:
        """Return all ordered categories if the column has them, else the values that occur, sorted.

        `label` is what errors call the column.
        """
        if self.ordered:
            return self.values
        # count the rows of each value; shifted by 1, since bincount takes no code -1, whose count is dropped
        occurring = self.values[np.bincount(self.codes + 1, minlength=len(self.values) + 1)[1:] > 0]
        return sorted_levels(occurring, label)

    def codes_in(self, levels: AnyArray, label: str = "", unlisted: str = "") -> IntArray:
        """Return the index of each row's value in a list of levels; -1 where it is missing or not listed.

        With `unlisted`, the end of an error message, a value that is not listed raises an error instead; `label` names
        the column.
        """
        found = self.codes
        # if the levels are the values themselves, the codes are the answer
        if levels.dtype != self.values.dtype or not np.array_equal(levels, self.values):
            place = {value: k for k, value in enumerate(levels.tolist())}
            places = [*(place.get(value, -1) for value in self.values.tolist()), -1]  # the last one: of missing values
            found = np.array(places, dtype=np.int64)[self.codes]
        if unlisted and found.min(initial=0) < 0 and (wrong := first_cell((found < 0) & ~self.mark_absent())):
            raise InvalidSamples(f"{label} holds {self.at(wrong[0])!r} in row {wrong[0]}, which {unlisted}.")
        return found

    def as_integers(self, label: str) -> Column:
        """Return a column of numbers as integers; refuse fractions, because each would become a level of its own."""
        if self.values.dtype.kind != "f":  # integers, or True and False
            return self
        with np.errstate(invalid="ignore"):  # infinity is refused below
            integers = self.values.astype(np.int64)
        if bad := first_cell((integers != self.values)[self.codes]):
            raise InvalidSamples(
                f"{label} holds {self.at(bad[0])} in row {bad[0]}; numbers are read as levels only where they are "
                "whole. Bin them first, or list the levels: levels={column: [...]}."
            )
        return _find_distinct(integers[self.codes])


@frozen
class Table:
    """A table as the caller's library holds it; columns are read when they are needed."""

    names: Sequence[Hashable]  # of the columns; a range if they have none
    n: int  # the number of rows
    held: Sequence[Any]  # the columns: NumPy arrays, lists, series of a data frame, or columns that have been read

    def column(self, name: Hashable) -> Column:
        """Read a column: find its different values and the code of each row."""
        column, label = self.held[self.names.index(name)], f"column {name!r}"
        if isinstance(column, Column):
            return column
        if isinstance(column, np.ndarray):
            return _read_values(np.asarray(unmask(column)), label)
        if not isinstance(column, (list, tuple)):
            import narwhals.stable.v2 as nw

            series: Any = nw.from_native(column, series_only=True, pass_through=True)
            if isinstance(series, nw.Series):
                return _read_series(series, label)
        return _read_values(as_objects(list(column)), label)

    def by_name(self, wanted: Sequence[str], name: str, optional: str | None = None) -> Table:
        """Return the columns in the order in which a fit saw them; refuse a table that lacks one or has others.

        Column `optional` may be absent, and holds 0 then. `name` is what errors call the table.

        >>> read_table({"b": [1], "a": [2]}).by_name(["a", "b"], "X").names
        ['a', 'b']
        """
        known = {str(column): values for column, values in zip(self.names, self.held, strict=True)}
        for column in wanted:
            if column not in known and column != optional:
                near = get_close_matches(column, set(known) - set(wanted), n=1, cutoff=0.5)
                hint = f"Is it {near[0]!r}? Rename it." if near else f"It has {', '.join(map(repr, known))}."
                raise InvalidSamples(f"{name} has no column {column!r}, which fit saw. {hint}")
        for column in known:
            if column not in wanted:
                raise InvalidSamples(f"{name} has a column {column!r}, which fit did not see. Leave it out.")
        return Table(list(wanted), self.n, [known.get(column, np.zeros(self.n)) for column in wanted])

    def complete_columns(self, names: Sequence[Hashable], *, gaps: bool = False) -> list[Column]:
        """Read all columns for an estimator; refuse infinite values and, unless `gaps` are allowed, missing ones.

        Errors call the columns by `names`, which the fit saw.
        """
        out = []
        for here, name in zip(self.names, names, strict=True):
            column = self.column(here)
            infinite = np.isinf(column.values) if column.numeric else np.zeros(len(column.values), np.bool_)
            if infinite.any() or (not gaps and column.mark_absent().any()):
                # whether each value is wrong, and last whether a missing one is, to which code -1 points
                row = int(np.append(infinite, not gaps)[column.codes].argmax())
                raise InvalidSamples(
                    f"Input X contains NaN or infinity: column {name!r} is {column.at(row)} in row {row}. Leave such "
                    "rows out, or make missing a level of its own."
                )
            out.append(column)
        return out

    @property
    def text_names(self) -> list[str] | None:
        """The names of the columns; ``None`` where there are none, or they are not strings."""
        names = [name for name in self.names if isinstance(name, str)]
        return names if len(names) == len(self.names) else None

    def choose(self, columns: Any, counts: Any = None) -> list[Any]:
        """Return the columns that a caller names as modes, checked; by default all except the column of counts."""
        weights = [counts] if isinstance(counts, str) else []
        listed = [name for name in self.names if name not in weights]
        if columns is not None:
            listed = [columns] if isinstance(columns, str) else entries(columns) or []
        for name in [*listed, *weights]:
            check_name("column", name, self.names, InvalidSamples)
        if not listed or len(set(listed)) < len(listed):
            raise InvalidSetting(f"columns must be a list of different columns, at least one; got {columns!r}.")
        return listed


@frozen
class Encoded:
    """What `encode` returns; `codes`, `levels` and `shape` have an item for each column."""

    # the index of the level of each row that is left, -1 where a missing value is kept; [] if no row is left
    codes: list[AnyArray]
    levels: tuple[AnyArray | None, ...]  # in order; None for a column of indices whose number of levels the caller gave
    shape: Shape  # the number of levels
    ranked: Modes  # the columns whose levels are ordered categories
    kept: BoolArray | None  # True for each row of the table that is left; None: all
    tally: IntArray  # the rows of the table, those that were left out, and those that lack each column's value


def note_lost(columns: Sequence[Hashable], tally: IntArray) -> tuple[str, ...]:
    """Return a sentence that says how many rows were left out, if any were; `tally` is as in `Encoded`."""
    n, lost, *counts = tally.tolist()
    which = ", ".join(f"{name} ({count:,})" for name, count in zip(columns, counts, strict=True) if count)
    return (f"Left out: {lost:,} of {n:,} rows, which lack a value of {which}.",) if lost else ()


def encode(table: Table, columns: Sequence[Hashable], levels: Any = None, missing: Missing = "error") -> Encoded:
    """Turn columns of a table into codes and levels: the modes of a tensor that counts its rows.

    `levels` is what the caller passes, see `levels_by_column`: for each column its levels in order, or their number if
    it holds indices, or ``None`` for the values that occur, sorted; ordered categories keep their order. Rows that lack
    a value are an error, are left out ("drop"), or have the code -1 ("keep").

    >>> table = read_table({"a": ["y", None, "x"], "b": [7, 8, 7]})
    >>> found = encode(table, ["a", "b"], missing="drop")
    >>> [codes.tolist() for codes in found.codes], note_lost(["a", "b"], found.tally)
    ([[1, 0], [0, 0]], ('Left out: 1 of 3 rows, which lack a value of a (1).',))
    """
    given = levels_by_column(levels, columns)
    read = {name: table.column(name) for name in columns}
    kept: BoolArray | None = None
    tally = np.array([table.n, *[0] * (1 + len(read))])
    if missing == "drop" and (absent := np.array([column.mark_absent() for column in read.values()])).any():
        kept = np.asarray(~absent.any(axis=0))
        tally[1:] = table.n - np.count_nonzero(kept), *absent.sum(axis=1)
        if not kept.any():
            return Encoded([], (), (), (), kept, tally)
        read = {name: column.take(kept) for name, column in read.items()}
    codes, level_lists, shape = [], [], []
    for name, column in read.items():
        label, gaps = f"column {name!r}", column.mark_absent()
        if gaps.all() or (gaps.any() and missing == "error"):
            reason = "has no value in any row. Leave it out."
            if not gaps.all():
                reason = (
                    f"is missing in row {int(gaps.argmax())}. Leave such rows out (missing='drop'), or make missing a "
                    "level of its own, e.g. 'unknown'; loglinear(..., missing='em') uses them."
                )
            raise InvalidSamples(f"{label} {reason}")
        coded = np.full(len(gaps), -1)  # missing values keep -1
        coded[~gaps], labels, size = _encode_column(column.take(~gaps) if gaps.any() else column, label, given[name])
        codes.append(coded)
        level_lists.append(labels)
        shape.append(size)
    ranked = tuple(k for k, name in enumerate(columns) if read[name].ordered or have_rank(given[name]))
    return Encoded(codes, tuple(level_lists), tuple(shape), ranked, kept, tally)


def _encode_column(column: Column, label: str, given: Any) -> tuple[AnyArray, AnyArray | None, int]:
    """Return the code of each row, the levels, and their number, for a column without missing values.

    `given` is what the caller passed for this column: a list of levels, their number, or ``None``. With their number
    the column holds codes already, which are checked, and the levels are ``None``. `label` is what errors call it.
    """
    if is_whole(given, 1):
        return check_indices(column.rows(), given, label, InvalidSamples), None, given
    if column.numeric and given is None:
        column = column.as_integers(label)
    levels = column.levels(label) if given is None else read_levels(given, label)
    return column.codes_in(levels, label, "is not among its levels"), levels, len(levels)


def read_table(table: Any, name: str = "table") -> Table:
    """Make a `Table` of a data frame, a mapping of names to columns, an array or a list of rows.

    `name` is what errors call it. Columns must have the same length; their values are not checked yet.
    """
    if hasattr(table, "toarray") or hasattr(table, "todense"):
        raise InvalidSamples(
            f"{name} is a {type(table).__name__}, which is sparse; rows of observations are dense. Pass "
            f"{name}.toarray(); for a sparse tensor see legendre.from_coords."
        )
    if not isinstance(table, (np.ndarray, list, tuple, Mapping)):
        table = _read_frame(table, name)
    if not isinstance(table, Mapping):
        return _read_array(table, name)
    n = 0
    for k, (key, column) in enumerate(table.items()):
        if not hasattr(column, "__len__") or isinstance(column, str):
            raise InvalidSamples(
                f"column {key!r} of the {name} is {column!r}; a column is a list of values. If "
                "you have records, make a frame first: pandas.DataFrame(records)."
            )
        n = n if k else len(column)  # the first column says how many rows there are
        if len(column) != n:
            raise InvalidSamples(f"column {key!r} has {len(column)} rows, the {name} has {n}.")
    return Table(list(table), n, list(table.values()))


def _read_frame(table: Any, name: str) -> Any:
    """Return the columns by name of a data frame that narwhals can read; anything else comes back unchanged.

    A lazy frame is refused, since its rows are not in memory; `name` is what errors call it.
    """
    import narwhals.stable.v2 as nw

    try:
        frame: Any = nw.from_native(table, pass_through=True)
        if frame is table and hasattr(table, "__arrow_c_stream__") and hasattr(table, "column_names"):
            frame = nw.from_arrow(table, backend="pyarrow")  # a record batch: `from_native` does not take it
    except nw.exceptions.DuplicateError as problem:
        reason = " ".join(str(problem).split())
        raise InvalidSamples(f"the {name} has two columns of the same name. Rename one ({reason}).") from None
    if isinstance(frame, nw.LazyFrame):
        raise InvalidSamples(
            f"{name} is a {type(table).__name__}, whose rows are not in memory; .collect() it first, or .compute() it."
        )
    return {key: frame[:, k] for k, key in enumerate(frame.columns)} if isinstance(frame, nw.DataFrame) else table


def _read_array(table: Any, name: str) -> Table:
    """Make a `Table` of an array or a list of rows, whose columns have no names; `name` is what errors call it."""
    rows = read_array(table, name, InvalidSamples)
    if not rows.ndim:
        hint = "Read the file first, e.g. by pandas.read_csv." if isinstance(table, (str, PathLike)) else ""
        raise InvalidSamples(f"{name} is {table!r}, which holds no rows. {hint}".rstrip())
    if rows.ndim != 2:
        raise InvalidSamples(
            f"{name} must be 2-D, one row per observation; got shape {rows.shape}. Reshape your data: for one variable "
            ".reshape(-1, 1), for one observation .reshape(1, -1)."
        )
    if rows.dtype.kind in "SU" and not hasattr(table, "dtype"):
        rows = np.array(table, dtype=object)  # NumPy turns the numbers in such a list into strings
    return Table(range(rows.shape[1]), len(rows), list(rows.T))


def _read_series(series: Any, label: str) -> Column:
    """Read a column of a data frame, a narwhals series; `label` is what errors call it.

    Strings and categories are encoded by the frame's own library, which is faster than NumPy on objects.
    """
    import narwhals.stable.v2 as nw

    kind, category = series.dtype, series.dtype in (nw.Categorical, nw.Enum)
    if not category and kind != nw.String:
        try:
            zoned = getattr(kind, "time_zone", None) is not None  # NumPy's dates have no time zones
            return _read_values(as_objects(series.to_list()) if zoned else series.to_numpy(), label)
        except (InvalidSamples, MemoryError):
            raise
        except Exception as problem:  # each library has errors of its own
            raise InvalidSamples(f"{label} holds {kind}, which cannot be read ({problem}). Convert it.") from None
    ordered = category and nw.is_ordered_categorical(series)
    # pandas finds the different values of strings faster once they are categories
    if not category and series.implementation.is_pandas_like():
        series = series.cast(nw.Categorical)  # 2 million strings: 1.2 s of processor time, not 2.1; slower for others
    present, values = ~series.is_null().to_numpy(), series.drop_nulls()
    # the different values in the order in which they occur; of ordered categories all, in their order
    distinct = values.unique(maintain_order=True).to_list()
    if ordered:
        distinct = series.cat.get_categories().to_list()
    codes = np.full(len(series), -1)
    if distinct:
        codes[present] = values.replace_strict(distinct, list(range(len(distinct))), return_dtype=nw.Int64).to_numpy()
    numbers = not ordered and all(isinstance(value, NUMBERS) for value in distinct)  # categories may be numbers
    return Column(np.array(distinct) if distinct and numbers else as_objects(distinct), codes, ordered)


def _read_values(values: AnyArray, label: str) -> Column:
    """Read a column that is a NumPy vector; `label` is what errors call it.

    Of Python objects, None, pandas' NA and what differs from itself (NaN, NaT) are missing values.
    """
    kind = values.dtype.kind
    if values.ndim != 1 or kind in "cV":
        unfit = "Complex data not supported: " if kind == "c" else ""  # scikit-learn's checks look for these words
        shape = "" if values.ndim == 1 else f" and shape {values.shape}"
        raise InvalidSamples(f"{unfit}{label} has dtype {values.dtype}{shape}; a column is numbers or names of levels.")
    if kind != "O":
        return _find_distinct(values)
    listed = values.tolist()
    try:  # the different values, in the order in which they occur
        known = [v for v in dict.fromkeys(listed) if not (v is None or type(v).__name__ == "NAType" or v != v)]
    except TypeError:
        row, value = next((row, value) for row, value in enumerate(listed) if not _can_hash(value))
        raise InvalidSamples(f"{label} holds {value!r} in row {row}, where a number or a string is expected.") from None
    place = {value: k for k, value in enumerate(known)}
    codes = np.array([place.get(value, -1) for value in listed], dtype=np.int64)
    numbers = bool(known) and all(isinstance(value, NUMBERS) for value in known)
    return Column(np.array(known) if numbers else as_objects(known), codes)


def _can_hash(value: Any) -> bool:
    """Return whether a value has a hash. A tuple that holds a list has none, although its type is `Hashable`."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _find_distinct(values: AnyArray) -> Column:
    """Find the different values of a NumPy vector, sorted, and the code of each row; floats stay as they are.

    Values are sorted; integers whose range is at most a few times their number are counted instead, which is far
    faster.
    """
    if values.dtype.kind == "f":  # they seldom repeat
        return Column(values, np.where(np.isnan(values), -1, np.arange(len(values))))
    if values.dtype.kind in "iu" and len(values):
        values = np.ascontiguousarray(values)  # a column of a table is read several times
        low, high = int(values.min()), int(values.max())
        if high < 2**62 and high - low <= 4 * len(values) + 1000:  # uint64 beyond int64 would overflow below
            places = values.astype(np.int64) - low
            found = np.bincount(places) > 0
            # the running count of values that occur, less 1, is the code of each of them
            return Column(np.flatnonzero(found) + low, (np.cumsum(found) - 1)[places])
    distinct, codes = np.unique(values, return_inverse=True)
    known = distinct == distinct  # not NaT
    return Column(distinct[known], np.where(known[codes], codes, -1))


def levels_by_column(levels: Any, columns: Sequence[Hashable]) -> dict[Hashable, Any]:
    """Return for each column what the argument `levels` of a public function says: its levels, their number, or None.

    The argument is a mapping from columns, a list with an item for each column, or one number for all columns.
    """
    if levels is None or is_whole(levels, 1):
        return dict.fromkeys(columns, levels)
    if isinstance(levels, Mapping):
        for name in levels:
            check_name("column", name, columns, door="levels")
        return {name: levels.get(name) for name in columns}
    if isinstance(levels, (str, bytes)) or not isinstance(levels, Sequence) or len(levels) != len(columns):
        raise InvalidSetting(
            f"levels must be a mapping of columns, a list with one item for each of the {len(columns)} modes, or one "
            f"size >= 1; got {levels!r}."
        )
    return dict(zip(columns, levels, strict=True))
