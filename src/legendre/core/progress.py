"""A line on the terminal while something takes longer than two seconds: what is being done, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Timer
from typing import Protocol


class Say(Protocol):
    """Shows what is being done."""

    def __call__(self, text: str, share: float | None = None, /) -> None:
        """Show a text; with the share of the work that is done, 0 to 1, where that is known, the time left."""


def show_nothing(text: str, share: float | None = None, /) -> None:
    """Show nothing."""


@contextmanager
def line(text: str, wanted: bool = True, *, after: float = 2.0) -> Iterator[Say]:
    """Show a line of text on standard error while the block runs; call what is yielded to change the text.

    The line appears `after` some seconds, so that short work shows nothing. With ``wanted=False`` it never appears, and
    what is yielded does nothing; so it is where rich, of the extra ``cli``, is not installed.

    >>> with line("fitting", wanted=False) as say:
    ...     say("fold 1 of 5", 0.2)
    """
    if not wanted or find_spec("rich") is None:
        yield show_nothing
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn()
    display = Progress(*columns, console=Console(stderr=True), transient=True)
    task = display.add_task(text, total=None)

    def say(text: str, share: float | None = None, /) -> None:
        """Change the text, and the share of the work that is done, from which the time left is estimated."""
        display.update(task, description=text, completed=share, total=None if share is None else 1.0)

    timer = Timer(after, display.start)
    timer.daemon = True  # Python may exit before it is due
    timer.start()
    try:
        yield say
    finally:
        timer.cancel()
        timer.join()  # if it is just starting the display, wait: a display that starts after the stop would stay
        display.stop()
