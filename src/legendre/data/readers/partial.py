"""Rows of a data frame of which some have no value of some variables, counted by which variables they have."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from legendre.core.cells import frozen
from legendre.core.errors import InvalidSamples, InvalidTensor
from legendre.core.labels import Labels
from legendre.core.memory import size_name
from legendre.core.origin import Origin
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.observation import beyond_memory
from legendre.data.partial_table import PartialTable, Pattern
from legendre.data.readers.columns import Table, levels_by_column
from legendre.data.readers.contingency import opened_rows
from legendre.data.readers.tables import LIBRARIES, coded_mode


def partial_table(
    data: Any, variables: Sequence[Hashable] | None, counts: Any, levels: Mapping[Any, Any] | None
) -> PartialTable:
    """Count the rows of a frame by which variables they have; the levels are those that occur in any row.

    >>> rows = {"a": ["x", "y", None], "b": ["u", None, "v"]}
    >>> [(pattern.modes, pattern.counts.tolist()) for pattern in partial_table(rows, None, None, None).patterns]
    [((0, 1), [[1, 0], [0, 0]]), ((1,), [0, 1]), ((0,), [0, 1])]
    """
    source, given = opened_rows(data, variables, counts)
    named = [name for name in source.names if name != given] if variables is None else list(variables)
    present, codes, found, sizes = _coded(source, named, levels_by_column(levels, named))
    kept = [k for k, size in enumerate(sizes) if size > 1]
    if not kept:
        raise InvalidTensor(f"table: every variable has one level only ({', '.join(map(str, named))}).")
    shape = tuple(sizes[k] for k in kept)
    if (why := beyond_memory(shape)) is not None:
        raise InvalidTensor(
            f"table: {size_name(math.prod(shape))} cells are too many for missing='em': the table {why}. Name fewer "
            "variables."
        )
    dropped = tuple(str(name) for k, name in enumerate(named) if k not in kept)
    notes = [f"{name} has one level only and was left out." for name in dropped]
    library = next((name for name in LIBRARIES if type(data).__module__.partition(".")[0] == name), None)
    labels = Labels(shape, tuple(str(named[k]) for k in kept), tuple(found[k] for k in kept))
    form: Any = "array" if library is None else "series" if library == "pandas" else "rows"
    weights = _weights(source, given)
    patterns, lost = _patterns(present[:, kept], codes[:, kept], shape, weights)
    if lost:
        notes.append(f"{lost:,} {'row has' if lost == 1 else 'rows have'} no value at all and {_was(lost)} left out.")
    if not patterns:
        raise InvalidTensor("table: every count is 0: there is nothing to fit.")
    origin = Origin(labels, form=form, library=library or "pandas", notes=tuple(notes))
    return PartialTable(shape, origin, patterns, tuple(notes), dropped)


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def _coded(
    source: Table, named: list[Any], levels: Mapping[Any, Any]
) -> tuple[BoolArray, IntArray, list[Any], list[int]]:
    """Return which rows have which variables, the levels of those that have, and the levels of each variable."""
    present = np.ones((source.n, len(named)), dtype=np.bool_)
    codes, found, sizes = np.zeros(present.shape, dtype=np.int64), [], []
    for k, name in enumerate(named):
        column = source.column(name)
        present[:, k] = ~column.absent()
        if not present[:, k].any():
            raise InvalidSamples(f"table: column {name!r} has no value in any row. Leave it out.")
        codes[:, k], own, size = coded_mode(column.filled(), f"column {name!r}", levels[name])
        found.append(own)
        sizes.append(size)
    return present, codes, found, sizes


def _weights(source: Table, given: Any) -> FloatArray | None:
    if given is None:
        return None
    numbers = source.column(given).rows() if isinstance(given, str) else np.asarray(given)
    if numbers.dtype.kind not in "iuf" or numbers.shape != (source.n,):
        raise InvalidSamples(f"table: counts must be {source.n} whole numbers, one for each row.")
    return numbers.astype(np.float64)


def _patterns(
    present: BoolArray, codes: IntArray, shape: tuple[int, ...], weights: FloatArray | None
) -> tuple[tuple[Pattern, ...], int]:
    """Count the rows of each set of variables; return how many have none, too."""
    kinds, which = np.unique(present, axis=0, return_inverse=True)
    order = np.argsort(-kinds.sum(axis=1), kind="stable").tolist()
    found, lost = [], 0
    for i in order:
        rows, modes = which.reshape(-1) == i, np.flatnonzero(kinds[i]).tolist()
        own = None if weights is None else weights[rows]
        if not modes:
            lost = int(rows.sum() if own is None else own.sum())
            continue
        sizes = [shape[k] for k in modes]
        flat = np.ravel_multi_index(tuple(codes[rows][:, modes].T), sizes)
        counts = np.bincount(flat, weights=own, minlength=math.prod(sizes)).astype(np.int64).reshape(sizes)
        if counts.any():
            found.append(Pattern(tuple(modes), frozen(counts)))
    return tuple(found), lost
