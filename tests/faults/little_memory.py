"""Run tasks with less and less memory, each in a forked child; print a line for each: task, MiB left, how it ended.

Run by `test_memory.py` in a process of its own, which imports once and forks often.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.optimize
import scipy.sparse.csgraph  # noqa: F401

import legendre as ld
from legendre.core.types import FloatArray

ROOMS = (2048, 256, 96, 32, 12, 4, 1)  # MiB beyond what the process has
RIGHT, WRONG, REFUSED, RAW = 0, 11, 12, 13


def tasks() -> dict[str, Callable[[], FloatArray]]:
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, size=(40, 50, 40))
    gaps = np.where(rng.random((14, 14, 14)) < 0.5, np.nan, rng.gamma(2.0, size=(14, 14, 14)))
    events = ld.from_coords(rng.integers(0, 160, size=(500, 3)), shape=(160, 160, 160))
    fit = ld.decompose(events, ld.cells([(80, 0, 0), (0, 80, 0), (0, 0, 80)]))
    return {
        "decompose": lambda: ld.decompose(X, "B3(8)").theta,
        "complete": lambda: np.asarray(ld.complete(gaps, "interactions(1)").tensor()),
        "balance": lambda: np.asarray(ld.balance(X, modes=1).tensor()),
        "tensor": lambda: np.asarray(fit.tensor()),
    }


def in_a_child(work: Callable[[], FloatArray], room: int | None, expected: str) -> tuple[int, str]:
    """Fork, leave so much memory, and tell the wait status and what the child said."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os._exit(_child(work, room, expected, writer))
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    return os.waitpid(pid, 0)[1], said


def _child(work: Callable[[], FloatArray], room: int | None, expected: str, writer: int) -> int:
    if room is not None:
        own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (own + (room << 20),) * 2)
    try:
        answer = work()
    except ld.LegendreError as problem:
        os.write(writer, str(problem).encode()[:512])
        return REFUSED
    except BaseException as problem:
        os.write(writer, repr(problem).encode()[:512])
        return RAW
    found = hashlib.sha256(answer.tobytes()).hexdigest()
    os.write(writer, found.encode())
    return RIGHT if expected in ("", found) else WRONG


def main() -> None:
    """Print how each task ended with each amount of memory."""
    resource.setrlimit(resource.RLIMIT_AS, (1 << 46, resource.RLIM_INFINITY))  # a limit that nothing reaches
    for name, work in tasks().items():
        status, expected = in_a_child(work, None, "")
        assert status == RIGHT, expected
        for room in ROOMS:
            status, said = in_a_child(work, room, expected)
            killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            ended = os.waitstatus_to_exitcode(status)
            print(name, room, killed, ended, said.replace("\n", " "), sep="\t")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
