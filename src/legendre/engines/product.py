"""The product engine: one-body bases on a full grid, where Q is an outer product and no grid is ever formed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point
from legendre.model.model import Model
from legendre.model.problem import Problem


@dataclass(frozen=True, eq=False)
class ModeAxis:
    """One mode: the rows of B that lie along it, sorted, and the log length of its intervals."""

    rows: IntArray
    log_lengths: FloatArray


@dataclass(frozen=True, eq=False)
class ProductEngine(Engine):
    """Mode by mode: modes are independent under Q."""

    model: Model  # one for which `one_body` is true

    @cached_property
    def lines(self) -> list[ModeAxis]:
        """The modes that carry parameters; row j of a line starts interval j + 1."""
        columns, lengths = self.model.positions.T, self.model.quotient.lengths
        return [
            ModeAxis(np.argsort(x)[np.sum(x == 0) :], np.log(sides)) for x, sides in zip(columns, lengths, strict=True)
        ]

    def at(self, theta: FloatArray) -> Point:
        """Normalise each mode on its own: psi is a sum, eta a suffix sum along the mode."""
        psi, eta, parts = 0.0, np.empty(self.n_params), []
        for line in self.lines:
            log_q = line.log_lengths.copy()
            log_q[1:] += np.cumsum(theta[line.rows])
            peak = float(log_q.max())
            q = np.exp(log_q - peak)
            total = float(q.sum())
            parts.append(q / total)
            psi += peak + float(np.log(total))
            eta[line.rows] = np.cumsum(parts[-1][::-1])[::-1][1:]
        return Point(theta, eta, psi, parts)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Fill the diagonal blocks; parameters of different modes are uncorrelated."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        g[:] = 0.0
        for line in self.lines:
            eta = point.eta[line.rows]
            later = np.maximum.outer(np.arange(len(eta)), np.arange(len(eta)))
            g[np.ix_(line.rows, line.rows)] = eta[later] - np.multiply.outer(eta, eta)
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute G x mode by mode with two running sums."""
        out = np.empty(self.n_params)
        for line, q in zip(self.lines, point.cache, strict=True):
            change = np.concatenate([[0.0], np.cumsum(vector[line.rows])])
            change -= float(q @ change)
            out[line.rows] = np.cumsum((q * change)[::-1])[::-1][1:]
        return out

    def swing(self, vector: FloatArray) -> float:
        """Return the range of ``zeta(vector)``: the ranges of the modes add up."""
        sums = [np.cumsum(vector[line.rows]) for line in self.lines]
        return float(sum(s.max(initial=0.0) - s.min(initial=0.0) for s in sums))

    def closed_form(self, problem: Problem) -> FloatArray | None:
        """Return theta of the outer product of the data's margins, where every level of every mode has data."""
        if not problem.all_margins_positive:
            return None
        theta = np.empty(self.n_params)
        for line, values in zip(self.lines, problem.margins, strict=True):
            theta[line.rows] = np.diff(np.log(values) - line.log_lengths)
        return theta

    def closed_gap(self, problem: Problem, point: Point) -> tuple[float, float]:
        """Bound the gap as `newton.newton_gap` does: here ``a`` is ``(p - q) / q`` of the margins, mode by mode."""
        changes = [(q, p / q - 1.0) for p, q in zip(problem.margins, point.cache, strict=True)]
        if not sum(float(change.min()) for _, change in changes) >= -1.0:
            return np.inf, np.inf
        return sum(float(q @ change**2) for q, change in changes), np.inf
