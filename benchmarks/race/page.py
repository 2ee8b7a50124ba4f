"""docs/background/race.md, written from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import older
from benchmarks.problems import ROOT
from benchmarks.rows import BUSY
from benchmarks.tables import markdown, number

from .disciplines import DISCIPLINES, jobs
from .entrants import Discipline
from .losses import losses
from .rows import OURS, Row
from .worker import LIMIT

PAGE = ROOT / "docs" / "background" / "race.md"
COLUMNS = ("problem", OURS, "fastest other", "other with the least KL", "did not get there")

INTRODUCTION = f"""\
# The race

The package compared with the strongest libraries for each of its tasks, each with its best settings. Written
by `make race` from the rows in `benchmarks/results/race.csv`; do not edit. Every row is a process of its own with one
thread and at most {LIMIT} s of processor time, in which times are measured. Cases in which others do better come first.
"""

READING = """\
## How to read the numbers

- Times are those of a call in a process that has made one before, the fastest of up to seven. A *first call* is
  import and first call in a fresh process; JAX compiles in every process. See [the first fit](first_use.md).
- Residuals, RMSE and KL are computed here from what each library fitted, never its own report.
- *peak memory* is what a process holds beyond its data; the library itself is part of it.
- *did not get there*: it ended above the tolerance, or ran out of time or memory. Libraries that cannot do a task are
  not listed. The rows have the reasons, and everybody's steps, parameters and residuals.
"""


def write_page(rows: Sequence[Row], path: Path = PAGE) -> Path:
    """Write the page."""
    path.write_text("\n\n".join(part.strip() for part in parts(rows) if part) + "\n")
    return path


def parts(rows: Sequence[Row]) -> list[str]:
    """List the parts of the page."""
    said = ["the problem", "better in", "legendre", "others", "why, and what was tried"]
    lost = [[loss.problem, loss.kind, loss.ours, loss.ahead, loss.why] for loss in losses(rows)]
    return [
        INTRODUCTION,
        _circumstances(rows),
        "## Where others are ahead",
        _balance(rows),
        markdown(said, _grouped(lost)) if lost else "Nowhere in these rows.",
        *(part for discipline in DISCIPLINES for part in _discipline(discipline, rows)),
        READING,
    ]


def _circumstances(rows: Sequence[Row]) -> str:
    if not rows:
        return "No rows yet."
    versions = sorted({name for row in rows for name in row.versions.split(", ") if name})
    missing = len(jobs()) - len({row.key for row in rows})
    busy = sum((row.other_load or 0.0) > BUSY for row in rows)
    return (
        older(", ".join(versions))
        + f"Measured {rows[0].run[:10]} on {rows[0].machine}, one thread. {', '.join(versions)}."
        + (f" {missing} of {len(jobs())} rows are missing: the run is not finished." if missing else "")
        + (f" Other programs kept the machine busy during {busy} of {len(rows)} rows." if busy else "")
    )


def _balance(rows: Sequence[Row]) -> str:
    """Count who is faster, over all pairs of a row of ours and one of another library that got there."""
    mine = {row.key[:2]: row for row in rows if row.method == OURS and row.counts}
    pairs = [(row, mine[row.key[:2]]) for row in rows if not row.ours and row.counts and row.key[:2] in mine]
    faster = sum((row.seconds or 0.0) < (ours.seconds or 0.0) for row, ours in pairs)
    failed = sum(row.status == "NOT REACHED" for row in rows if not row.ours)
    late = sum(row.status in ("TIME LIMIT", "SKIPPED") for row in rows if not row.ours)
    return (
        f"In {faster} of {len(pairs)} timings another library was faster. {failed} of their rows ended above the "
        f"tolerance, and {late} ran out of time."
    )


def _grouped(lines: list[list[str]]) -> list[list[str]]:
    """Say a reason once, in the first of the lines that it is the reason of."""
    seen: set[str] = set()
    found = []
    for *facts, reason in lines:
        found.append([*facts, "as above" if reason in seen else reason])
        seen.add(reason)
    return found


def _discipline(discipline: Discipline, rows: Sequence[Row]) -> list[str]:
    """Table a discipline, a line for each problem; the rows have every entrant."""
    here = [row for row in rows if row.discipline == discipline.name]
    lines = [_line(found) for case in discipline.cases if (found := [row for row in here if row.problem == case.name])]
    return [f"## {discipline.title}", discipline.rules, _filled(lines) if lines else "No rows yet."]


def _filled(lines: list[list[str]]) -> str:
    """Write a table without the columns that are empty in every line."""
    kept = [k for k in range(len(COLUMNS)) if any(line[k] for line in lines)]
    return markdown([COLUMNS[k] for k in kept], [[line[k] for k in kept] for line in lines])


def _line(rows: Sequence[Row]) -> list[str]:
    """Put the rows of ours beside the fastest and the closest of the others, and those that did not get there."""
    mine, others = [row for row in rows if row.ours], [row for row in rows if not row.ours]
    there = sorted((row for row in others if row.counts), key=lambda row: row.seconds or 0.0)
    close = [row for row in there if row.tol is None and row.kl is not None]
    late = [row.method for row in others if not row.counts and row.status != "CANNOT"]
    return [
        rows[0].problem,
        "; ".join(_said(row) for row in mine),
        _said(there[0]) if there else "",
        _said(min(close, key=lambda row: row.kl or 0.0)) if close else "",
        ", ".join(late),
    ]


def _said(row: Row) -> str:
    """Write the time of a row and, where models differ, its errors."""
    errors = f", KL {number(row.kl)}, RMSE {number(row.rmse)}" if row.tol is None else ""
    return f"{row.method.removeprefix(OURS).strip(', ')} {number(row.seconds)} s{errors}".strip()
