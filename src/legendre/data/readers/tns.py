"""Tensors in text files: FROSTT's .tns, and the lists and arrays that the Tensor Toolbox writes."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from legendre.core.arguments import check_int
from legendre.core.errors import InvalidFile, InvalidSetting
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
        With the number of the line and what is wrong in it.

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
        return _read(Path(path), shape, first_index)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as problem:
        reason = getattr(problem, "strerror", None) or f"damaged or truncated ({problem})"
        raise InvalidFile(f"cannot read {os.fspath(path)}: {reason}.") from None


def _read(path: Path, shape: Any, first_index: int) -> SparseTensor | FloatArray:
    dense, sizes, count, skip = _read_header(path)
    if shape is not None and sizes is not None and tuple(shape) != sizes:
        raise InvalidFile(f"{path} says that its shape is {sizes}; shape={tuple(shape)} was asked for.")
    try:
        if dense:
            table = np.array([word for _, words in _lines(path, skip) for word in words], dtype=np.float64)
        else:
            with _open(path) as stream:
                table = np.loadtxt(stream, comments="#", skiprows=skip, ndmin=2)
    except ValueError as problem:
        raise InvalidFile(f"{path}{_find_bad_line(path, skip) or f': {problem}'}") from None
    if count is not None and len(table) != count:
        raise InvalidFile(f"{path} holds {len(table)} entries; its header says {count}. Is it cut off?")
    if dense:
        return table.reshape(sizes, order="F")

    def line(row: int) -> int:
        return next(number for k, (number, _) in enumerate(_lines(path, skip)) if k == row)

    indices = table[:, :-1] - first_index
    if (low := indices < 0).any():
        row, mode = np.argwhere(low)[0].tolist()
        hint = " For files that count from 0 pass first_index=0." if indices[row, mode] == -1 else ""
        raise InvalidFile(
            f"{path}, line {line(row)}: {table[row, mode]:g} in column {mode + 1} is not an index: they count from "
            f"{first_index}.{hint}"
        )
    name = f"{path}: values"
    values = check_values(table[:, -1], len(table), name, lambda row: f" in line {line(row)}", InvalidFile)
    place = f"{path}, line {{}}, column {{}}, less {first_index},"
    columns = list(indices.T)
    grid = sizes if shape is None else shape
    return assemble(columns, values, grid, lambda row, mode: place.format(line(row), mode + 1), InvalidFile)


def _open(path: Path) -> IO[str]:
    """Open a text file, compressed or not."""
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt", encoding="utf-8-sig") if packed else path.open(encoding="utf-8-sig")


def _lines(path: Path, skip: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line after some that is not blank; # begins a comment."""
    with _open(path) as stream:
        for number, line in enumerate(stream, 1):
            if number > skip and (words := line.partition("#")[0].split()):
                yield number, words


def _read_header(path: Path) -> tuple[bool, tuple[int, ...] | None, int | None, int]:
    """Return whether every cell is listed, the sizes, the number of entries, and how many lines that takes."""
    lines = _lines(path)
    number, words = next(lines, (0, []))
    sizes, count, skip, kind = None, None, 0, ""
    try:
        if len(words) == 1:
            if words[0].isalpha():
                kind = words[0].lower()
                number, words = next(lines)
            order = int(words[0])
            skip, words = next(lines)
            sizes = tuple(map(int, words))
            if len(sizes) != order or min(sizes) < 1 or kind not in ("", "sptensor", "tensor"):
                raise ValueError
            if kind == "sptensor":
                skip, words = next(lines)
                (count,) = map(int, words)
            number, words = next(lines, (0, []))
    except (StopIteration, ValueError):
        raise InvalidFile(
            f"{path}, line {max(number, skip)}: this is no header. It has 'sptensor', 'tensor' or nothing, the number "
            "of modes, their sizes, and of an 'sptensor' the number of entries, each in a line."
        ) from None
    if not words:
        raise InvalidFile(f"{path} holds no entry. Every line lists the indices of a cell and its value.")
    return kind == "tensor", sizes, math.prod(sizes or ()) if kind == "tensor" else count, skip


def _find_bad_line(path: Path, skip: int) -> str:
    """Say which line cannot be read, and why."""
    width = 0
    for number, words in _lines(path, skip):
        width = width or len(words)
        hint = " Fields are separated by spaces or tabs." if "," in "".join(words) else ""
        if len(words) != width:
            return f", line {number}: {len(words)} fields; the lines before have {width}.{hint}"
        for k, word in enumerate(words):
            try:
                float(word)
            except ValueError:
                return f", line {number}: {word[:40]!r} in column {k + 1} is not a number.{hint}"
    return ""
