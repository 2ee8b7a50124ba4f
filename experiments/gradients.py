"""Figure 4a, b: natural gradient against gradient descent on a uniform random 20 x 20 x 20 tensor, B = B3(l)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

import legendre as ld
from legendre.core.types import FloatArray
from legendre.solvers.loop import Solver

from .comparison import Row
from .data import cube
from .settings import GRADIENT_SIZES, PAPER_TOL, Level
from .store import Store

SIDE = 20
RATE = 0.1
"""The paper's learning rate."""
SOLVERS: dict[str, Callable[[], Solver]] = {
    "natural": lambda: ld.solvers.Natural(),
    "gradient": lambda: ld.solvers.Gradient(learning_rate=RATE, max_iter=10**9),
    "gradient-4": lambda: ld.solvers.Gradient(max_iter=10**9),
    "batch": lambda: ld.solvers.Gradient(form="batch", max_iter=10**9),
}
LABELS = {
    "natural": "natural gradient (Algorithm 2)",
    "gradient": "gradient descent, rate 0.1 (Algorithm 1)",
    "gradient-4": "gradient descent, rate 4, the largest that is safe",
    "batch": "gradient descent, batch, Barzilai-Borwein rate",
}
NEEDS = "needs about "
MOST_DOUBLINGS = 40


def run(store: Store[Row], level: Level) -> None:
    """Fit with each solver to the paper's tolerance, or until the time is up."""
    X = cube(SIDE)
    known = {(row.method, row.asked) for row in store.rows}
    ld.decompose(X, "B3(1)", solver="natural")
    for size in GRADIENT_SIZES:
        for method in SOLVERS:
            if (method, SIDE * size) not in known:
                row = measured(X, size, method, level.gradient_seconds)
                store.add(row)
                print(f"20^3 B3({size}) {method:12} {row.status:12} {row.n_iter} steps {row.seconds:.3g} s {row.note}")


def measured(X: FloatArray, size: int, method: str, limit: float) -> Row:
    """Time one fit; where the time was up, the number of passes that Algorithm 1 needs is computed."""
    start = time.perf_counter()
    solver = SOLVERS[method]()
    fit = _fit(X, size, solver, lambda _: time.perf_counter() - start > limit)
    seconds = time.perf_counter() - start
    reached = fit.residual <= PAPER_TOL
    note = ""
    if not reached and isinstance(solver, ld.solvers.Gradient) and solver.form == "sweep":
        best = _fit(X, size, ld.solvers.Natural())
        rate = solver.learning_rate or 4.0  # the default of sweeps
        note = f"{NEEDS}{passes_needed(best.fisher(), best.theta, rate, PAPER_TOL)} passes"
    status = "CONVERGED" if reached else "TIME LIMIT"
    return Row(
        method, SIDE * size, None, status, fit.n_params, fit.n_iter,
        fit.rmse, fit.rmse, fit.kl, seconds, fit.residual, problem="20^3", note=note,
    )  # fmt: skip


def _fit(
    X: FloatArray, size: int, solver: Solver, stop: Callable[[ld.solvers.Step], bool] | None = None
) -> ld.Decomposition:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ld.ConvergenceWarning)  # the row has the residual
        return ld.decompose(X, ld.B3(size), solver=solver, tol=PAPER_TOL, callback=stop)


def passes_needed(G: FloatArray, theta: FloatArray, rate: float, tol: float) -> int:
    """Count the passes of Algorithm 1 from theta = 0, with eta linearised at the minimum.

    A pass updates one coordinate after the other, so the error e of theta becomes ``e - (1 / rate + L)^-1 G e`` with L
    the part of G below its diagonal; the residual is ``max|G e|``.

    >>> passes_needed(np.eye(2) / 4, np.array([1.0, 1.0]), 2.0, 0.25 * 0.5**10)
    10
    """
    one_pass = np.eye(len(G)) - np.linalg.solve(np.eye(len(G)) / rate + np.tril(G, -1), G)
    powers = [one_pass]  # of 1, 2, 4, 8, ... passes
    while np.abs(G @ (powers[-1] @ theta)).max() > tol and len(powers) < MOST_DOUBLINGS:
        powers.append(powers[-1] @ powers[-1])
    passes, error = 0, theta
    for k in reversed(range(len(powers))):
        if np.abs(G @ (following := powers[k] @ error)).max() > tol:
            passes, error = passes + 2**k, following
    return passes + 1


def projected(row: Row) -> tuple[float, float]:
    """Return steps and seconds to the tolerance, computed where the time was up and that is possible."""
    assert row.n_iter is not None
    assert row.seconds is not None
    if not row.note.startswith(NEEDS):
        return float(max(row.n_iter, 1)), row.seconds
    steps = float(row.note.removeprefix(NEEDS).removesuffix(" passes"))
    return steps, row.seconds * steps / max(row.n_iter, 1)
