"""Sparse arrays of other libraries, in memory and in .npz files.

They are recognised without importing any library: an object of its own shows that it is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidFile, InvalidTensor
from legendre.core.types import AnyArray
from legendre.data.sparse_tensor import SparseTensor, assemble, check_values


def as_sparse_tensor(X: object) -> SparseTensor | None:
    """Read a sparse array of SciPy, pydata/sparse or pyttb; ``None`` says that X is nothing of the kind."""
    if isinstance(X, SparseTensor):
        return X
    for module, base, read in (
        ("scipy.sparse", ("spmatrix", "sparray"), _scipy),
        ("sparse", ("SparseArray",), _pydata),
        ("pyttb", ("sptensor",), _pyttb),
    ):
        loaded = sys.modules.get(module)
        kinds = tuple(kind for name in base if isinstance(kind := getattr(loaded, name, None), type))
        if isinstance(X, kinds):
            return read(X)
    return None


def entries(columns: Sequence[AnyArray], values: AnyArray, shape: Sequence[int]) -> SparseTensor:
    """Read the stored entries of a sparse X; a bad value is named by its cell."""

    def context(row: int) -> str:
        return f", stored for X{cell_name([column[row] for column in columns])}"

    if np.asarray(values).dtype.kind == "b":
        raise InvalidTensor("X is boolean. If True counts as 1, pass X.astype(int); if it marks cells, as support.")
    numbers = check_values(values, len(columns[0]), "X.data", context, InvalidTensor)
    if 0 in shape:
        raise InvalidTensor(f"X is empty: its shape is {tuple(shape)}. Every mode needs at least one level.")
    return assemble(columns, numbers, shape, lambda row, mode: f"X.coords[{mode}][{row}]", InvalidTensor)


def check_fill(fill: Any) -> None:
    """Refuse a sparse X whose unlisted cells are not 0."""
    if fill != 0:
        raise InvalidTensor(
            f"X has fill_value {fill}: the cells that are not listed have that value, so X is not sparse here. "
            "Pass X.todense() if it fits, or a sparse array that fills with 0."
        )


def _scipy(X: Any) -> SparseTensor:
    listed = X.tocoo()
    return entries(listed.coords, listed.data, listed.shape)


def _pydata(X: Any) -> SparseTensor:
    check_fill(X.fill_value)
    listed = X if hasattr(X, "coords") else X.to_coo() if hasattr(X, "to_coo") else X.tocoo()
    return entries(list(listed.coords), listed.data, listed.shape)


def _pyttb(X: Any) -> SparseTensor:
    subs = np.asarray(X.subs).reshape(-1, len(X.shape))
    return entries(list(subs.T), np.asarray(X.vals).reshape(-1), X.shape)


SCIPY = {"format", "shape", "data"}
PYDATA = {"coords", "shape", "data", "fill_value"}


def is_sparse(names: Iterable[str]) -> bool:
    """Whether a file with arrays of these names holds one sparse array."""
    found = set(names)
    return found >= SCIPY or found >= PYDATA


def read_archive(arrays: Mapping[str, AnyArray]) -> SparseTensor:
    """Read what ``scipy.sparse.save_npz`` or ``sparse.save_npz`` (COO) wrote."""
    try:
        shape = tuple(int(size) for size in arrays["shape"])
        if not set(arrays) >= SCIPY:
            check_fill(arrays["fill_value"].item())
            return entries(list(arrays["coords"]), arrays["data"], shape)
        listed = as_sparse_tensor(_scipy_array(arrays, shape))
    except (KeyError, IndexError, TypeError, AttributeError) as problem:
        raise InvalidFile(f"its parts do not fit together ({problem}).") from None
    assert listed is not None
    return listed


def _scipy_array(arrays: Mapping[str, AnyArray], shape: tuple[int, ...]) -> Any:
    import scipy.sparse

    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else kind
    if kind == "coo":
        coords = arrays["coords"] if "coords" in arrays else (arrays["row"], arrays["col"])
        return _built(scipy.sparse.coo_array, (arrays["data"], tuple(coords)), shape)
    if kind in ("csr", "csc", "bsr"):
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        return _built(getattr(scipy.sparse, f"{kind}_array"), parts, shape)
    if kind == "dia":
        return _built(scipy.sparse.dia_array, (arrays["data"], arrays["offsets"]), shape)
    raise InvalidFile(f"its format is {kind!r}; csr, csc, coo, bsr and dia can be read.")


def _built(make: Any, parts: Any, shape: tuple[int, ...]) -> Any:
    """Make an array of SciPy, which checks whether indices fit the shape."""
    try:
        array = make(parts, shape=shape)
        if hasattr(array, "check_format"):
            array.check_format(full_check=True)
    except ValueError as problem:
        raise InvalidFile(f"its parts do not fit together ({problem}).") from None
    return array
