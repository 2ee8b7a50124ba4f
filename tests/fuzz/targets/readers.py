"""What X may come as: sparse arrays of every library, lists of cells, text files, tables of events."""

from __future__ import annotations

import datetime
import decimal
import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..fit_rules import close, need, same_cells
from ..oracle import EPS, LONG, Problem
from ..rules import Trial
from . import Args, Target
from .fits import fit_bits, judge_fit, the_cells

Array = Any
SPARSE = ("scipy-coo", "scipy-csr", "scipy-array", "pydata", "coords", "columns", "tns", "tns.gz")


# --- sparse tensors --------------------------------------------------------------------------------------------------


def draw_sparse(rng: np.random.Generator) -> Args:
    kind = pick(rng, *SPARSE)
    dims = draw.shape(rng, 36, (2,) if kind.startswith("scipy") and kind != "scipy-array" else (1, 2, 2, 3, 4))
    n = int(rng.integers(1, 20))
    cells = np.stack([rng.integers(0, m, n) for m in dims], axis=1)
    if not chance(rng, 0.4):
        cells = np.unique(cells, axis=0)
    dtype = pick(rng, "f8", "f8", "f4", "f4", "i8", "u1", "i4", "f2", "b1")
    values = rng.integers(0, 5, len(cells)).astype(np.float64)
    if dtype[0] == "f" and chance(rng, 0.7):
        values = rng.uniform(0.01, 4.0, len(cells)) * 10.0 ** (rng.integers(-30, 30) if dtype == "f8" else 0)
    return {
        "kind": kind,
        "dims": list(dims),
        "cells": cells,
        "values": values.astype(dtype),
        "basis": draw.basis(rng, dims),
        "support": pick(rng, "all", "all", "nonzero"),
        "seed": int(rng.integers(1 << 30)),
    }


def sparse_array(args: Args, folder: Path) -> Any:
    """Build the array in the library that the case names."""
    cells, values, dims = args["cells"], args["values"], tuple(args["dims"])
    if values.dtype == np.float16 and args["kind"].startswith(("scipy", "pydata")):
        values = values.astype(np.float32)  # neither SciPy nor numba, which compiles pydata's, has half precision
    match args["kind"]:
        case "scipy-coo" | "scipy-csr":
            import scipy.sparse

            return scipy.sparse.coo_matrix((values, tuple(cells.T)), shape=dims).asformat(args["kind"][6:])
        case "scipy-array":
            import scipy.sparse

            return scipy.sparse.coo_array((values, tuple(cells.T)), shape=dims)
        case "pydata":
            import sparse

            return sparse.COO(cells.T, values, shape=dims)
        case "coords":
            return ld.from_coords(cells, values, dims)
        case "columns":
            return ld.from_coords(tuple(cells.T), values, dims)
    name = folder / f"x.{args['kind']}"
    lines = [f"{len(dims)}", " ".join(map(str, dims)), "# a comment", ""]
    lines += [" ".join([*(str(int(i) + 1) for i in v), repr(float(x))]) for v, x in zip(cells, values, strict=True)]
    text = "\n".join(lines).encode()
    name.write_bytes(gzip.compress(text) if name.suffix == ".gz" else text)
    return ld.read_tns(name)


def dense_of(args: Args) -> Array:
    """Sum the entries, exactly enough."""
    X, cells, values = np.zeros(args["dims"], dtype=LONG), args["cells"], args["values"]
    for cell, value in zip(cells, values, strict=True):
        X[tuple(cell)] += LONG(value)
    return X


def try_sparse(args: Args, folder: Path) -> Trial:
    X = sparse_array(args, folder) if args["kind"] not in ("coords", "columns", "tns", "tns.gz") else None

    def call() -> Any:
        made = sparse_array(args, folder) if X is None else X
        return ld.decompose(made, args["basis"], support=args["support"])

    def check(fit: Any) -> str:
        dense = dense_of(args)
        if X is not None and args["kind"] not in ("scipy-coo", "scipy-array"):  # it adds its duplicates itself
            dense = (X.todense() if hasattr(X, "todense") else X.toarray()).astype(LONG)
        mask = dense > 0 if args["support"] == "nonzero" else np.ones(dense.shape, dtype=bool)
        same_cells(fit.basis, the_cells(args["basis"], dense, mask))
        problem = Problem.of(dense, mask, fit.basis)
        x = problem.x[problem.x > 0]
        return judge_fit(fit, args, bool(x.max() / x.min() < 1e8), problem)[0]

    return Trial(call, check, (args["cells"], args["values"]), fit_bits, outer=True)


