"""Prescribed margins: from whatever the caller has to checked ones that agree; and a tensor made to have them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.interactions import look_up_modes, mode_sets
from legendre.core.arguments import check_number, entries, is_whole
from legendre.core.cells import cell_name, freeze
from legendre.core.errors import InvalidBasis, InvalidMargins
from legendre.core.labels import Labels, Mode
from legendre.core.origin import read_array
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.data.checks import check_range, finder, first_cell, unmask
from legendre.data.readers.labelled import unwrap
from legendre.engines.protocol import Point
from legendre.model.model import Model, Modes

MarginsLike = Mapping[Any, Any] | Sequence[ArrayLike]
"""Keys are modes or tuples of modes: a mapping's key type is invariant, so no narrower type fits both."""


@dataclass(frozen=True, eq=False)
class Margins:
    """Margins that agree with each other."""

    values: dict[Modes, FloatArray]  # by sets of modes (sorted), in the caller's units
    total: float  # the sum of each of them

    @property
    def largest_sets(self) -> list[Modes]:
        """The sets of modes that are not part of another one."""
        return [s for s in self.values if not any(set(s) < set(t) for t in self.values)]

    def normalise(self) -> dict[Modes, FloatArray]:
        """Return the margins of the largest sets, each divided by its own sum."""
        return {modes: freeze(self.values[modes] / self.values[modes].sum()) for modes in self.largest_sets}

    def largest_error(self, tensor: FloatArray, *, relative: bool) -> float:
        """Return the largest error of a margin of a tensor; if relative, as a share of that margin's largest entry."""
        return max(
            float(np.abs(margin_of(tensor, modes) - wanted).max()) / (float(wanted.max()) if relative else 1.0)
            for modes, wanted in self.values.items()
        )


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
        sets = _read_sets(modes, labels)
        shapes = [tuple(labels.shape[k] for k in group) for group in sets]
        size = float(math.prod(shapes[0]))
        scale = size if total is None else check_number(total, "total", above=0, error=InvalidMargins)
        pairs = zip(sets, shapes, strict=True)
        return Margins({group: np.full(shape, scale / math.prod(shape)) for group, shape in pairs}, scale)
    if modes is not None or total is not None:
        raise InvalidMargins("modes and total describe uniform margins; leave them out when margins are given.")
    if isinstance(margins, (list, tuple)) and len(margins) == len(labels.shape):
        margins = dict(enumerate(margins))
    if not isinstance(margins, Mapping) or not margins:
        raise InvalidMargins(
            f"margins must be a dict such as {{0: row_sums, 1: column_sums}}, or a list of {len(labels.shape)} one-way "
            f"margins, one per mode of X; got {margins!r:.80}."
        )
    values: dict[Modes, FloatArray] = {}
    for key, given in margins.items():
        group = _read_set(key, labels)
        ordered = tuple(sorted(group))
        if ordered in values:
            raise InvalidMargins(f"the margin of modes {key_of(ordered)} is given twice.")
        values[ordered] = freeze(_read_margin(group, given, labels).transpose(np.argsort(group)))
    _check_agreement(values, tol)
    return Margins(values, float(next(iter(values.values())).sum()))


def _read_sets(modes: int | Iterable[Iterable[Mode]] | None, labels: Labels) -> list[Modes]:
    order = len(labels.shape)
    if modes is None or (is_whole(modes, 1) and modes <= order):
        return list(combinations(range(order), 1 if modes is None else int(modes)))
    sets = entries(modes)
    if not sets:
        raise InvalidMargins(
            f"modes must be an order from 1 to {order} or sets of modes such as [(0, 1)], got {modes!r}. "
            "Margins of your own go to margins, e.g. {0: row_sums}."
        )
    return [tuple(sorted(_read_set(group, labels))) for group in sets]


def _read_set(group: object, labels: Labels) -> Modes:
    """Read one set of modes: a mode, by number or name, or a tuple of them."""
    try:
        several: Any = (group,) if is_whole(group) or isinstance(group, str) else group
        [found] = look_up_modes("margins", mode_sets("margins", [several]), len(labels.shape), labels)
    except InvalidBasis as trouble:
        raise InvalidMargins(str(trouble)) from None
    if not found:
        raise InvalidMargins(f"margins: a margin is named by its modes, e.g. 0 or (0, 1); got {group!r}.")
    return found


def _read_margin(group: Modes, given: Any, labels: Labels) -> FloatArray:
    """Check one margin, and bring levels that it names into the order of X."""
    name, expected = f"margin {key_of(group)}", tuple(labels.shape[k] for k in group)
    values = read_array(unmask(_order_levels(labels.part(group), given, name)), name, InvalidMargins)
    if values.dtype.kind not in "iuf":
        raise InvalidMargins(f"{name} has dtype {values.dtype}; its entries must be numbers.")
    if values.shape != expected:
        raise InvalidMargins(
            f"{name} has shape {values.shape}; X has shape {labels.shape}, so its margin over modes {key_of(group)} "
            f"has shape {expected}."
        )
    numbers = values.astype(np.float64)
    wrong = ~(np.isfinite(numbers) & (numbers >= 0))
    if wrong.any():
        place = first_cell(wrong)
        raise InvalidMargins(f"{name}{cell_name(place)} = {numbers[place]:g}; entries must be finite and >= 0.")
    if not numbers.any():
        raise InvalidMargins(f"{name} sums to 0; the total must be > 0.")
    check_range(float(numbers[numbers > 0].min()), float(numbers.max()), finder(numbers), name, InvalidMargins)
    return numbers


