"""Order 100 against mbi: ``python -m benchmarks.junction`` writes benchmarks/results/junction.csv.

An argument names the only estimator of mbi to run: ``"MirrorDescent l2"`` is the one that got there in time on every
problem. Every problem is a set of margins of pairs of modes and 10^5 rows, drawn from a member of the model. Each
method runs in a process of its own, from the rows to ``max|eta - eta_hat| <= 1e-9``: `seconds` is all of it, of which
`read_seconds` go into counting the rows, but for `compile_seconds`, which mbi needs once for every graph.
mbi fits the same margins in float64 with its estimators and its own choice of the marginal oracle: steps are taken in
blocks of 50, its own unit, until the margins are right or the time is up. Its second run counts, when nothing is left
to compile.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import machine
from .problems import ROOT

if TYPE_CHECKING:
    import legendre as ld  # imported where it is used: the race times the import

Edges = list[tuple[int, int]]
Ints = NDArray[np.int64]
TOL, N_ROWS, REPEATS = 1e-9, 100_000, 3
SOLVE, LIMIT = 120.0, 900.0
"""Seconds that a peer may take to solve, and to do everything including compilation."""
OURS = "legendre"
MBI = ("MirrorDescent l2", "LBFGS l2", "LBFGS mle", "UniversalAcceleratedMethod l2")


@dataclass(frozen=True, eq=False)
class Case:
    """Modes with levels, and the pairs that interact."""

    name: str
    levels: tuple[int, ...]
    edges: Edges
    spread: float = 0.4

    def rows(self) -> Ints:
        """Draw rows from a member of the model, always the same."""
        from legendre.data.sparse import observe_rows
        from legendre.data.support import Support
        from legendre.model.model import Model
        from legendre.results.on_cliques import OnCliques

        rng = np.random.default_rng(2018)
        nothing = observe_rows(np.zeros((1, len(self.levels)), dtype=np.int64), np.ones(1), self.levels)
        model = Model.of(Support(self.levels), None, self.basis().select(nothing))
        return OnCliques(model, self.spread * rng.normal(size=model.n_params)).sample(N_ROWS, rng)

    def basis(self) -> ld.Basis:
        """Take every pair with all its levels, and every mode."""
        import legendre as ld

        return ld.interactions([*((k,) for k in range(len(self.levels))), *self.edges])


@dataclass(frozen=True)
class Line:
    """One method on one problem."""

    run: str
    problem: str
    method: str
    params: int
    reached: bool
    seconds: float | None
    read_seconds: float | None
    compile_seconds: float | None
    n_iter: int | None
    residual: float | None
    ratio_to_ours: float | None
    status: str
    peak_mb: float | None
    other_load: float | None
    machine: str
    versions: str


def lattice(rows: int, columns: int) -> Edges:
    """Join neighbours of a grid."""
    across = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    return across + [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]


def _tree(n: int, k: int, share: float) -> Edges:
    """Draw a k-tree and keep a share of its edges."""
    rng = np.random.default_rng(k)
    edges, cliques = list(combinations(range(k + 1), 2)), [list(range(k + 1))]
    for node in range(k + 1, n):
        chosen = sorted(rng.permutation(cliques[rng.integers(len(cliques))])[:k].tolist())
        edges += [(other, node) for other in chosen]
        cliques.append([*chosen, node])
    return [edge for edge in edges if rng.random() < share]


def chain(n: int) -> Edges:
    """Join each to the next."""
    return [(i, i + 1) for i in range(n - 1)]


CASES = {
    case.name: case
    for case in (
        Case("chain of 100, binary", (2,) * 100, chain(100)),
        Case("lattice 5 x 20, binary", (2,) * 100, lattice(5, 20)),
        Case("lattice 5 x 20, binary, strong", (2,) * 100, lattice(5, 20), 0.8),
        Case("partial 5-tree, 100 binary", (2,) * 100, _tree(100, 5, 0.8)),
        Case("5-tree, 100 binary", (2,) * 100, _tree(100, 5, 1.0)),
        Case("chain of 30, 10 levels", (10,) * 30, chain(30), 0.1),
    )
}


def ours(case: Case) -> dict[str, Any]:
    """Fit rows; everything counts."""
    import legendre as ld
    from legendre.data.sparse import observe_rows

    rows = case.rows()
    warm = Case("small", (2,) * 30, chain(30))
    ld.decompose(observe_rows(rows[:100, :1].repeat(30, axis=1) % 2, np.ones(100), warm.levels, 1.0), warm.basis())
    machine.reset_peak()
    before = machine.resident_bytes()
    times: list[float] = []
    reading: list[float] = []
    while len(times) < REPEATS:
        start = time.perf_counter()
        data = observe_rows(rows, np.ones(len(rows)), case.levels)
        reading.append(time.perf_counter() - start)
        fit = ld.decompose(data, case.basis(), tol=TOL)
        times.append(time.perf_counter() - start)
    return {
        "seconds": min(times),
        "read_seconds": min(reading),
        "n_iter": fit.n_iter,
        "residual": fit.residual,
        "status": fit.status.name,
        "params": fit.n_params,
        "peak_mb": (machine.peak_bytes() - before) / 1e6,
    }


class Enough(Exception):
    """The margins are right, or the time is up."""


def mbi(case: Case, setting: str) -> dict[str, Any]:
    """Fit the same margins with an estimator of mbi."""
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    lib: Any = import_module("mbi")
    rows = case.rows()
    machine.reset_peak()
    before, start = machine.resident_bytes(), time.perf_counter()
    names = [f"x{k}" for k in range(len(case.levels))]
    domain = lib.Domain(names, list(case.levels))
    data = lib.Dataset({name: rows[:, k] for k, name in enumerate(names)}, domain)
    pairs = [(names[i], names[j]) for i, j in case.edges]
    wanted = {pair: np.asarray(data.project(pair).values, dtype=np.float64) / len(rows) for pair in pairs}
    reading = time.perf_counter() - start
    estimator, kind = setting.split()
    loss = _loss(lib, domain, wanted, kind)
    solve = getattr(lib.estimation, estimator)().estimate
    blocks: list[tuple[float, float]] = []

    def run(limit: float, iters: int) -> float:
        blocks.clear()
        begin = time.perf_counter()

        def watch(margins: Any) -> None:
            worst = max(_error(np.asarray(margins[pair].values), wanted[pair]) for pair in pairs)
            blocks.append((time.perf_counter() - begin, worst))
            if worst <= TOL or blocks[-1][0] > limit:
                raise Enough

        with suppress(Enough):
            solve(domain, loss, 1.0, iters=iters, callback_fn=watch)
        return time.perf_counter() - begin

    compiling = run(np.inf, 50)
    run(SOLVE, 10**7)
    seconds, residual = min(blocks, key=lambda block: block[1])
    return {
        "seconds": reading + seconds,
        "read_seconds": reading,
        "compile_seconds": compiling,
        "n_iter": 50 * len(blocks),
        "residual": residual,
        "status": "DONE",
        "params": sum((m.shape[0] - 1) * (m.shape[1] - 1) for m in wanted.values()) + sum(case.levels) - len(names),
        "peak_mb": (machine.peak_bytes() - before) / 1e6,
    }


def _loss(lib: Any, domain: Any, wanted: dict[tuple[str, str], Any], kind: str) -> Any:
    if kind == "l2":
        asked = [lib.LinearMeasurement(margin.ravel(), pair) for pair, margin in wanted.items()]
        return lib.marginal_loss.from_linear_measurements(asked, domain)
    factors = {pair: lib.Factor(domain.project(pair), margin) for pair, margin in wanted.items()}
    return lib.marginal_loss.mle_loss_fn(lib.CliqueVector(domain, list(factors), factors))


def _error(margin: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Return the largest error of an expectation on the basis: of a sum over ``x >= u`` in a pair's margin."""
    change = (margin - wanted)[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)
    return float(np.abs(change).max())


