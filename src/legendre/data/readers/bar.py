"""A bar on the terminal that tells how much of a file has been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bytes_bar(text: str, total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function that takes the number of bytes read so far."""
    if not wanted:
        yield lambda done: None  # noqa: ARG005 - nothing to show
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task(text, total=total)
        yield lambda done: display.update(task, completed=done)
