"""Files on the command line: which reader a file needs, by its ending, and what the options say of it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from legendre.core.errors import InvalidFile, InvalidSetting, LegendreError, unknown_name
from legendre.core.files import numpy_file
from legendre.core.labels import Mode
from legendre.core.progress import line
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.coordinates import as_sparse_tensor, from_coords
from legendre.data.readers.labelled import opened
from legendre.data.readers.rows import from_rows
from legendre.data.readers.tns import read_tns
from legendre.data.sparse_tensor import SparseTensor

ENDINGS = ".npy, .npz, .csv, .parquet, .tns (.tns.gz), .nc, .zarr, .h5 (.hdf5) or .mat"
NO_LABEL = {"", "NA", "na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None"}  # as in pandas; "none" is a label


class Input(NamedTuple):
    """X, and what its modes and levels are called where X itself does not say so."""

    X: Any
    names: Sequence[str] | None = None
    levels: Sequence[Any] | None = None

    def find_modes(self, text: str) -> list[Mode]:
        """Read what ``--unordered`` lists: modes by names, or counted from 0 where no mode is called so."""
        words = [word.strip() for word in text.split(",")] if text.strip() else []
        if not all(words):
            raise InvalidSetting(
                f"--unordered {text!r}: give modes with commas between, e.g. carrier,dest or 0,2; '' for none."
            )
        labels = opened(self.X, self.names)[1].labels
        names = () if labels is None else labels.names or ()
        return [int(word) if word.isdecimal() and word not in names else word for word in words]


@dataclass(frozen=True)
class Options:
    """What the command line says of a file."""

    variable: str | None = None  # which of several arrays
    columns: tuple[str, ...] | None = None  # the columns of a table that are modes
    counts: str | None = None  # the column of a table that says how much a row counts
    wide: bool = False  # the first columns of a CSV file are labels, the others numbers

    @classmethod
    def read(cls, variable: str | None, columns: str | None, counts: str | None, wide: bool) -> Options:
        """Check the options that a user gives."""
        listed = None if columns is None else tuple(name.strip() for name in columns.split(","))
        if listed is not None and not all(listed):
            raise InvalidSetting(f"--columns {columns!r}: give names with commas between, e.g. carrier,dest,hour.")
        if wide and counts is not None:
            raise InvalidSetting("--counts names the column of a table with a row for each cell; --wide has none.")
        return cls(variable, listed, counts, wide)

    def check(self, path: Path, suffix: str) -> None:
        """Refuse an option that has no meaning for a kind of file."""
        tables, arrays = (".csv", ".parquet"), (".npz", ".nc", ".zarr", ".h5", ".hdf5", ".mat")
        for name, given, kinds in (
            ("--variable", self.variable, arrays),
            ("--columns", self.columns, tables),
            ("--counts", self.counts, tables),
            ("--wide", self.wide, (".csv",)),
        ):
            if given and suffix not in kinds:
                raise InvalidFile(f"{path}: {name} is for {', '.join(kinds)} files. Leave it out.")

    def find_columns(self, path: Path, names: list[str]) -> list[str]:
        """Return the columns that are modes: those that the user names, or all but that of the counts."""
        if self.columns is None and self.counts is None:
            raise InvalidSetting(
                f"{path} is a table with the columns {', '.join(names)}. Name those that are modes: --columns A,B,C; "
                "add --counts N if a column says how often a row counts."
            )
        for name in [*(self.columns or ()), *([] if self.counts is None else [self.counts])]:
            if name not in names:
                raise InvalidSetting(f"{path}: {unknown_name('column', name, names)}")
        return [name for name in names if name != self.counts] if self.columns is None else list(self.columns)


def read_input(path: Path, options: Options | None = None) -> Input:
    """Read X: an array, a `SparseTensor`, or an array with labels of xarray; whatever fails becomes a sentence."""
    options = options or Options()
    suffix = ".tns" if path.name.lower().endswith(".tns.gz") else path.suffix.lower()
    if not path.exists():
        raise InvalidFile(f"{path} does not exist.")
    if suffix not in READERS:
        raise InvalidFile(f"{path}: cannot read {suffix or 'a file without an ending'}; give a {ENDINGS} file.")
    options.check(path, suffix)
    read, *packages = READERS[suffix]
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise InvalidSetting(
            f"{path}: reading {suffix} files needs {' and '.join(missing)}. Install them with: "
            "pip install 'legendre[files]'"
        )
    try:
        found = read(path, options)
    except (LegendreError, MemoryError):
        raise
    except Exception as problem:  # each library has errors of its own
        said = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise InvalidFile(f"cannot read {path}: {said.rstrip('.')}.") from None
    return found if isinstance(found, Input) else Input(found)


def _choose(path: Path, arrays: Sequence[str], options: Options) -> str:
    """Return the name of the array to read: the only one, or the one that the user names."""
    if not arrays:
        raise InvalidFile(f"{path} holds no array of numbers.")
    if options.variable is None and len(arrays) > 1:
        raise InvalidFile(f"{path} holds {len(arrays)} arrays: {', '.join(arrays)}. Choose one with --variable.")
    if options.variable is not None and options.variable not in arrays:
        raise InvalidFile(f"{path}: {unknown_name('variable', options.variable, arrays)}")
    return options.variable or arrays[0]


# --- arrays ----------------------------------------------------------------------------------------------------------


def _read_numpy(path: Path, options: Options) -> Any:
    with numpy_file(path) as content:
        if isinstance(content, np.ndarray):
            return content
        names = set(content.files)
        if options.variable is not None or not names >= {"shape", "data"}:
            return content[_choose(path, content.files, options)]
        if {"coords", "fill_value"} <= names:  # of pydata/sparse
            if content["fill_value"] != 0:
                raise InvalidFile(f"{path}: cells that are not listed are {content['fill_value']}, not 0.")
            return from_coords(tuple(content["coords"]), content["data"], content["shape"].tolist())
    from scipy.sparse import load_npz

    found = load_npz(path)
    if hasattr(found, "check_format"):
        found.check_format(full_check=True)
    return as_sparse_tensor(found)


def _read_netcdf(path: Path, options: Options) -> Any:
    import xarray

    with xarray.open_dataset(path) as dataset:
        return _read_variable(path, dataset, options)


def _read_variable(path: Path, dataset: Any, options: Options) -> Any:
    """Read a variable of a dataset of xarray, with its coordinates."""
    names = [str(name) for name, array in dataset.data_vars.items() if array.dtype.kind in "biuf" and array.ndim]
    return dataset[_choose(path, sorted(names), options)].load()


def _read_zarr(path: Path, options: Options) -> Any:
    import zarr

    store = zarr.open(path, mode="r")
    if isinstance(store, zarr.Array):
        return np.asarray(store[...])
    if find_spec("xarray") is not None:
        import xarray

        try:
            with xarray.open_dataset(path, engine="zarr", consolidated=False) as dataset:
                return _read_variable(path, dataset, options)
        except (KeyError, ValueError) as problem:
            if isinstance(problem, LegendreError):
                raise  # else the arrays have no names of their modes
    arrays = {name: array for name, array in store.arrays() if array.dtype.kind in "biuf"}
    return np.asarray(arrays[_choose(path, sorted(arrays), options)][...])


def _read_hdf5(path: Path, options: Options) -> AnyArray:
    import h5py

    found: list[str] = []

    def visit(name: str, item: Any) -> None:
        inside = name.startswith("#")  # where MATLAB keeps the parts of its cells
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "biuf" and item.shape and not inside:
            found.append(name)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
        return np.asarray(file[_choose(path, sorted(found), options)][()])


def _read_matlab(path: Path, options: Options) -> Any:
    from scipy.io import loadmat, whosmat

    try:
        names = [name for name, _, kind in whosmat(path) if kind not in ("char", "cell", "struct", "object", "unknown")]
    except NotImplementedError:  # version 7.3 is HDF5, with the modes in reverse order
        return _read_hdf5(path, options).T
    name = _choose(path, names, options)
    return loadmat(path, variable_names=[name])[name]


# --- tables ----------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, options: Options) -> SparseTensor:
    """Count the rows of a table, in the memory of a few hundred thousand of them."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file, line(f"reading {path.name}", sys.stderr.isatty()) as say:
        modes = options.find_columns(path, list(file.schema_arrow.names))
        wanted = [*modes, *([] if options.counts is None else [options.counts])]

        def batches() -> Iterator[Any]:
            done, total = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(1 << 18, columns=wanted):
                yield batch
                done += len(batch)
                say(f"{done:,} of {total:,} rows", done / total)

        return from_rows(batches(), modes, options.counts)


