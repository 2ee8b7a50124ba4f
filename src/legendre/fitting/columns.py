"""Rows of many columns: the graph of those that interact, tables on it, rows with gaps, and classes of rows.

The graph is chordal and grows edge by edge. What an edge between a and b gains depends only on their common neighbours
S: N I(a; b | S). The graph stays chordal exactly if S separates a from b. A new edge changes S only for pairs of one of
its ends with a neighbour of the other, so only these are scored again; it can make other pairs inadmissible, never
admissible, so admissibility is tested again when a pair comes up. Pairs without common neighbours join two
components, so of these only the edges of the maximum spanning forest can be taken.

A distribution on a chordal graph is a table for each mode given those before it. What was not observed is found by
expectation-maximisation: values that some rows lack, and the class of a row, which all rows lack. Values are taken to
be missing at random (Little and Rubin): whether one is missing may depend on what was observed, not on the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Any, Literal

import numpy as np

from legendre.basis.graph import Graph
from legendre.core.errors import ImpossibleEvent, InvalidBasis, InvalidSamples
from legendre.core.labels import Labels
from legendre.core.memory import check_room
from legendre.core.sums.linalg import limit_blas
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.data.readers.rows import from_rows
from legendre.results.graph import InteractionGraph


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows of levels, column by column; a value at or above a column's number of levels is missing."""

    codes: AnyArray  # columns x rows, unsigned
    weights: FloatArray  # of the rows
    sizes: IntArray  # the number of levels of each column

    @classmethod
    def of(cls, rows: IntArray, weights: FloatArray | None, shape: tuple[int, ...]) -> Columns:
        """Store rows (n x N) of levels column by column, in the smallest unsigned integers; below 0 is missing."""
        kind = np.min_scalar_type(max(shape) + 2)  # in which -1 and -2 become the two largest numbers
        codes = np.ascontiguousarray(rows.T.astype(kind))
        each = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(codes, each, np.array(shape, dtype=np.int64))

    def take(self, rows: AnyArray | slice, weights: FloatArray | None = None) -> Columns:
        """Return some rows, with other weights if these are given."""
        own = self.weights[rows] if weights is None else weights
        return Columns(np.ascontiguousarray(self.codes[:, rows]), own, self.sizes)

    def merge(self) -> Columns:
        """Replace equal rows by one with the sum of their weights.

        Rows are compared as strings of bytes, which is far faster than np.unique along an axis for many columns.
        """
        rows = np.ascontiguousarray(self.codes.T)
        whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))
        _, first, place = np.unique(whole, return_index=True, return_inverse=True)
        return self.take(first, np.bincount(place.ravel(), self.weights).astype(np.float64))

    @cached_property
    def lacking(self) -> BoolArray:
        """Mark the rows with a missing value."""
        return np.asarray((self.codes >= self.sizes[:, None]).any(axis=0))

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    @cached_property
    def margins(self) -> list[FloatArray]:
        """The share of each level of each column, with one pseudo-count."""
        out = []
        for codes, size in zip(self.codes, self.sizes.tolist(), strict=True):
            counts = np.bincount(codes[codes < size], self.weights[codes < size], size) + 1.0 / size
            out.append(counts / counts.sum())
        return out


def rows_as_tensor(X: Any) -> Any:
    """Count rows: an array of two modes, a data frame or columns by name; other kinds of X come back as they are."""
    framed = isinstance(X, (list, Mapping)) or hasattr(X, "columns") or hasattr(X, "column_names")
    return from_rows(X) if framed or (isinstance(X, np.ndarray) and X.ndim == 2) else X


# --- the graph -------------------------------------------------------------------------------------------------------


def find_graph(recipe: Graph, data: Observation) -> InteractionGraph:
    """Find the graph of a tensor that has been read: its rows are its cells with their counts."""
    if (entries := data.entries) is not None:
        cells, counts = entries.cells, entries.values
    elif (dense := data.as_dense()) is not None:
        grid = np.where(dense.support.on_grid(), dense.values, 0)
        cells = np.argwhere(grid > 0)  # NaN is not counted
        counts = grid[tuple(cells.T)]
    else:
        raise InvalidBasis("graph(...) needs X in memory, or as a list of entries: ld.from_rows, ld.from_coords.")
    return search(Columns.of(cells, counts, data.shape), recipe, data.labels)


