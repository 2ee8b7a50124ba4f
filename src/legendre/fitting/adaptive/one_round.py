"""One round of growing: how many cells to add, which to give back, which no longer pay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.types import BoolArray, IntArray
from legendre.data.dense import Dense
from legendre.fitting.adaptive.candidates import NOTHING, chosen
from legendre.fitting.adaptive.losses import (
    SHARPLY,
    Losses,
    least_missed,
    losses,
    losses_about,
    shortened,
    without,
)
from legendre.fitting.adaptive.observed_sums import Ground
from legendre.fitting.adaptive.state import State, factor_time, fitted, renewed, step_time

SHARE, PART, MOST_AT_FIRST = 0.1, 40, 8
"""Cells added in a round: a share of the basis; at first a 40th of the size to reach, from 1 to 8."""
EARLY, EARLY_SHARE, MORE_AT_FIRST = 0.25, 0.15, 16
"""Where most cells of X have data: up to this part of the size to reach a larger share is added, and up to 16 at first.
What is chosen early is weighed again in every swap. (Where most are empty, early cells would decide which of them
vanish: MNIST 0 then needs a search for its face, which takes a second.)

RMSE of faces, and rounds, against a tenth throughout and at most 8 at first: 2,000 cells 21.12, 37 rounds against
21.14, 49; 4,000 cells 17.98, 42 against 17.98, 56. With the larger share up to half of the size 21.25 at 2,000."""
ROUGH, ROUGH_STEPS = 1e-4, 8
"""Half the squared Newton decrement that a fit between rounds leaves, as a share of the round's gain; its steps."""
SWAPPED = 0.15  # the share of the cells that is given back in one go
MUCH_MISSED = 4.0  # a loss, as a multiple of KL, from which a cell is not given back
LIGHTER = 0.03  # the share of the cells that do not pay by the estimate which is given back in one go
MOST_WRONG = 4  # times that the estimate may be wrong before it is not asked again
LEAST_TRIED, PASS_TIME = 64, 2e9  # cells that are looked at in a pass at least; nanoseconds of a pass
TRIED_OF_MANY = 128  # cells of a large basis that are looked at in a pass: chord steps alone, some milliseconds each
DOUBTFUL = 4.0  # a loss that is estimated at more than this many times the price is not computed exactly
MOST_PASSES = 40  # the last finds no cell that does not pay; flights3, 1,765 cells: 5 passes of a large basis
END_TOL, END_STEPS, END_FACTORS = 5e-11, 40, 4
"""max|eta - eta_hat| at the end of growing, half of what a fit is asked for by default; steps and new factors at most
that lead there. Where one or two factors do not, theta is on its way to infinity, and the last fit finds the cells that
vanish (MNIST 3, 2,000 cells: 40 steps with 34 factors took 1.5 s and ended at 1e-9)."""
START_GOAL, START_STEPS = 1e-10, 60


