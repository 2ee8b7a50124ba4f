"""`Basis`: a recipe for a set of cells, with set algebra, and the recipes that need no definition of their own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name, frozen, member, unique_cells
from legendre.core.errors import InvalidBasis
from legendre.core.origin import rectangular
from legendre.core.tied_parameters import Terms, Ties, joined
from legendre.core.types import IntArray
from legendre.data.observation import Observation

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from legendre.basis.adaptive import Adaptive

ROOM = 4 * 8  # bytes for each coordinate of a basis that is listed: sorting it takes copies


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
        """List the cells of B on this tensor, and how their parameters are tied; here each has its own."""
        return Terms(self.select(data))

    growing: ClassVar[Adaptive | None] = None
    """The recipe of a basis whose cells or boxes are chosen by fits to the data, which only `decompose` can do."""

    @property
    def grows(self) -> bool:
        """Whether the data choose the basis, by fits."""
        return self.growing is not None

    def rankings(self, shape: tuple[int, ...]) -> dict[int, int]:
        """How many entries of each slice, by mode, `select` will look up: a first pass over X can find them early."""
        del shape
        return {}

    def __or__(self, other: object) -> Basis:
        return self._pair("|", other)

    def __and__(self, other: object) -> Basis:
        return self._pair("&", other)

    def __sub__(self, other: object) -> Basis:
        return self._pair("-", other)

    def _pair(self, sign: Literal["|", "&", "-"], other: Any) -> Basis:
        return Pair(self, sign, other if is_basis(other) else cells(other))


def is_basis(value: object) -> TypeIs[Basis]:
    """Whether a value is a `Basis`, not a string or an array from which one can be made."""
    return isinstance(value, Basis)


def most_of(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """Keep the larger number of entries, mode by mode.

    >>> most_of({0: 1, 2: 5}, {2: 3})
    {0: 1, 2: 5}
    """
    return {axis: max(one.get(axis, 0), other.get(axis, 0)) for axis in {**one, **other}}


@dataclass(frozen=True)
class Pair(Basis):
    """Two bases combined as sets: union ``|``, intersection ``&`` or difference ``-``."""

    left: Basis
    sign: Literal["|", "&", "-"]
    right: Basis

    def select(self, data: Observation) -> IntArray:
        """List the cells in the order of the left basis; in a union, those that the right one adds follow."""
        return untied(self.terms(data), self)

    def terms(self, data: Observation) -> Terms:
        """Combine the parameters of both as sets: two are the same that have the same feature."""
        one, other = self.left.terms(data), self.right.terms(data)
        plain = one.ties is None and other.ties is None
        if self.sign == "|":
            if plain:
                return Terms(unique_cells(np.concatenate([one.cells, other.cells])))
            return joined([one, other], len(data.shape))
        if plain:
            inside = member(one.cells, other.cells)
        else:
            known = set(other.feature_keys())
            inside = np.array([key in known for key in one.feature_keys()], dtype=np.bool_)
        return one.of_columns(np.flatnonzero(inside if self.sign == "&" else ~inside))

    def rankings(self, shape: tuple[int, ...]) -> dict[int, int]:
        return most_of(self.left.rankings(shape), self.right.rankings(shape))

    def __repr__(self) -> str:
        left, right = repr(self.left), repr(self.right)
        return f"{left} | {right}" if self.sign == "|" else f"({left}) {self.sign} ({right})"


def untied(terms: Terms, basis: Basis) -> IntArray:
    """Return the cells of a basis in which each has its own parameter; raise InvalidBasis for any other."""
    if terms.ties is not None:
        raise InvalidBasis(
            f"{basis!r} has tied parameters (ld.ties, ld.features, ld.boxes), which decompose, plan and complete take. "
            "Use a basis of cells here, such as interactions(2)."
        )
    return terms.cells


@dataclass(frozen=True, eq=False)
class Cells(Basis):
    """Exactly these cells, tied or not. They may lie outside the support: zeta is defined on the whole grid."""

    index: IntArray = field(repr=False)
    ties: Ties | None = None

    def select(self, data: Observation) -> IntArray:
        return untied(self.terms(data), self)

    def terms(self, data: Observation) -> Terms:
        found = inside_grid(self.index, data.shape)
        return Terms(found if self.ties is None else self.index, self.ties)

    def __repr__(self) -> str:
        if self.ties is not None:
            return f"<{self.ties.n_params} parameters, tied over {len(self.index)} cells>"
        return f"cells(<{len(self.index)} cells>)"


def inside_grid(index: IntArray, shape: tuple[int, ...]) -> IntArray:
    """Check cells against a shape; return them without repeats, in the order given."""
    order = len(shape)
    if len(index) == 0:
        return np.empty((0, order), dtype=np.int64)
    if index.shape[1] != order:
        raise InvalidBasis(
            f"basis cells have {index.shape[1]} coordinates, X has {order} modes (shape {shape}); "
            "a cell needs one coordinate per mode."
        )
    outside = np.flatnonzero(((index < 0) | (index >= shape)).any(axis=1))
    if len(outside):
        raise InvalidBasis(
            f"{len(outside)} of {len(index)} basis cells are outside X's grid {shape}, "
            f"e.g. {cell_name(index[outside[0]])}. Indices start at 0."
        )
    if not index.any(axis=1).all():
        raise InvalidBasis(
            f"the basis holds the bottom cell {cell_name([0] * order)}. Leave it out: its parameter is -psi, "
            "fixed by normalisation."
        )
    return unique_cells(index)


@dataclass(frozen=True)
class Full(Basis):
    """Omega without the bottom."""

    def select(self, data: Observation) -> IntArray:
        if (n := data.support.n_cells) > 1 << 33:
            raise InvalidBasis(
                f"full() has a parameter for every cell, and there are about 10^{int(math.log10(n))} of them. "
                "Use interactions(...)."
            )
        cells = data.support.cells()
        return cells[cells.any(axis=1)]

    def __repr__(self) -> str:
        return "full()"


def cells(index: ArrayLike) -> Basis:
    """Make a basis of explicit cells, k x N integers counted from 0; theta will come in this order.

    >>> cells([[0, 1], [1, 0]])
    cells(<2 cells>)
    """
    array = rectangular(index, "basis", InvalidBasis, "Each cell needs one coordinate per mode.")
    if array.ndim == 0:
        raise InvalidBasis(
            f"a basis is a recipe such as B1() | B3(5), a string such as 'B1 + B3(5)' or cells, k x N; got {index!r}."
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
    return Cells(frozen(array.astype(np.int64)))


def full() -> Basis:
    """Give every cell of Omega except the bottom a parameter: the decomposition then returns P itself.

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
