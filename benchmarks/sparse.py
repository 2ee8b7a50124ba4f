"""Sparse tensors: ``python -m benchmarks.sparse`` writes benchmarks/results/sparse.csv.

Flights of one year by aircraft, destination and day (312,541 of 1.5e8 cells have any; the data folder is named by
LEGENDRE_DATA), with and without the zeros; and a text file of ten million entries in a grid of 1e13 cells, drawn here.
Every row is measured in a process of its own, reading and the compiler's cache included, which a first small fit
warms. The flights' sub-tensors are fitted dense as well, and the largest difference in Q is a row's `dense_difference`.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

import legendre as ld
from legendre.data.sparse_tensor import SparseTensor

from .machine import Elsewhere, machine, peak_bytes, reset_peak
from .problems import ROOT

TOL = 1e-9
ENTRIES, SHAPE = 10_000_000, (100_000, 100_000, 1_000)


@dataclass(frozen=True)
class Line:
    """One fit; `read_seconds` is part of `seconds`."""

    run: str
    problem: str
    support: str
    basis: str
    n_params: int
    seconds: float
    read_seconds: float
    peak_gib: float
    residual: float
    status: str
    kl: float
    dense_difference: float | None
    other_load: float | None
    machine: str


@dataclass(frozen=True)
class Case:
    """What is read, and how it is fitted."""

    problem: str
    support: str
    basis: str


CASES = [
    Case("flights 4043x105x365", "nonzero", "B1 + B3(5) + B3(1, axis=0)"),
    Case("flights 4043x105x365", "nonzero", "adaptive(2000)"),
    Case("flights 4043x105x365", "all", "adaptive(2000)"),
    Case("text file, 1e7 entries in 1e5x1e5x1e3", "all", "adaptive(1000)"),
]


def flights() -> SparseTensor:
    """Read the flights."""
    folder = Path(os.environ.get("LEGENDRE_DATA", ROOT.parent / "shared" / "data"))
    with np.load(folder / "flights.npz") as data:
        return ld.from_coords(data["flightsL_coords"], data["flightsL_counts"], data["flightsL_shape"].tolist())


def write_text(path: Path) -> None:
    """Draw entries from a few clusters, with long tails, and write them as FROSTT does."""
    rng = np.random.default_rng(0)
    with path.open("w") as stream:
        for _ in range(10):
            n = ENTRIES // 10
            cluster = rng.integers(0, 5, n)
            centre = np.random.default_rng(1).random((5, 3))
            place = np.mod(centre[cluster] + 0.15 * rng.standard_normal((n, 3)), 1.0)
            place[:, :2] **= 2
            cells = (place * SHAPE).astype(np.int64) + 1
            table = np.column_stack([cells, rng.poisson(2.0, n) + 1])
            np.savetxt(stream, table, fmt="%d")


def measure(case: Case, text: str) -> dict[str, object]:
    """Fit, in this process."""
    ld.decompose(np.random.default_rng(0).random((60, 60, 60)), "B3(30)")  # compiled code is there from here on
    reset_peak()
    start = time.perf_counter()
    X = flights() if case.problem.startswith("flights") else ld.read_tns(text)
    read = time.perf_counter() - start
    fit = ld.decompose(X, case.basis, support=case.support, tol=TOL)
    seconds = time.perf_counter() - start
    flown = case.problem.startswith("flights")
    return {
        "n_params": fit.n_params, "seconds": seconds, "read_seconds": read, "peak_gib": peak_bytes() / 2**30,
        "residual": fit.residual, "status": fit.status.name, "kl": fit.kl,
        "dense_difference": dense_difference(flights(), case) if flown else None,
    }  # fmt: skip


def dense_difference(X: SparseTensor, case: Case) -> float:
    """Fit sub-tensors both ways, with one basis; return the largest difference in Q over its largest entry."""
    worst = 0.0
    for start in (0, 1500, 3900):
        inside = (X.cells[:, 0] >= start) & (X.cells[:, 0] < start + 60) & (X.cells[:, 2] < 60)
        cells = X.cells[inside].astype(np.int64) - [start, 0, 0]
        part = ld.from_coords(cells, X.values[inside], (60, 105, 60))
        basis = "B1 + B3(2)" if case.basis.startswith("B1") else ld.decompose(part, "adaptive(60)").basis
        ours, dense = (ld.decompose(x, basis, support=case.support, tol=1e-12) for x in (part, part.toarray()))
        worst = max(worst, float(np.abs(ours.tensor() - dense.tensor()).max() / dense.tensor().max()))
    return worst


def in_a_process(number: int, text: Path) -> dict[str, object]:
    """Measure a case in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.sparse", str(number), str(text)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(say: Callable[[str], None] = print) -> None:
    """Measure, print a table and write the file."""
    run, lines = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), []
    say(
        "| problem | zeros | basis | parameters | seconds (reading) | peak GiB | residual | status |\n"
        + "| --- " * 8
        + "|"
    )
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "large.tns"
        write_text(text)
        for number, case in enumerate(CASES):
            others = Elsewhere()
            found = {**asdict(case), **in_a_process(number, text)}
            line = Line(run=run, other_load=others.cores(), machine=machine(), **found)
            lines.append(line)
            zeros = "kept" if line.support == "all" else "out"
            say(
                f"| {line.problem} | {zeros} | {line.basis} | {line.n_params} | "
                f"{line.seconds:.1f} ({line.read_seconds:.1f}) | {line.peak_gib:.2f} | {line.residual:.0e} | "
                f"{line.status} |"
            )
    with (ROOT / "benchmarks" / "results" / "sparse.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Line)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(CASES[int(sys.argv[1])], sys.argv[2])))
    else:
        main()
