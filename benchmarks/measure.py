"""One measurement in a process of its own: ``python -m benchmarks.measure METHOD PROBLEM SECONDS`` prints it as JSON.

``python -m benchmarks.measure --compile PROBLEM ...`` fits and forgets, so that compiled code is on disk.

A fresh process makes the peak memory its own. The order matters: warm up on a tiny problem, make X, read the memory,
run, read the peak, and only then do whatever else needs memory.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import legendre as ld
from legendre.core.types import AnyArray, FloatArray
from legendre.tasks.compare import PEERS, Effort, Found, Method, score

from . import machine, numpy_algorithm2
from .problems import PROBLEMS, ROOT, DataMissing, Problem
from .rows import Row

OURS = "legendre"
NUMPY = "numpy"
LONG_RUN = 10.0
"""Seconds from which the first run is the measurement; the same for all methods."""
MAX_REPEATS = 30
SMALL_CELLS = 100_000
SCORED_CELLS = 10_000_000
DPOTRF_SIZES = range(1000, 12_001)
PEER_EFFORT = Effort(max_iter=100, tol=1e-5, seconds=1e6)


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of a method; `score` computes root mean square error and KL when it is called."""

    status: str
    n_params: int
    n_iter: int
    score: Callable[[], tuple[float, float]]
    residual: float | None = None
    solver: str = ""
    step_seconds: float | None = None


Runner = Callable[[], Answer]


def ours(problem: Problem, X: AnyArray) -> Runner:
    """Run the package as a user would."""

    def run() -> Answer:
        marks: list[float] = []

        def mark(_: ld.solvers.Step) -> None:
            marks.append(time.perf_counter())

        fit = ld.decompose(X, problem.basis, support=problem.support, tol=problem.tol, callback=mark)
        steps = np.diff(marks)
        return Answer(
            status=fit.status.name if fit.residual <= problem.tol else "FAILED",
            n_params=fit.n_params,
            n_iter=fit.n_iter,
            score=lambda: (fit.rmse, fit.kl),
            residual=fit.residual,
            solver=fit.solver,
            step_seconds=float(np.median(steps)) if len(steps) else None,
        )

    return run


def plain_numpy(problem: Problem, X: AnyArray) -> Runner:
    """Run the plain NumPy implementation of Algorithm 2, which knows B3 only."""
    per_slice = int(problem.basis.removeprefix("B3(").removesuffix(")"))

    def run() -> Answer:
        fit = numpy_algorithm2.fit(X, per_slice, tol=problem.tol)
        status = "CONVERGED" if fit.residual <= problem.tol else "FAILED"
        return Answer(
            status, len(fit.theta), fit.n_iter, lambda: errors(X, fit.Q * X.sum()), fit.residual, "natural, full steps"
        )

    return run


def peer_runner(peer: Method, problem: Problem, X: AnyArray) -> Runner:
    """Run a peer at an equal number of parameters."""
    rank = peer.rank(X.shape, params_of(problem, X))
    values = X.astype(np.float64, copy=False)

    def run() -> Answer:
        found: Found = peer.fit(values, rank, PEER_EFFORT, 0)
        solver = f"{peer.label}, rank {rank}"
        return Answer("DONE", found.n_params, found.n_iter, lambda: errors(X, found.multiply_out()), None, solver)

    return run


def errors(X: AnyArray, Q: FloatArray) -> tuple[float, float]:
    """Return root mean square error and KL divergence."""
    found = score(X, Q)
    return found["rmse"], found["kl"]


def params_of(problem: Problem, X: AnyArray) -> int:
    """Count the parameters of the basis; B3(l) on a random tensor has l in each slice."""
    if problem.basis.startswith("B3(") and problem.source is None:
        return int(problem.basis.removeprefix("B3(").removesuffix(")")) * int(X.shape[-1])
    return ld.decompose(X, problem.basis, support=problem.support, max_iter=0).n_params


def runner(method: str, problem: Problem, X: AnyArray) -> Runner:
    """Find the method."""
    if method == OURS:
        return ours(problem, X)
    if method == NUMPY:
        return plain_numpy(problem, X)
    return peer_runner(PEERS[method], problem, X)


def warm_up(method: str, problem: Problem) -> None:
    """Run small problems of the same kind; for the package, one large enough that it loads its compiled code."""
    large = {3: 100, 4: 20}[len(problem.shape)]
    sides = (4, large) if method == OURS and problem.cells > SMALL_CELLS else (4,)
    basis = "B3(1)" if problem.basis.startswith("B3(") else problem.basis
    if "B2(" in basis:
        basis = "B1 + B2(2) + B3(2)"
    for side in sides:
        small = Problem("", (side,) * len(problem.shape), basis, problem.tol, support=problem.support)
        X = small.tensor()
        if problem.support == "nonzero":
            X[1::2, 1] = 0
        runner(method, small, X)()


