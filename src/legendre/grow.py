"""Growing a basis: greedy forward selection, several cells a round, warm-started fits between."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.arrays import BoolArray, FloatArray, IntArray
from legendre.basis import as_basis
from legendre.basis.adaptive import Adaptive
from legendre.basis.core import Cells
from legendre.decomposition import Round
from legendre.errors import InvalidBasis
from legendre.fit import fit_on
from legendre.intake import Observation
from legendre.zeta import zeta_adjoint

SHARE, AT_LEAST, AT_MOST = 0.05, 6, 64
"""Cells added in a round: a share of the basis, within bounds."""
SHORTLIST = 20_000
"""Candidates that compete within a round: those of the largest gain of their own."""
ROUGH_TOL, ROUGH_STEPS = 1e-7, 2
"""Fits on the way need not be exact: the next round changes the model anyway."""
NEW = 1e-3
"""A cell that the ones before it in the round explain up to this share of its variance is a near-duplicate."""


@dataclass(frozen=True, eq=False)
class Growth:
    """Where growing ended: the cells in the order in which they were chosen, a start for their fit, and the way."""

    cells: IntArray
    theta: FloatArray
    rounds: tuple[Round, ...]


def grow(recipe: Adaptive, data: Observation) -> Growth:
    """Add cells until the size is reached, no cell is left or the criterion rises."""
    cells = as_basis(recipe.start).select(data)
    if isinstance(recipe.size, int) and len(cells) > recipe.size:
        raise InvalidBasis(f"{recipe!r}: the start already has {len(cells)} parameters.")
    allowed = _candidates(recipe, data)
    eta_hat = zeta_adjoint(_probabilities(data))
    least = _least_gain(recipe, data, int(allowed.sum()))
    rounds: list[Round] = []
    theta = np.zeros(len(cells))
    while True:
        fit = fit_on(data, Cells(cells), tol=ROUGH_TOL, max_iter=ROUGH_STEPS, start=theta)
        rounds.append(Round.of(fit))
        allowed[tuple(cells.T)] = False
        new = pick(fit.eta_tensor(), eta_hat, allowed, _how_many(recipe, len(cells)), least)
        if not len(new):
            return Growth(cells, fit.theta, tuple(rounds))
        cells = np.concatenate([cells, new])
        theta = np.concatenate([fit.theta, np.zeros(len(new))])


def pick(eta: FloatArray, eta_hat: FloatArray, allowed: BoolArray, count: int, least: float) -> IntArray:
    """Choose up to `count` cells of gain above `least`, each given those before it.

    After a choice u the others' scores are what is left of them once theta_u has moved: with the covariances c of the
    features under Q, ``g_v -= c_uv g_u / c_uu`` and ``var_v -= c_uv^2 / c_uu``; the gain is then ``g_v^2 / (2 var_v)``.
    """
    gain = np.where(allowed, bernoulli_divergence(eta_hat, eta), 0.0).ravel()
    short = np.sort(np.argpartition(gain, max(gain.size - SHORTLIST, 0))[-SHORTLIST:])
    short = short[gain[short] > least]
    shape = eta.shape
    places = np.stack(np.unravel_index(short, shape), axis=1).astype(np.int64)
    strides = np.cumprod((1, *shape[:0:-1]))[::-1].astype(np.int64)
    flat, mean = eta.ravel(), eta.ravel()[short]
    gradient, variance, score = (eta_hat.ravel()[short] - mean), mean * (1.0 - mean), gain[short]
    full = variance.copy()
    rows = np.empty((count, len(short)))
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
        score = np.divide(gradient**2, 2.0 * variance, out=np.zeros_like(gradient), where=fresh)
        score[chosen] = 0.0
    return places[chosen]


def bernoulli_divergence(p: FloatArray, q: FloatArray) -> FloatArray:
    """KL between coins with means p and q: the exact gain of one parameter; 0 where either coin is certain."""
    usable = (p > 0) & (p < 1) & (q > 0) & (q < 1)
    p, q = np.where(usable, p, 0.5), np.where(usable, q, 0.5)
    return p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))


def _candidates(recipe: Adaptive, data: Observation) -> BoolArray:
    """Mark the cells that may be chosen: in the support, not the bottom."""
    allowed = np.ones(data.shape, dtype=np.bool_) if data.support.mask is None else data.support.mask.copy()
    allowed[(0,) * allowed.ndim] = False
    if recipe.candidates is not None:
        wanted = np.zeros(data.shape, dtype=np.bool_)
        wanted[tuple(as_basis(recipe.candidates).select(data).T)] = True
        allowed &= wanted
    return allowed


def _probabilities(data: Observation) -> FloatArray:
    p = data.values / data.total
    return np.asarray(p if data.support.mask is None else np.where(data.support.mask, p, 0.0), dtype=np.float64)


def _how_many(recipe: Adaptive, n_params: int) -> int:
    step = min(max(AT_LEAST, int(SHARE * n_params)), AT_MOST)
    return step if isinstance(recipe.size, str) else min(step, recipe.size - n_params)


def _least_gain(recipe: Adaptive, data: Observation, n_candidates: int) -> float:
    """Return the gain in KL at which a parameter pays for itself; 0 when the size is given."""
    if not isinstance(recipe.size, str):
        return 0.0
    values = data.values[data.support.mask] if data.support.mask is not None else data.values
    if values.dtype.kind == "f" and not (values == np.rint(values)).all():
        raise InvalidBasis(f"{recipe!r} needs counts, for it weighs the fit by their number; X has fractions.")
    n = data.total
    penalty = 2.0 if recipe.size == "aic" else float(np.log(n)) + 2.0 * float(np.log(max(n_candidates, 1)))
    return penalty / (2.0 * n)
