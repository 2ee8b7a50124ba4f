"""SIGTERM, by which schedulers and containers end a process: a checkpointed fit is written down before it takes effect.

A handler of signals is a matter of the whole process: it is changed only while a checkpointed fit runs, only from the
main thread (no other may), and put back afterwards.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """SIGTERM was received: unwinds the fit, so that what it keeps is written and half-written files are removed."""


@contextmanager
def heeding_sigterm(save: Callable[[], None]) -> Iterator[None]:
    """Run a block; on SIGTERM have it written down, then do what would have been done without.

    That is to end the process with the usual status, by way of `Terminated`; or, where the program has a handler of its
    own, to call `save` and then that handler, after which the block may go on. A signal that is ignored stays ignored.
    """
    previous = signal.getsignal(signal.SIGTERM) if threading.current_thread() is threading.main_thread() else None
    if previous is None or previous is signal.SIG_IGN:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if not callable(previous):
            raise Terminated
        save()
        previous(number, frame)

    def put_back() -> None:
        if signal.getsignal(signal.SIGTERM) is handle:
            signal.signal(signal.SIGTERM, previous)

    try:
        signal.signal(signal.SIGTERM, handle)
    except ValueError:  # in an interpreter within the interpreter
        yield
        return
    try:
        yield
    except Terminated:
        put_back()
        signal.raise_signal(signal.SIGTERM)  # ends the process here, or comes to the handler of a fit around this one
        raise SystemExit(128 + signal.SIGTERM) from None
    finally:
        put_back()
