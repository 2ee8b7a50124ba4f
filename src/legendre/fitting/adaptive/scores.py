"""What a cell is worth: the gain of adding it."""

from __future__ import annotations

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray, IntArray

NEW = 1e-3
"""A cell that the ones before it in the round explain up to this share of its variance is a near-duplicate."""


def pick(eta: FloatArray, eta_hat: FloatArray, allowed: BoolArray, count: int, least: float) -> IntArray:
    """Choose up to `count` cells of gain above `least`, each given those before it.

    After a choice u the others' scores are what is left of them once theta_u has moved: with the covariances c of the
    features under Q, ``g_v -= c_uv g_u / c_uu`` and ``var_v -= c_uv^2 / c_uu``; the gain is then ``g_v^2 / (2 var_v)``.
    """
    gain = np.where(allowed, bernoulli_divergence(eta_hat, eta), 0.0).ravel()
    short = np.flatnonzero(gain > least)
    if len(short) > limits.SHORTLIST:
        short = np.sort(short[np.argpartition(gain[short], -limits.SHORTLIST)[-limits.SHORTLIST :]])
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
    """KL between coins with means p and q: the exact gain of one parameter; 0 where the model's coin is certain."""
    from scipy.special import rel_entr

    usable = (q > 0) & (q < 1)
    p, q = np.where(usable, p, 0.5), np.where(usable, q, 0.5)
    gain: FloatArray = rel_entr(p, q) + rel_entr(1.0 - p, 1.0 - q)
    return gain
