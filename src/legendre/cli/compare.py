"""``legendre compare``: a progress bar, a table, a picture, and a CSV file that grows row by row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import typer

from legendre.core.csv_records import append, set_aside
from legendre.core.errors import InvalidFile, InvalidSetting
from legendre.core.types import AnyArray
from legendre.data.sparse_tensor import SparseTensor
from legendre.tasks.compare.peers import ADVICE
from legendre.tasks.compare.plots import draw
from legendre.tasks.compare.rows import LABELS, Job, Row
from legendre.tasks.compare.run import OURS, Comparison
from legendre.tasks.compare.settings import checked_params, checked_peers, checked_seeds

INTERRUPTED = 130

Advance = Callable[[Job], None]


def run_compare(
    X: AnyArray | SparseTensor, name: str, folder: Path, *, params: str | None, seeds: int, peers: bool, support: str
) -> int:
    """Compare on X and return the exit code; rows measured before the user stops the run are kept and shown."""
    comparison = Comparison.of(X, support, problem=name)
    sizes = checked_params(_numbers(params), comparison.data)
    jobs = comparison.jobs(sizes, checked_seeds(seeds), (*OURS, *checked_peers(None if peers else (), support)))
    table = _prepared(folder) / "compare.csv"
    if table.is_file():
        typer.echo(f"the earlier {table} is now {set_aside(table)}", err=True)
    rows: list[Row] = []
    stopped = False
    try:
        with _progress(len(jobs)) as advance:
            for job, some in zip(jobs, comparison.rows(jobs), strict=True):
                for row in some:
                    append(table, row)
                rows += some
                advance(job)
    except KeyboardInterrupt:
        stopped = True
    title = f"{name}, {' x '.join(map(str, comparison.data.shape))}"
    _show(rows, title)
    _picture(rows, folder / "compare.png", title)
    if rows:
        typer.echo(f"rows: {table}")
    if stopped:
        typer.echo(f"legendre: interrupted after {len(rows)} rows; they are kept.", err=True)
    return INTERRUPTED if stopped else 0


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


@contextmanager
def _progress(total: int) -> Iterator[Advance]:
    """Show a bar on standard error if that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as display:
        task = display.add_task("starting", total=total)
        yield lambda job: display.update(task, advance=1, description=f"{LABELS[job.method]}, {job.asked} parameters")


def _show(rows: Sequence[Row], title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for column in ("asked", "params", "seeds", "RMSE", "RMSE, X > 0", "KL(P, Q)", "seconds", "residual"):
        table.add_column(column, justify="right")
    for row, best in _best(rows):
        style = "bold" if row.label.startswith("Legendre") else "dim" if not row.scored else ""
        table.add_row(*_cells(row, best), style=style)
    console = Console(highlight=False)
    console.width = max(console.width, 110)  # do not fold lines in a pipe
    console.print(table)
    for remark in dict.fromkeys(f"{row.label}: {row.note}" for row in rows if not row.scored):
        console.print(remark, soft_wrap=True, markup=False)
    if any(row.seed is not None for row in rows):
        console.print(
            "Of several seeds the row shows the best RMSE and the best KL, and the mean time; the file has all."
        )


def _best(rows: Sequence[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Group the rows of one method and size over its seeds."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.asked), []).append(row)
    for some in groups.values():
        scored = [row for row in some if row.rmse is not None]
        yield (scored or some)[0], scored


def _cells(row: Row, scored: list[Row]) -> list[str]:
    def least(values: Sequence[float | None], form: str) -> str:
        known = [value for value in values if value is not None]
        return format(min(known), form) if known else ""

    times = [r.seconds for r in scored if r.seconds is not None]
    return [
        row.label,
        str(row.asked) if row.asked else "",
        str(row.n_params) if row.n_params is not None else row.status.lower(),
        str(len(scored)) if row.seed is not None else "",
        least([r.rmse for r in scored], ".4g"),
        least([r.rmse_nonzero for r in scored], ".4g"),
        least([r.kl for r in scored], ".5f"),
        f"{sum(times) / len(times):.3g}" if times else "",
        f"{row.residual:.0e}" if row.residual is not None else "",
    ]


def _picture(rows: Sequence[Row], path: Path, title: str) -> None:
    if find_spec("matplotlib") is None:
        typer.echo(f"no picture: matplotlib is not installed. Install it with: {ADVICE}")
    elif any(row.scored for row in rows):
        draw(rows, path, title)
        typer.echo(f"picture: {path}")
