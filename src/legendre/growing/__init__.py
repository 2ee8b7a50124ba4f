"""Growing a basis: what `adaptive` asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from legendre.arrays import FloatArray, IntArray
from legendre.basis.adaptive import Adaptive
from legendre.decomposition import Decomposition, Round
from legendre.errors import InvalidBasis
from legendre.growing.coarse import coarsen
from legendre.growing.heldout import best_size
from legendre.growing.search import Search
from legendre.intake import Dense, Observation

LEAST_EVENTS, MOST_EVENTS = 5, 2.0**53
"""Of each fold at least; and of all together, for beyond this whole numbers have gaps."""


@dataclass(frozen=True, eq=False)
class Growth:
    """Where growing ended: the cells, so that any first few are a good basis, a start for their fit, and the way."""

    cells: IntArray
    theta: FloatArray
    rounds: tuple[Round, ...]


def grow(recipe: Adaptive, data: Observation) -> Growth:
    """Add cells until the size is reached, no cell is left or none pays; then swap.

    Where X is not in memory as a whole, the cells are chosen among the corners of a coarser grid.
    """
    if isinstance(data, Dense):
        return _grow(recipe, data)
    coarse = coarsen(data, recipe)
    growth = _grow(coarse.recipe, coarse.data)
    return replace(growth, cells=coarse.cells(growth.cells))


def _grow(recipe: Adaptive, data: Dense) -> Growth:
    search = _search(recipe, data)
    rounds: list[Round] = []
    fit = forward = search.first()
    for forward in search.forward(fit):
        rounds.append(Round.of(forward))
    fit = search.swapped(forward, recipe.swaps)
    return Growth(fit.basis, fit.theta, tuple(rounds)) if fit is forward else _in_order(search, fit)


def _search(recipe: Adaptive, data: Dense) -> Search:
    most = recipe.size if isinstance(recipe.size, int) else None
    search = Search.of(data, recipe.start, recipe.candidates, most)
    if len(search.start) > search.most:
        raise InvalidBasis(f"{recipe!r}: the start already has {len(search.start)} parameters.")
    if isinstance(recipe.size, int):
        return search
    if not data.counts:
        raise InvalidBasis(f"{recipe!r} needs counts, for it weighs the fit by their number; X has fractions.")
    search = search.among_uncertain()
    if recipe.size == "cv":
        _check_total(recipe, data.total)
        return replace(search, most=best_size(search, recipe.folds))
    penalty = 2.0
    if recipe.size == "bic":
        penalty = float(np.log(data.total)) + 2.0 * float(np.log(max(int(search.candidates.sum()), 1)))
    return replace(search, least=penalty / (2.0 * data.total))


def _check_total(recipe: Adaptive, total: float) -> None:
    """Refuse what cannot be dealt out: too few events, or numbers too large to be counts."""
    if total >= MOST_EVENTS:
        raise InvalidBasis(
            f"{recipe!r}: X sums to {total:g}; events are dealt out one by one, up to {MOST_EVENTS:.0e}."
        )
    if total < LEAST_EVENTS * recipe.folds:
        raise InvalidBasis(
            f"{recipe!r}: {total:.0f} events are too few for {recipe.folds} folds; there must be at least "
            f"{LEAST_EVENTS} for each. Use adaptive('bic')."
        )


def _in_order(search: Search, fit: Decomposition) -> Growth:
    """Order the cells by how long they stay when the least missed are left out again and again."""
    rounds: list[Round] = []
    dropped: list[IntArray] = []
    for smaller, gone in search.backward(fit):
        rounds.append(Round.of(smaller))
        dropped.append(gone)
    cells = np.concatenate([search.start, *(gone[::-1] for gone in reversed(dropped))])
    place = {cell: i for i, cell in enumerate(map(tuple, fit.basis.tolist()))}
    theta = fit.theta[[place[cell] for cell in map(tuple, cells.tolist())]]
    return Growth(cells, theta, tuple(reversed(rounds)))
