"""Tables in parquet files: a row for each event, or for each cell with its count."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from legendre.cli.pick_array import mode_columns, needs
from legendre.core.errors import InvalidFile
from legendre.core.progress import Say, line
from legendre.data.readers.rows import from_rows
from legendre.data.sparse_tensor import SparseTensor

AT_A_TIME = 1 << 18  # rows of a batch


def read_parquet(path: Path, columns: tuple[str, ...] | None, counts: str | None) -> SparseTensor:
    """Count the rows of a table, in the memory of a few hundred thousand of them."""
    needs(path, "pyarrow")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file, line(f"reading {path.name}", sys.stderr.isatty()) as say:
            names = list(file.schema_arrow.names)
            modes = mode_columns(path, names, columns, counts)
            wanted = [*modes, *([] if counts is None else [counts])]
            return from_rows(_batches(file, wanted, say), modes, counts)
    except (ArrowException, OSError) as problem:
        raise InvalidFile(f"cannot read {path}: {str(problem).splitlines()[0]}.") from None


def _batches(file: Any, wanted: list[str], say: Say) -> Iterator[Any]:
    """Read some columns, batch by batch."""
    done, total = 0, max(file.metadata.num_rows, 1)
    for batch in file.iter_batches(AT_A_TIME, columns=wanted):
        yield batch
        done += len(batch)
        say(f"{done:,} of {total:,} rows", done / total)
