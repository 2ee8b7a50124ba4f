"""Work in blocks of moderate size, and errors for what does not fit in memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from legendre.core.errors import TooLarge

LOADING = ("failed to map segment", "cannot allocate memory")
"""What the errors say that the loader of shared libraries raises where there is no room left for one."""
BLAS_ROOM = 1 << 27  # bytes that both copies of OpenBLAS, NumPy's and SciPy's, take for themselves when first called
LEAST_ROOM = 1 << 23  # bytes (8 MiB) below which nothing is begun: a stack that cannot grow ends the process
BLOCK = 1 << 20  # cells handled at a time where a whole extra tensor would be a waste (of 2^18 to 2^22 the fastest)
NO_QUESTION = 1 << 26  # bytes (64 MiB) that are taken without looking at how many are free
CGROUPS = Path("/sys/fs/cgroup")


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
    """Refuse what needs more memory than this process can get, before it is asked for.

    Parameters
    ----------
    cells, size
        How many cells, and the bytes that are held for each at the same time.
    what, instead
        What they are of, e.g. "a merged grid"; and a sentence that says what to ask for in its place.
    """
    if cells * size <= NO_QUESTION:
        return
    room = free_memory()
    if cells * size > room:
        counted = f"{cells:.3g}" if cells < 10**300 else size_name(cells)
        needed = f"{cells * size / 2**30:.3g}" if cells < 10**300 else size_name(cells * size // 2**30)
        raise TooLarge(
            f"{what} of {counted} cells needs {needed} GiB; {room / 2**30:,.3g} GiB are free here. {instead}"
        )


def free_memory() -> float:
    """Return how many bytes this process can still get; infinite where the system does not tell.

    The least of what the machine has free, what the container's limit (cgroup) leaves, and what the limit of this
    process's addresses (RLIMIT_AS) leaves.
    """
    return max(0.0, min(_of_the_machine(), _of_the_container(), _of_the_process()))


def _of_the_machine() -> float:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def _of_the_container() -> float:
    """Read the limits of the control groups that this process is in, of version 2 or 1; cached files count as free."""
    least = math.inf
    for line in _lines("/proc/self/cgroup"):
        _, names, path = line.strip().split(":", 2)
        if names == "":
            root, files = CGROUPS, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in names.split(","):
            root, files = CGROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = root / path.lstrip("/")
        # in a container the path may be the host's: what is mounted at the root is then its own group
        for place in {root, group, *(p for p in group.parents if root in p.parents)}:
            limit, used = (_number(place / name) for name in files[:2])
            if limit is not None and used is not None:
                stat = (part.split() for part in _lines(str(place / "memory.stat")))
                cached = next((int(value) for name, value in stat if name == files[2]), 0)
                least = min(least, limit - used + cached)
    return least


def _of_the_process() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return math.inf
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = next(iter(_lines("/proc/self/statm")), "0").split()[0]
    return math.inf if limit == resource.RLIM_INFINITY else float(limit - int(used) * resource.getpagesize())


def _number(path: Path) -> int | None:
    """Read the number in a file; ``None`` if there is none, as where no limit is set."""
    text = next(iter(_lines(str(path))), "").strip()
    return int(text) if text.isdigit() else None


def _lines(path: str) -> list[str]:
    try:
        with Path(path).open(encoding="ascii", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []


@contextmanager
def memory_told(what: str, *, computes: bool = True) -> Iterator[None]:
    """Say in a sentence of ours where memory ran out: an allocation failed, or a library could not be loaded.

    Parameters
    ----------
    what
        What was asked for, as the user wrote it.
    computes
        Whether linear algebra follows, for which OpenBLAS then takes its memory first.

    >>> with memory_told("decompose"):
    ...     raise MemoryError("Unable to allocate 8. GiB")
    Traceback (most recent call last):
        ...
    legendre.core.errors.TooLarge: decompose: memory ran out (Unable to allocate 8. GiB). ...
    """
    try:
        if computes and _limited():
            _load_blas()
            if (room := _of_the_process()) < LEAST_ROOM:
                raise MemoryError(f"{room / 2**20:.1f} MiB are left to this process")
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
