"""Faults while files are written: failing calls, full disks, killed processes, two processes, signals."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import legendre as ld
from legendre.core.files import read_arrays

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


def test_whichever_call_of_a_checkpoint_fails_the_fit_goes_on_and_the_file_is_whole(tmp_path: Path) -> None:
    """The file is written twice, when the problem is known and when the fit has ended."""
    path, plain, outcomes = tmp_path / "fit.ckpt", ld.decompose(**SMALL), set()
    for n in range(1, 10_000):
        faulty, said = Faulty(n, errno.ENOSPC), ""
        with failing(faulty), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fit = ld.decompose(**SMALL, checkpoint=path)
                assert_array_equal(fit.theta, plain.theta)
                outcomes.add("warned" if caught else "written")
            except ld.errors.InvalidFile as problem:
                said = str(problem)
                outcomes.add("refused before the first step")
        assert "No space left on device" in said + "".join(str(w.message) for w in caught) or not faulty.reached
        assert [file.name for file in tmp_path.iterdir()] == ["fit.ckpt"] * path.exists()
        if path.exists():
            assert_array_equal(ld.decompose(**SMALL, checkpoint=path).theta, plain.theta)
            path.unlink()
        if not faulty.reached:
            break
    assert outcomes == {"refused before the first step", "warned", "written"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = tmp_path / "fit.npz", os.open
    ld.decompose(X, "B1").save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "open", lambda *_: opened("/dev/full", os.O_WRONLY))
    with pytest.raises(ld.errors.InvalidFile, match=r"No space left on device\. What was there before is unchanged\."):
        ld.decompose(X, "B3(2)").save(path)
    assert path.read_bytes() == before


# ---- other processes

CHILD = """
import os, signal, sys
from pathlib import Path
import numpy as np
import legendre as ld

what, path = sys.argv[1:]
X = np.random.default_rng(4).lognormal(sigma=2.0, size=(6, 5, 4))

def at_step(number, act):
    return lambda step: act() if step.iteration == number else None

def wait():
    print("running", flush=True)
    sys.stdin.read()

def fit(callback, every=None):
    ld.decompose(X, "B3(5)", solver="natural", checkpoint=path, checkpoint_every=every, callback=callback)

if what == "killed before the rename":
    Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    ld.decompose(X, "B3(2)").save(path)
elif what == "holds":
    fit(at_step(2, wait), every=0)
elif what == "terminated":
    fit(at_step(3, lambda: os.kill(os.getpid(), signal.SIGTERM)))
