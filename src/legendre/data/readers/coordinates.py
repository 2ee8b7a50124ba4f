"""Lists of cells and their values; sparse arrays of other libraries."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import rectangular
from legendre.core.cells import cell_name
from legendre.core.errors import InvalidTensor
from legendre.core.types import AnyArray
from legendre.data.sparse_tensor import SparseTensor, assemble, check_values


def from_coords(
    cells: ArrayLike | tuple[ArrayLike, ...], values: ArrayLike | None = None, shape: Sequence[int] | None = None
) -> SparseTensor:
    """Read a list of cells and their values.

    Parameters
    ----------
    cells
        One row per entry: nnz x N indices counted from 0. Or a tuple of N columns, as ``np.nonzero(X)`` gives it.
        Floats that are whole numbers will do. A cell may be listed more than once.
    values
        One number >= 0 per entry; values of the same cell are added, zeros are left out. Without values each entry
        counts 1.
    shape
        The grid; ``None`` is the smallest that holds the cells.

    Returns
    -------
    SparseTensor
        Sorted, each cell once.

    Raises
    ------
    InvalidTensor
        With the place and the value of what is wrong. NaN is refused, too: a cell that is not listed is 0, so a list
        cannot say which cells are missing.

    See Also
    --------
    from_rows : Count the rows of a table of events.
    read_tns : Read a text file of entries.
    SparseTensor : What these readers return.

    Examples
    --------
    >>> from_coords([[0, 0, 4], [1, 2, 0]], [2.5, 1.0])
    SparseTensor: 2 entries > 0 of 30 cells (2 x 3 x 5), float64

    A tuple holds columns; without values, repeated cells are counted:

    >>> x = from_coords(([0, 1, 1], [2, 0, 0]), shape=(2, 4))
    >>> x.cells.tolist(), x.values.tolist()
    ([[0, 2], [1, 0]], [1, 2])
    """
    values = None if values is None else rectangular(values, "values", InvalidTensor)
    count = len(values) if values is not None and values.ndim == 1 else None
    columns = _from_columns(cells, count) if isinstance(cells, tuple) else _from_rows(cells, count)
    place = "cells[{1}][{0}]" if isinstance(cells, tuple) else "cells[{0}, {1}]"

    def cell_text(row: int) -> str:
        return f", the value of cell {cell_name([column[row] for column in columns])}"

    numbers = None if values is None else check_values(values, len(columns[0]), "values", cell_text, InvalidTensor)
    return assemble(columns, numbers, shape, place.format, InvalidTensor)


def _from_rows(cells: Any, n_values: int | None) -> list[AnyArray]:
    """Read one row per entry."""
    rows = rectangular(cells, "cells", InvalidTensor)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidTensor(
            f"cells has shape {rows.shape}; it needs one row per entry and one column per mode, nnz x N. For one "
            "mode: cells.reshape(-1, 1)."
        )
    if rows.shape[0] != n_values == rows.shape[1] > 1:
        raise InvalidTensor(
            f"cells has shape {rows.shape} and there are {n_values} values: rows are entries, columns are modes. "
            "Pass cells.T, or the columns as a tuple."
        )
    return list(rows.T)


def _from_columns(cells: tuple[Any, ...], n_values: int | None) -> list[AnyArray]:
    """Read one column per mode."""
    columns = [rectangular(column, f"cells[{k}]", InvalidTensor) for k, column in enumerate(cells)]
    if not columns:
        raise InvalidTensor("cells is an empty tuple; it needs one column of indices per mode.")
    lengths = [column.shape for column in columns]
    if any(len(length) != 1 or length != lengths[0] for length in lengths):
        raise InvalidTensor(
            "cells is a tuple, so it holds one column of indices per mode, all of one length; their shapes are "
            f"{', '.join(map(str, lengths[:4]))}{', ...' if len(lengths) > 4 else ''}. For rows pass a list or array."
        )
    if lengths[0][0] != n_values == len(columns) > 1:
        raise InvalidTensor(
            f"cells is a tuple, so it holds columns: {len(columns)} of length {lengths[0][0]}; but there are "
            f"{n_values} values. For rows pass a list or an array: list(cells)."
        )
    return columns


def as_sparse_tensor(X: object) -> SparseTensor | None:
    """Read a sparse array of SciPy, pydata/sparse or pyttb, importing none of them; ``None`` for any other X."""
    if isinstance(X, SparseTensor):  # callers pass ours beside those of other libraries
        return X
    for module, base, read in (
        ("scipy.sparse", ("spmatrix", "sparray"), _scipy),
        ("sparse", ("SparseArray",), _pydata),
        ("pyttb", ("sptensor",), _pyttb),
    ):
        loaded = sys.modules.get(module)
        kinds = tuple(kind for name in base if isinstance(kind := getattr(loaded, name, None), type))
        if isinstance(X, kinds):
            return read(X)
    return None


def entries(columns: Sequence[AnyArray], values: AnyArray, shape: Sequence[int]) -> SparseTensor:
    """Read the stored entries of a sparse X; a bad value is named by its cell."""

    def context(row: int) -> str:
        return f", stored for X{cell_name([column[row] for column in columns])}"

    if np.asarray(values).dtype.kind == "b":
        raise InvalidTensor("X is boolean. If True counts as 1, pass X.astype(int); if it marks cells, as support.")
    numbers = check_values(values, len(columns[0]), "X.data", context, InvalidTensor)
    if 0 in shape:
        raise InvalidTensor(f"X is empty: its shape is {tuple(shape)}. Every mode needs at least one level.")
    return assemble(columns, numbers, shape, lambda row, mode: f"X.coords[{mode}][{row}]", InvalidTensor)


def check_fill(fill: Any) -> None:
    """Refuse a sparse X whose unlisted cells are not 0."""
    if fill != 0:
        raise InvalidTensor(
            f"X has fill_value {fill}: the cells that are not listed have that value, so X is not sparse here. "
            "Pass X.todense() if it fits, or a sparse array that fills with 0."
        )


def _scipy(X: Any) -> SparseTensor:
    listed = X.tocoo()
    return entries(listed.coords, listed.data, listed.shape)


def _pydata(X: Any) -> SparseTensor:
    check_fill(X.fill_value)
    listed = X if hasattr(X, "coords") else X.to_coo() if hasattr(X, "to_coo") else X.tocoo()
    return entries(list(listed.coords), listed.data, listed.shape)


def _pyttb(X: Any) -> SparseTensor:
    subs = np.asarray(X.subs).reshape(-1, len(X.shape))
    return entries(list(subs.T), np.asarray(X.vals).reshape(-1), X.shape)
