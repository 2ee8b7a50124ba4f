"""The junction engine: full grids of any order whose modes are coupled in small cliques, by messages between tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.errors import InvalidBasis, InvalidSetting
from legendre.core.memory import size_name
from legendre.core.types import FloatArray
from legendre.engines.protocol import Point, Preconditioner
from legendre.engines.reference import TINY, Diagonal, ReferenceEngine
from legendre.model.cliques.covariance import covariance
from legendre.model.cliques.tables import Tables
from legendre.model.model import Model


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Q on the cliques: the distribution of each one's own modes given the shared ones, and its margin."""

    given: FloatArray
    margins: FloatArray


@dataclass(frozen=True, eq=False)
class JunctionEngine:
    """Answers the five questions exactly, in time and memory of the cliques' tables, however many cells there are.

    Parameters
    ----------
    model
        A model on a full grid without a base measure, of whose cliques all tables fit.

    Examples
    --------
    >>> from legendre.data.support import Support
    >>> chain = np.zeros((99, 100), dtype=np.int64)
    >>> chain[np.arange(99), np.arange(99)] = chain[np.arange(99), np.arange(1, 100)] = 1
    >>> engine = JunctionEngine(Model.of(Support((2,) * 100), None, chain))
    >>> engine.at(np.zeros(99)).eta[:2].tolist()
    [0.25, 0.25]
    """

    model: Model

    def __post_init__(self) -> None:
        if not self.model.cliques.fits:
            raise InvalidBasis(self.model.cliques.trouble())

    @property
    def n_params(self) -> int:
        """|B|."""
        return self.model.n_params

    @cached_property
    def tables(self) -> Tables:
        """The layout of the tables."""
        return Tables(self.model, self.model.cliques)

    def at(self, theta: FloatArray) -> Point:
        """Pass messages to the roots, which gives psi, and back, which gives the margins and so eta."""
        psi, beliefs = propagate(self.tables, theta)
        return Point(theta, self.tables.sums_above(beliefs.margins), psi, beliefs)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Compute all covariances clique by clique, eq. (5)."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        beliefs = self._beliefs(point)
        covariance(self.tables, point.eta, beliefs.given, beliefs.margins, g)
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Differentiate eta along the vector: the same messages, linearised.

        ``G x`` is the covariance of each feature with ``g = zeta(x)``, so that in every clique the mean of g given
        the clique's cell is needed: the parts of g in the clique, below it and beyond the shared modes.
        """
        tables, beliefs = self.tables, self._beliefs(point)
        inside = tables.sums_below(vector)
        below: list[FloatArray] = [np.empty(0)] * len(tables.cliques)
        for c in reversed(range(len(below))):
            where, shape = tables.matrices[c]
            below[c] = np.einsum("sr,sr->s", beliefs.given[where].reshape(shape), inside[where].reshape(shape))
            link = tables.links[c]
            if link is not None:
                link.add(below[c], inside[tables.matrices[tables.cliques[c].parent][0]])
        change = np.empty(tables.size)
        for c, (where, shape) in enumerate(tables.matrices):
            here = change[where].reshape(shape)
            np.subtract(inside[where].reshape(shape), below[c][:, None], out=here)
            here *= beliefs.margins[where].reshape(shape)
            link = tables.links[c]
            if link is not None:
                shared = link.reduce(change[tables.matrices[tables.cliques[c].parent][0]])
                here += shared[:, None] * beliefs.given[where].reshape(shape)
        return tables.sums_above(change)

    def _beliefs(self, point: Point) -> Beliefs:
        return point.cache if isinstance(point.cache, Beliefs) else propagate(self.tables, point.theta)[1]

    def preconditioner(self, point: Point, last: Preconditioner | None = None) -> Preconditioner:  # noqa: ARG002 - no memory
        """Take the inverse of G's diagonal."""
        return Diagonal.of(point)

    def log_probabilities(self, point: Point) -> FloatArray:
        """Return log q of the merged cells, if they can be held at all."""
        if not self.model.formable:
            raise InvalidSetting(
                f"this solver needs all of {size_name(self.model.n_merged)} probabilities, which are never formed. "
                "Use solver='natural' or 'natural-cg'."
            )
        log_q: FloatArray = ReferenceEngine(self.model).at(point.theta).cache.log_q
        return log_q

    def swing(self, vector: FloatArray) -> float:
        """Return the range of ``zeta(vector)``, by messages that are maxima."""
        bound = float(np.abs(vector).sum())
        if bound <= TINY:
            return bound
        high, low = (largest_sum(self.tables, self.tables.sums_below(sign * vector))[0] for sign in (1.0, -1.0))
        return high + low


def propagate(tables: Tables, theta: FloatArray) -> tuple[float, Beliefs]:
    """Compute psi and Q on the cliques: logarithms on the way up, and on the way down there is nothing to divide."""
    given = tables.sums_below(theta)
    given += tables.log_lengths
    psi = tables.log_rest
    for c in reversed(range(len(tables.cliques))):
        where, shape = tables.matrices[c]
        table = given[where].reshape(shape)
        peaks = table.max(axis=1)
        table -= peaks[:, None]
        np.exp(table, out=table)
        sums = table.sum(axis=1)
        table /= sums[:, None]
        message = np.log(sums)
        message += peaks
        top = float(message.max())  # taken out, so that what is passed on stays small
        psi += top
        link = tables.links[c]
        if link is not None:
            message -= top
            link.add(message, given[tables.matrices[tables.cliques[c].parent][0]])
    margins = np.empty(tables.size)
    for c, (where, shape) in enumerate(tables.matrices):
        link = tables.links[c]
        if link is None:
            margins[where] = given[where]
        else:
            shared = link.reduce(margins[tables.matrices[tables.cliques[c].parent][0]])
            np.multiply(given[where].reshape(shape), shared[:, None], out=margins[where].reshape(shape))
    return psi, Beliefs(given, margins)


def largest_sum(tables: Tables, parts: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest value of a sum over cliques, and in each table the largest of the sums given its cell.

    `parts` holds the terms and is overwritten with the second.
    """
    messages: list[FloatArray] = [np.empty(0)] * len(tables.cliques)
    roots = []
    for c in reversed(range(len(messages))):
        where, shape = tables.matrices[c]
        messages[c] = parts[where].reshape(shape).max(axis=1)
        link = tables.links[c]
        if link is None:
            roots.append(float(messages[c][0]))
        else:
            link.add(messages[c], parts[tables.matrices[tables.cliques[c].parent][0]])
    total = sum(roots)
    for c, (where, shape) in enumerate(tables.matrices):
        link = tables.links[c]
        if link is None:
            parts[where] += total - float(messages[c][0])
        else:
            shared = link.largest(parts[tables.matrices[tables.cliques[c].parent][0]])
            shared -= messages[c]
            table = parts[where].reshape(shape)
            table += shared[:, None]
    return total, parts
