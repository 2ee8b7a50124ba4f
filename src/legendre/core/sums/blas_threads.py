"""How many threads LAPACK uses: the same number for the same matrix, whatever other threads of the process do.

The last bits of a factor depend on the number, and BLAS libraries have one for the whole process. So those who need one
thread may work side by side, and those who need all of them too, but not the ones beside the others; the number is
changed when the first enters and put back when the last leaves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Condition, get_ident
from typing import TYPE_CHECKING, Any

from legendre.core import limits

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


@contextmanager
def few_threads(size: int, least: int = limits.NO_BLAS_THREADS) -> Iterator[None]:
    """Let one thread factorise a matrix of `size` rows, all of them a large one; below `least` rows one does anyway."""
    if size < least:
        yield
        return
    with _gate(os.getpid()).inside(one=size < limits.ONE_BLAS_THREAD):
        yield


class Gate:
    """Lets in whoever needs the number of BLAS threads that those inside have; the others wait for their turn."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside: dict[bool, set[int]] = {True: set(), False: set()}  # Python threads: with one, with all
        self._waiting = {True: 0, False: 0}
        self._limit: Any = None  # puts the number of BLAS threads back

    @contextmanager
    def inside(self, *, one: bool) -> Iterator[None]:
        """Work with one BLAS thread, or with as many as the process has."""
        with self._changed:
            self._leave()  # an interrupt between two lines may have kept this thread inside
            self._enter(one)
        try:
            yield
        finally:
            with self._changed:
                self._leave()

    def _enter(self, one: bool) -> None:
        """Wait while somebody works with the other number, or waits for it while others work: each has its turn."""
        self._waiting[one] += 1
        try:
            self._changed.wait_for(
                lambda: not self._inside[not one] and not (self._waiting[not one] and self._inside[one])
            )
        finally:
            self._waiting[one] -= 1
        if one and not self._inside[one]:
            self._limit = _controller().limit(limits=1, user_api="blas")
        self._inside[one].add(get_ident())

    def _leave(self) -> None:
        for threads in self._inside.values():
            threads.discard(get_ident())
        if self._limit is not None and not self._inside[True]:
            self._limit.restore_original_limits()
            self._limit = None
        self._changed.notify_all()


@cache
def _gate(process: int) -> Gate:  # noqa: ARG001
    """Return the gate of a process: a forked child would inherit one with threads inside that it does not have."""
    return Gate()


@cache
def _controller() -> ThreadpoolController:
    # finding the loaded libraries takes milliseconds, so it is done once
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
