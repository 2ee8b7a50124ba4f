"""The same numbers for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .claims import Verdict
from .results import LABELS
from .rows import Check, Row

ROW_COLUMNS = ("problem", "|B|", "status", "steps", "residual", "seconds", "/ sum", "/ dpotrf", "s / step", "extra MB")
PEER_COLUMNS = ("problem", "method", "params", "status", "steps", "seconds", "/ legendre", "RMSE", "KL", "extra MB")
CHECK_COLUMNS = ("check", "problem", "status", "value")
CLAIM_COLUMNS = ("claim", "measured", "residual", "holds")
HOLDS = {True: "yes", False: "NO", None: "-"}

Cells = list[str]


def row_cells(row: Row) -> Cells:
    """Write a row of the package."""
    return [
        row.problem,
        _count(row.params),
        _status(row),
        _count(row.n_iter),
        number(row.residual, ".0e"),
        number(row.seconds),
        number(row.ratio_to_sum),
        number(row.ratio_to_dpotrf),
        number(row.step_seconds),
        number(row.peak_extra_mb),
    ]


def peer_lines(rows: Sequence[Row], ours: Callable[[str], Row | None]) -> list[Cells]:
    """Write rows of several methods; `ours` finds the package's row of a problem, to which times are compared."""
    return [_peer_cells(row, _ratio(row, ours(row.problem))) for row in rows]


def _ratio(row: Row, ours: Row | None) -> float | None:
    """Divide a method's time by the package's, both as the table shows them; empty where one does not count."""
    if row is ours or ours is None or not ours.measured or row.seconds is None or not ours.seconds:
        return None
    return row.seconds / ours.seconds


def _peer_cells(row: Row, ratio: float | None) -> Cells:
    return [
        row.problem,
        LABELS[row.method],
        _count(row.params),
        _status(row),
        _count(row.n_iter),
        number(row.seconds),
        number(ratio),
        number(row.rmse, ".5g"),
        number(row.kl, ".5g"),
        number(row.peak_extra_mb),
    ]


def check_cells(check: Check) -> Cells:
    """Write a check."""
    return [check.check, check.problem, f"{check.status} {check.note}".strip(), number(check.value, ".1e")]


def claim_cells(verdict: Verdict) -> Cells:
    """Write a promise and what became of it."""
    return [verdict.claim, verdict.measured, verdict.residual, HOLDS[verdict.holds]]


def number(value: float | None, form: str = ".3g") -> str:
    """Format a number, None as an empty cell; without an exponent from 1,000 to 10 million."""
    if value is None:
        return ""
    if form == ".3g" and 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return format(value, form)


def show(title: str, columns: Sequence[str], lines: Sequence[Cells]) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for index, name in enumerate(columns):
        words = index == 0 or name in ("method", "status", "problem", "measured")
        table.add_column(name, justify="left" if words else "right", overflow="fold")
    for line in lines:
        bad = "NO" in line[-1:] or any(cell.startswith("FAILED") for cell in line)
        table.add_row(*line, style="red" if bad else "")
    console = Console(highlight=False)
    console.width = max(console.width, 150)  # do not fold lines in a pipe
    console.print(table)


def markdown(columns: Sequence[str], lines: Sequence[Cells]) -> str:
    """Write a table for the page; a vertical bar would end a cell."""
    rows = [list(columns), ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _status(row: Row) -> str:
    busy = " (busy machine)" if row.busy else ""
    return row.status + (f" ({row.note})" if row.note else "") + busy
