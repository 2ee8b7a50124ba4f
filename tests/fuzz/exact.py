"""Linear programs in fractions, for margins that differ by more powers of ten than float64 has digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

Array = Any


class Tableau:
    """Equations ``rows @ x == wanted``, each solved for one variable of its own, its basic variable."""

    def __init__(self, rows: Array, wanted: Array) -> None:
        """Take equations with small right-hand sides first; leave out those that follow from others.

        Floats that once were sums contradict each other in the last bit. Here the small ones are taken to that bit, and
        large ones that follow from them are what they have to be.
        """
        self.rows: list[list[Fraction]] = []  # coefficients, and the right-hand side at the end
        self.basic: list[int] = []
        for i in np.argsort(wanted, kind="stable"):
            row = [Fraction(int(entry)) for entry in rows[i]] + [Fraction(float(wanted[i]))]
            for other, lead in zip(self.rows, self.basic, strict=True):
                row = _minus(row, row[lead], other)
            used = [j for j, entry in enumerate(row[:-1]) if entry]
            if used:
                self.rows.append(row)
                self.basic.append(used[0])
                self.pivot(len(self.rows) - 1, used[0])

    def pivot(self, r: int, j: int) -> None:
        """Solve row r for variable j, and put it into the others."""
        lead = self.rows[r][j]
        own = self.rows[r] = [entry / lead for entry in self.rows[r]]
        self.rows = [row if k == r else _minus(row, row[j], own) for k, row in enumerate(self.rows)]
        self.basic[r] = j

    def value(self, j: int) -> Fraction:
        """Return a variable where all that are not basic are 0."""
        return self.rows[self.basic.index(j)][-1] if j in self.basic else Fraction(0)

    def maximise(self, target: int, sign: int = 1) -> bool:
        """Raise a variable, or lower it, as far as all others stay >= 0; False if there is no end to it.

        Of several variables the first is taken (Bland's rule), so that no basis comes twice.
        """
        while True:
            free = [j for j in range(len(self.rows[0]) - 1) if j not in self.basic]
            rates = {j: Fraction(j == target) for j in free}
            if target in self.basic:
                rates = {j: -self.rows[self.basic.index(target)][j] for j in free}
            enter = next((j for j in free if sign * rates[j] > 0), None)
            if enter is None:
                return True
            ends = [(row[-1] / row[enter], self.basic[r], r) for r, row in enumerate(self.rows) if row[enter] > 0]
            if not ends:
                return False
            self.pivot(min(ends)[2], enter)

    def feasible(self) -> bool:
        """Make all basic variables >= 0, by way of one variable more that is lowered to 0; False if they cannot be."""
        if all(row[-1] >= 0 for row in self.rows):
            return True
        extra = len(self.rows[0]) - 1
        self.rows = [[*row[:-1], Fraction(-1), row[-1]] for row in self.rows]
        self.pivot(min(range(len(self.rows)), key=lambda r: self.rows[r][-1]), extra)
        self.maximise(extra, -1)
        if self.value(extra) > 0:
            return False
        if extra in self.basic:
            r = self.basic.index(extra)
            self.pivot(r, next(j for j, entry in enumerate(self.rows[r][:extra]) if entry))
        self.rows = [[*row[:extra], row[-1]] for row in self.rows]
        return True


def _minus(row: list[Fraction], factor: Fraction, other: list[Fraction]) -> list[Fraction]:
    return [a - factor * b for a, b in zip(row, other, strict=True)] if factor else row


def can_be_positive(rows: Array, wanted: Array, cell: int) -> bool:
    """Whether some ``x >= 0`` with ``rows @ x == wanted`` has ``x[cell] > 0``; read as `Tableau` does."""
    tableau = Tableau(rows, wanted)
    if not tableau.feasible():
        return False
    return not tableau.maximise(cell) or tableau.value(cell) > 0
