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
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room
from legendre.core.types import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    from legendre.results.on_cliques import OnCliques
    from legendre.results.on_grid import OnGrid


def asked(
    labels: Labels, modes: Mode | Sequence[Mode], given: Mapping[Any, Any] | None = None
) -> tuple[list[int], dict[int, int]]:
    """Read which modes are asked for, and which are fixed at which index."""
    listed = [modes] if isinstance(modes, (int, np.integer, str)) else entries(modes)
    if listed is None:
        raise InvalidQuery(f"marginal({modes!r}): pass a mode such as 0, or modes such as [0, 2].")
    kept = [labels.find_mode(k, "marginal") for k in listed]
    if len(set(kept)) < len(kept):
        raise InvalidQuery(f"marginal({listed}) names a mode twice.")
    at = {} if given is None else event(labels, given)
    if clash := sorted(set(kept) & set(at)):
        name = f"mode {clash[0]}" if labels.names is None else f"mode {labels.names[clash[0]]!r}"
        raise InvalidQuery(f"marginal: {name} is asked for and given.")
    return kept, at


def expectation(
    q: OnGrid | OnCliques,
    labels: Labels,
    f: ArrayLike | Callable[..., ArrayLike],
    modes: Mode | Sequence[Mode] | None = None,
) -> float:
    """Sum ``q f`` over the cells with probability."""
    if modes is None and not callable(f) and labels.order is not None:
        return q.expectation(labels.arrange(values_of(f, labels.shape)))
    if modes is None:
        return q.expectation(_of_indices(f, labels) if callable(f) else f)
    kept, _ = asked(labels, modes)
    table = q.marginal(kept, {})
    if not table.ndim:
        raise InvalidQuery("expectation: modes is empty; name the modes that f depends on.")
    if not callable(f):
        return summed(table, labels.part(kept).arrange(values_of(f, table.shape)))
    return summed(table, called(_of_indices(f, labels.part(kept)), table.shape, slice(0, table.shape[0])))


def _of_indices(f: Callable[..., ArrayLike], labels: Labels) -> Callable[..., ArrayLike]:
    """Make a function of labels one of indices."""
    if labels.levels is None and labels.order is None:
        return f

    def of_indices(*indices: AnyArray) -> ArrayLike:
        return f(*(labels.levels_of(k)[i] for k, i in enumerate(indices)))

    return of_indices


def sample(q: OnGrid | OnCliques, n: int, rng: int | np.random.Generator | None) -> IntArray:
    """Draw cells from Q."""
    if not is_whole(n, 0):
        raise InvalidQuery(f"sample({n!r}): the number of cells must be an integer >= 0.")
    order = len(q.model.support.shape)
    # the cells and their boxes, one number that is drawn, its place
    check_room(int(n), 8 * (2 * order + 2), "sample: a list", "Draw fewer at a time, and pass the same generator on.")
    return q.sample(int(n), generator_from(rng, InvalidQuery))


def marginal(q: OnGrid | OnCliques, labels: Labels, kept: list[int], at: dict[int, int]) -> FloatArray:
    """Sum Q over the modes that are neither kept nor fixed, given those that are fixed."""
    try:
        return q.marginal(kept, at)
    except ImpossibleEvent:
        raise impossible(at, labels) from None


def event(labels: Labels, given: Mapping[Any, Any]) -> dict[int, int]:
    """Read an event: the index of each mode that is fixed."""
    if not isinstance(given, Mapping):
        raise InvalidQuery(f"condition({given!r}): pass a dict such as {{0: 2}}, mode 0 fixed at index 2.")
    at: dict[int, int] = {}
    for key, level in given.items():
        k = labels.find_mode(key, "condition")
        if k in at:
            raise InvalidQuery(f"condition: {labels.mode(k)} is given twice.")
        at[k] = labels.find_level(k, level, "condition")
    return at


def cells_by_labels(labels: Labels, cells: Any, read: AnyArray) -> IntArray | None:
    """Find cells that a caller names by labels; ``None`` where `read`, the array made of them, holds only numbers."""
    if labels.levels is None or read.dtype.kind in "biufc":
        return None
    rows = np.atleast_2d(np.array(cells, dtype=object))  # as NumPy reads it, numbers beside texts are texts
    if rows.ndim != 2 or rows.shape[1] != len(labels.shape):
        return None
    found = np.empty(rows.shape, dtype=np.int64)
    for k, column in enumerate(rows.T.tolist()):
        place = {value: labels.find_level(k, value, "log_prob") for value in dict.fromkeys(column)}
        found[:, k] = [place[value] for value in column]
    return found


def impossible(at: Mapping[int, int], labels: Labels | None = None) -> ImpossibleEvent:
    """Make the error for an event of probability 0."""
    if labels is None or not labels.given:
        event = ", ".join(f"{k}: {i}" for k, i in at.items())
    else:
        event = ", ".join(f"{labels.mode(k)}: {labels.level(k, i)}" for k, i in at.items())
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
