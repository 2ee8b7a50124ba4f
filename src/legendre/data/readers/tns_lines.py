"""The grammar of text files of tensors, line by line: headers, entries, and what can be wrong with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from legendre.core.cells import LIMIT
from legendre.core.errors import InvalidFile

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
EXACT = 2**53  # below this, a number with a point or an exponent is the float64 number that it is read as
WORD = re.compile(rb"[A-Za-z]+")


@dataclass(frozen=True)
class LineFormat:
    """What a file says before its first entry."""

    path: str  # named in errors
    order: int  # the number of indices in each line
    start: int  # the first index: 1, or 0 on request
    sizes: tuple[int, ...] | None  # the shape, where a header (or the caller) gives it
    entries: int | None  # the number of entries that the header promises
    dense: bool  # True for a list of all values, first index fastest
    first_line: int  # the number of the line that the other numbers come from


# returns the next line that is not blank, its number and its fields; None at the end
Lines = Callable[[], tuple[int, list[bytes]] | None]


def fields(line: bytes) -> list[bytes]:
    """Cut a line into fields; what follows # is a comment."""
    return line.split(b"#", 1)[0].split()


def fail(path: str, line: int, text: str) -> NoReturn:
    """Refuse a line."""
    raise InvalidFile(f"{path}, line {line}: {text}")


def read_layout(path: str, lines: Lines, start: int, shape: tuple[int, ...] | None) -> tuple[LineFormat, list[bytes]]:
    """Read the header, if there is one, or else take the layout from the first entry, which is returned too."""
    found = lines()
    if found is None:
        raise InvalidFile(f"{path} holds no entry. Every line lists the indices of a cell and its value.")
    line, words = found
    if WORD.fullmatch(words[0]) and not _special(words[0]):
        return _toolbox(path, lines, line, words[0].decode().lower(), start), []
    if len(words) > 1:
        if shape is not None and len(shape) != len(words) - 1:
            fail(path, line, f"{len(words)} fields, that is {len(words) - 1} indices and a value; {shape=} has "
                 f"{len(shape)} modes.")  # fmt: skip
        return LineFormat(path, len(words) - 1, start, shape, None, False, line), words
    # one number: the order of the tensor, and its sizes in the next line
    sizes = _sizes(path, lines, line, words)
    return LineFormat(path, len(sizes), start, sizes, None, False, line), []


def _toolbox(path: str, lines: Lines, line: int, kind: str, start: int) -> LineFormat:
    """Read a header of the Tensor Toolbox: kind, order, sizes and, for lists, how many entries there are."""
    if kind in ("matrix", "ktensor"):
        why = "programs disagree on the order of its values" if kind == "matrix" else "it holds factors, not a tensor"
        fail(path, line, f"a {kind!r} file cannot be read: {why}. Write it as 'tensor' or 'sptensor'.")
    if kind not in ("sptensor", "tensor"):
        fail(path, line, f"starts with {kind!r}, not with a number. Headers other than 'sptensor' and 'tensor' must be "
             "commented out with #.")  # fmt: skip
    sizes = _sizes(path, lines, *_next(path, lines, line, "the number of modes"))
    if kind == "tensor":
        return LineFormat(path, len(sizes), start, sizes, math.prod(sizes), True, line)
    at, words = _next(path, lines, line, "the number of entries")
    if len(words) != 1:
        fail(path, at, f"{len(words)} fields; the number of entries stands here, alone.")
    count = _count(path, at, words[0], "the number of entries", 0)
    return LineFormat(path, len(sizes), start, sizes, count, False, line)


def _sizes(path: str, lines: Lines, line: int, words: list[bytes]) -> tuple[int, ...]:
    if len(words) != 1:
        fail(path, line, f"{len(words)} fields; the number of modes stands here, alone.")
    order = _count(path, line, words[0], "the number of modes", 1)
    at, sizes = _next(path, lines, line, f"the {order} sizes")
    if len(sizes) != order:
        text = f"{len(sizes)} fields; line {line} says that there are {order} modes, and their sizes stand here."
        fail(path, at, text)
    return tuple(_count(path, at, word, "a size", 1) for word in sizes)


