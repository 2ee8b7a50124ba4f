"""Growing a basis: what `adaptive` asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.core.checkpoint.record import UNRECORDED, Record, digest
from legendre.core.errors import InvalidBasis
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.data.observation import Observation
from legendre.fitting.adaptive.coarse import coarsen
from legendre.fitting.adaptive.heldout import best_size
from legendre.fitting.adaptive.rounds import Growing
from legendre.fitting.adaptive.search import Search
from legendre.fitting.progress import Say, silent
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


def grow(recipe: Adaptive, data: Observation, record: Record = UNRECORDED, say: Say = silent) -> Growth:
    """Add cells until the size is reached, no cell is left or none pays; then swap.

    Where X is not in memory as a whole, the cells are chosen among the corners of a coarser grid.
    """
    held = data.here()
    if isinstance(held, Dense):
        return _grow(recipe, held, record, say)
    coarse = coarsen(data, recipe)
    growth = _grow(coarse.recipe, coarse.data, record, lambda text: say(text.replace("KL", "KL between boxes")))
    return replace(growth, cells=coarse.cells(growth.cells), rounds=coarse.rounds(growth.rounds, data))


def _grow(recipe: Adaptive, data: Dense, record: Record, say: Say) -> Growth:
    search = _search(recipe, data, record)
    ended = record.result()
    if ended is not None:
        with record.reading():
            return Growth(ended["cells"], ended["theta"], unpack_rounds(ended["rounds"]))
    kept = record.take()
    if kept is None:
        growing = Growing.first(search, recipe.swaps)
    else:
        with record.reading():
            growing = Growing.unpack(search, recipe.swaps, kept)
    with record.kept(growing.pack):
        while growing.advance():
            record.keep(growing.pack)
            say(growing.told())
    growth = Growth(*growing.result())
    record.close(growth.pack())
    return growth


def _search(recipe: Adaptive, data: Dense, record: Record) -> Search:
    most = recipe.size if isinstance(recipe.size, int) else None
    search = Search.of(data, recipe.start, recipe.candidates, most)
    record.claim(
        lambda: {
            "start of the basis": digest(search.start),
            "cells to choose from": digest(np.packbits(search.candidates)),
            "X as those cells see it": digest(search.eta_hat),
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
        return replace(search, most=best_size(search, recipe.folds, record.section("folds")))
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
