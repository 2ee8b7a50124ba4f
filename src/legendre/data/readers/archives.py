"""Sparse arrays in .npz files of SciPy and pydata/sparse.

They are put together here, in NumPy: SciPy's compiled code takes the parts on trust, and damaged ones make it write
outside its memory. Nothing is larger than a few times the arrays of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from legendre.core.errors import InvalidFile, LegendreError
from legendre.core.types import AnyArray, IntArray
from legendre.data.readers.coordinates import check_fill, entries
from legendre.data.sparse_tensor import SparseTensor

INDICES = {"shape", "coords", "row", "col", "indices", "indptr", "offsets"}  # arrays of integers in such files
SCIPY = {"format", "shape", "data"}  # arrays in a file of scipy.sparse.save_npz
Listed = tuple[list[AnyArray], AnyArray]  # a column of indices for each mode, and the values


def is_sparse(names: Iterable[str]) -> bool:
    """Whether a file with arrays of these names holds one sparse array."""
    return set(names) >= SCIPY or set(names) >= {"coords", "shape", "data", "fill_value"}


def read_archive(arrays: Mapping[str, AnyArray]) -> SparseTensor:
    """Read what ``scipy.sparse.save_npz`` or ``sparse.save_npz`` (COO) wrote."""
    try:
        for name in sorted(INDICES & set(arrays)):
            if arrays[name].dtype.kind not in "iu":
                raise ValueError(f"{name} has dtype {arrays[name].dtype}")
        shape = tuple(int(size) for size in arrays["shape"])
        if "fill_value" in arrays:  # of pydata/sparse, whose later versions tell the format as SciPy does
            check_fill(arrays["fill_value"].item())
        if not set(arrays) >= SCIPY:
            return entries(list(arrays["coords"]), arrays["data"], shape)
        columns, values = _scipy(arrays, shape)
        for mode, (column, size) in enumerate(zip(columns, shape, strict=True)):
            if len(column) != len(values) or (len(column) and not 0 <= column.min() <= column.max() < size):
                raise ValueError(f"the indices of mode {mode} are outside, or not as many as the values")
        return entries(columns, values, shape)
    except LegendreError:
        raise
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        raise InvalidFile(f"its parts do not fit together ({problem}).") from None


def _scipy(arrays: Mapping[str, AnyArray], shape: tuple[int, ...]) -> Listed:
    """List the entries of an array of SciPy, by its form."""
    kind, values = arrays["format"].item(), arrays["data"]
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind == "coo":
        return list(arrays["coords"] if "coords" in arrays else (arrays["row"], arrays["col"])), values
    if kind in ("csr", "csc"):
        line = _lines(arrays, 1 if len(shape) == 1 else shape[0 if kind == "csr" else -1], len(values))
        if len(shape) == 1:
            return [arrays["indices"]], values
        return [line, arrays["indices"]][:: 1 if kind == "csr" else -1], values
    if kind == "bsr":
        return _blocks(arrays, shape)
    if kind == "dia":
        return _diagonals(arrays, shape)
    raise InvalidFile(f"its format is {kind!r}; csr, csc, coo, bsr and dia can be read.")


def _lines(arrays: Mapping[str, AnyArray], count: int, n_entries: int) -> IntArray:
    """Tell in which row (column, block of rows) each entry stands: `indptr` says where each begins and ends."""
    ends = arrays["indptr"].astype(np.int64)
    lengths = np.diff(ends)
    whole = ends.ndim == 1 and len(ends) > 1 and ends[0] == 0 and ends[-1] == n_entries and (lengths >= 0).all()
    if not whole or len(lengths) != count:
        raise ValueError("indptr does not cut the entries into rows")
    return np.repeat(np.arange(len(lengths)), lengths)


def _blocks(arrays: Mapping[str, AnyArray], shape: tuple[int, ...]) -> Listed:
    """List the entries of small dense blocks."""
    values = arrays["data"]
    n_blocks, height, width = values.shape
    if min(height, width) < 1 or shape[0] % height or len(arrays["indices"]) != n_blocks:
        raise ValueError(f"blocks of {height} x {width} do not tile the grid")
    row = _lines(arrays, shape[0] // height, n_blocks)[:, None, None] * height + np.arange(height)[:, None]
    column = arrays["indices"].astype(np.int64)[:, None, None] * width + np.arange(width)
    rows, columns = (np.broadcast_to(index, values.shape).reshape(-1) for index in (row, column))
    return [rows, columns], values.reshape(-1)


def _diagonals(arrays: Mapping[str, AnyArray], shape: tuple[int, ...]) -> Listed:
    """List the entries of diagonals: the k-th of `data` holds, at j, the entry of row j - offset and column j."""
    values, offsets = arrays["data"], arrays["offsets"].astype(np.int64)
    n_diagonals, length = values.shape
    if offsets.shape != (n_diagonals,) or len(shape) != 2 or len(np.unique(offsets)) < n_diagonals:
        raise ValueError(f"{offsets.shape} offsets for {n_diagonals} diagonals")
    columns = np.broadcast_to(np.arange(length), values.shape)
    rows = columns - offsets[:, None]
    inside = (rows >= 0) & (rows < shape[0]) & (columns < shape[1]) & (values != 0)
    return [rows[inside], columns[inside]], values[inside]
