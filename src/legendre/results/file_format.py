"""The file format: a result as named arrays of one npz file, each checked when it is read.

A file names what it holds (``format``) and the version of the format. A result inside another one, such as the fit of a
completion, has its name and a dot before the names of its arrays: ``fit.theta``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from legendre.core.cells import frozen
from legendre.core.npz import checksum
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.solvers.loop import Step, pack_history, unpack_history
from legendre.solvers.status import Status

VERSION = 2  # version 1, of decompositions only, had neither eta nor psi: both are computed again from theta

CHECKSUM = "checksum"  # the name of the array that holds it
Arrays = dict[str, Any]  # what goes into a file, by name
NOT_NEGATIVE = {
    "best", "error", "g2", "gap", "held_out", "kl", "n_folds", "n_held_out", "n_params", "n_rungs", "n_runs",
    "n_visible", "newton_gap", "rank", "rest", "residual", "rmse", "scored", "tol", "total", "total_kl", "version",
    "x2",
}  # fmt: skip
"""Numbers that cannot be below 0, by their names in all kinds of results."""
ROUNDING = 1e-9  # by which a sum of probabilities may be below 0 or above 1
MOST_MODES = 1 << 16  # of a tensor in a file


class Unreadable(Exception):
    """The arrays are not what the file says they are."""


def nested(name: str, arrays: Arrays) -> Arrays:
    """Put the name of a part before the names of its arrays."""
    return {f"{name}.{key}": array for key, array in arrays.items()}


def packed_integer(n: int) -> int | str:
    """Write an integer beyond 64 bits as hexadecimal text.

    >>> packed_integer(5), packed_integer(2**64)
    (5, '0x10000000000000000')
    """
    return n if -(2**63) <= n < 2**63 else hex(n)


def packed_mask(name: str, mask: BoolArray | None) -> Arrays:
    """Write a mask in bits, or nothing."""
    return {} if mask is None else {name: np.packbits(mask)}


@dataclass(frozen=True, eq=False)
class Archive:
    """The arrays of a file, or of a part of it, each checked when it is read.

    >>> Archive({"fit.theta": np.ones(2)}, "a saved completion").part("fit").floats("theta", 2).tolist()
    [1.0, 1.0]
    >>> Archive({"theta": np.ones(2)}, "a saved completion").floats("theta", 3)
    Traceback (most recent call last):
        ...
    legendre.results.file_format.Unreadable: a saved completion, but its parts do not fit together: theta has shape \