def timed(run: Runner, budget: float) -> tuple[list[float], float, Answer]:
    """Return the times of the repeats, that of the first run, and the fastest steps' answer."""
    start = time.perf_counter()
    answer: Any = run()
    first = time.perf_counter() - start
    if first >= LONG_RUN:
        return [first], first, answer
    times, steps = [], [answer.step_seconds]
    for _ in range(min(max(int(budget / first), 2 if first > 3 else 3), MAX_REPEATS)):
        answer = None  # or two answers would be in memory at once
        gc.collect()
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
        steps.append(answer.step_seconds)
    known = [seconds for seconds in steps if seconds is not None]
    return times, first, Answer(**{**vars(answer), "step_seconds": min(known, default=None)})


def work(method: str, problem: Problem, budget: float) -> dict[str, Any]:
    """Do the measurement in this process."""
    imported = machine.resident_bytes()
    warm_up(method, problem)
    gc.collect()
    loaded = machine.resident_bytes() - imported
    X = problem.tensor()
    gc.collect()
    machine.reset_peak()
    before = machine.resident_bytes()
    run = runner(method, problem, X)
    one_sum = machine.best_of(X.sum, 3)
    elsewhere = machine.Elsewhere()
    times, first, answer = timed(run, budget)
    other_load = elsewhere.cores()
    peak = machine.peak_bytes()
    one_sum = min(one_sum, machine.best_of(X.sum, 3))
    rmse, kl = answer.score() if X.size <= SCORED_CELLS else (None, None)
    return {
        "status": answer.status,
        "params": answer.n_params,
        "n_iter": answer.n_iter,
        "residual": answer.residual,
        "rmse": rmse,
        "kl": kl,
        "seconds": min(times),
        "median_seconds": statistics.median(times),
        "first_seconds": first,
        "repeats": len(times),
        "sum_seconds": one_sum,
        "ratio_to_sum": min(times) / one_sum,
        **factorisation(method, answer.n_params, min(times), budget),
        "step_seconds": answer.step_seconds,
        "other_load": other_load,
        "peak_extra_mb": max(peak - before, 0) / 1e6,
        "loaded_mb": max(loaded, 0) / 1e6,
        "x_mb": X.nbytes / 1e6,
        "solver": answer.solver,
    }


def factorisation(method: str, n_params: int, seconds: float, budget: float) -> dict[str, float]:
    """Compare with one dpotrf of the same size, where a Fisher matrix of that size is a sensible thing."""
    if method not in (OURS, NUMPY) or n_params not in DPOTRF_SIZES:
        return {}
    one = machine.dpotrf_seconds(n_params, budget)
    return {"dpotrf_seconds": one, "ratio_to_dpotrf": seconds / one}


def attempt(method: str, problem: Problem, budget: float) -> dict[str, Any]:
    """Do the measurement; where that fails, return the reason."""
    if method in PEERS and not PEERS[method].installed:
        return {"status": "NOT INSTALLED", "note": "pip install 'legendre[compare]'"}
    machine.limit_memory()
    try:
        facts = work(method, problem, budget)
    except DataMissing as missing:
        facts = {"status": "NO DATA", "note": str(missing)}
    except MemoryError as trouble:
        facts = {"status": "OUT OF MEMORY", "note": str(trouble)}
    return facts | {"threads": machine.threads()}


def measure(method: str, problem: Problem, *, run: str, budget: float, limit: float) -> Row:
    """Do the measurement in a process of its own, which may take `limit` seconds."""
    command = [sys.executable, "-m", "benchmarks.measure", method, problem.name, str(budget)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
        facts = _facts(done)
    except subprocess.TimeoutExpired:
        facts = {"status": "TIME LIMIT", "note": f"more than {limit:.0f} s"}
    return Row(
        run=run,
        method=method,
        problem=problem.name,
        cells=problem.cells,
        tol=problem.tol,
        machine=machine.machine(),
        versions=machine.versions(),
        **facts,
    )


def _facts(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    if done.returncode == 0:
        facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return facts
    last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return {"status": "ERROR", "note": last[:200]}


def compile_all(problems: list[Problem]) -> None:
    """Fit each problem once in another process: the first fit on a machine may wait for the compiler."""
    command = [sys.executable, "-m", "benchmarks.measure", "--compile", *(problem.name for problem in problems)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)


def main() -> None:
    """Measure what the command line names."""
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--compile":
        for name in sys.argv[2:]:
            ours(PROBLEMS[name], PROBLEMS[name].tensor())()
        return
    method, name, budget = sys.argv[1:]
    print(json.dumps(attempt(method, PROBLEMS[name], float(budget))))


if __name__ == "__main__":
    main()
