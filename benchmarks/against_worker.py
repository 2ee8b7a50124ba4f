"""One measurement of the version of the package that PYTHONPATH names, for `benchmarks.against`.

``python -m benchmarks.against_worker PROBLEM CLOCK`` prints it as JSON. Only `legendre.decompose` is used, which every
version has.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass

import legendre as ld

from . import machine
from .problems import GROWN_FACES, PROBLEMS, DataMissing, Problem

SECONDS = 0.6
"""Repeats of one measurement go on for about this long."""
REPEATS = range(2, 201)
"""How many repeats there may be, whatever they take."""


@dataclass(frozen=True)
class Measured:
    """What one process found.

    Parameters
    ----------
    seconds, repeats
        Of the fastest repeat. A first fit, which loads compiled code, is not counted.
    residual, n_params
        Of the fit.
    peak_mb
        Peak resident memory of the process, with X, NumPy and compiled code, in MB of 10^6 bytes.
    other_load
        Cores that other programs kept busy meanwhile; None on systems without /proc.
    source
        The file that the package was imported from.
    """

    seconds: float
    repeats: int
    residual: float
    n_params: int
    peak_mb: float
    other_load: float | None
    source: str


def measure(problem: Problem, clock: Callable[[], float]) -> Measured:
    """Fit in this process."""
    X = problem.tensor()

    def fit() -> tuple[float, float, int]:
        start = clock()
        found = ld.decompose(X, problem.basis, support=problem.support, tol=problem.tol)
        return clock() - start, found.residual, found.n_params

    _, residual, n_params = fit()
    gc.collect()
    times: list[float] = []
    elsewhere = machine.Elsewhere()
    while len(times) < REPEATS.start or (sum(times) < SECONDS and len(times) < REPEATS.stop - 1):
        seconds, residual, n_params = fit()
        times.append(seconds)
    return Measured(
        seconds=min(times),
        repeats=len(times),
        residual=residual,
        n_params=n_params,
        peak_mb=machine.peak_bytes() / 1e6,
        other_load=elsewhere.cores(),
        source=ld.__file__,
    )


def main() -> int:
    """Measure the problem by the clock that the command line names, a function of `time`; print it as JSON."""
    warnings.simplefilter("ignore")
    try:
        found = measure({**PROBLEMS, GROWN_FACES.name: GROWN_FACES}[sys.argv[1]], getattr(time, sys.argv[2]))
    except DataMissing as missing:
        print(json.dumps({"missing": str(missing)}))
    else:
        print(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
