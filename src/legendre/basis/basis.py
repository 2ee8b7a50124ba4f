"""`Basis`: a recipe for a set of cells, with set algebra; cells by hand, full, and the paper's B1, B2 and B3."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core import limits
from legendre.core.arguments import check_int
from legendre.core.cells import cell_name, first_cell, freeze, unique_cells
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Mode
from legendre.core.memory import check_room
from legendre.core.origin import read_array
from legendre.core.tied_parameters import Terms, Ties, column_terms
from legendre.core.types import AnyArray, IntArray, Shape, frozen
from legendre.data.observation import Observation, Ranked

if TYPE_CHECKING:
    from legendre.basis.adaptive import Adaptive


Sign = Literal["|", "&", "-"]
ROOM = 4 * 8  # bytes of memory for each coordinate of a basis that is listed: 8, and copies while it is sorted


class Basis(ABC):
    """A decomposition basis B, not yet tied to a tensor.

    Bases combine as sets: ``B1() | B3(5)``, ``interactions(2) - B1()``, ``B2(3) & B3(9)``; with cells too, k x N
    integers counted from 0: ``B1() | [[1, 1]]``.

    See Also
    --------
    interactions : All that sets of modes do together.
    adaptive : A basis that the data choose.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], ld.B1() | [[1, 1]]).basis.tolist()
    [[0, 1], [1, 0], [1, 1]]
    """

    @abstractmethod
    def select(self, data: Observation) -> IntArray:
        """List the cells of B on this tensor, k x N, without the bottom and without repeats."""

    def terms(self, data: Observation) -> Terms:
        """List the cells of B on this tensor, and how their parameters are tied; by default each cell has its own."""
        return Terms(self.select(data))

    growing: ClassVar[Adaptive | None] = None
    """The recipe, if the cells or boxes are chosen by fits to the data: only `decompose` can do that; else ``None``."""

    @property
    def ranked(self) -> Ranked:
        """The slices whose largest entries `select` will ask for, so that the pass that reads X can find them too."""
        return ()

    def __or__(self, other: object) -> Basis:
        return self.combine("|", other)

    def __and__(self, other: object) -> Basis:
        return self.combine("&", other)

    def __sub__(self, other: object) -> Basis:
        return self.combine("-", other)

    def combine(self, sign: Sign, other: Any) -> Basis:
        """Combine two bases as sets: union, intersection or difference."""
        return Pair(self, sign, other if isinstance(other, Basis) else cells(other))


BasisLike = Basis | str | ArrayLike  # what `as_basis` reads


class TieableBasis(Basis):
    """A basis whose parameters may act on several cells at once: it defines `terms`, and `select` follows."""

    def select(self, data: Observation) -> IntArray:
        """List the cells, for tasks that can only use cells; raise InvalidBasis if a parameter acts on several."""
        terms = self.terms(data)
        if terms.ties is not None:
            raise InvalidBasis(
                f"{self!r} has tied parameters (ld.ties, ld.features, ld.boxes), which decompose, plan and complete "
                "take. Use a basis of cells, such as interactions(2)."
            )
        return terms.cells


@dataclass(frozen=True)
class Pair(TieableBasis):
    """Two bases combined as sets: union ``|``, intersection ``&`` or difference ``-``."""

    left: Basis
    sign: Sign
    right: Basis

    def terms(self, data: Observation) -> Terms:
        """Combine the parameters of both bases as sets; two parameters are the same if their features are the same.

        The order is that of the left basis; in a union, the new ones of the right basis follow.
        """
        one, other = self.left.terms(data), self.right.terms(data)
        if self.sign == "|":
            if one.ties is None and other.ties is None:
                return Terms(unique_cells(np.concatenate([one.cells, other.cells])))
            return column_terms([*one.columns(), *other.columns()], one.cells.shape[1])
        inside = one.places_in(other) >= 0
        return one.with_columns(np.flatnonzero(inside if self.sign == "&" else ~inside))

    @property
    def ranked(self) -> Ranked:
        """What both bases ask for."""
        return (*self.left.ranked, *self.right.ranked)

    def __repr__(self) -> str:
        left, right = repr(self.left), repr(self.right)
        return f"{left} | {right}" if self.sign == "|" else f"({left}) {self.sign} ({right})"


@frozen
class Cells(TieableBasis):
    """Exactly these cells, tied or not. They may lie outside the support: zeta is defined on the full grid."""

    index: IntArray = field(repr=False)
    ties: Ties | None = None

    def terms(self, data: Observation) -> Terms:
        """List the cells in the order given, without repeats; tied ones, which a fit or a grower made, have none."""
        return Terms(check_inside(self.index, data.shape), self.ties)

    def __repr__(self) -> str:
        if self.ties is not None:
            return f"<{self.ties.n_params} parameters, tied over {len(self.index)} cells>"
        return f"cells(<{len(self.index)} cells>)"


def check_inside(index: IntArray, shape: Shape) -> IntArray:
    """Check that cells (k x N) fit a shape and are not the bottom; return them without repeats, in the order given.

    Cells that a caller lists pass through here; those of recipes are right by construction.
    """
    if len(index) == 0:
        return np.empty((0, len(shape)), dtype=np.int64)
    index = check_cells(index, shape)
    if not index.any(axis=1).all():
        raise InvalidBasis(
            f"the basis holds the bottom cell {cell_name([0] * len(shape))}. Leave it out: its parameter is -psi, "
            "fixed by normalisation."
        )
    return unique_cells(index)


def check_cells(cells: AnyArray, shape: Shape) -> IntArray:
    """Check cells that a caller gives by indices (k x N, or one cell); return them as k x N integers.

    Raise `InvalidBasis` for other shapes, for entries that are not integers, and for cells outside the grid.
    """
    index = np.atleast_2d(np.asarray(cells))
    if index.dtype.kind not in "iu" or index.ndim != 2 or index.shape[1] != len(shape):
        hint = " They are indices, counted from 0." if index.dtype.kind in "OUSM" else ""
        got = f"got shape {index.shape}, dtype {index.dtype}"
        raise InvalidBasis(f"cells must be integers, k x {len(shape)}; {got}.{hint}")
    if outside := first_cell(((index < 0) | (index >= shape)).any(axis=1)):
        raise InvalidBasis(f"cell {cell_name(index[outside])} is outside the grid {shape}. Indices start at 0.")
    return index.astype(np.int64)


@dataclass(frozen=True)
class Full(Basis):
    """Omega without the bottom."""

    def select(self, data: Observation) -> IntArray:
        """List all cells of Omega but the bottom."""
        check_room(data.support.n_cells, ROOM * data.n_modes, "full: a basis", "Use interactions(...).")
        cells = data.support.cells()
        return cells[cells.any(axis=1)]

    def __repr__(self) -> str:
        return "full()"


def cells(index: ArrayLike) -> Basis:
    """Make a basis of explicit cells, k x N integers counted from 0; theta has the same order.

    It is not public: `as_basis` passes here whatever is neither a `Basis` nor a string, hence the errors.

    >>> cells([[0, 1], [1, 0]])
    cells(<2 cells>)
    """
    array = read_array(index, "basis", InvalidBasis, "Each cell needs one coordinate per mode.")
    if array.ndim == 0:
        raise InvalidBasis(
            f"a basis is a recipe such as B1() | B3(5), a string such as 'B1 + B3(5)' or cells, k x N; got {index!r}. "
            "A number of parameters is adaptive(n)."
        )
    if array.size == 0:
        return empty()
    if array.ndim != 2:
        raise InvalidBasis(
            f"basis cells must be a k x N array, one row per cell; got shape {array.shape}. "
            "For a single cell pass [cell]."
        )
    if array.dtype.kind not in "iu":
        hint = " Pass them .astype(int)." if array.dtype.kind == "f" and (array == np.round(array)).all() else ""
        raise InvalidBasis(f"basis cells must be integers, got dtype {array.dtype}.{hint}")
    return Cells(freeze(array.astype(np.int64)))


def full() -> Basis:
    """Give a parameter to every cell of Omega except the bottom: the decomposition then returns P itself.

    See Also
    --------
    interactions : All that sets of modes do together.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 4]], ld.full()).tensor().round(9).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    return Full()


