"""Rows gathered: over seeds, over digits, ours against the best of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .comparison import ADAPTIVE, COMPARED, MASKED, UNIFORM, Row

Quantity = Callable[[Row], float | None]
MEASURES: dict[str, Quantity] = {
    "RMSE": lambda row: row.rmse,
    "RMSE, X > 0": lambda row: row.rmse_nonzero,
    "KL": lambda row: row.kl,
}
SOUND = ("CONVERGED", "AT_BOUNDARY", "UNDECIDED", "DONE")
"""How a row must have ended to count."""


def of(rows: Iterable[Row], method: str, support: str, asked: int | None = None) -> list[Row]:
    """Select the rows that count, at any number of parameters or at one."""
    return [
        row
        for row in rows
        if (row.method, row.support) == (method, support) and row.status in SOUND and asked in (None, row.asked)
    ]


def by_problem(rows: Iterable[Row], quantity: Quantity, over: Callable[[list[float]], float]) -> dict[str, float]:
    """Reduce the seeds of each tensor to one number."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        if (value := quantity(row)) is not None:
            groups.setdefault(row.problem, []).append(value)
    return {problem: over(values) for problem, values in groups.items()}


def over_tensors(
    rows: Sequence[Row],
    method: str,
    support: str,
    asked: int | None,
    quantity: Quantity,
    over: Callable[[list[float]], float] = min,
) -> list[float]:
    """Return one number for each tensor of the rows; an empty list if one is missing, for a mean needs them all."""
    found = by_problem(of(rows, method, support, None if method == UNIFORM else asked), quantity, over)
    return [*found.values()] if found.keys() == {row.problem for row in rows} else []


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN for an empty list."""
    known = [*values]
    return float(np.mean(known)) if known else float("nan")


def sem(values: Iterable[float]) -> float:
    """Return the standard error of the mean."""
    known = [*values]
    return float(np.std(known, ddof=1) / np.sqrt(len(known))) if len(known) > 1 else 0.0


@dataclass(frozen=True)
class Verdict:
    """Adaptive against the best peer at a number of parameters, means over the tensors that both have.

    Parameters
    ----------
    asked, measure
        Where.
    ours, best, peer
        The two means, and whose the second is: the best seed of each tensor, the method that is best on the mean.
    won, tensors, missing
        On how many tensors ours is below, of how many; how many more there are on which ours has no fit.
    """

    asked: int
    measure: str
    ours: float
    best: float
    peer: str
    won: int
    tensors: int
    missing: int


def verdicts(
    rows: Sequence[Row],
    support: str,
    *,
    peer_support: str,
    masked: bool = False,
    peers: Sequence[str] = COMPARED,
    method: str = ADAPTIVE,
) -> list[Verdict]:
    """Judge every number of parameters and every measure for which both sides have rows; `method` is ours."""
    suffix = MASKED if masked else ""
    found = []
    for asked in sorted({row.asked for row in rows if row.asked}):
        for measure, quantity in MEASURES.items():
            ours = by_problem(of(rows, method, support, asked), quantity, min)
            others = {name: by_problem(of(rows, name + suffix, peer_support, asked), quantity, min) for name in peers}
            found += _verdict(asked, measure, ours, others, len({row.problem for row in rows}))
    return found


def _verdict(
    asked: int, measure: str, ours: dict[str, float], others: dict[str, dict[str, float]], tensors: int
) -> list[Verdict]:
    """Compare on the tensors that ours has; a peer that lacks one of them cannot be the best."""
    complete = {name: values for name, values in others.items() if ours and ours.keys() <= values.keys()}
    if not complete:
        return []
    means = {name: mean(values[problem] for problem in ours) for name, values in complete.items()}
    peer = min(means, key=lambda name: means[name])
    won = sum(value < complete[peer][problem] for problem, value in ours.items())
    return [Verdict(asked, measure, mean(ours.values()), means[peer], peer, won, len(ours), tensors - len(ours))]
