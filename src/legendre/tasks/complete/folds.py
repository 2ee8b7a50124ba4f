"""Folds: which observed cells are held out together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSetting
from legendre.core.types import BoolArray, IntArray


@dataclass(frozen=True)
class Folding:
    """How observed cells are dealt into folds.

    Parameters
    ----------
    n_folds, seed
        How many, and what deals them.
    along
        The modes of the fibres that stay together; none for single cells.
    """

    n_folds: int
    along: tuple[int, ...] = ()
    seed: int = 0

    @classmethod
    def read(cls, cv: int, folds: str | int | Sequence[int], seed: int, order: int) -> Folding:
        """Check what the caller asked for."""
        if not is_whole(cv, 2):
            raise InvalidSetting(f"cv must be a number of folds >= 2, or None for no cross-validation; got {cv!r}.")
        if not is_whole(seed, 0):
            raise InvalidSetting(f"seed must be an integer >= 0, got {seed!r}.")
        return cls(int(cv), _modes(folds, order), int(seed))

    @property
    def name(self) -> str:
        """What is held out."""
        return f"fibres along mode {', '.join(map(str, self.along))}" if self.along else "cells"

    def deal(self, seen: BoolArray) -> IntArray:
        """Give each observed cell a fold, the same one to all cells of a fibre; -1 elsewhere.

        Examples
        --------
        >>> Folding(2, along=(1,)).deal(np.array([[True, True], [True, False]])).tolist()
        [[0, 0], [1, -1]]
        """
        short = [1 if k in self.along else n for k, n in enumerate(seen.shape)]
        groups = np.broadcast_to(np.arange(int(np.prod(short))).reshape(short), seen.shape)
        used = np.unique(groups[seen])
        if self.n_folds > len(used):
            what = "fibres with an observed cell" if self.along else "observed cells"
            raise InvalidSetting(f"cv={self.n_folds} folds need at least as many {what}; X has {len(used)}.")
        turn = np.full(int(np.prod(short)), -1, dtype=np.int64)
        turn[np.random.default_rng(self.seed).permutation(used)] = np.arange(len(used)) % self.n_folds
        return np.where(seen, turn[groups], -1)


def _modes(folds: str | int | Sequence[int], order: int) -> tuple[int, ...]:
    if isinstance(folds, str):
        if folds != "cells":
            raise InvalidSetting(f"folds must be 'cells', a mode or several modes; got {folds!r}.")
        return ()
    modes = [folds] if isinstance(folds, (int, np.integer)) else list(folds)
    for k in modes:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 0 <= k < order:
            raise InvalidSetting(f"folds names the mode {k!r}; X has {order} modes, 0 to {order - 1}.")
    if not modes or len(set(modes)) == order:
        raise InvalidSetting(f"folds={folds!r}: fibres run along at least one mode and not along all {order}.")
    return tuple(sorted({int(k) for k in modes}))
