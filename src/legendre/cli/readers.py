"""Files that are named on the command line: each kind has a reader, chosen by the ending; options describe the file.

A reader is called with the path, the options and a function that reports progress, and returns X.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from legendre.core import limits
from legendre.core.arguments import check_installed, check_name
from legendre.core.cells import first_cell
from legendre.core.errors import InvalidFile, InvalidSetting, LegendreError, unknown_name
from legendre.core.files import numpy_file
from legendre.core.labels import Labels
from legendre.core.progress import Say, line
from legendre.core.types import AnyArray, FloatArray
from legendre.data.readers.coordinates import as_sparse_tensor, from_coords, read_tns
from legendre.data.readers.rows import from_rows
from legendre.data.sparse_tensor import SparseTensor

STDIN = Path("-")  # a CSV file on standard input
ENDINGS = ".npy, .npz, .csv, .tsv, .parquet, .tns (.gz too), .nc, .zarr or .h5 (.hdf5)"


@dataclass(frozen=True)
class Options:
    """The options of the command line that describe the file of X."""

    variable: str | None = None  # which of several arrays
    columns: str | None = None  # the columns of a table that are modes, with commas between
    counts: str | None = None  # the column of a table that says how often a row occurred; None: once
    wide: bool = False  # whether the first columns of a CSV file are labels and the others numbers
    separator: str | None = None  # the field separator of a CSV file
    missing: str = "error"  # what to do with rows that lack a label: "error" or "drop"

    def check(self, path: Path, suffix: str) -> None:
        """Refuse an option that has no meaning for files with this ending, instead of ignoring it silently."""
        for option in fields(self):
            kinds = [ending for ending, reader in READERS.items() if option.name in reader.options]
            if getattr(self, option.name) != option.default and suffix not in kinds:
                raise InvalidFile(f"{path}: --{option.name} is for {', '.join(kinds)} files. Leave it out.")
        if self.wide and self.counts is not None:
            raise InvalidSetting("--counts names the column of a table with a row for each cell; --wide has none.")

    def find_columns(self, path: Path, names: list[str]) -> list[str]:
        """Return the columns of a table that are modes: those in --columns, by default all but that of --counts.

        `names` are all columns of the table. Raise an error if a column is not there, if two have the same name, or if
        the user gave neither option, unless the table is --wide, whose modes `_read_wide` finds.
        """
        modes = [name for name in names if name and name != self.counts]
        if self.columns is not None:
            modes = [name.strip() for name in self.columns.split(",")]
        elif self.counts is None and not self.wide:
            raise InvalidSetting(
                f"{path} is a table with the columns {', '.join(names)}. Name those that are modes: --columns A,B,C; "
                "add --counts N if a column says how often a row counts."
            )
        for name in modes if self.counts is None else [*modes, self.counts]:
            if names.count(name) != 1:
                problem = f"two columns are called {name!r}" if name in names else unknown_name("column", name, names)
                raise InvalidSetting(f"{path}: {problem}")
        return modes


def read_input(path: Path, options: Options = Options()) -> Any:
    """Read X from a file, by its ending: an array, a `SparseTensor`, or an object of xarray or pandas.

    Whatever goes wrong in another library becomes an `InvalidFile` with one sentence, which the command prints. The
    error also names what is missing: the file, a library that reads it, or an option.
    """
    name = "stdin.csv" if path == STDIN else path.name.lower()
    suffix = Path(name.removesuffix(".gz")).suffix  # pandas and `read_tns` decompress .gz files
    if path != STDIN and not path.exists():
        raise InvalidFile(f"{path} does not exist.")
    if suffix not in READERS:
        raise InvalidFile(f"{path}: cannot read {suffix or 'a file without an ending'}; give a {ENDINGS} file.")
    options.check(path, suffix)
    reader = READERS[suffix]
    check_installed(f"{path}: reading {suffix} files", reader.packages, "'legendre[files]'")
    try:
        with line(f"reading {path.name}", sys.stderr.isatty()) as say:
            return reader.read(path, options, say)
    except (LegendreError, MemoryError):
        raise
    except Exception as problem:  # each library has errors of its own
        hint = " Save it as UTF-8" if isinstance(problem, UnicodeDecodeError) else ""
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise InvalidFile(f"cannot read {path}: {reason.rstrip('.')}.{hint}") from None


def _choose(path: Path, arrays: Mapping[str, Any], options: Options) -> Any:
    """Return the array to read from a file that may hold several: the one named by --variable.

    Without that option it is the only array of numbers with at least one axis; if there are several or none, raise an
    error that lists them.
    """
    names = sorted(name for name, array in arrays.items() if array.dtype.kind in "biuf" and array.ndim)
    if options.variable is None and len(names) != 1:
        listed = ", ".join(names) or "none of numbers"
        raise InvalidFile(f"{path} holds {len(names)} arrays: {listed}. Choose one with --variable.")
    name = options.variable or names[0]
    check_name("variable", name, names, InvalidFile, str(path))
    return arrays[name]


# --- arrays ----------------------------------------------------------------------------------------------------------


def _read_numpy(path: Path, options: Options, _say: Say) -> Any:
    """Read a .npy file, or an array from an .npz file.

    An .npz file that holds `shape` and `data` is a sparse array, written by SciPy or by pydata/sparse. SciPy reads its
    own files; those of pydata/sparse hold coordinates, and the value of all cells that are not listed, which must be 0.
    """
    with numpy_file(path) as content:
        if isinstance(content, np.ndarray):
            return content
        if options.variable is not None or not {"shape", "data"} <= set(content.files):
            return _choose(path, content, options)
        if "fill_value" in content.files:  # written by pydata/sparse
            if content["fill_value"] != 0:
                raise InvalidFile(f"{path}: cells that are not listed are {content['fill_value']}, not 0.")
            return from_coords(tuple(content["coords"]), content["data"], content["shape"].tolist())
    from scipy.sparse import load_npz

    return as_sparse_tensor(load_npz(path))


def _read_xarray(path: Path, options: Options, _say: Say, **engine: Any) -> Any:
    """Read a variable of a netCDF or zarr dataset as an xarray DataArray, whose coordinates become labels.

    `engine` are arguments of `xarray.open_dataset`, by default for netCDF.
    """
    import xarray

    with xarray.open_dataset(path, **engine or {"engine": "h5netcdf"}) as dataset:
        return _choose(path, {str(name): array for name, array in dataset.data_vars.items()}, options).load()


def _read_zarr(path: Path, options: Options, say: Say) -> Any:
    """Read a zarr array, or an array of a zarr group; one that is too large to be held, as a dask array.

    A group whose arrays name their dimensions was written by xarray, which also reads its coordinates.
    """
    import zarr

    array: Any = zarr.open(path, mode="r")
    if not isinstance(array, zarr.Array):
        arrays = dict(array.arrays())
        if any(array.metadata.dimension_names for array in arrays.values()):
            return _read_xarray(path, options, say, engine="zarr", consolidated=False)
        array = _choose(path, arrays, options)
    if array.size <= limits.LARGEST_HELD:
        return np.asarray(array[...])
    check_installed(f"{path}: reading an array of {array.size:,} cells", ["dask"], "'legendre[dask]'")
    from dask.array import from_zarr

    return from_zarr(array)


def _read_hdf5(path: Path, options: Options, _say: Say) -> AnyArray:
    """Read an array of an HDF5 file, in any of its groups; it is named by its path, such as ``group/array``."""
    import h5py

    with h5py.File(path, "r") as file:
        found = {}
        file.visititems(lambda name, item: found.update({name: item} if isinstance(item, h5py.Dataset) else {}))
        return np.asarray(_choose(path, found, options)[()])


# --- tables ----------------------------------------------------------------------------------------------------------


def _read_parquet(path: Path, options: Options, say: Say) -> SparseTensor:
    """Count the rows of a Parquet file for each combination of levels, as a sparse tensor.

    Rows are read in batches of 2^18 (about 260,000), so that the file need not fit in memory; only the columns that are
    needed are read.
    """
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        modes = options.find_columns(path, list(file.schema_arrow.names))
        wanted = modes if options.counts is None else [*modes, options.counts]

        def batches() -> Iterator[Any]:
            """Yield the rows of the file batch by batch, and report progress."""
            done, total = 0, max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(1 << 18, columns=wanted):
                yield batch
                done += len(batch)
                say(f"{done:,} of {total:,} rows", done / total)

        return from_rows(batches(), modes, options.counts, missing=cast(Any, options.missing))


def _read_csv(path: Path, options: Options, say: Say) -> Any:
    """Read a CSV file: a matrix of numbers, a table with a row for each event or cell, or a cross table (--wide).

    The options say which. Without --columns, --counts and --wide it is a matrix, unless line 1 is a header: then raise
    an error that explains the options. Every field is read as a string, so that labels such as 007 stay as they
    are, and a number that cannot be read is reported with its line. Rows of a table are counted in chunks of 2^18, so
    that the file need not fit in memory.
    """
    import pandas as pd

    source = sys.stdin.buffer if path == STDIN else path
    separator = options.separator or ("\t" if ".tsv" in path.name.lower() else ",")
    form = {"sep": separator, "header": None, "dtype": str, "skipinitialspace": True, "encoding": "utf-8-sig"}
    with pd.read_csv(source, chunksize=1 << 18, **form) as chunks:
        first = next(chunks)
        line_1 = first.iloc[0].fillna("").str.strip()
        if len(line_1) == 1 and (other := {";", "\t", "|"} & set(line_1[0])):
            raise InvalidFile(
                f"{path}: line 1 has no {separator!r}. If fields are separated by {other.pop()!r}, pass that: "
                "--separator."
            )
        if options.columns is None and options.counts is None and not options.wide:
            # a header is a first line in which no field is a number; empty fields are missing cells
            fields = line_1[line_1 != ""]
            if len(fields) and pd.to_numeric(fields, errors="coerce").isna().all():
                raise InvalidSetting(
                    f"{path}: line 1 is a header ({', '.join(line_1[:8])}). Say what the table is: one row for each "
                    "event or cell: --columns A,B,C, and --counts N if a column says how often it counts; or rows and "
                    "columns of numbers, with labels in front: --wide. A matrix has no header."
                )
            return _read_numbers(path, pd.concat([first, *chunks]))
        names = line_1.tolist()
        if options.wide:
            names[0] = names[0] or "row"  # the corner of a cross table is often empty
            return _read_wide(path, pd.concat([first, *chunks]).iloc[1:].set_axis(names, axis=1), options)
        tables = (chunk.set_axis(names, axis=1) for chunk in chain([first.iloc[1:]], chunks))
        return _count_rows(path, tables, options.find_columns(path, names), options, say)


def _count_rows(path: Path, tables: Iterator[Any], modes: list[str], options: Options, say: Say) -> SparseTensor:
    """Count the rows of a CSV file, given as data frames of strings, for each combination of levels of `modes`.

    Labels that are whole numbers become integers, which have an order.
    """

    def needed_columns() -> Iterator[Any]:
        """Yield the needed columns of each frame, and report progress; refuse a row that lacks a label."""
        for table in tables:
            gaps = table[modes].isna().any(axis=1)
            if options.missing == "error" and gaps.any():
                place = gaps.idxmax()  # the first such row; the header is row 0, so it is in line place + 1
                raise InvalidFile(
                    f"{path}: line {place + 1} (blank lines not counted) lacks a label of {', '.join(modes)}. "
                    "Leave such lines out with --missing drop."
                )
            columns = {name: table[name].str.strip() for name in modes}
            if options.counts is not None:
                columns[options.counts] = _read_numbers(path, table[[options.counts]])[:, 0]
            yield columns
            say(f"{table.index[-1] if len(table) else 0:,} rows")

    x = from_rows(needed_columns(), modes, options.counts, missing=cast(Any, options.missing))
    levels = tuple(map(_as_whole_numbers, x.levels or ()))
    return replace(x, origin=replace(x.origin, labels=Labels(x.shape, x.names, levels)))


def _read_wide(path: Path, table: Any, options: Options) -> Any:
    """Read a cross table, whose first columns are labels and whose other columns are numbers, as a pandas data frame.

    Each column of labels is a mode. The names of the columns of numbers are the levels of the last mode. --columns
    names the columns of labels; by default they are the first column, and all others before the first column of
    numbers. `table` has strings. A combination of labels without a row is later read as 0 if all numbers are integers,
    and as missing otherwise.
    """
    import pandas as pd

    names = list(table)
    front = options.find_columns(path, names)  # without --columns all names, which it has checked
    if options.columns is None:
        # up to the first column of numbers, apart from column 0, which has labels in any case
        texts = [pd.to_numeric(table[name].dropna(), errors="coerce").isna().any() for name in names]
        front = names[: next((k for k, text in enumerate(texts) if k and not text), len(names))]
    rest = [name for name in names if name not in front]
    if not rest or table[front].isna().any(axis=None) or table.duplicated(front).any():
        raise InvalidFile(
            f"{path}: every line needs its own labels in {', '.join(front)}, and numbers in other columns."
        )
    # categories keep the labels in the order of the file
    keys = [_as_whole_numbers(table[name].str.strip().to_numpy()) for name in front]
    index = pd.MultiIndex.from_arrays([pd.Categorical(key, list(dict.fromkeys(key))) for key in keys], names=front)
    return pd.DataFrame(_read_numbers(path, table[rest]), index, pd.Index(rest, name="column"))


def _read_numbers(path: Path, table: Any) -> FloatArray:
    """Read a data frame of strings as an array of numbers of the same shape; empty fields are NaN.

    Refuse a field that is not a number, and name its line and column. The index of the frame counts lines from 0,
    except blank ones, which pandas skips.
    """
    import pandas as pd

    numbers: FloatArray = table.apply(pd.to_numeric, errors="coerce").to_numpy(np.float64)
    if wrong := first_cell(np.isnan(numbers) & table.notna().to_numpy()):
        row, column = wrong
        place = f"line {table.index[row] + 1} (blank lines not counted), column {list(table)[column]!r}"
        raise InvalidFile(
            f"{path}: {place}: {table.iloc[row, column].strip()!r} is not a number. Write NA for a missing value."
        )
    return numbers


def _as_whole_numbers(labels: Any) -> AnyArray:
    """Return labels as integers if all are written as such, so that they sort as numbers.

    If one has leading zeros, such as 007, all stay strings: as numbers, 007 and 7 would be the same level.
    """
    whole = all(text.removeprefix("-").isdecimal() and str(int(text)) == text for text in labels.tolist())
    return np.array([int(text) for text in labels]) if whole else labels


class Reader(NamedTuple):
    """How files with some ending are read."""

    read: Callable[[Path, Options, Say], Any]
    packages: tuple[str, ...] = ()  # the libraries that it needs
    options: tuple[str, ...] = ()  # the fields of `Options` that have a meaning for such files


ARRAYS, TABLES = ("variable",), ("columns", "counts", "missing")
CSV = Reader(_read_csv, ("pandas",), (*TABLES, "wide", "separator"))
HDF5 = Reader(_read_hdf5, ("h5py",), ARRAYS)
READERS = {
    ".npy": Reader(_read_numpy),
    ".npz": Reader(_read_numpy, (), ARRAYS),
    ".csv": CSV,
    ".tsv": CSV,
    ".tns": Reader(lambda path, _options, _say: read_tns(path)),
    ".parquet": Reader(_read_parquet, ("pyarrow",), TABLES),
    ".nc": Reader(_read_xarray, ("xarray", "h5netcdf"), ARRAYS),
    ".zarr": Reader(_read_zarr, ("zarr",), ARRAYS),
    ".h5": HDF5,
    ".hdf5": HDF5,
}
