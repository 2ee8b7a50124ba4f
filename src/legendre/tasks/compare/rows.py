"""What a comparison says: one row for a method, a number of parameters and a seed."""

from __future__ import annotations

from dataclasses import dataclass

from legendre.tasks.compare.peers import PEERS

UNIFORM, PAPER, ADAPTIVE = "uniform", "paper", "adaptive"
MASKED = " x mask"
"""Follows a peer's name where its reconstruction was multiplied by the mask X > 0 and rescaled."""
COMPARED = ("cp-random", "cp-hals", "tucker", "tucker-hals", "cp-apr")
"""The peers of a comparison; each starts at random, so several seeds mean something."""
NONZERO = "cp-nonzero"
"""The peer that leaves the zeros out of its fit, as ours does with ``support="nonzero"``; it counts times the mask."""
LABELS = {UNIFORM: "uniform", PAPER: "Legendre, paper's basis", ADAPTIVE: "Legendre, adaptive"} | {
    name + suffix: PEERS[name].label.removesuffix(", random start") + suffix
    for suffix in ("", MASKED)
    for name in (*COMPARED, NONZERO)
}


@dataclass(frozen=True)
class Row:
    """One reconstruction, or the reason why there is none; empty where something does not apply.

    Parameters
    ----------
    method, asked, seed
        Who; about how many parameters were asked for; where a random start began.
    status
        How a Legendre decomposition ended, or DONE, FAILED, SKIPPED, NOT INSTALLED.
    n_params, n_iter
        How many parameters were used: ours has at most as many as asked, a peer at least.
    rmse, rmse_nonzero, kl
        See `legendre.tasks.compare.scores.Scores`.
    seconds
        Of the fit alone.
    residual
        max|eta - eta_hat|; peers have none.
    problem, support
        Which tensor, and what the sample space was.
    note
        What else there is to say.
    """

    method: str
    asked: int
    seed: int | None
    status: str
    n_params: int | None = None
    n_iter: int | None = None
    rmse: float | None = None
    rmse_nonzero: float | None = None
    kl: float | None = None
    seconds: float | None = None
    residual: float | None = None
    problem: str = ""
    support: str = "all"
    note: str = ""

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
    """What gives a row, or two where a peer is also multiplied by the mask."""

    method: str
    asked: int
    seed: int | None = None
