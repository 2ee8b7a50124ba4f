"""Work in blocks of moderate size, and errors for what does not fit in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from legendre.core.errors import TooLarge

LOADING = ("failed to map segment", "cannot allocate memory")
"""What the errors say that the loader of shared libraries raises where there is no room left for one."""
BLAS_ROOM = 1 << 27  # bytes that both copies of OpenBLAS, NumPy's and SciPy's, take for themselves when first called
BLOCK = 1 << 22  # cells handled at a time where a whole extra tensor would be a waste


def rows_of(shape: tuple[int, ...], block: int | None = None) -> Iterator[slice]:
    """Cut the first mode into blocks of moderate size."""
    step = max(1, (block or BLOCK) // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def size_name(n: int) -> str:
    """Write a number of cells, a very large one as a power of ten."""
    if n < 10**15:
        return f"{n:,}"
    power = len(str(n)) - 1 if n < 10**4000 else int(math.log10(n))  # Python writes no longer integers
    return f"{n / 10**power:.1f}e{power}"


def check_room(cells: int, size: int, what: str, instead: str) -> None:
    """Refuse what needs more memory than the machine has."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if cells * size > room:
        counted, needed = (f"{n:.3g}" if n < 10**300 else size_name(n) for n in (cells, cells * size // 2**30))
        raise TooLarge(f"{what} of {counted} cells needs {needed} GiB; this machine has {room / 2**30:,.3g}. {instead}")


@contextmanager
def memory_told(what: str) -> Iterator[None]:
    """Say in a sentence of ours where memory ran out: an allocation failed, or a library could not be loaded.

    >>> with memory_told("decompose"):
    ...     raise MemoryError("Unable to allocate 8. GiB")
    Traceback (most recent call last):
        ...
    legendre.core.errors.TooLarge: decompose: memory ran out (Unable to allocate 8. GiB). ...
    """
    try:
        if _limited():
            _load_blas()
        yield
    except TooLarge:
        raise
    except (MemoryError, ImportError, OSError) as problem:
        if not isinstance(problem, MemoryError) and not _no_room_to_load(problem):
            raise
        said = " ".join(str(problem).split("\n")[0].split())
        raise TooLarge(
            f"{what}: memory ran out ({said[:120] or 'an allocation failed'}). Take a smaller tensor or basis, or give "
            "this process more (ulimit -v, the limit of the container)."
        ) from problem


def _no_room_to_load(problem: BaseException | None) -> bool:
    """Whether the loader of shared libraries said so, in this error or in one that led to it."""
    while problem is not None:
        if any(part in str(problem).lower() for part in LOADING):
            return True
        problem = problem.__context__
    return False


def _limited() -> bool:
    """Whether this process may have less memory than the machine (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # not on Windows
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


@cache
def _load_blas() -> None:
    """Have OpenBLAS take its working memory while there is enough; where it finds none, it waits for ever.

    Done once in a process; what fails is tried again.
    """
    import numpy as np
    from scipy.linalg.lapack import dpotrf

    np.empty(BLAS_ROOM, dtype=np.uint8)  # given back at once; a MemoryError where there is not as much
    ones = np.ones((128, 128))
    dpotrf(ones @ ones + 128.0 * np.eye(128))
