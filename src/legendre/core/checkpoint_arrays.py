"""Arrays of a checkpoint, each checked when it is read; what is wrong with one is a ValueError, for `Book.reading`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legendre.core.types import AnyArray, FloatArray, IntArray


def _read(arrays: Mapping[str, Any], name: str, kinds: str, shape: tuple[int | None, ...]) -> AnyArray:
    """Return an array of some kinds of numbers; ``None`` in the shape stands for any length."""
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    found = np.asarray(arrays[name])
    fits = len(shape) == found.ndim and all(n in (None, m) for n, m in zip(shape, found.shape, strict=True))
    if found.dtype.kind not in kinds or not fits:
        raise ValueError(f"{name} has shape {found.shape} and dtype {found.dtype}")
    return found


def floats(arrays: Mapping[str, Any], name: str, *shape: int | None, finite: bool = True) -> FloatArray:
    """Read an array of real numbers.

    >>> floats({"theta": np.ones(2)}, "theta", 3)
    Traceback (most recent call last):
        ...
    ValueError: theta has shape (2,) and dtype float64
    """
    found = _read(arrays, name, "f", shape)
    if found.dtype != np.float64:
        raise ValueError(f"{name} has dtype {found.dtype}")
    if finite and not np.isfinite(found).all():
        raise ValueError(f"{name} is not finite everywhere")
    return found


def number(arrays: Mapping[str, Any], name: str, *, finite: bool = True, least: float = -np.inf) -> float:
    """Read one number."""
    found = float(_read(arrays, name, "fiu", ()))
    if found < least or (finite and not np.isfinite(found)):
        raise ValueError(f"{name} is {found:g}")
    return found


def whole(arrays: Mapping[str, Any], name: str, least: int = 0, most: int | None = None) -> int:
    """Read one integer."""
    found = int(_read(arrays, name, "iu", ()))
    if found < least or (most is not None and found > most):
        raise ValueError(f"{name} is {found}")
    return found


def text(arrays: Mapping[str, Any], name: str) -> str:
    """Read a text."""
    return str(_read(arrays, name, "U", ()))


def cells(arrays: Mapping[str, Any], name: str, shape: tuple[int, ...]) -> IntArray:
    """Read different cells of a grid, k x N."""
    found = _read(arrays, name, "iu", (None, len(shape)))
    if (found < 0).any() or (found >= shape).any() or len(np.unique(found, axis=0)) < len(found):
        raise ValueError(f"cells of {name} are repeated, or outside the grid {shape}")
    return found.astype(np.int64, copy=False)


def rows(arrays: Mapping[str, Any], name: str, width: int) -> FloatArray:
    """Read rows of numbers, of which there is at least one; some may not be known (NaN)."""
    found = floats(arrays, name, None, width, finite=False)
    if not len(found):
        raise ValueError(f"{name} is empty")
    return found
