"""Files on the command line: which reader a file needs, by its ending, and what the options say of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from legendre.core.errors import InvalidFile, InvalidSetting, LegendreError, unknown_name
from legendre.core.files import numpy_file
from legendre.core.progress import line
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.coordinates import as_sparse_tensor, from_coords
from legendre.data.readers.rows import from_rows
from legendre.data.readers.tns import read_tns
from legendre.data.sparse_tensor import SparseTensor

ENDINGS = ".npy, .npz, .csv, .parquet, .tns (.tns.gz), .nc, .zarr or .h5 (.hdf5)"


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
        if wide and counts is not None:
            raise InvalidSetting("--counts names the column of a table with a row for each cell; --wide has none.")
        return cls(variable, listed, counts, wide)

    def check(self, path: Path, suffix: str) -> None:
        """Refuse an option that has no meaning for a kind of file."""
        tables, arrays = (".csv", ".parquet"), (".npz", ".nc", ".zarr", ".h5", ".hdf5")
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
        counts = () if self.counts is None else (self.counts,)
        if self.columns is None and not counts:
            raise InvalidSetting(
                f"{path} is a table with the columns {', '.join(names)}. Name those that are modes: --columns A,B,C; "
                "add --counts N if a column says how often a row counts."
            )
        modes = self.columns or [name for name in names if name not in counts]
        for name in (*modes, *counts):
            if name not in names:
                raise InvalidSetting(f"{path}: {unknown_name('column', name, names)}")
        return list(modes)


def read_input(path: Path, options: Options | None = None) -> Any:
    """Read X: an array, a `SparseTensor`, or an object of xarray or pandas; whatever fails becomes a sentence."""
    options = options or Options()
    suffix = ".tns" if path.name.lower().endswith(".tns.gz") else path.suffix.lower()
    if not path.exists() or suffix not in READERS:
        reason = f"cannot read {suffix or 'a file without an ending'}; give a {ENDINGS} file"
        raise InvalidFile(f"{path}: {reason}." if path.exists() else f"{path} does not exist.")
    options.check(path, suffix)
    read, *packages = READERS[suffix]
    if missing := [name for name in packages if find_spec(name) is None]:
        raise InvalidSetting(
            f"{path}: reading {suffix} files needs {' and '.join(missing)}. Install them with: "
            "pip install 'legendre[files]'"
        )
    try:
        return read(path, options)
    except (LegendreError, MemoryError):
        raise
    except Exception as problem:  # each library has errors of its own
        hint = " Save it as UTF-8" if isinstance(problem, UnicodeDecodeError) else ""
        said = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise InvalidFile(f"cannot read {path}: {said.rstrip('.')}.{hint}") from None


def _choose(path: Path, arrays: Mapping[str, Any], options: Options) -> Any:
    """Return the array to read: the only one, or the one that the user names."""
    names = sorted(name for name, array in arrays.items() if array.dtype.kind in "biuf" and array.ndim)
    if options.variable is None and len(names) != 1:
        listed = ", ".join(names) or "none of numbers"
        raise InvalidFile(f"{path} holds {len(names)} arrays: {listed}. Choose one with --variable.")
    name = options.variable or names[0]
    if name not in arrays:
        raise InvalidFile(f"{path}: {unknown_name('variable', name, names)}")
    return arrays[name]


# --- arrays ----------------------------------------------------------------------------------------------------------


def _read_numpy(path: Path, options: Options) -> Any:
    with numpy_file(path) as content:
        if isinstance(content, np.ndarray):
            return content
        if options.variable is not None or not {"shape", "data"} <= set(content.files):
            return _choose(path, content, options)
        if "fill_value" in content.files:  # of pydata/sparse
            if content["fill_value"] != 0:
                raise InvalidFile(f"{path}: cells that are not listed are {content['fill_value']}, not 0.")
            return from_coords(tuple(content["coords"]), content["data"], content["shape"].tolist())
    from scipy.sparse import load_npz

    return as_sparse_tensor(load_npz(path))


def _read_xarray(path: Path, options: Options, **engine: Any) -> Any:
    """Read a variable of a dataset, with its coordinates."""
    import xarray

    with xarray.open_dataset(path, **engine or {"engine": "h5netcdf"}) as dataset:
        return _choose(path, {str(name): array for name, array in dataset.data_vars.items()}, options).load()


def _read_zarr(path: Path, options: Options) -> Any:
    import zarr

    store = zarr.open(path, mode="r")
    if isinstance(store, zarr.Array):
        return np.asarray(store[...])
    arrays = dict(store.arrays())
    if any(array.metadata.dimension_names for array in arrays.values()):
        return _read_xarray(path, options, engine="zarr", consolidated=False)
    return np.asarray(_choose(path, arrays, options)[...])


def _read_hdf5(path: Path, options: Options) -> AnyArray:
    import h5py

    with h5py.File(path, "r") as file:
        found: dict[str, Any] = {}
        file.visititems(lambda name, item: found.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        return np.asarray(_choose(path, found, options)[()])


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
    import pandas as pd

    table = pd.read_csv(path, header=None, dtype=str, skipinitialspace=True, encoding="utf-8-sig")
    if options == Options():
        return _read_matrix(path, table)
    table, head = table.iloc[1:].reset_index(drop=True), table.iloc[0].fillna("")
    names = [name.strip() or ("row" if not k else "") for k, name in enumerate(head)]
    if not all(names) or len(set(names)) < len(names) or not len(table):
        raise InvalidFile(f"{path}: line 1 must name every column, each differently, and rows must follow it.")
    table.columns = names
    if options.wide:
        return _read_wide(path, table, options.columns)
    modes = options.find_columns(path, names)
    rows: dict[str, Any] = {name: _read_labels(table[name]) for name in modes}
    if options.counts is not None:
        rows[options.counts] = _read_numbers(path, table[[options.counts]])[:, 0]
    return from_rows(rows, modes, options.counts)


def _read_matrix(path: Path, table: Any) -> FloatArray:
    import pandas as pd

    first = table.iloc[0].dropna()
    if len(first) and pd.to_numeric(first, errors="coerce").isna().all() and not first.str.contains(";|\t").any():
        raise InvalidSetting(
            f"{path}: line 1 is a header ({', '.join(first[:8])}). Say what the table is: one row for each event or "
            "cell: --columns A,B,C, and --counts N if a column says how often it counts; or rows and columns of "
            "numbers, with labels in front: --wide. A matrix has no header."
        )
    return _read_numbers(path, table)


def _read_wide(path: Path, table: Any, labels: tuple[str, ...] | None) -> Any:
    """Read a cross table of numbers with labels in front: `labels` names their columns, by default all before numbers.

    Each of these columns is a mode, and the names of the other columns are the last one. Combinations of labels without
    a row are 0 where all numbers are whole, else missing.
    """
    import pandas as pd

    names = list(table)
    texts = [pd.to_numeric(table[name].dropna(), errors="coerce").isna().any() for name in names]
    n_front = next((k for k, text in enumerate(texts) if k and not text), len(names))
    front = names[:n_front] if labels is None else list(labels)
    rest = [name for name in names if name not in front]
    for name in front:
        if name not in names:
            raise InvalidSetting(f"{path}: {unknown_name('column', name, names)}")
    if not rest or table[front].isna().any(axis=None) or table.duplicated(front).any():
        said = f"every line needs labels of its own in {', '.join(front)}, and numbers in other columns"
        raise InvalidFile(f"{path}: {said}.")
    keys = [pd.Categorical(column, list(dict.fromkeys(column))) for column in (_read_labels(table[n]) for n in front)]
    index = pd.MultiIndex.from_arrays(keys, names=front)
    return pd.DataFrame(_read_numbers(path, table[rest]), index, pd.Index(rest, name="column"))


def _read_numbers(path: Path, table: Any) -> FloatArray:
    """Read the numbers of a table of texts; what is missing is NaN."""
    import pandas as pd

    numbers: FloatArray = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    wrong = np.argwhere(np.isnan(numbers) & table.notna().to_numpy())
    if len(wrong):
        row, column = wrong[0].tolist()
        text = table.iloc[row, column]
        hint = "Fields are separated by commas." if {";", "\t"} & set(text) else "Write NA for a missing value."
        place = f"row {row} of column {list(table)[column]!r}"
        raise InvalidFile(f"{path}: {place} holds {text.strip()!r}, not a number. {hint}")
    return numbers


def _read_labels(texts: Any) -> list[Any]:
    """Read labels: whole numbers where all of them are written as such (007 is a text), else texts; None if missing."""
    words = [text.strip() if isinstance(text, str) else None for text in texts]
    try:
        numbers = [int(word or "") for word in words]
    except ValueError:
        return words
    return list(numbers) if [str(n) for n in numbers] == words else words


READERS: dict[str, tuple[Any, ...]] = {
    ".npy": (_read_numpy,),
    ".npz": (_read_numpy,),
    ".csv": (_read_csv, "pandas"),
    ".tns": (lambda path, _: read_tns(path),),
    ".parquet": (_read_parquet, "pyarrow"),
    ".nc": (_read_xarray, "xarray", "h5netcdf"),
    ".zarr": (_read_zarr, "zarr"),
    ".h5": (_read_hdf5, "h5py"),
    ".hdf5": (_read_hdf5, "h5py"),
}
"""How a file is read, by its ending, and which libraries that needs."""
