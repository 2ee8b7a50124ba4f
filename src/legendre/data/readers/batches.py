"""Tables that come in parts: each is counted on its own, and the counts are joined."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.types import AnyArray
from legendre.data.readers.tables import from_rows
from legendre.data.sparse_tensor import SparseTensor, assemble

TOGETHER = 8  # parts of a dask table that are counted at a time


def from_batches(
    batches: Any,
    columns: Sequence[Hashable] | None = None,
    weights: str | None = None,
    levels: int | Sequence[Any] | Mapping[Any, Any] | None = None,
) -> SparseTensor:
    """Count the rows of many tables, in the memory of a few of them and of the result.

    Parameters
    ----------
    batches
        Tables that `from_rows` takes, one after the other: batches of a parquet file
        (``pyarrow.parquet.ParquetFile(path).iter_batches()``), pieces of a CSV file
        (``pandas.read_csv(path, chunksize=100_000)``), arrays. Or a dask data frame, whose parts are counted by the
        scheduler of dask, on a cluster where there is one. Tables without rows are passed over.
    columns, weights, levels
        As in `from_rows`; weights are a column. Levels that are not given are those that occur in any of the tables.

    Returns
    -------
    SparseTensor
        The same as of all rows in one table.

    Examples
    --------
    >>> x = from_batches([{"dest": ["SFO", "BOS"], "hour": [6, 7]}, {"dest": ["ATL"], "hour": [9]}])
    >>> x.shape, x.levels[0].tolist(), x.cells.tolist()
    ((3, 10), ['ATL', 'BOS', 'SFO'], [[0, 9], [1, 7], [2, 6]])
    """
    if weights is not None and not isinstance(weights, str):
        raise InvalidSetting(f"weights of tables that come in parts are a column's name, got {type(weights).__name__}.")
    whole: SparseTensor | None = None
    waiting: list[SparseTensor] = []
    for part in _counted(batches, columns, weights, levels):
        waiting.append(part)
        # joining costs as much as what is joined: wait until it doubles
        if whole is None or sum(some.nnz for some in waiting) >= whole.nnz:
            whole, waiting = _joined([whole, *waiting] if whole is not None else waiting), []
    if whole is None:
        raise InvalidSamples("there are no rows in any of the tables: there is nothing to count.")
    return _joined([whole, *waiting]) if waiting else whole


def _counted(batches: Any, *told: Any) -> Iterator[SparseTensor]:
    """Count one table after the other; those of a dask data frame some at a time, in their order."""
    if hasattr(batches, "to_delayed"):
        import dask

        count = dask.delayed(_count, pure=False)
        parts = [count(part, *told) for part in batches.to_delayed()]
        for start in range(0, len(parts), TOGETHER):
            yield from (found for found in dask.compute(*parts[start : start + TOGETHER]) if found is not None)
        return
    if not isinstance(batches, Iterable) or isinstance(batches, (str, bytes, Mapping)):
        raise InvalidSamples(f"batches is a {type(batches).__name__}; pass tables one after the other, e.g. a list.")
    yield from (found for table in batches if (found := _count(table, *told)) is not None)


def _count(table: Any, *told: Any) -> SparseTensor | None:
    rows = next(iter(table.values()), ()) if isinstance(table, Mapping) else table
    return from_rows(table, *told) if len(rows) else None


def _joined(parts: list[SparseTensor]) -> SparseTensor:
    """Add up lists whose modes are the same; levels that differ are brought to those of all."""
    first = parts[0]
    for part in parts[1:]:
        if part.names != first.names or len(part.shape) != len(first.shape):
            raise InvalidSamples(
                f"the tables have different columns: {first.names or len(first.shape)} first, then "
                f"{part.names or len(part.shape)}. Name those that are modes: columns=[...]."
            )
    columns, shape, levels = zip(*(_mode(parts, k) for k in range(len(first.shape))), strict=True)
    return assemble(
        columns,
        np.concatenate([part.values for part in parts]),
        shape,
        lambda row, mode: f"row {row} of mode {mode}",
        InvalidSamples,
        first.names,
        levels if any(level is not None for level in levels) else None,
    )


def _mode(parts: list[SparseTensor], k: int) -> tuple[AnyArray, int, AnyArray | None]:
    """Return the indices of one mode in all parts, its size and its levels."""
    known = [None if part.levels is None else part.levels[k] for part in parts]
    columns = [part.cells[:, k].astype(np.int64) for part in parts]
    named = [level for level in known if level is not None]
    if not named:
        return np.concatenate(columns), max(part.shape[k] for part in parts), None
    label = f"mode {k}" if parts[0].names is None else f"column {parts[0].names[k]!r}"
    if len(named) < len(parts):
        raise InvalidSamples(
            f"{label} holds indices in some tables and names in others. Give its levels: levels={{...}}."
        )
    if all(np.array_equal(level, named[0]) for level in named):
        return np.concatenate(columns), len(named[0]), named[0]
    try:
        union = np.unique(np.concatenate(named))
    except TypeError:
        raise InvalidSamples(
            f"{label} holds values of different kinds in different tables. Convert them first."
        ) from None
    moved = [np.searchsorted(union, level)[column] for level, column in zip(named, columns, strict=True)]
    return np.concatenate(moved), len(union), union
