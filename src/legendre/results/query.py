"""Marginals, conditionals, expectations and samples of Q: arguments are checked here, before Q computes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import entries, generator_from, is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.cells import cell_name
from legendre.core.errors import ImpossibleEvent, InvalidQuery
from legendre.core.memory import check_room
from legendre.core.types import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from legendre.results.on_cliques import OnCliques
    from legendre.results.on_grid import OnGrid


def marginal(q: OnGrid | OnCliques, modes: int | Sequence[int], given: Mapping[int, int] | None = None) -> FloatArray:
    """Sum Q, or Q given the indices of other modes, over all modes but the given ones."""
    shape = q.model.support.shape
    listed = [modes] if isinstance(modes, (int, np.integer)) else entries(modes)
    if listed is None:
        raise InvalidQuery(f"marginal({modes!r}): pass a mode such as 0, or modes such as [0, 2].")
    kept = [_mode("marginal", k, len(shape)) for k in listed]
    if len(set(kept)) < len(kept):
        raise InvalidQuery(f"marginal({kept}) names a mode twice.")
    at = {} if given is None else _event(given, shape)
    if clash := sorted(set(kept) & set(at)):
        raise InvalidQuery(f"marginal: mode {clash[0]} is asked for and given.")
    return q.marginal(kept, at)


def condition(q: OnGrid | OnCliques, event: Mapping[int, int]) -> FloatArray:
    """Give Q on the modes left when the others are fixed."""
    shape = q.model.support.shape
    at = _event(event, shape)
    return q.marginal([k for k in range(len(shape)) if k not in at], at)


def expectation(
    q: OnGrid | OnCliques, f: ArrayLike | Callable[..., ArrayLike], modes: int | Sequence[int] | None = None
) -> float:
    """Sum ``q f`` over the cells with probability."""
    if modes is None:
        return q.expectation(f)
    table = marginal(q, modes)
    if not table.ndim:
        raise InvalidQuery("expectation: modes is empty; name the modes that f depends on.")
    every = slice(0, table.shape[0])
    return summed(table, called(f, table.shape, every) if callable(f) else values_of(f, table.shape))


def sample(q: OnGrid | OnCliques, n: int, rng: int | np.random.Generator | None) -> IntArray:
    """Draw cells from Q."""
    if not is_whole(n, 0):
        raise InvalidQuery(f"sample({n!r}): the number of cells must be an integer >= 0.")
    order = len(q.model.support.shape)
    # the cells and their boxes, one number that is drawn, its place
    check_room(int(n), 8 * (2 * order + 2), "sample: a list", "Draw fewer at a time, and pass the same generator on.")
    return q.sample(int(n), generator_from(rng, InvalidQuery))


def _event(event: Mapping[int, int], shape: tuple[int, ...]) -> dict[int, int]:
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


def _mode(name: str, mode: Any, order: int) -> int:
    if not is_whole(mode, 0) or mode >= order:
        raise InvalidQuery(f"{name}: {mode!r} is no mode of X, which has {order}, counted from 0 to {order - 1}.")
    return int(mode)


def impossible(at: Mapping[int, int]) -> ImpossibleEvent:
    """Make the error for an event of probability 0."""
    event = ", ".join(f"{k}: {i}" for k, i in at.items())
    return ImpossibleEvent(
        f"condition({{{event}}}): the event has probability 0, so nothing can be said given it. Its cells are "
        "outside the support or vanish."
    )


def values_of(f: ArrayLike, shape: tuple[int, ...]) -> AnyArray:
    """Read the values of a function on the grid."""
    values = _real(f, "expectation: f")
    if values.shape != shape:
        raise InvalidQuery(f"expectation: f has shape {values.shape}, X has shape {shape}; they must be equal.")
    return values


def called(f: Callable[..., ArrayLike], shape: tuple[int, ...], rows: slice) -> AnyArray:
    """Call f with the coordinates of some rows, each as an array along its own mode."""
    sides = [np.arange(rows.start, rows.stop), *(np.arange(n) for n in shape[1:])]
    return returned(f(*np.ix_(*sides)), tuple(map(len, sides)))


def returned(values: ArrayLike, shape: tuple[int, ...]) -> AnyArray:
    """Read what f returned for cells of some shape."""
    found = _real(values, "expectation: what f returned")
    try:
        return np.broadcast_to(found, shape)
    except ValueError:
        raise InvalidQuery(
            f"expectation: f returned shape {found.shape} for cells of shape {shape}; it must broadcast to that."
        ) from None


def _real(f: ArrayLike, name: str) -> AnyArray:
    values = rectangular(f, name, InvalidQuery)
    if values.dtype.kind not in "biuf":
        raise InvalidQuery(f"expectation: f has dtype {values.dtype}; it must hold real numbers.")
    return values


def summed(q: FloatArray, values: AnyArray, start: int = 0, cells: IntArray | None = None) -> float:
    """Sum ``q f`` over a table of probabilities with first row `start`, or over a list of cells."""
    bad = np.argwhere(~np.isfinite(values) & (q > 0))
    if len(bad):
        place = [bad[0][0] + start, *bad[0][1:]] if cells is None else cells[bad[0][0]]
        raise InvalidQuery(
            f"expectation: f{cell_name(place)} = {values[tuple(bad[0])]}; f must be finite wherever Q is positive. "
            "Cells of probability 0 do not count."
        )
    return float(np.sum(q * np.where(q > 0, values, 0.0)))
