"""The order of a grown basis: which cells to keep if only a few may stay, for every number of them.

Cells are left out again and again, those that are missed least, and the others are fitted anew; the last to go come
first. It is computed when it is asked for.
"""

from __future__ import annotations

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.core.sums.blas_threads import few_threads
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.fitting.adaptive.coarse import coarsen
from legendre.fitting.adaptive.losses import refitted_losses
from legendre.fitting.adaptive.search import END_STEPS, Search
from legendre.fitting.adaptive.state import State
from legendre.fitting.adaptive.steps import fitted

SHARE = 0.1  # of the cells that is left out in one go
ROUGH = 1e-2  # the decrement that those fits leave, as a share of the loss
ONE_BY_ONE = 64  # cells up to which they are left out one by one, by what a fit without each loses
REFITTED, REFITTED_CELLS = 8, 1 << 22
"""How many cells are tried in that way, those that the estimate says are missed least; cells of the grid for each."""


def order_of(recipe: Adaptive, data: Observation, cells: IntArray, theta: FloatArray) -> IntArray:
    """Return the positions of the cells, so that for every m the first m are a good basis; the start comes first."""
    if data.whole:
        dense, corners, start = in_memory(data, "adaptive"), cells, recipe.start
    else:
        coarse = coarsen(data, recipe)
        dense, corners, start = coarse.data, coarse.quotient.boxes(cells), coarse.recipe.start
    search = Search.of(dense, start, None, len(cells))
    state = State.of(search.ground, search.ground.places(corners), theta)
    with few_threads(0, least=0), np.errstate(all="ignore"):
        return _ordered(search, state)


def _ordered(search: Search, state: State) -> IntArray:
    first = len(search.start)
    left, dropped = np.arange(state.size), []
    state = fitted(state.anchored(), 0.0, END_STEPS, 1e-9).state.anchored()
    while state.size > first + 1:
        loss = search.losses(state)
        gone = _least_missed(state, loss, first)
        dropped.append(left[gone])
        left = np.delete(left, gone)
        state = search.shorter(state, gone, loss).anchored()
    return np.concatenate([left, *(gone[::-1] for gone in reversed(dropped))])


def _least_missed(state: State, loss: FloatArray, first: int) -> IntArray:
    """List the positions of the cells to leave out now, the least missed first."""
    ascending = np.argsort(loss, kind="stable")
    if state.size > ONE_BY_ONE:
        return ascending[: min(int(SHARE * state.size), state.size - max(ONE_BY_ONE, first))]
    tried = ascending[: min(REFITTED, REFITTED_CELLS // state.ground.p.size, state.size - first)]
    if len(tried) > 1:
        goal = max(ROUGH * float(loss[tried].max()), 1e-13)
        tried = tried[np.argsort(refitted_losses(state, tried, goal), kind="stable")]
    return tried[:1] if len(tried) else ascending[:1]
