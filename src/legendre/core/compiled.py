"""How functions are compiled (numba), and which of them run in several threads: decided here, for every kernel.

Importing this module loads the compiler, so only modules of compiled functions do.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache, cached_property
from types import FunctionType
from typing import Any

from numba import get_num_threads, njit, set_num_threads
from numba.core.caching import FunctionCache
from numba.np.ufunc.parallel import threading_layer

from legendre.core import limits
from legendre.core.threads import most_threads

LOADED_IN = os.getpid()  # the process that imported this module; a forked child inherits the number
_ONE_AT_A_TIME = threading.Lock()  # a forked child never takes it: it runs every kernel alone


def compiled(*, nogil: bool = False, fastmath: set[str] | None = None) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function when it is first called, for the calling thread; keep the machine code on disk if possible."""
    return lambda function: _compile(function, nogil=nogil, fastmath=fastmath or False)


class ParallelKernel:
    """A function with ``prange`` loops, compiled twice when called: for several threads, and for the calling thread.

    The version for one thread does not enter numba's threading layer at all, because that is what ends a process:
    in a forked child of a process that used GNU OpenMP, and where two threads call the "workqueue" layer. Both
    versions do the same additions in the same order, so the answer has the same bits.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    @cached_property
    def together(self) -> Any:
        """The version for several threads."""
        return _compile(self._function, parallel=True, nogil=True)

    @cached_property
    def alone(self) -> Any:
        """The version for the calling thread, which other threads do not wait for."""
        return _compile(_copied(self._function, "_alone"), nogil=True)

    def __call__(self, work: float, *args: Any) -> Any:
        """Call the function in as many threads as pay for `work` visits of cells, and as are safe."""
        run = self._in_turn if _several_threads(work) else self.alone
        if work < limits.CTRL_C or threading.current_thread() is not threading.main_thread():
            return run(*args)
        return _interruptible(run, *args)

    def _in_turn(self, *args: Any) -> Any:
        before, allowed = get_num_threads(), _allowed()
        if allowed < before:
            set_num_threads(allowed)  # of this thread alone
        try:
            if threading_layer() != "workqueue":
                return self.together(*args)
            with _ONE_AT_A_TIME:  # that layer ends the process if a second thread enters it
                return self.together(*args)
        finally:
            if allowed < before:
                set_num_threads(before)


def _interruptible(run: Callable[..., Any], *args: Any) -> Any:
    """Make a call in a thread of its own and wait for it: Python answers Ctrl-C only between two of its own lines.

    After Ctrl-C the call is left to itself. It goes on until it is done, or until the process ends, which does not wait
    for it; what it writes nobody reads.
    """
    wanted, outcome = _allowed(), Future[Any]()

    def work() -> None:
        set_num_threads(wanted)  # numba's number is one for each thread
        try:
            outcome.set_result(run(*args))
        except BaseException as problem:
            outcome.set_exception(problem)

    threading.Thread(target=work, name="legendre", daemon=True).start()
    return outcome.result()


def _several_threads(work: float) -> bool:
    """Whether a kernel starts threads: it has work for them, and this process is the one that first used them.

    Small work gets one thread also because a pool that still spins when LAPACK's pool starts costs milliseconds.
    """
    return work >= limits.ONE_THREAD and _threads_belong_to() == os.getpid() and _allowed() > 1


def _allowed() -> int:
    """Return numba's number of threads, or what the caller allows, if that is less."""
    most = most_threads()
    return int(get_num_threads()) if most is None else min(int(get_num_threads()), most)


@cache
def _threads_belong_to() -> int:
    """Return the process that launched numba's threads; a forked child inherits the answer, and differs from it.

    If other code launched them before the first call it is the process that imported this module, or unknown (0) in
    a child of `multiprocessing`, which may have inherited them.
    """
    try:
        threading_layer()
    except ValueError:  # not launched yet: the caller is about to
        return os.getpid()
    return LOADED_IN if multiprocessing.parent_process() is None else 0


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


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    """Compile with a cache on disk, or without one where nothing can be written: read-only installations."""
    dispatcher = njit(**options)(function)
    if dispatcher is not function:  # with NUMBA_DISABLE_JIT nothing is compiled
        with suppress(RuntimeError):  # "no locator available"
            dispatcher._cache = _Cache(function)
    return dispatcher


def _copied(function: Callable[..., Any], ending: str) -> Callable[..., Any]:
    """Copy a function under another name: files of the cache are told apart by names, not by options."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__ + ending)
    copy.__qualname__ = function.__qualname__ + ending
    copy.__module__ = function.__module__
    return copy
