"""Arrays in files of other programs: netCDF and zarr through xarray, HDF5 through h5py, MATLAB's through SciPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from legendre.cli.pick_array import chosen, needs
from legendre.core.errors import InvalidFile, LegendreError
from legendre.core.types import AnyArray

NUMBERS = "biuf"  # kinds of numbers that a tensor can have


def read_array_file(path: Path, variable: str | None) -> Any:
    """Read one array, with names and levels where the file has them."""
    with _told(path):
        match path.suffix.lower():
            case ".nc":
                return _netcdf(path, variable)
            case ".zarr":
                return _zarr(path, variable)
            case ".mat":
                return _matlab(path, variable)
            case _:
                return _hdf5(path, variable)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn whatever a reader raises into a sentence: each library has errors of its own."""
    try:
        yield
    except (LegendreError, MemoryError):
        raise
    except Exception as problem:
        said = (str(problem).strip() or type(problem).__name__).splitlines()[0]
        raise InvalidFile(f"cannot read {path}: {said.rstrip('.')}.") from None


def _netcdf(path: Path, variable: str | None) -> Any:
    needs(path, "xarray", "h5netcdf")
    import xarray

    with xarray.open_dataset(path) as dataset:
        return _variable(path, dataset, variable)


def _zarr(path: Path, variable: str | None) -> Any:
    needs(path, "zarr")
    import zarr

    store = zarr.open(path, mode="r")
    if isinstance(store, zarr.Array):
        if variable is not None:
            raise InvalidFile(f"{path} holds one array, without a name. Leave --variable {variable!r} out.")
        return np.asarray(store[...])
    if find_spec("xarray") is not None:
        import xarray

        try:
            dataset = xarray.open_dataset(path, engine="zarr", consolidated=False)
        except (KeyError, ValueError):  # arrays without names of their modes
            dataset = None
        if dataset is not None:
            with dataset:
                return _variable(path, dataset, variable)
    arrays = {name: array for name, array in store.arrays() if array.dtype.kind in NUMBERS}
    return np.asarray(arrays[chosen(path, sorted(arrays), variable)][...])


def _variable(path: Path, dataset: Any, variable: str | None) -> Any:
    """Read a variable of a dataset of xarray, with its coordinates."""
    names = [str(name) for name, array in dataset.data_vars.items() if array.dtype.kind in NUMBERS and array.ndim]
    return dataset[chosen(path, sorted(names), variable)].load()


def _hdf5(path: Path, variable: str | None) -> AnyArray:
    needs(path, "h5py")
    import h5py

    with h5py.File(path, "r") as file:
        return np.asarray(file[chosen(path, _datasets(file), variable)][()])


def _datasets(file: Any) -> list[str]:
    """List the arrays of numbers in an HDF5 file, those in groups by their path."""
    import h5py

    found: list[str] = []

    def visit(name: str, item: Any) -> None:
        inside = name.startswith("#")  # where MATLAB keeps the parts of its cells
        if isinstance(item, h5py.Dataset) and item.dtype.kind in NUMBERS and item.shape and not inside:
            found.append(name)

    file.visititems(visit)
    return sorted(found)


def _matlab(path: Path, variable: str | None) -> Any:
    from scipy.io import loadmat, whosmat

    try:
        names = [name for name, _, kind in whosmat(path) if kind not in ("char", "cell", "struct", "object", "unknown")]
    except NotImplementedError:  # version 7.3 is HDF5, with the modes in reverse order
        return _hdf5(path, variable).T
    name = chosen(path, names, variable)
    return loadmat(path, variable_names=[name])[name]
