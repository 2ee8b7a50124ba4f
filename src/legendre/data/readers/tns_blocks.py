"""A text file in blocks of whole lines, and the entries of a block: compiled for large ones, line by line otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from legendre.core import limits
from legendre.core.cells import index_type
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.readers.tns_lines import LineFormat, fields, read_entry

BLOCK = 1 << 24  # bytes that are read at once
BOM = b"\xef\xbb\xbf"

Block = tuple[AnyArray, FloatArray]  # entries: indices, N x n, and values


@dataclass
class Source:
    """A stream of bytes as lines first, in blocks later; it counts lines from 1."""

    stream: IO[bytes]
    show: Callable[[], None]
    line: int = 0
    last: bytes = b""
    begun: bytes = b""

    def next_line(self) -> tuple[int, list[bytes]] | None:
        """Return the next line that is not blank: its number and its fields."""
        while raw := self.stream.readline():
            self.line += 1
            self.last = raw.removeprefix(BOM) if self.line == 1 else raw
            if words := fields(self.last):
                return self.line, words
        return None

    def push_back(self) -> None:
        """Let `blocks` begin with the line read last."""
        self.begun = self.last
        self.line -= 1

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield whole lines, many at a time, with the number of the first; the last may lack its line end."""
        begun, line = self.begun, self.line + 1
        while chunk := self.stream.read(BLOCK):
            self.show()
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                begun += chunk
                continue
            block = begun + chunk[:cut]
            begun = chunk[cut:]
            yield line, block
            line += block.count(b"\n")
        if begun:
            yield line, begun


def read_block(layout: LineFormat, line: int, text: bytes) -> Block:
    """Read the entries of a block whose first line has the given number."""
    cells, values = (_compiled if len(text) >= limits.COMPILED_TEXT else _by_line)(layout, line, text)
    largest = int(cells.max(initial=0))
    return cells.astype(index_type((largest + 1,))), values


def _by_line(layout: LineFormat, line: int, text: bytes) -> Block:
    """Read every line by the grammar itself: the slow twin, and quicker than compiling for a small file."""
    cells: list[list[int]] = []
    values: list[float] = []
    for k, row in enumerate(text.split(b"\n")):
        if words := fields(row):
            cell, value = read_entry(layout, line + k, words)
            cells.append(cell)
            values.append(value)
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
    _hard_values(text, values[:rows], spans[:, :rows])
    if np.isinf(values[:rows]).any():
        return _by_line(layout, line, text)  # which refuses 1e999 with its line
    return cells[:, :rows], values[:rows]


def _hard_values(text: bytes, values: FloatArray, spans: IntArray) -> None:
    """Read what the compiled code left: values of many digits or large exponents, which it might round twice."""
    hard = np.flatnonzero(spans[1])
    begins, ends = spans[:, hard].tolist()
    values[hard] = [float(text[begin:end]) for begin, end in zip(begins, ends, strict=True)]
