"""A tensor as the list of its positive entries, and the checks of indices and values that it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.cells import LIMIT, frozen, merged_cells
from legendre.core.errors import InvalidQuery
from legendre.core.html import fragment
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.origin import PLAIN, Form, Origin
from legendre.core.text_table import NamedValues, shortened
from legendre.core.types import AnyArray

MOST_MODES, MOST_LEVELS = 12, 8  # that a notebook shows by name
NameOfPlace = Callable[[int, int], str]  # names an index of the list: (row, mode) -> text


def check_indices(
    column: AnyArray, size: int | None, mode: int, place: NameOfPlace, error: type[ValueError]
) -> AnyArray:
    """Return the indices of one mode as integers >= 0, below the size if there is one."""
    if column.dtype.kind not in "biuf":
        what = f" = {column[0]!r}" if len(column) else ""
        raise error(
            f"{place(0, mode)}{what} has dtype {column.dtype}; indices are integers counted from 0. For names of "
            "levels see legendre.from_rows."
        )
    indices = column
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~((column == np.rint(column)) & (np.abs(column) < float(LIMIT)))
        if bad.any():
            row = int(np.argmax(bad))
            nan = np.isnan(column[row])
            rule = "NaN is no index: leave such rows out." if nan else "Indices are whole numbers below 2^63."
            raise error(f"{place(row, mode)} = {column[row]:g}. {rule}")
        indices = column.astype(np.int64)
    if not len(indices):
        return indices
    low, high = int(indices.min()), int(indices.max())
    if low < 0:
        raise error(f"{place(int(indices.argmin()), mode)} = {low}: indices count from 0, so none is negative.")
    if size is not None and high >= size:
        row = int(np.argmax(indices >= size))
        found = int(indices[row])
        raise error(
            f"{place(row, mode)} = {found}: mode {mode} has size {size}, so its indices run from 0 to {size - 1}."
        )
    if high >= LIMIT - 1:
        raise error(f"{place(int(indices.argmax()), mode)} = {high}: indices must be below 2^63 - 1.")
    return indices


def check_values(values: Any, n: int, name: str, context: Callable[[int], str], error: type[ValueError]) -> AnyArray:
    """Return n numbers >= 0 as float64, or int64 where they are integers whose sum fits."""
    numbers: AnyArray = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        hint = " If True counts as 1, pass it .astype(int)." if numbers.dtype.kind == "b" else ""
        raise error(f"{name} has dtype {numbers.dtype}; it must hold real numbers >= 0.{hint}")
    if numbers.shape != (n,):
        raise error(f"{name} has shape {numbers.shape}; there are {n} cells, so it must hold {n} numbers.")
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(numbers.sum(dtype=np.float64))
    if (n and not numbers.min() >= 0) or not np.isfinite(total):
        _refuse(numbers, name, context, error)
    return numbers.astype(np.float64 if numbers.dtype.kind == "f" or total >= LIMIT / 2 else np.int64, copy=False)


def _refuse(numbers: AnyArray, name: str, context: Callable[[int], str], error: type[ValueError]) -> None:
    """Raise an error about the first value that is not a number >= 0; a sum that overflows is refused elsewhere."""
    bad = ~((numbers >= 0) & (numbers < np.inf))
    if not bad.any():
        return
    row, count = int(np.argmax(bad)), int(bad.sum())
    if np.isnan(found := numbers[row]):
        way_out = (
            "A cell that is not listed is 0, so a list cannot say which cells are missing. Leave the entry out; if its "
            "cell is not to count as 0, leave that cell out of the support."
        )
    elif found > 0:
        way_out = "Entries must be finite."
    else:
        way_out = "X is read as unnormalised probabilities, so every entry must be >= 0."
    more = f" ({count} such entries in all)" if count > 1 else ""
    raise error(f"{name}[{row}] = {found:g}{context(row)}{more}. {way_out}")


@dataclass(frozen=True, eq=False, repr=False)
class SparseTensor:
    """A sparse tensor: its positive entries, sorted in C order, no cell twice; every other cell is 0.

    Made by `from_coords`, `from_rows` and `read_tns`, which check; the arrays are read-only.

    Parameters
    ----------
    cells
        Indices, nnz x N, counted from 0, in the smallest unsigned type that holds the shape; each mode's column is
        contiguous.
    values
        The entries, all > 0: float64, or int64 where whole numbers came in.
    shape
        The grid ``(I_1, ..., I_N)``.
    names
        What the modes are called, where the table they come from says so.
    levels
        For each mode the values that its indices 0, 1, ... stand for; ``None`` for modes that came as indices.
    library
        The library of the data frame that it was counted from, where there was one: answers go back there.
    ranked
        Modes whose levels have an order of their own: ordered categories. Others that are names are arranged where a
        basis grows.

    See Also
    --------
    from_coords : A sparse tensor from cells and values.
    from_rows : Count the rows of a table of events.
    read_tns : Read a text file of entries.

    Examples
    --------
    >>> import legendre as ld
    >>> x = ld.from_coords([[0, 1], [2, 0], [0, 1]], [1.0, 4.0, 0.5])
    >>> x
    SparseTensor: 2 entries > 0 of 6 cells (3 x 2), float64
    >>> x.cells.tolist(), x.values.tolist()
    ([[0, 1], [2, 0]], [1.5, 4.0])
    """

    cells: AnyArray
    values: AnyArray
    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None
    levels: tuple[AnyArray | None, ...] | None = None
    library: str | None = None
    ranked: tuple[int, ...] = ()

    @property
    def origin(self) -> Origin:
        """What answers should be like: Series for rows of pandas, data frames for those of other libraries."""
        if self.names is None and self.levels is None:
            return PLAIN
        labels = Labels(self.shape, self.names, self.levels)
        notes = self._rarely_repeated()
        if self.library is None:
            return Origin(labels, notes=notes, ranked=self.ranked)
        form: Form = "series" if self.library == "pandas" else "rows"
        return Origin(labels, form=form, library=self.library, notes=notes, ranked=self.ranked)

    def _rarely_repeated(self) -> tuple[str, ...]:
        """Name modes of events that have nearly a level for each of them, such as times to the second."""
        named = zip(self.names or (), self.levels or (), strict=False)
        long = [(name, len(own)) for name, own in named if own is not None and len(own) >= limits.MANY_LEVELS]
        if not long or self.values.dtype.kind not in "iu":
            return ()
        events = int(self.values.sum())
        return tuple(
            f"{name} has {n:,} levels for {events:,} events, so that hardly any repeats. If it is a time or a number, "
            "cut it into parts that do (hours, days, bins)."
            for name, n in long
            if events < 2 * n
        )

    @property
    def nnz(self) -> int:
        """The number of positive entries."""
        return len(self.values)

    @property
    def n_cells(self) -> int:
        """The number of cells of the grid, as a Python integer: it may be astronomical."""
        return math.prod(self.shape)

    def toarray(self) -> AnyArray:
        """Return the tensor as a dense array, zeros included.

        Examples
        --------
        >>> import legendre as ld
        >>> ld.from_coords([[0, 1], [1, 0]], [3, 4]).toarray().tolist()
        [[0, 3], [4, 0]]
        """
        if self.n_cells > limits.LARGEST_WRITTEN_OUT or len(self.shape) > limits.MOST_AXES:
            raise InvalidQuery(
                f"{self!r} is too large to be written out: at most {limits.LARGEST_WRITTEN_OUT:,} cells and "
                f"{limits.MOST_AXES} modes are."
            )
        full = np.zeros(self.shape, dtype=self.values.dtype)
        full[tuple(self.cells.T)] = self.values
        return full

    def _repr_html_(self) -> str:
        """Return size, sum and modes for a notebook."""
        cells = f"{self.n_cells:,}" if self.n_cells < LIMIT else size_name(self.n_cells)
        labels = Labels(self.shape, self.names, self.levels)
        rows = [
            ("entries > 0", f"{self.nnz:,} of {cells} cells, {self.values.dtype}"),
            ("sum", f"{self.values.sum(dtype=np.float64):.10g}"),
            *((labels.mode(k), _some_levels(labels, k)) for k in range(min(len(self.shape), MOST_MODES))),
        ]
        if more := len(self.shape) - MOST_MODES if len(self.shape) > MOST_MODES else 0:
            rows.append(("...", f"{more:,} modes more"))
        return fragment([NamedValues("Sparse tensor", rows)])

    def __repr__(self) -> str:
        entries = "1 entry" if self.nnz == 1 else f"{self.nnz:,} entries"
        cells = f"{self.n_cells:,}" if self.n_cells < LIMIT else size_name(self.n_cells)
        shape = " x ".join(map(str, self.shape if len(self.shape) <= 6 else (*self.shape[:4], "...", self.shape[-1])))
        modes = "" if len(self.shape) <= 6 else f", {len(self.shape)} modes"
        return f"SparseTensor: {entries} > 0 of {cells} cells ({shape}{modes}), {self.values.dtype}"


def _some_levels(labels: Labels, k: int) -> str:
    """Count the levels of a mode, and name some where they have labels."""
    n = labels.shape[k]
    counted = "1 level" if n == 1 else f"{n:,} levels"
    if labels.levels is None or labels.levels[k] is None:
        return counted
    named = ", ".join(labels.level(k, i) for i in range(min(n, MOST_LEVELS)))
    return f"{counted}: {shortened(named, 200)}{', ...' if n > MOST_LEVELS else ''}"


def assemble(
    columns: Sequence[AnyArray],
    values: AnyArray | None,
    shape: Sequence[int] | None,
    place: NameOfPlace,
    error: type[ValueError],
    names: tuple[str, ...] | None = None,
    levels: tuple[AnyArray | None, ...] | None = None,
    library: str | None = None,
) -> SparseTensor:
    """Check the indices, find the shape, leave zeros out, sort and merge; values have been checked."""
    sizes = check_shape(shape, len(columns), error)
    indices = [check_indices(c, None if sizes is None else sizes[k], k, place, error) for k, c in enumerate(columns)]
    if sizes is None:
        if not len(columns[0]):
            raise error("the list of cells is empty, so that it does not tell the shape. Pass shape.")
        sizes = tuple(int(column.max()) + 1 for column in indices)
    if values is not None and not values.all():
        listed = values > 0
        indices, values = [column[listed] for column in indices], values[listed]
    cells, numbers = merged_cells(indices, values, sizes)
    labels = tuple(None if level is None else frozen(level) for level in levels or ())
    named = any(level is not None for level in labels)
    own = numbers.copy() if numbers is values else numbers
    return SparseTensor(frozen(cells), frozen(own), sizes, names, labels if named else None, library)


def check_shape(shape: Sequence[int] | None, order: int, error: type[ValueError]) -> tuple[int, ...] | None:
    """Check a shape that the caller gives."""
    if shape is None:
        return None
    try:
        sizes = tuple(shape)
    except TypeError:
        raise error(f"shape must be a tuple with one size per mode, got {shape!r}.") from None
    if not all(is_whole(size, 1) and size < LIMIT for size in sizes):
        raise error(f"shape must hold integers >= 1, one per mode; got {shape!r}.")
    if len(sizes) != order:
        raise error(f"shape {sizes} has {len(sizes)} modes, the cells have {order} indices each.")
    return tuple(int(size) for size in sizes)
