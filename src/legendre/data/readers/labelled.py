"""Tensors with labels: xarray DataArrays, pandas Series and cross tables; and names that a caller gives plain arrays.

What may not be meant as a tensor is refused: a table of rows, or a cross table that contains its own row sums.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.cells import first_cell
from legendre.core.errors import InvalidTensor
from legendre.core.labels import Labels, as_objects, have_rank
from legendre.core.memory import check_room
from legendre.core.origin import PLAIN, Origin, device_of, host, package_of
from legendre.core.types import AnyArray, IntArray, Shape
from legendre.data.readers.coordinates import from_coords
from legendre.data.sparse_tensor import SparseTensor

Names = Sequence[Hashable] | None
Levels = Sequence[Any] | Mapping[Any, Any] | None

COUNT_ROWS = (
    "To count its rows use ld.from_rows(frame), or ld.from_rows(frame, counts='n') where a column n says how often "
    "each row was seen."
)


def unwrap(X: Any, names: Names = None, levels: Levels = None) -> tuple[Any, Origin]:
    """Take the array, or sparse tensor, out of the object that a caller passes as X; also return its `Origin`.

    The origin has the labels and the library of X; `names` and `levels` that the caller gives replace X's own.
    The values are not checked here; a file name and a table of rows are refused.
    """
    root, kind = package_of(X), type(X).__name__
    array = X
    if isinstance(X, (str, PathLike)):
        raise InvalidTensor(
            f"X is the name of a file, {str(X)!r}. Read it first: np.load, ld.read_tns, pandas.read_csv."
        )
    if isinstance(X, list) and X and isinstance(X[0], dict):
        raise InvalidTensor(f"X is a list of records. Make a frame of them: pandas.DataFrame(X). {COUNT_ROWS}")
    if isinstance(X, SparseTensor):  # callers pass our own classes as well as those of xarray and pandas
        origin = X.origin
    elif root == "xarray":
        array, origin = _read_data_array(X, kind)
    elif root == "pandas" and kind in ("Series", "DataFrame"):
        array, origin = _read_pandas(X)
    elif is_frame(X):
        raise InvalidTensor(f"X is a {kind} of {root}. {COUNT_ROWS}")
    else:
        origin = PLAIN
    values = host(array)
    device = device_of(array)
    if device is not origin.device:
        origin = replace(origin, device=device)
    if names is None and levels is None:
        return values, origin
    return values, _rename(values, origin, names, levels)


def is_frame(X: object) -> bool:
    """Whether X is a data frame, or a dataset of pyarrow: it has columns, whichever library it is from.

    In all libraries but pandas a frame is a table of rows, never a tensor. The type is asked, because some frames
    compute their columns.
    """
    return any(hasattr(type(X), name) for name in ("columns", "column_names", "to_batches"))


def _rename(values: Any, origin: Origin, names: Names, levels: Levels) -> Origin:
    """Return the origin with the labels that the caller gives in place of X's own; `values` has the shape."""
    shape = tuple(getattr(values, "shape", np.shape(values)))
    labels = Labels.read(shape, names, levels, origin.of(shape))
    listed = levels.items() if isinstance(levels, Mapping) else enumerate(levels or ())
    ranked = {*origin.ranked, *(labels.find_mode(mode) for mode, given in listed if have_rank(given))}
    return replace(origin, labels=labels, own_names=None, ranked=tuple(sorted(ranked)))


# --- xarray ----------------------------------------------------------------------------------------------------------


def _read_data_array(X: Any, kind: str) -> tuple[Any, Origin]:
    """Take the array out of an xarray DataArray; its dimensions and coordinates become names and levels of modes.

    `kind` is the name of its type; a Dataset, which holds several arrays, is refused.
    """
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
    labels = Labels.read(tuple(X.shape), list(X.dims), levels)
    return X.data, Origin(labels, form="xarray", own_names=tuple(X.dims), ranked=tuple(ranked))


# --- pandas ----------------------------------------------------------------------------------------------------------


def _read_pandas(X: Any) -> tuple[Any, Origin]:
    """Read a pandas Series or cross table as a tensor: first the modes of its index, then those of its columns.

    Each level of a MultiIndex is a mode. Also return the origin, with notes on cells that are not listed.
    """
    values = _read_numbers(X)
    if X.ndim == 2:
        _check_cross_table(X, values)
    names: list[Hashable] = []
    codes, levels, ranked = [], [], []
    # first the rows, then the columns of a cross table; `places` has the row (or column) of each entry of the table
    for index, places in zip(X.axes, np.indices(values.shape).reshape(values.ndim, -1), strict=True):
        if not index.is_unique:
            twice = index[index.duplicated()].tolist()[0]
            raise InvalidTensor(
                f"the index or the columns of X hold {twice!r} more than once. Add such entries up first: "
                f"X.groupby(level={list(range(index.nlevels))}).sum(), with X.T for columns."
            )
        for k, name in enumerate(index.names):
            index_codes, index_labels, ordered = _encode_index(index, k)
            ranked += [len(names)] if ordered else []
            names.append(name)
            codes.append(index_codes[places])
            levels.append(index_labels)
    shape = tuple(map(len, levels))
    tensor, notes = _lay_out(values.ravel(), codes, shape)
    mode_names = None
    if any(name is not None for name in names):
        mode_names = [f"mode {k}" if name is None else name for k, name in enumerate(names)]
    labels = Labels.read(shape, mode_names, levels)
    form: Any = "series" if X.ndim == 1 else "table"
    return tensor, Origin(
        labels, form=form, index=X.index.nlevels, own_names=tuple(names), notes=notes, ranked=tuple(ranked)
    )


