"""The variables of a Boltzmann machine: names, levels, and which of them interact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from legendre.basis.interactions import mode_sets
from legendre.core.arguments import entries, is_whole
from legendre.core.errors import InvalidBasis, InvalidSamples, InvalidSetting, unknown_name
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, IntArray
from legendre.data.readers.columns import Table

Name = str | int
Edges = int | Iterable[Iterable[Name]]


@dataclass(frozen=True)
class Variables:
    """N variables, each with levels 0, 1, ... or labels; named by strings, or by their number where there are no names.

    >>> Variables.of(3, ["rain", "wind", "wet"], None).groups([("rain", "wet")])
    ((0, 2),)
    """

    names: tuple[Name, ...]
    shape: tuple[int, ...]
    categories: tuple[AnyArray | None, ...] | None = None  # the labels of the levels of each variable that has some

    @classmethod
    def of(cls, n: int, names: Sequence[str] | None, levels: int | Sequence[int] | None) -> Variables:
        """Check names and levels against the number of variables."""
        named = list(range(n)) if names is None else entries(names)
        texts = names is None or all(isinstance(name, str) for name in named or ())
        if named is None or not texts or len(set(named)) < len(named):
            raise InvalidSetting(f"names must be different strings, one per variable; got {names!r}.")
        sizes = [2] * n if levels is None else [levels] * n if is_whole(levels) else entries(levels)
        if levels is not None and (sizes is None or not all(is_whole(size, 2) for size in sizes)):
            raise InvalidSetting(f"levels must be integers >= 2, one per variable or one for all; got {levels!r}.")
        assert sizes is not None
        for what, found in (("names", named), ("levels", sizes)):
            if len(found) != n:
                raise InvalidSetting(f"{what} has {len(found)} entries, the data have {n} variables.")
        return cls(tuple(named), tuple(map(int, sizes)))

    @classmethod
    def learned(cls, samples: Table, names: Sequence[str] | None, levels: int | Sequence[int] | None) -> Variables:
        """Take the values of columns of texts and categories as levels; other columns hold levels."""
        plain = cls.of(len(samples.names), names, levels)
        if samples.array is not None and samples.array.dtype.kind in "biuf":
            return plain
        found = [_labels_of(samples, k, str(plain.names[k])) for k in range(len(plain.names))]
        if all(labels is None for labels in found):
            return plain
        sizes = [n if labels is None else len(labels) for n, labels in zip(plain.shape, found, strict=True)]
        if levels is not None and tuple(sizes) != plain.shape:
            raise InvalidSetting(f"levels={levels!r}, but the columns have {sizes} levels. Leave levels out.")
        return cls(plain.names, tuple(sizes), tuple(found))

    def labels(self) -> Labels:
        """Return what the variables and their levels are called."""
        named = all(isinstance(name, str) for name in self.names)
        return Labels(self.shape, tuple(map(str, self.names)) if named else None, self.categories)

    def index(self, name: Any) -> int:
        """Find a variable by its name or number."""
        if (type(name) is int or is_whole(name)) and 0 <= name < len(self.names):
            return int(name)
        if isinstance(name, str) and name in self.names:
            return self.names.index(name)
        if isinstance(name, str) and isinstance(self.names[0], str):
            raise InvalidSetting(unknown_name("variable", name, map(str, self.names)))
        raise InvalidSetting(f"there is no variable {name!r}; there are {len(self.names)}, 0 to {len(self.names) - 1}.")

    def groups(self, edges: Edges) -> tuple[tuple[int, ...], ...]:
        """List the sets of two and more variables that interact, in the order given."""
        n = len(self.names)
        if isinstance(edges, (bool, float, str)):
            raise InvalidBasis(f"edges={edges!r}: pass an order such as 2, or edges such as [(0, 1), (1, 2)].")
        if isinstance(edges, (int, np.integer)):
            if edges < 1:
                raise InvalidBasis(f"edges={edges}: the order must be at least 1, which is biases alone.")
            return tuple(group for size in range(2, min(int(edges), n) + 1) for group in combinations(range(n), size))
        if isinstance(edges, Iterator):
            raise InvalidBasis("edges is an iterator, which can be read only once; pass a list.")
        try:
            listed = [(group,) if isinstance(group, str) else tuple(group) for group in edges]
        except TypeError:
            raise InvalidBasis(f"edges must be sets of variables such as [(0, 1), (1, 2)], got {edges!r}.") from None
        numbers = [[self.index(name) for name in group] for group in listed]
        found = [tuple(map(int, group)) for group in mode_sets("edges", numbers)]
        seen: set[frozenset[int]] = set()
        for group, given in zip(found, listed, strict=True):
            if not group:
                raise InvalidBasis("edges: an edge has no node. Every edge names at least one variable.")
            if frozenset(group) in seen:
                raise InvalidBasis(f"edges: {given} stands there twice.")
            seen.add(frozenset(group))
        return tuple(group for group in found if len(group) > 1)

    def cells(self, samples: Table, unread: int | None = None) -> IntArray:
        """Read rows of levels; whatever column `unread` holds is read as 0."""
        if len(samples.names) != len(self.names):
            raise InvalidSamples(f"samples has {len(samples.names)} columns; there are {len(self.names)} variables.")
        rows = _numbers(samples) if self.categories is None else self._coded(samples, self.categories, unread)
        if unread is not None:
            rows = rows.copy()
            rows[:, unread] = 0
        fits = (rows >= 0) & (rows < self.shape)
        bad = np.argwhere(~(fits & (rows == np.floor(rows)) if rows.dtype.kind == "f" else fits))
        if len(bad):
            raise InvalidSamples(self._trouble(rows, int(bad[0, 0]), int(bad[0, 1])))
        return rows.astype(np.int64)

    def _coded(self, samples: Table, categories: tuple[AnyArray | None, ...], unread: int | None) -> AnyArray:
        """Read labels as the levels they name."""
        columns: list[AnyArray] = []
        for k, (key, labels) in enumerate(zip(samples.names, categories, strict=True)):
            column = samples.column(key)
            if k == unread:
                columns.append(np.zeros(samples.n))
            elif labels is None and column.codes is None:
                columns.append(column.values)
            elif labels is None:
                raise InvalidSamples(f"column {self.names[k]!r} of samples holds {column.at(0)!r}; fit saw numbers.")
            else:
                columns.append(column.codes_in(labels, f"column {self.names[k]!r}", "was not seen in fit"))
        return np.stack(columns, axis=1)

    def _trouble(self, rows: AnyArray, i: int, j: int) -> str:
        value, size = rows[i, j], self.shape[j]
        text = f"samples[{i}, {j}] = {value}: variable {self.names[j]!r} has {size} levels, 0 to {size - 1}."
        if rows.dtype.kind == "f" and np.isnan(value):  # integers beyond 64 bits are objects
            return text + " NaN is no level: leave such rows out, or make missing a level of its own."
        if value == -1:
            return text + " If -1 and +1 are meant as 0 and 1, pass (samples + 1) // 2."
        if value < 0 or value == np.inf or value % 1:
            return text + " Levels are whole numbers counted from 0; bin continuous variables first."
        need = [int(value) + 1 if k == j else size for k, size in enumerate(self.shape)]
        return text + f" For more levels set levels={need}. A tensor of counts goes to fit_tensor."


def _labels_of(samples: Table, k: int, name: str) -> AnyArray | None:
    """Return the distinct values of a column of texts or categories; ``None`` for a column of numbers."""
    column = samples.column(samples.names[k])
    if column.codes is None:
        return None
    if (row := column.missing()) is not None:
        raise InvalidSamples(
            f"column {name!r} of samples has no value in row {row}. Leave such rows out, or make missing a level of "
            "its own."
        )
    levels = column.levels(f"column {name!r}")
    if len(levels) < 2:
        raise InvalidSamples(f"column {name!r} of samples holds {column.at(0)!r} only: leave it out.")
    return levels


def _numbers(samples: Table) -> AnyArray:
    """Return all columns side by side."""
    if samples.array is not None and samples.array.dtype.kind in "biuf":
        return samples.array
    columns = [samples.column(name) for name in samples.names]
    for name, column in zip(samples.names, columns, strict=True):
        if column.codes is not None:
            raise InvalidSamples(
                f"column {name!r} of samples has dtype {column.values.dtype}; levels are whole numbers counted from 0. "
                "If they are, pass samples.astype(int); categories are numbered first, in the order that they have."
            )
    return np.stack([column.values for column in columns], axis=1)
