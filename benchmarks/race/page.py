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
COLUMNS = ("problem", "method", "params", "status", "steps", "residual", "RMSE", "KL", "seconds", "/ legendre",
           "first call", "peak MB")  # fmt: skip

INTRODUCTION = f"""\
# The race

The package compared with the strongest libraries for each of its tasks, each with its best settings. Written
by `make race` from the rows in `benchmarks/results/race.csv`; do not edit. It takes about twenty minutes on two
quiet cores, and continues where it was interrupted. Every row is a process of its own with one thread for everybody
and at most {LIMIT} s of processor time; times are processor time, which a busy machine disturbs less than the clock.
Cases in which others do better come first.
"""

READING = """\
## How to read the numbers

- *seconds*: the time of a call in a process that has made one before, the fastest of up to seven. */ legendre*: that
  time divided by the package's on the same problem.
- *first call*: import and first call in a fresh process. Code that an earlier process compiled is on disk. JAX
  compiles in every process. [The first fit](first_use.md) has more on first use.
- *residual*, *RMSE* and *KL* are computed here from what each library fitted, never its own report.
- *peak MB*: peak resident memory beyond what the process held when the data were made; the library itself, with its
  compiled code, is part of it.
- NOT REACHED: it ended above the tolerance. TIME LIMIT, SKIPPED (a smaller problem took too long), CANNOT (the library
  cannot do this), NOT INSTALLED, NO DATA, ERROR: the reason is given beside it.
- pygenten's `gcp_opt` with the Poisson loss ended at its first step from every start that was tried, so its stochastic
  solver is used.
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
    here = [row for row in rows if row.discipline == discipline.name]
    mine = {row.problem: row for row in here if row.method == OURS and row.counts}
    lines = []
    for case in discipline.cases:
        found = {row.method: row for row in here if row.problem == case.name}
        lines += [_cells(found[e.name], mine.get(case.name)) for e in discipline.entrants if e.name in found]
    return [f"## {discipline.title}", discipline.rules, _filled(lines) if lines else "No rows yet."]


def _filled(lines: list[list[str]]) -> str:
    """Write a table without the columns that are empty in every line."""
    kept = [k for k in range(len(COLUMNS)) if any(line[k] for line in lines)]
    return markdown([COLUMNS[k] for k in kept], [[line[k] for k in kept] for line in lines])


def _cells(row: Row, ours: Row | None) -> list[str]:
    ratio = row.seconds / ours.seconds if ours and row is not ours and row.seconds and ours.seconds else None
    missing = row.seconds is None and row.note
    return [
        row.problem,
        row.method + (f" ({row.setting})" if row.setting and not row.ours else ""),
        "" if row.params is None else f"{row.params:,}",
        f"{row.status}: {row.note}" if missing else row.status,
        "" if row.steps is None else f"{row.steps:,}",
        number(row.residual, ".0e"),
        number(row.rmse),
        number(row.kl),
        number(row.seconds),
        number(ratio),
        number(row.first_seconds),
        number(row.peak_mb),
    ]
