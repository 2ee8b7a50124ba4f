"""Types of arrays, and the decorator of classes that hold them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
Shape = tuple[int, ...]  # how many levels each mode has
Modes = tuple[int, ...]  # some of the modes, counted from 0
Cell = tuple[int, ...]  # an index vector
PathName = str | os.PathLike[str]  # where a file is
S = TypeVar("S", bound=np.generic)


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen(cls: type | None = None, /, **how: bool) -> Any:
    """Make a dataclass whose fields do not change and whose objects are compared by identity, because they hold arrays.

    `how` are further arguments of `dataclass`: ``@frozen(repr=False)``.
    """
    return dataclass(cls, frozen=True, eq=False, **how)


class HasShape(Protocol):
    """An array of some library: sparse, distributed or on another device."""

    @property
    def shape(self) -> Any:
        """The sizes of its modes."""
