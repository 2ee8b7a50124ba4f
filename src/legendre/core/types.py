"""Types of arrays."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
S = TypeVar("S", bound=np.generic)


class HasShape(Protocol):
    """An array of some library: sparse, distributed or on another device."""

    @property
    def shape(self) -> Any:
        """The sizes of its modes."""
