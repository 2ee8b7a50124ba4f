"""One line on the terminal while something takes longer than two seconds: what is being done, and how far it is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Timer
from time import monotonic
from typing import Protocol

from legendre.core import limits

AFTER = 2.0  # seconds before the line appears: what is done by then needs none


class Say(Protocol):
    """Shows what is being done."""

    def __call__(self, text: str, share: float | None = None, /) -> None:
        """Show a text; with the share of the work that is done, 0 to 1, where that is known, the time left."""


_SHOWN: ContextVar[Say | None] = ContextVar("shown", default=None)


def shown_line() -> Say | None:
    """Return the function that changes the line which the present call shows; ``None`` where it shows none."""
    return _SHOWN.get()


def silent(text: str, share: float | None = None, /) -> None:
    """Show nothing."""


@contextmanager
def line(text: str, wanted: bool = True, *, after: float | None = None) -> Iterator[Say]:
    """Show a text on standard error while the block runs, from the third second on; the block changes it.

    >>> with line("fitting", wanted=False) as say:
    ...     say("fold 1 of 5", 0.2)
    """
    if not wanted:
        yield silent
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn("{task.fields[left]}")
    display = Progress(*columns, console=Console(stderr=True), transient=True)
    task = display.add_task(text, total=None, left="")
    begun = monotonic()

    def say(text: str, share: float | None = None, /) -> None:
        display.update(task, description=text, left=_left(monotonic() - begun, share))

    timer = Timer(AFTER if after is None else after, display.start)
    timer.daemon = True
    timer.start()
    outer = _SHOWN.set(say)
    try:
        yield say
    finally:
        _SHOWN.reset(outer)
        timer.cancel()
        timer.join()
        display.stop()


@contextmanager
def waiting(text: str, cells: int) -> Iterator[None]:
    """Show a text in the same way while a method without settings forms many cells: on a terminal only.

    Within a call that shows a line of its own, that one stays as it is.
    """
    with line(text, cells >= limits.WAITED_FOR and shown_line() is None and sys.stderr.isatty()):
        yield


def _left(seconds: float, share: float | None) -> str:
    """Say how long the rest takes if it takes as long as what is done, in proportion.

    >>> _left(60.0, 0.25), _left(3.0, 0.5), _left(3.0, 0.0), _left(3.0, None)
    ('25 %, 3 min left', '50 %, 3 s left', '', '')
    """
    if not share:
        return ""
    rest = seconds * (1.0 - share) / share
    return f"{100 * share:.0f} %, {rest:.0f} s left" if rest < 100 else f"{100 * share:.0f} %, {rest / 60:.0f} min left"
