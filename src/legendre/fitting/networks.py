"""Distributions on chordal graphs as conditional tables, each mode given those before it; and mixtures of them.

Rows may have gaps. Values are taken to be missing at random (Little and Rubin): whether one is missing may depend on
what was observed, not on the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.core.errors import ImpossibleEvent
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.observation import Support
from legendre.fitting.graph_search import Columns
from legendre.model.cliques.tables import theta_of
from legendre.model.model import Model
from legendre.results.distribution import CliqueDistribution, draw_given
from legendre.results.graph import InteractionGraph


@dataclass(frozen=True, eq=False)
class Network:
    """Tables over the families of a perfect ordering, a mode with its parents: counts, or log p(v | parents of v)."""

    graph: InteractionGraph
    sizes: IntArray
    members: IntArray  # the columns of each family, parents first, one family after the other
    ends: IntArray  # where the members of each family start, and the end of the last
    tables: FloatArray  # one table after the other, the own column fastest
    table_ends: IntArray

    @classmethod
    def count(cls, graph: InteractionGraph, columns: Columns) -> Network:
        """Count rows in the tables of all families."""
        from legendre.core.sums.kernels.columns import count_families

        families = [(*parents, v) for v, parents in graph.families]
        members = np.array([k for family in families for k in family], dtype=np.int64)
        ends = np.concatenate([[0], np.cumsum([len(family) for family in families])])
        cells = [int(np.prod(columns.sizes[list(family)])) for family in families]
        table_ends = np.concatenate([[0], np.cumsum(cells)])
        tables = np.zeros(int(table_ends[-1]))
        count_families(columns.codes, columns.weights, columns.sizes, members, ends, tables, table_ends)
        return cls(graph, columns.sizes, members, ends, tables, table_ends)

    def smooth(self, strength: float = 8.0, base: FloatArray | None = None) -> Network:
        """Turn counts into conditional tables, each shrunk to the one without its last parent by pseudo-counts.

        The table without parents is shrunk to `base`, levels of all columns in a row; to even ones by one pseudo-count
        where none is given. The result is a density, since the ordering is perfect.
        """
        from legendre.core.sums.kernels.columns import back_off

        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        first = 1.0 if base is None else strength
        prior = np.repeat(1.0 / self.sizes, self.sizes) if base is None else base
        tables = self.tables.copy()
        back_off(self.sizes, self.members, self.ends, tables, self.table_ends, strength, first, prior, starts)
        return replace(self, tables=tables)

    def families(self) -> list[tuple[list[int], FloatArray]]:
        """List the columns of each family, the own one last, and its table."""
        bounds = zip(self.ends[:-1], self.ends[1:], self.table_ends[:-1], self.table_ends[1:], strict=True)
        out = []
        for first, last, start, stop in bounds:
            modes = self.members[first:last].tolist()
            out.append((modes, self.tables[start:stop].reshape(self.sizes[modes])))
        return out

    def with_pseudo_counts(self, alpha: float) -> Network:
        """Turn counts, with `alpha` observations more spread evenly over all cells, into conditional tables."""
        parts = []
        for _, table in self.families():
            own = table + alpha / table.size
            total = own.sum(axis=-1, keepdims=True)
            even = np.full(table.shape, 1.0 / table.shape[-1])  # where the parents' levels were never seen
            with np.errstate(divide="ignore"):
                parts.append(np.log(np.divide(own, total, out=even, where=total > 0)).ravel())
        return replace(self, tables=np.concatenate(parts))

    def left_out_loss(self, alpha: float) -> float:
        """Return minus the log-likelihood of each row given all others, for counts with `alpha` spread over all cells.

        The pseudo-counts of cliques agree, so that each conditional table is a ratio of two of them.
        """
        loss = 0.0
        for _, table in self.families():
            above = table.sum(axis=-1, keepdims=True)
            own = np.maximum(table - 1, 0) + alpha / table.size
            total = np.maximum(above - 1, 0) + alpha / above.size
            loss -= float((table * np.log(own / total)).sum())
        return loss

    @property
    def n_params(self) -> int:
        """The number of free probabilities."""
        return sum(table.size - table.size // table.shape[-1] for _, table in self.families())

    def log_prob(self, codes: AnyArray) -> FloatArray:
        """Return the log-probability of rows, stored column by column; minus infinity where a value is no level."""
        from legendre.core.sums.kernels.columns import sum_logs

        out = np.zeros(codes.shape[1])
        sum_logs(codes, self.sizes, self.members, self.ends, self.tables, self.table_ends, out)
        return out

    @cached_property
    def _tree(self) -> tuple[IntArray, ...]:
        """The families as a tree, in which each hangs on that of its last parent: tables and links, see the kernel."""
        place = {own: f for f, own in enumerate(self.members[self.ends[1:] - 1].tolist())}
        above, links = [], []
        for modes, _ in self.families():
            parents = modes[:-1]
            last = max((place[k] for k in parents), default=-1)
            above.append(last)
            if last >= 0:
                whole = self.members[self.ends[last] : self.ends[last + 1]]
                digits = np.indices(tuple(self.sizes[whole].tolist())).reshape(len(whole), -1)
                found = [digits[whole.tolist().index(k)] for k in parents]
                links.append(np.ravel_multi_index(found, self.sizes[parents]))
            else:
                links.append(np.empty(0, dtype=np.int64))
        own = self.members[self.ends[1:] - 1]
        states = np.diff(self.table_ends) // self.sizes[own]
        starts = np.concatenate([[0], np.cumsum([len(link) for link in links])])
        return own, states, np.array(above), np.concatenate(links).astype(np.int64), starts

    def _complete(self, columns: Columns, **wanted: AnyArray) -> FloatArray:
        """Pass messages for each row; see the kernel for what can be wanted."""
        from legendre.core.sums.kernels.columns import complete_rows

        none, no_levels = np.empty((0, 0)), np.empty((0, 0), dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(self.sizes)])
        return np.asarray(
            complete_rows(
                columns.codes, columns.weights, self.sizes, self.table_ends, *self._tree, np.exp(self.tables), starts,
                wanted.get("expected", np.empty(0)), wanted.get("margins", none), wanted.get("chances", none),
                wanted.get("drawn", no_levels),
            )
        )  # fmt: skip

    def expect(self, columns: Columns) -> tuple[Network, float]:
        """E step: the expected counts of the families of rows with gaps, and the log-likelihood of what they show."""
        counts = np.zeros(len(self.tables))
        logs = self._complete(columns, expected=counts)
        return replace(self, tables=counts), float(columns.weights @ logs)

    def predict(self, columns: Columns) -> FloatArray:
        """Return the distribution of each column of each row given what the row shows, rows x levels in a row."""
        out = np.zeros((len(columns.weights), int(self.sizes.sum())))
        self._complete(columns, margins=out)
        return out

    def complete(self, columns: Columns, generator: np.random.Generator) -> IntArray:
        """Complete each row by a draw from what it leaves open."""
        drawn = np.zeros((len(columns.weights), len(self.sizes)), dtype=np.int64)
        self._complete(columns, chances=generator.random(drawn.shape), drawn=drawn)
        return drawn

    @cached_property
    def distribution(self) -> CliqueDistribution:
        """The same distribution as a member of the model of all interactions within cliques: it answers questions."""
        shape = tuple(self.sizes.tolist())
        model = Model.of(Support(shape), None, self.graph.basis(shape))
        q = CliqueDistribution(model, np.zeros(model.n_params))
        tables, logs = q.tables, np.zeros(q.tables.size)
        for modes, table in self.families():
            real = [k for k in modes if shape[k] > 1]
            if real:
                home = tables.tree.home_of(real)
                clique = tables.tree.cliques[home]
                kept = [k for k in clique.modes if k in real]
                flat = table.reshape([shape[k] for k in real]).transpose([real.index(k) for k in kept])
                grid = logs[tables.matrices[home][0]].reshape(clique.shape)
                grid += np.expand_dims(flat, tuple(i for i, k in enumerate(clique.modes) if k not in real))
        return CliqueDistribution(model, theta_of(tables, logs))


@dataclass(frozen=True, eq=False)
class Completed:
    """A fit to rows with gaps by expectation-maximisation: a stationary point, for the likelihood is not concave."""

    network: Network
    log_likelihood: float  # of what the rows show
    residual: float  # by how much the largest share of a family's cell changed at last: 0 at a stationary point
    n_iter: int


def fit_rows(
    graph: InteractionGraph, columns: Columns, alpha: float, tol: float = 1e-10, max_iter: int = 2000
) -> Completed:
    """Maximise the likelihood of rows with gaps, with `alpha` pseudo-counts, over the distributions on a graph.

    From even tables; the M step has a closed form. It ends when no share of a cell changes by more than tol.
    """
    network = Network.count(graph, replace(columns, weights=np.zeros_like(columns.weights))).with_pseudo_counts(1.0)
    before, residual, n_iter, value = np.zeros(len(network.tables)), np.inf, 0, -np.inf
    while residual > tol and n_iter < max_iter:
        n_iter += 1
        counts, value = network.expect(columns)
        shares = counts.tables / columns.total
        network, residual, before = counts.with_pseudo_counts(alpha), float(np.abs(shares - before).max()), shares
    return Completed(network, value, residual, n_iter)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Rows come from classes, each with a distribution of its own; which class a row is of was not observed."""

    log_weights: FloatArray
    parts: Sequence[Network]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of levels of each column."""
        return tuple(self.parts[0].sizes.tolist())

    def joint(self, columns: Columns) -> FloatArray:
        """Return the log-probability of what each row shows together with each class, rows x classes."""
        lacking = columns.lacking
        some, whole = columns.take(lacking), columns.take(~lacking)
        out = np.empty((len(lacking), len(self.parts)))
        for k, part in enumerate(self.parts):
            out[~lacking, k] = part.log_prob(whole.codes)
            out[lacking, k] = part._complete(some)
        return out + self.log_weights

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return the log-probability of what rows (n x columns) show; -1 is missing."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.joint(Columns.of(cells, None, self.shape)), axis=1))

    def posterior(self, columns: Columns) -> FloatArray:
        """Return the probability of each class given what a row shows; even where no class allows it."""
        logs = self.joint(columns)
        peak = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - np.where(np.isfinite(peak), peak, 0.0))
        weights[~np.isfinite(peak[:, 0])] = 1.0
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))

    def predict(self, columns: Columns) -> FloatArray:
        """Return the distribution of each column of each row given what the row shows, rows x levels in a row."""
        shares = self.posterior(columns)
        return np.asarray(sum(shares[:, k, None] * part.predict(columns) for k, part in enumerate(self.parts)))

    def complete(self, columns: Columns, generator: np.random.Generator) -> IntArray:
        """Complete each row by a draw: of a class, then of what the row lacks."""
        shares = np.cumsum(self.posterior(columns), axis=1)
        chosen = (shares < generator.random(len(shares))[:, None]).sum(axis=1)
        out = np.empty((len(shares), len(self.shape)), dtype=np.int64)
        for k, part in enumerate(self.parts):
            rows = np.flatnonzero(chosen == k)
            out[rows] = part.complete(columns.take(rows), generator)
        return out

    def _weights_given(self, at: Mapping[int, int]) -> FloatArray:
        row = np.full((1, len(self.shape)), -1)
        row[0, list(at)] = list(at.values())
        logs = self.joint(Columns.of(row, None, self.shape))[0]
        if logs.max() == -np.inf:
            raise ImpossibleEvent("the event has probability 0")
        weights = np.exp(logs - logs.max())
        return np.asarray(weights / weights.sum())

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Return the distribution of some columns given the levels of others."""
        weights = self._weights_given(at) if len(self.parts) > 1 else np.ones(1)
        tables = [part.distribution.marginal(kept, at) * w for part, w in zip(self.parts, weights, strict=True) if w]
        return np.asarray(sum(tables))

    def sample(self, n: int, generator: np.random.Generator, at: Mapping[int, int] | None = None) -> IntArray:
        """Draw rows, or rows with the levels of some columns given: a class first, then a row of it."""
        counts = generator.multinomial(n, self._weights_given(at or {}))
        drawn = [
            draw_given(part.distribution, m, generator, at or {})
            for part, m in zip(self.parts, counts.tolist(), strict=True)
            if m
        ]
        return generator.permutation(np.concatenate(drawn)) if len(drawn) > 1 else drawn[0]
