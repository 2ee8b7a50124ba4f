"""X as a row of slices, one for each sample: read block by block, checked, and divided by their sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core.arguments import entries, is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dask.observation import is_dask
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.readers.labelled import opened


@dataclass(frozen=True, eq=False)
class Slices:
    """X of shape (n, ...), whose first mode numbers the samples; or n rows, each a slice written out in C order."""

    values: Any  # whatever can be cut along its first mode: an array in memory or on disk, of dask, a sparse matrix
    shape: tuple[int, ...]  # of one slice
    n: int
    names: list[str] | None = None  # of the columns of a data frame
    index: Any = None  # of the rows of a pandas data frame
    labels: Labels | None = None  # of the modes of a slice, where X has some

    @classmethod
    def read(cls, X: Any, shape: Any) -> Slices:
        """Find samples and their shape, `shape` if it is given; nothing is computed, and no block is read."""
        names, index = None, None
        X, labels = _held(X)
        if hasattr(X, "columns") and hasattr(X, "to_numpy"):
            columns = list(X.columns)
            names = columns if all(isinstance(name, str) for name in columns) else None
            X, index = X.to_numpy(), getattr(X, "index", None)
        elif hasattr(X, "tocsr"):
            X = X.tocsr()
        elif not (is_dask(X) or hasattr(X, "chunks")):
            X = rectangular(X, "X", InvalidSamples)
        if X.dtype.kind == "O":
            X = _numbers(X)
        if X.dtype.kind not in "biuf":
            said = "Complex data not supported: X has" if X.dtype.kind == "c" else "X has"
            raise InvalidSamples(f"{said} dtype {X.dtype}; a slice holds nonnegative real numbers.")
        if len(X.shape) < 2:
            raise InvalidSamples(
                f"Expected 2D array, got {len(X.shape)}D array instead: X has shape {X.shape}. Its first mode numbers "
                "the samples. Reshape your data: one sample is X[None]."
            )
        found = tuple(int(length) for length in X.shape[1:])
        if 0 in X.shape:
            counted = f"{X.shape[0]} sample(s) and {math.prod(found)} feature(s) (shape={tuple(X.shape)})"
            raise InvalidSamples(f"Found array with {counted} while a minimum of 1 is required.")
        return cls(X, _shape_of_a_slice(found, shape), int(X.shape[0]), names, index, labels)

    def unlike(self, seen: Labels | None) -> str | None:
        """Name the first mode of the slices that is called otherwise than `seen`, or whose levels are; if any is."""
        if seen is None or self.labels is None:
            return None
        for k, (one, other) in enumerate(zip(self.labels.names or (), seen.names or (), strict=False)):
            if one != other:
                return f"mode {other!r} of its slices is called {one!r}"
            if not np.array_equal(self.labels.levels_of(k), seen.levels_of(k)):
                return f"the levels of {one!r} are others, or in another order"
        return None

    @property
    def n_cells(self) -> int:
        """The number of cells of a slice."""
        return math.prod(self.shape)

    def blocks(self, numbers: int, name: str) -> Iterator[FloatArray]:
        """Yield slices that have been checked, as many at a time as have that many numbers together; at least one."""
        rows = max(1, numbers // self.n_cells)
        for first in range(0, self.n, rows):
            yield self._checked(self.values[first : first + rows], np.arange(first, min(first + rows, self.n)), name)

    def some(self, numbers: int, least: int, name: str) -> FloatArray:
        """Return slices that have been checked: evenly spaced ones, `least` or as many as have that many numbers."""
        kept = min(self.n, max(least, numbers // self.n_cells))
        rows = np.unique(np.linspace(0, self.n - 1, kept).astype(np.int64))
        return self._checked(self.values[rows], rows, name)

    def _checked(self, part: Any, rows: IntArray, name: str) -> FloatArray:
        """Return a block as float64; `rows` are the numbers of its samples, `name` is that of the estimator."""
        dense = np.asarray(part.toarray() if hasattr(part, "toarray") else part, dtype=np.float64)
        flat = dense.reshape(len(rows), -1)
        if not np.isfinite(flat).all():
            place = _place(~np.isfinite(flat), rows, dense)
            raise InvalidSamples(
                f"Input X contains NaN or infinity, first at {place}. Leave such samples out, or fill them with "
                "`complete` first."
            )
        if (flat < 0).any():
            raise InvalidSamples(
                f"Negative values in data passed to {name}: {_place(flat < 0, rows, dense)} is below 0. A slice is a "
                "distribution up to its sum."
            )
        return dense.reshape(len(rows), *self.shape)


def _held(X: Any) -> tuple[Any, Labels | None]:
    """Take X out of an object with labels, and write lists of entries out; matrices in rows are read block by block."""
    labels = None
    if type(X).__name__ in ("DataArray", "Series", "SparseTensor"):
        X, origin = opened(X)
        labels = None if origin.labels is None else origin.labels.part(range(1, len(origin.labels.shape)))
    if hasattr(X, "tocsr") and X.ndim == 2:
        return X, labels
    listed = as_sparse_tensor(X)
    return (X if listed is None else listed.toarray()), labels


def distributions(values: FloatArray, alpha: float) -> FloatArray:
    """Divide each slice by its sum, and mix in an even one, whose share is alpha; an empty slice is taken as even."""
    modes = tuple(range(1, values.ndim))
    top = values.max(axis=modes, keepdims=True)
    p = np.where(top > 0, values, 1.0) / np.where(top > 0, top, 1.0)  # so that no sum overflows
    p /= p.sum(axis=modes, keepdims=True)
    if alpha > 0:
        p *= 1.0 - alpha
        p += alpha / math.prod(values.shape[1:])
    return p


def shares(values: FloatArray) -> FloatArray:
    """Return the share of each slice in the sum of all."""
    flat = values.reshape(len(values), -1)
    top = float(flat.max())
    if top == 0:
        raise InvalidSamples("X is 0 everywhere: there is nothing to choose a basis by.")
    sums = (flat / top).sum(axis=1)
    return np.asarray(sums / sums.sum())


def _numbers(X: AnyArray) -> AnyArray:
    try:
        return X.astype(np.float64)
    except ValueError as problem:  # a TypeError, of objects that are not even texts, says enough
        raise InvalidSamples(f"X holds texts that are no numbers: {problem}.") from None


def _shape_of_a_slice(found: tuple[int, ...], shape: Any) -> tuple[int, ...]:
    if shape is None:
        return found
    listed = [shape] if is_whole(shape, 1) else entries(shape)
    if not listed or not all(is_whole(length, 1) for length in listed):
        raise InvalidSetting(f"shape must list the lengths of a slice, such as (8, 8); got {shape!r}.")
    asked = tuple(int(length) for length in listed)
    if found not in (asked, (math.prod(asked),)):
        raise InvalidSamples(
            f"X has {math.prod(found)} features, samples of shape {found}; shape={asked} asks for {math.prod(asked)} "
            "in each."
        )
    return asked


def _place(bad: AnyArray, rows: IntArray, dense: AnyArray) -> str:
    row, cell = (int(i) for i in np.argwhere(bad)[0])
    inside = np.unravel_index(cell, dense.shape[1:])
    return f"X[{', '.join(map(str, (int(rows[row]), *map(int, inside))))}] = {dense[(row, *inside)]:g}"
