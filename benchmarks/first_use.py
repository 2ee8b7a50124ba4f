"""What a first fit costs: ``python -m benchmarks.first_use`` writes its file, and docs/background/first_use.md from it.

Every problem is fitted twice, each time in a fresh process: with an empty cache of compiled code, and with the cache
that the first of them left. `seconds` and `cpu_seconds` are those of the call alone, after Python, NumPy and X are in
memory; `compile_seconds` are processor seconds of the threads that compiled, and `kernels` what was compiled, the
functions that a kernel calls included. ``python -m benchmarks.first_use WORD ...`` measures the problems whose names
contain one of the words; rows of others stay. FIRST_USE_KERNELS=1 lists what was compiled, with the seconds of each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.csv_records import append, read

from .machine import Elsewhere, machine, older, peak_bytes, reset_peak, versions
from .problems import ROOT
from .tables import markdown, number, show

RESULTS = ROOT / "benchmarks" / "results" / "first_use.csv"
PAGE = ROOT / "docs" / "background" / "first_use.md"
PROMISED = 8.0
"""Seconds that a first fit with an empty cache may take on two quiet cores."""
LIMIT = 600.0
INTRODUCTION = """\
# The first fit

Written by `python -m benchmarks.first_use`; do not edit.

Large problems are fitted by compiled code. It is compiled when it is first needed and kept on disk, in the installation
or, if that cannot be written to, in the user's cache folder. Later processes load it. While the compiler works, a
progress line on the terminal says so. Small problems need no compiler.

Each problem is the first thing that a fresh process does, once with an empty cache and once with the cache that this
left. *seconds* is the time of the call; *CPU s* is the processor time of all threads; *compiling* is the part of it
that the compiler took, and *functions* how many functions it compiled; *other load* is the number of cores that other
programs kept busy.

The promise is less than 8 s with an empty cache and two quiet cores. If the other load is above 0.25, *seconds* means
little, and so does *CPU s* where threads of LAPACK wait for each other (3,000 parameters); *compiling* is hardly
affected.
"""
COLUMNS = ("problem", "cache", "seconds", "CPU s", "functions", "compiling, CPU s", "peak MB", "other load")


@dataclass(frozen=True)
class FirstUse:
    """One problem in one fresh process."""

    run: str
    problem: str
    cache: str  # "empty" or "full"
    seconds: float
    cpu_seconds: float
    kernels: int
    compile_seconds: float
    peak_mb: float
    other_load: float | None
    machine: str
    versions: str


@dataclass
class Compiling:
    """Listens to numba: what is compiled, and the processor time of it; callees are counted once, in their caller."""

    kernels: list[str] = field(default_factory=list)
    seconds: float = 0.0
    _open: dict[int, list[float]] = field(default_factory=dict)  # by thread, when the unfinished ones began

    def notify(self, event: Any) -> None:
        """Take an event of numba."""
        begun = self._open.setdefault(threading.get_ident(), [])
        if event.is_start:
            begun.append(time.thread_time())
            return
        spent = time.thread_time() - begun.pop()
        dispatcher = event.data["dispatcher"]
        self.kernels.append(f"{spent:6.2f} {'  ' * len(begun)}{dispatcher.py_func.__qualname__}")
        if not begun:
            self.seconds += spent


def listening() -> Compiling:
    """Begin to listen; this imports numba."""
    from numba.core import event

    compiling = Compiling()

    class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: Any) -> None:
            compiling.notify(event)

        def on_end(self, event: Any) -> None:
            compiling.notify(event)

    event.register("numba:compile", Listener())
    return compiling


def measure(name: str, folder: Path) -> dict[str, object]:
    """Fit, in this process."""
    from .first_use_problems import PROBLEMS, tensor

    warnings.simplefilter("ignore")
    compiling = listening()
    X = tensor(name, folder)
    _, run = PROBLEMS[name]
    reset_peak()
    elsewhere = Elsewhere()
    wall, cpu = time.perf_counter(), time.process_time()
    run(X)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    for line in compiling.kernels if os.environ.get("FIRST_USE_KERNELS") else ():
        print(line, file=sys.stderr)
    return {
        "seconds": seconds, "cpu_seconds": cpu_seconds, "kernels": len(compiling.kernels),
        "compile_seconds": compiling.seconds, "peak_mb": peak_bytes() / 1e6, "other_load": elsewhere.cores(),
    }  # fmt: skip


def in_a_process(name: str, folder: Path) -> dict[str, Any]:
    """Measure a problem in a fresh process that keeps compiled code in a folder."""
    command = [sys.executable, "-m", "benchmarks.first_use", "--here", name, str(folder)]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cells(line: FirstUse) -> list[str]:
    """Write a line of the table."""
    numbers = line.seconds, line.cpu_seconds, line.kernels, line.compile_seconds, line.peak_mb, line.other_load
    forms = ".1f", ".1f", "d", ".1f", ".0f", ".1f"
    shown = [number(value, form) for value, form in zip(numbers, forms, strict=True)]
    return [line.problem, line.cache, *shown]


def page(lines: list[FirstUse]) -> str:
    """Write the page of the documentation."""
    last = max(lines, key=lambda line: line.run)
    measured = older(last.versions) + f"Measured {last.run[:10]} on {last.machine}. {last.versions}."
    return "\n".join([INTRODUCTION, measured, "", markdown(COLUMNS, [cells(line) for line in lines]), ""])


def main(words: list[str]) -> None:
    """Measure, print the table, write the file and the page."""
    from .first_use_problems import PROBLEMS

    run = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    rows = {(row.problem, row.cache): row for row in read(RESULTS, FirstUse)}
    for name in PROBLEMS:
        if words and not any(word in name for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for cache in ("empty", "full"):
                found = in_a_process(name, Path(folder))
                rows[name, cache] = row = FirstUse(run, name, cache, **found, machine=machine(), versions=versions())
                print(" | ".join(cells(row)), flush=True)
    known = [rows[name, cache] for name in PROBLEMS for cache in ("empty", "full") if (name, cache) in rows]
    show(f"First fit in a fresh process; promised: {PROMISED:.0f} s", COLUMNS, [cells(row) for row in known])
    RESULTS.unlink(missing_ok=True)
    for row in known:
        append(RESULTS, row)
    PAGE.write_text(page(read(RESULTS, FirstUse)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(measure(sys.argv[2], Path(sys.argv[3]))))
    else:
        main(sys.argv[1:])
