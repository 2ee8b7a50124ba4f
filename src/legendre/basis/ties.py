"""Association models of two modes: uniform, row and column effects, symmetry, diagonals, topological levels.

Each is a basis whose parameters act on many cells at once. They combine with other bases by ``|``, ``&`` and ``-``:
``ld.interactions(1) | ld.ties.uniform("father", "son")``. Modes are named as X names them, or counted from 0.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, TiedBasis
from legendre.basis.features import corners, placed
from legendre.basis.interactions import found_modes, mode_sets
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode
from legendre.core.ties import Terms, column_terms
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.observation import Observation

__all__ = ["columns", "diagonal", "linear", "quasi_symmetric", "rows", "symmetric", "topological", "uniform"]

Column = tuple[str, IntArray, FloatArray]  # its name, its cells (n x the modes) and their coefficients


@dataclass(frozen=True, eq=False)
class OfModes(TiedBasis):
    """A basis of features of some modes."""

    name: str  # of the builder, for messages
    modes: tuple[Mode, ...]

    def terms(self, data: Observation) -> Terms:
        """Put the columns of its modes on the cells of X."""
        modes = found_modes(self.name, [self.modes], data.labels)[0] if self.modes else tuple(range(len(data.shape)))
        found = list(self.columns(data.labels.part(modes)))
        cells = [placed(own, modes, len(data.shape)) for _, own, _ in found]
        return column_terms(cells, [values for _, _, values in found], [name for name, _, _ in found], len(data.shape))

    @abstractmethod
    def columns(self, labels: Labels) -> Iterator[Column]:
        """List the columns, given the labels of the modes."""

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.modes))})"


@dataclass(frozen=True, eq=False, repr=False)
class Scored(OfModes):
    """Products of scores of two modes, or of a mode's scores with each level of the other one."""

    scores: dict[Mode, Any] = field(default_factory=dict)

    def columns(self, labels: Labels) -> Iterator[Column]:
        tables = [self._scores(labels, 0), self._scores(labels, 1)]
        one, other = labels.mode(0), labels.mode(1)
        steps = [
            labels.mode(k) if table is None else f"the scores of {labels.mode(k)}" for k, table in enumerate(tables)
        ]
        filled = [np.arange(n, dtype=np.float64) if t is None else t for t, n in zip(tables, labels.shape, strict=True)]
        if self.name in ("linear", "uniform"):
            by = "per step of both" if all(table is None for table in tables) else "per unit of both scores"
            yield f"{one} by {other}, {by}", *corners(np.multiply.outer(*filled))
            return
        level, along = (0, 1) if self.name == "rows" else (1, 0)
        for i in range(1, labels.shape[level]):
            table = np.zeros(labels.shape)
            table[(i, slice(None)) if level == 0 else (slice(None), i)] = filled[along]
            yield f"{labels.mode(level)} = {labels.level(level, i)}, per step of {steps[along]}", *corners(table)

    def _scores(self, labels: Labels, k: int) -> FloatArray | None:
        """Read the scores of a mode, counted from its first level; ``None`` where they are 0, 1, 2, ..."""
        given = self.scores.get(self.modes[k])
        if given is None:
            return None
        values: AnyArray = rectangular(given, f"{self.name}: scores of {labels.mode(k)}", InvalidBasis)
        if values.shape != (labels.shape[k],):
            raise InvalidBasis(
                f"{self.name}: {values.size} scores for {labels.mode(k)}, which has {labels.shape[k]} levels; give one "
                "score for each level."
            )
        if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
            raise InvalidBasis(f"{self.name}: scores of {labels.mode(k)} must be finite numbers, got {given!r}.")
        counted: FloatArray = values.astype(np.float64) - float(values[0])
        return counted

    def __repr__(self) -> str:
        given = {mode: list(scores) for mode, scores in self.scores.items()}
        return super().__repr__()[:-1] + (f", scores={given})" if given else ")")


@dataclass(frozen=True, eq=False, repr=False)
class Symmetric(OfModes):
    """Parameters that are the same when two modes change places: all of them, or those of both modes together."""

    def columns(self, labels: Labels) -> Iterator[Column]:
        n = _same_levels(self.name, labels)
        quasi = self.name == "quasi_symmetric"
        if quasi:
            for k in range(2):
                yield from (("", np.eye(2, dtype=np.int64)[[k]] * i, np.ones(1)) for i in range(1, n))
        for i in range(n):
            for j in range(max(i, 1), n):
                if quasi and i == 0:
                    continue
                cells = np.array([[i, j]] if i == j else [[i, j], [j, i]], dtype=np.int64)
                name = "" if i == j else f"{_step(labels, (i, j))}, and the other way round"
                yield name, cells, np.ones(len(cells))


