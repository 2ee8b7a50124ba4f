"""How many threads the caller allows: one setting for linear algebra (BLAS) and for compiled sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSetting

_MOST: ContextVar[int | None] = ContextVar("legendre_threads", default=None)
most_threads: Callable[[], int | None] = _MOST.get
"""Return how many threads are allowed here; ``None`` where nobody said."""


@contextmanager
def threads(most: int) -> Iterator[None]:
    """Use at most `most` threads for everything that is computed inside the ``with`` block.

    Without it small and memory-bound work runs in one thread, and large factors, products and sweeps in as many as
    the BLAS library and numba have. On a machine that does other things at the same time, one is often the fastest.

    Parameters
    ----------
    most
        An integer >= 1. Blocks may be nested; the smallest number counts.

    See Also
    --------
    decompose : Fit X by a model with some basis.

    Notes
    -----
    The setting belongs to the thread (or the asynchronous task) that enters the block, and ends with it: calls of other
    threads are as before. Schedulers of dask have settings of their own. The answer does not depend on it, but for the
    last bits of large factors.

    Examples
    --------
    >>> import legendre as ld
    >>> with ld.threads(1):
    ...     fit = ld.decompose([[1, 2], [3, 4]], "B1")
    >>> fit.converged
    True
    """
    if not is_whole(most, 1):
        raise InvalidSetting(f"threads must be an integer >= 1, got {most!r}.")
    outer = _MOST.get()
    token = _MOST.set(int(most) if outer is None else min(int(most), outer))
    try:
        yield
    finally:
        _MOST.reset(token)
