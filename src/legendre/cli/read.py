"""Read a tensor from a .npy, .npz or .csv file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from legendre.arrays import AnyArray, FloatArray
from legendre.errors import InvalidFile, unknown_name
from legendre.storage import numpy_file

MISSING = {"", "na", "nan", "null", "none"}


def read_tensor(path: Path, key: str | None = None) -> AnyArray:
    """Read X; `key` names the array of an .npz file that holds several."""
    if not path.exists():
        raise InvalidFile(f"{path} does not exist.")
    if path.is_dir():
        raise InvalidFile(f"{path} is a directory; give a .npy, .npz or .csv file.")
    match path.suffix.lower():
        case ".npy" | ".npz":
            return _numpy(path, key)
        case ".csv":
            return _csv(path)
        case suffix:
            raise InvalidFile(f"{path}: cannot read {suffix or 'a file without an ending'}; give .npy, .npz or .csv.")


def _numpy(path: Path, key: str | None) -> AnyArray:
    with numpy_file(path) as content:
        return _member(path, content, key) if isinstance(content, NpzFile) else content


def _member(path: Path, archive: NpzFile, key: str | None) -> AnyArray:
    names = archive.files
    if key is None and len(names) != 1:
        raise InvalidFile(f"{path} holds {len(names)} arrays: {', '.join(names)}. Choose one with --key.")
    if key is not None and key not in names:
        raise InvalidFile(f"{path}: {unknown_name('key', key, names)}")
    array: AnyArray = archive[names[0] if key is None else key]
    return array


def _csv(path: Path) -> FloatArray:
    """Read a matrix; empty fields and NA are missing."""
    rows: list[list[float]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            for fields in csv.reader(stream):
                if fields:
                    rows.append([_number(path, text, len(rows) + 1, j + 1) for j, text in enumerate(fields)])
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise InvalidFile(f"cannot read {path}: {problem}.") from None
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InvalidFile(f"{path}: row {i + 1} has {len(row)} fields, row 1 has {len(rows[0])}.")
    if not rows:
        raise InvalidFile(f"{path} is empty.")
    return np.array(rows)


def _number(path: Path, text: str, row: int, column: int) -> float:
    word = text.strip()
    if word.lower() in MISSING:
        return float("nan")
    try:
        return float(word)
    except ValueError:
        raise InvalidFile(
            f"{path}: row {row}, column {column} holds {word!r}, not a number. A header line must be removed first."
        ) from None
