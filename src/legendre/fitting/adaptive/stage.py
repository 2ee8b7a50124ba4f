"""How far growing has come: forward to a size, swaps there, onwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.core import limits
from legendre.core.types import FloatArray, IntArray
from legendre.fitting.adaptive.coarse import Boxes
from legendre.fitting.adaptive.one_round import Search
from legendre.fitting.adaptive.parts import Inverse
from legendre.fitting.adaptive.state import State
from legendre.results.growth_path import Round

PHASES = {"forward": "growing", "swap": "swapping", "cut": "cutting back", "end": "grown"}
"""What happens in each phase, for a line on the terminal."""
OVERSHOOT = 1.5  # times the size to reach, to which a small basis grows before cells are given back
ON_THE_WAY = 0.7  # of the size to reach: where cells are swapped for the first time
ENOUGH = 20  # cells to swap on the way
OFTEN, FIRST_SWAP = 1.4, 20
"""Where a criterion ends growing: the ratio of one size at which cells are swapped to the next; the first of them.

KL plus the price of all parameters, and CPU s, of flights3 when no cell pays any more: 0.165, 5.9; with a ratio of 2
0.176, 4.3; of 3 0.174, 6.1; without swaps on the way 0.184, 5.4. Chosen on this table and two more of flights."""
MUCH = 0.99  # of what was weighed before: cells are added again in place of those that did not pay while it gets less


@dataclass(frozen=True, eq=False)
class Growth:
    """The end of growing: the cells in the order of their choice, a start for their fit, and the rounds."""

    cells: IntArray
    theta: FloatArray
    rounds: tuple[Round, ...]
    boxes: Boxes | None = None  # X summed over boxes whose corners the cells are, where X was coarsened
    inverse: Inverse | None = None  # near that of the Fisher matrix; None where it does not save time


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done: at which sizes cells are swapped, how many times at most at each, how far to grow at last."""

    search: Search
    sizes: tuple[int, ...]
    swaps: int

    @classmethod
    def of(cls, search: Search, recipe: Adaptive) -> Plan:
        """Grow past the size and cut back; or swap at the end, and on the way, often if the size is not known."""
        swaps, over, most = recipe.swaps, recipe.overshoot, search.most
        if over is None:
            over = OVERSHOOT if swaps is None and search.known and most <= limits.CUT_BACK else 1.0
        swaps = (1 if over == 1.0 else 0) if swaps is None else swaps
        middle = int(ON_THE_WAY * most)
        enough = swaps and search.known and middle - len(search.start) >= ENOUGH
        if swaps and search.least:
            return cls(search, (*_often(len(search.start) + FIRST_SWAP, most), most), swaps)
        past = (int(over * most),) if search.known and int(over * most) > most else ()
        return cls(search, (middle, most, *past) if enough else (most, *past), swaps)


def _often(first: int, most: int) -> list[int]:
    """List sizes at which cells are swapped, each some times as large as the one before.

    >>> _often(20, 60)
    [20, 28, 39, 54]
    """
    count = math.ceil(math.log(most / first, OFTEN)) if most > first else 0
    return [int(first * OFTEN**k) for k in range(count)]