def _encode_index(index: Any, k: int) -> tuple[IntArray, AnyArray, bool]:
    """Return the code of each entry of level k of a pandas index, its labels, and whether they are ordered categories.

    Labels are in the order in which a plain index or a MultiIndex lists them, categories in their own.
    """
    values = index.get_level_values(k)
    if absent := first_cell(values.isna()):
        raise InvalidTensor(
            f"the index or the columns of X have no label in place {absent[0]}. Drop it, or name missing ones."
        )
    # the labels in the order in which they become levels
    known = index if index.nlevels == 1 else index.remove_unused_levels().levels[k]
    ordered = bool(getattr(values, "ordered", False))
    if str(values.dtype) == "category":
        known = values.categories if ordered else values.remove_unused_categories().categories
    zoned = getattr(known, "tz", None) is not None  # NumPy's dates have no time zones
    return known.get_indexer(values).astype(np.int64), as_objects(list(known)) if zoned else np.asarray(known), ordered


def _lay_out(values: AnyArray, codes: list[IntArray], shape: Shape) -> tuple[Any, tuple[str, ...]]:
    """Put the entries of a table on the grid of all combinations of levels; return it, and notes for the summary.

    Combinations that are not listed are 0 if X holds counts, else missing. A large grid with few entries becomes a
    sparse tensor. `codes` has for each mode the level of each entry.
    """
    n_cells, numbers = math.prod(shape), values[~np.isnan(values)]
    counts = bool(len(numbers) and (numbers == np.rint(numbers)).all())
    notes: tuple[str, ...] = ()
    if gaps := len(values) - len(numbers):
        asked = " Were zeros meant? Then pass X.fillna(0)." if counts else ""
        notes = (f"{gaps:,} cells of X are NaN and count as missing: they are outside the sample space.{asked}",)
    if absent := n_cells - len(values):
        fate = "0, because X holds counts" if counts else "missing, because X does not hold counts"
        notes += (f"{absent:,} of {n_cells:,} combinations of levels are not in X; they are read as {fate}.",)
    # these limits decide between lists and grids elsewhere too; a list cannot say which cells are missing
    if counts and not gaps and n_cells > limits.ALWAYS_A_GRID and n_cells > limits.CELLS_PER_POINT * len(values):
        return from_coords(np.stack(codes, axis=1), values, shape), notes
    check_room(n_cells, 8, "X with every combination of its levels", "Leave out modes, or merge levels.")
    full = np.zeros(shape, dtype=values.dtype) if counts else np.full(shape, np.nan)
    full[tuple(codes)] = values
    return full, notes


def _read_numbers(X: Any) -> AnyArray:
    """Return the values of a pandas Series or frame as int64, or as float64 with NaN for NA; refuse other types.

    True and False stay as they are: they may be a support.
    """
    columns = [(None, X.dtype)] if X.ndim == 1 else list(X.dtypes.items())
    if all(kind == np.bool_ for _, kind in columns):
        return np.asarray(X.to_numpy())
    for name, kind in columns:
        if kind.kind not in "iuf":
            problem = f"X holds {kind} where numbers are expected. Convert it: X.astype(float)."
            if X.ndim == 2:
                problem = f"X is a DataFrame whose column {str(name)!r} holds no numbers. {COUNT_ROWS}"
            raise InvalidTensor(problem)
    if any(kind.kind == "f" for _, kind in columns) or X.isna().to_numpy().any():
        return np.asarray(X.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(X.to_numpy(dtype=np.int64))


def _check_cross_table(X: Any, values: AnyArray) -> None:
    """Refuse a pandas frame that is not a cross table: one with a row for each event, or with sums as its last row.

    Rows of events are recognised by an index of mere row numbers, sums by the label, such as "All", and the values.
    """
    if _is_numbered(X.index) and not _is_numbered(X.columns) and X.columns.nlevels == 1 and len(X) > 0:
        names = [str(name) for name in X.columns]
        listed = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        raise InvalidTensor(
            f"X is a DataFrame whose rows are only numbered, with columns {listed}. {COUNT_ROWS} If it "
            "is a matrix of values, name its rows (X.index) or pass X.to_numpy()."
        )
    known = np.nan_to_num(values)  # a sum of the others leaves out NaN
    for index, table, cut in ((X.index, known, "X.iloc[:-1]"), (X.columns, known.T, "X.iloc[:, :-1]")):
        last = index[-1] if len(index) > 1 else None  # a tuple in a MultiIndex
        word = last[0] if isinstance(last, tuple) else last
        if str(word).lower() in ("all", "total", "sum", "margin") and np.allclose(table[:-1].sum(axis=0), table[-1]):
            raise InvalidTensor(
                f"the last row or column of X is {last!r} and holds the sums of the others, as crosstab(margins=True) "
                f"adds them: they would be counted twice. Leave it out: {cut}, and the same for the other side."
            )


def _is_numbered(index: Any) -> bool:
    """Whether a side of a frame has no labels, only the numbers 0, 1, ... that pandas gives."""
    return type(index).__name__ == "RangeIndex" and index.name is None and index.start == 0 and index.step == 1
