"""The paper's bases B1, B2(l) and B3(l) (its Section 3), for any order; all keep B inside Omega+."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from legendre.basis.basis import ROOM, Basis
from legendre.core import limits
from legendre.core.arguments import check_int
from legendre.core.cells import unique_cells
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room
from legendre.core.types import IntArray
from legendre.data.observation import Observation

# Cells whose coordinates run through given levels (``None``: all) in some modes and are 0 elsewhere.
Parallel = dict[int, IntArray | None]


@dataclass(frozen=True)
class B1(Basis):
    """The axes of the grid: cells with at most one coordinate away from 0. It fits each mode's margins.

    See Also
    --------
    B2 : The paper's basis of regular rows and columns.
    B3 : The paper's basis of the largest entries.
    interactions : All that sets of modes do together.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> B1().select(observe(np.ones((3, 2)))).tolist()
    [[0, 1], [1, 0], [2, 0]]
    """

    def select(self, data: Observation) -> IntArray:
        return _lines(data, [{k: None} for k in range(len(data.support.shape))])


@dataclass(frozen=True, repr=False)
class _Sliced(Basis):
    """A basis of l rows, columns or entries of each slice along a mode."""

    l: int  # noqa: E741 - the paper's name
    axis: Mode = -1

    def __post_init__(self) -> None:
        name = type(self).__name__
        check_int(self.l, f"{name}(l): l", 1, InvalidBasis)
        if not isinstance(self.axis, str):
            check_int(self.axis, f"{name}: axis (a number or the name of a mode)", -(1 << 31), InvalidBasis)

    def __repr__(self) -> str:
        axis = self.axis if isinstance(self.axis, str) else int(self.axis)
        return f"{type(self).__name__}(l={int(self.l)}, axis={axis!r})"

    def _slices(self, shape: tuple[int, ...], data: Observation | None = None) -> int:
        """Return the mode that numbers the slices, counted from 0."""
        if not isinstance(self.axis, str) and -len(shape) <= self.axis < len(shape):
            return int(self.axis) % len(shape)
        labels = Labels(shape) if data is None else data.labels
        return labels.find_mode(self.axis, f"{type(self).__name__}: axis={self.axis!r}", InvalidBasis)


@dataclass(frozen=True, repr=False)
class B2(_Sliced):
    """Rows and columns of each slice: one in-slice coordinate in C_k(l), the others 0, every slice.

    ``C_k(l) = {c * floor(I_k / l) : c = 1..l}``, counted from 1 as in the paper. Where ``l > I_k`` every index is in.

    Parameters
    ----------
    l
        How many rows (and how many columns) of a slice.
    axis
        The mode that numbers the slices, by number or name; the paper's is the third.

    See Also
    --------
    B1 : The paper's basis of single modes.
    B3 : The paper's basis of the largest entries.
    adaptive : A basis that the data choose.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> B2(1).select(observe(np.ones((2, 3, 2)))).tolist()
    [[0, 2, 0], [0, 2, 1], [1, 0, 0], [1, 0, 1]]
    """

    def select(self, data: Observation) -> IntArray:
        slices = self._slices(data.support.shape, data)
        counts = {k: min(int(self.l), length) for k, length in enumerate(data.support.shape) if k != slices}
        chosen = {k: np.arange(1, n + 1) * (data.support.shape[k] // n) - 1 for k, n in counts.items()}
        return _lines(data, [{k: levels, slices: None} for k, levels in chosen.items()])


@dataclass(frozen=True, repr=False)
class B3(_Sliced):
    """The l largest entries of each slice. Of equal entries the one first in C order.

    Each kind of X ranks its own (`Observation.largest`), of equal entries those first in C order. Only cells of the
    support compete; the bottom competes but is then left out, as in the paper.

    Parameters
    ----------
    l
        How many cells of each slice.
    axis
        The mode that numbers the slices, by number or name; the paper's is the third.

    See Also
    --------
    B1 : The paper's basis of single modes.
    B2 : The paper's basis of regular rows and columns.
    adaptive : A basis that the data choose.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> B3(1).select(observe([[1, 2], [3, 2]])).tolist()
    [[0, 1], [1, 0]]
    """

    def select(self, data: Observation) -> IntArray:
        return _inside([data.largest(int(self.l), self._slices(data.support.shape, data))], data)

    def rankings(self, shape: tuple[int, ...]) -> dict[int, int]:
        return {} if isinstance(self.axis, str) else {self._slices(shape): int(self.l)}


def _lines(data: Observation, lines: list[Parallel]) -> IntArray:
    """List the cells of some lines that lie in the support, in C order, without the bottom."""
    points = data.support.points
    if points is None:
        return _inside([_line(data.support.shape, line) for line in lines], data)
    away = points != 0
    number = away.sum(axis=1)
    found = np.zeros(len(points), dtype=np.bool_)
    for line in lines:
        here = number == away[:, list(line)].sum(axis=1)
        for k, values in line.items():
            if values is not None:
                here &= np.isin(points[:, k], values)
        found |= here
    return _inside([points[found]], data)


def _line(shape: tuple[int, ...], line: Parallel) -> IntArray:
    """List the cells of a line in the grid."""
    modes = sorted(line)
    size = math.prod(shape[k] if values is None else len(values) for k, values in line.items())
    if size > limits.LONG_MODE:
        check_room(size, ROOM * len(shape), "a basis", "It runs through a long mode: name cells of your own.")
    levels = [np.arange(shape[k]) if (values := line[k]) is None else values for k in modes]
    places = np.stack(np.meshgrid(*levels, indexing="ij"), axis=-1).reshape(-1, len(modes))
    cells = np.zeros((size, len(shape)), dtype=np.int64)
    cells[:, modes] = places
    return cells


def _inside(parts: list[IntArray], data: Observation) -> IntArray:
    """Gather the parts in C order, less what lies outside Omega+."""
    if not parts:
        return np.empty((0, len(data.support.shape)), dtype=np.int64)
    cells = parts[0] if len(parts) == 1 else unique_cells(np.concatenate(parts))
    cells = data.inside(cells[cells.any(axis=1)])
    return cells[np.lexsort(cells.T[::-1])]
