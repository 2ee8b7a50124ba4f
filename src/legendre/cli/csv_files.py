"""CSV files: a matrix of numbers; a table with a row for each event or cell; a table whose first columns are labels."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from legendre.cli.pick_array import Input, mode_columns
from legendre.core.errors import InvalidFile, InvalidSetting, unknown_name
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.rows import from_rows
from legendre.data.sparse_tensor import SparseTensor

MISSING = {"", "na", "nan", "null", "none"}
NO_LABEL = {"", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None"}  # as in pandas; "none" is a label
ROW = "row"  # what a first column without a name is called
HEADS = "column"  # what the mode of the numbers' columns in a wide table is called

Lines = list[tuple[int, list[str]]]  # the number of each line, and its fields


def read_matrix(path: Path) -> FloatArray:
    """Read a matrix without names; empty fields and NA are missing."""
    lines = _lines(path)
    if _is_header(lines[0][1]):
        head = ", ".join(text.strip() for text in lines[0][1][:8])
        raise InvalidSetting(
            f"{path}: line 1 is a header ({head}). Say what the table is: one row for each event or cell: --columns "
            "A,B,C, and --counts N if a column says how often it counts; or rows and columns of numbers, with labels "
            "in front: --wide. A matrix has no header."
        )
    matrix = np.array([[_checked(path, text, line, j) for j, text in enumerate(fields)] for line, fields in lines])
    if np.isnan(matrix[:, -1]).all() and matrix.shape[1] > 1:
        raise InvalidFile(f"{path}: the last column is empty in every line. Is there a comma too many?")
    return matrix


def read_rows(path: Path, columns: tuple[str, ...] | None, counts: str | None) -> SparseTensor:
    """Count the rows of a table whose first line names its columns."""
    names, body = _table(path)
    modes = mode_columns(path, names, columns, counts)
    held: dict[str, Any] = {name: _values([row[names.index(name)] for _, row in body]) for name in modes}
    if counts is not None:
        place = names.index(counts)
        held[counts] = np.array([_checked(path, row[place], line, place) for line, row in body])
    return from_rows(held, modes, counts)


def read_wide(path: Path, labels: tuple[str, ...] | None) -> Input:
    """Read a table of numbers with labels in front: `labels` names their columns, by default all before the numbers.

    Each of these columns is a mode, and the names of the other columns are the last one. Combinations of labels without
    a row are 0 where all numbers are whole, else missing.
    """
    names, body = _table(path)
    front = _front(path, names, body, labels)
    rest = [place for place in range(len(names)) if place not in front]
    numbers = np.array([[_checked(path, row[place], line, place) for place in rest] for line, row in body])
    keys = [_values([row[place] for _, row in body]) for place in front]
    levels: list[AnyArray] = [_levels(column) for column in keys]
    whole = bool((numbers == np.rint(numbers)).all())
    X = np.full((*map(len, levels), len(rest)), 0.0 if whole else np.nan)
    seen: dict[tuple[int, ...], int] = {}
    places = [{value: i for i, value in enumerate(own.tolist())} for own in levels]
    for (line, _), values, *key in zip(body, numbers, *keys, strict=True):
        cell = tuple(place[value] for place, value in zip(places, key, strict=True))
        if cell in seen:
            raise InvalidFile(
                f"{path}: lines {seen[cell]} and {line} have the same labels, {', '.join(map(str, key))}."
            )
        seen[cell] = line
        X[cell] = values
    heads = np.array([names[place] for place in rest])
    return Input(X, [*(names[place] for place in front), HEADS], [*levels, heads])


def _front(path: Path, names: list[str], body: Lines, labels: tuple[str, ...] | None) -> list[int]:
    """Return the places of the label columns."""
    if labels is not None:
        for name in labels:
            if name not in names:
                raise InvalidSetting(f"{path}: {unknown_name('column', name, names)}")
        found = [names.index(name) for name in labels]
    else:
        found = [0]
        while len(found) < len(names) and any(_number(row[len(found)]) is None for _, row in body):
            found.append(len(found))
    if len(found) == len(names):
        raise InvalidFile(f"{path}: no column is left for numbers, with labels in {', '.join(names)}.")
    for place in found:
        for line, row in body:
            if row[place].strip() in NO_LABEL:
                raise InvalidFile(f"{path}: line {line} has no label in column {names[place]!r}.")
    return found


def _table(path: Path) -> tuple[list[str], Lines]:
    """Read names of columns and rows."""
    (_, head), *body = _lines(path)
    names = [name.strip() for name in head]
    names[0] = names[0] or ROW
    if not all(names) or len(set(names)) < len(names):
        raise InvalidFile(f"{path}: line 1 must name every column, each differently; it says {', '.join(names)}.")
    if not body:
        raise InvalidFile(f"{path} has a header and no rows.")
    return names, body


def _lines(path: Path) -> Lines:
    """Read a file into fields, as many in every line."""
    lines: Lines = []
    blank = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            for fields in reader:
                if not fields:
                    blank = blank or reader.line_num
                    continue
                if blank:
                    raise InvalidFile(f"{path}: line {blank} is blank. Write NA for a missing row of one field.")
                if lines and len(fields) != len(lines[0][1]):
                    raise InvalidFile(
                        f"{path}: line {reader.line_num} has {len(fields)} fields, the first has {len(lines[0][1])}."
                    )
                lines.append((reader.line_num, fields))
    except UnicodeDecodeError:
        raise InvalidFile(
            f"cannot read {path}: it is not UTF-8 text. Save it as UTF-8, or convert it: "
            f"iconv -f {_probably(path)} -t UTF-8 {path.name} > utf8_{path.name}"
        ) from None
    except (OSError, csv.Error) as problem:
        raise InvalidFile(f"cannot read {path}: {problem}.") from None
    if not lines:
        raise InvalidFile(f"{path} is empty.")
    return lines


def _probably(path: Path) -> str:
    """Guess what the text of a file is written in: UTF-16 has a mark at its beginning."""
    with path.open("rb") as stream:
        return "UTF-16" if stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "LATIN1"


def _is_header(fields: list[str]) -> bool:
    """Whether a first line names columns: it has texts and no number, nor other signs that separate them."""
    words = [text for text in fields if text.strip()]
    texts = all(_number(text) is None and ";" not in text and "\t" not in text for text in words)
    return bool(words) and texts


def _number(text: str) -> float | None:
    """Read a number, NaN for a missing one; ``None`` if the text is something else."""
    word = text.strip()
    if word.lower() in MISSING:
        return float("nan")
    try:
        return None if "_" in word else float(word)  # Python's float reads 1_0 as 10
    except ValueError:
        return None


def _checked(path: Path, text: str, line: int, place: int) -> float:
    if (found := _number(text)) is not None:
        return found
    hint = "Write NA for a missing value."
    if ";" in text or "\t" in text:
        hint = "Fields are separated by commas."
    elif line == 1:
        hint = "If line 1 names the columns, say --columns A,B,C or --wide."
    raise InvalidFile(f"{path}: line {line}, column {place + 1} holds {text.strip()!r}, not a number. {hint}")


def _values(texts: Sequence[str]) -> list[Any]:
    """Read labels: whole numbers where all of them are written as such (007 is a text), else texts; None if missing."""
    words = [text.strip() for text in texts]
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        return [None if word in NO_LABEL else word for word in words]
    return list(numbers) if all(str(n) == word for n, word in zip(numbers, words, strict=True)) else list(words)


def _levels(column: list[Any]) -> AnyArray:
    """List the labels of a wide table's rows in the order in which they come."""
    return np.array(list(dict.fromkeys(column)))
