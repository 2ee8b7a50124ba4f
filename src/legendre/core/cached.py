"""Properties that are computed once and kept with their object, without a lock.

Until Python 3.12 `functools.cached_property` holds a lock of the class, not of the object, while a value is computed.
Two threads can then wait for each other: one computes such a value and waits for its turn to use BLAS (`linalg`), the
other has the turn and waits for the value of another object. Without the lock two threads may compute the same value
twice, which are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801 - as in functools
        """What `functools.cached_property` is since Python 3.12."""

        def __init__(self, func: Callable[..., Any]) -> None:
            super().__init__(func)
            self.lock = nullcontext()
