"""Why pictures that compare observed counts with fitted ones are refused where rows lack values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from legendre.core.errors import InvalidQuery
from legendre.results.views import Modes, Pair


@dataclass(frozen=True, eq=False)
class NoPair(Pair):
    """No pair of observed and fitted counts: a row that lacks values is in no cell."""

    @property
    def counts(self) -> bool:
        """True: the rows were counted."""
        return True

    def table(self, modes: Modes, caller: str) -> NoReturn:
        """Refuse sums of cells."""
        del modes
        refuse_pair(caller)

    def cells(self, caller: str) -> NoReturn:
        """Refuse cells."""
        refuse_pair(caller)

    @property
    def note(self) -> str:
        """Nothing."""
        return ""


def refuse_pair(asked: str) -> NoReturn:
    """Say why observed counts cannot be shown beside fitted ones, and what can."""
    raise InvalidQuery(
        f"{asked} compares observed counts with fitted ones, and rows that lack values are in no cell. m.fit.{asked} "
        "takes the completed table for the observed one; loglinear(..., missing='drop') fits the complete rows."
    )
