"""Work in blocks of moderate size, and errors for what does not fit in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from legendre.core.errors import TooLarge

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
