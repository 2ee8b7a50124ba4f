"""A contingency table: counts with names of variables and levels, all in memory."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from legendre.core.errors import InvalidQuery
from legendre.core.html import fragment
from legendre.core.labels import Labels, Mode
from legendre.core.origin import Origin
from legendre.core.text_table import Columns
from legendre.core.types import AnyArray, IntArray

LONG = 60  # rows of a table that are printed


@dataclass(frozen=True, eq=False, repr=False)
class ContingencyTable:
    """Counts by the levels of some variables, made by `table`.

    Attributes
    ----------
    counts
        The counts, an array with a mode for each variable.
    names, levels
        What the variables and their levels are called.
    total
        The number of cases, N.
    notes
        Sentences about how the data were read.
    dropped
        Variables that have a single level, and were left out.

    See Also
    --------
    table : Make one of a data frame or an array.
    loglinear : Fit a model to it.

    Examples
    --------
    >>> import legendre as ld
    >>> people = ld.table(ld.datasets.titanic())
    >>> people.margin(["class", "survived"])
    class  no  yes
    1st   122  203
    2nd   167  118
    3rd   528  178
    crew  673  212
    2,201 cases; columns: survived
    """

    counts: IntArray
    origin: Origin
    notes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def labels(self) -> Labels:
        """Names of variables and levels."""
        return self.origin.of(self.counts.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many levels each variable has."""
        return self.counts.shape

    @property
    def names(self) -> tuple[str, ...]:
        """What the variables are called."""
        return tuple(self.labels.mode(k) for k in range(self.counts.ndim))

    @property
    def levels(self) -> dict[str, list[Any]]:
        """The levels of each variable, in order."""
        return {name: self.labels.levels_of(k).tolist() for k, name in enumerate(self.names)}

    @property
    def total(self) -> int:
        """The number of cases."""
        return int(self.counts.sum())

    def margin(self, variables: Mode | Sequence[Hashable]) -> ContingencyTable:
        """Return the table of some variables, in the order given, summed over the others."""
        listed = [variables] if isinstance(variables, (int, str)) else list(variables)
        kept = [self.labels.find_mode(name, "margin") for name in listed]
        if not kept or len(set(kept)) < len(kept):
            raise InvalidQuery(f"margin({variables!r}): name one or more different variables.")
        others = tuple(k for k in range(self.counts.ndim) if k not in kept)
        summed = self.counts.sum(axis=others)
        counts = np.transpose(summed, [sorted(kept).index(k) for k in kept])
        return replace(self, counts=counts, origin=self.origin.part(kept), notes=self.notes)

    def toarray(self) -> AnyArray:
        """Return a copy of the counts."""
        return self.counts.copy()

    def to_frame(self, counts: str = "count") -> Any:
        """Return a data frame of pandas with a row for each cell."""
        origin = replace(self.origin, form="rows", library="pandas", own_names=None)
        return origin.give(self.counts, what=counts)

    def columns(self) -> Columns:
        """Lay the table out: the last variable across, the others down."""
        labels, last = self.labels, self.counts.ndim - 1
        across = [labels.level(last, i) for i in range(self.shape[last])]
        head = [[*(labels.mode(k) for k in range(last)), *across]]
        shape = self.shape[:last]
        rows = [self._row(place) for place in list(np.ndindex(*shape))[:LONG]]
        notes = [f"... and {math.prod(shape) - LONG:,} rows more"] if math.prod(shape) > LONG else []
        said = f"{self.total:,} cases; columns: {labels.mode(last)}"
        return Columns("", [*head, *rows], "<" * last + ">", notes=[*notes, said, *self.notes])

    def _row(self, place: tuple[int, ...]) -> list[str]:
        """Write a row; a level is named once, while the ones before it stay the same."""
        names = [
            self.labels.level(k, i) if any(place[k + 1 :]) is False or k == len(place) - 1 else ""
            for k, i in enumerate(place)
        ]
        return [*names, *(f"{n:,}" for n in self.counts[place])]

    def __repr__(self) -> str:
        return self.columns().text()

    def _repr_html_(self) -> str:
        return fragment([self.columns()])
