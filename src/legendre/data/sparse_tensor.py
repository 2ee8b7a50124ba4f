"""A tensor as the list of its positive entries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.cells import LIMIT, frozen, merged_cells
from legendre.core.errors import InvalidQuery
from legendre.core.memory import size_name
from legendre.core.types import AnyArray
from legendre.data.entry_checks import NameOfPlace, check_indices, shape_text


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

    @property
    def nnz(self) -> int:
        """The number of positive entries."""
        return len(self.values)

    @property
    def n_cells(self) -> int:
        """The number of cells of the grid, as a Python integer: it may be astronomical."""
        return math.prod(self.shape)

    def toarray(self) -> AnyArray:
        """Write the tensor out, zeros and all.

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

    def __repr__(self) -> str:
        entries = "1 entry" if self.nnz == 1 else f"{self.nnz:,} entries"
        cells = f"{self.n_cells:,}" if self.n_cells < LIMIT else size_name(self.n_cells)
        return f"SparseTensor: {entries} > 0 of {cells} cells ({shape_text(self.shape)}), {self.values.dtype}"


def assemble(
    columns: Sequence[AnyArray],
    values: AnyArray | None,
    shape: Sequence[int] | None,
    place: NameOfPlace,
    error: type[ValueError],
    names: tuple[str, ...] | None = None,
    levels: tuple[AnyArray | None, ...] | None = None,
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
    labels = None if levels is None else tuple(None if level is None else frozen(level) for level in levels)
    return SparseTensor(frozen(cells), frozen(_own(numbers, values)), sizes, names, labels)


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


def _own(numbers: AnyArray, given: AnyArray | None) -> AnyArray:
    return numbers.copy() if numbers is given else numbers
