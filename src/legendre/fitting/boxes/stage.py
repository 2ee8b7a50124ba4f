"""How far growing boxes has come."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from legendre.fitting.boxes.candidates import SIZES
from legendre.fitting.boxes.state import DONE, EPS, SHARE, STEPS, Growing
from legendre.results.growth_path import Round

MOST_AT_FIRST, FIRST = 8, 40  # rounds add 1 box for each 40 that are wanted, from 1 to 8 of them, and then a share


@dataclass(frozen=True)
class Goal:
    """When growing ends."""

    most: int  # boxes at most
    least: float = 0.0  # what each must gain


@dataclass(frozen=True, eq=False)
class Stage:
    """Boxes after a round; the next round works on a copy, so that an interrupted one leaves no trace."""

    growing: Growing
    rounds: tuple[Round, ...] = ()
    idle: int = 0  # rounds in a row that found nothing
    ended: bool = False

    @classmethod
    def first(cls, growing: Growing) -> Stage:
        """Begin with a start that has been fitted."""
        return cls(growing, (measured(growing),))

    def next(self, goal: Goal) -> Stage:
        """Add a few boxes; end where there are as many as wanted, or none is found that gains enough."""
        growing, known = copy(self.growing), len(self.growing.boxes)
        if known >= goal.most:
            return Stage(growing, self.rounds, ended=True)
        at_first = min(max(goal.most // FIRST, 1), MOST_AT_FIRST) if goal.least == 0 else 1
        count = min(max(int(SHARE * known), at_first), goal.most - known)
        gained = growing.add(count, goal.least, self.idle)
        if len(growing.boxes) > known:
            growing.fit(DONE * gained, STEPS)
            return Stage(growing, (*self.rounds, measured(growing)))
        if goal.least > 0 or self.idle == SIZES:
            return Stage(growing, self.rounds, ended=True)
        growing.fit(EPS, STEPS)  # what a rough fit leaves may hide smaller gains
        return Stage(growing, self.rounds, self.idle + 1)


def measured(growing: Growing) -> Round:
    """Measure the size of the basis and how well it fits."""
    data, q = growing.ground.data, growing.point.q
    difference = growing.ground.p - q
    if data.missing is not None:
        difference = difference[~data.missing]
    rmse = float(np.sqrt(np.mean(difference**2))) * data.total
    return Round.measured(len(growing.boxes), growing.kl, rmse, data.total)
