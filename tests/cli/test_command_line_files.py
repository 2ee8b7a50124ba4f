"""Tables and arrays of other programs on the command line: what is read, and what is refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import run

import legendre as ld
from legendre.cli.readers import Options, read_input
from legendre.core.errors import LegendreError
from legendre.data.readers.labelled import unwrap
from legendre.data.sparse_tensor import SparseTensor

EVENTS = "dest,hour,n,tail\nSFO,6,2,a\nBOS,7,1,b\nSFO,6,3,c\nATL,23,4,d\n"
DENSE = np.arange(1.0, 25.0).reshape(2, 3, 4)


def asked(
    columns: str | None = None, counts: str | None = None, wide: bool = False, variable: str | None = None
) -> Options:
    return Options.read(variable, columns, counts, wide)


def cells(x: Any) -> dict[tuple[str, ...], float]:
    """List what a sparse tensor holds by the names of its levels."""
    assert isinstance(x, SparseTensor)
    found = {}
    for cell, value in zip(x.cells.tolist(), x.values.tolist(), strict=True):
        own = [None if x.levels is None else x.levels[k] for k in range(len(cell))]
        found[tuple(str(i if level is None else level[i]) for i, level in zip(cell, own, strict=True))] = value
    return found


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_events_of_a_csv_file_are_counted_by_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "events.csv", EVENTS)
    x = read_input(path, asked("dest,hour"))
    assert x.names == ("dest", "hour")
    assert cells(x) == {("SFO", "6"): 2, ("BOS", "7"): 1, ("ATL", "23"): 1}
    x = read_input(path, asked("dest, hour", "n"))
    assert cells(x) == {("SFO", "6"): 5, ("BOS", "7"): 1, ("ATL", "23"): 4}


def test_none_in_small_letters_is_a_label(tmp_path: Path) -> None:
    """Education "none" is an answer; only None, as Python writes it, NA and the like are missing."""
    (tmp_path / "x.csv").write_text("school,voted\nnone,yes\ndegree,no\nnone,yes\n")
    x = read_input(tmp_path / "x.csv", asked("school,voted"))
    assert cells(x) == {("none", "yes"): 2, ("degree", "no"): 1}
    x = read_input(written(tmp_path / "zip.csv", "zip,n\n007,1\n7,2\n"), asked("zip", "n"))
    assert cells(x) == {("007",): 1, ("7",): 2}


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "events.parquet"
    table = pd.read_csv(written(tmp_path / "events.csv", EVENTS))
    table.to_parquet(path)
    for options in (asked("dest,hour"), asked("dest,hour", "n")):
        assert cells(read_input(path, options)) == cells(read_input(tmp_path / "events.csv", options))


def test_a_wide_table_has_one_or_more_columns_of_labels(tmp_path: Path) -> None:
    text = "carrier,dest,6,7\nUA,BOS,1,2\nUA,SFO,3,4\nAA,BOS,5,6\n"
    X, origin = unwrap(read_input(written(tmp_path / "wide.csv", text), asked(wide=True)))
    labels = origin.of(X.shape)
    assert (labels.names, labels.levels_of(0).tolist()) == (("carrier", "dest", "column"), ["UA", "AA"])
    assert X.tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]  # counts: what is not listed is 0
    X, _ = unwrap(read_input(written(tmp_path / "half.csv", text.replace("1,2", "1.5,")), asked(wide=True)))
    np.testing.assert_array_equal(X, [[[1.5, np.nan], [3, 4]], [[5, 6], [np.nan, np.nan]]])


@pytest.mark.parametrize(
    ("name", "text", "words", "names", "level"),
    [
        ("wide.csv", "station,6h,7h\nmain,1,2\neast,3,\n", ("--wide",), ("station", "column"), "east"),
        ("rows.csv", EVENTS, ("--columns", "dest,hour", "--counts", "n"), ("dest", "hour"), "BOS"),
    ],
)
def test_labels_of_a_table_are_in_the_file_of_the_fit(
    name: str, text: str, words: tuple[str, ...], names: tuple[str, ...], level: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = written(tmp_path / name, text)
    code, _, err = run(monkeypatch, capsys, "fit", path, *words, "-b", "interactions(1)", "-o", tmp_path / "fit.npz")
    assert (code, err) == (0, "")
    labels = ld.load(tmp_path / "fit.npz").labels
    assert (labels.names, labels.level(0, 1)) == (names, level)


def as_netcdf(path: Path, **arrays: Any) -> Path:
    import xarray

    names = ["i", "j", "k"]
    parts = {key: (names, value) for key, value in arrays.items()}
    xarray.Dataset(parts, {"j": ["a", "b", "c"]}).to_netcdf(path, engine="h5netcdf")
    return path


def as_zarr(path: Path, **arrays: Any) -> Path:
    import zarr

    group = zarr.open_group(path, mode="w")
    for key, value in arrays.items():
        group.create_array(key, data=value)
    return path


def as_labelled_zarr(path: Path, **arrays: Any) -> Path:
    import xarray

    parts = {key: (["i", "j", "k"], value) for key, value in arrays.items()}
    xarray.Dataset(parts).to_zarr(path, consolidated=False)
    return path


def as_hdf5(path: Path, **arrays: Any) -> Path:
    import h5py

    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            file[key] = value
        file["text"] = "no array"
    return path


WRITERS: dict[str, tuple[str, Callable[..., Path]]] = {
    "netcdf": ("x.nc", as_netcdf),
    "zarr": ("x.zarr", as_zarr),
    "zarr with labels": ("y.zarr", as_labelled_zarr),
    "hdf5": ("x.h5", as_hdf5),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_arrays_of_other_programs(kind: str, tmp_path: Path) -> None:
    name, write = WRITERS[kind]
    path = write(tmp_path / name, flow=DENSE)
    np.testing.assert_array_equal(np.asarray(read_input(path)), DENSE)
    two = write(tmp_path / f"two_{name}", flow=DENSE, speed=2 * DENSE)
    np.testing.assert_array_equal(np.asarray(read_input(two, asked(variable="speed"))), 2 * DENSE)
    with pytest.raises(LegendreError, match=r"holds 2 arrays: flow, speed\. Choose one with --variable\."):
        read_input(two)
    with pytest.raises(LegendreError, match=r"unknown variable 'sped'; did you mean 'speed'\?"):
        read_input(two, asked(variable="sped"))


def test_netcdf_keeps_names_and_one_zarr_array_is_read(tmp_path: Path) -> None:
    import zarr

    x = read_input(as_netcdf(tmp_path / "x.nc", flow=DENSE))
    assert (x.dims, x.coords["j"].values.tolist()) == (("i", "j", "k"), ["a", "b", "c"])
    zarr.save_array(tmp_path / "one.zarr", DENSE)
    np.testing.assert_array_equal(read_input(tmp_path / "one.zarr"), DENSE)


@pytest.mark.parametrize(
    ("name", "package"),
    [("x.parquet", "pyarrow"), ("x.nc", "xarray"), ("x.zarr", "zarr"), ("x.h5", "h5py")],
)
def test_a_library_that_is_not_installed_is_named(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_bytes(b"")
    monkeypatch.setattr("legendre.cli.readers.find_spec", lambda key: None if key == package else find_spec(key))
    wanted = rf"reading \{Path(name).suffix} files needs {package}\. Install them with: pip install 'legendre\[files\]'"
    with pytest.raises(LegendreError, match=wanted):
        read_input(tmp_path / name)


REFUSED: dict[str, tuple[str, str, Options, str]] = {
    "an unknown column": ("x.csv", EVENTS, asked("dest,huor"), "unknown column 'huor'; did you mean 'hour'?"),
    "a column twice": ("x.csv", EVENTS, asked("dest,dest"), "columns must be a list of different columns"),
    "counts that are texts": (
        "x.csv",
        EVENTS,
        asked("dest", "tail"),
        "row 0 of column 'tail' holds 'a', not a",
    ),
    "a gap in a mode": ("x.csv", "a,n\nx,1\n,2\n", asked("a", "n"), "column 'a' is missing in row 1."),
    "no rows": ("x.csv", "a,b\n", asked("a"), "and rows must follow it"),
    "a header with a name twice": (
        "x.csv",
        "a,a\n1,2\n",
        asked("a"),
        "line 1 must name every column, each differently",
    ),
    "the same labels twice": ("x.csv", "r,p\nA,1\nA,2\n", asked(wide=True), "every line needs labels of its own in r"),
    "a label that is missing": ("x.csv", "r,p\nA,1\n,2\n", asked(wide=True), "every line needs labels of its own in r"),
    "a table without options": ("x.csv", EVENTS, asked(), "line 1 is a header (dest, hour, n, tail). Say what"),
    "columns of an array": ("x.npy", "", asked("a,b"), "--columns is for .csv, .parquet files. Leave it out."),
    "wide that is not a csv": ("x.tns", "1 1 2\n", asked(wide=True), "--wide is for .csv files. Leave it out."),
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
    import pandas as pd

    pd.DataFrame({"carrier": ["AA"], "dest": ["BOS"]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(LegendreError, match=r"is a table with the columns carrier, dest\. Name those that are modes"):
        read_input(tmp_path / "x.parquet")
    with pytest.raises(LegendreError, match=r"unknown column 'dst'; did you mean 'dest'\?"):
        read_input(tmp_path / "x.parquet", asked("carrier,dst"))


def test_fit_of_events_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = Path(ld.datasets.__file__).parent / "flights.csv"
    words = ("fit", source, "--columns", "carrier,dest,hour", "--counts", "n", "-b", "interactions(1)")
    code, out, err = run(monkeypatch, capsys, *words, "-o", tmp_path / "fit.npz")
    assert (code, err) == (0, "")
    assert "sum 336776" in out
    code, _, err = run(monkeypatch, capsys, *words[:3], "carrier,dst,hour", "-o", tmp_path / "fit.npz")
    assert (code, "did you mean 'dest'?" in err, err.count("\n")) == (2, True, 1)
