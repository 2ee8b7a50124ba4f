"""Tables and arrays of other programs on the command line: what is read, and what is refused in a sentence."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray
import zarr

import legendre as ld
from legendre.cli.readers import Options, read_input
from legendre.core.errors import LegendreError
from legendre.data.readers.labelled import unwrap
from legendre.data.sparse_tensor import SparseTensor

Command = Callable[..., tuple[int, str, str]]
EVENTS = "dest,hour,n,tail\nSFO,6,2,a\nBOS,7,1,b\nSFO,6,3,c\nATL,23,4,d\n"
COUNTED = {("SFO", 6): 5, ("BOS", 7): 1, ("ATL", 23): 4}
DENSE = np.arange(1.0, 25.0).reshape(2, 3, 4)


def asked(columns: str | None = None, counts: str | None = None, **others: Any) -> Options:
    return Options(columns=columns, counts=counts, **others)


def cells(x: Any) -> dict[tuple[Any, ...], float]:
    """List what a sparse tensor holds by its levels."""
    assert isinstance(x, SparseTensor)
    labels = x.origin.of(x.shape)
    return {labels.values_at(cell): value for cell, value in zip(x.cells, x.values.tolist(), strict=True)}


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


TABLES: dict[str, tuple[str, Options, dict[Any, Any]]] = {
    "counted": (EVENTS, asked("dest,hour"), {("SFO", 6): 2, ("BOS", 7): 1, ("ATL", 23): 1}),
    "summed": (EVENTS, asked("dest, hour", "n"), COUNTED),
    "semicolons": (EVENTS.replace(",", "; "), asked("dest,hour", "n", separator=";"), COUNTED),
    "a trailing comma in the header": (EVENTS.replace("tail", "tail,"), asked("dest,hour", "n"), COUNTED),
    "none in small letters is a label": ("a,b\nnone,yes\nx,no\n", asked("a"), {("none",): 1, ("x",): 1}),
    "007 is a text": ("zip,n\n007,1\n7,2\n", asked("zip", "n"), {("007",): 1, ("7",): 2}),
    "rows without a label are left out": ("a,n\nx,1\n,2\n", asked("a", "n", missing="drop"), {("x",): 1}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_are_counted(kind: str, tmp_path: Path) -> None:
    text, options, wanted = TABLES[kind]
    assert cells(read_input(written(tmp_path / "x.csv", text), options)) == wanted


def test_every_way_to_hold_a_table_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(EVENTS.encode()))
    written(tmp_path / "x.tsv", EVENTS.replace(",", "\t"))
    pd.read_csv(io.StringIO(EVENTS)).to_parquet(tmp_path / "x.parquet")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(EVENTS.encode())))
    for path in (*tmp_path.iterdir(), Path("-")):
        assert cells(read_input(path, asked("dest,hour", "n"))) == COUNTED


def test_a_table_in_many_pieces_is_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "x.csv", EVENTS)
    read_csv = pd.read_csv
    monkeypatch.setattr(pd, "read_csv", lambda *a, **k: read_csv(*a, **(k | {"chunksize": 1})))
    assert cells(read_input(path, asked("dest,hour", "n"))) == COUNTED


def test_a_wide_table_has_one_or_more_columns_of_labels(tmp_path: Path) -> None:
    text = "carrier,dest,6,7\nUA,BOS,1,2\nUA,SFO,3,4\nAA,BOS,5,6\n"
    X, origin = unwrap(read_input(written(tmp_path / "wide.csv", text), asked(wide=True)))
    labels = origin.of(X.shape)
    assert (labels.names, labels.levels_of(0).tolist()) == (("carrier", "dest", "column"), ["UA", "AA"])
    assert X.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]  # counts: what is not listed is 0
    X, _ = unwrap(read_input(written(tmp_path / "half.csv", text.replace("1,2", "1.5,")), asked(wide=True)))
    np.testing.assert_array_equal(X, [[[1.5, np.nan], [3, 4]], [[5, 6], [np.nan, np.nan]]])


@pytest.mark.parametrize(
    ("text", "words", "names", "level"),
    [
        ("station,6h,7h\nmain,1,2\neast,3,\n", ("--wide",), ("station", "column"), "east"),
        (EVENTS, ("--columns", "dest,hour", "--counts", "n"), ("dest", "hour"), "BOS"),
    ],
)
def test_labels_of_a_table_are_in_the_file_of_the_fit(
    text: str, words: tuple[str, ...], names: tuple[str, ...], level: str, command: Command
) -> None:
    written(Path("x.csv"), text)
    code, _, err = command("fit", "x.csv", *words, "-b", "interactions(1)", "-o", "fit.npz")
    assert (code, err) == (0, "")
    labels = ld.load("fit.npz").labels
    assert (labels.names, labels.level(0, 1)) == (names, level)


def as_netcdf(path: Path, **arrays: Any) -> None:
    parts = {key: (["i", "j", "k"], value) for key, value in arrays.items()}
    xarray.Dataset(parts, {"j": ["a", "b", "c"]}).to_netcdf(path, engine="h5netcdf")


def as_zarr(path: Path, **arrays: Any) -> None:
    group = zarr.open_group(path, mode="w")
    for key, value in arrays.items():
        group.create_array(key, data=value)


def as_labelled_zarr(path: Path, **arrays: Any) -> None:
    xarray.Dataset({key: (["i", "j", "k"], value) for key, value in arrays.items()}).to_zarr(path, consolidated=False)


def as_hdf5(path: Path, **arrays: Any) -> None:
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file[key] = value
        file["text"] = "no array"


WRITERS: dict[str, Callable[..., None]] = {
    "x.npz": lambda path, **arrays: np.savez(path, **arrays),
    "x.nc": as_netcdf,
    "x.zarr": as_zarr,
    "y.zarr": as_labelled_zarr,
    "x.h5": as_hdf5,
}


@pytest.mark.parametrize("name", WRITERS)
def test_arrays_of_other_programs(name: str, tmp_path: Path) -> None:
    WRITERS[name](tmp_path / name, flow=DENSE)
    x = read_input(tmp_path / name)
    np.testing.assert_array_equal(np.asarray(x), DENSE)
    if name == "x.nc":
        assert (x.dims, x.coords["j"].values.tolist()) == (("i", "j", "k"), ["a", "b", "c"])
    two = tmp_path / f"two_{name}"
    WRITERS[name](two, flow=DENSE, speed=2 * DENSE)
    np.testing.assert_array_equal(np.asarray(read_input(two, asked(variable="speed"))), 2 * DENSE)
    with pytest.raises(LegendreError, match=r"holds 2 arrays: flow, speed\. Choose one with --variable\."):
        read_input(two)
    with pytest.raises(LegendreError, match=r"unknown variable 'sped'; did you mean 'speed'\?"):
        read_input(two, asked(variable="sped"))


def test_a_large_zarr_array_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_HELD", 3)
    zarr.save_array(tmp_path / "x.zarr", DENSE)
    x = read_input(tmp_path / "x.zarr")
    assert not isinstance(x, np.ndarray)
    np.testing.assert_array_equal(x.compute(), DENSE)


def test_single_arrays(tmp_path: Path) -> None:
    X = np.array([[1.0, 2.0, np.nan], [4.0, 0.5, 6.0]])
    zarr.save_array(tmp_path / "one.zarr", X)
    np.save(tmp_path / "x.npy", X)
    written(tmp_path / "x.csv", "1,2,\n4,0.5,6\n")
    for path in tmp_path.iterdir():
        np.testing.assert_array_equal(read_input(path), X)
    np.testing.assert_array_equal(read_input(written(tmp_path / "gaps.csv", ",\n1,2\n")), [[np.nan, np.nan], [1, 2]])


@pytest.mark.parametrize(("name", "package"), [("x.parquet", "pyarrow"), ("x.nc", "xarray"), ("x.h5", "h5py")])
def test_a_library_that_is_not_installed_is_named(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("legendre.core.arguments.find_spec", lambda key: None if key == package else find_spec(key))
    wanted = rf"reading \{Path(name).suffix} files needs {package}\. Install it with: pip install 'legendre\[files\]'"
    with pytest.raises(LegendreError, match=wanted):
        read_input(written(tmp_path / name, ""))


GAP = "line 3 (blank lines not counted) lacks a label of a. Leave such lines out with --missing drop."
REFUSED: dict[str, tuple[str, str, Options, str]] = {
    "an unknown column": ("x.csv", EVENTS, asked("dest,huor"), "unknown column 'huor'; did you mean 'hour'?"),
    "a column twice": ("x.csv", EVENTS, asked("dest,dest"), "columns must be a list of different columns"),
    "counts that are texts": (
        "x.csv",
        EVENTS.replace("\n", "\n\n", 1),
        asked("dest", "tail"),
        "line 2 (blank lines not counted), column 'tail': 'a' is not a number.",
    ),
    "a gap in a mode": ("x.csv", "a,n\nx,1\n\n,2\n", asked("a", "n"), GAP),
    "no rows": ("x.csv", "a,b\n", asked("a"), "there are no rows or no columns"),
    "a header with a name twice": ("x.csv", "a,a\n1,2\n", asked("a"), "two columns are called 'a'"),
    "the same labels twice": ("x.csv", "r,p\nA,1\nA,2\n", asked(wide=True), "every line needs its own labels in r"),
    "a label that is missing": ("x.csv", "r,p\nA,1\n,2\n", asked(wide=True), "every line needs its own labels in r"),
    "a table without options": ("x.csv", EVENTS, asked(), "line 1 is a header (dest, hour, n, tail). Say what"),
    "tabs": (
        "x.csv",
        EVENTS.replace(",", "\t"),
        asked("dest"),
        r"If fields are separated by '\t', pass that: --separator",
    ),
    "columns of an array": ("x.npy", "", asked("a,b"), "--columns is for .csv, .tsv, .parquet files. Leave it out."),
    "wide that is not a csv": ("x.tns", "1 1 2\n", asked(wide=True), "--wide is for .csv, .tsv files. Leave it out."),
    "wide with counts": ("x.csv", EVENTS, asked(None, "n", wide=True), "--counts names the column of a table"),
    "damaged parquet": ("x.parquet", "PAR1 and no more", asked("a"), "cannot read"),
    "damaged hdf5": ("x.h5", "HDF", asked(), "cannot read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_one_sentence(case: str, tmp_path: Path) -> None:
    name, text, options, sentence = REFUSED[case]
    path = written(tmp_path / name, text)
    with pytest.raises(LegendreError) as refused:
        read_input(path, options)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_text() == text


def test_a_parquet_file_without_columns_lists_them(tmp_path: Path) -> None:
    pd.DataFrame({"carrier": ["AA"], "dest": ["BOS"]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(LegendreError, match=r"is a table with the columns carrier, dest\. Name those that are modes"):
        read_input(tmp_path / "x.parquet")
    with pytest.raises(LegendreError, match=r"unknown column 'dst'; did you mean 'dest'\?"):
        read_input(tmp_path / "x.parquet", asked("carrier,dst"))
