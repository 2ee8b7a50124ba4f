"""Tensors in text files: FROSTT's .tns."""

from __future__ import annotations

import gzip
import os
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legendre.core.arguments import check_int
from legendre.core.errors import InvalidFile, InvalidSetting
from legendre.core.files import check_path
from legendre.data.sparse_tensor import SparseTensor, assemble

FORM = "Every line lists the indices of a cell and its value, separated by blanks."


def read_tns(
    path: str | os.PathLike[str],
    shape: Sequence[int] | None = None,
    *,
    first_index: int = 1,
) -> SparseTensor:
    r"""Read a tensor from a text file, which may be compressed by gzip.

    Each line lists the indices of a cell and its value, separated by blanks, as in the files of FROSTT; ``#`` begins a
    comment. There is no header. For files of the Tensor Toolbox use ``pyttb.import_data``: what it returns is an X.

    Parameters
    ----------
    path
        The file.
    shape
        The grid; ``None`` is the smallest that holds the cells.
    first_index
        The first index of each mode: 1, as usual, or 0.

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
    if check_int(first_index, "first_index") > 1:
        raise InvalidSetting(f"first_index must be 0 or 1, the first index of each mode; got {first_index!r}.")
    try:
        return _read(check_path(path, "X.tns"), shape, first_index)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        reason = getattr(problem, "strerror", None) or f"damaged or truncated ({problem})"
        raise InvalidFile(f"cannot read {os.fspath(path)}: {reason}.") from None


def _read(path: Path, shape: Any, first_index: int) -> SparseTensor:
    """Read a .tns file with NumPy, unpacked if its first two bytes are those of gzip; `OSError` is passed on."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    try:
        with (gzip.open if packed else open)(path, "rt", encoding="utf-8-sig") as text, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there are no data: an error below says so
            table = np.loadtxt(text, comments="#", ndmin=2)
    except ValueError as problem:
        said = str(problem).partition(";")[0].rstrip(".")
        raise InvalidFile(f"{path}: {said}. {FORM} Leave a header out, and pass its sizes as shape.") from None
    if table.shape[1] < 2:
        raise InvalidFile(f"{path} holds no entry. {FORM}")
    columns = list(table[:, :-1].T - first_index)
    name = f"{path}, less first_index={first_index}: "
    return assemble(columns, table[:, -1], shape, InvalidFile, name, f"{path}: values")
