"""The bases of association models: which cells their parameters tie, and how each of them is called."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from legendre.basis.basis import TiedBasis
from legendre.basis.features import corners, named_part, placed
from legendre.basis.interactions import found_modes
from legendre.core.array_libraries import rectangular
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode
from legendre.core.tied_parameters import Terms, column_terms
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.observation import Observation

Column = tuple[str, IntArray, FloatArray]  # its name, its cells (n x the modes) and their coefficients


@dataclass(frozen=True, eq=False)
class OfModes(TiedBasis):
    """A basis of features of some modes."""

    name: str  # of the builder, for messages
    modes: tuple[Mode, ...]

    def terms(self, data: Observation) -> Terms:
        """Put the columns of its modes on the cells of X."""
        order, labels = len(data.shape), data.labels
        modes = found_modes(self.name, [self.modes], order, labels)[0] if self.modes else tuple(range(order))
        found = list(self.columns(named_part(labels, modes)))
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
        order = labels.order_of(k)
        values = values.astype(np.float64) if order is None else values.astype(np.float64)[order]
        counted: FloatArray = values - float(values[0])
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
        levels = labels.arrange(self.levels)
        for level in np.unique(levels)[1:]:
            yield f"level {level}", *corners((levels == level).astype(np.float64))

    def __repr__(self) -> str:
        among = "".join(f", {mode!r}" for mode in self.modes)
        return f"topological({self.levels.tolist()}{among})"


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
