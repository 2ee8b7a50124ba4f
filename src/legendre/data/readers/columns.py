"""Tables of every library (data frames through narwhals): columns of numbers, or of codes of their distinct values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from legendre.core.arguments import entries, is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidSamples, InvalidSetting, unknown_name
from legendre.core.text_order import sorted_levels
from legendre.core.types import AnyArray, BoolArray, IntArray

NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


@dataclass(frozen=True, eq=False)
class Column:
    """Numbers (`codes` is ``None``), or codes of distinct values; these are in an order that counts if `ordered`."""

    values: AnyArray
    codes: IntArray | None = None
    ordered: bool = False

    def rows(self) -> AnyArray:
        return np.asarray(self.values if self.codes is None else self.values[self.codes])

    def at(self, row: int) -> Any:
        """Return the value of one row, as Python's own: errors show 'c', not np.str_('c')."""
        value = self.rows()[row]
        return value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value

    def take(self, rows: Any) -> Column:
        return Column(self.values[rows]) if self.codes is None else replace(self, codes=self.codes[rows])

    def absent(self, infinite: bool = False) -> BoolArray:
        """Mark the rows without a value: NaN, NaT, NA or None; or with an infinite one, if that counts."""
        absent = self._absent_values(infinite)
        return absent if self.codes is None else absent[self.codes]

    def _absent_values(self, infinite: bool = False) -> BoolArray:
        kind, absent = self.values.dtype.kind, np.zeros(len(self.values), np.bool_)
        if kind == "O":
            absent[:] = [v is None or type(v).__name__ == "NAType" or v != v for v in self.values]
        elif kind in "fmM":
            absent = ~np.isfinite(self.values) if infinite else np.isnan(self.values)
        return absent

    def missing(self, infinite: bool = False) -> int | None:
        """Find the first row that is absent."""
        rows = self.absent(infinite)
        return int(rows.argmax()) if rows.any() else None

    def filled(self) -> Column:
        """Put a value that occurs where there is none, so that the others are read as in a column without gaps."""
        rows, lost = self.absent(), self._absent_values()
        if not lost.any():
            return self
        first = int(rows.argmin())
        if self.codes is None:
            return Column(np.where(rows, self.values[first], self.values))
        codes = (np.cumsum(~lost) - 1)[np.where(rows, self.codes[first], self.codes)]
        values = self.values[~lost]
        if not self.ordered and all(isinstance(value, NUMBERS) for value in values.tolist()):
            return Column(np.array(values.tolist())[codes])
        return Column(values, codes, self.ordered)

    def levels(self, label: str) -> AnyArray:
        """Return the values in the column's own order if it has one, else those that occur, sorted (`text_order`)."""
        if self.ordered:
            return self.values
        seen = (
            self.values if self.codes is None else self.values[np.bincount(self.codes, minlength=len(self.values)) > 0]
        )
        try:
            return sorted_levels(seen)
        except TypeError:
            kinds = sorted({type(value).__name__ for value in seen.tolist()})
            raise InvalidSamples(
                f"{label} mixes values of types {', '.join(kinds)}, which have no order. Convert it to one type, or "
                "list its levels (levels= or categories=)."
            ) from None

    def codes_in(self, levels: AnyArray, label: str = "", unlisted: str = "") -> IntArray:
        """Return the place of each row's value in a list of levels; where it has none -1, or an error that says so."""
        place = {value: k for k, value in enumerate(levels.tolist())}
        numbers = self.codes is None
        distinct, codes = np.unique(self.values, return_inverse=True) if numbers else (self.values, self.codes)
        found: IntArray = np.array([place.get(value, -1) for value in distinct.tolist()], dtype=np.int64)[codes]
        if unlisted and found.min() < 0:
            row = int(found.argmin())
            raise InvalidSamples(f"{label} holds {self.at(row)!r} in row {row}, which {unlisted}.")
        return found


