"""One round of growing: which cells to add, which to give back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.types import BoolArray, IntArray
from legendre.data.dense import Dense
from legendre.fitting.adaptive.scores import pick
from legendre.fitting.adaptive.state import Ground, Grown, extended

SHARE, AT_LEAST, AT_MOST = 0.05, 6, 64
"""Cells added in a round: a share of the basis, within bounds."""
SWAPPED = 0.15
"""The share of the cells that is left out in one go on the way back."""


@dataclass(frozen=True, eq=False)
class Search:
    """What is searched: the data, the cells that stay, the candidates, and what a parameter must gain.

    Parameters
    ----------
    ground
        The data on the whole grid.
    start
        Cells that are in every basis, first.
    candidates
        Marks the cells that may be added.
    most
        The largest number of parameters.
    least
        The gain in KL at which a parameter pays for itself.
    """

    ground: Ground
    start: IntArray
    candidates: BoolArray
    most: int
    least: float = 0.0

    @classmethod
    def of(cls, data: Dense, start: Basis | str, candidates: Basis | str | None, most: int | None) -> Search:
        """Prepare: one suffix-sum pass over X."""
        allowed, cells = _candidates(data, candidates), as_basis(start).select(data)
        allowed[tuple(cells.T)] = False
        every = len(cells) + int(allowed.sum())
        return cls(Ground.of(data), cells, allowed, every if most is None else most)

    def on(self, data: Dense) -> Search:
        """Return the same search on other values."""
        return replace(self, ground=Ground.of(data))

    def among_uncertain(self) -> Search:
        """Leave out cells with none or all of the counts above them.

        Their parameters would rule events out for ever, which is too much to say from a sample.
        """
        eta_hat = self.ground.eta_hat
        return replace(self, candidates=self.candidates & (eta_hat > 0) & (eta_hat < 1))

    def first(self) -> Grown:
        """Fit the start alone."""
        ground = self.ground
        return ground.fitted(self.start, np.zeros(len(self.start)), ground.vanishing(self.start))

    def larger(self, state: Grown) -> Grown | None:
        """Add the cells of a round; ``None`` when the size is reached or no candidate pays."""
        k = len(state.cells)
        allowed = self.candidates.copy()
        allowed[tuple(state.cells.T)] = False
        count = min(max(AT_LEAST, int(SHARE * k)), AT_MOST, self.most - k)
        new = pick(state.eta, self.ground.eta_hat, allowed, count, self.least)
        return extended(state, new) if len(new) else None

    def least_missed(self, state: Grown) -> IntArray:
        """List the positions of cells to leave out: the last in value, and all that do not pay; the start stays."""
        loss, k = state.losses(), len(state.cells)
        loss[: len(self.start)] = np.inf
        count = min(max(1, int(SWAPPED * k)), k - len(self.start))
        count = max(count, int((loss < self.least).sum()))
        return np.argsort(loss, kind="stable")[:count]

    def cost(self, state: Grown) -> float:
        """Weigh the fit and the number of its parameters."""
        return state.kl + self.least * len(state.cells)


def _candidates(data: Dense, wanted: Basis | str | None) -> BoolArray:
    """Mark the cells that may be chosen: in the support, not the bottom."""
    allowed = data.support.on_grid().copy()
    allowed[(0,) * allowed.ndim] = False
    if wanted is not None:
        asked = np.zeros(data.shape, dtype=np.bool_)
        asked[tuple(as_basis(wanted).select(data).T)] = True
        allowed &= asked
    return allowed