def empty() -> Basis:
    """Give no cell a parameter: the decomposition is uniform on Omega."""
    return Cells(np.empty((0, 0), dtype=np.int64))


# A "line": the cells whose coordinates run through given levels (``None``: all) of some modes and are 0 in the others.
Line = dict[int, IntArray | None]


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
        """List the cells of the axes that are in the support: each mode is run through while the others are 0."""
        return _list_lines(data, [{k: None} for k in range(len(data.support.shape))])


@dataclass(frozen=True, repr=False)
class _Sliced(Basis):
    """A basis of l rows, columns or entries of each slice; a slice is X at one level of the mode `axis`."""

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

    def _slices(self, data: Observation) -> int:
        """Return the mode that numbers the slices, counted from 0."""
        order = len(data.support.shape)
        if not isinstance(self.axis, str) and -order <= self.axis < order:
            return int(self.axis) % order
        return data.labels.find_mode(self.axis, f"{type(self).__name__}: axis={self.axis!r}", InvalidBasis)


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
        """List the cells: for each mode k within the slices, those with a coordinate in C_k(l), in every slice."""
        slices, shape = self._slices(data), data.support.shape
        counts = {k: min(int(self.l), length) for k, length in enumerate(shape) if k != slices}
        # C_k(l), counted from 0
        chosen = {k: np.arange(1, n + 1) * (shape[k] // n) - 1 for k, n in counts.items()}
        return _list_lines(data, [{k: levels, slices: None} for k, levels in chosen.items()])


@dataclass(frozen=True, repr=False)
class B3(_Sliced):
    """The l largest entries of each slice. Of equal entries the one first in C order.

    Only cells of the support compete; the bottom competes but is then left out, as in the paper.

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
        """List the largest entries of all slices in C order, without the bottom."""
        return sort_cells(data.largest(int(self.l), self._slices(data)))

    @property
    def ranked(self) -> Ranked:
        """The l largest entries of each slice."""
        return ((self.axis, int(self.l)),)


def _list_lines(data: Observation, lines: list[Line]) -> IntArray:
    """List the cells of some lines (see `Line`) that lie in the support, in C order, without the bottom.

    If the support is a list of points, its modes may be too long to run through: only levels that occur are listed.
    """
    support, shape = data.support, data.support.shape
    found = [np.empty((0, len(shape)), dtype=np.int64)]
    for line in lines:
        runs = {}  # for each mode of the line, the levels that it runs through
        for k, levels in line.items():
            every = range(shape[k]) if support.points is None else np.unique(support.points[:, k])
            runs[k] = every if levels is None else levels
        size = math.prod(map(len, runs.values()))
        if size > limits.LONG_MODE:
            check_room(size, ROOM * len(shape), "a basis", "It runs through a long mode: name cells of your own.")
        cells = np.zeros((size, len(shape)), dtype=np.int64)
        cells[:, list(runs)] = np.stack(np.meshgrid(*runs.values(), indexing="ij"), axis=-1).reshape(size, -1)
        found.append(cells)
    cells = unique_cells(np.concatenate(found))
    everywhere = support.mask is None and support.points is None
    return sort_cells(cells if everywhere else cells[support.contains(cells)])


def sort_cells(cells: IntArray) -> IntArray:
    """Sort different cells (k x N) in C order, without the bottom: the paper's bases and interactions are listed so."""
    cells = cells[cells.any(axis=1)]
    return cells[np.lexsort(cells.T[::-1])]