def _order_levels(labels: Labels, given: Any, name: str) -> Any:
    """Bring a margin with labels (a mapping of levels, a Series, a DataArray, a table) into X's order of levels."""
    if isinstance(given, Mapping):
        if len(labels.shape) > 1:
            raise InvalidMargins(f"{name} is a mapping; that of several modes is an array, a table or a DataArray.")
        own, values = Labels.read((len(given),), None, [list(given)]), np.array(list(given.values()))
    else:
        values, origin = unwrap(given)
        if origin.labels is None or labels.levels is None or tuple(np.shape(values)) != labels.shape:
            return values
        own = origin.labels
    for axis, size in enumerate(labels.shape):
        places = [labels.find_level(axis, value, name, InvalidMargins) for value in own.levels_of(axis).tolist()]
        if lost := set(range(size)).difference(places):
            raise InvalidMargins(f"{name} has no entry for {labels.level(axis, min(lost))!r}.")
        values = np.take(values, np.argsort(places), axis=axis)
    return values


def _check_agreement(values: dict[Modes, FloatArray], tol: float, rounding: float = 1e-12) -> None:
    """Compare the sums of each two margins over the modes that they do not share: at least the totals must agree.

    Margins of one tensor, summed in different orders, differ by up to `rounding` times their largest entry.
    """
    for (a, first), (b, second) in combinations(values.items(), 2):
        shared = tuple(k for k in a if k in b)
        one, other = (
            np.asarray(margin_of(margin, tuple(i for i, k in enumerate(group) if k in shared)))
            for margin, group in ((first, a), (second, b))
        )
        off = np.abs(one - other)
        if off.max() <= max(tol, rounding) * one.max():
            continue
        place = np.unravel_index(int(off.argmax()), off.shape)
        sums = f"{one[place]:.12g} and {other[place]:.12g}"
        text = f"have different sums, {sums}. Both are the sum of one tensor: rescale one of them."
        if shared:
            where = f"the margin over modes {key_of(shared)}: {sums} at {cell_name(place)}"
            text = f"disagree about what they share, {where}."
        raise InvalidMargins(f"margins {key_of(a)} and {key_of(b)} {text}")


def share_out(model: Model, point: Point, margins: Margins) -> dict[Modes, FloatArray]:
    """Turn theta into log factors: a parameter goes to the first margin with its modes, ``-psi`` to the first."""
    left = np.ones(model.n_params, dtype=np.bool_)
    out: dict[Modes, FloatArray] = {}
    for modes in margins.largest_sets:
        own = left & ~(model.positions[:, other_modes(modes, model.positions.shape[1])] > 0).any(axis=1)
        left &= ~own
        grid = np.zeros(margins.values[modes].shape)
        grid[tuple(model.positions[own][:, modes].T)] = point.theta[own]
        part = zeta(grid)
        if not out:
            part += np.log(margins.total) - point.psi
        part[margins.values[modes] == 0] = -np.inf
        out[modes] = part
    return out


def multiply(
    X: AnyArray, log_factors: dict[Modes, FloatArray], alive: BoolArray | None, widest: float = 400.0
) -> FloatArray:
    """Multiply X by the factors; 0 outside the face. In logarithms if factors may overflow: above ``exp(widest)``."""
    logs = [np.expand_dims(part, other_modes(modes, X.ndim)) for modes, part in log_factors.items()]
    out = X.astype(np.float64)
    if sum(float(np.abs(log[np.isfinite(log)]).max(initial=0.0)) for log in logs) > widest:
        with np.errstate(divide="ignore"):
            out = np.exp(sum(logs, np.log(out)))
    else:
        for log in logs:
            out *= np.exp(log)
    if alive is not None:
        out[~alive] = 0.0
    return out


def polish(
    X: AnyArray,
    alive: BoolArray | None,
    log_factors: dict[Modes, FloatArray],
    margins: Margins,
    tol: float,
    cycles: int,
) -> tuple[FloatArray, dict[Modes, FloatArray], float]:
    """Multiply, then lower errors of the margins above tol, which rounding left, by a few cycles of scaling.

    Return the tensor, its log factors and the largest error. A cycle counts if it helps.
    """
    tensor = multiply(X, log_factors, alive)
    error = margins.largest_error(tensor, relative=True)
    for _ in range(cycles):
        if error <= tol:
            break
        trial, logs = tensor.copy(), {}
        for modes, part in log_factors.items():
            current, wanted = margin_of(trial, modes), margins.values[modes]
            ratio = np.divide(wanted, current, out=np.ones_like(current), where=(current > 0) & (wanted > 0))
            trial *= np.expand_dims(ratio, other_modes(modes, tensor.ndim))
            logs[modes] = part + np.log(ratio)
        after = margins.largest_error(trial, relative=True)
        if not after < error:
            break
        tensor, log_factors, error = trial, logs, after
    return tensor, log_factors, error
