"""The likelihood of rows of which some lack values: each counts for the margin of the variables that it has.

What is missing is taken to be missing at random (Little and Rubin): whether a value is missing may depend on what was
observed, not on the value itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidSetting
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.data.partial_table import PartialTable
from legendre.solvers.structure.faces import feature_rows

if TYPE_CHECKING:
    from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class Margin:
    """The counts of one pattern, and which entry of its table each cell belongs to."""

    counts: FloatArray  # of all entries, empty ones too
    entry: IntArray  # for each cell its entry
    complete: bool  # whether each cell is an entry of its own

    def sums(self, q: FloatArray) -> FloatArray:
        """Sum probabilities over the cells of each entry."""
        return np.asarray(np.bincount(self.entry, weights=q, minlength=len(self.counts)), dtype=np.float64)

    def shared(self, q: FloatArray) -> FloatArray:
        """Share the counts out among the cells in proportion to q."""
        sums = self.sums(q)
        ratio = np.divide(self.counts, sums, out=np.zeros_like(sums), where=self.counts > 0)
        return q * ratio[self.entry]

    @cached_property
    def matrix(self) -> Any:
        """Entries x cells: 1 where a cell belongs to an entry, a sparse array."""
        from scipy.sparse import csr_array

        n = len(self.entry)
        return csr_array((np.ones(n), (self.entry, np.arange(n))), shape=(len(self.counts), n))


def margins_on(table: PartialTable, cells: IntArray) -> tuple[Margin, ...]:
    """Lay the patterns out on a list of cells (k x N)."""
    found = []
    for pattern in table.patterns:
        entry = np.ravel_multi_index(tuple(cells[:, list(pattern.modes)].T), pattern.counts.shape).astype(np.int64)
        counts = pattern.counts.ravel().astype(np.float64)
        found.append(Margin(counts, entry, len(pattern.modes) == len(table.shape)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Observed:
    """The log-likelihood of the rows as a function of theta, on the cells that carry probability."""

    margins: tuple[Margin, ...]
    cells: IntArray  # k x N
    features: FloatArray  # k x parameters: zeta, or zeta A
    log_base: FloatArray
    total: float

    @classmethod
    def of(cls, table: PartialTable, model: Model, alive: BoolArray | None) -> Observed:
        """Take the cells of a model that do not vanish."""
        cells = model.support.cells()
        boxes = model.quotient.boxes(cells)
        inside = model.carries(boxes, alive)
        _check_size(table, len(cells), int(inside.sum()), model.n_params)
        cells, boxes = cells[inside], boxes[inside]
        margins = margins_on(table, cells)
        base = np.zeros(len(cells)) if model.base is None else np.log(model.base[tuple(cells.T)])
        return cls(margins, cells, feature_rows(model, boxes), base, float(table.total))

    def at(self, theta: FloatArray) -> FloatArray:
        """Return the probability of each cell."""
        logs = self.log_base + self.features @ theta
        q = np.exp(logs - logs.max())
        return np.asarray(q / q.sum())

    def value(self, q: FloatArray) -> float:
        """Return the log-likelihood: ``sum of n log q`` over the entries of all margins."""
        total = 0.0
        for margin in self.margins:
            seen = margin.counts > 0
            with np.errstate(divide="ignore"):  # a step that leaves an entry nothing is not taken
                total += float(margin.counts[seen] @ np.log(margin.sums(q)[seen]))
        return total

    def completed(self, q: FloatArray) -> FloatArray:
        """E step: the expected table given what was observed."""
        return np.asarray(np.sum([margin.shared(q) for margin in self.margins], axis=0))

    def gradient(self, q: FloatArray) -> FloatArray:
        """Return the gradient of the log-likelihood per row: expectations of the completed table less those of q."""
        return self.features.T @ (self.completed(q) / self.total - q)

    def residual(self, q: FloatArray) -> float:
        """Return the largest entry of the gradient."""
        return float(np.abs(self.gradient(q)).max(initial=0.0))

    def missing_information(self, q: FloatArray) -> FloatArray:
        """Return what of the information is missing, per row: the covariance of the features given what was observed.

        Louis (1982): the information in the rows is that of a complete table less this.
        """
        out = np.zeros((self.features.shape[1],) * 2)
        for margin in self.margins:
            if margin.complete:
                continue
            shared = margin.shared(q)
            within = margin.matrix @ (shared[:, None] * self.features)  # n times the mean of the features
            mean = within / np.maximum(margin.counts, 1.0)[:, None]
            centred = self.features - mean[margin.entry]
            out += centred.T @ (shared[:, None] * centred)
        return np.asarray(out / self.total)

    def complete_information(self, q: FloatArray) -> FloatArray:
        """Return the information of a complete table, per row: the covariance of the features."""
        centred = self.features - q @ self.features
        return np.asarray(centred.T @ (q[:, None] * centred))

    def identified(self, q: FloatArray, columns: IntArray) -> int:
        """Count the parameters that the margins can tell apart, near q."""
        if any(margin.complete for margin in self.margins):
            return len(columns)
        centred = q[:, None] * (self.features - q @ self.features)[:, columns]
        return _rank(np.vstack([margin.matrix @ centred for margin in self.margins]))


def _check_size(table: PartialTable, n_cells: int, n_alive: int, n_params: int) -> None:
    """Refuse too large tables: the model's, of cells with probability, and the saturated one's, of all cells."""
    seen = sum(int((pattern.counts > 0).sum()) for pattern in table.patterns)
    if max(n_alive * n_params, n_cells * seen) > limits.LARGEST_FEATURES:
        raise InvalidSetting(
            f"missing='em' forms tables of {n_cells:,} cells by {n_params:,} parameters and by {seen:,} "
            f"kinds of rows; at most {limits.LARGEST_FEATURES:,} entries are allowed. Name fewer variables, or "
            "leave rows that lack values out: missing='drop'."
        )


def free_probabilities(margins: tuple[Margin, ...]) -> int:
    """Count the probabilities that margins can tell apart where no model is assumed."""
    if any(margin.complete for margin in margins):
        return len(margins[0].entry) - 1
    return _rank(np.vstack([margin.matrix.toarray() for margin in margins])) - 1


def _rank(matrix: FloatArray) -> int:
    return int(np.linalg.matrix_rank(matrix)) if matrix.size else 0
