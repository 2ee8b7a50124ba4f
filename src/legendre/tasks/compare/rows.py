"""The rows of a comparison, one for a method, a number of parameters and a seed; and how a reconstruction is scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from legendre.core.types import AnyArray, BoolArray, FloatArray
from legendre.tasks.compare.peers import PEERS

UNIFORM, PAPER, ADAPTIVE = "uniform", "paper", "adaptive"
MASKED = " x mask"
"""Follows a peer's name where its reconstruction was multiplied by the mask X > 0 and rescaled."""
COMPARED = ("cp-random", "cp-hals", "tucker", "tucker-hals", "cp-apr")
"""The peers of a comparison; each starts at random, so that seeds make a difference."""
NONZERO = "cp-nonzero"
"""The peer that is fitted where X > 0 alone, as ours is with ``support="nonzero"``; then multiplied by the mask."""
LABELS = {UNIFORM: "uniform", PAPER: "Legendre, paper's basis", ADAPTIVE: "Legendre, adaptive"} | {
    name + suffix: PEERS[name].label.removesuffix(", random start") + suffix
    for suffix in ("", MASKED)
    for name in (*COMPARED, NONZERO)
}


@dataclass(frozen=True)
class Row:
    """One reconstruction, or the reason why there is none; None where a field does not apply."""

    method: str
    asked: int  # the number of parameters to compare at
    seed: int | None  # of a random start
    status: str  # how a Legendre decomposition ended, or DONE, FAILED, SKIPPED, NOT INSTALLED
    n_params: int | None = None  # parameters used: at most `asked` of ours, at least `asked` of a peer
    n_iter: int | None = None
    rmse: float | None = None  # these three as in `Scores`
    rmse_nonzero: float | None = None
    kl: float | None = None
    seconds: float | None = None  # of the fit alone
    residual: float | None = None  # max|eta - eta_hat|; peers have none
    problem: str = ""  # which tensor
    support: str = "all"  # what the sample space was
    note: str = ""  # why there is no reconstruction, which basis was taken, or what a peer warned of

    @property
    def label(self) -> str:
        """The method's name for readers."""
        return LABELS.get(self.method, self.method)

    @property
    def scored(self) -> bool:
        """Whether there is a reconstruction."""
        return self.rmse is not None


@dataclass(frozen=True)
class Job:
    """One fit to run. It makes a row, and a second one where a peer's answer is also multiplied by the mask."""

    method: str
    asked: int
    seed: int | None = None


@dataclass(frozen=True)
class Scores:
    """Three distances between X and a reconstruction, over the cells that are not missing."""

    rmse: float  # root mean square error over all cells, in X's units
    rmse_nonzero: float  # the same over the cells where X > 0
    kl: float  # KL(P, Q) in nats, both tensors normalised; infinite where Q = 0 < P


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
    unit = float(np.nanmax(X)) or 1.0  # squares of very large or small entries would overflow or vanish
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
    """Return Q where X > 0, rescaled to X's total; 0 elsewhere, and 0 everywhere if Q is 0 where X > 0."""
    mask: BoolArray = X > 0
    kept = np.where(mask, Q, 0.0)
    total = float(kept.sum())
    return kept * (float(X[mask].sum(dtype=np.float64)) / total) if total > 0 else kept


def _slabs(X: AnyArray, Q: FloatArray) -> zip[tuple[FloatArray, FloatArray]]:
    return zip((np.asarray(x, dtype=np.float64) for x in X), Q, strict=True)
