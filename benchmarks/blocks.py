"""A tensor larger than memory: ``python -m benchmarks.blocks FOLDER`` adds lines to benchmarks/results/blocks.csv.

A zarr array of 8 GiB is written to FOLDER (and removed at the end unless ``--keep`` is given). A process that may have
2 GiB of memory of its own, and two threads, sums it with dask and decomposes it, in turn. A cluster of two processes
then does the same, and again with one of them killed on the way: theta must be the same to the last bit.
``--small`` does all that with 8 MiB, ``--repeats N`` takes each measurement N times.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from benchmarks.csv_records import append
from legendre.core.types import FloatArray

from .machine import Elsewhere, machine, peak_bytes, reset_peak
from .problems import ROOT

BASIS, TOL = "B1 + B2(10) + B3(1)", 1e-9
MEMORY = 2 << 30
THREADS = 2
LARGE = ((2048, 128, 128, 32), (16, 128, 128, 32))
SMALL = ((128, 16, 16, 32), (8, 16, 16, 32))
PACKAGES = ("legendre", "numpy", "numba", "dask", "distributed", "zarr")


@dataclass(frozen=True)
class Line:
    """One measurement; `ratio` is to the plain sum just before, `same` whether theta is that of the first fit."""

    run: str
    case: str
    shape: str
    chunks: str
    gigabytes: float
    params: int | None
    status: str
    residual: float | None
    seconds: float
    ratio: float | None
    cpu_seconds: float
    peak_mb: float
    same: bool | None
    other_load: float | None
    machine: str
    versions: str


def generate(path: Path, shape: tuple[int, ...], chunks: tuple[int, ...], gaps: float = 0.0) -> None:
    """Write positive noise around smooth factors and one weak interaction; a share `gaps` of the entries is NaN."""
    import zarr

    array = zarr.create_array(str(path), shape=shape, chunks=chunks, dtype="f8", overwrite=True)
    waves = [np.sin(np.linspace(0.0, 3.0 + k, n)) for k, n in enumerate(shape)]
    counts = [range(-(-n // m)) for n, m in zip(shape, chunks, strict=True)]
    for number, place in enumerate(itertools.product(*counts)):
        rows = tuple(slice(i * m, (i + 1) * m) for i, m in zip(place, chunks, strict=True))
        parts = [
            wave[row].reshape([-1 if j == k else 1 for j in range(len(shape))])
            for k, (wave, row) in enumerate(zip(waves, rows, strict=True))
        ]
        mean = np.exp(0.5 * sum(parts) + 0.1 * parts[0] * parts[-1])
        rng = np.random.default_rng(number)
        values = mean * rng.standard_exponential(mean.shape)
        array[rows] = np.where(rng.random(mean.shape, dtype=np.float32) < gaps, np.nan, values) if gaps else values


def limit() -> None:
    """Make a request for more than `MEMORY` of this process's own memory fail; pages of files are not counted."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def fit(X: Any) -> ld.Decomposition:
    """Do what is measured."""
    return ld.decompose(X, BASIS, tol=TOL)


