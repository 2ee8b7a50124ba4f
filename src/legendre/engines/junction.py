"""The junction engine: full grids of any order whose modes are coupled in small cliques, by messages between tables."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.memory import size_name
from legendre.core.types import FloatArray, frozen
from legendre.engines.protocol import Engine, Point
from legendre.model.cliques.tables import Tables
from legendre.model.model import Model
from legendre.model.problem import Problem


@frozen
class JunctionEngine(Engine):
    """Full grids of any size, exactly: time and memory are those of the tables over the cliques."""

    model: Model  # on a full grid without a base measure; the tables of its cliques fit into memory

    @cached_property
    def tables(self) -> Tables:
        """The tables of the model's cliques."""
        return self.model.tables

    def at(self, theta: FloatArray) -> Point:
        """Pass messages to the roots, which gives psi, and back, which gives the cliques' margins; these give eta."""
        psi, beliefs = self.tables.propagate(theta)
        return Point(theta, self.tables.sums_above(beliefs.margins), psi, beliefs)

    def fill_fisher(self, point: Point, g: FloatArray, most: int = 1 << 21) -> None:
        """Compute G as the derivative of eta along each parameter: products with the columns of the identity.

        As many columns are treated together as fit into `most` numbers (16 MiB) in tables. Columns from `start` on need
        only rows from `start` on, because G is symmetric.
        """
        k, step = self.n_params, max(1, most // max(1, self.tables.size))
        for start in range(0, k, step):
            part = slice(start, min(start + step, k))
            product = self.fisher_product(point, np.eye(k, part.stop - start, -start))  # columns start, start + 1, ...
            product[part] = 0.5 * (product[part] + product[part].T)  # rounding errors are not symmetric
            g[start:, part], g[part, start:] = product[start:], product[start:].T

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Differentiate eta along `vector` (k,), or along each column (k x n), by one pass up and one down the tree.

        Let z be ``zeta(vector)``, a sum of one term for each clique. Up: each clique adds to its parent the mean of z
        over itself and its descendants, given the modes that it shares with the parent. Down: a clique's margin is the
        margin of the shared modes times the distribution `given` of its own modes given these. The derivative of the
        margin is therefore margin x (z - mean of z given the shared modes) + (derivative of the shared margin) x given.
        """
        tables, beliefs = self.tables, point.cache
        inside = tables.sums_below(vector)
        matrices, given, margins = (tables.matrices(part) for part in (inside, beliefs.given, beliefs.margins))
        means = [np.empty(0)] * len(matrices)
        for c, link in reversed(list(enumerate(tables.links))):
            # s: cells of the shared modes, r: cells of the clique's own modes, ...: columns of `vector`
            means[c] = np.einsum("sr,sr...->s...", given[c], matrices[c])
            if link is not None:
                link.add(means[c], matrices[link.above])
        wide = (..., *[None] * (vector.ndim - 1))  # broadcasts a table against those of all columns
        for c, (change, link) in enumerate(zip(matrices, tables.links, strict=True)):
            change -= means[c][:, None]  # z becomes the change of the margins
            change *= margins[c][wide]
            if link is not None:
                change += link.reduce(matrices[link.above])[:, None] * given[c][wide]
        return tables.sums_above(inside)

    def probabilities(self, point: Point) -> FloatArray:
        """Compute the probability of each merged cell; refuse a grid that cannot be formed.

        Only some solvers need it, such as scaling; the error names others that work on the cliques alone.
        """
        if not self.model.formable:
            raise InvalidSetting(
                f"this solver needs all of {size_name(self.model.n_cells)} probabilities, which are never formed. "
                "Use solver='natural' or 'natural-cg'."
            )
        return super().probabilities(point)

    def swing(self, vector: FloatArray) -> float:
        """Find the range of ``zeta(vector)`` exactly, by messages that are maxima instead of sums.

        The minimum is minus the maximum of ``zeta(-vector)``.
        """
        high, low = (self.tables.largest_sum(self.tables.sums_below(sign * vector))[0] for sign in (1.0, -1.0))
        return high + low

    def closed_form(self, problem: Problem) -> FloatArray | None:
        """Return theta of the product of the data's conditional margins if that is the minimum of KL, else ``None``.

        It is the minimum if B has a parameter for every cell of every table, and every cell of a table that can carry
        probability has data (Lauritzen 1996, section 4.4).
        """
        sums, alive = self._sum_data(problem), self.tables.alive
        if sums is None or not self.tables.saturated or not (sums[... if alive is None else alive] > 0).all():
            return None
        return self.tables.closed_form(sums)

    def closed_gap(self, problem: Problem, point: Point) -> tuple[float, float]:
        """Bound how far KL(P, Q) is above its minimum, and the tilt (`solvers.loop.State`), near the closed form.

        Both are infinite if P's sums over the tables are not known.
        """
        sums = self._sum_data(problem)
        return (np.inf, np.inf) if sums is None else self.tables.excess(sums, point.cache.margins)

    def _sum_data(self, problem: Problem) -> FloatArray | None:
        """Return P summed over the cells of the tables (one array, as in `Tables`); ``None`` if that is not known.

        If every clique is a single mode, the tables are the margins of P, which are always known.
        """
        if problem.clique_sums is None and self.model.one_body:
            return self.tables.lay_out([problem.margins[clique.modes[0]] for clique in self.tables.tree.cliques])
        return problem.clique_sums
