"""Measure, print, draw: ``python -m benchmarks.run [--quick | --full] [--output FOLDER] [--report]``."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.csv_records import append

from . import determinism, plan, tables
from .claims import verdicts
from .measure import OURS, compile_all, measure
from .page import write_page
from .plots import draw
from .problems import PROBLEMS, ROOT, Problem, selected
from .results import CHECKS, LABELS, PEER_ROWS, ROWS, load
from .rows import Check, Row, drop_retired

OUTPUT = ROOT / "benchmarks" / "results"


@dataclass
class Series:
    """A run of a set: the clock, and where rows go."""

    level: str
    folder: Path
    started: float = field(default_factory=time.monotonic)
    run: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    rows: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Seconds until no measurement is started any more."""
        return plan.SECONDS[self.level] - (time.monotonic() - self.started)

    def limit(self, problem: Problem) -> float:
        """Seconds that a measurement may take."""
        return min(plan.LIMIT_FACTOR[self.level] * problem.limit, self.left)

    def measure(self, method: str, problem: Problem) -> None:
        """Measure, write the row to its file and print a line."""
        if self.left <= 1:
            row = Row(self.run, method, problem.name, problem.cells, "SKIPPED", problem.tol, note="no time left")
        else:
            budget = plan.REPEAT_SECONDS[self.level]
            row = measure(method, problem, run=self.run, budget=budget, limit=self.limit(problem))
        if row.status == "TIME LIMIT" and self.left <= 1:
            row = replace(row, status="SKIPPED", note="no time left")
        append(self.folder / (ROWS if method == OURS else PEER_ROWS), row)
        self.rows.append(row)
        seconds = f"{row.seconds:.4g} s" if row.seconds is not None else row.note
        print(f"{problem.name:30} {LABELS[method]:30} {row.status:14} {seconds}", flush=True)

    def check(self, problem: Problem) -> None:
        """Check that answers are the same, write the rows to their file and print a line each."""
        if self.left <= 1:
            return
        for check in determinism.check(problem, run=self.run, limit=self.limit(problem)):
            append(self.folder / CHECKS, check)
            self.checks.append(check)
            print(f"{problem.name:30} {check.status:11} {check.check}: {check.value}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run a set, or only write the page from earlier rows; return 1 if a row or check failed."""
    options = _options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    for name in (ROWS, PEER_ROWS):
        drop_retired(options.output / name)  # before rows are added
    series = Series(options.level, options.output)
    if not options.report_only:
        print("loading compiled code; the first time ever it is compiled, which may take minutes", flush=True)
        compile_all(plan.compiled(series.level))
        series.started = time.monotonic()
        if options.only is None:
            _measure_all(series)
        else:
            series.measure(OURS, PROBLEMS[options.only])
        _print(series)
    results = load(options.output)
    tables.show("Promises", tables.CLAIM_COLUMNS, [tables.claim_cells(verdict) for verdict in verdicts(results)])
    for path in draw(results, options.output):
        print(f"drawn: {path}")
    if options.report or options.report_only:
        print(f"written: {write_page(results, options.output)}")
    statuses = [row.status for row in series.rows] + [check.status for check in series.checks]
    return int("FAILED" in statuses or "ERROR" in statuses)


def _measure_all(series: Series) -> None:
    for problem in selected(series.level):
        series.measure(OURS, problem)
    for problem in plan.determinism(series.level):
        series.check(problem)
    for method, problem in plan.matches(series.level):
        series.measure(method, problem)


def _print(series: Series) -> None:
    ours = [row for row in series.rows if row.method == OURS]
    others = [row for row in series.rows if row.method != OURS]
    tables.show("The package", tables.ROW_COLUMNS, [tables.row_cells(row) for row in ours])
    lines = tables.peer_lines(others, {row.problem: row for row in ours}.get)
    tables.show("Others, at an equal number of parameters", tables.PEER_COLUMNS, lines)
    tables.show("The same answer", tables.CHECK_COLUMNS, [*map(tables.check_cells, series.checks)])
    busy = sum(row.busy for row in series.rows)
    if busy:
        print(f"{busy} rows were measured while other programs kept the machine busy: measure again when it is quiet.")
    print(f"{time.monotonic() - series.started:.0f} s in all; rows are in {series.folder}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description="Measure the package and its peers.")
    parser.set_defaults(level="default")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="level", action="store_const", const="quick", help="under a minute")
    size.add_argument("--full", dest="level", action="store_const", const="full", help="everything: up to two hours")
    parser.add_argument("--output", type=Path, help="folder of the CSV files and plots")
    parser.add_argument("--only", choices=sorted(PROBLEMS), help="measure the package on this problem alone")
    report = parser.add_mutually_exclusive_group()
    report.add_argument("--report", action="store_true", help="also write docs/background/performance.md")
    report.add_argument("--report-only", action="store_true", help="write it from the rows there are; measure nothing")
    options = parser.parse_args(arguments)
    if options.output is None:  # few repeats must not displace rows of a longer run
        options.output = OUTPUT / "quick" if options.level == "quick" else OUTPUT
    return options


if __name__ == "__main__":
    raise SystemExit(main())
