"""Same input, same answer: bit for bit on the same number of threads, to 1e-12 in Q between one thread and two.

``python -m benchmarks.determinism PROBLEM FILE`` fits twice and writes both thetas and Q.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import legendre as ld
from legendre.core.types import AnyArray

from .machine import limit_memory
from .problems import PROBLEMS, ROOT, DataMissing, Problem
from .rows import Check

BITS = "entries of theta that differ: 4 fits in 2 processes, 2 threads"
THREADS = "largest relative difference of Q, 1 against 2 threads"
LIMITS = {BITS: 0.0, THREADS: 1e-12}
THREAD_VARIABLES = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Fits = dict[str, AnyArray]


class Unavailable(Exception):
    """The fits could not be made; the text is the reason."""


def check(problem: Problem, *, run: str, limit: float) -> Iterator[Check]:
    """Compare fits in processes of their own."""
    try:
        first, again, single = (fits(problem, threads, limit) for threads in (2, 2, 1))
    except (Unavailable, DataMissing) as reason:
        for name, bound in LIMITS.items():
            yield Check(run, name, problem.name, "NOT CHECKED", None, bound, str(reason))
        return
    values = {BITS: float(differing(first, again)), THREADS: relative_difference(first["Q"], single["Q"])}
    for name, value in values.items():
        status = "HOLDS" if value <= LIMITS[name] else "FAILED"
        yield Check(run, name, problem.name, status, value, LIMITS[name], f"solver {first['solver']}")


def differing(first: Fits, again: Fits) -> int:
    """Count the entries of theta that are not the same bits in all four fits."""
    bits = [np.ascontiguousarray(fit[name]).view(np.uint64) for fit in (first, again) for name in ("theta", "repeated")]
    return int(np.any([bits[0] != other for other in bits[1:]], axis=0).sum())


def relative_difference(Q: AnyArray, other: AnyArray) -> float:
    """Compare cell by cell; a cell that is 0 has to be 0 in both."""
    scale = np.maximum(np.abs(Q), np.abs(other))
    return float((np.abs(Q - other) / np.where(scale > 0, scale, 1.0)).max())


def fits(problem: Problem, threads: int, limit: float) -> Fits:
    """Fit twice in a process with this number of threads."""
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(threads))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fits.npz"
        command = [sys.executable, "-m", "benchmarks.determinism", problem.name, str(file)]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"more than {limit:.0f} s") from None
        if done.returncode != 0:
            raise Unavailable((done.stderr.strip().splitlines() or ["no message"])[-1][:200])
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}


def main() -> None:
    """Fit the problem that the command line names."""
    name, file = sys.argv[1:]
    problem = PROBLEMS[name]
    limit_memory()
    warnings.simplefilter("ignore")
    X = problem.tensor()
    fit, repeated = (ld.decompose(X, problem.basis, support=problem.support, tol=problem.tol) for _ in range(2))
    np.savez(file, theta=fit.theta, repeated=repeated.theta, Q=fit.tensor(), solver=np.array(fit.solver))


if __name__ == "__main__":
    main()
