"""The newest row of each method and problem, and fits of growth through them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from benchmarks.csv_records import read
from legendre.tasks.compare import PEERS

from .measure import NUMPY, OURS
from .problems import Problem
from .rows import Check, Row, read_rows

AnyRow = TypeVar("AnyRow")
ROWS, PEER_ROWS, CHECKS = "rows.csv", "peers.csv", "checks.csv"
LABELS = {OURS: "legendre", NUMPY: "Algorithm 2 in NumPy"} | {name: peer.label for name, peer in PEERS.items()}


@dataclass(frozen=True)
class Results:
    """What the files hold; of rows for the same thing the last one counts."""

    rows: dict[tuple[str, str], Row]
    checks: list[Check]

    def ours(self, problem: str) -> Row | None:
        """Return the package's row on a problem."""
        return self.rows.get((OURS, problem))

    def of(self, method: str, problem: str) -> Row | None:
        """Return any method's row on a problem."""
        return self.rows.get((method, problem))

    def line(self, method: str, problems: Iterable[Problem]) -> list[Row]:
        """Return a method's rows that count, in the order of the problems."""
        found = (self.rows.get((method, problem.name)) for problem in problems)
        return [row for row in found if row is not None and row.measured]


def load(folder: Path) -> Results:
    """Read the files of a folder."""
    rows = [*read_rows(folder / ROWS), *read_rows(folder / PEER_ROWS)]
    checks = {(check.check, check.problem): check for check in read(folder / CHECKS, Check)}
    rows.sort(key=lambda row: row.status != "SKIPPED")  # a stable sort: a skipped row replaces no other
    return Results({(row.method, row.problem): row for row in rows}, list(checks.values()))


def exponent(
    rows: list[AnyRow], x: Callable[[AnyRow], float | None], y: Callable[[AnyRow], float | None]
) -> float | None:
    """Fit ``y = c x^a`` by least squares in the logarithms and return a.

    None with fewer than three points.
    """
    pairs = [(x(row), y(row)) for row in rows]
    known = [(a, b) for a, b in pairs if a is not None and b is not None and a > 0 and b > 0]
    if len(known) < 3:
        return None
    logarithms = np.log(np.array(known))
    return float(np.polyfit(logarithms[:, 0], logarithms[:, 1], 1)[0])
