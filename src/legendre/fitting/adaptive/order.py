"""The order of a grown basis: which cells to keep if only a few may stay, for every number of them.

Cells are left out again and again, those that are missed least, and the others are fitted anew; the last to go come
first. It is computed when it is asked for.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.core import limits
from legendre.core.sums.linalg import limit_blas
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.fitting.adaptive.coarse import Boxes, coarsen, too_large
from legendre.fitting.adaptive.losses import Losses, least_missed, refitted_losses
from legendre.fitting.adaptive.one_round import END_STEPS, Search
from legendre.fitting.adaptive.state import State, fitted

SHARE = 0.1  # of the cells that is left out in one go
ROUGH = 1e-2  # the decrement that a fit without a cell leaves, as a share of the loss
REFITTED, REFITTED_CELLS = 8, 1 << 20
"""How many cells are tried in that way, those that the estimate says are missed least; cells of the grid for each."""
MERGED = 0.7  # of the cells left: boxes are merged anew
LAST, LAST_CELLS = 12, 1 << 15  # cells among which the best first few are searched for; cells of a grid for that
AHEAD = 3  # how many of the first few are chosen forward at most: the best single cell need not be in the best pair
Some = frozenset[int]


def order_of(
    recipe: Adaptive, data: Observation, cells: IntArray, theta: FloatArray, boxes: Boxes | None = None
) -> IntArray:
    """Return the positions of the cells, so that for every m the first m are a good basis; the start comes first.

    `boxes` are those whose corners the cells are, where X was coarsened.
    """
    if not too_large(data):
        dense, corners, start = in_memory(data, "adaptive"), cells, recipe.start
    else:
        coarse = coarsen(data, recipe, boxes)
        dense, corners, start = coarse.data, coarse.quotient.boxes(cells), coarse.recipe.start
    search = Search.of(dense, start, None, len(cells))
    ground, places = search.ground.merged(search.ground.places(corners))
    state = State.of(ground, places, theta)
    with limit_blas(), np.errstate(all="ignore"):
        return _ordered(search, state)


def _ordered(search: Search, state: State) -> IntArray:
    first, left, dropped = len(search.start), np.arange(state.size), []
    state = fitted(state.anchored(), 0.0, END_STEPS, 1e-9)[0].anchored()
    merged_at = state.size
    while state.size > first + (LAST if (searched := state.ground.size <= LAST_CELLS) else 1):
        if state.size <= MERGED * merged_at:  # fewer cells cut the grid into fewer boxes
            merged_at = state.size
            state = State.of(*state.ground.merged(state.places), state.at.theta).anchored()
        loose = state.size - first
        count = min(int(SHARE * loose), loose - limits.LEFT_OUT_SINGLY) if loose > limits.LEFT_OUT_SINGLY else None
        loss = search.losses(state, count)
        gone = _least_missed(state, loss, loose) if count is None else least_missed(state, loss, count)
        dropped.append(left[gone])
        left = np.delete(left, gone)
        state = search.shorter(state, gone, loss).anchored()
    if searched and state.size > first + 1:
        left = left[_Last(state, first).order()]
    return np.concatenate([left, *(gone[::-1] for gone in reversed(dropped))])


def _least_missed(state: State, loss: Losses, loose: int) -> IntArray:
    """List the position of the one of the `loose` cells to leave out now, by fits without some of them."""
    ascending = np.argsort(loss.each, kind="stable")
    tried = ascending[: min(REFITTED, REFITTED_CELLS // state.ground.size, loose)]
    if len(tried) > 1:
        goal = max(ROUGH * float(loss.each[tried].max()), 1e-13)
        tried = tried[np.argsort(refitted_losses(state, tried, goal), kind="stable")]
    return tried[:1] if len(tried) else ascending[:1]


@dataclass(frozen=True, eq=False)
class _Last:
    """A few cells, and KL of each subset of them that has been fitted."""

    state: State
    first: int  # cells of the start, which are in every subset
    known: dict[Some, float] = field(default_factory=dict)

    def order(self) -> IntArray:
        """Put the cells in the order whose first few are good for every number of them, judged by the worst of these.

        Leaving out one by one is best for most numbers, but what is left in the end may be a poor pair. So the first
        few are also chosen forward, and the cells that are left out are others.
        """
        every = frozenset(range(self.first, self.state.size))
        ahead: list[Some] = [frozenset()]
        while len(ahead) <= min(AHEAD, len(every) - 1):
            ahead.append(min((ahead[-1] | {i} for i in sorted(every - ahead[-1])), key=self.kl))
        chains = [[*ahead[:m], *self._backward(every, kept)[::-1]] for m, kept in enumerate(ahead)]
        best = max(chains, key=self._worst)
        steps = [next(iter(larger - smaller)) for smaller, larger in itertools.pairwise(best)]
        return np.array([*range(self.first), *steps], dtype=np.int64)

    def kl(self, some: Some) -> float:
        """Fit a subset."""
        if some not in self.known:
            rows = np.array([*range(self.first), *sorted(some)], dtype=np.int64)
            state = State.of(self.state.ground, self.state.places[rows], np.zeros(len(rows)))
            self.known[some] = fitted(state, 1e-3 * max(self.state.kl, 1e-9), END_STEPS)[0].kl
        return self.known[some]

    def _backward(self, every: Some, kept: Some) -> list[Some]:
        """Leave out the least missed one by one, but for those to keep."""
        chain = [every]
        while len(chain[-1]) > len(kept):
            chain.append(min((chain[-1] - {i} for i in sorted(chain[-1] - kept)), key=self.kl))
        return chain

    def _worst(self, chain: list[Some]) -> float:
        """Return the smallest share, over all numbers of cells, of what the best known subset of that size explains."""
        nothing, shares = self.kl(frozenset()), [1.0]
        for some in chain[1:]:
            own = nothing - self.kl(some)
            most = nothing - min(kl for other, kl in self.known.items() if len(other) == len(some))
            shares.append(own / most if most > 0 else 1.0)
        return min(shares)
