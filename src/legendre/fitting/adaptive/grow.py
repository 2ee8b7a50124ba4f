"""Growing a basis round by round: forward to the size, then swaps, then backward to put the cells in order."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import most_of
from legendre.basis.parse import as_basis
from legendre.core import limits, stored
from legendre.core.cells import find
from legendre.core.checkpoint import Record, digest
from legendre.core.errors import InvalidBasis
from legendre.core.memory import size_name
from legendre.core.progress import Say
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import Dense, in_memory
from legendre.data.observation import Observation, Rankings
from legendre.fitting.adaptive.coarse import coarsen
from legendre.fitting.adaptive.heldout import best_size
from legendre.fitting.adaptive.search import Search
from legendre.fitting.adaptive.state import Ground, Grown
from legendre.results.rounds import Round, pack_rounds, unpack_rounds

LEAST_EVENTS, MOST_EVENTS = 5, 2.0**53
"""Of each fold at least; and of all together, since larger floating-point numbers are not exact counts."""
PHASES = {"forward": "growing", "swap": "swapping", "backward": "ordering", "end": "grown"}
"""What happens in each phase, for a line on the terminal."""


@dataclass(frozen=True, eq=False)
class Growth:
    """The end of growing: the cells, so that any first few are a good basis, a start for their fit, and the rounds."""

    cells: IntArray
    theta: FloatArray
    rounds: tuple[Round, ...]

    @classmethod
    def unpack(cls, arrays: Mapping[str, Any], shape: tuple[int, ...]) -> Growth:
        """Read what a record ended with."""
        cells = stored.cells(arrays, "cells", shape)
        return cls(cells, stored.floats(arrays, "theta", len(cells)), unpack_rounds(stored.rows(arrays, "rounds", 5)))


def grow(recipe: Adaptive, data: Observation, record: Record | None = None, say: Say | None = None) -> Growth:
    """Add cells until the size is reached, no cell is left or none pays; then swap.

    Where X is not in memory as a whole, the cells are chosen among the corners of a coarser grid.
    """
    if data.whole:
        return _grow(recipe, in_memory(data, "adaptive"), record, say)
    coarse = coarsen(data, recipe)
    between = None if say is None else _between_boxes(say)
    growth = _grow(coarse.recipe, coarse.data, record, between)
    return replace(growth, cells=coarse.cells(growth.cells), rounds=coarse.rounds(growth.rounds, data))


def _between_boxes(say: Say) -> Say:
    """Say of KL on a coarser grid that it is of boxes."""

    def between(text: str, share: float | None = None, /) -> None:
        say(text.replace("KL", "KL between boxes"), share)

    return between


def rankings_while_growing(recipe: Adaptive) -> Rankings:
    """Name the slices of X that will be ranked while a basis grows, for an X of a given shape."""
    start, candidates = as_basis(recipe.start), as_basis(recipe.candidates or "empty")
    return lambda shape: most_of(start.rankings(shape), candidates.rankings(shape))


def _grow(recipe: Adaptive, data: Dense, record: Record | None, say: Say | None) -> Growth:
    """Grow, or go on from where the record stands, and keep it up to date."""
    search = _search(recipe, data, record, say)
    found = None
    if record is not None:
        with record.reading():
            if (ended := record.result()) is not None:
                return Growth.unpack(ended, data.shape)
            if (kept := record.take()) is not None:
                found = Stage.unpack(search.ground, kept)
    stage = Stage.first(search) if found is None else found
    with nullcontext() if record is None else record.kept(lambda: stage.pack()):
        while (stage := stage.next(search)).phase != "end":
            if record is not None:
                record.keep(stage.pack)
            if say is not None:
                place = f"{len(stage.fit.cells)} of {search.most} parameters"
                say(f"{PHASES[stage.phase]}   {place}   KL = {stage.fit.kl:.4g}")
    growth = stage.growth(search.start)
    if record is not None:
        record.close({"cells": growth.cells, "theta": growth.theta, "rounds": pack_rounds(growth.rounds)})
    return growth


@dataclass(frozen=True, eq=False)
class Stage:
    """How far growing has come."""

    phase: Literal["forward", "swap", "backward", "end"]  # cells are added, added in place of others, or left out
    fit: Grown  # the fit that changes from round to round
    best: Grown  # the fit to beat in a swap, and to put in order afterwards
    rounds: tuple[Round, ...] = ()  # so far, of growing or of leaving out
    swaps: int = 0  # how many swaps have paid
    dropped: tuple[IntArray, ...] = ()  # the cells that were left out in each round of putting them in order

    @classmethod
    def first(cls, search: Search) -> Stage:
        """Begin with the start alone."""
        fit = search.first()
        return cls("forward", fit, fit, (fit.round(),))

    def next(self, search: Search) -> Stage:
        """Do one round."""
        if self.phase == "backward":
            return self._with_fewer(search)
        forward, larger = self.phase == "forward", search.larger(self.fit)
        if larger is not None:
            return replace(self, fit=larger, rounds=(*self.rounds, larger.round()) if forward else self.rounds)
        stage = self
        if forward or search.cost(self.fit) < search.cost(self.best):
            stage = replace(self, best=self.fit, swaps=self.swaps + (not forward))
            if stage.swaps < search.swaps:  # leave out the cells that are missed least, to make room for better ones
                return replace(stage, phase="swap", fit=self.fit.shortened(search.least_missed(self.fit)))
        if not stage.swaps:  # the cells are in the order of growing
            return replace(stage, phase="end")
        return replace(stage, phase="backward", fit=stage.best, rounds=())

    def _with_fewer(self, search: Search) -> Stage:
        """Leave out the least missed again and again, to order the cells by how long they stay."""
        gone = search.least_missed(self.fit)
        done = replace(self, rounds=(*self.rounds, self.fit.round()), dropped=(*self.dropped, self.fit.cells[gone]))
        return replace(done, fit=self.fit.shortened(gone)) if len(gone) else replace(done, phase="end")

    def growth(self, start: IntArray) -> Growth:
        """Put the cells in order, so that any first few are a good basis."""
        if not self.swaps:
            return Growth(self.best.cells, self.best.point.theta, self.rounds)
        cells = np.concatenate([start, *(gone[::-1] for gone in reversed(self.dropped))])
        return Growth(cells, self.best.point.theta[find(cells, self.best.cells)], self.rounds[::-1])

    def pack(self) -> dict[str, Any]:
        """List the arrays from which growing goes on."""
        return {
            "phase": self.phase,
            **self.fit.pack(),
            **({} if self.best is self.fit else self.best.pack("best_")),
            "rounds": pack_rounds(self.rounds),
            "swaps": self.swaps,
            **{f"dropped{i}": cells for i, cells in enumerate(self.dropped)},
        }

    @classmethod
    def unpack(cls, ground: Ground, arrays: Mapping[str, Any]) -> Stage:
        """Read what `pack` listed."""
        fit = ground.unpack(arrays)
        best = ground.unpack(arrays, "best_") if "best_cells" in arrays else fit
        count, shape = sum(name.startswith("dropped") for name in arrays), ground.p.shape
        dropped = tuple(stored.cells(arrays, f"dropped{i}", shape) for i in range(count))
        phase: Any = stored.text(arrays, "phase")
        if phase not in PHASES:
            raise ValueError(f"{phase!r} is no phase of growing")
        rounds = unpack_rounds(stored.floats(arrays, "rounds", None, 5, finite=False))
        return cls(phase, fit, best, rounds, stored.whole(arrays, "swaps"), dropped)


def _check_growth(recipe: Adaptive, search: Search) -> None:
    """Refuse to grow a basis so large that its many fits take hours."""
    cells = int(search.candidates.sum())
    grown = min(search.most, len(search.start) + cells)
    if grown > limits.LARGEST_GROWN:
        raise InvalidBasis(
            f"{recipe!r}: of {size_name(cells)} cells {size_name(grown)} would be chosen a few at a time, with a fit "
            f"in every round; a basis grows up to {limits.LARGEST_GROWN:,} parameters. Ask for fewer, name fewer "
            "candidates, or take a basis that need not grow, such as interactions(2), B3(n) or full()."
        )


def _search(recipe: Adaptive, data: Dense, record: Record | None, say: Say | None) -> Search:
    """Prepare the search; find the size, or what a parameter must gain, by the recipe's criterion."""
    most = recipe.size if isinstance(recipe.size, int) else recipe.most
    search = replace(Search.of(data, recipe.start, recipe.candidates, most), swaps=recipe.swaps)
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
        _check_growth(recipe, search)
        return search
    if not data.counts:
        raise InvalidBasis(f"{recipe!r} needs counts, for it weighs the fit by their number; X has fractions.")
    search = search.among_uncertain()
    if recipe.size == "cv":
        if data.total >= MOST_EVENTS:
            raise InvalidBasis(
                f"{recipe!r}: X sums to {data.total:g}; events are dealt out one by one, up to {MOST_EVENTS:.0e}."
            )
        if data.total < LEAST_EVENTS * recipe.folds:
            raise InvalidBasis(
                f"{recipe!r}: {data.total:.0f} events are too few for {recipe.folds} folds; there must be at least "
                f"{LEAST_EVENTS} for each. Use adaptive('bic')."
            )
        folds = None if record is None else record.section("folds")
        return replace(search, most=best_size(search, recipe.folds, folds, say))
    penalty = 2.0
    if recipe.size == "bic":
        penalty = float(np.log(data.total)) + 2.0 * float(np.log(max(int(search.candidates.sum()), 1)))
    return replace(search, least=penalty / (2.0 * data.total))
