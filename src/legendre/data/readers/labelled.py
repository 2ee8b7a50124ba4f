"""Tensors with labels: DataArrays of xarray, Series and cross tables of pandas, and names for plain arrays.

Nothing is read silently as something else: a table of rows is not a tensor, nor are sums in a margin.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import entries
from legendre.core.array_libraries import device_of
from legendre.core.errors import InvalidLabels, InvalidTensor
from legendre.core.labels import Labels
from legendre.core.level_values import have_rank
from legendre.core.memory import check_room
from legendre.core.origin import PLAIN, Origin
from legendre.core.types import AnyArray, IntArray
from legendre.data.readers.coordinates import from_coords
from legendre.data.sparse_tensor import SparseTensor

Names = Sequence[Hashable] | None
Levels = Sequence[Any] | Mapping[Any, Any] | None

SUMS = ("all", "total", "sum", "margin")  # what tables call a row or a column that holds the sums of the others
FRAMES = ("polars", "pyarrow", "modin", "cudf", "dask", "pandas", "ibis", "duckdb")


def opened(X: Any, names: Names = None, levels: Levels = None) -> tuple[Any, Origin]:
    """Take X out of the object that holds it, with its labels; names and levels that the caller gives go first."""
    root, kind = type(X).__module__.partition(".")[0], type(X).__name__
    held: Any = X
    if isinstance(X, SparseTensor):  # callers pass our own classes beside those of xarray and pandas
        origin = X.origin
    elif root == "xarray":
        held, origin = _data_array(X, kind)
    elif root == "pandas" and kind in ("Series", "DataFrame"):
        held, origin = (_series if kind == "Series" else _table)(X)
    elif root in FRAMES and kind in ("DataFrame", "LazyFrame", "Table", "RecordBatch"):
        raise InvalidTensor(f"X is a {kind} of {root}. {_count_rows(_columns(X))}")
    else:
        origin = PLAIN
    device = device_of(held)
    if device is not origin.device:
        origin = replace(origin, device=device)
    if names is None and levels is None:
        return held, origin
    return held, _renamed(held, origin, names, levels)


def _renamed(held: Any, origin: Origin, names: Names, levels: Levels) -> Origin:
    """Put the labels that the caller gives in the place of X's own."""
    shape = tuple(getattr(held, "shape", np.shape(held)))
    own = origin.of(shape)
    named = Labels.read(shape, own.names if names is None else names)
    if levels is None and own.levels is not None:
        levels = own.levels
    elif isinstance(levels, Mapping):
        kept = {k: level for k, level in enumerate(own.levels or ()) if level is not None}
        levels = kept | {named.find_mode(key, "levels", InvalidLabels): given for key, given in levels.items()}
    elif levels is not None:
        levels = entries(levels) or []
    labels = Labels.read(shape, named.names, levels)
    listed = levels.items() if isinstance(levels, Mapping) else enumerate(levels or ())
    ranked = {*origin.ranked, *(k for k, given in listed if have_rank(given))}
    return replace(origin, labels=labels, own_names=None, ranked=tuple(sorted(ranked)))


# --- xarray ----------------------------------------------------------------------------------------------------------


def _data_array(X: Any, kind: str) -> tuple[Any, Origin]:
    if kind != "DataArray":
        known = ", ".join(repr(str(name)) for name in list(getattr(X, "data_vars", ()))[:8])
        raise InvalidTensor(f"X is a {kind} of xarray, which holds several arrays ({known}). Pass one: X[name].")
    levels, ranked = [], []
    for k, dim in enumerate(X.dims):
        index = X.indexes.get(dim)
        if index is not None and index.nlevels > 1:
            raise InvalidTensor(f"the dimension {dim!r} of X stacks {list(index.names)}. Pass X.unstack({dim!r}).")
        levels.append(None if index is None else np.asarray(index))
        ranked += [k] if have_rank(index) else []
    if not X.dims:
        return X.data, PLAIN
    labels = Labels.read(tuple(X.shape), list(X.dims), levels)
    return X.data, Origin(labels, form="xarray", own_names=tuple(X.dims), ranked=tuple(ranked))


# --- pandas ----------------------------------------------------------------------------------------------------------


def _series(X: Any) -> tuple[Any, Origin]:
    """Read a Series: with a MultiIndex a mode for each of its levels, else one mode."""
    side = _Side(X.index, "index")
    held, notes = _laid_out(_numbers(X, "X"), [side])
    return held, _pandas_origin([side], "series", notes)


