"""Read a tensor from a .npy, .npz, .csv or .tns file."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from legendre.core.errors import InvalidFile, LegendreError, unknown_name
from legendre.core.files import numpy_file
from legendre.core.npz import Npz
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.archives import is_sparse, read_archive
from legendre.data.readers.tns import read_tns
from legendre.data.sparse_tensor import SparseTensor

MISSING = {"", "na", "nan", "null", "none"}
ENDINGS = ".npy, .npz, .csv or .tns (.tns.gz)"


def read_input(path: Path, key: str | None = None) -> AnyArray | SparseTensor:
    """Read X, dense or as a list of cells. `key` names the array of an .npz file that holds several."""
    if not path.exists():
        raise InvalidFile(f"{path} does not exist.")
    if path.is_dir():
        raise InvalidFile(f"{path} is a directory; give a {ENDINGS} file.")
    if key is not None and path.suffix.lower() != ".npz":
        raise InvalidFile(f"{path} holds one array, without a name; --key {key!r} is for .npz files. Leave it out.")
    if path.name.lower().endswith((".tns", ".tns.gz")):
        return read_tns(path, progress=sys.stderr.isatty())
    match path.suffix.lower():
        case ".npy" | ".npz":
            return _numpy(path, key)
        case ".csv":
            return _csv(path)
        case suffix:
            raise InvalidFile(f"{path}: cannot read {suffix or 'a file without an ending'}; give {ENDINGS}.")


def _numpy(path: Path, key: str | None) -> AnyArray | SparseTensor:
    with numpy_file(path) as content:
        if not isinstance(content, Npz):
            return content
        if key is not None or not is_sparse(content.files):
            return _member(path, content, key)
        arrays = {name: content[name] for name in content.files}
    try:
        return read_archive(arrays)
    except LegendreError as problem:
        raise InvalidFile(f"{path} holds a sparse array that cannot be read: {problem}") from None


def _member(path: Path, archive: Npz, key: str | None) -> AnyArray:
    names = archive.files
    if not names:
        raise InvalidFile(f"{path} holds no array.")
    if key is None and len(names) != 1:
        raise InvalidFile(f"{path} holds {len(names)} arrays: {', '.join(names)}. Choose one with --key.")
    if key is not None and key not in names:
        raise InvalidFile(f"{path}: {unknown_name('key', key, names)}")
    array: AnyArray = archive[names[0] if key is None else key]
    return array


def _csv(path: Path) -> FloatArray:
    """Read a matrix; empty fields and NA are missing."""
    rows: list[list[float]] = []
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
                rows.append([_number(path, text, reader.line_num, j + 1) for j, text in enumerate(fields)])
                if len(rows[-1]) != len(rows[0]):
                    raise InvalidFile(
                        f"{path}: line {reader.line_num} has {len(rows[-1])} fields, the first has {len(rows[0])}."
                    )
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise InvalidFile(f"cannot read {path}: {problem}.") from None
    if not rows:
        raise InvalidFile(f"{path} is empty.")
    matrix = np.array(rows)
    if np.isnan(matrix[:, -1]).all() and matrix.shape[1] > 1:
        raise InvalidFile(f"{path}: the last column is empty in every line. Is there a comma too many?")
    return matrix


def _number(path: Path, text: str, line: int, column: int) -> float:
    word = text.strip()
    if word.lower() in MISSING:
        return float("nan")
    try:
        if "_" in word:  # Python's float reads 1_0 as 10
            raise ValueError
        return float(word)
    except ValueError:
        hint = "Fields are separated by commas." if ";" in word or "\t" in word else "A header must be removed first."
        hint = hint if line == 1 or "commas" in hint else "Write NA for a missing value."
        raise InvalidFile(f"{path}: line {line}, column {column} holds {word!r}, not a number. {hint}") from None
