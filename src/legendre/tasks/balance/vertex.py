"""Which cells can be positive, decided with whole numbers: margins may differ by any power of ten.

Linear programs in floating point know their answers to 1e-10 of the total, so that they take a margin below that for 0.
Here the simplex method keeps its matrix in integers. Margins enter only as sums ``coefficients . margins``, and such a
sum is 0 where it is below the rounding error of its own terms (of those that are left when equal ones have cancelled),
however small these are. Where zeros found in this way contradict each other, the margins are taken to the last bit, but
for the largest, which follow from the others; and where these contradict each other, each up to its own rounding error.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray

ROUNDING = 1e-12  # sums and differences of margins are known to this share of their terms, which were rounded before
INDEPENDENT = 1e-6  # rows of zeros and ones whose distance from the span of others is below this are in it
LARGEST = 2**30  # entries of the integer matrix beyond which products might overflow
PIVOTS = 20  # pivots at most, for each row
MET = 1e-9  # margins that follow from others are met to this share of themselves, or there is no tensor
QUANTUM = 1 << 1074  # every float64 is a multiple of 1 / QUANTUM


@dataclass(eq=False)
class Tableau:
    """``B^-1 A`` and ``B^-1``, both times the positive integer `unit`, for a basis of cells and stand-ins.

    Each row begins with a stand-in of its own (an artificial variable), numbered after the cells.
    """

    matrix: IntArray  # rows x (cells + rows)
    wanted: AnyArray  # the right-hand sides: floats, or Python's integers, which are not rounded
    basis: IntArray
    unit: int = 1

    @classmethod
    def of(cls, rows: IntArray, wanted: AnyArray) -> Tableau:
        """Begin with the stand-ins alone."""
        count, cells = rows.shape
        return cls(np.hstack([rows, np.eye(count, dtype=np.int64)]), wanted, np.arange(cells, cells + count))

    @property
    def exact(self) -> bool:
        """True where right-hand sides are integers, so that nothing is rounded."""
        return bool(self.wanted.dtype == object)

    @property
    def n_cells(self) -> int:
        """The number of variables that are no stand-ins."""
        return int(self.matrix.shape[1]) - len(self.basis)

    def values(self) -> AnyArray:
        """Return the variables of the basis, times `unit`; 0 where only rounding errors are left."""
        inverse = self.matrix[:, self.n_cells :]
        if self.exact:
            return inverse.astype(object) @ self.wanted
        sums, each = inverse @ self.wanted, np.abs(inverse) * self.wanted
        terms = each.sum(axis=1)
        cancels = np.abs(sums) <= ROUNDING * terms
        sums[cancels] = 0.0
        least = np.min(each, axis=1, where=each > 0, initial=np.inf)
        for row in np.flatnonzero(cancels & (least * 2.0**53 < terms)):  # others have no term that `_rest` sets apart
            sums[row] = _rest(inverse[row], self.wanted)
        return sums

    def leaving(self, values: AnyArray, column: int) -> int:
        """Find the variable that is 0 first when that of the column rises; of several the one of the least number."""
        exact, rises = self.exact, self.matrix[:, column]

        def steps(row: int) -> tuple[Any, int]:
            step = Fraction(values[row], int(rises[row])) if exact else values[row] / rises[row]
            return step, int(self.basis[row])

        return min(np.flatnonzero(rises > 0).tolist(), key=steps)

    def pivot(self, row: int, column: int) -> bool:
        """Let a variable enter the basis in place of a row's; all divisions leave no rest. False if too large."""
        pivot = int(self.matrix[row, column])
        own, factor = self.matrix[row] * np.sign(pivot), self.matrix[:, column].copy()
        factor[row] = 0
        rest = (self.matrix * abs(pivot) - np.multiply.outer(factor, own)) // self.unit
        rest[row] = own
        self.matrix, self.unit = rest, abs(pivot)
        self.basis[row] = column
        return bool(np.abs(rest).max() <= LARGEST)


def _rest(coefficients: IntArray, margins: FloatArray) -> float:
    """Return what terms that nearly cancel leave: 0 where it is below the rounding error of the terms it is left by.

    Terms that cancel to the last bit, and beside which all others are below one unit in the last place, leave nothing:
    what the others leave is judged by the others alone.

    >>> _rest(np.array([1, -1, 1]), np.array([1.0, 1.0, 1e-30])), _rest(np.array([1, -1]), np.array([1.0, 1.0 + 1e-15]))
    (1e-30, 0.0)
    """
    used = np.flatnonzero(coefficients)
    terms = [int(coefficients[i]) * Fraction(float(margins[i])) for i in used]
    terms.sort(key=abs, reverse=True)
    sum_so_far, size = Fraction(0), Fraction(0)
    for term in terms:
        if not sum_so_far and abs(term) * 2**53 < size:
            size = Fraction(0)
        sum_so_far, size = sum_so_far + term, size + abs(term)
    return 0.0 if abs(sum_so_far) <= ROUNDING * size else float(sum_so_far)


