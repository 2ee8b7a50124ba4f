"""Where a computation writes down how far it has come."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from legendre.core.types import AnyArray

Arrays = Mapping[str, Any]


class Record:
    """Where a computation writes down how far it has come: nowhere. `Section` is a place in a file."""

    def claim(self, problem: Callable[[], Mapping[str, str]]) -> None:
        """State a part of the problem; a file that says otherwise is refused."""

    def section(self, name: str) -> Record:
        """Return the place for a part of the computation."""
        del name
        return self

    def result(self) -> Arrays | None:
        """Return what the computation ended with, if it has ended."""
        return None

    def take(self) -> Arrays | None:
        """Return where the computation stood, if it is to go on from there."""
        return None

    def keep(self, pack: Callable[[], Arrays], *, now: bool = False) -> None:
        """Write down where the computation stands, if it is time to."""

    def close(self, arrays: Arrays, *, now: bool = True) -> None:
        """Write down what the computation ended with; with ``now = False``, when something is written next."""

    @contextmanager
    def kept(self, pack: Callable[[], Arrays]) -> Iterator[None]:
        """Write down where the computation stands if the block is interrupted or fails."""
        del pack
        yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what is wrong with stored arrays into an `InvalidFile`."""
        yield


UNRECORDED = Record()


def digest(array: AnyArray | None) -> str:
    """Return a short name for an array's content.

    Examples
    --------
    >>> digest(np.zeros(2)) == digest(np.zeros((2, 1)))
    False
    """
    if array is None:
        return "none"
    code = hashlib.blake2b(f"{array.dtype.str}{array.shape}".encode(), digest_size=6)
    code.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return f"<{code.hexdigest()}>"
