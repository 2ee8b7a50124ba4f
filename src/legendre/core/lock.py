"""One process at a time: a lock on a file that is replaced again and again, and that ends with the process.

The operating system locks the file itself (`flock`), so that nothing is left behind by a process that was killed. A new
version of the file is locked before it takes the place of the old one: the name always belongs to a locked file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from legendre.core.errors import InvalidFile

Answer = Literal["locked", "taken", "unknown"]  # unknown: this file system, or this system, has no such locks


def _try_lock(handle: int) -> Answer:
    try:
        import fcntl
    except ImportError:  # pragma: no cover - Windows
        return "unknown"
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return "taken"
    except OSError:  # pragma: no cover - some network file systems
        return "unknown"
    return "locked"


@dataclass(eq=False)
class Lock:
    """The lock on a path; `handle` is open, and locked, while it is held."""

    path: Path
    handle: int | None = None

    def take(self) -> None:
        """Lock the file that is there, or say that another process has it."""
        while True:
            try:
                handle = os.open(self.path, os.O_RDONLY)
            except OSError:  # whoever reads it next says why
                return
            answer = _try_lock(handle)
            if answer == "locked" and self._is_at_path(handle):
                self.handle = handle
                return
            os.close(handle)
            if answer == "unknown":
                return
            if answer == "taken":
                raise self._refusal()

    def check(self) -> None:
        """Refuse to replace a file that another process has put in the place of ours."""
        if self.handle is not None and self.path.exists() and not self._is_at_path(self.handle):
            raise self._refusal()

    @contextmanager
    def following(self) -> Iterator[Callable[[int], None]]:
        """Run a block that replaces the file; it calls what it is given with a handle of the new one, before its use.

        At the end the lock is on the new file; if the block fails, it stays on the old one.
        """
        taken: list[int] = []

        def keep(handle: int) -> None:
            taken.append(os.dup(handle))  # the lock is one for all copies of a handle, and lives as long as one does
            _try_lock(taken[-1])

        try:
            yield keep
            self.release()
            self.handle = taken.pop()
        finally:
            for handle in taken:
                os.close(handle)

    def release(self) -> None:
        """Let others have the file."""
        if self.handle is not None:
            handle, self.handle = self.handle, None
            os.close(handle)

    def _is_at_path(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    def _refusal(self) -> InvalidFile:
        return InvalidFile(
            f"{self.path} is in use: another fit writes its checkpoint there. Wait until that has ended, or give "
            "another path."
        )
