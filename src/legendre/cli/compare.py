"""``legendre compare``: a progress bar, a table, a picture, and a CSV file that grows row by row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import typer

from legendre.cli.interrupt import INTERRUPTED
from legendre.core.csv_records import append, set_aside
from legendre.core.errors import InvalidFile, InvalidSetting
from legendre.core.progress import line
from legendre.core.types import AnyArray
from legendre.data.sparse_tensor import SparseTensor
from legendre.tasks.compare.peers import ADVICE
from legendre.tasks.compare.plots import draw
from legendre.tasks.compare.rows import ADAPTIVE, Row
from legendre.tasks.compare.run import Comparison


def run_compare(
    X: AnyArray | SparseTensor, name: str, folder: Path, *, params: str | None, seeds: int, peers: bool, support: str
) -> int:
    """Compare on X and return the exit code; rows measured before the user stops the run are kept and shown."""
    comparison = Comparison.of(X, support, problem=name)
    jobs = comparison.checked_jobs(_numbers(params), seeds, None if peers else ())
    table = _prepared(folder) / "compare.csv"
    if table.is_file():
        typer.echo(f"the earlier {table} is now {set_aside(table)}", err=True)
    rows: list[Row] = []
    code = 0
    try:
        with line("compare", sys.stderr.isatty()) as say:
            for some in comparison.rows(jobs, say):
                for row in some:
                    append(table, row)
                rows += some
    except KeyboardInterrupt:
        code = INTERRUPTED
    title = f"{name}, {' x '.join(map(str, comparison.data.shape))}"
    show(rows, title)
    _picture(rows, folder / "compare.png", title)
    if rows:
        typer.echo(f"rows, of every seed: {table}")
    if code:
        typer.echo(f"legendre: interrupted after {len(rows)} rows; they are kept.", err=True)
    return code


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise InvalidSetting(f"--params {text!r}: give whole numbers with commas between, e.g. 100,300,1000.") from None


def _prepared(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InvalidFile(f"cannot make the folder {folder}: {problem.strerror}.") from None
    return folder


def show(rows: Sequence[Row], title: str) -> None:
    """Print a table with a line for each method and size, and why methods have no reconstruction."""
    from rich.console import Console
    from rich.table import Table

    table = Table("method", title=title, title_justify="left")
    for column in ("asked", "params", "seeds", "RMSE", "RMSE, X > 0", "KL(P, Q)", "seconds", "residual"):
        table.add_column(column, justify="right")
    for same in over_seeds(rows):
        style = "bold" if same[0].label.startswith("Legendre") else "" if same[0].scored else "dim"
        table.add_row(*_line(same), style=style)
    console = Console(highlight=False)
    console.width = max(console.width, 110)  # do not fold lines in a pipe
    console.print(table)
    told = [row for row in rows if not row.scored or (row.method == ADAPTIVE and row.note)]
    for remark in dict.fromkeys(f"{row.label}: {row.note}" for row in told):
        console.print(remark, soft_wrap=True, markup=False)
    if any(row.seed is not None for row in rows):
        console.print("Of several seeds the row shows the best RMSE and the best KL, and the mean time.")


def over_seeds(rows: Sequence[Row]) -> list[list[Row]]:
    """Group the rows of each method and size, which differ in their seeds; those with a reconstruction come first."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in sorted(rows, key=lambda row: not row.scored):
        groups.setdefault((row.method, row.asked), []).append(row)
    return [groups[key] for key in dict.fromkeys((row.method, row.asked) for row in rows)]


def _line(same: list[Row]) -> list[str]:
    row, scored = same[0], [row for row in same if row.scored]

    def least(name: str, form: str) -> str:
        return format(min(getattr(row, name) for row in scored), form) if scored else ""

    return [
        row.label,
        str(row.asked) if row.asked else "",
        str(row.n_params) if row.n_params is not None else row.status.lower(),
        str(len(scored)) if row.seed is not None else "",
        least("rmse", ".4g"),
        least("rmse_nonzero", ".4g"),
        least("kl", ".5f"),
        f"{sum(row.seconds or 0.0 for row in scored) / len(scored):.3g}" if scored else "",
        f"{row.residual:.0e}" if row.residual is not None else "",
    ]


def _picture(rows: Sequence[Row], path: Path, title: str) -> None:
    if find_spec("matplotlib") is None:
        typer.echo(f"no picture: matplotlib is not installed. Install it with: {ADVICE}")
    elif any(row.scored for row in rows):
        draw(rows, path, title)
        typer.echo(f"picture: {path}")
