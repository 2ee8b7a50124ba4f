"""Rows of a data frame, counted by the levels of their variables; rows may lack values of some."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.core.cells import freeze
from legendre.core.errors import InvalidSamples, InvalidTensor
from legendre.core.memory import size_name
from legendre.core.origin import Origin
from legendre.core.types import AnyArray, IntArray
from legendre.data.observation import beyond_memory
from legendre.data.readers.encode import Missing, Table, encode, read_table
from legendre.data.readers.rows import frame_origin, row_counts


@dataclass(frozen=True, eq=False)
class Pattern:
    """Rows that have values of the same variables, counted by these."""

    modes: tuple[int, ...]  # the variables that they have
    counts: IntArray  # with a mode for each of these variables

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


def count_cases(
    data: Any, columns: Any = None, counts: Any = None, *, levels: Any = None, missing: Missing = "error"
) -> tuple[Origin, tuple[Pattern, ...]]:
    """Count the rows of a frame by the variables that they have and by the levels of these; complete rows come first.

    Rows that lack a value are an error, left out ("drop"), or counted by the variables that they have ("keep").

    >>> rows = {"a": ["x", "y", None], "b": ["u", None, "v"]}
    >>> [(pattern.modes, pattern.counts.tolist()) for pattern in count_cases(rows, missing="keep")[1]]
    [((0, 1), [[1, 0], [0, 0]]), ((1,), [0, 1]), ((0,), [0, 1])]
    """
    source = read_table(data, "frame")
    if counts is None:
        _ask_for_counts(source, columns)
    given = None if isinstance(counts, str) and counts == "rows" and counts not in source.names else counts
    names = source.choose(columns, given)
    found = encode(source, names, levels, missing)
    if (why := beyond_memory(found.shape)) is not None:
        raise InvalidTensor(
            f"{size_name(math.prod(found.shape))} cells are too many for a table that is written out: it {why}. Name "
            "fewer columns, or fit a SparseTensor (from_rows), which loglinear and decompose take as it is."
        )
    weights = row_counts(source, given, found)
    if weights is not None and (wrong := weights != np.rint(weights)).any():
        row = int(np.argmax(wrong))
        raise InvalidSamples(
            f"counts holds {weights[row]:g} in row {row}; counts are whole numbers >= 0 ({int(wrong.sum())} of "
            f"{len(weights)} rows hold something else). If they were rescaled, pass the counts themselves."
        )
    # rows by one number each, which sorts faster than the rows themselves; a gap comes before level 0
    sizes = [size + 1 for size in found.shape]
    listed, place = np.unique(np.ravel_multi_index([codes + 1 for codes in found.codes], sizes), return_inverse=True)
    cells = np.stack(np.unravel_index(listed, sizes), axis=1) - 1
    patterns = _count_patterns(cells, np.bincount(place.ravel(), weights), found.shape)
    origin = frame_origin(data, tuple(map(str, names)), found)
    notes = list(origin.notes)
    if patterns and not patterns[-1].modes:
        notes.append(f"Left out: {patterns[-1].total:,} of the rows, which lack every value.")
    if weights is not None:
        if len(weights) > len(cells):
            added = f"{len(weights):,} rows were added up to {len(cells):,} cells"
            notes.append(f"{added}, as several rows belong to the same one.")
        if len(patterns) == 1 and len(cells) < (n := math.prod(found.shape)):
            notes.append(f"{n - len(cells):,} of {n:,} combinations of levels are not listed; they are read as 0.")
    return replace(origin, notes=tuple(notes)), tuple(pattern for pattern in patterns if pattern.modes)


def _ask_for_counts(source: Table, columns: Any) -> None:
    """Raise an error if a column may hold frequencies, by its name and numbers: the caller must say if it does."""
    likely = ("freq", "frequency", "count", "counts", "n", "weight", "weights", "number")
    for name in source.names:
        if str(name).lower() not in likely or (columns is not None and name in columns):
            continue
        if source.column(name).values.dtype.kind in "iuf":
            raise InvalidSamples(
                f"the frame has a column {name!r} of numbers: if it says how often each row was seen, pass "
                f"counts={name!r}. If each row is one case, pass counts='rows' and name the columns."
            )


def _count_patterns(cells: IntArray, sums: AnyArray, shape: tuple[int, ...]) -> list[Pattern]:
    """Make a table for each set of variables that rows have, those with the most variables first.

    `cells` are different rows of levels, -1 where a value is missing, and `sums` says how many rows are alike.
    """
    kinds, which = np.unique(cells >= 0, axis=0, return_inverse=True)
    patterns = []
    for i in np.argsort(-kinds.sum(axis=1), kind="stable").tolist():
        rows, modes = which.ravel() == i, np.flatnonzero(kinds[i])
        counts = np.zeros([shape[k] for k in modes], dtype=np.int64)
        counts[tuple(cells[rows][:, modes].T)] = sums[rows] if len(modes) else sums[rows].sum()
        if counts.any():
            patterns.append(Pattern(tuple(modes.tolist()), freeze(counts)))
    return patterns
