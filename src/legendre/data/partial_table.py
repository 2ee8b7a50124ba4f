"""Tables of counts of the rows of a data frame, for log-linear models; rows may have missing values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from legendre.core.cells import freeze
from legendre.core.errors import InvalidSamples, InvalidTensor
from legendre.core.memory import size_name
from legendre.core.origin import Origin
from legendre.core.types import AnyArray, IntArray, Modes, Shape, frozen
from legendre.data.observation import beyond_memory
from legendre.data.readers.encode import Missing, Table, encode, note_lost, read_table
from legendre.data.readers.rows import frame_origin, row_counts


@frozen
class Pattern:
    """The rows in which the same variables are observed: the table of their counts."""

    modes: Modes  # the observed variables
    counts: IntArray  # how many rows have each combination of levels; a mode for each of these variables

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


def count_cases(
    data: Any, columns: Any = None, counts: Any = None, *, levels: Any = None, missing: Missing = "error"
) -> tuple[Origin, tuple[Pattern, ...]]:
    """Count the rows of a frame by levels, one table for each set of variables that is observed in some rows.

    Complete rows are the first table. Rows that lack a value are an error ("error"), are left out ("drop"), or counted
    by the variables that they have ("keep"); the last is what the EM algorithm needs. `counts` is a column that says
    how often each row occurred, or "rows" if each is one case. Also returned is the origin, with notes on what was
    left out or added up.

    >>> rows = {"a": ["x", "y", None], "b": ["u", None, "v"]}
    >>> [(pattern.modes, pattern.counts.tolist()) for pattern in count_cases(rows, missing="keep")[1]]
    [((0, 1), [[1, 0], [0, 0]]), ((1,), [0, 1]), ((0,), [0, 1])]
    """
    source = read_table(data, "frame")
    if counts is None:
        _ask_for_counts(source, columns)
    # "rows" means that each row counts once, unless a column has that name
    given = None if isinstance(counts, str) and counts == "rows" and counts not in source.names else counts
    names = source.choose(columns, given)
    found = encode(source, names, levels, missing)
    if not found.codes:
        raise InvalidSamples(f"no row is left. {note_lost(names, found.tally)[0]}")
    if (why := beyond_memory(found.shape)) is not None:
        raise InvalidTensor(
            f"{size_name(math.prod(found.shape))} cells are too many for a table that is written out: it {why}. Name "
            "fewer columns, or fit a SparseTensor (from_rows), which loglinear and decompose take as it is."
        )
    weights = row_counts(source, given, found)
    if weights is not None and (wrong := weights != np.rint(weights)).any():
        row = int(wrong.argmax())
        raise InvalidSamples(
            f"counts holds {weights[row]:g} in row {row}; counts are whole numbers >= 0 ({int(wrong.sum())} of "
            f"{len(weights)} rows hold something else). If they were rescaled, pass the counts themselves."
        )
    # Number the combinations of levels in C order, since integers sort faster than rows; a missing value (code -1)
    # becomes 0 and level 0 becomes 1. Then each combination that occurs is listed once, and rows are counted by it.
    sizes = [size + 1 for size in found.shape]
    listed, place = np.unique(np.ravel_multi_index([codes + 1 for codes in found.codes], sizes), return_inverse=True)
    cells = np.stack(np.unravel_index(listed, sizes), axis=1) - 1
    patterns = _count_patterns(cells, np.bincount(place.ravel(), weights), found.shape)
    origin = frame_origin(data, tuple(map(str, names)), found)
    notes = list(origin.notes)
    if patterns and not patterns[-1].modes:  # the last pattern has the fewest variables, here none
        notes.append(f"Left out: {patterns[-1].total:,} of the rows, which lack every value.")
    if weights is not None:
        if len(weights) > len(cells):
            added = f"{len(weights):,} rows were added up to {len(cells):,} cells"
            notes.append(f"{added}, as several rows belong to the same one.")
        if len(patterns) == 1 and len(cells) < (n := math.prod(found.shape)):
            notes.append(f"{n - len(cells):,} of {n:,} combinations of levels are not listed; they are read as 0.")
    return replace(origin, notes=tuple(notes)), tuple(pattern for pattern in patterns if pattern.modes)


def _ask_for_counts(source: Table, columns: Any) -> None:
    """Raise an error if a column of numbers has a name such as "freq": the caller must say whether it holds counts.

    To take it for a variable, or to guess that it holds counts, would give a wrong fit silently.
    """
    likely = ("freq", "frequency", "count", "counts", "n", "weight", "weights", "number")
    for name in source.names:
        if str(name).lower() not in likely or (columns is not None and name in columns):
            continue
        if source.column(name).values.dtype.kind in "iuf":
            raise InvalidSamples(
                f"the frame has a column {name!r} of numbers: if it says how often each row was seen, pass "
                f"counts={name!r}. If each row is one case, pass counts='rows' and name the columns."
            )


def _count_patterns(cells: IntArray, sums: AnyArray, shape: Shape) -> list[Pattern]:
    """Make a table of counts for each set of observed variables, those with the most variables first.

    `cells` (n x N) are the different combinations of levels, -1 where a value is missing, and `sums` (n) says how many
    rows have each. Tables without a count are left out.
    """
    # each kind is a set of observed variables, as a boolean row
    kinds, which = np.unique(cells >= 0, axis=0, return_inverse=True)
    patterns = []
    for i in np.argsort(-kinds.sum(axis=1), kind="stable").tolist():  # kinds with the most variables first
        rows, modes = which.ravel() == i, np.flatnonzero(kinds[i])
        counts = np.zeros([shape[k] for k in modes], dtype=np.int64)
        counts[tuple(cells[rows][:, modes].T)] = sums[rows] if len(modes) else sums[rows].sum()
        if counts.any():
            patterns.append(Pattern(tuple(modes.tolist()), freeze(counts)))
    return patterns