def _table(X: Any) -> tuple[Any, Origin]:
    """Read a cross table: the modes of its index, then those of its columns."""
    _check_cross_table(X)
    sides = [_Side(X.index, "index"), _Side(X.columns, "columns")]
    held, notes = _laid_out(_numbers(X, "X"), sides)
    if _numbered(X.index) and _numbered(X.columns):  # a matrix in a frame
        return held, replace(_pandas_origin(sides, "table", notes), own_names=(None, None))
    return held, _pandas_origin(sides, "table", notes)


class _Side:
    """One side of a table: the labels of its modes, and where each of its rows (or columns) belongs."""

    def __init__(self, index: Any, name: str) -> None:
        if not index.is_unique:
            place = int(np.argmax(index.duplicated()))
            every = [index.get_level_values(k)[place] for k in range(index.nlevels)]
            found = [value.item() if isinstance(value, np.generic) else value for value in every]
            twice = tuple(found) if len(found) > 1 else found[0]
            raise InvalidTensor(
                f"the {name} of X holds {twice!r} more than once. Add such entries up first: X.groupby(level="
                f"{list(range(index.nlevels))}).sum(), with X.T for columns."
            )
        self.names = tuple(index.names)
        self.codes: list[IntArray] = []
        self.levels: list[AnyArray] = []
        self.ranked: list[bool] = []  # whether they are ordered categories
        for k in range(index.nlevels):
            values = index.get_level_values(k)
            if values.isna().any():
                place = int(np.argmax(values.isna()))
                raise InvalidTensor(
                    f"the {name} of X has no label in place {place}. Drop it, or give missing ones a name of their own."
                )
            own = _own_order(index, k)
            self.ranked.append(bool(getattr(values, "ordered", False)))
            self.levels.append(np.asarray(own))
            self.codes.append(own.get_indexer(values).astype(np.int64))

    @property
    def whole(self) -> bool:
        """Whether every combination of levels is there, in C order."""
        sizes = tuple(map(len, self.levels))
        if len(self.codes[0]) != math.prod(sizes):
            return False
        places = np.ravel_multi_index(tuple(self.codes), sizes)
        return bool((places == np.arange(len(places))).all())


def _own_order(index: Any, k: int) -> Any:
    """List the different labels of one level, in the order of the table or of the MultiIndex; categories in theirs."""
    values = index.get_level_values(k)
    if str(values.dtype) == "category":
        return values.categories if values.ordered else values.remove_unused_categories().categories
    if index.nlevels == 1:
        return index
    return index.remove_unused_levels().levels[k]


def _laid_out(values: AnyArray, sides: list[_Side]) -> tuple[Any, tuple[str, ...]]:
    """Put the entries of a table on the grid of all combinations; say what became of those that are not listed."""
    shape = tuple(len(level) for side in sides for level in side.levels)
    cells, listed = math.prod(shape), values.size
    counts = values.dtype.kind in "iub" or _whole_numbers(values)
    notes: tuple[str, ...] = ()
    if values.dtype.kind == "f" and (gaps := int(np.isnan(values).sum())):
        asked = " Were zeros meant? Then pass X.fillna(0)." if counts else ""
        notes = (f"{gaps:,} cells of X are NaN and count as missing: they are outside the sample space.{asked}",)
    if all(side.whole for side in sides):
        return values.reshape(shape), notes
    if absent := cells - listed:
        fate = "0, for X holds counts" if counts else "missing, for X holds no counts"
        notes += (f"{absent:,} of {cells:,} combinations of levels are not listed in X; they are read as {fate}.",)
    codes = _combined(sides)
    if (
        counts
        and cells > limits.ALWAYS_A_GRID
        and cells > limits.CELLS_PER_POINT * listed
        and not np.isnan(values).any()
    ):
        return from_coords(np.stack(codes, axis=1), values.ravel(), shape), notes
    check_room(cells, 8, "X with every combination of its levels", "Leave out modes, or merge levels.")
    full = np.zeros(shape, dtype=values.dtype) if counts else np.full(shape, np.nan)
    full[tuple(codes)] = values.ravel()
    return full, notes


