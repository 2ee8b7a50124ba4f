"""An older checkout against this one, in one run: ``python -m benchmarks.against OLD_CHECKOUT``.

Each measurement is a process of its own with one thread; PYTHONPATH chooses the source. The two versions take turns, so
that a machine that becomes slower is slower for both. Times are processor time, which does not count the time that
other programs have the processor; ``--elapsed`` measures elapsed time, for a quiet machine. Of each round the fastest
repeat counts, and of these the median. The exit code is 1 if a fit takes more than `LIMIT` times as long as before, or
does not reach tol, or its KL is more than `WORSE` times what it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from . import tables
from .against_worker import Measured
from .determinism import THREAD_VARIABLES
from .problems import GROWN, ROOT, TASKS, Problem, selected
from .problems import PROBLEMS as SINGLE
from .rows import BUSY

LIMIT = 1.15
"""How many times as long as before a fit may take."""
WORSE = 1.01
"""How many times as large as before KL may be."""
ROUNDS = 5
IMPORTS = 9
"""Fresh processes for each import; the fastest counts."""
SLACK = 300.0
"""Seconds that a process may take beyond the problem's limit: in the first round it may wait for the compiler."""
COLUMNS = (
    "problem", "|B|", "old s", "new s", "new / old", "old residual", "new residual", "old KL", "new KL", "old peak MB",
    "new peak MB", f"<= {LIMIT:.2f}",
)  # fmt: skip
MORE = ("500^3 B1", "500^3 B3(1)", "50^3 B3(100) to 1e-9", "100^3 B3(1000) to 1e-9", "100^3 interactions(2) to 1e-9")
PROBLEMS = {one.name: one for one in (*selected("quick"), *(SINGLE[name] for name in MORE), *TASKS, *GROWN)}
OLD, NEW = "old", "new"
PROCESSOR, ELAPSED = "process_time", "perf_counter"
PLAIN = "import numpy, scipy.linalg"


class NoMeasurement(Exception):
    """There is no number; the text says why."""


