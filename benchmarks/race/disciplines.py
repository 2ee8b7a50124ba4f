"""All disciplines, in the order of the page."""

from __future__ import annotations

from . import decompositions, graphs, loglinear, scaling
from .entrants import Case, Discipline, Entrant

DISCIPLINES = (decompositions.DISCIPLINE, loglinear.DISCIPLINE, scaling.DISCIPLINE, graphs.DISCIPLINE)


def find(discipline: str, problem: str, method: str) -> tuple[Discipline, Case, Entrant]:
    """Find the three by their names."""
    chosen = next(some for some in DISCIPLINES if some.name == discipline)
    case = next(some for some in chosen.cases if some.name == problem)
    return chosen, case, next(some for some in chosen.entrants if some.name == method)


def jobs() -> list[tuple[Discipline, Case, Entrant]]:
    """List everything that is measured, ours first on each problem."""
    return [
        (discipline, case, entrant)
        for discipline in DISCIPLINES
        for case in discipline.cases
        for entrant in discipline.entrants
        if entrant.enters(case)
    ]
