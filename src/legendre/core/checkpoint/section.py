"""The arguments `checkpoint` and `checkpoint_every`, and a place in the file that they name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from legendre.core.checkpoint.book import Book
from legendre.core.checkpoint.record import UNRECORDED, Arrays, Record
from legendre.core.errors import InvalidSetting


@dataclass(frozen=True, eq=False)
class Section(Record):
    """A place in a file."""

    book: Book
    name: str = "fit"

    def claim(self, problem: Callable[[], Mapping[str, str]]) -> None:
        """Compare with what the file says; all sections are of one problem."""
        self.book.claim(problem())

    def section(self, name: str) -> Section:
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
        """Write down where the computation stands if the block is interrupted or fails, and tell how to go on."""
        try:
            yield
        except BaseException as problem:
            self.keep(pack, now=True)
            problem.add_note(f"{self.book.path} keeps the fit as it stood: the same call goes on from there.")
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what is wrong with stored arrays into an `InvalidFile`."""
        with self.book.reading():
            yield


def open_checkpoint(path: str | os.PathLike[str] | None, every: float | None) -> Record:
    """Read the arguments `checkpoint` and `checkpoint_every` of `decompose`; no path is no checkpoint."""
    number = isinstance(every, (int, float, np.integer, np.floating)) and not isinstance(every, bool)
    if every is not None and not (number and every >= 0):
        raise InvalidSetting(f"checkpoint_every must be a number of seconds >= 0, got {every!r}.")
    if path is None:
        if every is not None:
            raise InvalidSetting(
                "checkpoint_every tells how often a checkpoint is written; name its file: checkpoint=path."
            )
        return UNRECORDED
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise InvalidSetting(f"checkpoint must be the path of a file, got {path!r}.")
    return Section(Book.open(path, every))
