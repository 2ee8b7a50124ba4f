"""`from_coords` and `read_tns`: lists of cells and their values; and the sparse arrays of other libraries."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.errors import InvalidFile, InvalidTensor
from legendre.core.files import check_path
from legendre.core.origin import package_of, read_array
from legendre.core.types import PathName
from legendre.data.sparse_tensor import SparseTensor, assemble

FORM = "Every line lists the indices of a cell and its value, separated by whitespace."


def from_coords(
    cells: ArrayLike | tuple[ArrayLike, ...], values: ArrayLike | None = None, shape: Sequence[int] | None = None
) -> SparseTensor:
    """Read a list of cells and their values.

    Parameters
    ----------
    cells
        One row per entry: nnz x N indices counted from 0. Or a tuple of N columns, as ``np.nonzero(X)`` gives it.
        Floats that are whole numbers are accepted. A cell may be listed more than once.
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
        The message names the place and the value. NaN is refused too: a cell that is not listed is 0, so a list cannot
        say which cells are missing.

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
    values = None if values is None else read_array(values, "values", InvalidTensor)
    if isinstance(cells, tuple):
        columns = [read_array(column, f"cells[{k}]", InvalidTensor) for k, column in enumerate(cells)]
        lengths = list(dict.fromkeys(column.shape for column in columns))
        if len(lengths) != 1 or columns[0].ndim != 1:
            shapes = ", ".join(map(str, lengths))
            raise InvalidTensor(
                "cells is a tuple, so it holds one column of indices per mode, all of one length; their shapes are "
                f"{shapes}. For rows pass a list or array."
            )
    else:
        rows = read_array(cells, "cells", InvalidTensor)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise InvalidTensor(
                f"cells has shape {rows.shape}; it needs one row per entry and one column per mode, nnz x N. For one "
                "mode: cells.reshape(-1, 1)."
            )
        columns = list(rows.T)
    return assemble(columns, values, shape, InvalidTensor, "cells: ", "values")


def read_tns(path: PathName, shape: Sequence[int] | None = None) -> SparseTensor:
    r"""Read a tensor from a text file, which may be compressed (.gz).

    Each line lists the indices of a cell and its value, separated by whitespace, as in the files of FROSTT; ``#``
    begins a comment. Indices count from 1, and there is no header. For files of the Tensor Toolbox use
    ``pyttb.import_data``: what it returns is an X.

    Parameters
    ----------
    path
        The file.
    shape
        The grid; ``None`` is the smallest that holds the cells.

    Returns
    -------
    SparseTensor
        Indices count from 0; values of a cell that is listed twice are added.

    Raises
    ------
    InvalidFile
        The message names the entry and says what is wrong with it.

    See Also
    --------
    decompose : Takes what this returns, with ``names=`` and ``levels=`` for its modes.
    from_coords : A sparse tensor from cells and values.
    SparseTensor : What these readers return.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "small.tns"
    >>> _ = file.write_text("# i j k value\n1 1 2 5\n3 1 1 0.5\n")
    >>> x = read_tns(file)
    >>> x
    SparseTensor: 2 entries > 0 of 6 cells (3 x 1 x 2), float64
    >>> x.cells.tolist(), x.values.tolist()
    ([[0, 0, 1], [2, 0, 0]], [5.0, 0.5])
    """
    path = check_path(path, "X.tns")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there are no data: an error below says so
            table = np.loadtxt(path, ndmin=2, encoding="utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        reason = str(getattr(problem, "strerror", None) or problem).rstrip(".")
        raise InvalidFile(f"cannot read {path}: {reason}.") from None
    except ValueError as problem:
        reason = str(problem).partition(";")[0].rstrip(".")
        raise InvalidFile(f"{path}: {reason}. {FORM} Leave a header out, and pass its sizes as shape.") from None
    if table.shape[1] < 2:
        raise InvalidFile(f"{path} holds no entry. {FORM}")
    name = f"{path}, whose indices count from 1; counted from 0, "
    return assemble(list(table[:, :-1].T - 1), table[:, -1], shape, InvalidFile, name, f"{path}: values")


def as_sparse_tensor(X: Any) -> SparseTensor | None:
    """Return a sparse array of SciPy, pydata/sparse or pyttb as a `SparseTensor`; ``None`` for any other X.

    The library is recognised by the module of X's type, so that none of them is imported.
    """
    if isinstance(X, SparseTensor):
        return X
    root = package_of(X)
    if root == "scipy" and hasattr(X, "tocoo"):
        listed = X.tocoo()
        columns, values = listed.coords, listed.data
    elif root == "pyttb" and hasattr(X, "subs"):
        columns = np.asarray(X.subs).reshape(-1, len(X.shape)).T
        values = np.asarray(X.vals).reshape(-1)
    elif root == "sparse" and hasattr(X, "fill_value"):
        if X.fill_value != 0:
            raise InvalidTensor(
                f"X has fill_value {X.fill_value}: the cells that are not listed have that value, so X is not "
                "sparse. Pass X.todense() if it fits, or a sparse array that fills with 0."
            )
        listed = X.asformat("coo")
        columns, values = listed.coords, listed.data
    else:
        return None
    if 0 in X.shape:
        raise InvalidTensor(f"X is empty: its shape is {tuple(X.shape)}. Every mode needs at least one level.")
    return assemble(columns, values, X.shape, InvalidTensor, "X: ", "X.data")
