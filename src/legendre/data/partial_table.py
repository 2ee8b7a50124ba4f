"""A partially classified table: counts of rows of which some have no value of some variables."""

from __future__ import annotations

from dataclasses import dataclass

from legendre.core.origin import Origin
from legendre.core.types import IntArray


@dataclass(frozen=True, eq=False)
class Pattern:
    """Rows that have values of the same variables, counted by these."""

    modes: tuple[int, ...]  # the variables that they have
    counts: IntArray  # with a mode for each of these variables

    @property
    def total(self) -> int:
        """The number of rows."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class PartialTable:
    """Counts of rows by which variables they have and by the levels of these."""

    shape: tuple[int, ...]  # how many levels each variable has
    origin: Origin
    patterns: tuple[Pattern, ...]  # rows with all variables first, where there are some
    notes: tuple[str, ...] = ()  # about how the rows were read
    dropped: tuple[str, ...] = ()  # variables that have a single level, and were left out

    @property
    def total(self) -> int:
        """The number of rows."""
        return sum(pattern.total for pattern in self.patterns)

    @property
    def complete(self) -> int:
        """The number of rows that lack nothing."""
        return sum(pattern.total for pattern in self.patterns if len(pattern.modes) == len(self.shape))

    @property
    def names(self) -> tuple[str, ...]:
        """What the variables are called."""
        labels = self.origin.of(self.shape)
        return tuple(labels.mode(k) for k in range(len(self.shape)))

    def lacking(self) -> list[tuple[tuple[str, ...], int]]:
        """List which variables rows lack, and how many rows do; complete rows are not listed."""
        names = self.names
        absent = [tuple(name for k, name in enumerate(names) if k not in p.modes) for p in self.patterns]
        return [(lost, p.total) for lost, p in zip(absent, self.patterns, strict=True) if lost]