def search(columns: Columns, recipe: Graph, labels: Labels) -> InteractionGraph:
    """Find the graph of columns by the criterion of a recipe, and say what is odd about them."""
    share = _best_share(columns, recipe, labels) if recipe.criterion == "held-out" else 1.0
    found = _grow_graph(columns, recipe, labels, share)
    constant, identifiers = _mark_useless(columns)
    own = "has a value of its own in each row, and no edge: it is treated as an identifier."
    notes = [f"{labels.mode(k)} has one level, and is left out." for k in np.flatnonzero(constant).tolist()]
    return replace(found, notes=(*notes, *(f"{labels.mode(k)} {own}" for k in np.flatnonzero(identifiers).tolist())))


def _mark_useless(columns: Columns, few: int = 20) -> tuple[BoolArray, BoolArray]:
    """Mark columns that cannot have edges: those in which one level is seen, and identifiers.

    An identifier has a different level in each row; with `few` rows or less that may be chance.
    """
    n_rows = columns.codes.shape[1]
    constant = columns.codes.min(axis=1) == columns.codes.max(axis=1)
    return constant, ~constant & (columns.sizes == n_rows) & (n_rows > few) & (columns.total == n_rows)


def _best_share(columns: Columns, recipe: Graph, labels: Labels) -> float:
    """Find the share of BIC's penalty whose graph best predicts every tenth row when the others are fitted.

    Of equally good shares it is the largest, which has the fewest edges.
    """
    held = np.arange(columns.codes.shape[1]) % 10 == 9
    fitted, other = (columns.take(some) for some in (~held, held))

    def score(share: float) -> float:
        network = Network.count(_grow_graph(fitted, recipe, labels, share), fitted).smooth(8.0, fitted.margins)
        return float(other.weights @ network.log_prob(other))

    return max((1.0, 0.5, 0.25, 0.12), key=score)


def _grow_graph(columns: Columns, recipe: Graph, labels: Labels, share: float = 1.0) -> InteractionGraph:
    """Add the edge with the highest score, as long as that is positive: its gain less a penalty for each parameter.

    The penalty is a `share` of what the criterion asks. Pairs wait in a heap with their scores and the common
    neighbours with which these were computed; a pair whose common neighbours have changed was put there once more.
    Scores are rounded to 1e-5, so that columns which determine each other tie, and the lowest pair comes first.
    """
    from legendre.core.sums.kernels.columns import edge_gain, separates

    penalty: Any = recipe.criterion
    if isinstance(penalty, str):
        penalty = 1.0 if penalty == "aic" else 0.5 * math.log(max(columns.total, 1.0))
    penalty = share * float(penalty)
    used = np.flatnonzero(~np.logical_or(*_mark_useless(columns)))
    columns = Columns(np.ascontiguousarray(columns.codes[used]), columns.weights, columns.sizes[used])
    n, sizes = len(used), columns.sizes.tolist()
    gains, dfs = pair_gains(columns)
    scores = np.round(gains - penalty * dfs, 5)
    heap = [(-float(scores[a, b]), a, b, frozenset[int]()) for a, b in _spanning_forest(scores)]
    heapify(heap)
    near: list[set[int]] = [set() for _ in range(n)]
    listed, degrees = np.empty((n, n), dtype=np.int32), np.zeros(n, dtype=np.int64)  # the same, for compiled code
    ends: list[tuple[int, int]] = []

    def is_admissible(a: int, b: int, shared: frozenset[int]) -> bool:
        return bool(separates(listed, degrees, np.array([*shared], dtype=np.int64), a, b))

    while heap:
        _, a, b, shared = heappop(heap)
        if b in near[a] or shared != near[a] & near[b]:
            continue  # it was scored with other neighbours
        if shared and not is_admissible(a, b, shared):
            continue
        ends.append((a, b))
        for u, v in ((a, b), (b, a)):
            near[u].add(v)
            listed[u, degrees[u]] = v
            degrees[u] += 1
        for u, v in ((a, b), (b, a)):
            for x in near[v] - near[u] - {u}:
                shared, pair = frozenset(near[u] & near[x]), (max(u, x), min(u, x))
                chosen = [*sorted(shared), *pair]
                if math.prod(sizes[k] for k in chosen) > recipe.cells or not is_admissible(*pair, shared):
                    continue
                gains[pair], dfs[pair] = edge_gain(
                    columns.codes, columns.weights, columns.sizes, np.array(chosen, dtype=np.int64)
                )
                score = round(penalty * float(dfs[pair]) - float(gains[pair]), 5)
                if score < 0:
                    heappush(heap, (score, *pair, shared))
    place = np.array(ends, dtype=np.int64).reshape(-1, 2)
    return InteractionGraph(labels, used[place], gains[tuple(place.T)], dfs[tuple(place.T)], penalty)


