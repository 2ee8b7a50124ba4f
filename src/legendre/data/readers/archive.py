"""Sparse arrays in .npz files: SciPy's, and the coordinate lists of pydata/sparse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from legendre.core.errors import InvalidFile
from legendre.core.types import AnyArray
from legendre.data.readers.other_libraries import as_sparse_tensor, check_fill, entries
from legendre.data.sparse_tensor import SparseTensor

SCIPY = {"format", "shape", "data"}
PYDATA = {"coords", "shape", "data", "fill_value"}


def is_sparse(names: Iterable[str]) -> bool:
    """Tell by the names of its arrays whether a file holds one sparse array.

    >>> is_sparse(["X"]), is_sparse(["coords", "data", "shape", "fill_value"])
    (False, True)
    """
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
    """SciPy's own checks tell whether indices fit the shape."""
    try:
        array = make(parts, shape=shape)
        if hasattr(array, "check_format"):
            array.check_format(full_check=True)
    except ValueError as problem:
        raise InvalidFile(f"its parts do not fit together ({problem}).") from None
    return array
