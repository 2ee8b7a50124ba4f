"""Which observed cells are held out in turn: in the shapes in which cells are missing, unless the caller says which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from legendre.core.arguments import check_int, entries, generator_from
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
    shapes
        The shapes of what is held out: the modes of a fibre, none for single cells.
    gaps
        For each cell that is missing the number of its shape, -1 for the others.
    held
        For each fold the number of the shape as part of which a cell is held out, -1 for cells that stay.
    name
        The shapes in words.
    """

    shapes: tuple[Modes, ...]
    gaps: IntArray
    held: tuple[IntArray, ...]
    name: str


@dataclass(frozen=True)
class Folding:
    """How to deal observed cells into folds."""

    n_folds: int | None = None  # at most five, where the caller does not say
    along: Modes | None = None  # the modes of the fibres; none for single cells; ``None``: like the gaps
    rng: Rng = 0
    labels: Labels | None = None

    @classmethod
    def read(cls, folds: int | None, hold_out: HoldOut, rng: Rng, labels: Labels) -> Folding:
        """Check a caller's arguments."""
        n_folds = None if folds is None else check_int(folds, "folds", 2)
        return cls(n_folds, _read_modes(hold_out, labels), generator_from(rng, InvalidSetting), labels)

    def deal(self, values: FloatArray, seen: BoolArray) -> Folds:
        """Deal the observed cells; the order of the modes makes no difference.

        Each fold holds out as large a share of the observed cells as every other, and of each shape as large a share as
        it has among the missing cells.

        Examples
        --------
        >>> X = np.array([[1.0, 2.0, 3.0], [np.nan, 1.0, 5.0]])
        >>> dealt = Folding(2).deal(X, ~np.isnan(X))
        >>> dealt.name, dealt.held[0].tolist()
        ('cells', [[-1, -1, 0], [-1, 0, 0]])
        """
        order = canonical_order(values, seen)
        inside = seen.transpose(order)
        along = None if self.along is None else tuple(sorted(order.index(k) for k in self.along))
        shapes, gaps = _shapes_of_gaps(inside) if along is None else ([along], np.where(inside, -1, 0))
        missing = np.bincount(gaps[gaps >= 0], minlength=len(shapes))
        shares = missing / missing.sum() if missing.any() else np.ones(1)
        groups = [_groups(inside.shape, shape) for shape in shapes]
        n_groups = max(len(np.unique(group[inside])) for group in groups)
        n_folds = min(5, n_groups) if self.n_folds is None else self.n_folds
        if n_folds > n_groups:
            what = "fibres with an observed cell" if along else "observed cells"
            raise InvalidSetting(f"folds={n_folds} needs at least as many {what}; X has {n_groups}.")
        held = np.full((n_folds, *inside.shape), -1)
        rng = np.random.default_rng(self.rng)
        for number, (group, share) in enumerate(zip(groups, shares, strict=True)):
            sizes = np.bincount(group[inside])
            mixed = rng.permutation(np.flatnonzero(sizes))
            before = np.cumsum(sizes[mixed]) - sizes[mixed]
            turn = np.full(len(sizes), n_folds)
            turn[mixed] = before * n_folds // max(sizes.sum() * share, 1.0)
            for fold in range(n_folds):
                held[fold][inside & (held[fold] < 0) & (turn[np.minimum(group, len(sizes) - 1)] == fold)] = number
        back = np.argsort(order)
        named = [self._name(tuple(sorted(order[k] for k in shape))) for shape in shapes]
        texts = [f"{name} ({share:.0%})" for name, share in zip(named, shares, strict=True)]
        return Folds(
            tuple(tuple(sorted(order[k] for k in shape)) for shape in shapes),
            gaps.transpose(back),
            tuple(fold.transpose(back) for fold in held),
            named[0] if len(named) == 1 else ", ".join(texts),
        )

    def _name(self, along: Modes) -> str:
        if not along:
            return "cells"
        names = None if self.labels is None else self.labels.names
        called = ", ".join(str(k) if names is None else names[k] for k in along)
        return f"fibres along mode {called}"


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


def _read_modes(hold_out: HoldOut, labels: Labels) -> Modes | None:
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