def _combined(sides: list[_Side]) -> list[IntArray]:
    """List the place of every entry of the table in every mode."""
    if len(sides) == 1:
        return sides[0].codes
    rows, columns = (len(side.codes[0]) for side in sides)
    return [np.repeat(code, columns) for code in sides[0].codes] + [np.tile(code, rows) for code in sides[1].codes]


def _pandas_origin(sides: list[_Side], form: Any, notes: tuple[str, ...]) -> Origin:
    own = tuple(name for side in sides for name in side.names)
    levels = [level for side in sides for level in side.levels]
    shape = tuple(map(len, levels))
    names = [f"mode {k}" if name is None else name for k, name in enumerate(own)]
    labels = Labels.read(shape, names if any(name is not None for name in own) else None, levels)
    ranked = tuple(k for k, has in enumerate(has for side in sides for has in side.ranked) if has)
    return Origin(labels, form=form, index=len(sides[0].levels), own_names=own, notes=notes, ranked=ranked)


def _numbers(X: Any, name: str) -> AnyArray:
    """Return the values of a Series or a frame; NA becomes NaN."""
    kinds = {str(kind) for kind in (X.dtypes if X.ndim == 2 else [X.dtype])}
    if all(kind[:3].lower() in ("int", "uin") for kind in kinds) and not bool(X.isna().to_numpy().any()):
        return np.asarray(X.to_numpy(dtype=np.int64 if kinds != {"uint64"} else np.uint64))
    if not all(kind[:3].lower() in ("int", "uin", "flo") for kind in kinds):
        unfit = next(kind for kind in sorted(kinds) if kind[:3].lower() not in ("int", "uin", "flo"))
        raise InvalidTensor(f"{name} holds {unfit} where numbers should stand. Convert it: {name}.astype(float).")
    return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))


def _whole_numbers(values: AnyArray) -> bool:
    known = values[~np.isnan(values)]
    return bool(len(known) and (known == np.rint(known)).all())


def _check_cross_table(X: Any) -> None:
    """Refuse a frame with a row for each event or cell, and one with sums among its rows or columns."""
    names = [str(name) for name in X.columns]
    texts = [str(name) for name, kind in X.dtypes.items() if str(kind) in ("object", "str", "category", "bool")]
    texts += [str(name) for name, kind in X.dtypes.items() if str(kind).startswith(("datetime", "string", "period"))]
    if texts:
        raise InvalidTensor(f"X is a DataFrame whose column {texts[0]!r} holds no numbers. {_count_rows(names)}")
    if _numbered(X.index) and not _numbered(X.columns) and X.columns.nlevels == 1 and len(X) > 0:
        raise InvalidTensor(
            f"X is a DataFrame whose rows are only numbered, with columns {_some(names)}. {_count_rows(names)} If it "
            "is a matrix of values, name its rows (X.index) or pass X.to_numpy()."
        )
    for axis, index in ((0, X.index), (1, X.columns)):
        last = index[-1] if len(index) > 1 else None
        word = last if isinstance(last, str) else last[0] if isinstance(last, tuple) and last else None
        if isinstance(word, str) and word.lower() in SUMS and _sums_of_the_others(X, axis):
            side, cut = ("row", "X.iloc[:-1]") if axis == 0 else ("column", "X.iloc[:, :-1]")
            raise InvalidTensor(
                f"the last {side} of X is {last!r} and holds the sums of the others, as crosstab(margins=True) adds "
                f"them: they would be counted twice. Leave it out: {cut}, and the same for the other side."
            )


def _sums_of_the_others(X: Any, axis: int) -> bool:
    values = np.nan_to_num(_numbers(X, "X").astype(np.float64))
    values = values if axis == 0 else values.T
    return bool(np.allclose(values[:-1].sum(axis=0), values[-1], rtol=1e-9))


def _numbered(index: Any) -> bool:
    """Whether a side of a frame has no labels, only the numbers 0, 1, ... that pandas gives."""
    return type(index).__name__ == "RangeIndex" and index.name is None and index.start == 0 and index.step == 1


def _columns(X: Any) -> list[str]:
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return [str(name) for name in names] if names is not None and not callable(names) else []


def _count_rows(names: list[str]) -> str:
    guess = next((name for name in names if name.lower() in ("n", "count", "counts", "freq", "weight", "value")), "n")
    return (
        f"To count its rows, or to read one of its columns as counts, use ld.from_rows(frame) or "
        f"ld.from_rows(frame, counts={guess!r})."
    )


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
