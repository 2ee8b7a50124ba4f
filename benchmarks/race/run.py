"""Run the race and write its page: ``python -m benchmarks.race.run [--only WORDS] [--fresh | --page]``.

Rows are added to benchmarks/results/race-unfinished.csv. When all are there, the file takes the place of race.csv and
the page docs/background/race.md is written; a run that was interrupted is continued by the next one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.csv_records import append, read
from benchmarks.problems import ROOT

from .disciplines import jobs
from .entrants import Case, Discipline, Entrant
from .page import write_page
from .rows import Row
from .worker import LIMIT

RESULTS = ROOT / "benchmarks" / "results"
FINISHED, UNFINISHED = "race.csv", "race-unfinished.csv"
POLL, WALL = 0.5, 5
"""Seconds between looks at a process, which is given up after five times its limit by the clock."""
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
) | {
    "OMP_PROC_BIND": "false",
    "JAX_PLATFORMS": "cpu",
    "POT_BACKEND_DISABLE_JAX": "1",  # POT would import every array library that is installed
    "POT_BACKEND_DISABLE_PYTORCH": "1",
    "POT_BACKEND_DISABLE_TENSORFLOW": "1",
    "POT_BACKEND_DISABLE_CUPY": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""One thread for everybody, and no library that nobody asked for."""
INSTALL = "pip install 'legendre[race]'"


def main(arguments: list[str] | None = None) -> int:
    """Measure what is missing, then write the page; return 1 if rows are still missing."""
    options = _options(arguments)
    path = options.output / UNFINISHED
    if options.fresh:
        path.unlink(missing_ok=True)
    if not options.page:
        _measure_all(path, options.only or [])
        rows = read(path, Row)
        if missing := len(jobs()) - len({row.key for row in rows}):
            print(f"{missing} of {len(jobs())} rows are missing; they are in {path}, and the next run continues.")
            return 1
        path.replace(options.output / FINISHED)
    print(f"written: {write_page(read(options.output / FINISHED, Row))}")
    return 0


def _measure_all(path: Path, only: list[str]) -> None:
    done = {row.key: row for row in read(path, Row)}
    run = next((row.run for row in done.values()), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    if done:
        print(f"continuing the run of {run}, of which {len(done)} rows are there; --fresh begins anew")
    with tempfile.TemporaryDirectory() as folder:
        for discipline, case, entrant in jobs():
            key = (discipline.name, case.name, entrant.name)
            if key in done or not all(word in " ".join(key) for word in only):
                continue
            row = measure(discipline, case, entrant, run, Path(folder), list(done.values()))
            append(path, row)
            done[key] = row
            _say(row)


def measure(discipline: Discipline, case: Case, entrant: Entrant, run: str, folder: Path, before: list[Row]) -> Row:
    """Return the row; `folder` keeps compiled code from one row to the next."""
    facts = _facts(discipline, case, entrant, folder, before)
    known = {name: value for name, value in facts.items() if name in Row.__dataclass_fields__}
    return Row(
        run, discipline.name, case.name, case.size, entrant.name,
        **{"setting": entrant.setting, "tol": discipline.tol, "machine": machine.machine()} | known,
        versions=machine.versions("legendre", "numpy", "scipy", *entrant.distributions),
    )  # fmt: skip


def _facts(discipline: Discipline, case: Case, entrant: Entrant, folder: Path, before: list[Row]) -> dict[str, Any]:
    if not entrant.installed:
        return {"status": "NOT INSTALLED", "note": INSTALL}
    if (smaller := _too_slow(case, entrant, before, discipline)) is not None:
        return {"status": "SKIPPED", "note": f"{smaller} took too long"}
    words = [discipline.name, case.name, entrant.name]
    way: dict[str, Any] = {}
    if entrant.ways:
        way = call([*words, "--choose"])
        if "way" not in way:
            return way
        words += ["--way", way["way"]]
    if not entrant.compiles:
        return _named(call(words), way)
    cache = folder / discipline.name / entrant.package
    empty = not cache.exists()
    first = call([*words, "--first"], {"NUMBA_CACHE_DIR": str(cache)})
    if "first_seconds" not in first:
        return first
    facts = _named(call(words, {"NUMBA_CACHE_DIR": str(cache)}), way)
    return facts | ({"empty_seconds": first["first_seconds"]} if empty else {})


def _named(facts: dict[str, Any], way: dict[str, Any]) -> dict[str, Any]:
    """Say which way was the best."""
    return facts | ({"setting": way["way"]} if way else {})


def _too_slow(case: Case, entrant: Entrant, before: list[Row], discipline: Discipline) -> str | None:
    """Return the name of an easier problem of the group on which the entrant ran out of time."""
    group = {some.name for some in discipline.cases if some.group and some.group == case.group}
    for row in before:
        if row.method == entrant.name and row.status in ("TIME LIMIT", "OUT OF MEMORY") and row.problem in group:
            return row.problem
    return None


def call(words: list[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a worker; whatever becomes of it, return facts."""
    command = [sys.executable, "-m", "benchmarks.race.worker", *words]
    env = {**os.environ, **ONE_THREAD, **(environment or {})}
    with subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        end = time.monotonic() + WALL * LIMIT
        while True:
            try:
                out, complaints = process.communicate(timeout=POLL)
                break
            except subprocess.TimeoutExpired:
                if machine.spent_seconds(process.pid) > LIMIT or time.monotonic() > end:
                    process.kill()
                    return {"status": "TIME LIMIT", "note": f"more than {LIMIT} s of processor time"}
    if process.returncode == 0:
        facts: dict[str, Any] = json.loads(out.splitlines()[-1])
        return facts
    last = (complaints.strip().splitlines() or ["no message"])[-1]
    return {"status": "ERROR", "note": f"exit code {process.returncode}: {last}"[:200]}


def _say(row: Row) -> None:
    seconds = f"{row.seconds:.3g} s" if row.seconds is not None else row.note
    judged = " ".join(
        f"{name} {value:.3g}" for name in ("residual", "kl", "rmse") if (value := getattr(row, name)) is not None
    )
    print(f"{row.problem:34} {row.method:26} {row.status:13} {seconds} {judged}", flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.race.run", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="only rows whose discipline, problem or method has this word")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the CSV files")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--fresh", action="store_true", help="forget the rows of a run that was interrupted")
    what.add_argument("--page", action="store_true", help="write the page from the rows there are; measure nothing")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
