"""Folds: which observed cells are held out together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from legendre.core.arguments import is_whole
from legendre.core.errors import InvalidSetting
from legendre.core.types import BoolArray, IntArray
from legendre.results.query_arguments import generator_from

Rng = int | np.random.Generator | None
"""What deals: the same integer always deals in the same way, ``None`` never does."""


@dataclass(frozen=True)
class Folding:
    """How observed cells are dealt into folds.

    Parameters
    ----------
    n_folds, rng
        How many, and what deals them.
    along
        The modes of the fibres that stay together; none for single cells.
    """

    n_folds: int
    along: tuple[int, ...] = ()
    rng: Rng = 0

    @classmethod
    def read(cls, folds: int, hold_out: str | int | Sequence[int], rng: Rng, order: int) -> Folding:
        """Check a caller's arguments."""
        if not is_whole(folds, 2):
            raise InvalidSetting(
                f"folds must be an integer >= 2 (complete also takes None: no cross-validation); got {folds!r}."
            )
        return cls(int(folds), _modes(hold_out, order), generator_from(rng, InvalidSetting))

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
            raise InvalidSetting(f"folds={self.n_folds} needs at least as many {what}; X has {len(used)}.")
        turn = np.full(int(np.prod(short)), -1, dtype=np.int64)
        turn[np.random.default_rng(self.rng).permutation(used)] = np.arange(len(used)) % self.n_folds
        return np.where(seen, turn[groups], -1)


def _modes(hold_out: str | int | Sequence[int], order: int) -> tuple[int, ...]:
    if isinstance(hold_out, str):
        if hold_out != "cells":
            raise InvalidSetting(f"hold_out must be 'cells', a mode or several modes; got {hold_out!r}.")
        return ()
    modes = [hold_out] if isinstance(hold_out, (int, np.integer)) else list(hold_out)
    for k in modes:
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 0 <= k < order:
            raise InvalidSetting(f"hold_out names the mode {k!r}; X has {order} modes, 0 to {order - 1}.")
    if not modes or len(set(modes)) == order:
        raise InvalidSetting(f"hold_out={hold_out!r}: fibres run along at least one mode and not along all {order}.")
    return tuple(sorted({int(k) for k in modes}))
