"""A tensor larger than memory: ``python -m benchmarks.blocks FOLDER`` adds lines to benchmarks/results/blocks.csv.

A zarr array of 8 GiB is written to FOLDER (and removed at the end unless ``--keep`` is given). A process that may have
2 GiB of memory of its own, and two threads, sums it with dask and decomposes it, in turn. A cluster of two processes,
of 1 GiB each, then does the same, and again with one of them killed on the way: theta must be the same to the last bit.
``--case`` and ``--basis`` say which array and model; ``gaps`` and what follows it lack a tenth of the entries. In the
end a sixteenth of the array is fitted both from disk and in memory. ``--small`` does all that with 8 MiB or less,
``--repeats N`` takes each measurement N times, ``--steps`` names those to take.
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
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld
from benchmarks.csv_records import append
from legendre.core.types import FloatArray

from .machine import Elsewhere, machine, peak_bytes, reset_peak
from .problems import ROOT

TOL = 1e-9
MEMORY = 2 << 30
THREADS = 2
STEPS = "threads", "cluster", "memory"
PACKAGES = ("legendre", "numpy", "numba", "dask", "distributed", "zarr")


@dataclass(frozen=True)
class Case:
    """An array, the share of its entries that is missing, and the basis of the fit."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    gaps: float
    basis: str
    small: tuple[int, ...]  # the shape of the array for a trial

    def reduce(self) -> Case:
        """Return the same with a small array, in about as many blocks."""
        ratios = [n // m for n, m in zip(self.shape, self.chunks, strict=True)]
        chunks = tuple(max(1, n // ratio) for n, ratio in zip(self.small, ratios, strict=True))
        return replace(self, shape=self.small, chunks=chunks)


LONG = (2048, 128, 128, 32), (16, 128, 128, 32)
CASES = {
    "full": Case(*LONG, 0.0, "B1 + B2(10) + B3(1)", (128, 16, 16, 32)),
    "gaps": Case(*LONG, 0.1, "B3(1)", (128, 16, 16, 32)),
    "even": Case((181,) * 4, (1, 181, 181, 181), 0.1, "interactions(2)", (33,) * 4),
    "short": Case((8,) * 10, (1, 1, 4, *(8,) * 7), 0.1, "interactions(2)", (4,) * 10),
}


@dataclass(frozen=True)
class Line:
    """One measurement; `ratio` is to the plain sum just before, `same` whether theta is that of the first fit.

    The processor time is that of all processes, and `ratio` is one of these times.
    """

    run: str
    case: str
    basis: str
    shape: str
    chunks: str
    gigabytes: float
    missing: float
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


class Bench:
    """Measures, and remembers the last sum and the first theta."""

    def __init__(self, path: Path, case: Case, run: str, basis: str | None = None) -> None:
        import dask.array as da

        self.X, self.case, self.run, self.basis = da.from_zarr(str(path)), case, run, basis or case.basis
        self.theta: FloatArray | None = None
        self.sum: Line | None = None
        self.client: Any = None

    def add_up(self, where: str) -> Line:
        """Sum X."""
        import dask.array as da

        total = da.nansum(self.X) if self.case.gaps else self.X.sum()
        self.sum, _ = self._measure(f"sum, {where}", lambda: float(total.compute()))
        return self.sum

    def fit(self, where: str) -> Line:
        """Decompose X."""
        line, found = self._measure(f"fit, {where}", lambda: ld.decompose(self.X, self.basis, tol=TOL))
        self.theta = found.theta if self.theta is None else self.theta
        return replace(
            line,
            params=found.n_params,
            status=found.status.name,
            residual=found.residual,
            ratio=line.cpu_seconds / self.sum.cpu_seconds if self.sum else None,
            same=bool(np.array_equal(found.theta, self.theta)),
        )

    def spent(self) -> float:
        """Return the processor time of this process, of the workers there are, and of those that have died."""
        workers = self.client.run(time.process_time).values() if self.client else ()
        return time.process_time() + sum(workers) + resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    def _measure(self, case: str, work: Callable[[], Any]) -> tuple[Line, Any]:
        reset_peak()
        elsewhere, start, cpu = Elsewhere(), time.perf_counter(), self.spent()
        answer = work()
        seconds, cpu = time.perf_counter() - start, self.spent() - cpu
        X = self.X
        return Line(
            run=self.run,
            case=case,
            basis=self.basis,
            shape="x".join(map(str, X.shape)),
            chunks="x".join(map(str, X.chunksize)),
            gigabytes=X.nbytes / 1e9,
            missing=self.case.gaps,
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
        warm_up(bench)
        for _ in range(repeats):
            yield bench.add_up("threads")
            yield bench.fit("threads")


def with_cluster(bench: Bench, repeats: int) -> Iterator[Line]:
    """Sum and fit by a cluster of two processes; then kill one of them in the middle of the first pass of a fit."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=MEMORY // 2, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as bench.client,
    ):
        warm_up(bench)
        for _ in range(repeats):
            yield bench.add_up("2 workers")
            yield bench.fit("2 workers")
        assert bench.sum is not None
        with killing(bench.client, 0.5 * bench.sum.seconds):
            yield bench.fit("2 workers, one killed")
    bench.client = None


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


def warm_up(bench: Bench) -> None:
    """Fit the first blocks, on whatever computes: the first fit may wait for the compiler."""
    ld.decompose(bench.X[tuple(slice(n) for n in (max(2, bench.X.chunksize[0]), *bench.X.chunksize[1:]))], bench.basis)


def compare(bench: Bench) -> None:
    """Print how far theta and Q of a sixteenth of X, read by blocks, are from those of the array in memory."""
    import dask

    part = bench.X
    for mode in np.argsort([-n for n in part.shape], kind="stable")[:4]:  # half of each of the longest modes
        part = part[tuple(slice(n // 2 if k == mode else n) for k, n in enumerate(part.shape))]
    with dask.config.set(scheduler="threads", num_workers=THREADS):
        found, X = ld.decompose(part, bench.basis, tol=1e-13), part.compute()
    twin = ld.decompose(X, bench.basis, tol=1e-13)
    print(
        f"a sixteenth, {X.shape}: {found.solver}, {found.status.name}, {found.residual:.0e}; in memory {twin.solver}, "
    )
    print(f"{twin.status.name}, {twin.residual:.0e}; theta differs by {np.abs(found.theta - twin.theta).max():.1e}, ")
    print(f"log q of 1,000 cells by {differ(found, twin):.1e}", flush=True)


def differ(one: ld.Decomposition, other: ld.Decomposition) -> float:
    """Return how much log q differs at most, at cells drawn at random."""
    cells = np.random.default_rng(0).integers(0, one.shape, size=(1000, len(one.shape)))
    both = np.array([one.log_prob(cells), other.log_prob(cells)])
    return float(np.nanmax(np.abs(np.diff(np.where(np.isfinite(both), both, np.nan), axis=0))))


def measure(path: Path, asked: argparse.Namespace) -> None:
    """Take all measurements in this process."""
    bench = Bench(path, CASES[asked.case], asked.measure, asked.basis)
    if "memory" in asked.steps:
        compare(bench)
    limit()
    lines = [
        do(bench, asked.repeats)
        for name, do in (("threads", with_threads), ("cluster", with_cluster))
        if name in asked.steps
    ]
    for line in itertools.chain(*lines):
        append(ROOT / "benchmarks" / "results" / "blocks.csv", line)
        print(row(line), flush=True)


def row(line: Line) -> str:
    """Write a measurement as a line of a table."""
    cells = [line.case, line.params, line.status, None if line.residual is None else f"{line.residual:.0e}"]
    cells += [f"{line.seconds:.1f}", f"{line.cpu_seconds:.1f}", None if line.ratio is None else f"{line.ratio:.2f}"]
    cells += [f"{line.peak_mb:,.0f}", line.same, None if line.other_load is None else f"{line.other_load:.1f}"]
    return "| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |"


def main() -> None:
    """Write the array, measure in a fresh process, clean up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--case", choices=CASES, default="full")
    parser.add_argument("--basis")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--measure", metavar="RUN", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    path = asked.folder / f"{asked.case}{'-small' * asked.small}.zarr"
    if asked.measure:
        measure(path, asked)
        return
    if not path.exists():
        case = CASES[asked.case].reduce() if asked.small else CASES[asked.case]
        generate(path, case.shape, case.chunks, case.gaps)
    print("| case | parameters | status | residual | s | CPU s | CPU / sum | peak MB | same theta | others' cores |")
    print("| --- " * 10 + "|", flush=True)
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        subprocess.run([sys.executable, "-m", "benchmarks.blocks", *sys.argv[1:], "--measure", run], check=True)
    finally:
        if not asked.keep:
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
