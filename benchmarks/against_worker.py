"""One measurement of the version of the package that PYTHONPATH names, for `benchmarks.against`.

``python -m benchmarks.against_worker PROBLEM CLOCK`` prints it as JSON. Only calls that every version has are used.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import legendre as ld

from . import machine
from .problems import GROWN, PROBLEMS, TASKS, DataMissing, Problem

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
    residual, n_params, kl
        Of the fit; KL is None for a balanced tensor.
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
    kl: float | None
    peak_mb: float
    other_load: float | None
    source: str


def measure(problem: Problem, clock: Callable[[], float]) -> Measured:
    """Fit in this process."""
    X = problem.tensor()

    def fit() -> tuple[float, Any]:
        start = clock()
        found = CALLS[problem.task](X, problem)
        return clock() - start, found

    _, found = fit()
    gc.collect()
    times: list[float] = []
    elsewhere = machine.Elsewhere()
    while len(times) < REPEATS.start or (sum(times) < SECONDS and len(times) < REPEATS.stop - 1):
        seconds, found = fit()
        times.append(seconds)
    return Measured(
        seconds=min(times),
        repeats=len(times),
        residual=found.margin_error if problem.task == "balance" else found.residual,
        n_params=0 if problem.task == "balance" else found.n_params,
        kl=None if problem.task == "balance" else found.kl,
        peak_mb=machine.peak_bytes() / 1e6,
        other_load=elsewhere.cores(),
        source=ld.__file__,
    )


def _decompose(X: Any, problem: Problem) -> Any:
    arranged: dict[str, Any] = {"unordered": problem.unordered} if problem.unordered else {}
    return ld.decompose(X, problem.basis, support=problem.support, tol=problem.tol, **arranged)


def _balance(X: Any, problem: Problem) -> Any:
    return ld.balance(X, tol=problem.tol)


def _machine(X: Any, problem: Problem) -> Any:
    edges = [(k, k + 1) for k in range(problem.shape[1] - 1)]
    return ld.BoltzmannMachine(edges).fit((X > 0.5).astype(int)).decomposition_


def _decompose_list(X: Any, problem: Problem) -> Any:
    counts = replace(problem, source=("flights.npz", "flightsL_counts")).tensor()
    return _decompose(ld.from_coords(X, counts, problem.shape), problem)


CALLS: dict[str, Callable[[Any, Problem], Any]] = {
    "decompose": _decompose,
    "list": _decompose_list,
    "balance": _balance,
    "machine": _machine,
}


def main() -> int:
    """Measure the problem by the clock that the command line names, a function of `time`; print it as JSON."""
    warnings.simplefilter("ignore")
    try:
        found = measure(
            {**PROBLEMS, **{one.name: one for one in (*GROWN, *TASKS)}}[sys.argv[1]], getattr(time, sys.argv[2])
        )
    except DataMissing as missing:
        print(json.dumps({"missing": str(missing)}))
    else:
        print(json.dumps(asdict(found)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