def pair_gains(columns: Columns, block: int = 1 << 22) -> tuple[FloatArray, IntArray]:
    """Return N I(a; b) of each pair of columns a > b and its degrees of freedom, both n x n.

    An indicator is a row of 0 and 1 that marks where a column has a level; the product of all indicators with each
    other has the tables of all pairs. Without missing values level 0 needs no indicator, which saves three quarters of
    the work for binary columns: its sums are what the other levels leave of a row of ones, which comes first. `block`
    bounds the entries of indicators that are formed at a time.
    """
    from legendre.core.sums.kernels import columns as kernels

    sizes, (n, n_rows) = columns.sizes, columns.codes.shape
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width, complete = int(starts[-1]), not columns.lacking.any()
    check_room(width * width, 4 * 8, "graph: tables of all pairs of levels", "Merge rare levels, or leave columns out.")
    owner, level = np.nonzero(np.arange(complete, sizes.max(initial=0)) < sizes[:, None])
    both = np.zeros((1 + len(owner),) * 2)
    for start in range(0, n_rows, step := 1 + block // len(both)):
        rows = slice(start, start + step)
        marks = columns.codes[:, rows][owner] == complete + level[:, None]
        ones = np.vstack([np.ones(marks.shape[1]), marks]) * np.sqrt(columns.weights[rows])
        with limit_blas(width):
            both += ones @ ones.T

    def restore(sums: FloatArray) -> FloatArray:
        """Insert level 0 of each column, along the first axis, where it was left out."""
        if not complete or not n:
            return sums[1:]
        first = starts[:-1] - np.arange(n)
        return np.insert(sums[1:], first, sums[0] - np.add.reduceat(sums[1:], first), axis=0)

    both = restore(restore(both).T)
    both[both < 1e-12 * columns.total] = 0.0  # rounding of sums and differences
    gains, dfs = np.zeros((n, n)), np.zeros((n, n), dtype=np.int64)
    kernels.pair_gains(both, starts, gains, dfs)
    return gains, dfs


def _spanning_forest(scores: FloatArray) -> list[tuple[int, int]]:
    """List the edges of the maximum spanning forest of the positive scores, the larger number of each pair first."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    positive = np.tril(scores, -1) > 0
    if not positive.any():
        return []
    order = np.argsort(-scores[positive], kind="stable")
    ranks = np.zeros(scores.shape)  # 0 where there is no edge; no two others are equal, so the tree is unique
    ranks[positive] = 1 + np.argsort(order)
    tree = minimum_spanning_tree(ranks).tocoo()
    return list(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


# --- tables on a graph -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Network:
    """Tables over the families of a perfect ordering, a mode with its parents: counts, or log p(v | parents of v)."""

    sizes: IntArray
    families: Sequence[IntArray]  # the columns of each family, its own one last
    tables: Sequence[FloatArray]  # with a mode for each column

    @classmethod
    def count(cls, graph: InteractionGraph, columns: Columns) -> Network:
        """Count rows in the tables of all families: each mode of the graph with its parents."""
        from legendre.core.sums.kernels.columns import count_table

        families = [np.array([*parents, v]) for v, parents in graph.families]
        tables = []
        for family in families:
            counts = count_table(columns.codes, columns.weights, columns.sizes, family)
            tables.append(counts.reshape(columns.sizes[family]))
        return cls(columns.sizes, families, tables)

    def smooth(self, strength: float, base: Sequence[FloatArray]) -> Network:
        """Turn counts into conditional tables, each shrunk to the one without its last parent by pseudo-counts.

        ``p(v | pa_1, ..., pa_k) = (n + c p(v | pa_1, ..., pa_k-1)) / (N + c)`` with c = `strength`. The table without
        parents is shrunk to `base`, which has the shares of the levels of each column. The result is a density, since
        the ordering is perfect.
        """
        parts = []
        for family, table in zip(self.families, self.tables, strict=True):
            counts = [table]  # and those without the last parents
            while counts[-1].ndim > 1:
                counts.append(np.add.reduce(counts[-1], axis=-2))
            p = base[family[-1]]
            for n in reversed(counts):
                before = p if p.ndim == n.ndim else p[..., None, :]
                p = (n + strength * before) / (np.add.reduce(n, axis=-1, keepdims=True) + strength)
            parts.append(np.log(p))
        return replace(self, tables=parts)

    def with_pseudo_counts(self, alpha: float) -> Network:
        """Turn counts into conditional tables, after `alpha` more observations are spread evenly over all cells."""
        parts = []
        for table in self.tables:
            own = table + alpha / table.size
            total = own.sum(axis=-1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                # all levels are alike where the parents' levels were never seen
                parts.append(np.log(np.where(total > 0, own / total, 1.0 / table.shape[-1])))
        return replace(self, tables=parts)

    def left_out_loss(self, alpha: float) -> float:
        """Return minus the sum over rows of the log-probability of a row under the tables fitted to all other rows.

        Its smallest value chooses `alpha`, the pseudo-count that is spread evenly over all cells. No table is fitted
        again: without a row, each count that it belongs to is smaller by 1.
        """
        loss = 0.0
        for table in self.tables:
            above = table.sum(axis=-1, keepdims=True)
            own = np.maximum(table - 1, 0) + alpha / table.size
            total = np.maximum(above - 1, 0) + alpha / above.size
            loss -= float((table * np.log(own / total)).sum())
        return loss

    def log_prob(self, columns: Columns) -> FloatArray:
        """Return the log-probability of the values that each row has; missing ones are summed out."""
        from legendre.core.sums.kernels.columns import add_entries

        out, lacking = np.zeros(len(columns.weights)), columns.lacking
        for family, table in zip(self.families, self.tables, strict=True):
            add_entries(columns.codes, self.sizes, family, table.ravel(), out)
        if lacking.any():  # these rows have been given minus infinity
            some = columns.take(lacking)
            out[lacking] = np.concatenate([logs for _, logs, _ in self._condition(some)])
        return out

    @cached_property
    def _tree(self) -> list[tuple[list[int], list[int], tuple[int, ...]]]:
        """The junction tree: for each family its members, the axes of its table, and the axes that its parent sums out.

        Members are places in the perfect ordering, rising; the axes are permuted to that order. The parent of a family
        in the tree is that of its last member but one, which contains all members but the last; summing its other axes
        out leaves a table over what the two share. A family of one member is a root.
        """
        place = {int(family[-1]): f for f, family in enumerate(self.families)}
        listed = [[place[k] for k in family.tolist()] for family in self.families]
        out = []
        for at in listed:
            above = sorted(listed[sorted(at)[-2]]) if len(at) > 1 else []
            lost = tuple(axis for axis, f in enumerate(above) if f not in at)
            out.append((sorted(at), np.argsort(at).tolist(), lost))
        return out

    def _condition(
        self, columns: Columns, block: int = 1 << 18
    ) -> Iterator[tuple[Columns, FloatArray, list[FloatArray]]]:
        """Condition on the values that rows have, by messages from the leaves of the junction tree to its roots.

        Rows come in pieces, so that tables of all families hold at most about `block` entries. For each piece yield its
        rows, the log-probability of the values that each row has, and a table for each family: p(own column | parents,
        values of the row), with axes for the family in perfect order and a last one for the rows.
        """
        given = [np.exp(table).transpose(order) for table, (_, order, _) in zip(self.tables, self._tree, strict=True)]
        step = max(64, block // sum(table.size for table in given))
        for start in range(0, len(columns.weights), step):
            some = columns.take(slice(start, start + step))
            logs, values = np.zeros(len(some.weights)), []
            for family, table in zip(self.families, given, strict=True):
                codes, size = some.codes[family[-1]], table.shape[-1]
                values.append(table[..., None] * ((codes == np.arange(size)[:, None]) | (codes >= size)))
            for value, (places, _, lost) in reversed(list(zip(values, self._tree, strict=True))):
                message = value.sum(axis=-2)
                largest = message.max(axis=tuple(range(message.ndim - 1)))
                with np.errstate(divide="ignore"):
                    logs += np.log(largest)
                value /= np.where(message > 0, message, 1.0)[..., None, :]
                if len(places) > 1:  # scaled, so that it does not underflow
                    values[places[-2]] *= np.expand_dims(message / np.where(largest > 0, largest, 1.0), lost)
            yield some, logs, values

    def _join(self, conditionals: list[FloatArray]) -> list[FloatArray]:
        """Turn the conditional tables of `_condition` into the joint distribution of each family given a row's values.

        From the roots on: the joint distribution of the parents is a sum over the parent family in the tree.
        """
        out: list[FloatArray] = []
        for own, (places, _, lost) in zip(conditionals, self._tree, strict=True):
            out.append(own * out[places[-2]].sum(axis=lost)[..., None, :] if len(places) > 1 else own)
        return out

    def expect(self, columns: Columns) -> tuple[Network, float]:
        """E step: return the expected counts of all families, and the log-likelihood of the values that rows have."""
        counts, value = [np.zeros_like(table) for table in self.tables], 0.0
        for some, logs, conditionals in self._condition(columns):
            value += float(some.weights @ logs)
            for table, joint, (_, order, _) in zip(counts, self._join(conditionals), self._tree, strict=True):
                table.transpose(order)[...] += joint @ some.weights
        return replace(self, tables=counts), value

    def predict(self, columns: Columns) -> FloatArray:
        """Return the distribution of each column given the values that a row has: rows x levels of all columns."""
        order, out = np.argsort([family[-1] for family in self.families]).tolist(), []
        for _, _, conditionals in self._condition(columns):
            joints = self._join(conditionals)
            out.append(np.vstack([joints[f].sum(axis=tuple(range(joints[f].ndim - 2))) for f in order]))
        return np.hstack(out).T

    def complete(self, columns: Columns, generator: np.random.Generator) -> IntArray:
        """Fill in the missing values of each row by a draw from their joint distribution, given the others.

        Columns are drawn in perfect order, each given its parents.
        """
        order, out = np.argsort([family[-1] for family in self.families]), []
        for some, _, conditionals in self._condition(columns):
            rows = np.arange(len(some.weights))
            drawn = np.zeros((len(order), len(rows)), dtype=np.int64)  # in perfect order
            for f, (own, (places, _, _)) in enumerate(zip(conditionals, self._tree, strict=True)):
                p = np.cumsum(np.moveaxis(own, -2, 0)[(slice(None), *drawn[places[:-1]], rows)], axis=0)
                drawn[f] = (p[:-1] <= p[-1] * generator.random(len(rows))).sum(axis=0)
            out.append(drawn[order])
        return np.hstack(out).T


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
        return np.stack([part.log_prob(columns) for part in self.parts], axis=1) + self.log_weights

    def log_prob(self, columns: Columns) -> FloatArray:
        """Return the log-probability of what each row shows."""
        from scipy.special import logsumexp

        return np.asarray(logsumexp(self.joint(columns), axis=1))

    def posterior(self, columns: Columns) -> FloatArray:
        """Return the probability of each class given what a row shows; even where no class allows it."""
        from scipy.special import softmax

        logs = self.joint(columns)
        logs[logs.max(axis=1) == -np.inf] = 0.0
        return np.asarray(softmax(logs, axis=1))

    def predict(self, columns: Columns) -> FloatArray:
        """Return the distribution of each column given the values that a row has: rows x levels of all columns."""
        shares = self.posterior(columns)
        return np.asarray(sum(shares[:, k, None] * part.predict(columns) for k, part in enumerate(self.parts)))

    def complete(self, columns: Columns, generator: np.random.Generator) -> IntArray:
        """Fill in the missing values of each row by a draw: first of its class, then of the values."""
        shares = np.cumsum(self.posterior(columns), axis=1)[:, :-1]
        chosen = (shares < generator.random(len(shares))[:, None]).sum(axis=1)
        out = np.empty((len(chosen), len(self.shape)), dtype=np.int64)
        for k, part in enumerate(self.parts):
            rows = np.flatnonzero(chosen == k)
            out[rows] = part.complete(columns.take(rows), generator)
        return out

    def _list_rows(self, at: Mapping[int, int], kept: Sequence[int] = ()) -> tuple[Columns, FloatArray]:
        """Make a row for each combination of levels of the columns that are kept, and find its log-probability.

        All rows have the levels `at` of other columns, and lack the rest. An event without probability is refused.
        """
        shape = [self.shape[k] for k in kept]
        rows = np.full((math.prod(shape), len(self.shape)), -1, dtype=np.min_scalar_type(-max(self.shape)))
        rows[:, list(kept)] = np.indices(shape).reshape(len(shape), len(rows)).T
        rows[:, list(at)] = list(at.values())
        columns = Columns.of(rows, None, self.shape)
        logs = self.log_prob(columns)
        if logs.max() == -np.inf:
            raise ImpossibleEvent("the event has probability 0")
        return columns, logs

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Return the distribution of some columns given the levels of others."""
        from scipy.special import softmax

        return np.asarray(softmax(self._list_rows(at, kept)[1])).reshape([self.shape[k] for k in kept])

    def sample(self, n: int, generator: np.random.Generator, at: Mapping[int, int] | None = None) -> IntArray:
        """Draw rows, or rows with the levels of some columns given: a class first, then a row of it."""
        row, _ = self._list_rows(at or {})
        return self.complete(row.take(np.zeros(n, dtype=np.int64)), generator)


# --- what was not observed -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Completed:
    """A fit to rows with gaps by expectation-maximisation: a stationary point, as the likelihood is not concave."""

    network: Network
    log_likelihood: float  # of what the rows show
    residual: float  # by how much the largest share of a family's cell changed at last: 0 at a stationary point
    n_iter: int


def fit_tables(
    graph: InteractionGraph,
    columns: Columns,
    smooth: Callable[[Network], Network],
    tol: float = 1e-10,
    max_iter: int = 2000,
) -> Completed:
    """Maximise the likelihood of rows with gaps over the distributions on a graph, by expectation-maximisation.

    The start has even tables. The M step has a closed form: `smooth` turns expected counts into tables. It ends when no
    expected count changes by more than tol times the number of rows.
    """
    network = Network.count(graph, columns.take(slice(0))).with_pseudo_counts(1.0)
    before, residual, n_iter, value = network.tables, np.inf, 0, -np.inf
    while residual > tol and n_iter < max_iter:
        n_iter += 1
        counts, value = network.expect(columns)
        changes = [np.abs(new - old).max() for new, old in zip(counts.tables, before, strict=True)]
        network, residual, before = smooth(counts), float(max(changes)) / columns.total, counts.tables
    return Completed(network, value, residual, n_iter)


@dataclass(frozen=True, eq=False)
class Tried:
    """Classes that were learned with some settings, and how they predict held-out rows."""

    strength: float  # pseudo-counts by which a table is shrunk to the one without its last parent
    mixture: Mixture
    held_out: float  # the mean log-likelihood of held-out rows

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.mixture.parts)


