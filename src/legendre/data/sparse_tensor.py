"""`SparseTensor`, the list of a tensor's positive entries, and the checks of the indices and values it is made of."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.arguments import entries, is_whole
from legendre.core.cells import LIMIT, add_equal_cells, cell_name, first_cell, freeze
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels, Mode
from legendre.core.memory import size_name
from legendre.core.origin import PLAIN, Origin
from legendre.core.text import NamedValues, Printed, Table
from legendre.core.types import AnyArray, Shape, frozen


@frozen(repr=False)
class SparseTensor(Printed):
    """A sparse tensor: its positive entries, sorted in C order, no cell twice; every other cell is 0.

    `from_coords`, `from_rows` and `read_tns` make one, and check it. The arrays are read-only. ``np.asarray(x)`` is the
    dense array, zeros included; ``print(x)`` shows a small table of counts as a table, and of others the modes.

    Parameters
    ----------
    cells
        Indices, nnz x N, counted from 0, in the smallest unsigned type that holds the shape; each mode's column is
        contiguous.
    values
        The entries, all > 0: float64, or int64 if they were given as integers.
    shape
        The grid ``(I_1, ..., I_N)``.
    origin
        The object that it was counted from: its names of modes and levels, its library, and notes on how it was read.
        Answers of a fit have the same form.

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
    >>> print(ld.datasets.titanic().margin(["class", "survived"]))
    class  no  yes
    1st   122  203
    2nd   167  118
    3rd   528  178
    crew  673  212
    """

    cells: AnyArray
    values: AnyArray
    shape: Shape
    origin: Origin = PLAIN

    @property
    def _labels(self) -> Labels:
        """What the modes and levels are called; methods look names up in it, also where there are none."""
        return self.origin.of(self.shape)

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the modes are called, where the table they come from says so."""
        return self._labels.names

    @property
    def levels(self) -> tuple[AnyArray | None, ...] | None:
        """For each mode the values that its indices 0, 1, ... stand for; ``None`` for modes that came as indices."""
        return self._labels.levels

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how the data were read."""
        return self.origin.notes

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
                f"{self!r} is too large for a dense array: the limit is {limits.LARGEST_WRITTEN_OUT:,} cells and "
                f"{limits.MOST_AXES} modes."
            )
        full = np.zeros(self.shape, dtype=self.values.dtype)
        full[tuple(self.cells.T)] = self.values
        return full

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        """Return the dense array that ``np.asarray`` asks for."""
        del copy  # it is always a new array
        return self.toarray().astype(dtype or self.values.dtype, copy=False)

    def margin(self, columns: Mode | Sequence[Hashable]) -> SparseTensor:
        """Return the tensor of some modes, in the order given, summed over the others."""
        kept = self._labels.find_modes(columns, "margin")
        if not kept:
            raise InvalidQuery(f"margin({columns!r}): name one mode or more.")
        cells, shape = [self.cells[:, k] for k in kept], tuple(self.shape[k] for k in kept)
        return merge(cells, self.values, shape, self.origin.part(kept))

    def to_frame(self, values: str = "count") -> Any:
        """Return a pandas data frame with a row for each cell, zeros included."""
        return replace(self.origin, labels=self._labels, form="rows").give(self.toarray(), what=values)

    def tables(self) -> list[Table]:
        """Lay out a small table of counts, the last mode across and the others down.

        Without names, or with more than 400 cells or 12 columns, or if the entries are not integers: the first 12
        modes and their numbers of levels.
        """
        labels, last = self._labels, len(self.shape) - 1
        if self.names is None or self.n_cells > 400 or self.shape[last] > 12 or self.values.dtype.kind != "i":
            return [NamedValues(repr(self), [(labels.mode(k), f"{n:,} levels") for k, n in enumerate(self.shape[:12])])]
        counts = self.toarray()
        rows = [[*(labels.mode(k) for k in range(last)), *(labels.level(last, i) for i in range(self.shape[last]))]]
        for place in np.ndindex(*self.shape[:last]):
            # a level is written only in the first of the rows that share it, where all later modes are at level 0
            down = [labels.level(k, i) if k == last - 1 or not any(place[k + 1 :]) else "" for k, i in enumerate(place)]
            rows.append([*down, *(f"{n:,}" for n in counts[place])])
        return [Table("", rows, "<" * last + ">", notes=self.notes)]

    def __str__(self) -> str:
        """Return what ``print`` shows: the summary."""
        return self.summary()

    def __repr__(self) -> str:
        """Say how many entries of how many cells are positive; of many modes the first four sizes and the last."""
        counted = "1 entry" if self.nnz == 1 else f"{self.nnz:,} entries"
        many = len(self.shape) > 6
        shape = " x ".join(map(str, (*self.shape[:4], "...", self.shape[-1]) if many else self.shape))
        modes = f", {len(self.shape)} modes" if many else ""
        return f"SparseTensor: {counted} > 0 of {size_name(self.n_cells)} cells ({shape}{modes}), {self.values.dtype}"


def assemble(
    columns: Sequence[AnyArray],
    values: AnyArray | None,
    shape: Sequence[int] | None,
    error: type[ValueError],
    cells_name: str,
    values_name: str,
) -> SparseTensor:
    """Check cells, given by a column of indices for each mode, and their values; make a tensor of them.

    Without values each cell counts once. Without a shape it is the smallest that holds the cells. Errors are of type
    `error`, begin with `cells_name` or `values_name`, and name the entry.
    """
    numbers = None if values is None else check_values(values, len(columns[0]), values_name, error, columns)
    sizes = None if shape is None else tuple(entries(shape) or ())
    if sizes is not None and (
        len(sizes) != len(columns) or not all(is_whole(size, 1) and size < LIMIT for size in sizes)
    ):
        raise error(
            f"shape must hold an integer >= 1 for each of the {len(columns)} modes of the cells; got {shape!r}."
        )
    indices = [
        check_indices(column, LIMIT - 1 if sizes is None else sizes[k], f"{cells_name}the index of mode {k}", error)
        for k, column in enumerate(columns)
    ]
    if sizes is None:
        if not len(columns[0]):
            raise error("the list of cells is empty and does not determine the shape. Pass shape.")
        sizes = tuple(int(column.max()) + 1 for column in indices)  # as Python integers: a byte would overflow
    return merge(indices, numbers, tuple(map(int, sizes)))


def merge(indices: Sequence[AnyArray], values: AnyArray | None, shape: Shape, origin: Origin = PLAIN) -> SparseTensor:
    """Make a tensor of checked cells, which may occur more than once: leave out zeros, sort, and add equal cells.

    `indices` has a column for each mode; without `values` each cell counts 1.
    """
    if values is not None and not values.all():
        listed = values > 0
        indices, values = [column[listed] for column in indices], values[listed]
    cells, numbers = add_equal_cells(indices, values, shape)
    numbers = numbers.copy() if numbers is values else numbers  # never freeze the caller's array
    return SparseTensor(freeze(cells), freeze(numbers), shape, origin)


def check_indices(column: AnyArray, size: int, name: str, error: type[ValueError]) -> AnyArray:
    """Return the indices of one mode as integers; refuse those that are not in 0, ..., size - 1.

    Floats that are integers are accepted. `name` begins the error.
    """
    if column.dtype.kind not in "biuf":
        raise error(
            f"{name} has dtype {column.dtype}; indices are integers counted from 0. Names of levels are read by "
            "legendre.from_rows, without their number."
        )
    indices = column
    if column.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # NaN and infinity become some integer, which differs from them
            indices = column.astype(np.int64)
        if bad := first_cell(indices != column):
            raise error(f"{name} is {column[bad]:g} in entry {bad[0]}. Indices are whole numbers.")
    if bad := first_cell((indices < 0) | (indices >= size)):
        raise error(f"{name} is {int(indices[bad])} in entry {bad[0]}; it must lie between 0 and {size - 1}.")
    return indices


def check_values(values: Any, n: int, name: str, error: type[ValueError], columns: Sequence[AnyArray] = ()) -> AnyArray:
    """Return n numbers >= 0 as int64 if they are integers whose sum fits, else as float64.

    `name` begins the error; `columns` has a column of indices for each mode, from which it names the cell.
    """
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        hint = " If True counts as 1, pass it .astype(int)." if numbers.dtype.kind == "b" else ""
        raise error(f"{name} has dtype {numbers.dtype}; it must hold real numbers >= 0.{hint}")
    if numbers.shape != (n,):
        raise error(f"{name} has shape {numbers.shape}; it must hold {n} numbers.")
    if bad := first_cell(~((numbers >= 0) & (numbers < np.inf))):
        rule = "X is read as unnormalised probabilities, so every entry must be finite and >= 0."
        if np.isnan(found := numbers[bad]):
            rule = (
                "A cell that is not listed is 0, so a list cannot say which cells are missing. Leave the entry out; if "
                "its cell is not to count as 0, leave that cell out of the support."
            )
        cell = f", the value of cell {cell_name([column[bad] for column in columns])}" if columns else ""
        raise error(f"{name}[{bad[0]}] = {found:g}{cell}. {rule}")
    # half the limit of int64: the float64 sum itself is rounded
    fits_int64 = numbers.dtype.kind in "iu" and float(numbers.sum(dtype=np.float64)) < LIMIT / 2
    return numbers.astype(np.int64 if fits_int64 else np.float64, copy=False)
