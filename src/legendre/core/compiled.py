"""How functions are compiled (numba), and which of them run in several threads: decided here, for every kernel.

Importing this module loads the compiler, so only modules of compiled functions do. What makes the compiler slow is left
out: ``parallel=True`` (three times as long; threads are started here instead), assignments of an array to a slice
(two seconds, for the text of an error that cannot occur), and wrappers of functions that Python never calls.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import pairwise
from typing import Any

from numba import config, get_num_threads, njit, threading_layer
from numba.core import event
from numba.core.caching import FunctionCache

from legendre.core import limits
from legendre.core.compile_notice import CompileNotice
from legendre.core.threads import most_threads

event.register("numba:compile", CompileNotice())

STRETCHES = 4  # for each thread, so that one that is slower than the others does less


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called; keep the machine code on disk if possible.

    Other threads of Python go on while it runs.
    """
    return _kept(function, njit(nogil=True, error_model="numpy")(function))


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


def in_threads(work: float, tasks: int, run: Callable[[int, int], object]) -> None:
    """Call ``run(first, last)`` until tasks 0, ..., tasks - 1 are done, in threads if `work` visits of cells pay.

    Large work of the main thread is not waited for after Ctrl-C, which Python answers only between two of its own
    lines: what has begun goes on to its end, or until the process ends, and what it writes nobody reads.
    """
    threads = min(available_threads(), tasks) if work >= limits.ONE_THREAD else 1
    left_alone = work >= limits.CTRL_C and threading.current_thread() is threading.main_thread()
    if threads <= 1 and not left_alone:
        run(0, tasks)
        return
    cuts = min(tasks, STRETCHES * threads)
    todo = deque(pairwise(tasks * cut // cuts for cut in range(cuts + 1)))
    try:
        begun = [_begin(todo, run) for _ in range(threads if left_alone else threads - 1)]
        if not left_alone:
            _work_off(todo, run)
        for one in begun:
            one.result()
    finally:
        todo.clear()  # after an error or Ctrl-C nothing more is begun


def _begin(todo: deque[tuple[int, int]], run: Callable[[int, int], object]) -> Future[None]:
    """Work stretches off in a thread of its own, which the end of the process does not wait for."""
    outcome, context = Future[None](), copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(_work_off, todo, run))
        except BaseException as problem:
            outcome.set_exception(problem)

    threading.Thread(target=work, name="legendre", daemon=True).start()
    return outcome


def _work_off(todo: deque[tuple[int, int]], run: Callable[[int, int], object]) -> None:
    """Do stretches of tasks until none is left."""
    while True:
        try:
            first, last = todo.popleft()
        except IndexError:
            return
        run(first, last)


def available_threads() -> int:
    """Return numba's number of threads, or what the caller allows (`threads`) if that is less.

    NUMBA_NUM_THREADS or `numba.set_num_threads` set numba's number, else it is that of cores.
    """
    try:
        threading_layer()
        found = int(get_num_threads())
    except ValueError:  # numba's own threads were never started, nor their number changed: leave it so
        found = int(config.NUMBA_NUM_THREADS)
    most = most_threads()
    return found if most is None else min(found, most)


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


def _kept(function: Callable[..., Any], dispatcher: Any) -> Any:
    """Give compiled code a cache on disk, or none where nothing can be written: read-only installations."""
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT nothing is compiled
        with suppress(RuntimeError):  # "no locator available"
            dispatcher._cache = _Cache(function)
    return dispatcher