def learn_classes(
    columns: Columns,
    valid: Columns | None,
    recipe: Graph,
    classes: int | Literal["auto"],
    most: int = 128,
    strengths: tuple[float, ...] = (8.0, 32.0),
) -> list[Tried]:
    """Double the number of classes as long as held-out rows gain, with each of the strengths; list what was tried.

    Each class has its own graph and tables. The likelihood is not concave, so what is found depends on where
    it starts. The start is deterministic: one class is split in two along the leading principal component of its rows,
    and so are all classes, as long as held-out rows are predicted better; of a given number of classes the last split
    is of those with the most rows. Without held-out rows every tenth row is. The last entry of the list is the best,
    learned once more from all rows.
    """
    every = columns
    if valid is None:
        held = np.arange(len(columns.weights)) % 10 == 9
        if not held.any():
            raise InvalidSamples("classes are chosen on held-out rows: pass at least ten rows, or valid.")
        columns, valid = (columns.take(some) for some in (~held, held))
    columns, valid = columns.merge(), valid.merge()
    tried: list[Tried] = []
    for strength in strengths:
        weights, last = columns.weights[:, None], None
        while True:
            found = _run_em(columns, valid, recipe, strength, weights)
            tried.append(found)
            if last is not None and (
                found.n_classes <= last.n_classes or (classes == "auto" and found.held_out <= last.held_out)
            ):
                break
            last = found
            weights = _split_classes(columns, found.mixture, most if classes == "auto" else classes)
            if weights.shape[1] == found.n_classes:
                break
    best = max(tried, key=lambda run: (classes in ("auto", run.n_classes), run.held_out))
    tried.remove(best)
    if columns.total < every.total:  # rows were held out
        weights = best.mixture.posterior(every) * every.weights[:, None]
        best = replace(best, mixture=_maximise(every, weights, recipe, best.strength))
    return [*tried, best]