@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(OfModes):
    """One parameter for each cell in which two modes have the same level."""

    def columns(self, labels: Labels) -> Iterator[Column]:
        for i in range(_same_levels(self.name, labels)):
            table = np.zeros(labels.shape)
            table[i, i] = 1.0
            one, other = labels.level(0, i), labels.level(1, i)
            same = f"{labels.mode(0)} = {labels.mode(1)} = {one}"
            yield same if one == other else f"{labels.mode(0)} {one}, {labels.mode(1)} {other}", *corners(table)


@dataclass(frozen=True, eq=False, repr=False)
class Topological(OfModes):
    """One parameter for each level of a table but the lowest."""

    levels: AnyArray = field(default_factory=lambda: np.zeros((1, 1), dtype=np.int64))

    def columns(self, labels: Labels) -> Iterator[Column]:
        if self.levels.shape != labels.shape:
            among = ", ".join(f"{labels.mode(k)} ({n})" for k, n in enumerate(labels.shape))
            raise InvalidBasis(
                f"topological: levels has shape {self.levels.shape}, but the modes are {among}. Give one entry for "
                "each cell of them; name the modes if X has more: topological(levels, 'father', 'son')."
            )
        for level in np.unique(self.levels)[1:]:
            yield f"level {level}", *corners((self.levels == level).astype(np.float64))

    def __repr__(self) -> str:
        among = "".join(f", {mode!r}" for mode in self.modes)
        return f"topological({self.levels.tolist()}{among})"


def uniform(a: Mode, b: Mode) -> Basis:
    """Tie the association of two modes to one parameter: the log odds ratio of any two neighbouring levels of both.

    See Also
    --------
    legendre.ties.rows : An effect for each level of the first mode.
    legendre.ties.columns : An effect for each level of the second mode.
    legendre.ties.linear : One parameter times a product of scores.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 10]], ld.interactions(1) | ld.ties.uniform(0, 1))
    >>> fit.parameters().names[-1], round(float(fit.theta[-1]), 4)
    ('mode 0 by mode 1, per step of both', 0.6931)
    """
    return Scored("uniform", _pair("uniform", a, b))


def linear(a: Mode, b: Mode, scores: Mapping[Mode, Any] | Sequence[Any] | None = None) -> Basis:
    """Tie the association of two modes to one parameter times the product of their levels' scores.

    Parameters
    ----------
    a, b
        Two modes.
    scores
        A list of scores for each of them, or a dict ``{mode: scores}``; by default 0, 1, 2, ..., which is `uniform`.

    See Also
    --------
    legendre.ties.uniform : One parameter for the association of two modes.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> linear = ld.ties.linear(0, 1, scores={1: [0, 1, 3]})
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 20]], ld.interactions(1) | linear)
    >>> round(float(fit.theta[-1]), 4)
    0.6931
    """
    modes = _pair("linear", a, b)
    return Scored("linear", modes, _scores("linear", modes, scores))


def rows(a: Mode, b: Mode, scores: ArrayLike | None = None) -> Basis:
    """Give each level of the first mode its own effect of the second one's steps, or scores: row effects.

    Parameters
    ----------
    a, b
        Two modes; the levels of `a` have parameters, the first level none.
    scores
        A score for each level of `b`; by default 0, 1, 2, ...

    See Also
    --------
    legendre.ties.columns : An effect for each level of the second mode.
    legendre.ties.uniform : One parameter for the association of two modes.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 10]], ld.interactions(1) | ld.ties.rows(0, 1))
    >>> fit.parameters().names[-1]
    'mode 0 = 1, per step of mode 1'
    """
    modes = _pair("rows", a, b)
    return Scored("rows", modes, {} if scores is None else {modes[1]: scores})


def columns(a: Mode, b: Mode, scores: ArrayLike | None = None) -> Basis:
    """Give each level of the second mode its own effect of the first one's steps, or scores: column effects.

    Parameters
    ----------
    a, b
        Two modes; the levels of `b` have parameters, the first level none.
    scores
        A score for each level of `a`; by default 0, 1, 2, ...

    See Also
    --------
    legendre.ties.rows : An effect for each level of the first mode.
    legendre.ties.uniform : One parameter for the association of two modes.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[20, 10, 5], [10, 10, 10]], ld.interactions(1) | ld.ties.columns(0, 1))
    >>> fit.parameters().names[-1]
    'mode 1 = 2, per step of mode 0'
    """
    modes = _pair("columns", a, b)
    return Scored("columns", modes, {} if scores is None else {modes[0]: scores})


def symmetric(a: Mode, b: Mode) -> Basis:
    """Make the model in which two modes with the same levels may change places: ``q_ij = q_ji``.

    See Also
    --------
    legendre.ties.quasi_symmetric : Symmetric associations, free margins.
    legendre.ties.diagonal : A parameter for each cell of the diagonal.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[5, 2, 1], [4, 5, 3], [3, 1, 5]], ld.ties.symmetric(0, 1)).tensor().round(6).tolist()
    [[5.0, 3.0, 2.0], [3.0, 5.0, 2.0], [2.0, 2.0, 5.0]]
    """
    return Symmetric("symmetric", _pair("symmetric", a, b))


