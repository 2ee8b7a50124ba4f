"""Memory, threads, versions and load of this machine, and the time of one factorisation by LAPACK."""

from __future__ import annotations

import os
import platform
import re
import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from scipy.linalg import lapack

PACKAGES = ("legendre", "numpy", "scipy", "numba", "tensorly", "pyttb", "mlxtend")


def resident_bytes() -> int:
    """Return the resident memory of this process; on systems without /proc the peak so far."""
    return _status_bytes("VmRSS")


def peak_bytes() -> int:
    """Return the peak of the resident memory since `reset_peak`; on systems without /proc since the start."""
    return _status_bytes("VmHWM")


def reset_peak() -> None:
    """Forget the peak so far, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def spent_seconds(process: int) -> float:
    """Return the processor time of another process so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def limit_memory(share: float = 0.85) -> None:
    """Make a request for more than this share of the machine's memory fail, rather than take the machine down."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (int(share * total), resource.RLIM_INFINITY))


class Elsewhere:
    """How many cores other programs keep busy between the making of this object and a call of `cores`."""

    def __init__(self) -> None:
        self._wall, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def cores(self) -> float | None:
        """Return the mean number of cores, None on systems without /proc."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return None
        others = (busy - self._busy) - (_own_seconds() - self._own)
        return max(others, 0.0) / (time.perf_counter() - self._wall)


def best_of(work: Callable[[], object], repeats: int) -> float:
    """Return the shortest time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def dpotrf_seconds(n: int, budget: float, repeats: int = 3) -> float:
    """Time LAPACK's Cholesky factorisation of an n x n matrix, in place; no repeat once the budget is spent."""
    A = np.empty((n, n), order="F")
    times: list[float] = []
    while len(times) < repeats and sum(times) <= budget:
        A[:] = 0.5
        np.fill_diagonal(A, n)
        start = time.perf_counter()
        _, info = lapack.dpotrf(A, lower=1, overwrite_a=1, clean=0)
        times.append(time.perf_counter() - start)
        assert info == 0
    return min(times)


def threads() -> str:
    """Say how many threads numba and the linear algebra may use."""
    import numba
    from threadpoolctl import threadpool_info

    pools = {f"{pool['internal_api']} {pool['num_threads']}" for pool in threadpool_info()}
    return ", ".join(sorted({f"numba {numba.get_num_threads()}"} | pools))


def machine() -> str:
    """Name the processor and the number of its cores that may be used."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{_processor()}, {cores} cores"


def versions(*names: str) -> str:
    """List the versions of those packages that are installed; by default of Python and of `PACKAGES`."""
    found = [] if names else [f"python {platform.python_version()}"]
    for name in names or PACKAGES:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return ", ".join(found)


def older(measured: str) -> str:
    """Say so if the versions of a measurement name an older legendre than this one."""
    from legendre import __version__  # not at the top: an old checkout that is measured may lack it

    found = sorted(set(re.findall(r"\blegendre ([\w.]+)", measured)) - {__version__})
    again = f"they have not been measured again for {__version__}."
    return f"**These numbers are of legendre {', '.join(found)}**; {again}\n\n" if found else ""


def _own_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system


def _busy_seconds() -> float | None:
    """Return the processor time that all programs together have used."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return None
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _status_bytes(field: str) -> int:
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith(field + ":"))
        return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
