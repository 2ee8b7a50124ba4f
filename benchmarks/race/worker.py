"""One entrant on one problem in a process of its own: ``python -m benchmarks.race.worker DISCIPLINE PROBLEM METHOD``.

Prints the facts of the row as JSON. With ``--first`` only the first call is made; with ``--choose`` it tries the
entrant's ways and names the fastest that gets there, or else the most exact, which ``--way NAME`` then measures.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import machine
from benchmarks.problems import DataMissing

from .disciplines import find
from .entrants import Cannot, Case, Discipline, Entrant, Fitted

LIMIT = 90
"""Seconds of processor time that a process may take, compilation and repeats included.

The process that started it sees to that: under a limit of the system's, Linux counts processor time in steps of 4 ms.
"""
REPEATS, BUDGET, LONG, TRYING = 7, 3.0, 10.0, 15.0
"""Repeats at most; seconds after which none is begun; a first call of so many seconds is not repeated; seconds
after which no further way is tried."""


def work(discipline: Discipline, case: Case, entrant: Entrant, *, first_only: bool) -> dict[str, Any]:
    """Make the data, call once, call again, judge."""
    data = case.data()
    given = entrant.prepare(case, data)
    gc.collect()
    machine.reset_peak()
    before, elsewhere = machine.resident_bytes(), machine.Elsewhere()
    fitted, first = _timed(entrant, case, given)
    if first_only:
        return {"first_seconds": first}
    times: list[float] = []
    again = entrant.warms or first < LONG
    while again and len(times) < REPEATS and sum(times) < BUDGET:
        del fitted  # or two answers would be in memory at once
        gc.collect()
        fitted, seconds = _timed(entrant, case, given)
        times.append(seconds)
    facts: dict[str, Any] = {
        "first_seconds": first,
        "seconds": min(times, default=first),
        "repeats": len(times),
        "peak_mb": max(machine.peak_bytes() - before, 0) / 1e6,
        "other_load": elsewhere.cores(),
        "params": fitted.params,
        "steps": fitted.steps,
        "note": "; ".join(filter(None, (fitted.note, "" if times else "the first call, not repeated"))),
    }
    judged = discipline.judge(case, data, fitted)
    reached = discipline.tol is None or judged["residual"] <= discipline.tol
    return facts | judged | {"status": "DONE" if reached else "NOT REACHED"}


def _timed(entrant: Entrant, case: Case, given: Any) -> tuple[Fitted, float]:
    start = time.process_time()
    fitted = entrant.fit(case, given)
    return fitted, time.process_time() - start


def choose(discipline: Discipline, case: Case, entrant: Entrant) -> dict[str, Any]:
    """Try every way once, none after `TRYING` seconds, and name the best."""
    data = case.data()
    found: list[tuple[bool, float, str]] = []
    begin = time.process_time()
    for name, fit in entrant.ways.items():
        if time.process_time() - begin < TRYING:
            given, way = entrant.prepare(case, data), replace(entrant, fit=fit)
            fitted, spent = _timed(way, case, given)
            if entrant.warms or spent < 1.0:  # the first call has imported or compiled what it needs
                fitted, spent = _timed(way, case, given)
            error = discipline.judge(case, data, fitted)["residual"]
            reached = error <= (discipline.tol or 0.0)
            found.append((not reached, spent if reached else error, name))
    return {"way": min(found)[2]}


def attempt(act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do it; where that fails, return the reason."""
    try:
        return act()
    except DataMissing as missing:
        return {"status": "NO DATA", "note": str(missing)}
    except Cannot as reason:
        return {"status": "CANNOT", "note": str(reason)}
    except MemoryError as trouble:
        return {"status": "OUT OF MEMORY", "note": str(trouble)[:200]}
    except Exception as trouble:  # another library's, so of any kind
        return {"status": "ERROR", "note": f"{type(trouble).__name__}: {trouble}".splitlines()[0][:200]}


def main() -> None:
    """Do what the command line names; leave at once, for one of the libraries aborts when it is taken down."""
    warnings.simplefilter("ignore")
    machine.limit_memory()
    discipline, case, entrant = find(*sys.argv[1:4])
    if "--way" in sys.argv:
        entrant = replace(entrant, fit=entrant.ways[sys.argv[sys.argv.index("--way") + 1]])
    if "--choose" in sys.argv:
        facts = attempt(partial(choose, discipline, case, entrant))
    else:
        facts = attempt(partial(work, discipline, case, entrant, first_only="--first" in sys.argv))
    print("\n" + json.dumps(facts), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
