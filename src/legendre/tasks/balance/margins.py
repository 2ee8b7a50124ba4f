"""Prescribed margins: from whatever the caller has to checked ones that agree with each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.interactions import found_modes, mode_sets
from legendre.core.arguments import entries, is_real, is_whole
from legendre.core.array_libraries import rectangular
from legendre.core.cells import cell_name, frozen
from legendre.core.errors import InvalidBasis, InvalidMargins
from legendre.core.labels import Labels, Mode
from legendre.core.types import FloatArray
from legendre.data.readers.labelled import opened
from legendre.model.margins import Modes

SUMMATION = 1e-12  # margins of one tensor, summed in different orders, agree to this share of their largest entry
MarginsLike = Mapping[Any, Any] | Sequence[ArrayLike]
"""Keys are modes or tuples of modes: a mapping's key type is invariant, so that no narrower type fits both."""


@dataclass(frozen=True, eq=False)
class Margins:
    """Margins that agree with each other."""

    values: dict[Modes, FloatArray]  # by sets of modes (sorted), in the caller's units
    total: float  # the sum of each of them

    @property
    def largest_sets(self) -> list[Modes]:
        """The sets of modes that are not part of another one."""
        return [s for s in self.values if not any(set(s) < set(t) for t in self.values)]

    def normalised(self) -> dict[Modes, FloatArray]:
        """Return the margins of the largest sets, each divided by its own sum."""
        return {modes: frozen(self.values[modes] / self.values[modes].sum()) for modes in self.largest_sets}

    def errors(self, tensor: FloatArray) -> dict[Modes, float]:
        """Return the largest absolute error of each margin of a tensor."""
        return {modes: float(np.abs(margin_of(tensor, modes) - want).max()) for modes, want in self.values.items()}

    def worst(self, tensor: FloatArray) -> float:
        """Return the largest error of a margin, as a share of the margin's largest entry."""
        return max(error / float(self.values[modes].max()) for modes, error in self.errors(tensor).items())


def margin_of(tensor: FloatArray, modes: Modes) -> FloatArray:
    """Sum a tensor over all modes but the given ones."""
    sums: FloatArray = tensor.sum(axis=other_modes(modes, tensor.ndim))
    return sums


def other_modes(modes: Modes, order: int) -> Modes:
    """List the modes that are not among the given ones."""
    return tuple(k for k in range(order) if k not in modes)


def key_of(modes: Modes) -> int | Modes:
    """Write a single mode as an integer, as a caller does."""
    return modes[0] if len(modes) == 1 else modes


def read_margins(
    margins: MarginsLike | None,
    modes: int | Iterable[Iterable[Mode]] | None,
    total: float | None,
    labels: Labels,
    tol: float,
) -> Margins:
    """Read and check margins for a tensor with these modes and levels; ``margins=None`` makes uniform ones."""
    if margins is None:
        return _uniform(_sets(modes, labels), total, labels.shape)
    if modes is not None or total is not None:
        raise InvalidMargins("modes and total describe uniform margins; leave them out when margins are given.")
    values = dict(_one(group, given, labels) for group, given in _pairs(margins, labels))
    _check_agreement(values, tol)
    return Margins(values, float(next(iter(values.values())).sum()))


def _sets(modes: int | Iterable[Iterable[Mode]] | None, labels: Labels) -> list[Modes]:
    order = len(labels.shape)
    if modes is None:
        return [(k,) for k in range(order)]
    if is_whole(modes, 1) and modes <= order:
        return list(combinations(range(order), int(modes)))
    groups = entries(modes)
    if groups is None:
        raise InvalidMargins(
            f"modes must be an order from 1 to {order} or sets of modes such as [(0, 1)], got {modes!r}. "
            "Margins of your own go to margins, e.g. {0: row_sums}."
        )
    return [_group(group, labels) for group in groups]


def _group(group: object, labels: Labels) -> Modes:
    """Read one set of modes: a mode, by number or name, or a tuple of them."""
    try:
        several: Any = (group,) if is_whole(group) or isinstance(group, str) else group
        sets = mode_sets("margins", [several])
        [read] = found_modes("margins", sets, len(labels.shape), labels)
    except InvalidBasis as trouble:
        raise InvalidMargins(str(trouble)) from None
    if not read:
        raise InvalidMargins(f"margins: a margin is named by its modes, e.g. 0 or (0, 1); got {group!r}.")
    return read


def _uniform(sets: list[Modes], total: float | None, shape: tuple[int, ...]) -> Margins:
    if not sets:
        raise InvalidMargins("modes is empty: name at least one set of modes, e.g. [(0,), (1,)].")
    sizes = [math.prod(shape[k] for k in group) for group in sets]
    scale = float(sizes[0]) if total is None else total
    if not is_real(scale) or not 0 < scale < np.inf:
        raise InvalidMargins(f"total must be a finite number > 0, got {total!r}.")
    pairs = zip(sets, sizes, strict=True)
    values = {tuple(sorted(s)): np.full([shape[k] for k in sorted(s)], float(scale) / size) for s, size in pairs}
    return Margins(values, float(scale))


