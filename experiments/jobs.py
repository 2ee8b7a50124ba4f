"""Comparisons that can be interrupted, resumed and bounded in time."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType

from .comparison import MASKED, PEERS, Comparison, Row
from .comparison import OURS as COMPARED_OURS
from .settings import UNORDERED, Level
from .store import Store

TIME_LIMIT = "TIME LIMIT"
OURS = (*COMPARED_OURS, UNORDERED)


class OutOfTime(Exception):
    """A fit took longer than it may."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the block after so many seconds of processor time, on systems that have SIGPROF."""
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def ring(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@dataclass(eq=False)
class Runner:
    """Runs jobs that the store does not have yet."""

    store: Store[Row]
    level: Level

    def run(self, comparison: Comparison, params: Sequence[int], methods: Sequence[str]) -> None:
        """Run all methods at all sizes."""
        for method in methods:
            for job in comparison.jobs(params, self.level.seeds.get(method, 1), (method,)):
                if not self._known(comparison, job):
                    for row in self._same_rank(comparison, job) or self._rows(comparison, job):
                        self.store.add(row)
                        say(row)

    def _known(self, comparison: Comparison, job: Row) -> bool:
        """Return True if the store has the row; one of a package that was not installed is tried again."""
        rows = self._rows_of(comparison, job.method, job.seed, job.asked)
        return any(row.status != "NOT INSTALLED" for row in rows)

    def _rows_of(self, comparison: Comparison, method: str, seed: int | None, asked: int | None = None) -> list[Row]:
        key = (comparison.problem, comparison.support, seed)
        return [
            row
            for row in self.store.rows
            if (row.problem, row.support, row.seed) == key
            and row.method.removesuffix(MASKED) == method
            and asked in (None, row.asked)
        ]

    def _same_rank(self, comparison: Comparison, job: Row) -> list[Row]:
        """Return the rows of another number of parameters that led to the same rank, and so to the same fit."""
        if job.method in OURS or not job.asked:
            return []
        shape, rank = comparison.data.shape, PEERS[job.method].rank
        same = [
            row
            for row in self._rows_of(comparison, job.method, job.seed)
            if row.asked and rank(shape, row.asked) == rank(shape, job.asked)
        ]
        return [replace(row, asked=job.asked) for row in same if row.asked == same[0].asked]

    def _rows(self, comparison: Comparison, job: Row) -> tuple[Row, ...]:
        if job.method not in OURS:
            return replace(comparison, effort=self.level.efforts[job.method]).run(job)
        late = Row(job.method, job.asked, None, TIME_LIMIT, problem=comparison.problem, support=comparison.support)
        if any(
            row.status == TIME_LIMIT and row.asked < job.asked for row in self._rows_of(comparison, job.method, None)
        ):
            return (replace(late, note="a smaller one took too long"),)
        try:
            with at_most(2 * self.level.fit_seconds):  # it may run twice
                return comparison.run(job)
        except OutOfTime:
            return (replace(late, note=f"more than {self.level.fit_seconds:.0f} s"),)


def say(row: Row) -> None:
    """Print a line about a row."""
    seed = "" if row.seed is None else f" seed {row.seed}"
    numbers = f"RMSE {row.rmse:.4g}  KL {row.kl:.5f}" if row.rmse is not None and row.kl is not None else row.note
    seconds = "" if row.seconds is None else f"{row.seconds:.3g} s"
    print(f"{row.problem:9} {row.support:8} {row.method + seed:28} {row.asked:6} {row.status:12} {numbers} {seconds}")