@dataclass(frozen=True, eq=False)
class Table:
    """Columns as the table holds them, their names (0, 1, ... if it has none), and all in one array if it is one."""

    names: Sequence[Hashable]
    n: int
    held: Sequence[Any]
    array: AnyArray | None = None

    def column(self, name: Hashable) -> Column:
        held, label = self.held[self.names.index(name)], f"column {name!r}"
        if not isinstance(held, (np.ndarray, list, tuple)):
            import narwhals.stable.v2 as nw

            series: Any = nw.from_native(held, series_only=True, pass_through=True)
            if isinstance(series, nw.Series):
                return _series(series, label)
        return _values(np.asarray(_unmasked(held)) if isinstance(held, np.ndarray) else objects(list(held)), label)

    def by_name(self, wanted: Sequence[str], name: str, optional: str | None = None) -> Table:
        """Put columns that have names in the order wanted; `optional` need not be there, and holds 0 then.

        >>> read_table({"b": [1], "a": [2]}).by_name(["a", "b"], "X").names
        ['a', 'b']
        """
        own = [str(column) for column in self.names]
        lacking = [column for column in wanted if column not in own and column != optional]
        unknown = [column for column in own if column not in wanted]
        if lacking:
            near = get_close_matches(lacking[0], unknown, n=1, cutoff=0.5)
            hint = f" Is it {near[0]!r}? Rename it." if near else f" It has {', '.join(map(repr, own))}."
            raise InvalidSamples(f"{name} has no column {lacking[0]!r}, which fit saw.{hint}")
        if unknown:
            near = get_close_matches(unknown[0], wanted, n=1, cutoff=0.7)
            hint = f" {near[0]!r} is there as well." if near else ""
            raise InvalidSamples(f"{name} has a column {unknown[0]!r}, which fit did not see.{hint} Leave it out.")
        held = dict(zip(own, self.held, strict=True))
        return Table(list(wanted), self.n, [held.get(column, np.zeros(self.n)) for column in wanted])

    @property
    def text_names(self) -> list[str] | None:
        """The names of the columns; ``None`` where there are none, or they are not strings."""
        names = [name for name in self.names if isinstance(name, str)]
        return names if len(names) == len(self.names) else None


def read_table(table: Any, name: str = "table") -> Table:
    """Read a table; `name` is what errors call it."""
    if hasattr(table, "toarray") or hasattr(table, "todense"):
        raise InvalidSamples(
            f"{name} is a {type(table).__name__}, which is sparse; rows of observations are dense. Pass "
            f"{name}.toarray(); for a sparse tensor see legendre.from_coords."
        )
    if isinstance(table, np.ndarray) and table.dtype.names is not None:
        table = {field: table[field] for field in table.dtype.names}
    if not isinstance(table, (np.ndarray, list, tuple, Mapping)):
        table = _frame(table, name)
    if not isinstance(table, Mapping):
        return _array(table, name)
    n = len(next(iter(table.values()), ()))
    for key, column in table.items():
        if len(column) != n:
            raise InvalidSamples(f"column {key!r} has {len(column)} rows, the {name} has {n}.")
    return Table(list(table), n, list(table.values()))


def _frame(table: Any, name: str) -> Any:
    """Return the columns by name of a data frame that narwhals knows; anything else comes back as it is."""
    import narwhals.stable.v2 as nw

    try:
        frame: Any = nw.from_native(table, pass_through=True)
        if frame is table and hasattr(table, "__arrow_c_stream__") and hasattr(table, "column_names"):
            frame = nw.from_arrow(table, backend="pyarrow")  # a record batch
    except nw.exceptions.DuplicateError:
        names = getattr(table, "column_names", None) or list(table.columns)
        twice = Counter(names).most_common(1)[0][0]
        raise InvalidSamples(f"the {name} has two columns named {twice!r}. Rename one.") from None
    if isinstance(frame, nw.LazyFrame):
        raise InvalidSamples(
            f"{name} is a {type(table).__name__}, whose rows are not in memory; .collect() it first, or .compute() it; "
            "legendre.from_batches counts a dask data frame in parts."
        )
    return {key: frame[:, k] for k, key in enumerate(frame.columns)} if isinstance(frame, nw.DataFrame) else table


