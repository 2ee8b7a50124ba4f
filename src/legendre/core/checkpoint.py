"""Checkpoints: how far a long computation has come, in a file, so that it can go on when the process has ended.

A computation writes to a `Record`, a place in a `Book`, which is the file: for which problem, what is finished, and
where the rest stands.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from legendre.core.arguments import is_real
from legendre.core.checkpoint_arrays import text, whole
from legendre.core.errors import CheckpointWarning, InvalidFile, InvalidSetting, LegendreError
from legendre.core.files import check_writable, clear_leftovers, read_arrays, write_arrays
from legendre.core.lock import Lock
from legendre.core.npz import checksum
from legendre.core.termination import heeding_sigterm
from legendre.core.types import AnyArray

Arrays = Mapping[str, Any]
FORMAT, VERSION = "legendre-checkpoint", 1
CHECKSUM = "checksum"  # the name of the array that holds it; the first checkpoints had none
EVERY = 10.0  # seconds between writes
SHARE = 0.01  # of the time that writing may take: large states wait longer
ANEW = "To start anew, give another path or delete the file."


def digest(array: AnyArray | None) -> str:
    """Return a short name for an array's content."""
    if array is None:
        return "none"
    code = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=6)
    code.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return f"<{code.hexdigest()}>"


@dataclass(eq=False)
class Book:
    """The file as it is, or will be: claims about the problem, finished sections, and the one under way."""

    path: Path
    every: float | None
    claims: dict[str, str] = field(default_factory=lambda: {"legendre": _version()})
    finished: dict[str, Arrays] = field(default_factory=dict)
    under_way: dict[str, Arrays] = field(default_factory=dict)  # handed out once, never held: may be very large
    written_at: float = field(default_factory=lambda: time.monotonic())
    cost: float = 0.0
    lock: Lock | None = None  # None where nobody else can write, as in tests
    running: tuple[str, Callable[[], Arrays]] | None = None  # the section under way, and what lists its arrays
    writing: bool = False

    @classmethod
    def open(cls, path: str | os.PathLike[str], every: float | None, lock: Lock | None = None) -> Book:
        """Read the file, if there is one; refuse a file that is no checkpoint, or a place that cannot be written to."""
        book = cls(Path(path), every, lock=lock)
        check_writable(path)
        if book.path.exists():
            if lock is not None:
                lock.take()
            book._read()
            clear_leftovers(path)
        return book

    def _read(self) -> None:
        try:
            arrays = read_arrays(self.path, "a checkpoint")
        except InvalidFile as problem:
            raise InvalidFile(f"{problem} No fit can go on from it. {ANEW}") from None
        if str(arrays.get("format")) != FORMAT:
            held = ", ".join(sorted(arrays)[:5]) or "nothing"
            raise InvalidFile(f"{self.path} is no checkpoint (it holds {held}). Give another path; it stays as it is.")
        with self.reading():
            if (version := whole(arrays, "version")) != VERSION:
                raise InvalidFile(
                    f"cannot go on from {self.path}: its format version is {version}, this library "
                    f"reads {VERSION}. Finish with the library that wrote it. {ANEW}"
                )
            mine, stored = self.claims, json.loads(text(arrays, "claims"))
            self.claims = {str(name): str(value) for name, value in stored.items()}
            if lost := sorted(mine.keys() - self.claims.keys()):
                raise ValueError(f"it does not say which {lost[0]}")
            self.claim(mine)
            for key, values in arrays.items():
                kind, _, rest = key.partition("/")
                if kind in ("finished", "under_way"):
                    section, _, name = rest.rpartition("/")
                    parts: dict[str, Arrays] = getattr(self, kind)
                    parts[section] = {**parts.get(section, {}), name: values}
            content = {name: array for name, array in arrays.items() if name != CHECKSUM}
            if CHECKSUM in arrays and text(arrays, CHECKSUM) != checksum(content):
                raise ValueError("its content is not what was written: the checksum is another")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what is wrong with stored arrays into an `InvalidFile`."""
        try:
            yield
        except LegendreError:
            raise
        except (KeyError, ValueError, IndexError, TypeError, AttributeError, ArithmeticError, MemoryError) as problem:
            said = f"cannot go on from {self.path}: a checkpoint, but a damaged one ({problem}). {ANEW}"
            raise InvalidFile(said) from problem

    def claim(self, problem: Mapping[str, str]) -> None:
        """Compare with the file; write a file at once if there is none, so that the name is taken."""
        other = {name: self.claims[name] for name in problem if self.claims.get(name, problem[name]) != problem[name]}
        if other:
            said = "; ".join(f"{name}: {there} there, {problem[name]} here" for name, there in other.items())
            raise InvalidFile(
                f"cannot go on from {self.path}: it belongs to another problem ({said}). "
                f"Repeat the call that wrote it. {ANEW}"
            )
        self.claims |= problem
        if not self.path.exists():
            self._write({})

    def write(self, section: str, pack: Callable[[], Arrays] | None) -> None:
        """Write everything; a failure is a warning, for the fit is worth more than its checkpoint."""
        begun, self.writing = time.monotonic(), True
        try:
            self._write({} if pack is None else {f"under_way/{section}/{key}": part for key, part in pack().items()})
        except InvalidFile as problem:
            said = f"the checkpoint is not up to date: {problem} The fit goes on."
            warnings.warn(said, CheckpointWarning, stacklevel=2)
        finally:
            self.writing = False
        self.written_at = time.monotonic()
        self.cost = self.written_at - begun

    def _write(self, under_way: Arrays) -> None:
        head = {"format": FORMAT, "version": VERSION, "claims": json.dumps(self.claims)}
        done = {f"finished/{s}/{key}": part for s, parts in self.finished.items() for key, part in parts.items()}
        content = {**head, **done, **under_way}
        if self.lock is None:
            self._put(content)
            return
        self.lock.check()
        with self.lock.following() as keep:
            self._put(content, keep)

    def _put(self, content: Arrays, keep: Callable[[int], None] | None = None) -> None:
        """Replace the file; digits of theta do not compress."""
        write_arrays(self.path, {**content, CHECKSUM: checksum(content)}, compress=False, before_use=keep)

    def write_what_runs(self) -> None:
        """Write down where the section under way stands, unless that is being done."""
        if self.running is not None and not self.writing:
            self.write(*self.running)

    def due(self) -> bool:
        """Whether it is time to write."""
        wait = max(EVERY, self.cost / SHARE) if self.every is None else self.every
        return time.monotonic() - self.written_at >= wait


def _version() -> str:
    """Name the version of the library: another one may take other steps."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("legendre")
    except PackageNotFoundError:
        return "not installed"


