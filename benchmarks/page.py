"""docs/background/performance.md, written from the rows."""

from __future__ import annotations

import os
from pathlib import Path

from . import tables
from .claims import verdicts
from .machine import older
from .measure import NUMPY, OURS
from .plots import CELLS_PLOT, PARAMS_PLOT
from .problems import CELLS_SWEEP, PARAMS_SWEEP, PROBLEMS, ROOT, Problem
from .results import LABELS, Results, exponent
from .rows import Row

PAGE = ROOT / "docs" / "background" / "performance.md"

INTRODUCTION = """\
# Performance

Written by `python -m benchmarks.run --report` from the rows in `benchmarks/`; do not edit. `make bench` measures again
(under 10 minutes), `make bench-quick` a part of it (under a minute), `python -m benchmarks.run --full` everything.
`make bench-against OLD=FOLDER` measures an older checkout and this one in turns.
"""

READING = """\
## How to read the numbers

- Every row is a process of its own. Code is warmed up on a small problem, and by a first run if that takes less than
  10 s. *seconds* is the fastest of the repeats, of `decompose` as a user calls it: reading X, choosing the basis,
  fitting.
- *residual* is max|eta - eta_hat|. A row above its tolerance is marked FAILED and does not count. The package makes
  another correction after it has met the tolerance, so its residual is often far below.
- */ sum* and */ dpotrf*: the time divided by that of one `X.sum()`, and of one LAPACK Cholesky factorisation of
  a |B| x |B| matrix, in the same process.
- */ legendre*: the time divided by the package's on the same problem, both as the table shows them. The two may come
  from different runs.
- *busy machine*: other programs used more than a quarter of a core meanwhile. Two threads that wait for each other can
  then be several times slower.
- *extra MB*: peak resident memory minus that right after X was made. Compiled code is loaded before that; the promises
  on memory include it.
- Other methods have the smallest rank with at least as many parameters as the basis. They run for at most 100
  iterations, to a tolerance of 1e-5 (CP-APR: its own, 1e-4). They minimise another objective and have no certificate;
  NN-CP and NN-Tucker minimise the squared error, so RMSE favours them and KL the package.
- *Algorithm 2 in NumPy* is `benchmarks/numpy_algorithm2.py`: running sums by `np.cumsum`, the Fisher matrix by
  gathering, `np.linalg.solve`, to the same tolerance.
- Random tensors are uniform on [0, 1), seed 0. Faces and MNIST are not part of the project; LEGENDRE_DATA names the
  folder that they are in.
"""


def write_page(results: Results, pictures: Path, path: Path = PAGE) -> Path:
    """Write the page; `pictures` is the folder of the plots."""
    where = Path(os.path.relpath(pictures, path.parent)).as_posix()
    parts = [
        INTRODUCTION,
        _circumstances(results),
        "## Promises\n\n" + tables.markdown(tables.CLAIM_COLUMNS, [tables.claim_cells(v) for v in verdicts(results)]),
        "## Growth\n\n" + _growth(results),
        f"![Time and memory against the number of cells]({where}/{CELLS_PLOT})",
        f"![Time and memory against the number of parameters]({where}/{PARAMS_PLOT})",
        "## The package\n\n" + tables.markdown(tables.ROW_COLUMNS, [tables.row_cells(row) for row in _ours(results)]),
        "## Others\n\n" + tables.markdown(tables.PEER_COLUMNS, _others(results)),
        "## The same answer\n\n"
        + tables.markdown(tables.CHECK_COLUMNS, [tables.check_cells(c) for c in results.checks]),
        READING,
    ]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    return path


def _circumstances(results: Results) -> str:
    newest = max((row for row in results.rows.values() if row.measured), key=lambda row: row.run, default=None)
    if newest is None:
        return "No rows yet."
    runs = len({row.run for row in results.rows.values()})
    again = "" if runs == 1 else f" Rows of {runs} runs; of each kind the newest."
    measured = f"Measured {newest.run[:10]} on {newest.machine} (threads: {newest.threads}). {newest.versions}.{again}"
    return older(newest.versions) + measured


def _ours(results: Results) -> list[Row]:
    return [row for name in PROBLEMS if (row := results.ours(name)) is not None]


def _others(results: Results) -> list[tables.Cells]:
    """List each problem that others ran on, the package's own row first."""
    lines = []
    for name in PROBLEMS:
        rows = [row for method in LABELS if (row := results.of(method, name)) is not None]
        if any(row.method != OURS for row in rows):
            lines += tables.peer_lines(rows, results.ours)
    return lines


def _growth(results: Results) -> str:
    large = tuple(problem for problem in CELLS_SWEEP if problem.shape[0] >= 100)
    lines = [
        *_exponents(results, "cells, 100^3 to 500^3, B3(1)", large, by_params=False),
        *_exponents(results, "parameters, 50^3, B3(1) to B3(1000)", PARAMS_SWEEP, by_params=True),
    ]
    text = "The exponent a of `c x^a`, fitted by least squares in the logarithms.\n\n"
    return text + tables.markdown(("against", "method", "rows", "time", "memory beyond X"), lines)


def _exponents(results: Results, name: str, problems: tuple[Problem, ...], *, by_params: bool) -> list[tables.Cells]:
    lines = []
    for method in (OURS, NUMPY) if by_params else LABELS:
        rows = results.line(method, problems)
        x = (lambda row: row.params) if by_params else (lambda row: row.cells)
        time = exponent(rows, x, lambda row: row.seconds)
        if time is not None:
            memory = _memory_growth(rows, exponent(rows, x, lambda row: row.peak_extra_mb))
            lines.append([name, LABELS[method], str(len(rows)), tables.number(time, ".2f"), memory])
    return lines


def _memory_growth(rows: list[Row], power: float | None) -> str:
    """Write the exponent, unless there is so little memory that it is noise."""
    extra = [row.peak_extra_mb or 0.0 for row in rows]
    return f"none: at most {max(extra):.0f} MB" if min(extra) < 1 or max(extra) < 20 else tables.number(power, ".2f")