def _run_em(
    columns: Columns, valid: Columns, recipe: Graph, strength: float, weights: FloatArray,
    most: int = 30, rise: float = 2e-3, least: float = 20.0,
) -> Tried:  # fmt: skip
    """Take M and E steps while the mean log-likelihood of held-out rows rises by at least `rise`; return the best.

    `weights` (rows x classes) says how much of each row belongs to each class at the start. Classes of fewer than
    `least` rows are dropped.
    """
    tried: list[Tried] = []
    while len(tried) < most and (len(tried) < 2 or tried[-1].held_out > tried[-2].held_out + rise):
        if tried:
            weights = tried[-1].mixture.posterior(columns) * columns.weights[:, None]
        weights = weights[:, weights.sum(axis=0) > min(least, 0.5 * columns.total)]
        mixture = _maximise(columns, weights, recipe, strength)
        tried.append(Tried(strength, mixture, float(valid.weights @ mixture.log_prob(valid)) / valid.total))
    return max(tried, key=lambda run: run.held_out)


def _maximise(
    columns: Columns, weights: FloatArray, recipe: Graph, strength: float, share: float = 0.5, least: float = 0.01
) -> Mixture:
    """M step: learn graph and tables of each class from its share of the rows, margins shrunk to those of all rows.

    A parameter must gain a `share` of what the criterion asks. Rows that belong to a class by less than `least` are
    left out, so the likelihood may fall.
    """
    labels, base, parts = Labels(tuple(columns.sizes.tolist())), columns.margins, []
    for own in weights.T:
        rows = np.flatnonzero(own > least)
        some = columns.take(rows, own[rows])
        graph = _grow_graph(some, recipe, labels, share)
        if some.lacking.any():
            parts.append(fit_tables(graph, some, lambda counts: counts.smooth(strength, base), 1e-4).network)
        else:
            parts.append(Network.count(graph, some).smooth(strength, base))
    return Mixture(np.log(weights.sum(axis=0) / weights.sum()), parts)


