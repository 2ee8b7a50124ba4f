"""How functions are compiled (numba), and which of them run in several threads: decided here, for every kernel.

Importing this module loads the compiler, so only modules of compiled functions do. What makes the compiler slow is left
out: ``parallel=True`` (three times as long; this module starts threads instead), assignments of an array to a slice
(two seconds, for the text of an error that cannot occur), and wrappers of functions that Python never calls.

Kernels run in numba's number of threads: NUMBA_NUM_THREADS or `numba.set_num_threads`, else that of cores. BLAS has its
own number, see `legendre.core.sums.linalg.limit_blas`.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numba import config, get_num_threads, njit, threading_layer
from numba.core.caching import FunctionCache

from legendre.core import limits

U = np.uintp  # unsigned offsets: numba then leaves out the wrap-around test, and loops run in vectors


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called; keep the machine code on disk if possible.

    Other threads of Python go on while it runs.
    """
    return _add_cache(function, njit(nogil=True, error_model="numpy")(function))


def inner(function: Callable[..., Any] | None = None, *, fastmath: set[str] | None = None) -> Any:
    """Compile a function that only compiled functions call: it becomes part of theirs."""
    if function is None:
        return partial(inner, fastmath=fastmath)
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(error_model="numpy", fastmath=fastmath or False, **options)(function)


class ParallelKernel:
    """A compiled function ``f(first, last, ...)`` that does tasks first, ..., last - 1 of a piece of work.

    No task reads what another one writes, so the answer has the same bits however the tasks are divided.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._run = compiled(function)
        self.__doc__ = function.__doc__

    def __call__(self, work: float, tasks: int, *args: Any) -> None:
        """Do all tasks, in as many threads as pay for `work` visits of cells."""
        in_threads(work, tasks, lambda first, last: self._run(first, last, *args))


def in_threads(work: float, tasks: int, run: Callable[[int, int], object], stretches: int = 4) -> None:
    """Call ``run(first, last)`` until tasks 0, ..., tasks - 1 are done, in threads if `work` visits of cells pay.

    Each thread has several `stretches` of tasks, so that one that is slower than the others does less.
    """
    threads = min(available_threads(), tasks) if work >= limits.ONE_THREAD else 1
    if threads <= 1:
        run(0, tasks)
        return
    n_cuts = min(tasks, stretches * threads)
    cuts = [tasks * cut // n_cuts for cut in range(n_cuts + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(run, cuts[:-1], cuts[1:]):
            pass  # an error of a thread is raised


def available_threads() -> int:
    """Return numba's number of threads."""
    try:
        threading_layer()
        return int(get_num_threads())
    except ValueError:  # numba's own threads were never started, nor their number changed: leave it so
        return int(config.NUMBA_NUM_THREADS)


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Machine code on disk, where everything that goes wrong with a file only costs the time to compile again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read a version; damaged and unreadable files hold none."""
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a version, unless the disk is full or the folder not ours any more."""
        with suppress(Exception):
            super().save_overload(sig, data)


def _add_cache(function: Callable[..., Any], dispatcher: Any) -> Any:
    """Give compiled code a cache on disk, or none where nothing can be written: read-only installations."""
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT nothing is compiled
        with suppress(RuntimeError):  # "no locator available"
            dispatcher._cache = _Cache(function)
    return dispatcher
