"""How many threads BLAS and LAPACK use: the same number for the same sum, whatever other threads of the process do.

The last bits of a product or a factor depend on that number, and a BLAS library has one for the whole process. So fits
in several threads take turns: while one has changed the number, no other starts a product whose bits would follow, and
whoever changed it puts it back before the next. (Limits that overlap are put back in the wrong order; threadpoolctl
ignores those of a second thread, also where the first only waits for it inside a limit of its own.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.threads import most_threads
from legendre.core.types import FloatArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_HELD: ContextVar[int | None] = ContextVar("legendre_blas_threads", default=None)
"""The number of BLAS threads that a section around the present one has set, in this thread."""


@contextmanager
def few_threads(size: int, least: int = limits.NO_BLAS_THREADS) -> Iterator[None]:
    """Let one thread factorise a matrix of `size` rows, all of them a large one; below `least` rows one does anyway."""
    if size < least:
        yield
        return
    with all_threads():
        if size >= limits.ONE_BLAS_THREAD:
            yield
            return
        with _limited(1):
            yield


def one_thread() -> AbstractContextManager[None]:
    """Let one thread do all linear algebra: of matrices that are small, or read from memory more than computed with."""
    return few_threads(0, least=0)


def product_threads(rows: int, inner: int, columns: int) -> AbstractContextManager[object]:
    """Let one thread multiply matrices of these sizes, all of them large ones; tiny products never start any."""
    work = rows * inner * columns
    return one_thread() if limits.TINY_PRODUCT <= work < limits.LARGE_PRODUCT else all_threads()


def all_threads() -> AbstractContextManager[object]:
    """Wait until no other thread has changed the number of BLAS threads, and keep it as it is meanwhile.

    Where the caller allows fewer (`threads`), so many are used.
    """
    most = most_threads()
    return _turn(os.getpid()) if most is None else _limited(most)


@contextmanager
def _limited(most: int) -> Iterator[None]:
    """Take the turn, and use at most so many threads; inside a section that uses no more nothing need be done."""
    held = _HELD.get()
    if held is not None and held <= most:
        yield
        return
    with _turn(os.getpid()):
        controller = _controller()
        for library in controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):  # else it ignores all threads but the caller's
                library.clear_controlling_thread(force=True)
        blas = [library.num_threads for library in controller.lib_controllers if library.user_api == "blas"]
        token = _HELD.set(most)
        try:
            with controller.limit(limits=min([most, *blas]), user_api="blas"):
                yield
        finally:
            _HELD.reset(token)


def dot(a: FloatArray, b: FloatArray) -> float:
    """Sum the products of two vectors without BLAS, whose last bits depend on threads from 10,000 entries on."""
    return float(np.einsum("i,i->", a, b))


@cache
def _turn(process: int) -> AbstractContextManager[object]:  # noqa: ARG001
    """Return the lock of a process: a forked child would inherit one held by a thread that it does not have."""
    return RLock()


@cache
def _controller() -> ThreadpoolController:
    # finding the loaded libraries takes milliseconds, so it is done once
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