def _next(path: str, lines: Lines, line: int, what: str) -> tuple[int, list[bytes]]:
    return lines() or fail(path, line, f"the file ends after this header; {what} should follow.")


def _count(path: str, line: int, word: bytes, what: str, least: int) -> int:
    if not (word.isdigit() and len(word) < 20 and least <= int(word) < LIMIT):
        fail(path, line, f"{_shown(word)} is not {what}: an integer >= {least}.")
    return int(word)


def read_entry(layout: LineFormat, line: int, words: list[bytes]) -> tuple[list[int], float]:
    """Read indices (counted from 0) and the value, or say what is wrong with the line."""
    if len(words) != layout.order + 1:
        hint = " Fields are separated by spaces or tabs." if len(words) == 1 and b"," in words[0] else ""
        count = f"{layout.order} {'index' if layout.order == 1 else 'indices'} and a value"
        headed = layout.sizes is not None and layout.entries is None
        rule = f"{count} are expected" if headed else f"line {layout.first_line} sets {count} for every line"
        fail(layout.path, line, f"{len(words)} field{'s' * (len(words) != 1)}; {rule}.{hint}")
    cell = [_index(layout, line, k, word) for k, word in enumerate(words[:-1])]
    return cell, read_value(layout, line, words[-1])


def _index(layout: LineFormat, line: int, mode: int, word: bytes) -> int:
    where = f"{_shown(word)} in column {mode + 1}"
    if word.isdigit() and len(word) < 20:
        number = int(word)
    else:
        value = _float(layout, line, word, mode + 1)
        if not value.is_integer() or abs(value) >= EXACT:
            fail(layout.path, line, f"{where} is not an index: indices are whole numbers from {layout.start} on.")
        number = int(value)
    if number < layout.start:
        hint = " For files that count from 0 pass start=0." if number == 0 else ""
        fail(layout.path, line, f"{where} is not an index: they count from {layout.start}.{hint}")
    index = number - layout.start
    if layout.sizes is not None and index >= layout.sizes[mode]:
        size = layout.sizes[mode]
        fail(layout.path, line, f"{where}: mode {mode} has size {size}, so its indices run from {layout.start} to "
             f"{size - 1 + layout.start}.")  # fmt: skip
    if index >= LIMIT - 1:
        fail(layout.path, line, f"{where} is too large: indices must be below 2^63 - 1.")
    return index


def read_value(layout: LineFormat, line: int, word: bytes) -> float:
    """Read a value >= 0; in a file that lists every cell, NaN says missing."""
    value = _float(layout, line, word, 1 if layout.dense else layout.order + 1)
    if value < 0:
        fail(layout.path, line, f"the value {_shown(word)} is negative. X is read as unnormalised probabilities, so "
             "every entry must be >= 0.")  # fmt: skip
    if math.isinf(value):
        fail(layout.path, line, f"the value {_shown(word)} is infinite. Entries must be finite.")
    if math.isnan(value) and not layout.dense:
        fail(layout.path, line, "the value is NaN. A cell that is not listed is 0, so a list cannot say which cells "
             "are missing. Leave the line out; if its cell is not to count as 0, leave that out of the support "
             "as well.")  # fmt: skip
    return value


def _float(layout: LineFormat, line: int, word: bytes, column: int) -> float:
    if NUMBER.fullmatch(word) or _special(word):
        return float(word)
    hint = " Fields are separated by spaces or tabs." if b"," in word or b";" in word else ""
    fail(layout.path, line, f"{_shown(word)} in column {column} is not a number.{hint}")


def _special(word: bytes) -> bool:
    return word.lower().lstrip(b"+-") in (b"nan", b"inf", b"infinity")


def _shown(word: bytes) -> str:
    return repr(word[:40].decode("utf-8", "replace") + "..." * (len(word) > 40))