@dataclass(frozen=True, eq=False)
class Search:
    """The data, the cells that stay, the candidates, and what a parameter must gain."""

    ground: Ground  # the data on the whole grid
    start: IntArray  # places of cells that are in every basis, first
    candidates: BoolArray  # True for the places of cells that may be added
    most: int  # the largest number of parameters
    known: bool = True  # whether that is the size to reach, or only a limit
    least: float = 0.0  # the gain in KL at which a parameter pays for itself

    @classmethod
    def of(cls, data: Dense, start: Basis | str, candidates: Basis | str | None, most: int | None) -> Search:
        """Prepare: one suffix-sum pass over X."""
        ground, allowed = Ground.of(data), data.support.on_grid().copy()
        if candidates is not None:
            named = np.zeros(data.shape, dtype=np.bool_)
            named[tuple(as_basis(candidates).select(data).T)] = True
            allowed &= named
        allowed = allowed.ravel()
        places = ground.places(as_basis(start).select(data))
        allowed[0] = False
        allowed[places] = False
        every = len(places) + int(allowed.sum())
        return cls(ground, places, allowed, every if most is None else most, most is not None)

    def among_uncertain(self) -> Search:
        """Leave out cells with none or all of the counts above them: no sample shows that an event is impossible."""
        eta_hat = self.ground.eta_hat
        return replace(self, candidates=self.candidates & (eta_hat > 0) & (eta_hat < 1))

    def first(self) -> State:
        """Fit the start alone."""
        state = State.of(self.ground, self.start, np.zeros(len(self.start))).anchored()
        return fitted(state, START_GOAL, START_STEPS)[0].anchored()

    def larger(self, state: State, most: int | None = None) -> State | None:
        """Add the cells of a round and fit; ``None`` when the size is reached or no candidate pays."""
        size = len(state.places)
        left = (self.most if most is None else most) - size
        if left <= 0:
            return None
        count = min(max(self._at_first, int(self._share(size) * size)), left)
        count = left if left - count < count / 2 else count
        choice = chosen(state, self.candidates, count, self.least)
        if choice is None and state.single:  # in float64 there may be one
            state = state.anchored(double=True)
            choice = chosen(state, self.candidates, count, self.least)
        if choice is None:
            return None
        return state.grown(choice, ROUGH, ROUGH_STEPS)

    @property
    def _at_first(self) -> int:
        most = MORE_AT_FIRST if self.ground.mostly_seen else MOST_AT_FIRST
        return min(max(self.most // PART, 1), most) if self.known else 1

    def _share(self, size: int) -> float:
        early = self.known and size < EARLY * self.most and self.ground.mostly_seen
        return EARLY_SHARE if early else SHARE

    def smaller(self, state: State) -> State | None:
        """Give back a share of the cells, those that are missed least, and fit the others; the start stays.

        ``None`` where without any of them KL would be several times what it is, or without all of them is several times
        what was estimated: a step of that length led nowhere.
        """
        count = min(max(1, int(SWAPPED * state.size)), state.size - len(self.start))
        loss = self.losses(state, count)
        gone = least_missed(state, loss, count, MUCH_MISSED * state.kl + NOTHING)
        less = self.shorter(state, gone, loss) if len(gone) else None
        if less is None or less.kl > MUCH_MISSED * (state.kl + float(loss.each[gone].sum())) + NOTHING:
            return None
        return less

    def nearer(self, state: State) -> State:
        """Give back a share of the cells, those that are missed least, but no more than exceed the size."""
        size = len(state.places)
        count = min(max(1, int(SWAPPED * size)), size - self.most)
        loss = self.losses(state, count)
        gone = least_missed(state, loss, count)
        return self.shorter(state, gone if len(gone) else np.arange(self.most, size), loss)

    def losses(self, state: State, count: int | None = None) -> Losses:
        """Estimate what each cell is worth, or those `count` least missed; those of the start are never given back."""
        loss = losses(state, None if count is None else count + len(self.start))
        loss.each[: len(self.start)] = np.inf
        return loss

    def shorter(self, state: State, gone: IntArray, loss: Losses) -> State:
        """Give cells back and fit the others."""
        lost = max(float(np.minimum(loss.each[gone], state.kl).sum()), 1e-12)
        return renewed(*fitted(shortened(state, gone), ROUGH * lost, ROUGH_STEPS))

    def lighter(self, state: State) -> State:
        """Give back the cells that by the estimate lose less than they must gain, the worst first, a few at a time.

        In a large basis the estimate is wrong of too many cells, and what they lose is computed.
        """
        if state.size > limits.LARGE_BASIS:
            return self.paying(state)
        share, wrong, stay = LIGHTER, 0, np.zeros(0, dtype=np.int64)
        while state.size > len(self.start) and wrong <= MOST_WRONG:
            loss = self.losses(state)
            loss.each[np.isin(state.places, stay)] = np.inf
            worst = least_missed(state, loss, max(1, int(share * state.size)), self.least)
            if not len(worst):
                break
            less = self.shorter(state, worst, loss).anchored()
            if self.cost(less) < self.cost(state):
                state = less
                continue
            wrong += 1
            if len(worst) > 1:  # fewer at a time
                share /= 4.0
            else:
                stay = np.append(stay, state.places[worst])
        return state

    def paying(self, state: State) -> State:
        """Give back, one after the other, the cells without which KL rises by less than they must gain: by refits.

        The fits are of boxes of the grid, which are fewer. A cell that was found not to pay is looked at again when
        others have gone; in the end, all. Of a large basis those with the smallest estimated losses are looked at, and
        those once only of which chord steps do not tell what they are worth.
        """
        ground, places = state.ground.merged(state.places)
        now = State.of(ground, places, state.at.theta)
        now = fitted(now.anchored(), SHARPLY * self.least, START_STEPS)[0].anchored()
        unknown = np.zeros(0, dtype=np.int64)
        for _ in range(MOST_PASSES):
            before = now.size
            if before > limits.LARGE_BASIS:
                now, unknown = self._pass_of_many(now, unknown)
            else:
                now = self._one_pass(now)
            if now.size == before:
                break
        kept = np.isin(places, now.places)
        return State.of(state.ground, state.places[kept], now.at.theta).anchored()

    def _one_pass(self, now: State) -> State:
        estimate = self.losses(now).each
        room = max(LEAST_TRIED, int(PASS_TIME / (factor_time(now) + 8.0 * step_time(now))))
        tried = np.argsort(estimate, kind="stable")[:room]
        tried = tried[estimate[tried] < DOUBTFUL * self.least]
        loss = losses_about(now, tried, self.least)
        worst = tried[np.argsort(loss, kind="stable")][: int((loss < self.least).sum())]
        return self._one_by_one(now, worst)

    def _pass_of_many(self, now: State, unknown: IntArray) -> tuple[State, IntArray]:
        """Do so in a large basis, together: one after the other takes two factors each.

        `unknown` are places of cells of which chord steps did not tell what they are worth; more are returned.
        """
        weighed = self.losses(now)
        estimate = np.where(np.isin(now.places, unknown), np.inf, weighed.each)
        tried = np.argsort(estimate, kind="stable")[:TRIED_OF_MANY]
        tried = tried[estimate[tried] < DOUBTFUL * self.least]
        loss = np.full(now.size, np.inf)
        loss[tried] = losses_about(now, tried, self.least)
        unknown = np.append(unknown, now.places[tried[np.isinf(loss[tried])]])
        below = count = int((loss < self.least).sum())
        while count > 1:
            gone = least_missed(now, weighed._replace(each=loss), count, self.least)
            less = without(now, gone, SHARPLY * self.least).anchored()
            if self.cost(less) < self.cost(now):
                return less, unknown
            count = len(gone) // 2
        return self._one_by_one(now, np.argsort(loss, kind="stable")[: min(below, 1)]), unknown

    def _one_by_one(self, now: State, worst: IntArray) -> State:
        """Give back cells that do not pay, those that still do not when others have gone."""
        fresh = True
        for place in now.places[worst].tolist():
            position = np.flatnonzero(now.places == place)
            if fresh or losses_about(now, position, self.least)[0] < self.least:
                now, fresh = without(now, position, SHARPLY * self.least).anchored(), False
        return now

    def finished(self, state: State) -> State:
        """Fit as exactly as a fit is asked for by default."""
        return fitted(state, 0.0, END_STEPS, END_TOL, END_FACTORS)[0]

    def cost(self, state: State) -> float:
        """Weigh the fit and the number of its parameters."""
        return state.kl + self.least * state.size