def positive_cells(columns: IntArray, wanted: FloatArray) -> BoolArray | None:
    """Mark the cells that are positive in some tensor with the margins; ``None`` where this method does not tell.

    `columns` has the entries of the margins that each cell counts for; all of those are positive.

    >>> positive_cells(np.array([[0, 2], [1, 2], [1, 3]]), np.array([1e-30, 1.0, 1e-30, 1.0])).tolist()
    [True, False, True]
    >>> positive_cells(np.array([[0, 2], [1, 2], [1, 3]]), np.array([1e-30, 1.0, 2e-30, 1.0])).tolist()
    [True, True, True]
    """
    entries = np.unique(columns)
    rows = np.zeros((len(wanted), len(columns)), dtype=np.int64)
    rows[columns.T, np.arange(len(columns))] = 1
    rows, wanted = rows[entries], wanted[entries]
    kept = _independent(rows, np.argsort(wanted, kind="stable"))
    for attempt in (_rounded, _literal, _relaxed):
        tableau = attempt(rows, wanted, kept)
        if not _reach_a_vertex(tableau):
            continue
        values, tensor = tableau.values(), np.zeros(tableau.n_cells)
        unit = tableau.unit * (QUANTUM if tableau.exact else 1)
        tensor[tableau.basis] = [float(Fraction(value) / unit) for value in values]
        met = np.abs(rows @ tensor[: len(columns)] - wanted) <= MET * wanted
        if not (values < 0).any() and met.all():
            positive = np.zeros(tableau.n_cells, dtype=np.bool_)
            positive[tableau.basis] = values > 0
            found = _around(tableau, positive)
            return None if found is None else found[: len(columns)]
    return None


def _rounded(rows: IntArray, wanted: FloatArray, kept: IntArray) -> Tableau:
    """Take sums of margins below the rounding error of their terms for 0."""
    return Tableau.of(rows[kept], wanted[kept])


def _literal(rows: IntArray, wanted: FloatArray, kept: IntArray) -> Tableau:
    """Take margins to the last bit, but for those that follow from smaller ones."""
    return Tableau.of(rows[kept], _integers(wanted[kept]))


def _relaxed(rows: IntArray, wanted: FloatArray, kept: IntArray) -> Tableau:  # noqa: ARG001 - all rows are kept
    """Take margins up to their own rounding errors: what is missing, what is too much and what is left sum to those."""
    one = np.eye(len(wanted), dtype=np.int64)
    none = np.zeros_like(rows)
    system = np.block([[rows, one, -one, 0 * one], [none, one, one, one]])
    return Tableau.of(system, _integers(np.concatenate([wanted, ROUNDING * wanted])))


def _integers(numbers: FloatArray) -> AnyArray:
    """Write floats as multiples of the smallest one there is."""
    return np.array([int(Fraction(x) * QUANTUM) for x in numbers.tolist()], dtype=object)


def _independent(rows: IntArray, order: IntArray) -> IntArray:
    """Choose independent margins, small ones first: what the others are off by is little beside them."""
    span, kept = np.zeros((0, rows.shape[1])), []
    for i in order:
        left = rows[i].astype(np.float64)
        for _ in range(2):
            left = left - (span @ left) @ span
        size = float(np.linalg.norm(left))
        if size > INDEPENDENT:
            span = np.vstack([span, left / size])
            kept.append(i)
    return np.array(kept, dtype=np.int64)


def _reach_a_vertex(tableau: Tableau) -> bool:
    """Exchange all stand-ins for cells (the first phase of the simplex method)."""
    cells, cautious = tableau.n_cells, False
    for _ in range(PIVOTS * len(tableau.basis)):
        values, stand_ins = tableau.values(), tableau.basis >= cells
        if not stand_ins.any():
            return True
        if (values < 0).any():
            return False
        idle = np.flatnonzero(stand_ins & (values == 0))
        if len(idle):
            row = int(idle[0])
            column = int(np.argmax(np.abs(tableau.matrix[row, :cells])))
        else:
            gains = tableau.matrix[stand_ins, :cells].sum(axis=0)
            if not (gains > 0).any():
                return False  # no tensor has the margins
            column = int(np.argmax(gains > 0 if cautious else gains))
            row = tableau.leaving(values, column)
            cautious = bool(values[row] == 0)  # Bland's rule, which never goes round in a circle
        if not tableau.pivot(row, column):
            return False
    return False


def _around(tableau: Tableau, positive: BoolArray) -> BoolArray | None:
    """Mark the cells that are positive at a vertex or can rise from there.

    Where a cell of the basis is 0 it may not fall. The directions that obey form a cone that whole numbers describe;
    one program, with each rise capped at 1, finds all cells that rise along one of them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack

    stuck = np.flatnonzero(~positive[tableau.basis])
    if not len(stuck):
        return np.ones_like(positive)
    others = np.setdiff1d(np.arange(len(positive)), tableau.basis)
    falls = tableau.matrix[stuck][:, others].astype(np.float64)
    cells, rest = np.concatenate([others, tableau.basis[stuck]]), len(others)
    # rise <= movement, for the cells that move freely and for those that follow: movement = -falls @ free
    follows = csr_array(np.vstack([-np.eye(rest), falls]))
    answer = linprog(
        np.concatenate([np.zeros(rest), -np.ones(len(cells))]),
        A_ub=hstack([follows, eye_array(len(cells))], format="csr"),
        b_ub=np.zeros(len(cells)),
        bounds=[(0.0, None)] * rest + [(0.0, 1.0)] * len(cells),
        method="highs",
    )
    if answer.status != 0 or answer.x is None:
        return None
    positive[cells] |= answer.x[rest:] > 0.5  # each rise is 0 or 1, but for the program's tolerance
    return positive
