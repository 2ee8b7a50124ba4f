"""Growing a basis: what `adaptive` asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import most_of
from legendre.basis.parse import as_basis
from legendre.core.checkpoint import Record, digest
from legendre.core.errors import InvalidBasis
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation, Rankings
from legendre.fitting.adaptive.coarse import coarsen
from legendre.fitting.adaptive.heldout import best_size
from legendre.fitting.adaptive.rounds import Growing
from legendre.fitting.adaptive.search import Search
from legendre.fitting.progress import Say
from legendre.results.rounds import Round, pack_rounds, unpack_rounds

LEAST_EVENTS, MOST_EVENTS = 5, 2.0**53
"""Of each fold at least; and of all together, for beyond this whole numbers have gaps."""


@dataclass(frozen=True, eq=False)
class Growth:
    """Where growing ended: the cells, so that any first few are a good basis, a start for their fit, and the way."""

    cells: IntArray
    theta: FloatArray
    rounds: tuple[Round, ...]

    def pack(self) -> dict[str, Any]:
        """List the parts as arrays."""
        return {"cells": self.cells, "theta": self.theta, "rounds": pack_rounds(self.rounds)}


def grow(recipe: Adaptive, data: Observation, record: Record | None = None, say: Say | None = None) -> Growth:
    """Add cells until the size is reached, no cell is left or none pays; then swap.

    Where X is not in memory as a whole, the cells are chosen among the corners of a coarser grid.
    """
    if data.whole:
        return _grow(recipe, in_memory(data, "adaptive"), record, say)
    coarse = coarsen(data, recipe)
    told = None if say is None else lambda text: say(text.replace("KL", "KL between boxes"))
    growth = _grow(coarse.recipe, coarse.data, record, told)
    return replace(growth, cells=coarse.cells(growth.cells), rounds=coarse.rounds(growth.rounds, data))


def rankings_while_growing(recipe: Adaptive) -> Rankings:
    """Name the slices of X that will be ranked while a basis grows, for an X of a given shape."""

    def rankings(shape: tuple[int, ...]) -> dict[int, int]:
        start, candidates = as_basis(recipe.start), as_basis(recipe.candidates or "empty")
        return most_of(start.rankings(shape), candidates.rankings(shape))

    return rankings


def _grow(recipe: Adaptive, data: Dense, record: Record | None, say: Say | None) -> Growth:
    search = _search(recipe, data, record)
    if record is None:
        growing = Growing.first(search, recipe.swaps)
        while growing.advance():
            if say is not None:
                say(growing.told())
        return Growth(*growing.result())
    return _grow_on_record(search, recipe.swaps, record, say)


def _grow_on_record(search: Search, swaps: int, record: Record, say: Say | None) -> Growth:
    """Go on from where the record stands, and keep it up to date."""
    ended = record.result()
    if ended is not None:
        with record.reading():
            return Growth(ended["cells"], ended["theta"], unpack_rounds(ended["rounds"]))
    kept = record.take()
    with record.reading():
        growing = Growing.first(search, swaps) if kept is None else Growing.unpack(search, swaps, kept)
    with record.kept(growing.pack):
        while growing.advance():
            record.keep(growing.pack)
            if say is not None:
                say(growing.told())
    growth = Growth(*growing.result())
    record.close(growth.pack())
    return growth


def _search(recipe: Adaptive, data: Dense, record: Record | None) -> Search:
    most = recipe.size if isinstance(recipe.size, int) else None
    search = Search.of(data, recipe.start, recipe.candidates, most)
    if record is not None:
        record.claim(
            lambda: {
                "start of the basis": digest(search.start),
                "cells to choose from": digest(np.packbits(search.candidates)),
                "X as those cells see it": digest(search.ground.eta_hat),
            }
        )
    if len(search.start) > search.most:
        raise InvalidBasis(f"{recipe!r}: the start already has {len(search.start)} parameters.")
    if isinstance(recipe.size, int):
        return search
    if not data.counts:
        raise InvalidBasis(f"{recipe!r} needs counts, for it weighs the fit by their number; X has fractions.")
    search = search.among_uncertain()
    if recipe.size == "cv":
        _check_total(recipe, data.total)
        folds = None if record is None else record.section("folds")
        return replace(search, most=best_size(search, recipe.folds, folds))
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
