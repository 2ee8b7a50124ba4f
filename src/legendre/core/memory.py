"""Work in blocks of moderate size, and errors for what does not fit in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from legendre.core.errors import TooLarge


def rows_of(shape: tuple[int, ...], block: int = 1 << 20) -> Iterator[slice]:
    """Cut the first mode into slices of about `block` cells, so that work on one needs little memory besides X.

    Of blocks of 2^18 to 2^22 cells the default is the fastest.
    """
    step = max(1, block // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def size_name(n: int) -> str:
    """Write a number of cells, a very large one as a power of ten."""
    if n < 10**15:
        return f"{n:,}"
    power = len(str(n)) - 1 if n < 10**4000 else int(math.log10(n))  # Python writes no longer integers
    return f"{n / 10**power:.1f}e{power}"


def check_room(cells: int, size: int, what: str, instead: str, unasked: int = 1 << 26) -> None:
    """Refuse what needs more memory than the machine has free, before it is asked for.

    Parameters
    ----------
    cells, size
        How many cells, and the bytes that are held for each at the same time.
    what, instead
        What they are of, e.g. "a merged grid"; and a sentence that says what to ask for in its place.
    unasked
        Bytes (64 MiB) that are taken without looking at how many are free.
    """
    if cells * size <= unasked:
        return
    room = free_memory()
    if cells * size > room:
        counted = f"{cells:.3g}" if cells < 10**300 else size_name(cells)
        needed = f"{cells * size / 2**30:.3g}" if cells < 10**300 else size_name(cells * size // 2**30)
        raise TooLarge(f"{what} of {counted} cells needs {needed} GiB; {room / 2**30:,.3g} GiB are free. {instead}")


def free_memory() -> float:
    """Return how many bytes the machine has free, by psutil, or has at all without it; infinite if it does not say."""
    try:
        from psutil import virtual_memory
    except ImportError:
        try:
            return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):  # not on Windows
            return math.inf
    return float(virtual_memory().available)