def _array(table: Any, name: str) -> Table:
    plain = type(table) is np.ndarray
    rows = table if plain else rectangular(_unmasked(table), name, InvalidSamples)
    if rows.ndim != 2:
        raise InvalidSamples(
            f"{name} must be 2-D, one row per observation; got shape {rows.shape}. Reshape your data: for one variable "
            ".reshape(-1, 1), for one observation .reshape(1, -1)."
        )
    if rows.dtype.kind in "SU" and not hasattr(table, "dtype"):
        mixed = np.array(table, dtype=object)  # NumPy makes texts of the numbers in such a list
        rows = rows if all(isinstance(value, str) for value in mixed.flat) else mixed
    return Table(range(rows.shape[1]), len(rows), list(rows.T), rows)


def _unmasked(values: Any) -> Any:
    """Put None where an array is masked."""
    return np.where(values.mask, None, values.data) if np.ma.is_masked(values) else values


def _series(series: Any, label: str) -> Column:
    """Read a column of a data frame; texts and categories are counted by its own library, which is faster."""
    import narwhals.stable.v2 as nw

    kind, category = series.dtype, series.dtype in (nw.Categorical, nw.Enum)
    ordered, gaps = category and nw.is_ordered_categorical(series), series.null_count() > 0
    if ordered or ((category or kind == nw.String) and not gaps):
        own = series.unique(maintain_order=True).to_list()
        if ordered:
            own = list(kind.categories) if kind == nw.Enum else series.cat.get_categories().to_list()
        seen = series.drop_nulls() if gaps else series
        codes = seen.replace_strict(own, list(range(len(own))), return_dtype=nw.Int64).to_numpy()
        if not gaps:
            return Column(objects(own), codes, ordered)
        places = np.full(len(series), len(own))
        places[~series.is_null().to_numpy()] = codes
        return Column(objects([*own, None]), places, ordered)
    try:
        values = objects(series.to_list()) if category else series.to_numpy()
    except Exception as problem:  # each library has errors of its own
        raise InvalidSamples(f"{label} holds {kind}, which cannot be read ({problem}). Convert it.") from None
    return _values(values, label)


def _values(values: AnyArray, label: str) -> Column:
    if values.ndim != 1 or values.dtype.kind in "cV":
        unfit = "Complex data not supported: " if values.dtype.kind == "c" else ""
        shape = "" if values.ndim == 1 else f" and shape {values.shape}"
        raise InvalidSamples(f"{unfit}{label} has dtype {values.dtype}{shape}; a column is numbers or names of levels.")
    if values.dtype.kind != "O":
        return Column(values) if values.dtype.kind in "biuf" else Column(*np.unique(values, return_inverse=True))
    listed = values.tolist()
    if all(isinstance(value, NUMBERS) for value in listed):
        return Column(np.array(listed))
    try:
        place = {value: k for k, value in enumerate(dict.fromkeys(listed))}
    except TypeError:
        row, value = next((row, value) for row, value in enumerate(listed) if not isinstance(value, Hashable))
        raise InvalidSamples(f"{label} holds {value!r} in row {row}, where a number or a text should stand.") from None
    if strange := [value for value in place if isinstance(value, (complex, np.complexfloating))]:
        raise InvalidSamples(f"Complex data not supported: {label} holds {strange[0]!r}, which is no name of a level.")
    return Column(objects(list(place)), np.fromiter(map(place.__getitem__, listed), np.int64, len(listed)))


def objects(listed: list[Any]) -> AnyArray:
    """Put values into an array as they are, tuples too."""
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def level_list(given: Any, rule: str) -> AnyArray:
    """Read levels that the caller lists, in the type that they share; numbers and texts together stay objects."""
    listed = (None if isinstance(given, (set, frozenset)) else entries(given)) or []
    if not listed or not all(isinstance(value, Hashable) for value in listed) or len(set(listed)) < len(listed):
        raise InvalidSetting(f"{rule} different values in a list, got {given!r}.")
    for kinds in (NUMBERS, str, np.generic):
        if all(isinstance(value, kinds) for value in listed):
            return np.array(listed)
    return objects(listed)


def levels_by_column(levels: Any, modes: list[Hashable]) -> dict[Hashable, Any]:
    """Return what the caller gives of each column: its levels, their number, or nothing."""
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
