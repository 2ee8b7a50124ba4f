"""Read a tensor from a file: by its ending, and by what the command line says of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from legendre.cli.csv_files import read_matrix, read_rows, read_wide
from legendre.cli.pick_array import Input, chosen
from legendre.core.errors import InvalidFile, InvalidSetting, LegendreError
from legendre.core.files import numpy_file
from legendre.core.labels import Mode
from legendre.data.readers.coordinates import as_sparse_tensor, from_coords
from legendre.data.readers.labelled import opened
from legendre.data.readers.tns import read_tns

ENDINGS = ".npy, .npz, .csv, .parquet, .tns (.tns.gz), .nc, .zarr, .h5 (.hdf5) or .mat"


@dataclass(frozen=True)
class Asked:
    """What the command line says of a file."""

    variable: str | None = None  # which of several arrays
    columns: tuple[str, ...] | None = None  # the columns of a table that are modes
    counts: str | None = None  # the column of a table that says how much a row counts
    wide: bool = False  # the first columns of a CSV file are labels, the others numbers

    @classmethod
    def read(cls, variable: str | None, columns: str | None, counts: str | None, wide: bool) -> Asked:
        """Check the options that a user gives."""
        listed = None if columns is None else tuple(name.strip() for name in columns.split(","))
        if listed is not None and not all(listed):
            raise InvalidSetting(f"--columns {columns!r}: give names with commas between, e.g. carrier,dest,hour.")
        if wide and counts is not None:
            raise InvalidSetting("--counts names the column of a table with a row for each cell; --wide has none.")
        return cls(variable, listed, counts, wide)

    @property
    def rows(self) -> bool:
        """Whether the file is a table with a row for each event or cell."""
        return not self.wide and (self.columns is not None or self.counts is not None)

    def check(self, path: Path, *, arrays: bool = False, table: bool = False, wide: bool = False) -> None:
        """Refuse an option that has no meaning for a kind of file."""
        if self.variable is not None and not arrays:
            raise InvalidFile(
                f"{path} holds one tensor, without a name; --variable {self.variable!r} is for files of several "
                "arrays. Leave it out."
            )
        given = [f"--{name}" for name in ("columns", "counts") if getattr(self, name) is not None]
        if given and not table:
            raise InvalidFile(f"{path} is no table; {given[0]} is for .csv and .parquet files. Leave it out.")
        if self.wide and not wide:
            raise InvalidFile(f"{path}: --wide is for .csv files. Leave it out.")


def read_input(path: Path, asked: Asked | None = None) -> Input:
    """Read X: an array, a `SparseTensor`, or an array with labels of xarray."""
    asked = Asked() if asked is None else asked
    if not path.exists():
        raise InvalidFile(f"{path} does not exist.")
    if path.is_dir() and path.suffix.lower() != ".zarr":
        raise InvalidFile(f"{path} is a directory; give a {ENDINGS} file.")
    if path.suffix.lower() == ".csv":
        asked.check(path, table=True, wide=True)
        if asked.wide:
            return read_wide(path, asked.columns)
        return Input(read_rows(path, asked.columns, asked.counts) if asked.rows else read_matrix(path))
    return Input(_tensor(path, asked))


def modes_of(given: Input, text: str) -> list[Mode]:
    """Read what ``--unordered`` lists: modes by names, or counted from 0 where no mode has the number as its name."""
    words = [word.strip() for word in text.split(",")] if text.strip() else []
    if not all(words):
        raise InvalidSetting(
            f"--unordered {text!r}: give modes with commas between, e.g. carrier,dest or 0,2; '' for none."
        )
    labels = opened(given.X, given.names)[1].labels
    names = () if labels is None else labels.names or ()
    return [int(word) if word.isdecimal() and word not in names else word for word in words]


def _tensor(path: Path, asked: Asked) -> Any:
    """Read a tensor with its labels, if any, from a file that is no CSV file."""
    if path.name.lower().endswith((".tns", ".tns.gz")):
        asked.check(path)
        return read_tns(path, progress=sys.stderr.isatty())
    match path.suffix.lower():
        case ".npy":
            asked.check(path)
            return _numpy(path, asked.variable)
        case ".npz":
            asked.check(path, arrays=True)
            return _numpy(path, asked.variable)
        case ".parquet":
            asked.check(path, table=True)
            from legendre.cli.parquet_files import read_parquet

            return read_parquet(path, asked.columns, asked.counts)
        case ".nc" | ".zarr" | ".h5" | ".hdf5" | ".mat":
            asked.check(path, arrays=True)
            from legendre.cli.array_files import read_array_file

            return read_array_file(path, asked.variable)
        case suffix:
            raise InvalidFile(f"{path}: cannot read {suffix or 'a file without an ending'}; give {ENDINGS}.")


def _numpy(path: Path, variable: str | None) -> Any:
    with numpy_file(path) as content:
        if isinstance(content, np.ndarray):
            return content
        names = set(content.files)
        if variable is not None or not ({"coords", "shape", "data"} <= names or {"format", "shape", "data"} <= names):
            return content[chosen(path, content.files, variable)]
        try:
            if "coords" in names:
                return from_coords(tuple(content["coords"]), content["data"], content["shape"].tolist())
            from scipy.sparse import load_npz

            return as_sparse_tensor(load_npz(path))
        except (LegendreError, KeyError, IndexError, TypeError, ValueError) as problem:
            raise InvalidFile(f"{path} holds a sparse array that cannot be read: {problem}") from None
