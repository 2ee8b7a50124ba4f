"""Contingency tables: counts of cases by the levels of variables, some of which rows with missing values lack.

A table whose rows lack nothing is the case of a single pattern.
"""

from __future__ import annotations

import math
import string
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.core.cells import frozen
from legendre.core.errors import InvalidSamples, InvalidTensor
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.origin import Origin, host
from legendre.core.types import AnyArray, IntArray
from legendre.data.observation import beyond_memory
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.readers.encode import Encoded, Missing, Table, encode, read_table
from legendre.data.readers.labelled import FRAMES, unwrap
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


@dataclass(frozen=True, eq=False)
class PartialTable:
    """Counts of cases by which variables they have and by the levels of these."""

    shape: tuple[int, ...]  # how many levels each variable has
    origin: Origin
    patterns: tuple[Pattern, ...]  # rows with all variables first, where there are some
    notes: tuple[str, ...] = ()  # about how the rows were read
    dropped: tuple[str, ...] = ()  # variables that have a single level, and were left out

    @property
    def total(self) -> int:
        """The number of rows."""
        return sum(pattern.total for pattern in self.patterns)

    @property
    def complete(self) -> int:
        """The number of rows that lack nothing."""
        return sum(pattern.total for pattern in self.patterns if len(pattern.modes) == len(self.shape))

    @property
    def names(self) -> tuple[str, ...]:
        """What the variables are called."""
        labels = self.origin.of(self.shape)
        return tuple(labels.mode(k) for k in range(len(self.shape)))

    def lacking(self) -> list[tuple[tuple[str, ...], int]]:
        """List which variables rows lack, and how many rows do; complete rows are not listed."""
        names = self.names
        absent = [tuple(name for k, name in enumerate(names) if k not in p.modes) for p in self.patterns]
        return [(lost, p.total) for lost, p in zip(absent, self.patterns, strict=True) if lost]


def has_rows(data: Any, columns: Any, counts: Any) -> bool:
    """Whether data is a frame with a row for each case or cell, not a table whose entries are counts."""
    root, kind = type(data).__module__.partition(".")[0], type(data).__name__
    if isinstance(data, Mapping) or (isinstance(data, np.ndarray) and data.dtype.names is not None):
        return True
    if root not in FRAMES or kind not in ("DataFrame", "LazyFrame", "Table", "RecordBatch"):
        return False
    if root != "pandas" or counts is not None:
        return True
    if columns is not None and {str(name) for name in columns} <= {str(name) for name in data.columns}:
        return True
    numbers = all(str(kind)[:3].lower() in ("int", "uin", "flo") for kind in data.dtypes)
    return not numbers or (type(data.index).__name__ == "RangeIndex" and data.columns.nlevels == 1)


def read_cases(
    data: Any,
    columns: Sequence[Hashable] | None = None,
    counts: Any = None,
    *,
    levels: Any = None,
    names: Any = None,
    missing: Missing = "error",
) -> PartialTable:
    """Read a contingency table from rows of cases, a list of frequencies, a cross table or an array of counts.

    Variables without a name are called A, B, C, ... as in textbooks; those with a single level are left out. Rows of a
    data frame that lack a value are an error, left out ("drop"), or counted by the variables that they have ("keep").

    >>> rows = {"a": ["x", "y", None], "b": ["u", None, "v"]}
    >>> [(pattern.modes, pattern.counts.tolist()) for pattern in read_cases(rows, missing="keep").patterns]
    [((0, 1), [[1, 0], [0, 0]]), ((1,), [0, 1]), ((0,), [0, 1])]
    >>> read_cases([[1, 2], [3, 4]]).names
    ('A', 'B')
    """
    if has_rows(data, columns, counts):
        return _read_rows(data, columns, counts, levels, missing)
    if counts is not None:
        raise InvalidSamples(
            f"counts={counts!r}: only a data frame has a column of counts; a {type(data).__name__} is read as a table "
            "of counts itself."
        )
    held, origin = unwrap(data, names, levels)
    if (listed := as_sparse_tensor(held)) is not None:
        _check_size(listed.shape)
        held = listed
    values = np.asarray(host(held, "table", InvalidTensor))
    if values.ndim == 0 or values.dtype.kind not in "iuf":
        raise InvalidTensor(f"a {type(data).__name__} of {values.dtype} and shape {values.shape} holds no counts.")
    labels = origin.of(values.shape)
    if labels.names is None:
        letters = string.ascii_uppercase
        names = tuple(letters[k] if k < len(letters) else f"V{k}" for k in range(values.ndim))
        labels = Labels(values.shape, names, labels.levels)
    _check_counts(values, labels)
    kept = range(values.ndim) if columns is None else [labels.find_mode(name, "columns") for name in columns]
    others = tuple(k for k in range(values.ndim) if k not in kept)
    table = values.astype(np.int64).sum(axis=others).transpose([sorted(kept).index(k) for k in kept])
    origin = replace(origin, labels=labels).part(kept)
    return _leave_out_constants(table.shape, origin, [Pattern(tuple(range(table.ndim)), table)])


