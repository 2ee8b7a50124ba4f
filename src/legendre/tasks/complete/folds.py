"""Which observed cells are held out in turn: in the shapes in which cells are missing, unless the caller says which."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from legendre.core.arguments import entries
from legendre.core.errors import InvalidSetting
from legendre.core.labels import Labels, Mode
from legendre.core.types import BoolArray, FloatArray, IntArray

HoldOut = Mode | Sequence[Mode] | None  # "cells", the modes of the fibres that are held out, or None: like the gaps
Rng = int | np.random.Generator | None  # the same integer always deals in the same way, ``None`` never does
Modes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Folds:
    """Observed cells that are held out together.

    Parameters
    ----------
    shapes, shares
        The shapes of what is held out, the modes of a fibre or none for single cells; and each one's share of the
        missing cells.
    gaps
        For each cell that is missing the number of its shape, -1 for the others.
    held
        For each fold the number of the shape as part of which a cell is held out, -1 for cells that stay. Folds
        that are empty, or without which X would be zero everywhere, are left out.
    """

    shapes: tuple[Modes, ...]
    shares: FloatArray
    gaps: IntArray
    held: tuple[IntArray, ...]

    def name(self, labels: Labels) -> str:
        """Name the shapes in words."""
        modes = [", ".join(str(labels.names[k] if labels.names else k) for k in shape) for shape in self.shapes]
        named = [f"fibres along mode {listed}" if listed else "cells" for listed in modes]
        texts = [f"{name} ({share:.0%})" for name, share in zip(named, self.shares, strict=True)]
        return named[0] if len(named) == 1 else ", ".join(texts)


Dealer = Callable[[FloatArray, BoolArray], Folds]  # `deal` with what the caller asked for


def deal(
    values: FloatArray, seen: BoolArray, n_folds: int | None = None, along: Modes | None = None, rng: Rng = 0
) -> Folds:
    """Deal the observed cells into folds; the order of the modes makes no difference.

    Each fold holds out as large a share of the observed cells as every other, and of each shape as large a share as it
    has among the missing cells.

    Parameters
    ----------
    values, seen
        X, and which of its cells were observed.
    n_folds
        The number of folds; at most five where the caller does not say.
    along
        The modes of the fibres that are held out; none for single cells; ``None``: like the gaps.
    rng
        Where random numbers come from.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0, 3.0], [np.nan, 1.0, 5.0]])
    >>> dealt = deal(X, ~np.isnan(X), 2)
    >>> dealt.shapes, dealt.held[0].tolist()
    (((),), [[-1, -1, 0], [-1, 0, 0]])
    """
    order = canonical_order(values, seen)
    back, inside, x = np.argsort(order), seen.transpose(order), values.transpose(order)
    shapes, gaps = _shapes_of_gaps(inside)
    if along is not None:
        shapes, gaps = [tuple(sorted(order.index(k) for k in along))], np.where(inside, -1, 0)
    missing = np.bincount(gaps[~inside], minlength=len(shapes))
    shares = missing / missing.sum() if missing.any() else np.ones(1)
    groups = [_groups(inside.shape, shape) for shape in shapes]
    n_groups = max(len(np.unique(group[inside])) for group in groups)
    n_folds = min(5, n_groups) if n_folds is None else n_folds
    if n_folds > n_groups:
        what = "fibres with an observed cell" if along else "observed cells"
        raise InvalidSetting(f"folds={n_folds} needs at least as many {what}; X has {n_groups}.")
    held = np.full((n_folds, *inside.shape), -1)
    rng = np.random.default_rng(rng)
    for number, (group, share) in enumerate(zip(groups, shares, strict=True)):
        sizes = np.bincount(group[inside], minlength=group.max() + 1)
        mixed = rng.permutation(np.flatnonzero(sizes))
        before = np.cumsum(sizes[mixed]) - sizes[mixed]
        turn = np.full(len(sizes), n_folds)
        turn[mixed] = before * n_folds // max(sizes.sum() * share, 1.0)
        for fold in range(n_folds):
            held[fold][inside & (held[fold] < 0) & (turn[group] == fold)] = number
    useful = [fold for fold in held if (fold >= 0).any() and (x[inside & (fold < 0)] > 0).any()]
    return Folds(
        tuple(tuple(sorted(order[k] for k in shape)) for shape in shapes),
        shares,
        gaps.transpose(back),
        tuple(fold.transpose(back) for fold in useful),
    )


def canonical_order(values: FloatArray, seen: BoolArray) -> tuple[int, ...]:
    """List the modes in an order that does not depend on theirs: by length, then by what was observed."""

    def signature(k: int) -> tuple[int, int, str]:
        others, places = tuple(j for j in range(seen.ndim) if j != k), np.arange(1, seen.shape[k] + 1)
        sums = np.where(seen, values, 0.0).sum(axis=others)
        # rounding depends on the order of a sum
        return seen.shape[k], int(places @ seen.sum(axis=others) ** 2), f"{float(places @ sums):.9e}"

    return tuple(sorted(range(seen.ndim), key=signature))


def _shapes_of_gaps(seen: BoolArray, least: float = 0.02) -> tuple[list[Modes], IntArray]:
    """Find the shapes of gaps: for each missing cell the largest fibre through it of which nothing was observed.

    A shape with less than the share `least` of the missing cells counts as the next smaller one.
    """
    every = chain.from_iterable(combinations(range(seen.ndim), size) for size in range(seen.ndim))
    left, shapes, gaps = ~seen, list[Modes](), np.full(seen.shape, -1)
    for shape in sorted(every, key=lambda shape: -math.prod(seen.shape[k] for k in shape)):
        found = left & ~seen.any(axis=shape, keepdims=True) if shape else left
        if np.count_nonzero(found) > least * np.count_nonzero(~seen):
            gaps[found], left = len(shapes), left & ~found
            shapes.append(shape)
    gaps[left] = len(shapes) - 1
    return shapes or [()], gaps


def _groups(shape: tuple[int, ...], along: Modes) -> IntArray:
    """Give the cells of each fibre along some modes a number that they share."""
    short = [1 if k in along else n for k, n in enumerate(shape)]
    return np.broadcast_to(np.arange(math.prod(short)).reshape(short), shape)


def read_modes(hold_out: HoldOut, labels: Labels) -> Modes | None:
    """Read what the caller wants to be held out together."""
    if hold_out is None:
        return None
    if isinstance(hold_out, str) and hold_out == "cells":
        return ()
    listed = [hold_out] if isinstance(hold_out, (str, int, np.integer)) else entries(hold_out)
    if listed is None or (labels.names is None and any(isinstance(mode, str) for mode in listed)):
        named = "" if labels.names else " Modes of X have no names: count them from 0, or pass names=."
        raise InvalidSetting(f"hold_out must be 'cells', a mode or several modes; got {hold_out!r}.{named}")
    order, modes = len(labels.shape), {labels.find_mode(mode, "hold_out", InvalidSetting) for mode in listed}
    if not modes or len(modes) == order:
        raise InvalidSetting(f"hold_out={hold_out!r}: fibres run along at least one mode and not along all {order}.")
    return tuple(sorted(modes))
