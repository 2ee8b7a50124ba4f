"""What is shown while a fit runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from legendre.core.progress import Say, line
from legendre.solvers.loop import Callback, Step


@contextmanager
def shown(callback: Callback | None) -> Iterator[tuple[Callback | None, Say | None]]:
    """Show on standard error how much of X has been read, then step and residual, while the block runs.

    The block gets the function to call after each step, and one that shows any text.
    """
    with line("reading X") as say:

        def show(step: Step) -> bool | None:
            say(f"step {step.iteration}   max|eta - eta_hat| = {step.residual:.2e}")
            return None if callback is None else callback(step)

        yield show, say


def seen_unasked(progress: bool | None) -> bool:
    """Whether to show progress of work that the caller did not ask for: what he says, or else on a terminal."""
    return sys.stderr.isatty() if progress is None else bool(progress)
