"""Rows larger than memory: ``python -m benchmarks.counting FOLDER`` counts them, finds their graph and fits it.

A parquet file of 10^8 rows in 12 columns (``--rows``), strings and numbers that depend on each other along a tree, is
written to FOLDER, and removed at the end unless ``--keep`` is given. Each way to read it is a process that may have
2 GiB of memory of its own, and two threads. It prints the seconds, the processor time, the peak memory, how many
cells hold counts, and a digest of them, which must be the same for each way.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .blocks import limit
from .machine import peak_bytes
from .problems import ROOT

LEVELS = {"hour": 24, "month": 12, "day": 7, "zone": 5, "fare": 4, "line": 4, "age": 3, "gate": 3}
LEVELS |= dict.fromkeys(("late", "rain", "card", "event"), 2)
PARENTS = (None, 0, 0, 1, 3, 3, 4, 0, 2, 1, 6, 8)  # of each column, by number


def generate(path: Path, rows: int, piece: int = 1 << 20) -> None:
    """Write rows of a tree: each column is drawn given its parent; the first eight are strings."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    rng, sizes = np.random.default_rng(0), list(LEVELS.values())
    tables = [rng.dirichlet(np.full(n, 0.7), 1 if p is None else sizes[p]) for n, p in zip(sizes, PARENTS, strict=True)]
    schema = pa.schema([(name, pa.string() if n > 2 else pa.int8()) for name, n in LEVELS.items()])
    labels = [pa.array([f"{name} {i}" for i in range(n)]) for name, n in LEVELS.items()]
    with ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, piece):
            n = min(piece, rows - start)
            codes: list[Any] = []
            for table, parent in zip(tables, PARENTS, strict=True):
                ends = np.cumsum(table, axis=1)
                given = np.zeros(n, np.int8) if parent is None else codes[parent]
                u, drawn = rng.random(n), np.zeros(n, np.int8)
                for k in range(table.shape[1] - 1):
                    drawn += u > ends[given, k]
                codes.append(drawn)
            columns = [
                own.take(pa.array(drawn)) if len(own) > 2 else pa.array(drawn)
                for own, drawn in zip(labels, codes, strict=True)
            ]
            writer.write_table(pa.table(columns, schema=schema))


def batches(path: Path) -> ld.SparseTensor:
    """Count batches of pyarrow."""
    from pyarrow.parquet import ParquetFile

    strings = [name for name, n in LEVELS.items() if n > 2]
    return ld.from_rows(ParquetFile(path, read_dictionary=strings).iter_batches(1 << 18))


def dataset(path: Path) -> ld.SparseTensor:
    """Count a dataset of pyarrow."""
    import pyarrow.dataset

    return ld.from_rows(pyarrow.dataset.dataset(path))


def lazy(path: Path) -> ld.SparseTensor:
    """Count a lazy frame of polars."""
    import polars

    return ld.from_rows(polars.scan_parquet(path))


def dask(path: Path) -> ld.SparseTensor:
    """Count a data frame of dask, with threads."""
    import dask.dataframe

    return ld.from_rows(dask.dataframe.read_parquet(path, split_row_groups=True))


WAYS: dict[str, Callable[[Path], ld.SparseTensor]] = {
    "batches": batches, "dataset": dataset, "polars": lazy, "dask": dask,
}  # fmt: skip


def measure(path: Path, way: str, fit: bool) -> None:
    """Count the file in one way, in this process, and print a line; with `fit`, find the graph and fit it."""
    start, cpu = time.perf_counter(), time.process_time()

    def passed() -> str:
        seconds, spent = time.perf_counter() - start, time.process_time() - cpu
        return f"{seconds:.1f} s, CPU {spent:.1f} s, peak {peak_bytes() / 1e6:.0f} MB"

    x = WAYS[way](path)
    assert x.names == tuple(LEVELS)
    digest = hashlib.sha256(x.values.tobytes())
    for k in range(len(x.shape)):
        digest.update(x.cells[:, k].tobytes())
    rows = int(x.values.sum())
    print(f"{way}: {rows:,} rows, {x.nnz:,} cells, {digest.hexdigest()[:12]}: {passed()}", flush=True)
    if fit:
        found = ld.decompose(x, ld.graph())
        edges = [] if found.graph is None else [tuple(sorted(edge)) for edge in found.graph.ends.tolist()]
        true = sorted((p, k) for k, p in enumerate(PARENTS) if p is not None)
        print(
            f"fitted: {found!r}; the {len(true)} edges of the tree among {len(edges)} found: {set(true) <= set(edges)}"
        )
        print(f"counted, graph found, fitted: {passed()}", flush=True)


def main() -> None:
    """Write the file, and measure each way in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=lambda word: int(float(word)), default=10**8)
    parser.add_argument("--ways", default="batches")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--measure", metavar="WAY", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    path = asked.folder / f"rows-{asked.rows}.parquet"
    if asked.measure:
        limit()
        measure(path, asked.measure, fit=asked.measure == asked.ways.split(",")[0])
        return
    if not path.exists():
        generate(path, asked.rows)
    print(f"{path.stat().st_size / 1e6:.0f} MB in parquet, limit 2 GiB", flush=True)
    environment = os.environ | {
        "OMP_NUM_THREADS": "2",
        "POLARS_MAX_THREADS": "2",
        "POLARS_ROW_GROUP_PREFETCH_SIZE": "2",
    }
    try:
        for way in asked.ways.split(","):
            words = [sys.executable, "-m", "benchmarks.counting", *sys.argv[1:], "--measure", way]
            subprocess.run(words, check=True, cwd=ROOT, env=environment)
    finally:
        if not asked.keep:
            path.unlink()


if __name__ == "__main__":
    main()
