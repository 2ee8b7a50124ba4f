"""What is shown while a fit runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from legendre.core.progress import Say, line
from legendre.solvers.loop import Callback, Step


@contextmanager
def shown(callback: Callback | None, progress: bool) -> Iterator[tuple[Callback | None, Say | None]]:
    """Show on standard error how much of X has been read, then step and residual, while the block runs.

    The block gets the function to call after each step, and one that shows any text; ``None`` where nothing is shown.
    """
    if not progress:
        yield callback, None
        return
    with line("reading X") as say:

        def show(step: Step) -> bool | None:
            say(f"step {step.iteration}   max|eta - eta_hat| = {step.residual:.2e}")
            return None if callback is None else callback(step)

        yield show, say


def seen(progress: bool | None, unasked: bool) -> bool:
    """Whether to show progress: what the caller says; else, for work that he did not ask for, on a terminal."""
    return bool(progress) if progress is not None else unasked and sys.stderr.isatty()