(2,), where (3) is expected.
    """

    arrays: Mapping[str, AnyArray]
    what: str  # what the file holds, in words
    prefix: str = ""  # of the names of this part
    read: Callable[[Archive], Any] | None = None  # makes a result of any kind of a part; from `legendre.load`

    def __contains__(self, name: str) -> bool:
        return self.prefix + name in self.arrays

    def check_whole(self) -> None:
        """Refuse a file of a newer version, or one that lacks an array that was written."""
        version = self.whole("version")
        if version > VERSION:
            raise Unreadable(f"its format version is {version}, this library reads up to {VERSION}. Update legendre.")
        if version > 1 and (lost := sorted({str(name) for name in self.array("names", "U", (None,))} - {*self.arrays})):
            raise self.damaged(f"'{lost[0]}' is missing")

    def check_content(self) -> None:
        """Refuse a file whose content is not, to the last bit, what was written; the first files had no checksum."""
        content = {name: array for name, array in self.arrays.items() if name != CHECKSUM}
        if CHECKSUM in self and self.text(CHECKSUM) != checksum(content):
            raise self.damaged("its content is not what was written: the checksum is another")

    def part(self, name: str) -> Archive:
        """Return the arrays of a part."""
        return replace(self, prefix=f"{self.prefix}{name}.")

    def renamed(self, **names: str) -> Archive:
        """Give arrays further names."""
        more = {self.prefix + new: self.arrays[self.prefix + old] for new, old in names.items() if old in self}
        return replace(self, arrays={**self.arrays, **more})

    def result(self, name: str, kind: str) -> Any:
        """Return the result of some kind that a part holds."""
        part = self.part(name)
        if part.text("format") != kind or self.read is None:
            raise self.unfit(f"{part.prefix}format is {part.text('format')}, where {kind} is expected")
        return self.read(part)

    def names(self) -> list[str]:
        """List the names of this part, in the order in which they were written."""
        return [key.removeprefix(self.prefix) for key in self.arrays if key.startswith(self.prefix)]

    def damaged(self, why: str) -> Unreadable:
        """Make the error for an array that is missing or of the wrong kind."""
        return Unreadable(f"{self.what}, but a damaged one ({why}).")

    def unfit(self, why: str) -> Unreadable:
        """Make the error for arrays that contradict each other."""
        return Unreadable(f"{self.what}, but its parts do not fit together: {why}.")

    def array(self, name: str, kinds: str, shape: Sequence[int | None] | None) -> AnyArray:
        """Read an array of some kinds of numbers; ``None`` in the shape, or for it, stands for any length."""
        full = self.prefix + name
        if full not in self.arrays:
            raise self.damaged(f"'{full}' is missing")
        found = self.arrays[full]
        if found.dtype.kind not in kinds:
            raise self.damaged(f"'{full}' has dtype {found.dtype}")
        sides = found.shape if shape is None else shape
        if len(sides) != found.ndim or any(n not in (None, m) for n, m in zip(sides, found.shape, strict=True)):
            wanted = " x ".join("any" if n is None else str(n) for n in sides) or "one number"
            raise self.unfit(f"{full} has shape {found.shape}, where ({wanted}) is expected")
        return frozen(found)

    def floats(self, name: str, *shape: int | None, finite: bool = True) -> FloatArray:
        """Read an array of real numbers."""
        found = self.array(name, "f", shape).astype(np.float64, copy=False)
        if finite and not np.isfinite(found).all():
            raise self.unfit(f"{self.prefix}{name} is not finite everywhere")
        return found

    def integers(self, name: str, *shape: int | None) -> IntArray:
        """Read an array of integers."""
        return self.array(name, "iu", shape)

    def number(self, name: str) -> float:
        """Read one number, finite or not; refuse one below 0 where there can be none."""
        found = float(self.array(name, "fiu", ()))
        if name in NOT_NEGATIVE and found < 0:
            raise self.unfit(f"{self.prefix}{name} is {found:g}")
        return found

    def whole(self, name: str) -> int:
        """Read one integer of any size, see `packed_integer`."""
        found = self.array(name, "iuU", ())
        try:
            number = int(str(found), 0)
        except ValueError:
            raise self.damaged(f"'{self.prefix}{name}' is no integer but {str(found)!r}") from None
        if name in NOT_NEGATIVE and number < 0:
            raise self.unfit(f"{self.prefix}{name} is {number}")
        return number

    def count(self, name: str) -> int:
        """Read how many parts there are: each has at least one array."""
        if (found := self.whole(name)) > len(self.arrays):
            raise self.unfit(f"{self.prefix}{name} is {found}, in a file of {len(self.arrays)} arrays")
        return found

    def text(self, name: str) -> str:
        """Read a text."""
        return str(self.array(name, "U", ()))

    def texts(self, name: str, count: int) -> list[str]:
        """Read several texts."""
        return [str(text) for text in self.array(name, "U", (count,))]

    def mask(self, name: str, shape: tuple[int, ...]) -> BoolArray | None:
        """Read a mask, if there is one."""
        if name not in self:
            return None
        size, stored = math.prod(shape), self.array(name, "u", (None,))
        if stored.dtype != np.uint8 or len(stored) != -(-size // 8):
            raise Unreadable(f"{self.what}, but its {self.prefix}{name} has {stored.nbytes} bytes for {size} cells.")
        return np.unpackbits(stored, count=size).reshape(shape).astype(np.bool_)

    def needed_mask(self, name: str, shape: tuple[int, ...]) -> BoolArray:
        """Read a mask that must be there."""
        if (found := self.mask(name, shape)) is None:
            raise self.damaged(f"'{self.prefix}{name}' is missing")
        return found

    def status(self) -> Status:
        """Read how the fit ended."""
        name = self.text("status")
        if name not in Status.__members__:
            raise self.damaged(f"'{name}' is no status")
        return Status[name]

    def history(self, name: str = "history") -> tuple[Step, ...]:
        """Read the steps, of which there is at least the start."""
        rows = self.floats(name, None, 4, finite=False)
        if not len(rows):
            raise self.unfit(f"{self.prefix}{name} is empty")
        if (rows[:, 1:3] < 0).any():
            raise self.unfit(f"{self.prefix}{name} has a negative residual")
        return unpack_history(rows)

    def shape(self, name: str = "shape") -> tuple[int, ...]:
        """Read the shape of a tensor."""
        found = tuple(int(n) for n in self.integers(name, None))
        if not 0 < len(found) <= MOST_MODES or min(found) < 1:
            raise self.unfit(f"{self.prefix}{name} is {found[:10]}")
        return found

    def total(self, name: str = "total") -> float:
        """Read the sum of X."""
        found = self.number(name)
        if not 0 < found < np.inf:
            raise self.unfit(f"{self.prefix}{name} is {found:g}")
        return found

    def expectations(self, name: str, count: int) -> FloatArray:
        """Read expectations, which are probabilities up to the rounding errors of their sums."""
        found = self.floats(name, count)
        if (found < -ROUNDING).any() or (found > 1 + ROUNDING).any():
            raise self.unfit(f"{self.prefix}{name} holds numbers that are no probabilities")
        return found

    def probability(self, name: str) -> float:
        """Read a probability, which may be NaN: not known."""
        found = self.number(name)
        if found < 0 or found > 1:
            raise self.unfit(f"{self.prefix}{name} is {found:g}")
        return found


PLAIN: dict[str, tuple[Callable[[Any], Any], Callable[[Archive, str], Any]]] = {
    "float": (float, Archive.number),
    "int": (packed_integer, Archive.whole),
    "str": (str, Archive.text),
    "Status": (lambda status: status.name, lambda arrays, _: arrays.status()),
    "tuple[Step, ...]": (pack_history, Archive.history),
    # a field that older files do not have
    "bool": (int, lambda arrays, name: name in arrays and bool(arrays.whole(name))),
    "str | None": (lambda x: x, lambda arrays, name: arrays.text(name) if name in arrays else None),
    "float | None": (lambda x: x, lambda arrays, name: arrays.number(name) if name in arrays else None),
}
"""How a field of a dataclass is written and read, by its type."""


def pack_plain(value: Any) -> Arrays:
    """Write the fields of a dataclass that are numbers, texts, a status or steps; ``None`` is left out."""
    parts = {name: (kind, getattr(value, name)) for name, kind in _plain(type(value)).items()}
    return {name: PLAIN[kind][0](content) for name, (kind, content) in parts.items() if content is not None}


def read_plain(cls: Any, arrays: Archive) -> dict[str, Any]:
    """Read the same fields."""
    return {name: PLAIN[kind][1](arrays, name) for name, kind in _plain(cls).items()}


def _plain(cls: Any) -> dict[str, str]:
    return {part.name: str(part.type) for part in fields(cls) if part.type in PLAIN}
