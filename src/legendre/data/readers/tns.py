"""Tensors in text files, in blocks of whole lines: FROSTT's .tns, lists and arrays that the Tensor Toolbox writes."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.cells import index_type
from legendre.core.errors import InvalidFile, InvalidLabels, InvalidSetting
from legendre.core.labels import Labels
from legendre.core.level_values import have_rank
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.tns_lines import LineFormat, fail, fields, read_entry, read_layout, read_value
from legendre.data.sparse_tensor import SparseTensor, assemble, check_shape

BLOCK = 1 << 24  # bytes that are read at once
WITHIN = re.compile(rb"\r+(?=[^\r\n])")  # a carriage return that something follows in its line
BOM, GZIP = b"\xef\xbb\xbf", b"\x1f\x8b"
Block = tuple[AnyArray, FloatArray]  # entries: indices, N x n, and values


@dataclass
class Source:
    """A stream of bytes as lines first, in blocks later; it counts lines from 1."""

    stream: IO[bytes]
    show: Callable[[], None]
    path: str
    line: int = 0
    last: bytes = b""

    def next_line(self) -> tuple[int, list[bytes]] | None:
        """Return the next line that is not blank: its number and its fields."""
        while raw := self.stream.readline():
            self.line += 1
            self.last = raw.removeprefix(BOM) if self.line == 1 else raw
            self._check_ends(self.line, raw)
            if words := fields(self.last):
                return self.line, words
        return None

    def blocks(self, again: bool = False) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines, many at a time, with the number of the first; `again` begins with the line read last."""
        begun, line = (self.last, self.line) if again else (b"", self.line + 1)
        while chunk := self.stream.read(BLOCK):
            self.show()
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                begun += chunk
                continue
            block = begun + chunk[:cut]
            begun = chunk[cut:]
            self._check_ends(line, block)
            yield line, block
            line += block.count(b"\n")
        if begun:
            self._check_ends(line, begun)
            yield line, begun

    def _check_ends(self, line: int, block: bytes) -> None:
        """Refuse a carriage return within a line: what follows it would be read as part of that line."""
        if b"\r" in block and (within := WITHIN.search(block)):
            line += block.count(b"\n", 0, within.start())
            text = "a carriage return stands within the line; lines end by \\n or \\r\\n. Convert the file."
            fail(self.path, line, text)


def read_block(layout: LineFormat, line: int, text: bytes) -> Block:
    """Read the entries of a block whose first line has the given number."""
    cells, values = (_compiled if len(text) >= limits.COMPILED_TEXT else _by_line)(layout, line, text)
    return cells.astype(index_type((int(cells.max(initial=0)) + 1,))), values


def _by_line(layout: LineFormat, line: int, text: bytes) -> Block:
    """Read every line by the grammar itself: the slow twin, and quicker than compiling for a small file."""
    entries: list[tuple[list[int], float]] = []
    for k, row in enumerate(text.split(b"\n")):
        if words := fields(row):
            entries.append(read_entry(layout, line + k, words))
    cells, values = zip(*entries, strict=True) if entries else ((), ())
    return np.array(cells, dtype=np.int64).reshape(-1, layout.order).T, np.array(values, dtype=np.float64)


def _compiled(layout: LineFormat, line: int, text: bytes) -> Block:
    """Read by compiled code; a line that it does not understand is read, or refused, by the grammar."""
    from legendre.data.readers.tns_numbers import DONE, parse

    room = text.count(b"\n") + 1
    cells, values, spans = np.empty((layout.order, room), np.int64), np.empty(room), np.zeros((2, room), np.int64)
    sizes = np.array(layout.sizes or (np.iinfo(np.int64).max - 1,) * layout.order)
    powers = 10.0 ** np.arange(23)  # those that float64 holds exactly
    content = np.frombuffer(text, dtype=np.uint8)
    at, rows, here = 0, 0, line
    while True:
        state, at, lines, rows = parse(content, at, layout.start, sizes, powers, cells, values, spans, rows)
        here += lines
        if state == DONE:
            break
        stop = text.find(b"\n", at) % (len(text) + 1)  # -1, in the last line, becomes the end
        cells[:, rows], values[rows] = read_entry(layout, here, fields(text[at:stop]))
        at, rows, here = stop + 1, rows + 1, here + 1
    # values of many digits or large exponents, which compiled code might round twice, are left to Python
    hard = np.flatnonzero(spans[1, :rows])
    values[hard] = [float(text[begin:end]) for begin, end in spans[:, hard].T.tolist()]
    if np.isinf(values[:rows]).any():
        return _by_line(layout, line, text)  # which refuses 1e999 with its line
    return cells[:, :rows], values[:rows]


def read_tns(
    path: str | os.PathLike[str],
    shape: Sequence[int] | None = None,
    *,
    start: int = 1,
    names: Sequence[str] | None = None,
    levels: Sequence[Sequence[Any] | str | os.PathLike[str] | None] | None = None,
    progress: bool = False,
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
    names, levels
        What the modes are called; and for each mode the labels of its levels in order: a list, a text file with one in
        each line, as FROSTT has them, or ``None``. Not for a ``tensor`` file, which gives an array.
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

    See Also
    --------
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
    if not is_whole(start, 0) or start > 1:
        raise InvalidSetting(f"start must be 0 or 1, the first index of each mode; got {start!r}.")
    sizes = None if shape is None else check_shape(shape, len(tuple(shape)), InvalidSetting)
    name = os.fspath(path)
    with _opened(Path(path), progress) as source:
        layout, first = read_layout(name, source.next_line, start, sizes)
        if sizes is not None and layout.sizes is not None and sizes != layout.sizes:
            text = f"the file says that its shape is {layout.sizes}; shape={sizes} was asked for."
            fail(name, layout.first_line, text)
        if layout.dense and names is None and levels is None:
            return _dense(layout, source)
        if layout.dense:
            raise InvalidSetting(f"{name} is a dense tensor: pass names and levels to decompose, with the array.")
        found = _listed(layout, source.blocks(again=bool(first)))
    return found if names is None and levels is None else _labelled(found, names, levels)


def _labelled(x: SparseTensor, names: Sequence[str] | None, levels: Sequence[Any] | None) -> SparseTensor:
    """Give modes and levels their names; a list of labels that is longer than the largest index tells the size."""
    if levels is not None and len(levels) != len(x.shape):
        raise InvalidLabels(
            f"levels has {len(levels)} items, the file has {len(x.shape)} modes: one for each, or None."
        )
    read = [_level_file(given) if isinstance(given, (str, os.PathLike)) else given for given in levels or ()]
    shape = tuple(max(n, 0 if not read or read[k] is None else len(read[k])) for k, n in enumerate(x.shape))
    labels = Labels.read(shape, names, read or None)
    ranked = tuple(k for k, given in enumerate(read) if have_rank(given))
    return replace(x, shape=shape, names=labels.names, levels=labels.levels, ranked=ranked)


def _level_file(path: str | os.PathLike[str]) -> list[str]:
    """Read the labels of a mode, one in each line."""
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidFile(f"cannot read the levels in {os.fspath(path)}: {problem}.") from None


def _listed(layout: LineFormat, texts: Iterator[tuple[int, bytes]]) -> SparseTensor:
    blocks = [read_block(layout, line, text) for line, text in texts]
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
            yield Source(stream, lambda: show(raw.tell()), str(path))
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