# --- tables of events ------------------------------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "index": int,
    "narrow": np.int8,
    "whole": float,
    "text": lambda c: "abcd"[c],
    "bool": lambda c: bool(c % 2),
    "date": lambda c: datetime.date(2020, 1, 1 + c),
    "decimal": decimal.Decimal,
    "time": lambda c: datetime.timedelta(seconds=c),
    "huge": lambda c: c * 10**15,
}


def draw_rows(rng: np.random.Generator) -> Args:
    n, k = int(rng.integers(1, 12)), int(rng.integers(1, 4))
    holder = pick(rng, "pandas", "polars", "pyarrow", "dict", "records", "category", "batches")
    weights = pick(rng, None, None, rng.uniform(0, 2, n), rng.integers(0, 3, n), [1.0] * n)
    return {
        "columns": {f"c{j}": [pick(rng, *KINDS), rng.integers(0, 4, n)] for j in range(k)},
        "holder": holder,
        "weights": None if holder == "batches" else weights,
    }


def cell_values(kind: str, codes: Array) -> list[Any]:
    """List the values that stand in a column."""
    return [KINDS[kind](int(c)) for c in codes]


def table_of(args: Args) -> Any:
    """Build the table; a library that cannot hold a column leaves it to a mapping."""
    columns = {name: cell_values(kind, codes) for name, (kind, codes) in args["columns"].items()}
    try:
        match args["holder"]:
            case "pandas":
                import pandas as pd

                return pd.DataFrame(columns)
            case "category":
                import pandas as pd

                return pd.DataFrame({name: pd.Categorical(column) for name, column in columns.items()})
            case "polars":
                import polars as pl

                return pl.DataFrame(columns, strict=False)
            case "pyarrow":
                import pyarrow as pa

                return pa.table(columns)
            case "records":
                parts: Any = [np.array(column) for column in columns.values()]
                build_records: Any = np.rec.fromarrays
                return build_records(parts, names=list(columns))
    except Exception:
        return columns
    return columns


def try_rows(args: Args, folder: Path) -> Trial:
    del folder
    table = table_of(args)

    def call() -> Any:
        return ld.from_rows(iter([table, table]) if args["holder"] == "batches" else table, counts=args["weights"])

    def check(x: Any) -> str:
        columns = {name: cell_values(kind, codes) for name, (kind, codes) in args["columns"].items()}
        places = []
        for mode, column in enumerate(columns.values()):
            levels = sorted(set(column))
            need(x.shape[mode] == len(levels), f"mode {mode} has {x.shape[mode]} levels, brute force {len(levels)}")
            places.append([levels.index(value) for value in column])
        weights = [1] * len(places[0]) if args["weights"] is None else list(args["weights"])
        counted: Counter[Any] = Counter()
        for row, w in zip(zip(*places, strict=True), weights, strict=True):
            counted[row] += w * (2 if args["holder"] == "batches" else 1)
        right = {cell: value for cell, value in counted.items() if value > 0}
        found = {tuple(map(int, v)): value for v, value in zip(x.cells, x.values.tolist(), strict=True)}
        need(found.keys() == right.keys(), f"cells {sorted(found)}, brute force {sorted(right)}")
        for cell, value in right.items():
            close(found[cell], float(value), 16 * EPS * (1 + float(value)), f"the count of {cell}")
        return "right"

    return Trial(call, check, (args["weights"],), lambda x: [x.cells, x.values, list(x.shape)])


TARGETS = [Target("sparse", draw_sparse, try_sparse, 0.06), Target("rows", draw_rows, try_rows, 0.06)]
