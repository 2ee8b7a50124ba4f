"""Lists of cells and their values, as rows or as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidTensor
from legendre.core.types import AnyArray
from legendre.data.entry_checks import check_values
from legendre.data.sparse_tensor import SparseTensor, assemble


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
    table = _Table.read(cells, None if values is None else np.shape(values))
    numbers = None if values is None else check_values(values, table.n, "values", table.cell_text, InvalidTensor)
    return assemble(table.columns, numbers, shape, table.place, InvalidTensor)


@dataclass(frozen=True, eq=False)
class _Table:
    """Cells as columns, and how the caller would index them."""

    columns: list[AnyArray]
    by_column: bool

    @classmethod
    def read(cls, cells: Any, values: tuple[int, ...] | None) -> _Table:
        if isinstance(cells, tuple):
            columns = [_array(column, f"cells[{k}]") for k, column in enumerate(cells)]
            _check_columns(columns, values)
            return cls(columns, True)
        rows = _array(cells, "cells")
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
        return cls(list(rows.T), False)

    @property
    def n(self) -> int:
        return len(self.columns[0])

    def place(self, row: int, mode: int) -> str:
        return f"cells[{mode}][{row}]" if self.by_column else f"cells[{row}, {mode}]"

    def cell_text(self, row: int) -> str:
        return f", the value of cell {cell_name([column[row] for column in self.columns])}"


def _array(given: Any, name: str) -> AnyArray:
    try:
        return np.asarray(given)
    except ValueError as problem:
        raise InvalidTensor(f"{name} is not a rectangular array ({problem}).") from None


def _check_columns(columns: list[AnyArray], values: tuple[int, ...] | None) -> None:
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
