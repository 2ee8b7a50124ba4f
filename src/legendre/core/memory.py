"""Work in blocks of moderate size, and early errors for arrays that do not fit in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from legendre.core.errors import TooLarge
from legendre.core.types import Shape


def rows_of(shape: Shape, block: int = 1 << 20) -> Iterator[slice]:
    """Cut the first mode into slices of about `block` cells, so that work on one needs little memory besides X.

    The default was the fastest of blocks of 2^18 to 2^22 cells.
    """
    step = max(1, block // max(1, math.prod(shape[1:])))
    for start in range(0, shape[0], step):
        yield slice(start, min(start + step, shape[0]))


def size_name(n: int) -> str:
    """Write a number of cells: with commas, from 10^15 on as 1.2e34. It may be larger than any float."""
    if n < 10**15:
        return f"{n:,}"
    power = int(math.log10(n))
    return f"{n / 10**power:.1f}e{power}"


def check_room(cells: int, size: int, what: str, instead: str) -> None:
    """Raise `TooLarge` if arrays need more memory than the machine has free, before they are allocated.

    Without this the system might kill the process, or start to swap.

    Parameters
    ----------
    cells, size
        The number of cells, and the bytes that are held for each at the same time.
    what, instead
        The name of the array, e.g. "a merged grid"; and a sentence that tells the user what to ask for instead.
    """
    if cells * size <= 1 << 26:  # 64 MiB are always there: asking would take longer than small work itself
        return
    room = free_memory()
    if cells * size > room:
        # beyond 1e300 integers do not fit a float
        counted = f"{cells:.3g}" if cells < 10**300 else size_name(cells)
        needed = f"{cells * size / 2**30:.3g}" if cells < 10**300 else size_name(cells * size // 2**30)
        raise TooLarge(f"{what} of {counted} cells needs {needed} GiB; {room / 2**30:,.3g} GiB are free. {instead}")


def free_memory() -> float:
    """Return how many bytes of memory are available; without psutil, how many there are in all.

    If the system tells neither, the answer is infinite.
    """
    try:
        from psutil import virtual_memory
    except ImportError:
        try:
            return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):  # not on Windows
            return math.inf
    return float(virtual_memory().available)
