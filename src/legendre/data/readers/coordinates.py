"""Lists of cells and their values, as rows or as columns."""

from __future__ import annotations

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

    Examples
    --------
    >>> from_coords([[0, 0, 4], [1, 2, 0]], [2.5, 1.0])
    SparseTensor: 2 entries > 0 of 30 cells (2 x 3 x 5), float64

    A tuple holds columns; without values, repeated cells are counted:

    >>> x = from_coords(([0, 1, 1], [2, 0, 0]), shape=(2, 4))
    >>> x.cells.tolist(), x.values.tolist()
    ([[0, 2], [1, 0]], [1, 2])
    """
    count = None if values is None else np.shape(values)
    columns = _from_columns(cells, count) if isinstance(cells, tuple) else _from_rows(cells, count)
    place = "cells[{1}][{0}]" if isinstance(cells, tuple) else "cells[{0}, {1}]"

    def cell_text(row: int) -> str:
        return f", the value of cell {cell_name([column[row] for column in columns])}"

    numbers = None if values is None else check_values(values, len(columns[0]), "values", cell_text, InvalidTensor)
    return assemble(columns, numbers, shape, place.format, InvalidTensor)


def _from_rows(cells: Any, values: tuple[int, ...] | None) -> list[AnyArray]:
    """Read one row per entry; `values` is the shape of the values."""
    rows = rectangular(cells, "cells", InvalidTensor)
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise InvalidTensor(
            f"cells has shape {rows.shape}; it needs one row per entry and one column per mode, nnz x N. For one "
            "mode: cells.reshape(-1, 1)."
        )
    if values is not None and len(values) == 1 and rows.shape[0] != values[0] == rows.shape[1] > 1:
        raise InvalidTensor(
            f"cells has shape {rows.shape} and there are {values[0]} values: rows are entries, columns are modes. "
            "Pass cells.T, or the columns as a tuple."
        )
    return list(rows.T)


def _from_columns(cells: tuple[Any, ...], values: tuple[int, ...] | None) -> list[AnyArray]:
    """Read one column per mode; `values` is the shape of the values."""
    columns = [rectangular(column, f"cells[{k}]", InvalidTensor) for k, column in enumerate(cells)]
    if not columns:
        raise InvalidTensor("cells is an empty tuple; it needs one column of indices per mode.")
    lengths = [column.shape for column in columns]
    if any(len(length) != 1 or length != lengths[0] for length in lengths):
        raise InvalidTensor(
            "cells is a tuple, so it holds one column of indices per mode, all of one length; their shapes are "
            f"{', '.join(map(str, lengths[:4]))}{', ...' if len(lengths) > 4 else ''}. For rows pass a list or array."
        )
    if values is not None and len(values) == 1 and lengths[0][0] != values[0] == len(columns) > 1:
        raise InvalidTensor(
            f"cells is a tuple, so it holds columns: {len(columns)} of length {lengths[0][0]}; but there are "
            f"{values[0]} values. For rows pass a list or an array: list(cells)."
        )
    return columns
