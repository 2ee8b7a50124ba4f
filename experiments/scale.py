"""Figure 4c: time against the size of the tensor, each measurement in a process of its own."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.measure import OURS, compile_all, measure
from benchmarks.problems import CELLS_SWEEP
from benchmarks.rows import Row

from .settings import SCALE_SIDES, Level
from .store import Store

METHODS = (OURS, "cp-random", "tucker", "cp-apr")
BUDGET = 1.0
"""Seconds for repeats."""


def run(store: Store[Row], level: Level) -> None:
    """Measure the cubes; the peers up to the largest side that the level allows."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    wanted = [
        (method, problem)
        for problem in CELLS_SWEEP
        for method in METHODS
        if problem.shape[0] in SCALE_SIDES and (method == OURS or problem.shape[0] <= level.peer_side)
    ]
    known = {(row.method, row.problem) for row in store.rows}
    if any(method == OURS and (method, problem.name) not in known for method, problem in wanted):
        compile_all([problem for problem in CELLS_SWEEP if problem.shape[0] == 100])
    for method, problem in wanted:
        if (method, problem.name) not in known:
            row = measure(method, problem, run=stamp, budget=BUDGET, limit=level.scale_seconds)
            store.add(row)
            print(
                f"{problem.name:16} {method:12} {row.status:12} {row.seconds if row.seconds else row.note}", flush=True
            )