def _read_rows(data: Any, columns: Any, counts: Any, levels: Any, missing: Missing) -> PartialTable:
    """Count the rows of a frame."""
    source = read_table(data, "frame")
    if counts is None:
        _ask_for_counts(source, columns)
    given = None if isinstance(counts, str) and counts == "rows" and counts not in source.names else counts
    modes = source.choose(columns, given)
    found = encode(source, modes, levels, missing)
    _check_size(found.shape)
    weights = row_counts(source, given, found)
    if weights is not None and (wrong := weights != np.rint(weights)).any():
        row = int(np.argmax(wrong))
        raise InvalidSamples(
            f"counts holds {weights[row]:g} in row {row}; counts are whole numbers >= 0 ({int(wrong.sum())} of "
            f"{len(weights)} rows hold something else). If they were rescaled, pass the counts themselves."
        )
    origin = frame_origin(data, tuple(map(str, modes)), found)
    return _leave_out_constants(found.shape, origin, _count_patterns(found, weights))


def _ask_for_counts(source: Table, columns: Any) -> None:
    """Refuse to guess whether a column of whole numbers says how often a row was seen."""
    likely = ("freq", "frequency", "count", "counts", "n", "weight", "weights", "number")
    for name in source.names:
        if str(name).lower() not in likely or (columns is not None and name in columns):
            continue
        if (column := source.column(name)).codes is None and column.values.dtype.kind in "iuf":
            raise InvalidSamples(
                f"the frame has a column {name!r} of numbers: if it says how often each row was seen, pass "
                f"counts={name!r}. If each row is one case, pass counts='rows' and name the columns."
            )


def _count_patterns(found: Encoded, weights: AnyArray | None) -> tuple[Pattern, ...]:
    """Count the rows of each set of variables that rows have, complete ones first."""
    codes = np.stack(found.codes, axis=1)
    kinds, which = np.unique(codes >= 0, axis=0, return_inverse=True)
    patterns = []
    for i in np.argsort(-kinds.sum(axis=1), kind="stable").tolist():
        rows, modes = which.reshape(-1) == i, np.flatnonzero(kinds[i]).tolist()
        own = np.ones(int(rows.sum())) if weights is None else weights[rows]
        counts = np.zeros([found.shape[k] for k in modes])
        np.add.at(counts, tuple(codes[rows][:, modes].T), own if modes else own.sum())
        patterns.append(Pattern(tuple(modes), counts.astype(np.int64)))
    return tuple(patterns)


def _leave_out_constants(shape: tuple[int, ...], origin: Origin, patterns: Sequence[Pattern]) -> PartialTable:
    """Leave out variables with a single level and rows without a value, and say so."""
    whole = origin.of(shape)
    kept = [k for k, n in enumerate(shape) if n > 1]
    dropped = tuple(whole.mode(k) for k in range(len(shape)) if k not in kept)
    if not kept:
        raise InvalidTensor(f"every variable has one level only ({', '.join(dropped)}): nothing can be compared.")
    labels = whole.part(kept)
    notes = [*origin.notes, *(f"{name} has one level only and was left out." for name in dropped)]
    found: dict[tuple[int, ...], AnyArray] = {}
    for pattern in patterns:
        modes = tuple(kept.index(k) for k in pattern.modes if k in kept)
        found[modes] = found.get(modes, 0) + pattern.counts.reshape([labels.shape[k] for k in modes])
    if lost := int(found.pop((), 0)):
        notes.append(f"Left out: {lost:,} of the rows, which lack every value.")
    listed = tuple(Pattern(modes, frozen(counts)) for modes, counts in found.items() if counts.any())
    if not listed:
        raise InvalidTensor("every count is 0: there is nothing to fit.")
    for k, n in enumerate(labels.shape):
        seen = [np.moveaxis(p.counts, p.modes.index(k), 0).reshape(n, -1).any(axis=1) for p in listed if k in p.modes]
        notes += [
            f"{labels.mode(k)} {labels.level(k, i)} has no cases: its fitted counts are 0 in most models."
            for i in np.flatnonzero(~np.any(seen, axis=0)).tolist()
        ]
    part = replace(origin.part(kept), notes=tuple(notes))
    return PartialTable(labels.shape, part, listed, tuple(notes), dropped)


def _check_size(shape: tuple[int, ...]) -> None:
    if (why := beyond_memory(shape)) is not None:
        raise InvalidTensor(
            f"{size_name(math.prod(shape))} cells are too many for a table that is written out: it {why}. Name fewer "
            "columns, or fit a SparseTensor (from_rows), which loglinear and decompose take as it is."
        )


def _check_counts(values: AnyArray, labels: Labels) -> None:
    wrong = ~((values >= 0) & (values == np.rint(values)) & (values < 2.0**53))
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        raise InvalidTensor(
            f"the count of ({labels.cell(place)}) is {values[place]:g} ({int(wrong.sum())} of {values.size} cells are "
            "like that): counts are whole numbers >= 0. If the table was rescaled, pass the counts themselves; if a "
            "cell cannot occur, put 0 there and leave it out by support=."
        )
