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
    gathered: bool = False  # one line for all problems of a discipline


def _from_nothing(row: Row) -> float | None:
    """Return the first call of a library that keeps no compiled code on disk, or with none there."""
    return row.empty_seconds if row.empty_seconds is not None else row.first_seconds


def _compiling(row: Row) -> float | None:
    """Return the first call with nothing compiled on disk, if it compiled something."""
    first, empty = row.first_seconds, row.empty_seconds
    return empty if first is not None and empty is not None and empty > 1.5 * first else None


KINDS = (
    Kind("time", lambda row: row.seconds, lambda row: row.seconds, " s"),
    Kind("first call", lambda row: row.first_seconds, lambda row: row.first_seconds, " s", gathered=True),
    Kind("first call, nothing compiled on disk", _from_nothing, _compiling, " s", gathered=True),
    Kind("peak memory", lambda row: row.peak_mb, lambda row: row.peak_mb, " MB", gathered=True),
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
        "The package loads numba and its compiled code, whatever the size. Tried: heavy imports only "
        "where used, signatures that are fixed."
    ),
    ("", "first call, nothing compiled on disk"): (
        "numba compiles, once for each machine. The first-use part of the page on performance has what was tried."
    ),
    ("", "peak memory"): (
        "Compiled code that is loaded counts; on small problems that is nearly all there is."
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
    """List them: times and errors problem by problem, then first calls and memory, a line for each discipline."""
    each = [_loss(mine, kind, rows) for kind in KINDS if not kind.gathered for mine in rows if mine.method == OURS]
    found = [loss for loss in each if loss is not None]
    for kind in KINDS:
        for discipline in dict.fromkeys(row.discipline for row in rows) if kind.gathered else ():
            found += _gathered(discipline, kind, rows)
    return found


def _loss(mine: Row, kind: Kind, rows: Sequence[Row]) -> Loss | None:
    value, ahead = kind.ours(mine), _ahead(mine, rows, kind)
    if value is None or not ahead:
        return None
    text = "; ".join(
        f"{row.method} {_with_unit(kind.theirs(row), kind)} ({_ratio(row, mine, kind)} x)" + _errors(row, kind)
        for row in ahead
    )
    return Loss(
        mine.problem, kind.name, _with_unit(value, kind) + _errors(mine, kind), text, why(mine.discipline, kind.name)
    )


def _gathered(discipline: str, kind: Kind, rows: Sequence[Row]) -> list[Loss]:
    mine = [row for row in rows if row.method == OURS and row.discipline == discipline and kind.ours(row) is not None]
    pairs = [(row, ours) for ours in mine for row in _ahead(ours, rows, kind)]
    if not pairs:
        return []
    values = [kind.ours(row) or 0.0 for row in mine]
    methods = dict.fromkeys(row.method for row, _ in pairs)
    text = "; ".join(
        f"{method} on {len(ratios)} (down to {min(ratios, key=float)} x)"
        for method in methods
        if (ratios := [_ratio(row, ours, kind) for row, ours in pairs if row.method == method])
    )
    behind = len({ours.problem for _, ours in pairs})
    ends = dict.fromkeys((_with_unit(min(values), kind), _with_unit(max(values), kind)))
    span, problems = " to ".join(ends), "the one problem" if len(mine) == 1 else f"{behind} of {len(mine)} problems"
    place = f"{discipline}: {problems}"
    return [Loss(place, kind.name, span, text, why(discipline, kind.name))]


def why(discipline: str, kind: str) -> str:
    """Find the words."""
    return WHY.get((discipline, kind)) or WHY.get(("", kind)) or "Nothing was tried."


def _ahead(mine: Row, rows: Sequence[Row], kind: Kind) -> list[Row]:
    """List the rows of others that got there with less, the least first; equal models do not differ in their errors."""
    if kind.name in ("RMSE", "KL") and mine.tol is not None:
        return []
    value = kind.ours(mine)
    if value is None:
        return []
    others = [row for row in rows if row.key[:2] == mine.key[:2] and not row.ours and row.counts]
    less = [row for row in others if (theirs := kind.theirs(row)) is not None and theirs < (1 - NOISE) * value]
    return sorted(less, key=lambda row: kind.theirs(row) or 0.0)


def _with_unit(value: float | None, kind: Kind) -> str:
    return number(value) + kind.unit


def _ratio(row: Row, mine: Row, kind: Kind) -> str:
    return number((kind.theirs(row) or 0.0) / (kind.ours(mine) or 1.0), ".2g")


def _errors(row: Row, kind: Kind) -> str:
    """Add what a time bought where models differ."""
    if kind.name != "time" or row.tol is not None:
        return ""
    return f", KL {number(row.kl)}, RMSE {number(row.rmse)}"