def quasi_symmetric(a: Mode, b: Mode) -> Basis:
    """Make the model of two modes with the same levels whose association is symmetric, while their margins are free.

    See Also
    --------
    legendre.ties.symmetric : Cells and their mirror images alike.
    legendre.ties.diagonal : A parameter for each cell of the diagonal.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[5, 2, 1], [4, 5, 3], [3, 1, 5]], ld.ties.quasi_symmetric(0, 1)).inference().df
    1
    """
    return Symmetric("quasi_symmetric", _pair("quasi_symmetric", a, b))


def diagonal(a: Mode, b: Mode) -> Basis:
    """Give each cell in which two modes have the same level a parameter: quasi-independence, with `interactions(1)`.

    See Also
    --------
    legendre.ties.symmetric : Cells and their mirror images alike.
    legendre.ties.quasi_symmetric : Symmetric associations, free margins.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[9, 2, 1], [4, 9, 3], [3, 1, 9]], ld.interactions(1) | ld.ties.diagonal(0, 1))
    >>> fit.parameters().names[-1], fit.tensor().diagonal().round(6).tolist()
    ('mode 0 = mode 1 = 2', [9.0, 9.0, 9.0])
    """
    return Diagonal("diagonal", _pair("diagonal", a, b))


def topological(levels: ArrayLike, *modes: Mode) -> Basis:
    """Give all cells of a table that have the same level one parameter: Hauser's levels models.

    Parameters
    ----------
    levels
        Whole numbers, one for each cell of the modes; the lowest level has no parameter.
    modes
        The modes of the table, in its order; by default all of X.

    See Also
    --------
    legendre.ties.diagonal : A parameter for each cell of the diagonal.
    legendre.features : Parameters that act by functions of the cell.

    Examples
    --------
    >>> import legendre as ld
    >>> corner = ld.ties.topological([[2, 1, 1], [1, 1, 1], [1, 1, 2]])
    >>> fit = ld.decompose([[9, 2, 1], [4, 9, 3], [3, 1, 9]], ld.interactions(1) | corner)
    >>> fit.parameters().names[-1], round(float(fit.theta[-1]), 4)
    ('level 2', 2.011)
    """
    table: AnyArray = rectangular(levels, "topological: levels", InvalidBasis)
    if table.dtype.kind not in "iu" or table.ndim == 0 or table.size == 0:
        raise InvalidBasis(
            f"topological: levels must be a table of whole numbers, got shape {table.shape}, dtype {table.dtype}."
        )
    named = mode_sets("topological", [modes])[0] if modes else ()
    if named and len(named) != table.ndim:
        raise InvalidBasis(f"topological: levels has {table.ndim} axes, but {len(named)} modes are named.")
    return Topological("topological", named, table)


def _pair(name: str, a: Mode, b: Mode) -> tuple[Mode, ...]:
    return mode_sets(name, [(a, b)])[0]


def _scores(name: str, modes: tuple[Mode, ...], scores: Mapping[Mode, Any] | Sequence[Any] | None) -> dict[Mode, Any]:
    """Read scores as a caller gives them: by mode, or one list for each mode in order."""
    if scores is None:
        return {}
    if isinstance(scores, Mapping):
        unknown = [key for key in scores if key not in modes]
        if unknown:
            raise InvalidBasis(f"{name}: scores for {unknown[0]!r}, but the modes are {modes[0]!r} and {modes[1]!r}.")
        return dict(scores)
    try:
        one, other = scores
    except (TypeError, ValueError):
        raise InvalidBasis(
            f"{name}: scores={scores!r}; give two lists, one for each mode, or a dict such as {{{modes[0]!r}: [...]}}."
        ) from None
    return {modes[0]: one, modes[1]: other}


def _same_levels(name: str, labels: Labels) -> int:
    """Return how many levels two modes have; raise InvalidBasis if they do not have the same."""
    n, m = labels.shape
    if n != m:
        raise InvalidBasis(
            f"{name}: {labels.mode(0)} has {n} levels, {labels.mode(1)} has {m}; the two must have the same levels."
        )
    one, other = ([labels.level(k, i) for i in range(n)] for k in range(2))
    if one != other and set(one) == set(other):
        raise InvalidBasis(
            f"{name}: {labels.mode(0)} and {labels.mode(1)} have the same levels in different orders "
            f"({', '.join(one[:4])}, ... and {', '.join(other[:4])}, ...). Put them in the same order."
        )
    return n


def _step(labels: Labels, cell: tuple[int, int]) -> str:
    """Name the levels from which on a parameter acts."""
    parts = [f"{labels.mode(k)} >= {labels.level(k, i)}" for k, i in enumerate(cell) if i]
    return ", ".join(parts)
