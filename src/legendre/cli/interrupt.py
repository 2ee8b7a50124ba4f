"""Ctrl-C before the command runs; light, because it is loaded before everything else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

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