def _read_csv(path: Path, options: Options) -> Any:
    """Read a matrix of numbers, a table with a row for each event or cell, or one whose first columns are labels."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream)
            numbered = [(reader.line_num, fields) for fields in reader if fields]
    except UnicodeDecodeError:
        raise InvalidFile(
            f"cannot read {path}: it is not UTF-8 text. Save it as UTF-8, or convert it, e.g.: "
            f"iconv -f LATIN1 -t UTF-8 {path.name} > utf8_{path.name}"
        ) from None
    if not numbered:
        raise InvalidFile(f"{path} is empty.")
    first = numbered[0][1]
    for number, fields in numbered:
        if len(fields) != len(first):
            raise InvalidFile(f"{path}: line {number} has {len(fields)} fields, the first has {len(first)}.")
    if options.columns is None and options.counts is None and not options.wide:
        return _read_matrix(path, numbered)
    names, body = [name.strip() for name in first], numbered[1:]
    names[0] = names[0] or "row"
    if not all(names) or len(set(names)) < len(names) or not body:
        raise InvalidFile(f"{path}: line 1 must name every column, each differently, and rows must follow it.")
    columns = {name: [row[k] for _, row in body] for k, name in enumerate(names)}
    if options.wide:
        return _read_wide(path, columns, options.columns)
    modes = options.find_columns(path, names)
    table: dict[str, Any] = {name: _read_labels(columns[name]) for name in modes}
    if options.counts is not None:
        table[options.counts] = _read_numbers(path, columns[options.counts], 2, options.counts)
    return from_rows(table, modes, options.counts)


def _read_matrix(path: Path, numbered: list[tuple[int, list[str]]]) -> FloatArray:
    first = [text.strip() for text in numbered[0][1]]
    if any(first) and all(_read_number(text) is None and not {";", "\t"} & set(text) for text in first if text):
        raise InvalidSetting(
            f"{path}: line 1 is a header ({', '.join(first[:8])}). Say what the table is: one row for each event or "
            "cell: --columns A,B,C, and --counts N if a column says how often it counts; or rows and columns of "
            "numbers, with labels in front: --wide. A matrix has no header."
        )
    matrix = np.array([_read_numbers(path, fields, number) for number, fields in numbered])
    if np.isnan(matrix[:, -1]).all() and matrix.shape[1] > 1:
        raise InvalidFile(f"{path}: the last column is empty in every line. Is there a comma too many?")
    return matrix


def _read_wide(path: Path, columns: dict[str, list[str]], labels: tuple[str, ...] | None) -> Input:
    """Read a table of numbers with labels in front: `labels` names their columns, by default all before the numbers.

    Each of these columns is a mode, and the names of the other columns are the last one. Combinations of labels without
    a row are 0 where all numbers are whole, else missing.
    """
    names = list(columns)
    numeric = [all(_read_number(text) is not None for text in column) for column in columns.values()]
    n_front = next((k for k, has in enumerate(numeric) if has and k), len(names))
    front = names[:n_front] if labels is None else list(labels)
    for name in front:
        if name not in names:
            raise InvalidSetting(f"{path}: {unknown_name('column', name, names)}")
        if any(text.strip() in NO_LABEL for text in columns[name]):
            raise InvalidFile(f"{path}: a line has no label in column {name!r}.")
    rest = [name for name in names if name not in front]
    if not rest:
        raise InvalidFile(f"{path}: no column is left for numbers, with labels in {', '.join(front)}.")
    numbers = np.stack([_read_numbers(path, columns[name], 2, name) for name in rest], axis=1)
    keys = [_read_labels(columns[name]) for name in front]
    levels = [list(dict.fromkeys(key)) for key in keys]
    X = np.full((*map(len, levels), len(rest)), 0.0 if (numbers == np.rint(numbers)).all() else np.nan)
    places = [{label: k for k, label in enumerate(own)} for own in levels]
    cells = tuple(np.array([place[label] for label in key]) for place, key in zip(places, keys, strict=True))
    if len(set(zip(*keys, strict=True))) < len(numbers):
        raise InvalidFile(f"{path}: two lines have the same labels in {', '.join(front)}.")
    X[cells] = numbers
    return Input(X, [*front, "column"], [*map(np.array, levels), np.array(rest)])


def _read_number(text: str) -> float | None:
    """Read a number, NaN for a missing one; ``None`` if the text is something else."""
    if text.strip().lower() in ("", "na", "nan", "null", "none"):
        return float("nan")
    try:
        return None if "_" in text else float(text)  # Python's float reads 1_0 as 10
    except ValueError:
        return None


def _read_numbers(path: Path, texts: Sequence[str], number: int, column: str | None = None) -> FloatArray:
    """Read the numbers of a line, or of a column from a line on."""
    found = [_read_number(text) for text in texts]
    if None in found:
        k = found.index(None)
        place = f"line {number}, column {k + 1}" if column is None else f"column {column!r}, row {k}"
        hint = "Fields are separated by commas." if {";", "\t"} & set(texts[k]) else "Write NA for a missing value."
        raise InvalidFile(f"{path}: {place} holds {texts[k].strip()!r}, not a number. {hint}")
    return np.array(found, dtype=np.float64)


def _read_labels(texts: Sequence[str]) -> list[Any]:
    """Read labels: whole numbers where all of them are written as such (007 is a text), else texts; None if missing."""
    words = [text.strip() for text in texts]
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        return [None if word in NO_LABEL else word for word in words]
    return list(numbers) if [str(n) for n in numbers] == words else list(words)


READERS: dict[str, tuple[Any, ...]] = {
    ".npy": (_read_numpy,),
    ".npz": (_read_numpy,),
    ".csv": (_read_csv,),
    ".tns": (lambda path, _: read_tns(path),),
    ".parquet": (_read_parquet, "pyarrow"),
    ".nc": (_read_netcdf, "xarray", "h5netcdf"),
    ".zarr": (_read_zarr, "zarr"),
    ".h5": (_read_hdf5, "h5py"),
    ".hdf5": (_read_hdf5, "h5py"),
    ".mat": (_read_matlab,),
}
"""How a file is read, by its ending, and which libraries that needs."""
