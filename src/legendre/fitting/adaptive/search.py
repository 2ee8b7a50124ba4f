"""One round of growing: what each cell would gain, which cells to add, which to leave out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.dense import Dense
from legendre.fitting.adaptive.state import Ground, Grown

SHARE, AT_LEAST, AT_MOST = 0.05, 6, 64  # cells added in a round: a share of the basis, within bounds
SWAPPED = 0.15  # the share of the cells that is left out in one go
NEW = 1e-3  # a cell that the ones before it in the round explain up to this share of its variance is a near-duplicate


@dataclass(frozen=True, eq=False)
class Search:
    """The data, the cells that stay, the candidates, and what a parameter must gain."""

    ground: Ground  # the data on the whole grid
    start: IntArray  # cells that are in every basis, first
    candidates: BoolArray  # True for the cells that may be added
    most: int  # the largest number of parameters
    least: float = 0.0  # the gain in KL at which a parameter pays for itself
    swaps: int = 0  # how many times at most cells are given back and chosen anew

    @classmethod
    def of(cls, data: Dense, start: Basis | str, candidates: Basis | str | None, most: int | None) -> Search:
        """Prepare: one suffix-sum pass over X."""
        cells, allowed = as_basis(start).select(data), data.support.on_grid().copy()
        if candidates is not None:
            named = np.zeros(data.shape, dtype=np.bool_)
            named[tuple(as_basis(candidates).select(data).T)] = True
            allowed &= named
        allowed[(0,) * allowed.ndim] = False
        allowed[tuple(cells.T)] = False
        every = len(cells) + int(allowed.sum())
        return cls(Ground.of(data), cells, allowed, every if most is None else most)

    def among_uncertain(self) -> Search:
        """Leave out cells with none or all of the counts above them: no sample shows that an event is impossible."""
        eta_hat = self.ground.eta_hat
        return replace(self, candidates=self.candidates & (eta_hat > 0) & (eta_hat < 1))

    def first(self) -> Grown:
        """Fit the start alone."""
        return self.ground.fitted(self.start, np.zeros(len(self.start)), self.ground.vanishing(self.start))

    def larger(self, state: Grown) -> Grown | None:
        """Add the cells of a round; ``None`` when the size is reached or no candidate pays."""
        k, allowed = len(state.cells), self.candidates.copy()
        allowed[tuple(state.cells.T)] = False
        count = min(max(AT_LEAST, int(SHARE * k)), AT_MOST, self.most - k)
        new = pick(state.eta, self.ground.eta_hat, allowed, count, self.least)
        return state.extended(new) if len(new) else None

    def least_missed(self, state: Grown) -> IntArray:
        """List the positions of cells to leave out: the last in value, and all that do not pay; the start stays."""
        loss, k = state.losses(), len(state.cells)
        loss[: len(self.start)] = np.inf
        count = min(max(1, int(SWAPPED * k)), k - len(self.start))
        return np.argsort(loss, kind="stable")[: max(count, int((loss < self.least).sum()))]

    def cost(self, state: Grown) -> float:
        """Weigh the fit and the number of its parameters."""
        return state.kl + self.least * len(state.cells)


def pick(eta: FloatArray, eta_hat: FloatArray, allowed: BoolArray, count: int, least: float) -> IntArray:
    """Choose up to `count` cells of gain above `least`, each given those before it.

    After a choice u the others' scores are what is left of them once theta_u has moved: with the covariances c of the
    features under Q, ``g_v -= c_uv g_u / c_uu`` and ``var_v -= c_uv^2 / c_uu``; the gain is then ``g_v^2 / (2 var_v)``.
    """
    gain = np.where(allowed, bernoulli_divergence(eta_hat, eta), 0.0).ravel()
    short = np.flatnonzero(gain > least)
    if len(short) > limits.SHORTLIST:
        short = np.sort(short[np.argpartition(gain[short], -limits.SHORTLIST)[-limits.SHORTLIST :]])
    places = np.stack(np.unravel_index(short, eta.shape), axis=1).astype(np.int64)
    strides = np.cumprod((1, *eta.shape[:0:-1]))[::-1].astype(np.int64)
    flat, mean = eta.ravel(), eta.ravel()[short]
    gradient, variance, score = (eta_hat.ravel()[short] - mean), mean * (1.0 - mean), gain[short]
    full, rows = variance.copy(), np.empty((count, len(short)))
    chosen: list[int] = []
    while len(chosen) < count and len(short):
        best = int(score.argmax())
        if score[best] <= least:
            break
        row = flat[np.maximum(places, places[best]) @ strides] - mean * mean[best]
        row -= rows[: len(chosen), best] @ rows[: len(chosen)]
        row /= np.sqrt(row[best])
        rows[len(chosen)] = row
        gradient -= row * (gradient[best] / np.sqrt(variance[best]))
        variance -= row * row
        chosen.append(best)
        fresh = variance > NEW * full
        with np.errstate(over="ignore"):  # a variance of 1e-310 leaves an infinite score: the next choice
            score = np.divide(gradient**2, 2.0 * variance, out=np.zeros_like(gradient), where=fresh)
        score[chosen] = 0.0
    return places[chosen]


def bernoulli_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """KL between coins with means p and q: the exact gain of one parameter; 0 where the model's coin is certain."""
    from scipy.special import rel_entr

    usable = (q > 0) & (q < 1)
    p, q = np.where(usable, p, 0.5), np.where(usable, q, 0.5)
    return np.asarray(rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q))
