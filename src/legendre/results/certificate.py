"""The certificate of a fit in plain words: what has been proved of it, and what has not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from legendre.solvers.status import Status


@dataclass(frozen=True)
class Certificate:
    """What is known of a result: a verdict in one sentence, and why."""

    good: bool  # whether what was asked for has been reached
    verdict: str
    words: tuple[str, ...]

    def text(self) -> str:
        """Write it as one paragraph."""
        return " ".join([self.verdict, *self.words])


class Certified(Protocol):
    """What a certificate is about."""

    @property
    def tol(self) -> float: ...

    @property
    def status(self) -> Status: ...

    @property
    def residual(self) -> float: ...

    @property
    def gap(self) -> float: ...


VERDICTS = {
    Status.CONVERGED: "This is the minimum.",
    Status.AT_BOUNDARY: "This is the minimum, reached in a limit.",
    Status.UNDECIDED: "Q is the minimum to the tolerance; its parameters may not be.",
    Status.OUT_OF_STEPS: "This is not yet the minimum.",
    Status.STALLED: "This is not quite the minimum.",
    Status.STOPPED: "This is not yet the minimum.",
}
UNIQUE = "The problem is convex: every start and every solver leads to this Q."


def certificate_of(result: Certified, *, n_vanishing: int, rank: int, n_params: int) -> Certificate:
    """Put the certificate of a convex fit into words."""
    status, residual = result.status, result.residual
    off = f"On the basis the expectations of Q differ from those of X by at most {residual:.1e}"
    if status.converged:
        words = [f"{off}; {result.tol:g} was asked for.", UNIQUE]
    else:
        words = [f"{off}, where {result.tol:g} was asked for.", status.value]
    if math.isfinite(result.gap):
        words.append(f"KL(P, Q) is above its least possible value by at most {result.gap:.1e} nats.")
    if status is Status.AT_BOUNDARY:
        cells = "1 cell has" if n_vanishing == 1 else f"{n_vanishing:,} cells have"
        words.append(f"No finite parameters attain it: {cells} probability 0 in the limit.")
    if status is Status.UNDECIDED:
        words.append("Whether finite parameters attain the minimum was too large a question to decide.")
    if rank < n_params:
        words.append(
            f"Of the {n_params:,} parameters {rank:,} are independent on this sample space: Q is unique, theta is not."
        )
    return Certificate(status.converged, VERDICTS[status], tuple(words))
