"""The rows of the benchmarks; `benchmarks.csv_records` reads and writes them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from benchmarks.csv_records import read
from legendre.core.files import replacing

BUSY = 0.25
"""Cores that other programs may keep busy during a measurement that counts as undisturbed."""
RETIRED = ("ratio_to_ours",)
"""Columns of older files. The ratio to the package's time is derived from the rows that a table shows."""


@dataclass(frozen=True)
class Row:
    """One method on one problem; empty where something does not apply.

    Parameters
    ----------
    run
        When the run started; rows of one run can be compared.
    method, problem, cells, params
        `params` is |B|, or the number of factor entries of a peer.
    status
        A status of the package, DONE for a peer, or the reason why there is no time. FAILED: the residual is above tol.
    n_iter, residual, tol, rmse, kl
        Results of the fit, and the tolerance that it had to reach.
    seconds, median_seconds, first_seconds, repeats
        The fastest and the median of the repeats; the first run, which may load compiled code.
    sum_seconds, ratio_to_sum
        One ``X.sum()`` in the same process.
    dpotrf_seconds, ratio_to_dpotrf
        One Cholesky factorisation of a |B| x |B| matrix by LAPACK in the same process; the ratio is that of the fit.
    step_seconds
        The median time between two steps.
    other_load
        How many cores other programs kept busy meanwhile; above `BUSY` the time means little.
    peak_extra_mb, loaded_mb, x_mb
        Peak resident memory less that right after X was made; what the warm-up before X left, which is compiled code;
        X itself; in MB of 10^6 bytes.
    solver, threads, machine, versions, note
        The circumstances.
    """

    run: str
    method: str
    problem: str
    cells: int
    status: str
    tol: float
    params: int | None = None
    n_iter: int | None = None
    residual: float | None = None
    rmse: float | None = None
    kl: float | None = None
    seconds: float | None = None
    median_seconds: float | None = None
    first_seconds: float | None = None
    repeats: int | None = None
    sum_seconds: float | None = None
    ratio_to_sum: float | None = None
    dpotrf_seconds: float | None = None
    ratio_to_dpotrf: float | None = None
    step_seconds: float | None = None
    other_load: float | None = None
    peak_extra_mb: float | None = None
    loaded_mb: float | None = None
    x_mb: float | None = None
    solver: str = ""
    threads: str = ""
    machine: str = ""
    versions: str = ""
    note: str = ""

    @property
    def busy(self) -> bool:
        """Whether other programs disturbed the measurement."""
        return self.other_load is not None and self.other_load > BUSY

    @property
    def measured(self) -> bool:
        """Whether the row counts: it has a time, and a residual of at most tol."""
        return self.seconds is not None and self.status != "FAILED"


@dataclass(frozen=True)
class Check:
    """A property that is checked and not timed: `value` must not exceed `limit`."""

    run: str
    check: str
    problem: str
    status: str
    value: float | None
    limit: float
    note: str = ""


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file, after `drop_retired`."""
    drop_retired(path)
    return read(path, Row)


def drop_retired(path: Path) -> None:
    """Rewrite a file of an older version without its retired columns, so that rows can be read and added."""
    if not path.is_file():
        return
    with path.open(newline="") as stream:
        lines = list(csv.reader(line for line in stream if line.endswith("\n")))
    if not lines or not set(RETIRED) & set(lines[0]):
        return
    kept = [k for k, name in enumerate(lines[0]) if name not in RETIRED]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([line[k] for k in kept] for line in lines)
    with replacing(path) as target:
        target.write(text.getvalue().encode())