@dataclass(frozen=True, eq=False)
class Record:
    """A place in a file."""

    book: Book
    name: str = "fit"

    def claim(self, problem: Callable[[], Mapping[str, str]]) -> None:
        """Compare with what the file says; all sections are of one problem."""
        self.book.claim(problem())

    def section(self, name: str) -> Record:
        """Return the place for a part of the computation."""
        return replace(self, name=f"{self.name}.{name}")

    def result(self) -> Arrays | None:
        """Return what the computation ended with, if it has ended."""
        return self.book.finished.get(self.name)

    def take(self) -> Arrays | None:
        """Return where the computation stood; only once, for the arrays may be large."""
        return self.book.under_way.pop(self.name, None)

    def keep(self, pack: Callable[[], Arrays], *, now: bool = False) -> None:
        """Write down where the computation stands, if it is time to."""
        if now or self.book.due():
            self.book.write(self.name, pack)

    def close(self, arrays: Arrays, *, now: bool = True) -> None:
        """Write down what the computation ended with."""
        self.book.finished[self.name] = dict(arrays)
        if now:
            self.book.write(self.name, None)

    @contextmanager
    def kept(self, pack: Callable[[], Arrays]) -> Iterator[None]:
        """Write down where the computation stands if the block is interrupted or fails, and note how to go on."""
        self.book.running = (self.name, pack)
        try:
            yield
        except BaseException as problem:
            self.keep(pack, now=True)
            problem.add_note(f"{self.book.path} keeps the fit as it stood: the same call goes on from there.")
            raise
        finally:
            self.book.running = None

    def reading(self) -> AbstractContextManager[None]:
        """Turn what is wrong with stored arrays into an `InvalidFile`."""
        return self.book.reading()


@contextmanager
def open_checkpoint(path: str | os.PathLike[str] | None, every: float | None) -> Iterator[Record | None]:
    """Read the arguments `checkpoint` and `checkpoint_every` of `decompose`; no path is no checkpoint.

    While the block runs, no other fit may have the file, and SIGTERM has the last state written before it takes effect.
    """
    if every is not None and not (is_real(every) and every >= 0):
        raise InvalidSetting(f"checkpoint_every must be a number of seconds >= 0, got {every!r}.")
    if path is None:
        if every is not None:
            raise InvalidSetting(
                "checkpoint_every is how often a checkpoint is written; name its file: checkpoint=path."
            )
        yield None
        return
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise InvalidSetting(f"checkpoint must be the path of a file, got {path!r}.")
    lock = Lock(Path(path))
    try:
        book = Book.open(path, every, lock)
        with heeding_sigterm(book.write_what_runs):
            yield Record(book)
    finally:
        lock.release()