def measure(case: Case, method: str, run: str) -> Line:
    """Measure in a process of its own."""
    others = machine.Elsewhere()
    command = [sys.executable, "-m", "benchmarks.junction", method, case.name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False)
        facts: dict[str, Any] = (
            json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"status": _last(done.stderr)}
        )
    except subprocess.TimeoutExpired:
        facts = {"status": f"TIME LIMIT: more than {LIMIT:.0f} s with compilation"}
    values: dict[str, Any] = dict.fromkeys((field.name for field in fields(Line)), None)
    values |= facts
    values |= {
        "run": run,
        "problem": case.name,
        "method": method,
        "params": facts.get("params", 0),
        "reached": bool(facts.get("residual", np.inf) <= TOL),
        "other_load": others.cores(),
        "machine": machine.machine(),
        "versions": machine.versions("legendre", "numpy", "scipy", "mbi", "jax"),
    }
    return Line(**values)


def _last(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:200]


def compare(case: Case, run: str, peers: tuple[str, ...], say: Callable[[Line], None]) -> list[Line]:
    """Measure every method on a case, the package first."""
    mine = measure(case, OURS, run)
    say(mine)
    lines = [mine]
    for method in peers if find_spec("mbi") else ():
        line = measure(case, method, run)
        ratio = line.seconds / mine.seconds if line.seconds is not None and mine.seconds else None
        lines.append(Line(**{**asdict(line), "ratio_to_ours": ratio}))
        say(lines[-1])
    return lines


def _say(line: Line) -> None:
    def short(x: float | None) -> str:
        return "" if x is None else f"{x:.3g}"

    print(
        f"| {line.problem} | {line.method} | {short(line.read_seconds)} | {short(line.compile_seconds)} | "
        f"{short(line.seconds)} | {short(line.ratio_to_ours)} | {short(line.residual)} | {short(line.peak_mb)} | "
        f"{line.status} |",
        flush=True,
    )


def main() -> None:
    """Measure what the command line names, or everything."""
    warnings.simplefilter("ignore")
    if len(sys.argv) == 3:
        method, case = sys.argv[1], CASES[sys.argv[2]]
        print(json.dumps(ours(case) if method == OURS else mbi(case, method)))
        return
    peers = (sys.argv[1],) if len(sys.argv) == 2 else MBI
    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print("| problem | method | read s | compile s | all but that s | / ours | residual | peak MB | status |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    lines = [line for case in CASES.values() for line in compare(case, run, peers, _say)]
    with (ROOT / "benchmarks" / "results" / "junction.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, [field.name for field in fields(Line)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)


if __name__ == "__main__":
    main()
