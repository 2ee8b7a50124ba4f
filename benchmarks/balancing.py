"""Balancing against POT and ipfn: ``python -m benchmarks.balancing`` writes benchmarks/results/balancing.csv.

Every method runs on the same X and margins in one process, one thread, and is asked for margins that are right to
1e-10 of the largest entry. Of a peer's methods and settings the fastest that gets there counts; where none does, the
row says how far the best one came. POT is given ``-log X`` as cost with regularisation 1, computed beforehand.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from .machine import Elsewhere, machine, versions
from .problems import ROOT

Floats = NDArray[np.float64]
Margins = dict[tuple[int, ...], Floats]
TOL = 1e-10
REPEATS, LONG = 7, 2.0
SWEEPS = 20_000


@dataclass(frozen=True, eq=False)
class Case:
    """A problem, and the names of the other methods that are run on it."""

    name: str
    X: Floats
    margins: Margins
    peers: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """One method on one problem; `error` is the largest margin error over the largest entry of that margin."""

    run: str
    problem: str
    method: str
    setting: str
    reached: bool
    seconds: float
    n_iter: int | None
    error: float
    ratio_to_ours: float
    status: str
    other_load: float | None
    machine: str
    versions: str


@dataclass(frozen=True, eq=False)
class Try:
    """One way of solving a case."""

    method: str
    setting: str
    solve: Callable[[], tuple[Floats, int | None, str]]


def cases() -> Iterator[Case]:
    """Draw the problems, always the same."""
    rng = np.random.default_rng(2017)
    n = 1000
    ones: Margins = {(0,): np.ones(n), (1,): np.ones(n)}
    noise = rng.normal(size=(n, n))
    for sigma in (1.0, 2.0, 4.0, 6.0):
        yield Case(f"1000x1000 lognormal, sigma {sigma:g}", np.exp(sigma * noise), ones, ("pot",))
    yield _nearly_decomposable(rng, 200, 1e-7)
    cube = rng.random((100, 100, 100)) + 0.1
    pairs: Margins = {modes: np.ones((100, 100)) for modes in ((0, 1), (0, 2), (1, 2))}
    yield Case("100^3, all two-way margins", cube, pairs, ("numpy", "ipfn"))
    triangle = np.triu(rng.random((100, 100)) + 0.1)
    small: Margins = {(0,): np.ones(100), (1,): np.ones(100)}
    yield Case("100x100 triangular (no total support)", triangle, small, ("pot", "ipfn"))
    yield _raking(rng)


def _nearly_decomposable(rng: np.random.Generator, n: int, link: float) -> Case:
    X = link * rng.random((n, n))
    half = n // 2
    X[:half, :half], X[half:, half:] = rng.random((2, half, half)) + 0.1
    rows = np.ones(n)
    rows[:half] += 1e-3
    margins: Margins = {(0,): rows, (1,): np.full(n, rows.sum() / n)}
    return Case(f"{n}x{n} in two blocks, links {link:g}", X, margins, ("pot", "ipfn"))


def _raking(rng: np.random.Generator) -> Case:
    """Draw a survey of 20,000 in 6 x 5 x 8 x 4 groups, raked to a population that differs from it."""
    groups = rng.gamma(2.0, size=(6, 5, 8, 4))
    survey = rng.multinomial(20_000, groups.ravel() / groups.sum()).reshape(groups.shape).astype(float) + 1.0
    population = groups * np.exp(0.5 * rng.normal(size=groups.shape))
    population *= 8e6 / population.sum()
    margins: Margins = {
        (0, 1): population.sum(axis=(2, 3)),
        (2,): population.sum(axis=(0, 1, 3)),
        (3,): population.sum(axis=(0, 1, 2)),
    }
    return Case("raking 6x5x8x4: one two-way and two one-way margins", survey, margins, ("ipfn",))


def tries(case: Case) -> Iterator[Try]:
    """List what is run on a case, the package first."""
    yield Try("legendre", "auto", lambda: _ours(case))
    if "pot" in case.peers and find_spec("ot"):
        with np.errstate(divide="ignore"):
            cost = -np.log(case.X)
        rows, columns = (case.margins[(k,)] / case.margins[(k,)].sum() for k in (0, 1))
        tight = TOL * float(columns.max())
        for method in ("sinkhorn", "sinkhorn_stabilized", "sinkhorn_log"):
            # POT compares a 2-norm with its threshold: with the larger one it may stop earlier, and still be right
            for threshold in (tight, tight * len(columns) ** 0.5):
                yield Try(
                    "POT", f"{method}, stopThr {threshold:.0e}", pot(case, cost, rows, columns, method, threshold)
                )
    if "ipfn" in case.peers and find_spec("ipfn"):
        yield Try("ipfn", "numpy", lambda: ipfn(case))
    if "numpy" in case.peers:
        yield Try("plain NumPy IPF", "", lambda: plain(case))


def _ours(case: Case) -> tuple[Floats, int | None, str]:
    import legendre as ld

    result = ld.balance(case.X, case.margins, tol=TOL)
    return result.tensor(), result.n_iter, result.status.name


def pot(
    case: Case, cost: Floats, rows: Floats, columns: Floats, method: str, threshold: float
) -> Callable[[], tuple[Floats, int | None, str]]:
    """Prepare a run of POT with one of its methods."""
    ot: Any = import_module("ot")
    sweeps = SWEEPS if method != "sinkhorn_log" else SWEEPS // 100  # each costs a hundred times as much

    def solve() -> tuple[Floats, int | None, str]:
        answer, log = ot.sinkhorn(
            rows, columns, cost, 1.0, method=method, stopThr=threshold, numItermax=sweeps, log=True, warn=False
        )
        return answer * case.margins[(0,)].sum(), log.get("niter", log.get("n_iter")), ""

    return solve


def ipfn(case: Case) -> tuple[Floats, int | None, str]:
    """Run ipfn."""
    solver: Any = import_module("ipfn.ipfn").ipfn
    limit = 30 if case.X.size > 100_000 else 2_000
    margins = [m.copy() for m in case.margins.values()]
    worker = solver(
        case.X.copy(),
        margins,
        [list(s) for s in case.margins],
        convergence_rate=TOL,
        max_iteration=limit,
        rate_tolerance=0.0,
        verbose=2,
    )
    answer, _, rates = worker.iteration()
    return answer, len(rates), ""


def plain(case: Case) -> tuple[Floats, int | None, str]:
    """Run iterative proportional fitting in plain NumPy."""
    q = case.X.copy()
    sweep = 0
    while sweep < SWEEPS and error_of(q, case.margins) > TOL:
        sweep += 1
        for modes, wanted in case.margins.items():
            others = tuple(k for k in range(q.ndim) if k not in modes)
            q *= np.expand_dims(wanted / q.sum(axis=others), others)
    return q, sweep, ""


def error_of(tensor: Floats, margins: Margins) -> float:
    """Return the largest error of a margin as a share of its largest entry."""
    sums = {s: tensor.sum(axis=tuple(k for k in range(tensor.ndim) if k not in s)) for s in margins}
    return max(float(np.abs(sums[s] - wanted).max() / wanted.max()) for s, wanted in margins.items())


def measure(case: Case, run: str) -> list[Line]:
    """Run everything on a case; of each method keep the fastest setting that got there, or the most exact."""
    found: dict[str, list[Line]] = {}
    for attempt in tries(case):
        line = _measure_one(case, attempt, run)
        found.setdefault(attempt.method, []).append(line)
    best = [min(lines, key=lambda x: (not x.reached, x.seconds if x.reached else x.error)) for lines in found.values()]
    return [Line(**{**asdict(line), "ratio_to_ours": line.seconds / best[0].seconds}) for line in best]


def _measure_one(case: Case, attempt: Try, run: str) -> Line:
    others = Elsewhere()
    times: list[float] = []
    while len(times) < REPEATS and sum(times) <= LONG:
        start = time.perf_counter()
        answer, n_iter, status = attempt.solve()
        times.append(time.perf_counter() - start)
    error = error_of(answer, case.margins) if np.isfinite(answer).all() else np.inf
    return Line(
        run, case.name, attempt.method, attempt.setting, error <= TOL, min(times), n_iter, error, 1.0, status,
        others.cores(), machine(), versions("legendre", "numpy", "scipy", "POT", "ipfn"),
    )  # fmt: skip


def main() -> None:
    """Measure, print a table and write the file."""
    import legendre as ld

    run, lines = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), []
    print("| problem | method | steps | seconds | / ours | margin error |\n| --- | --- | --- | --- | --- | --- |")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ld.balance(np.ones((3, 3)))
        for case in cases():
            for line in measure(case, run):
                lines.append(line)
                name = f"{line.method} ({line.setting.split(',')[0]})" if line.setting else line.method
                miss = "" if line.reached else " (not reached)"
                print(
                    f"| {line.problem} | {name} | {line.n_iter} | {line.seconds:.3g} | {line.ratio_to_ours:.1f} | "
                    f"{line.error:.0e}{miss} |",
                    flush=True,
                )
    with (ROOT / "benchmarks" / "results" / "balancing.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Line)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)


if __name__ == "__main__":
    main()
