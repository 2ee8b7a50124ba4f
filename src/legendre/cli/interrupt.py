"""Ctrl-C before the command runs, and while it fits; light, because it is loaded before everything else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells report it


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process instead of raising an error in the middle of other libraries' imports."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or somebody else's
        yield
        return
    try:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    except ValueError:  # not the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclass(eq=False)
class Stop:
    """The callback of a fit that ends it, after the step under way, when the user has pressed Ctrl-C."""

    asked: bool = False
    running: bool = False  # steps are being taken, so that there is something to keep

    def __call__(self, step: object) -> bool:
        """Return whether to stop."""
        del step
        self.running = True
        return self.asked

    def pressed(self, *_: Any) -> None:
        """Stop after this step; at once, where no step was taken yet or the key is pressed again."""
        if self.asked or not self.running:
            raise KeyboardInterrupt
        self.asked = True
        print("legendre: stopping after this step; Ctrl-C again ends at once.", file=sys.stderr)


@contextmanager
def stopping() -> Iterator[Stop]:
    """Let Ctrl-C end a fit so that its result is kept; elsewhere than in the main thread, as usual."""
    stop = Stop()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield stop
        return
    try:
        signal.signal(signal.SIGINT, stop.pressed)
    except ValueError:  # not the main thread, which alone gets signals
        yield stop
        return
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