print("not reached", flush=True)
"""


def child(what: str, path: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", CHILD, what, str(path)]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_process_killed_between_writing_and_renaming_leaves_the_old_file(tmp_path: Path) -> None:
    path, fit = tmp_path / "fit.npz", ld.decompose(X, "B1")
    fit.save(path)
    process = child("killed before the rename", path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert_array_equal(ld.load(path).theta, fit.theta)
    assert len(list(tmp_path.glob(".fit.npz.*.tmp"))) == 1  # the new one, whole, under another name


def test_two_processes_on_one_checkpoint_and_the_second_is_told(tmp_path: Path) -> None:
    """The lock ends with its process, however that ends, and leaves no file behind."""
    path = tmp_path / "fit.ckpt"
    process = child("holds", path)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    with pytest.raises(ld.errors.InvalidFile, match=r"fit\.ckpt is in use: another fit writes .* give another path\."):
        ld.decompose(**FIT, checkpoint=path)
    process.kill()
    process.communicate()
    assert_array_equal(ld.decompose(**FIT, checkpoint=path).theta, ld.decompose(**FIT).theta)
    assert list(tmp_path.iterdir()) == [path]


def test_two_fits_of_one_process_on_one_checkpoint(tmp_path: Path) -> None:
    path, told = tmp_path / "fit.ckpt", []

    def again(step: ld.solvers.Step) -> None:
        if step.iteration == 2:
            with pytest.raises(ld.errors.InvalidFile, match="is in use") as caught:
                ld.decompose(**FIT, checkpoint=path)
            told.append(caught.value)

    ld.decompose(**FIT, checkpoint=path, checkpoint_every=0, callback=again)
    assert len(told) == 1
    ld.decompose(**FIT, checkpoint=path)  # it is free again


def test_a_file_that_somebody_else_put_in_place_is_not_overwritten(tmp_path: Path) -> None:
    path, other = tmp_path / "fit.ckpt", tmp_path / "other"
    other.write_bytes(b"something else")

    def exchange(step: ld.solvers.Step) -> None:
        if step.iteration == 2:
            other.replace(path)

    with pytest.warns(ld.errors.CheckpointWarning, match=r"not up to date: .*fit\.ckpt is in use"):
        ld.decompose(**FIT, checkpoint=path, checkpoint_every=0, callback=exchange)
    assert path.read_bytes() == b"something else"


# ---- SIGTERM


def steps_kept(path: Path) -> int:
    return len(read_arrays(path)["under_way/fit.0/history"]) - 1


def test_sigterm_writes_the_last_state_and_ends_the_process_as_usual(tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    process = child("terminated", path)
    out, _ = process.communicate()
    assert (process.returncode, out) == (-signal.SIGTERM, "")
    assert steps_kept(path) == 3
    seen: list[int] = []
    fit = ld.decompose(**FIT, checkpoint=path, callback=lambda step: seen.append(step.iteration))
    assert seen[0] == 3
    assert_array_equal(fit.theta, ld.decompose(**FIT).theta)
    assert list(tmp_path.iterdir()) == [path]


@contextmanager
def handled(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def send(at: int) -> Callable[[ld.solvers.Step], None]:
    return lambda step: os.kill(os.getpid(), signal.SIGTERM) if step.iteration == at else None


def test_a_handler_of_ones_own_is_called_after_the_state_is_written(tmp_path: Path) -> None:
    path, kept = tmp_path / "fit.ckpt", []
    with handled(lambda *_: kept.append(steps_kept(path))):
        fit = ld.decompose(**FIT, checkpoint=path, callback=send(3))
    assert kept == [3]
    assert fit.status is ld.Status.CONVERGED


def test_a_handler_that_exits_keeps_the_state(tmp_path: Path) -> None:
    path = tmp_path / "fit.ckpt"
    with handled(lambda *_: sys.exit(7)), pytest.raises(SystemExit) as caught:
        ld.decompose(**FIT, checkpoint=path, callback=send(3))
    assert caught.value.code == 7
    assert steps_kept(path) == 3


def test_sigterm_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    with handled(signal.SIG_IGN):
        fit = ld.decompose(**FIT, checkpoint=tmp_path / "fit.ckpt", callback=send(3))
    assert fit.converged


def test_handlers_are_not_touched_without_a_checkpoint_or_outside_the_main_thread(tmp_path: Path) -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def look(_: ld.solvers.Step) -> None:
        seen.append(signal.getsignal(signal.SIGTERM))

    ld.decompose(**FIT, callback=look)
    asked = {**FIT, "checkpoint": tmp_path / "fit.ckpt", "callback": look}
    thread = threading.Thread(target=ld.decompose, kwargs=asked)
    thread.start()
    thread.join()
    assert len(seen) > 6
    assert set(seen) == {before}


def test_a_checkpoint_waits_for_nobody(tmp_path: Path) -> None:
    """The lock is tried once: a fit that is refused is refused at once."""
    path = tmp_path / "fit.ckpt"
    ld.decompose(**FIT, checkpoint=path)
    handle = os.open(path, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
        begun = time.monotonic()
        with pytest.raises(ld.errors.InvalidFile, match="is in use"):
            ld.decompose(**FIT, checkpoint=path)
        assert time.monotonic() - begun < 5
    finally:
        os.close(handle)
