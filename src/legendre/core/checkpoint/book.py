"""The file of a checkpoint: for which problem, what is finished, and where the rest stands."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from legendre.core.checkpoint.record import Arrays
from legendre.core.errors import CheckpointWarning, InvalidFile, LegendreError
from legendre.core.files import check_writable, clear_leftovers, read_arrays, write_arrays

FORMAT, VERSION = "legendre-checkpoint", 1
EVERY, SHARE = 10.0, 0.01
"""Seconds from one write to the next, and the share of the time that writing may take: large states wait longer."""
ANEW = "To start anew, give another path or delete the file."


@dataclass(eq=False)
class Book:
    """The file as it is, or will be: claims about the problem, finished sections, and the one under way.

    The arrays of the section under way are handed out once and never held: they may be as large as the problem.
    """

    path: Path
    every: float | None
    claims: dict[str, str] = field(default_factory=lambda: {"legendre": _version()})
    finished: dict[str, Arrays] = field(default_factory=dict)
    under_way: dict[str, Arrays] = field(default_factory=dict)
    written_at: float = field(default_factory=lambda: time.monotonic())
    cost: float = 0.0

    @classmethod
    def open(cls, path: str | os.PathLike[str], every: float | None) -> Book:
        """Read the file, if there is one; refuse a file that is no checkpoint, or a place that cannot be written to."""
        book = cls(Path(path), every)
        check_writable(path)
        if book.path.exists():
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
            if int(arrays["version"]) != VERSION:
                raise InvalidFile(
                    f"cannot go on from {self.path}: its format version is {int(arrays['version'])}, this library "
                    f"reads {VERSION}. Finish with the library that wrote it. {ANEW}"
                )
            mine, self.claims = self.claims, _as_claims(json.loads(str(arrays["claims"])))
            self.claim(mine)
            for key, values in arrays.items():
                kind, _, rest = key.partition("/")
                if kind in ("finished", "under_way"):
                    section, _, name = rest.rpartition("/")
                    parts: dict[str, Arrays] = getattr(self, kind)
                    parts[section] = {**parts.get(section, {}), name: values}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what is wrong with stored arrays into an `InvalidFile`."""
        try:
            yield
        except LegendreError:
            raise
        except (KeyError, ValueError, IndexError, TypeError, AttributeError) as problem:
            raise InvalidFile(
                f"cannot go on from {self.path}: a checkpoint, but a damaged one ({problem}). {ANEW}"
            ) from problem

    def claim(self, problem: Mapping[str, str]) -> None:
        """Compare with the file; write a file at once if there is none, so that no one else takes the name."""
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
        begun = time.monotonic()
        try:
            self._write({} if pack is None else {f"under_way/{section}/{key}": part for key, part in pack().items()})
        except InvalidFile as problem:
            text = f"the checkpoint is not up to date: {problem} The fit goes on."
            warnings.warn(text, CheckpointWarning, stacklevel=2)
        self.written_at = time.monotonic()
        self.cost = self.written_at - begun

    def _write(self, under_way: Arrays) -> None:
        head = {"format": FORMAT, "version": VERSION, "claims": json.dumps(self.claims)}
        done = {f"finished/{s}/{key}": part for s, parts in self.finished.items() for key, part in parts.items()}
        write_arrays(self.path, {**head, **done, **under_way}, compress=False)  # digits of theta do not compress

    def due(self) -> bool:
        """Tell whether it is time to write."""
        wait = max(EVERY, self.cost / SHARE) if self.every is None else self.every
        return time.monotonic() - self.written_at >= wait


def _as_claims(read: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in read.items()}


def _version() -> str:
    """Name the library: another version may take other steps."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("legendre")
    except PackageNotFoundError:
        return "not installed"