@dataclass(frozen=True, eq=False)
class Stage:
    """How far growing has come."""

    phase: Literal["forward", "swap", "cut", "end"]  # cells are added, added in place of others, given back
    fit: State  # the fit that changes from round to round
    rounds: tuple[Round, ...] = ()  # so far
    best: State | None = None  # while cells are swapped, or the size is exceeded: the fit to beat
    before: tuple[Round, ...] = ()  # and the rounds that led to it
    way: int = 0  # which of the sizes of the plan comes next
    swaps: int = 0  # how many times cells have been swapped there
    settled: float = math.inf  # fit and parameters weighed when cells that did not pay were last given back

    @classmethod
    def first(cls, plan: Plan) -> Stage:
        """Begin with the start alone."""
        fit = plan.search.first()
        return cls("forward", fit, (measured(fit),))

    def next(self, plan: Plan) -> Stage:
        """Do one round."""
        search = plan.search
        if self.phase == "cut":
            return self._cut(search)
        larger = search.larger(self.fit, plan.sizes[self.way])
        if larger is not None:
            return replace(self, fit=larger, rounds=with_round(self.rounds, measured(larger)))
        fit, rounds = self.fit, self.rounds
        if search.least and self.way + 1 == len(plan.sizes):
            fit = search.lighter(fit)
            rounds, cost = with_round(rounds, measured(fit)), search.cost(fit)
            larger = search.larger(fit) if fit.size < self.fit.size and cost < MUCH * self.settled else None
            if larger is not None:  # there is room again
                return replace(self, fit=larger, rounds=with_round(rounds, measured(larger)), settled=cost)
        if fit.size > search.most:
            return replace(self, phase="cut")
        if self.best is not None and search.cost(fit) >= search.cost(self.best):
            return self._onwards(plan, self.best.anchored(), self.before)
        smaller = search.smaller(fit) if self.swaps < plan.swaps and fit.size > len(search.start) else None
        if smaller is not None:  # there is room for better cells
            best = State.of(search.ground, fit.places, fit.at.theta)
            return Stage("swap", smaller, rounds, best, rounds, self.way, self.swaps + 1)
        return self._onwards(plan, fit, rounds)

    def _onwards(self, plan: Plan, fit: State, rounds: tuple[Round, ...]) -> Stage:
        """Go on to the next size, or end."""
        search, last = plan.search, len(plan.sizes) - 1
        if self.way < last:
            ended = search.least and fit.size < plan.sizes[self.way]  # no cell is left that pays
            ahead = Stage("forward", fit, rounds, way=last if ended else self.way + 1)
            if plan.sizes[ahead.way] <= search.most or fit.size < search.most:
                return ahead
            return replace(ahead, best=State.of(search.ground, fit.places, fit.at.theta), before=rounds)
        if search.least:  # every cell must pay, as `lighter` saw to in a large basis; where there is room again, go on
            paying = fit if fit.size > limits.LARGE_BASIS else search.paying(fit)
            rounds, cost = with_round(rounds, measured(paying)), search.cost(paying)
            larger = search.larger(paying) if paying.size < fit.size and cost < MUCH * self.settled else None
            if larger is not None:
                more = with_round(rounds, measured(larger))
                return Stage("forward", larger, more, way=self.way, swaps=plan.swaps, settled=cost)
            fit = paying
        return Stage("end", fit, rounds, way=self.way)

    def _cut(self, search: Search) -> Stage:
        """Give a share of the cells back on the way to the size; end there, with the better of two bases."""
        if self.fit.size > search.most:
            return replace(self, fit=search.nearer(self.fit))
        if self.best is not None and self.best.kl <= self.fit.kl:
            return Stage("end", self.best.anchored(), self.before, way=self.way)
        return Stage("end", self.fit, with_round(self.rounds, measured(self.fit)), way=self.way)

    def growth(self, search: Search) -> Growth:
        """Fit exactly and hand out."""
        fit = search.finished(self.fit)
        inverse, anchor = None, fit.anchor
        if anchor is not None and fit.size >= limits.INVERSE_KEPT and anchor.sharp and bool((fit.scale > 0.0).all()):
            inverse = Inverse(anchor.factor, fit.scale)
        return Growth(fit.cells, fit.at.theta, with_round(self.rounds, measured(fit)), inverse=inverse)


def with_round(rounds: tuple[Round, ...], last: Round) -> tuple[Round, ...]:
    """Append a round; those before it that were no smaller, or no worse, are not on the way to it."""
    return (*(step for step in rounds if step.n_params < last.n_params and step.kl > last.kl), last)


def measured(fit: State) -> Round:
    """Measure the size of a basis and how well it fits."""
    data = fit.ground.data
    difference = data.values / np.float64(data.total) - fit.at.q.reshape(
        fit.ground.shape
    )  # in float64, as X may not be
    if data.missing is not None:
        difference = difference[~data.missing]
    top = max(float(difference.max(initial=0.0)), -float(difference.min(initial=0.0)))
    if not 1e-100 < top < 1e100:  # squares in the unit of the largest do not leave the range of float64
        difference = difference / top if 0 < top < np.inf else difference
    square = float(np.einsum("i,i->", difference.ravel(), difference.ravel())) / max(difference.size, 1)
    unit = 1.0 if 1e-100 < top < 1e100 else top or 1.0
    return Round.measured(len(fit.places), fit.kl, float(np.sqrt(square)) * unit * data.total, data.total)
