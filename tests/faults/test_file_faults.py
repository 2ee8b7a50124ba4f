"""Faults while files are written: failing calls, full disks, killed processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import legendre as ld

X = np.random.default_rng(4).lognormal(sigma=2.0, size=(6, 5, 4))
FIT: dict[str, Any] = {"X": X, "basis": "B3(5)", "solver": "natural"}
SMALL: dict[str, Any] = {"X": X[:3, :2, 0], "basis": "B1"}


# ---- the n-th call fails


class Faulty:
    """Counts calls that touch the disk; the n-th one, and all after it, raise an error."""

    def __init__(self, n: int, code: int = errno.EIO) -> None:
        self.calls, self.n, self.code = 0, n, code

    @property
    def reached(self) -> bool:
        return self.calls >= self.n

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*words: Any, **named: Any) -> Any:
            self.calls += 1
            if self.reached:
                raise OSError(self.code, os.strerror(self.code))
            return function(*words, **named)

        return counted


class Stream:
    """A file whose writes, flushes and moves are counted."""

    def __init__(self, stream: Any, faulty: Faulty) -> None:
        self.stream = stream
        for name in ("write", "flush", "seek"):
            setattr(self, name, faulty.around(getattr(stream, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


@contextmanager
def failing(faulty: Faulty) -> Iterator[None]:
    """Let every call by which files are written fail from the n-th on; removing a file always works."""
    fdopen = os.fdopen
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", faulty.around(os.open))
        patch.setattr(os, "fdopen", lambda *words: Stream(fdopen(*words), faulty))
        patch.setattr(os, "fsync", faulty.around(os.fsync))
        patch.setattr(Path, "chmod", faulty.around(Path.chmod))
        patch.setattr(Path, "replace", faulty.around(Path.replace))
        yield


def test_whichever_call_of_a_save_fails_the_old_file_stays_and_nothing_else(tmp_path: Path) -> None:
    path, old, new = tmp_path / "fit.npz", ld.decompose(X, "B1"), ld.decompose(X, "B3(2)")
    old.save(path)
    before = path.read_bytes()
    for n in range(1, 10_000):
        faulty, said = Faulty(n), ""
        with failing(faulty):
            try:
                new.save(path)
            except ld.errors.InvalidFile as problem:
                said = str(problem)
        assert said.startswith(f"cannot write {path}: Input/output error.") is faulty.reached
        assert list(tmp_path.iterdir()) == [path]
        if not faulty.reached:
            break
        assert path.read_bytes() == before, n
    assert n > 40
    assert_array_equal(ld.load(path).theta, new.theta)


# ---- other processes

CHILD = """
import os, signal, sys
from pathlib import Path
import numpy as np
import legendre as ld

path = sys.argv[1]
X = np.random.default_rng(4).lognormal(sigma=2.0, size=(6, 5, 4))

os.fsync = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
ld.decompose(X, "B3(2)").save(path)
print("not reached", flush=True)
"""


def child(path: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CHILD, str(path)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_save_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    path, fit = tmp_path / "fit.npz", ld.decompose(X, "B1")
    fit.save(path)
    process = child(path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == [path]
    assert_array_equal(ld.load(path).theta, fit.theta)
