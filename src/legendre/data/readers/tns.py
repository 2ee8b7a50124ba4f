"""Tensors in text files: FROSTT's .tns, and the lists and arrays that the Tensor Toolbox writes."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from legendre.core.arguments import check_int
from legendre.core.errors import InvalidFile, InvalidSetting
from legendre.core.files import check_path
from legendre.core.types import FloatArray
from legendre.data.sparse_tensor import SparseTensor, assemble, check_values


def read_tns(
    path: str | os.PathLike[str],
    shape: Sequence[int] | None = None,
    *,
    first_index: int = 1,
) -> SparseTensor | FloatArray:
    r"""Read a tensor from a text file, compressed by gzip or not.

    Each line lists the indices of a cell and its value, separated by blanks, as in the files of FROSTT; ``#`` begins a
    comment. Before the first entry there may be a header: the number of modes in one line and the sizes in the next;
    or that of the Tensor Toolbox, which has ``sptensor`` before these two and the number of entries after them.
    A ``tensor`` file of the Tensor Toolbox lists the value of every cell, the first index fastest; it gives an array.

    Parameters
    ----------
    path
        The file.
    shape
        The grid; ``None`` is what the header says, or else the smallest that holds the cells.
    first_index
        The first index of each mode: 1, as is the custom, or 0.

    Returns
    -------
    SparseTensor or ndarray
        Indices count from 0; values of a cell that is listed twice are added. An array for a ``tensor`` file only.

    Raises
    ------
    InvalidFile
        With the number of the entry and what is wrong in it.

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


def _read(path: Path, shape: Any, first_index: int) -> SparseTensor | FloatArray:
    dense, sizes, count, skip = _read_header(path)
    if shape is not None and sizes is not None and tuple(shape) != sizes:
        raise InvalidFile(f"{path} says that its shape is {sizes}; shape={tuple(shape)} was asked for.")
    try:
        with _open(path) as stream:
            table = np.loadtxt(stream, comments="#", skiprows=skip, ndmin=2)
    except ValueError as problem:
        said = str(problem).partition(";")[0].rstrip(".")
        raise InvalidFile(
            f"{path}: {said}. Rows of entries count from 0, after {skip} lines of header; fields are separated by "
            "blanks."
        ) from None
    found = table.size if dense else len(table)
    if count is not None and found != count:
        raise InvalidFile(f"{path} holds {found} entries; its header says {count}. Is it cut off?")
    if dense:
        return table.ravel().reshape(sizes, order="F")
    values = check_values(table[:, -1], found, f"{path}: values", lambda row: f" in entry {row + 1}", InvalidFile)
    place = f"{path}, entry {{}}, column {{}}, less first_index={first_index},"
    columns, grid = list(table[:, :-1].T - first_index), sizes if shape is None else shape
    return assemble(columns, values, grid, lambda row, mode: place.format(row + 1, mode + 1), InvalidFile)


def _open(path: Path) -> IO[str]:
    """Open a text file, compressed or not."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8-sig") if packed else path.open(encoding="utf-8-sig")


def _read_header(path: Path) -> tuple[bool, tuple[int, ...] | None, int | None, int]:
    """Return whether every cell is listed, the sizes, the number of entries, and how many lines that takes."""
    with _open(path) as stream:
        numbered = enumerate((line.partition("#")[0].split() for line in stream), 1)
        lines = list(islice(((number, words) for number, words in numbered if words), 5))
    no_entry = InvalidFile(f"{path} holds no entry. Every line lists the indices of a cell and its value.")
    if not lines:
        raise no_entry
    if len(lines[0][1]) > 1:
        return False, None, None, 0
    kind = lines.pop(0)[1][0].lower() if lines[0][1][0].isalpha() else ""
    try:
        order, (skip, words) = int(lines[0][1][0]), lines[1]
        sizes, count = tuple(map(int, words)), None
        if kind == "sptensor":
            skip, (number,) = lines[2]
            count = int(number)
        if len(sizes) != order or min(sizes) < 1 or kind not in ("", "sptensor", "tensor"):
            raise ValueError
    except (IndexError, ValueError):
        raise InvalidFile(
            f"{path}: its first lines are no header. It has 'sptensor', 'tensor' or nothing, the number of modes, "
            "their sizes, and of an 'sptensor' the number of entries, each in a line."
        ) from None
    if lines[-1][0] == skip:
        raise no_entry
    return kind == "tensor", sizes, math.prod(sizes) if kind == "tensor" else count, skip
