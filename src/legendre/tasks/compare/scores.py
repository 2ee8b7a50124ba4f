"""How far a reconstruction is from X; the same yardstick for every method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core.types import AnyArray, BoolArray, FloatArray


@dataclass(frozen=True)
class Scores:
    """Three distances; missing cells (NaN in X) count in none.

    Parameters
    ----------
    rmse
        Root mean square error over all cells, in X's units.
    rmse_nonzero
        The same over the cells where X > 0.
    kl
        KL(P, Q) in nats, both tensors normalised; infinite where Q = 0 < P.
    """

    rmse: float
    rmse_nonzero: float
    kl: float


def score(X: AnyArray, Q: FloatArray) -> Scores:
    """Compare Q with X, slab by slab.

    Examples
    --------
    >>> score(np.array([[0.0, 3.0], [1.0, np.nan]]), np.array([[1.0, 2.0], [1.0, 9.0]]))
    Scores(rmse=0.816..., rmse_nonzero=0.707..., kl=0.3040...)
    """
    from scipy.special import rel_entr

    total_x = float(np.nansum(X, dtype=np.float64))
    total_q = sum(float(q[~np.isnan(x)].sum()) for x, q in _slabs(X, Q))
    unit = float(np.nanmax(X)) or 1.0  # squares of very large or small entries would leave the range
    square, square_nonzero, divergence, cells, nonzero = 0.0, 0.0, 0.0, 0, 0
    for x, q in _slabs(X, Q):
        here, positive = ~np.isnan(x), x > 0
        difference = np.where(here, x / unit, q / unit) - q / unit
        square += float(np.vdot(difference, difference))
        square_nonzero += float(np.square(difference[positive]).sum())
        divergence += float(rel_entr(x[positive] / total_x, q[positive] / total_q).sum()) if total_q > 0 else np.inf
        cells, nonzero = cells + int(here.sum()), nonzero + int(positive.sum())
    return Scores(
        unit * float(np.sqrt(square / cells)), unit * float(np.sqrt(square_nonzero / nonzero)), max(divergence, 0.0)
    )


def masked(X: AnyArray, Q: FloatArray) -> FloatArray:
    """Return Q where X > 0, rescaled to X's total; 0 elsewhere, and 0 everywhere when nothing is left of it."""
    mask: BoolArray = X > 0
    kept = np.where(mask, Q, 0.0)
    total = float(kept.sum())
    return kept * (float(X[mask].sum()) / total) if total > 0 else kept


def _slabs(X: AnyArray, Q: FloatArray) -> zip[tuple[FloatArray, FloatArray]]:
    return zip((np.asarray(x, dtype=np.float64) for x in X), Q, strict=True)
