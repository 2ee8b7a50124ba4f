"""Sparse arrays of other libraries, recognised without importing any: an object of theirs shows that it is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidTensor
from legendre.core.types import AnyArray
from legendre.data.entry_checks import check_values
from legendre.data.sparse_tensor import SparseTensor, assemble


def as_sparse_tensor(X: object) -> SparseTensor | None:
    """Read a sparse array of SciPy, pydata/sparse or pyttb; ``None`` says that X is nothing of the kind.

    >>> from scipy.sparse import coo_array
    >>> as_sparse_tensor(coo_array([[0, 5, 0], [7, 0, 0]]))
    SparseTensor: 2 entries > 0 of 6 cells (2 x 3), int64
    >>> as_sparse_tensor(np.eye(2)) is None
    True
    """
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
