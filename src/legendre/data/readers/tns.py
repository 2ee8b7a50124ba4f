"""Tensors in text files: FROSTT's .tns, and the lists and arrays that the Tensor Toolbox writes."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidFile, InvalidSetting
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.tns_blocks import Source, read_block
from legendre.data.readers.tns_lines import LineFormat, fail, fields, read_layout, read_value
from legendre.data.sparse_tensor import SparseTensor, assemble, check_shape

GZIP = b"\x1f\x8b"


def read_tns(
    path: str | os.PathLike[str], shape: Sequence[int] | None = None, *, start: int = 1, progress: bool = False
) -> SparseTensor | FloatArray:
    r"""Read a tensor from a text file, compressed by gzip or not.

    Each line lists the indices of a cell and its value, separated by blanks, as in the files of FROSTT; ``#`` begins a
    comment. Before the first entry there may be a header: the number of modes in one line and the sizes in the next;
    or that of the Tensor Toolbox, which has ``sptensor`` before these two and the number of entries after them.
    A ``tensor`` file of the Tensor Toolbox lists the value of every cell, the first index fastest; it gives an array.

    Parameters
    ----------
    path
        The file; large ones are read in blocks, by compiled code.
    shape
        The grid; ``None`` is what the header says, or else the smallest that holds the cells.
    start
        The first index of each mode: 1, as is the custom, or 0.
    progress
        Show on standard error how much has been read.

    Returns
    -------
    SparseTensor or ndarray
        Indices count from 0; values of a cell that is listed twice are added. An array for a ``tensor`` file only.

    Raises
    ------
    InvalidFile
        With the number of the line and what is wrong in it.

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
    if not is_whole(start, 0) or start > 1:
        raise InvalidSetting(f"start must be 0 or 1, the first index of each mode; got {start!r}.")
    sizes = None if shape is None else check_shape(shape, len(tuple(shape)), InvalidSetting)
    name = os.fspath(path)
    with _opened(Path(path), progress) as source:
        layout, first = read_layout(name, source.next_line, start, sizes)
        if sizes is not None and layout.sizes is not None and sizes != layout.sizes:
            fail(
                name, layout.first_line, f"the file says that its shape is {layout.sizes}; shape={sizes} was asked for."
            )
        if layout.dense:
            return _dense(layout, source)
        if first:
            source.push_back()
        return _listed(layout, source)


def _listed(layout: LineFormat, source: Source) -> SparseTensor:
    blocks = [read_block(layout, line, text) for line, text in source.blocks()]
    n = sum(len(values) for _, values in blocks)
    if layout.entries is not None and n != layout.entries:
        raise InvalidFile(f"{layout.path} holds {n} entries; its header says {layout.entries}. Is it cut off?")
    if n == 0:
        raise InvalidFile(f"{layout.path} holds no entry. Every line lists the indices of a cell and its value.")
    values = np.concatenate([values for _, values in blocks])
    columns: list[AnyArray] = [np.concatenate([cells[k] for cells, _ in blocks]) for k in range(layout.order)]
    del blocks
    return assemble(columns, values, layout.sizes, lambda row, mode: f"entry {row}, mode {mode}", InvalidFile)


def _dense(layout: LineFormat, source: Source) -> FloatArray:
    """Read the value of every cell; one per line, or several."""
    numbers: list[float] = []
    for line, text in source.blocks():
        for k, row in enumerate(text.split(b"\n")):
            numbers.extend(read_value(layout, line + k, word) for word in fields(row))
    if len(numbers) != layout.entries:
        sizes = " x ".join(map(str, layout.sizes or ()))
        raise InvalidFile(f"{layout.path} holds {len(numbers)} values; its header says {sizes} = {layout.entries}.")
    return np.array(numbers).reshape(layout.sizes, order="F")


@contextmanager
def _opened(path: Path, progress: bool) -> Iterator[Source]:
    """Open a file, compressed or not; whatever is wrong with it becomes an `InvalidFile`."""
    try:
        with path.open("rb") as raw, _bytes_bar(f"reading {path.name}", path.stat().st_size, progress) as show:
            compressed = raw.peek(2)[:2] == GZIP
            stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if compressed else raw  # type: ignore[assignment]  # it is one
            yield Source(stream, lambda: show(raw.tell()))
    except OSError as problem:
        raise InvalidFile(f"cannot read {path}: {problem.strerror or problem}.") from None
    except (EOFError, zlib.error) as problem:
        raise InvalidFile(f"cannot read {path}: damaged or truncated ({problem}).") from None


@contextmanager
def _bytes_bar(text: str, total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Show on the terminal how much of a file has been read: yield a function that takes the number of bytes so far."""
    if not wanted:
        yield lambda done: None  # noqa: ARG005 - nothing to show
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(text, total=total)
        yield lambda done: display.update(task, completed=done)
