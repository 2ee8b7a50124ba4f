"""What a caller asks of Q, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import entries, is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.errors import ImpossibleEvent, InvalidQuery
from legendre.core.types import AnyArray


def given_modes(modes: int | Sequence[int], order: int) -> list[int]:
    """Read one mode or several, in the order given."""
    listed = [modes] if isinstance(modes, (int, np.integer)) else entries(modes)
    if listed is None:
        raise InvalidQuery(f"marginal({modes!r}): pass a mode such as 0, or modes such as [0, 2].")
    kept = [_mode("marginal", k, order) for k in listed]
    if len(set(kept)) < len(kept):
        raise InvalidQuery(f"marginal({kept}) names a mode twice.")
    return kept


def fixed(event: Mapping[int, int], shape: tuple[int, ...]) -> dict[int, int]:
    """Read an event: the index of each mode that is fixed."""
    if not isinstance(event, Mapping):
        raise InvalidQuery(f"condition({event!r}): pass a dict such as {{0: 2}}, mode 0 fixed at index 2.")
    at: dict[int, int] = {}
    for key, index in event.items():
        k = _mode("condition", key, len(shape))
        if not is_whole(index, 0) or index >= shape[k]:
            raise InvalidQuery(
                f"condition: mode {k} has no index {index!r}; its indices are integers from 0 to {shape[k] - 1}."
            )
        at[k] = int(index)
    return at


def impossible(at: Mapping[int, int]) -> ImpossibleEvent:
    """Say that an event has probability 0."""
    told = ", ".join(f"{k}: {i}" for k, i in at.items())
    return ImpossibleEvent(
        f"condition({{{told}}}): the event has probability 0, so nothing can be said given it. Its cells are "
        "outside the support or vanish."
    )


def size_of(n: int) -> int:
    """Read how many cells to draw."""
    if not is_whole(n, 0):
        raise InvalidQuery(f"sample({n!r}): the number of cells must be an integer >= 0.")
    return int(n)


def generator_from(rng: int | np.random.Generator | None, error: type[Exception] = InvalidQuery) -> np.random.Generator:
    """Read a source of random numbers."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if not is_whole(rng, 0):
        raise error(f"rng must be None, an integer >= 0 or a numpy.random.Generator, got {rng!r}.")
    return np.random.default_rng(int(rng))


def values_of(f: ArrayLike, shape: tuple[int, ...]) -> AnyArray:
    """Read the values of a function on the grid."""
    values = rectangular(f, "expectation: f", InvalidQuery)
    _check_real(values)
    if values.shape != shape:
        raise InvalidQuery(f"expectation: f has shape {values.shape}, X has shape {shape}; they must be equal.")
    return values


def called(f: Callable[..., ArrayLike], shape: tuple[int, ...], rows: slice) -> AnyArray:
    """Call f with the coordinates of some rows, each as an array along its own mode."""
    starts = [rows.start] + [0] * (len(shape) - 1)
    block = (rows.stop - rows.start, *shape[1:])
    coordinates = np.ix_(*(np.arange(start, start + size) for start, size in zip(starts, block, strict=True)))
    return returned(f(*coordinates), block)


def returned(values: ArrayLike, shape: tuple[int, ...]) -> AnyArray:
    """Read what f returned for cells of some shape."""
    found = rectangular(values, "expectation: what f returned", InvalidQuery)
    _check_real(found)
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise InvalidQuery(
            f"expectation: f returned shape {found.shape} for cells of shape {shape}; it must broadcast to that."
        ) from None


def _check_real(values: AnyArray) -> None:
    if values.dtype.kind not in "biuf":
        raise InvalidQuery(f"expectation: f has dtype {values.dtype}; it must hold real numbers.")


def _mode(name: str, mode: Any, order: int) -> int:
    if not is_whole(mode, 0) or mode >= order:
        raise InvalidQuery(f"{name}: {mode!r} is no mode of X, which has {order}, counted from 0 to {order - 1}.")
    return int(mode)