def _split_classes(columns: Columns, mixture: Mixture, classes: int) -> FloatArray:
    """Split classes in two, the largest first, until there are `classes`; return the new weights, rows x classes."""
    weights = mixture.posterior(columns) * columns.weights[:, None]
    order = np.argsort(-weights.sum(axis=0), kind="stable").tolist()
    parts: list[AnyArray] = []
    for place, k in enumerate(order):
        parts += _split_class(columns, weights[:, k]) if place < classes - len(order) else [weights[:, k]]
    return np.stack(parts, axis=1)


def _split_class(columns: Columns, weights: FloatArray, steps: int = 30) -> list[AnyArray]:
    """Divide the weights of rows among two classes that lie along the leading principal component of the rows.

    The variables are the indicators of all levels but the first, with the mean for missing values. Power iteration from
    a fixed start finds the component. A row at `place` on it belongs to the first class by a logistic function of its
    place, in units of a third of the standard deviation: rows in the middle belong to both.
    """
    rows = np.flatnonzero(weights > 1e-3 * float(weights.max()))
    own = weights[rows].astype(np.float32)
    column, level = np.nonzero(np.arange(1, columns.sizes.max()) < columns.sizes[:, None])
    held = columns.codes[:, rows][column]  # levels x rows
    marks, seen = (
        (held == 1 + level[:, None]).astype(np.float32),
        (held < columns.sizes[column, None]).astype(np.float32),
    )
    levels = (marks - (marks @ own / np.maximum(seen @ own, 1e-30))[:, None]) * seen
    axis = np.sqrt(levels**2 @ own)
    for _ in range(steps):
        axis = levels @ (own * (axis @ levels))
        axis /= float(np.linalg.norm(axis)) + 1e-30
    place = (axis @ levels).astype(np.float64)
    width = float(np.sqrt(own @ place**2 / own.sum())) + 1e-12
    half = np.zeros(len(weights))
    half[rows] = 1.0 / (1.0 + np.exp(-3.0 * place / width))
    return [weights * half, weights * (1.0 - half)]
