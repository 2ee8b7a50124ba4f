"""A line on the terminal that tells how far a long fit is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from legendre.solvers.loop import Callback, Step

Say = Callable[[str], None]


@dataclass(frozen=True)
class ProgressLine:
    """Who is told of each step, and how to say anything else."""

    step: Callback | None
    say: Say | None = None


@contextmanager
def progress_line(also: Callback | None) -> Iterator[ProgressLine]:
    """Show step and residual on standard error while the block runs, and before that how much of X has been read."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("reading X", total=None)

        def say(text: str) -> None:
            display.update(task, description=text)

        def show(step: Step) -> bool | None:
            say(f"step {step.iteration}   max|eta - eta_hat| = {step.residual:.2e}")
            return also(step) if also is not None else None

        yield ProgressLine(show, say)