@dataclass(frozen=True)
class Checkout:
    """A version of the package: its label in the table, its folder, and the function of `time` that measures it."""

    label: str
    folder: Path
    clock: str = PROCESSOR

    @property
    def source(self) -> Path:
        """The folder to import from."""
        return self.folder / "src"

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that imports this version and uses one thread."""
        return {**os.environ, **dict.fromkeys(THREAD_VARIABLES, "1"), "PYTHONPATH": str(self.source)}

    def python(self, *words: str, limit: float = SLACK) -> str:
        """Run Python in a process of its own and return the last line that it prints."""
        command = [sys.executable, *words]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=limit, check=False
            )
        except subprocess.TimeoutExpired:
            raise NoMeasurement(f"more than {limit:.0f} s") from None
        if done.returncode:
            raise NoMeasurement((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200])
        return done.stdout.splitlines()[-1]

    def measure(self, problem: Problem) -> Measured:
        """Fit a problem with this version."""
        words = ("-m", "benchmarks.against_worker", problem.name, self.clock)
        found = json.loads(self.python(*words, limit=problem.limit + SLACK))
        if "missing" in found:
            raise NoMeasurement(f"NO DATA: {found['missing']}")
        measured = Measured(**found)
        if not Path(measured.source).resolve().is_relative_to(self.source.resolve()):
            raise NoMeasurement(f"{measured.source} was imported, which is not in {self.source}")
        return measured


@dataclass(frozen=True)
class Pair:
    """What both versions took for one problem, in every round; or why there are no numbers."""

    problem: str
    tol: float
    found: Mapping[str, Sequence[Measured]]
    note: str = ""

    def seconds(self, label: str) -> float:
        """Return the median over rounds of the fastest repeat."""
        return median(one.seconds for one in self.found[label])

    @property
    def ratio(self) -> float:
        """How many times as long as before it takes."""
        return self.seconds(NEW) / self.seconds(OLD)

    @property
    def holds(self) -> bool | None:
        """Whether the new version is fast enough and reaches tol; None without data."""
        if self.note:
            return None if self.note.startswith("NO DATA") else False
        near = max(one.residual for one in self.found[NEW]) <= self.tol
        return near and self.ratio <= LIMIT and self._kl(NEW) <= WORSE * self._kl(OLD)

    def _kl(self, label: str) -> float:
        """Return KL of the fit, which every round finds; 0 where there is none."""
        return self.found[label][0].kl or 0.0

    @property
    def cells(self) -> tables.Cells:
        """A line of the table."""
        if self.note:
            return [self.problem, self.note, *[""] * (len(COLUMNS) - 3), tables.HOLDS[self.holds]]
        both = [self.found[OLD], self.found[NEW]]
        return [
            self.problem,
            " / ".join(dict.fromkeys(f"{some[0].n_params:,}" for some in both)),
            *(tables.number(self.seconds(label), ".4g") for label in (OLD, NEW)),
            tables.number(self.ratio, ".2f"),
            *(tables.number(max(one.residual for one in some), ".0e") for some in both),
            *(tables.number(self._kl(label), ".5g") for label in (OLD, NEW)),
            *(tables.number(median(one.peak_mb for one in some), ".0f") for some in both),
            tables.HOLDS[self.holds],
        ]


def compare(old: Checkout, new: Checkout, problem: Problem, rounds: int) -> Pair:
    """Measure both in turns; the one that begins changes from round to round."""
    found: dict[str, list[Measured]] = {OLD: [], NEW: []}
    try:
        for number in range(rounds):
            for checkout in (old, new) if number % 2 == 0 else (new, old):
                found[checkout.label].append(checkout.measure(problem))
    except NoMeasurement as reason:
        return Pair(problem.name, problem.tol, found, str(reason))
    return Pair(problem.name, problem.tol, found)


def import_seconds(old: Checkout, new: Checkout, repeats: int = IMPORTS) -> dict[str, float]:
    """Time imports in fresh processes, in turns: the package of both versions, and what it imports in any case."""
    timed = f"from time import {new.clock} as clock; start = clock(); import {{}}; print(clock() - start)"
    code = {label: timed.format("legendre") for label in (OLD, NEW)} | {PLAIN: timed.format("numpy, scipy.linalg")}
    where = {OLD: old, NEW: new, PLAIN: new}
    times: dict[str, list[float]] = {name: [] for name in code}
    for _ in range(repeats):
        for name, statement in code.items():
            times[name].append(float(where[name].python("-c", statement)))
    return {name: min(some) for name, some in times.items()}


def import_cells(seconds: Mapping[str, float]) -> list[tables.Cells]:
    """Write the lines of the imports; the last column says nothing of them."""
    rest = [""] * (len(COLUMNS) - 5)
    lines = [
        ["import legendre", "", *(f"{seconds[label]:.4f}" for label in (OLD, NEW)), f"{_of(seconds, NEW, OLD):.2f}"],
        [f"  / {PLAIN}", "", *(f"{_of(seconds, label, PLAIN):.2f} x" for label in (OLD, NEW)), ""],
    ]
    return [[*line, *rest] for line in lines]


def _of(seconds: Mapping[str, float], one: str, other: str) -> float:
    return seconds[one] / seconds[other]


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table and return the exit code."""
    options = _options(arguments)
    old, new = Checkout(OLD, options.old, options.clock), Checkout(NEW, ROOT, options.clock)
    pairs = []
    for name in options.only or PROBLEMS:
        pairs.append(compare(old, new, PROBLEMS[name], options.rounds))
        print(f"{name:30} {pairs[-1].note or f'{pairs[-1].ratio:.2f}'}", flush=True)
    lines = [pair.cells for pair in pairs]
    if not options.only:
        lines += import_cells(import_seconds(old, new))
    title = f"{options.rounds} rounds, one thread, {options.clock}: {options.old} (old), {ROOT} (new)"
    tables.show(title, COLUMNS, lines)
    loads = [one.other_load or 0.0 for pair in pairs for some in pair.found.values() for one in some]
    busy = sum(load > BUSY for load in loads)
    if busy:
        print(f"{busy} of {len(loads)} measurements were made while other programs kept more than {BUSY} cores busy.")
    return int(any(pair.holds is False for pair in pairs))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against", description="An older checkout against this.")
    parser.add_argument("old", type=Path, help="its folder, e.g. made by: git worktree add ../old COMMIT")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is measured (default {ROUNDS})")
    parser.add_argument("--only", choices=list(PROBLEMS), action="append", help="this problem alone; can be repeated")
    parser.add_argument(
        "--elapsed", dest="clock", action="store_const", const=ELAPSED, default=PROCESSOR, help="not processor time"
    )
    options = parser.parse_args(arguments)
    options.old = options.old.resolve()
    if not (options.old / "src" / "legendre" / "__init__.py").is_file():
        parser.error(f"{options.old} has no src/legendre; give the folder of a checkout.")
    if options.rounds < 1:
        parser.error(f"--rounds must be an integer >= 1, got {options.rounds}.")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