def _pairs(margins: MarginsLike, labels: Labels) -> list[tuple[Modes, ArrayLike]]:
    order = len(labels.shape)
    if isinstance(margins, Mapping):
        if not margins:
            raise InvalidMargins("margins is empty: prescribe at least one, e.g. {0: row_sums, 1: column_sums}.")
        pairs = [(_group(key, labels), given) for key, given in margins.items()]
        names = [tuple(sorted(group)) for group, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidMargins(f"the margin of modes {key_of(twice[0])} is given twice.")
        return pairs
    if not isinstance(margins, (list, tuple)) or len(margins) != order:
        raise InvalidMargins(
            f"margins must be a dict such as {{0: row_sums, 1: column_sums}}, or a list of {order} one-way margins, "
            f"one per mode of X; got {type(margins).__name__}"
            + (f" of length {len(margins)}." if isinstance(margins, (list, tuple)) else ".")
        )
    return [((k,), given) for k, given in enumerate(margins)]


def _one(group: Modes, given: Any, labels: Labels) -> tuple[Modes, FloatArray]:
    """Check one margin and bring its modes, and levels that it names, into the order of X."""
    name, shape = f"margin {key_of(group)}", labels.shape
    given = _in_order_of(labels.part(group), given, name)
    if isinstance(given, np.ma.MaskedArray):
        raise InvalidMargins(f"{name} is a masked array; every entry of a margin must be known.")
    values = rectangular(given, name, InvalidMargins)
    if values.dtype.kind not in "iuf":
        raise InvalidMargins(f"{name} has dtype {values.dtype}; its entries must be numbers.")
    expected = tuple(shape[k] for k in group)
    if values.shape != expected:
        raise InvalidMargins(
            f"{name} has shape {values.shape}; X has shape {shape}, so its margin over modes {key_of(group)} has shape "
            f"{expected}."
        )
    numbers = values.astype(np.float64)
    for wrong, what in ((np.isnan(numbers), "NaN"), (np.isinf(numbers), "infinite"), (numbers < 0, "negative")):
        if wrong.any():
            place = np.argwhere(wrong)[0]
            raise InvalidMargins(
                f"{name} is {what} at {cell_name(place)} = {numbers[tuple(place)]:g}; margins of a nonnegative tensor "
                "are finite and >= 0."
            )
    with np.errstate(over="ignore"):
        sum_ = float(numbers.sum())
    if not 0 < sum_ < np.inf:
        raise InvalidMargins(f"{name} sums to {sum_:g}; the total must be finite and > 0.")
    return tuple(sorted(group)), frozen(numbers.transpose(np.argsort(group)))


def _in_order_of(labels: Labels, given: Any, name: str) -> Any:
    """Bring a margin with labels (a mapping of levels, a Series, a DataArray, a table) into X's order of levels."""
    if isinstance(given, Mapping):
        if len(labels.shape) > 1:
            raise InvalidMargins(f"{name} is a mapping; that of several modes is an array, a table or a DataArray.")
        own, values = Labels.read((len(given),), None, [list(given)]), np.array(list(given.values()))
    else:
        values, origin = opened(given)
        if origin.labels is None or labels.levels is None or tuple(np.shape(values)) != labels.shape:
            return values
        own = origin.labels
    for axis in range(len(labels.shape)):
        theirs = own.levels_of(axis)
        if len(theirs) != labels.shape[axis]:
            lost = next((i for i, v in enumerate(labels.levels_of(axis).tolist()) if v not in theirs.tolist()), None)
            text = "names levels that X has not" if lost is None else f"has no entry for {labels.level(axis, lost)!r}"
            raise InvalidMargins(f"{name} {text}: X has {labels.shape[axis]} levels, the margin {len(theirs)}.")
        places = [labels.find_level(axis, value, name, InvalidMargins) for value in theirs.tolist()]
        values = np.take(values, np.argsort(places), axis=axis)
    return values


def _check_agreement(values: dict[Modes, FloatArray], tol: float) -> None:
    """Compare the sums of each two margins over the modes that they do not share: at least the totals must agree."""
    for (a, first), (b, second) in combinations(values.items(), 2):
        shared = tuple(k for k in a if k in b)
        one, other = (
            np.asarray(margin_of(margin, tuple(i for i, k in enumerate(group) if k in shared)))
            for margin, group in ((first, a), (second, b))
        )
        off = np.abs(one - other)
        if off.max() <= max(tol, SUMMATION) * one.max():
            continue
        place = np.unravel_index(int(off.argmax()), off.shape)
        pair = f"margins {key_of(a)} and {key_of(b)}"
        if not shared:
            raise InvalidMargins(
                f"{pair} have different sums, {float(one):.12g} and {float(other):.12g}. Both are the sum of one "
                "tensor: rescale one of them."
            )
        raise InvalidMargins(
            f"{pair} disagree about their common margin over modes {key_of(shared)}: at {cell_name(place)} the first "
            f"sums to {one[place]:.12g}, the second to {other[place]:.12g}."
        )
