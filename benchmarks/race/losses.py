"""Where another library is ahead, said first and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.tables import number

from .rows import OURS, Row

Quantity = Callable[[Row], float | None]


@dataclass(frozen=True)
class Kind:
    """Something that is better when it is less."""

    name: str
    theirs: Quantity
    ours: Quantity
    unit: str = ""


def _from_nothing(row: Row) -> float | None:
    """Return the first call of a library that keeps no compiled code on disk, or with none there."""
    return row.empty_seconds if row.empty_seconds is not None else row.first_seconds


KINDS = (
    Kind("time", lambda row: row.seconds, lambda row: row.seconds, " s"),
    Kind("first call", lambda row: row.first_seconds, lambda row: row.first_seconds, " s"),
    Kind("first call, nothing compiled on disk", _from_nothing, lambda row: row.empty_seconds, " s"),
    Kind("peak memory", lambda row: row.peak_mb, lambda row: row.peak_mb, " MB"),
    Kind("RMSE", lambda row: row.rmse, lambda row: row.rmse),
    Kind("KL", lambda row: row.kl, lambda row: row.kl),
)  # fmt: skip
NOISE = 0.02
"""By how much less something must be to be a loss: the same fit is measured a little differently each time."""

WHY = {
    ("decompositions", "time"): (
        "Growing scores every cell in every round and ends with a certified fit; HALS and ALS repeat small "
        "least-squares problems. Tried: gains given the basis from one kept factor, rounds of a tenth, only local"
        " maxima as candidates (kept, they took most of the time away); larger rounds, random probes of the "
        "variances, float32 factors (dropped: worse bases, or other bits on other machines)."
    ),
    ("decompositions", "RMSE"): (
        "HALS, ALS and Tucker minimise the squared error, the package the divergence: beside it KL. Where rows of"
        " both are close, boxes(n) have smaller errors at equal parameters, beyond the paper's model, and are not"
        " in the race."
    ),
    ("decompositions", "KL"): (
        "Sums of separable parts suit X better there than products of corners do. Tried: unordered=... where a "
        "mode has no order of its own, which is the row below."
    ),
    ("log-linear models", "time"): (
        "pyfixest sweeps the effects out by alternating projections and lists no coefficients; the package "
        "returns theta with a certificate. Tried: Newton steps, scaling cycles and the closed form, chosen by "
        "size as core/limits.py says."
    ),
    ("balancing", "time"): (
        "Proportional fitting alone computes neither parameters nor a certificate and does not ask whether there "
        "is an answer; what the package adds is most of its time where few sweeps are enough. Tried: Newton steps"
        " below and cycles above 300 parameters."
    ),
    ("order 100", "time"): (
        "The closed form of a Bayesian network, or a few steps on compiled code for this one graph. Tried: the "
        "closed form of decomposable models, which the package takes as well."
    ),
    ("", "first call"): (
        "The package loads numba and its compiled code, 0.3 to 0.6 s, whatever the size. Tried: heavy imports "
        "only where used, signatures that are fixed."
    ),
    ("", "first call, nothing compiled on disk"): (
        "numba compiles, once for each machine. The first-use part of the page on performance has what was tried."
    ),
    ("", "peak memory"): (
        "Compiled code that is loaded counts, 10 to 100 MB of it; on small problems that is all there is."
    ),
    ("", "RMSE"): "The models are the same up to the tolerance.",
    ("", "KL"): "The models are the same up to the tolerance.",
}  # fmt: skip
"""What is known of the reason and what was tried, by discipline and kind; "" is any discipline."""


@dataclass(frozen=True)
class Loss:
    """A problem and a kind in which others are ahead, the farthest first."""

    problem: str
    kind: str
    ours: str
    ahead: str
    why: str


def losses(rows: Sequence[Row]) -> list[Loss]:
    """List them in the order of the rows: time and errors before memory and first calls."""
    found = []
    for kind in sorted(KINDS, key=lambda kind: kind.name.startswith(("first", "peak"))):
        for mine in rows:
            if mine.method == OURS and (value := kind.ours(mine)) is not None and (ahead := _ahead(mine, rows, kind)):
                text = "; ".join(_said(row, kind, value) for row in ahead)
                ours = f"{number(value)}{kind.unit}" + _errors(mine, kind)
                found.append(Loss(mine.problem, kind.name, ours, text, why(mine.discipline, kind.name)))
    return found


def why(discipline: str, kind: str) -> str:
    """Find the words."""
    return WHY.get((discipline, kind)) or WHY.get(("", kind)) or "Nothing was tried."


def _ahead(mine: Row, rows: Sequence[Row], kind: Kind) -> list[Row]:
    """List the rows of others that got there with less, the least first; equal models do not differ in their errors."""
    if kind.name in ("RMSE", "KL") and mine.tol is not None:
        return []
    value = kind.ours(mine)
    assert value is not None
    others = [row for row in rows if row.key[:2] == mine.key[:2] and not row.ours and row.counts]
    less = [row for row in others if (theirs := kind.theirs(row)) is not None and theirs < (1 - NOISE) * value]
    return sorted(less, key=lambda row: kind.theirs(row) or 0.0)


def _said(row: Row, kind: Kind, ours: float) -> str:
    value = kind.theirs(row)
    assert value is not None
    return f"{row.method} {number(value)}{kind.unit} ({number(value / ours, '.2g')} x)" + _errors(row, kind)


def _errors(row: Row, kind: Kind) -> str:
    """Add what a time bought where models differ."""
    if kind.name != "time" or row.tol is not None:
        return ""
    return f", KL {number(row.kl)}, RMSE {number(row.rmse)}"
