"""Says that kernels are being compiled, which takes seconds on first use and nothing later."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from time import monotonic
from typing import Any

from numba.core import event

from legendre.core import progress

COMPILING = "compiling: some seconds, on first use only"


class CompileNotice(event.Listener):  # type: ignore[misc]  # numba has no types
    """Listens to the compiler, which compiles one function at a time, and with it those that it calls.

    The text goes on the line that is being shown. Where none is, and standard error is a terminal, a line of its own
    appears once kernels have been compiled for as long as any work may take without one.
    """

    def __init__(self) -> None:
        self._depth, self._begun, self._spent = 0, 0.0, 0.0
        self._line = ExitStack()

    def on_start(self, event: Any) -> None:
        """Begin to show the text with the first of our functions."""
        self._depth += 1
        if self._depth > 1 or not event.data["dispatcher"].py_func.__module__.startswith("legendre."):
            return
        self._begun = monotonic()
        if (say := progress.shown_line()) is not None:
            say(COMPILING)
        elif sys.stderr.isatty():
            self._line.enter_context(progress.line(COMPILING, after=max(0.0, progress.AFTER - self._spent)))

    def on_end(self, event: Any) -> None:
        """Stop to show it with the last."""
        del event
        self._depth -= 1
        if self._depth == 0 and self._begun:
            self._spent += monotonic() - self._begun
            self._begun = 0.0
            self._line.close()
