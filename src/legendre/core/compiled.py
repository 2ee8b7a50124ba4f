"""How functions are compiled by numba, and how compiled functions (kernels) run in several threads.

Importing this module loads the compiler, so only modules of compiled functions import it. Kernels avoid what makes the
compiler slow: ``parallel=True`` (three times as long; this module starts threads instead), assignments of an array to a
slice (two seconds, for the text of an error that cannot occur), and wrappers of functions that Python never calls.

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
    """Compile a function when it is first called, and keep the machine code on disk if possible.

    It releases Python's global lock, so that several threads can run it at the same time. As in NumPy, division by 0
    gives infinity or NaN, not an error.
    """
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT nothing is compiled
        with suppress(RuntimeError):  # "no locator available": no folder can be written to
            dispatcher._cache = _Cache(function)
    return dispatcher


def inner(function: Callable[..., Any] | None = None, *, fastmath: set[str] | None = None) -> Any:
    """Compile a function that only compiled functions call, so that it needs no wrapper and no cache of its own.

    `fastmath` lists rules of floating-point arithmetic that LLVM may break, e.g. to add numbers in another order. It is
    used as ``@inner`` or ``@inner(fastmath={...})``.
    """
    if function is None:
        return partial(inner, fastmath=fastmath)
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(error_model="numpy", fastmath=fastmath or False, **options)(function)


class ParallelKernel:
    """A compiled function ``f(first, last, ...)`` that does tasks first, ..., last - 1 of a piece of work.

    No task reads what another one writes, so the answer has the same bits however the tasks are divided.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Compile a function when it is first called; this class is used as a decorator."""
        self._run = compiled(function)
        self.__doc__ = function.__doc__

    def __call__(self, work: float, tasks: int, *args: Any) -> None:
        """Do tasks 0, ..., tasks - 1 with the further arguments `args`; `work` is as in `in_threads`."""
        in_threads(work, tasks, lambda first, last: self._run(first, last, *args))


def in_threads(work: float, tasks: int, run: Callable[[int, int], object], stretches: int = 4) -> None:
    """Call ``run(first, last)`` for consecutive stretches of tasks until tasks 0, ..., tasks - 1 are done.

    `work` is about how many cells all tasks visit; threads are started if it is large enough to pay for them. There
    are several `stretches` for each thread, so that a thread that is slower than the others does fewer.
    """
    threads = min(available_threads(), tasks) if work >= limits.ONE_THREAD else 1
    if threads <= 1:
        run(0, tasks)
        return
    n_cuts = min(tasks, stretches * threads)
    cuts = [tasks * cut // n_cuts for cut in range(n_cuts + 1)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(run, cuts[:-1], cuts[1:]):
            pass  # asking for its result raises the error of a thread


def available_threads() -> int:
    """Return numba's number of threads, without starting numba's own threads."""
    try:
        threading_layer()  # raises an error if they have not been started; `get_num_threads` would start them
        return int(get_num_threads())
    except ValueError:  # then nobody has changed their number either
        return int(config.NUMBA_NUM_THREADS)


class _Cache(FunctionCache):  # type: ignore[misc]  # numba has no types
    """Machine code on disk: an error with a file is ignored, and only costs the time to compile again."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Read the machine code for some argument types; ``None`` if the file is damaged or cannot be read."""
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the machine code for some argument types, unless that fails: the disk is full, or access is denied."""
        with suppress(Exception):
            super().save_overload(sig, data)