class Bench:
    """Measures, and remembers the last sum and the first theta."""

    def __init__(self, path: Path, run: str) -> None:
        import dask.array as da

        self.X, self.run = da.from_zarr(str(path)), run
        self.theta: FloatArray | None = None
        self.sum_seconds = float("nan")

    def sum(self, case: str) -> Line:
        """Sum X."""
        line, _ = self._measure(case, lambda: float(self.X.sum().compute()))
        self.sum_seconds = line.seconds
        return line

    def fit(self, case: str) -> Line:
        """Decompose X."""
        line, found = self._measure(case, lambda: fit(self.X))
        self.theta = found.theta if self.theta is None else self.theta
        facts = {
            "params": found.n_params,
            "status": found.status.name,
            "residual": found.residual,
            "ratio": line.seconds / self.sum_seconds,
            "same": bool(np.array_equal(found.theta, self.theta)),
        }
        return Line(**(vars(line) | facts))

    def _measure(self, case: str, work: Callable[[], Any]) -> tuple[Line, Any]:
        reset_peak()
        elsewhere, start, cpu = Elsewhere(), time.perf_counter(), time.process_time()
        answer = work()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        X = self.X
        return Line(
            run=self.run,
            case=case,
            shape="x".join(map(str, X.shape)),
            chunks="x".join(map(str, X.chunksize)),
            gigabytes=X.nbytes / 1e9,
            params=None,
            status="DONE",
            residual=None,
            seconds=seconds,
            ratio=None,
            cpu_seconds=cpu,
            peak_mb=peak_bytes() / 1e6,
            same=None,
            other_load=elsewhere.cores(),
            machine=machine(),
            versions=", ".join(f"{name} {version(name)}" for name in PACKAGES),
        ), answer


def with_threads(bench: Bench, repeats: int) -> Iterator[Line]:
    """Sum and fit in turn, by the threads of this process."""
    import dask

    with dask.config.set(scheduler="threads", num_workers=THREADS):
        for _ in range(repeats):
            yield bench.sum("sum, threads")
            yield bench.fit("fit, threads")


def with_cluster(bench: Bench, repeats: int) -> Iterator[Line]:
    """Sum and fit by a cluster of two processes; then kill one of them in the middle of the first pass of a fit."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=MEMORY, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        warm_up()
        for _ in range(repeats):
            yield bench.sum("sum, 2 workers")
            yield bench.fit("fit, 2 workers")
        with killing(client, 0.5 * bench.sum_seconds):
            yield bench.fit("fit, 2 workers, one killed")


@contextmanager
def killing(client: Any, delay: float) -> Iterator[None]:
    """Kill a worker after a while."""
    victim = min(client.run(os.getpid).values())
    timer = threading.Timer(delay, os.kill, (victim, signal.SIGKILL))
    timer.start()
    yield
    timer.join()
    if victim in client.run(os.getpid).values():
        raise RuntimeError(f"process {victim} should have been killed")


def warm_up() -> None:
    """Fit a small array, on whatever computes: the first fit may wait for the compiler."""
    import dask.array as da

    fit(da.random.default_rng(0).random((80, 60, 60, 60), chunks=(5, 60, 60, 60)) + 0.1)


def measure(path: Path, run: str, repeats: int) -> None:
    """Take all measurements in this process."""
    limit()
    warm_up()
    bench = Bench(path, run)
    for line in itertools.chain(with_threads(bench, repeats), with_cluster(bench, repeats)):
        append(ROOT / "benchmarks" / "results" / "blocks.csv", line)
        print(row(line), flush=True)


def row(line: Line) -> str:
    """Write a measurement as a line of a table."""
    cells = [line.case, line.params, line.status, None if line.residual is None else f"{line.residual:.0e}"]
    cells += [f"{line.seconds:.1f}", None if line.ratio is None else f"{line.ratio:.2f}", f"{line.cpu_seconds:.1f}"]
    cells += [f"{line.peak_mb:,.0f}", line.same, None if line.other_load is None else f"{line.other_load:.1f}"]
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"


def main() -> None:
    """Write the array, measure in a fresh process, clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--measure", metavar="RUN", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    path = asked.folder / ("small.zarr" if asked.small else "large.zarr")
    if asked.measure:
        measure(path, asked.measure, asked.repeats)
        return
    if not path.exists():
        generate(path, *(SMALL if asked.small else LARGE))
    print("| case | parameters | status | residual | s | / sum | CPU s | peak MB | same theta | others' cores |")
    print("| --- " * 10 + "|", flush=True)
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        subprocess.run([sys.executable, "-m", "benchmarks.blocks", *sys.argv[1:], "--measure", run], check=True)
    finally:
        if not asked.keep:
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
