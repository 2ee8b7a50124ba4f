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
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from legendre.core import limits
from legendre.core.types import FloatArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController


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
        controller = _controller()
        for library in controller.lib_controllers:
            if hasattr(library, "clear_controlling_thread"):  # else it ignores all threads but the caller's
                library.clear_controlling_thread(force=True)
        with controller.limit(limits=1, user_api="blas"):
            yield


def all_threads() -> AbstractContextManager[object]:
    """Wait until no other thread has changed the number of BLAS threads, and keep it as it is meanwhile."""
    return _turn(os.getpid())


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
