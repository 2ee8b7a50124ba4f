"""Rows of many columns: the graph of those that interact, tables on it, rows with gaps, and classes of rows.

The graph is chordal and grows edge by edge. What an edge between a and b gains depends only on their common neighbours
S: N I(a; b | S), the number of rows times the conditional mutual information. The graph stays chordal if and only if S
separates a from b; such a pair is *admissible*. A new edge changes S only for pairs of one of its ends with a neighbour
of the other, so only these are scored again. It can make other pairs inadmissible, never admissible, so admissibility
is tested again when a pair's turn comes. An admissible pair without common neighbours joins two components, so of such
pairs only the edges of the maximum spanning forest can be taken.

A distribution on a chordal graph is a product of tables, one for each column given its parents in a perfect ordering of
the graph. What was not observed is found by expectation-maximisation (EM): values that some rows lack, and the class of
a row, which all rows lack. Values are taken to be missing at random (Little and Rubin): whether one is missing may
depend on what was observed, not on the value itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from heapq import heapify, heappop, heappush
from string import ascii_letters
from typing import Any, Literal, NamedTuple

import numpy as np

from legendre.basis.basis import Cells
from legendre.basis.graph import Graph
from legendre.core.cells import cell_keys
from legendre.core.errors import ImpossibleEvent, InvalidBasis, InvalidSamples
from legendre.core.labels import Fixed, Labels
from legendre.core.memory import check_room
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.zeta import zeta_adjoint
from legendre.core.types import AnyArray, BoolArray, FloatArray, IntArray, Shape, frozen
from legendre.data.observation import Observation
from legendre.data.readers.labelled import is_frame
from legendre.data.readers.rows import from_rows
from legendre.data.sparse import Sparse, observe_rows
from legendre.results.graph import InteractionGraph


@frozen
class CodedRows:
    """Rows of levels, column by column; a value at or above a column's number of levels is missing."""

    codes: AnyArray  # columns x rows, unsigned integers: the levels, counted from 0
    weights: FloatArray  # how often each row counts
    sizes: IntArray  # the number of levels of each column

    @classmethod
    def of(cls, rows: IntArray, weights: FloatArray | None, shape: Shape) -> CodedRows:
        """Store rows (n x N) of levels column by column, in the smallest unsigned integers that suffice.

        A missing value is -1, and a value that is not a level is -2; both count as missing. Without weights each row
        counts once.
        """
        kind = np.min_scalar_type(max(shape) + 2)  # unsigned, so that -1 and -2 become its two largest numbers
        codes = np.ascontiguousarray(rows.T.astype(kind))
        each = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(codes, each, np.array(shape, dtype=np.int64))

    def take(self, rows: AnyArray | slice, weights: FloatArray | None = None) -> CodedRows:
        """Return some rows (positions, marks or a slice), with other weights if these are given."""
        taken_weights = self.weights[rows] if weights is None else weights
        return CodedRows(np.ascontiguousarray(self.codes[:, rows]), taken_weights, self.sizes)

    def merge(self) -> CodedRows:
        """Replace equal rows by one with the sum of their weights, so that repeated passes over them are shorter."""
        _, first, place = np.unique(cell_keys(self.codes.T), return_index=True, return_inverse=True)
        return self.take(first, np.bincount(place, self.weights).astype(np.float64))

    @cached_property
    def lacking(self) -> BoolArray:
        """Mark the rows with a missing value."""
        return np.asarray((self.codes >= self.sizes[:, None]).any(axis=0))

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())

    def smoothed(self, even: float) -> Sparse:
        """Return the table of counts of complete rows, with a pseudo-count that is spread evenly over all its cells."""
        return observe_rows(self.codes.T.astype(np.int64), self.weights, tuple(self.sizes.tolist()), even)

    @cached_property
    def margins(self) -> list[FloatArray]:
        """The share of each level of each column, an array for each column; missing values do not count.

        One pseudo-count is spread over the levels of a column, so that no share is 0.
        """
        out = []
        for codes, size in zip(self.codes, self.sizes.tolist(), strict=True):
            counts = np.bincount(codes[codes < size], self.weights[codes < size], size) + 1.0 / size
            out.append(counts / counts.sum())
        return out


def rows_as_tensor(X: Any) -> Any:
    """Count rows with `from_rows` if X looks like rows; return any other X as it is.

    If the basis is ``graph(...)``, which is for rows of many columns, then a two-dimensional array, a list, a data
    frame or a mapping of columns is taken as rows, not as a tensor of two modes.
    """
    listed = isinstance(X, (list, Mapping)) or (isinstance(X, np.ndarray) and X.ndim == 2)
    return from_rows(X) if listed or is_frame(X) else X


# --- the graph -------------------------------------------------------------------------------------------------------

Chosen = frozenset[int]  # columns
Edges = dict[tuple[int, int], tuple[int, int, Chosen]]
"""Edges (a, b) with a > b in the order of their choice, with the common neighbours of their ends at that time."""
Rate = Callable[[int, int, Chosen], tuple[float, float, int]]


def find_graph(recipe: Graph, data: Observation) -> InteractionGraph:
    """Find the graph of the modes of a tensor that has been read."""
    return grow_graph(read_columns(data), recipe, data.labels)


def read_columns(data: Observation) -> CodedRows:
    """Take the cells with X > 0 of a tensor that has been read as rows, weighted by X."""
    if (entries := data.entries) is not None:
        cells, counts = entries.cells, entries.values
    elif (dense := data.as_dense()) is not None:
        grid = np.where(dense.support.on_grid(), dense.values, 0)
        cells = np.argwhere(grid > 0)  # NaN is not counted
        counts = grid[tuple(cells.T)]
    else:
        raise InvalidBasis("graph(...) needs X in memory, or as a list of entries: ld.from_rows, ld.from_coords.")
    return CodedRows.of(cells, counts, data.shape)


def _mark_useless(columns: CodedRows, few: int = 20) -> tuple[BoolArray, BoolArray]:
    """Mark two kinds of columns that get no edges: constant ones, of one level, and identifiers, (columns,) each.

    An identifier has a different level in each row, so that it would determine every other column. With `few` rows or
    less that may be chance, and it is not marked.
    """
    n_rows = columns.codes.shape[1]
    constant = columns.codes.min(axis=1) == columns.codes.max(axis=1)
    # as many levels as rows, and each row counts once
    return constant, ~constant & (columns.sizes == n_rows) & (n_rows > few) & (columns.total == n_rows)


def _choose_share(columns: CodedRows, recipe: Graph, labels: Labels) -> float:
    """Return the share of BIC's penalty whose graph best predicts held-out rows, every tenth one, from the others.

    More edges than BIC's may predict better. Of equally good shares the largest is returned, with the fewest edges.
    """
    from legendre.fitting.fit import Settings, fit_on

    held_out = np.arange(columns.codes.shape[1]) % 10 == 9
    fitted, tested = columns.take(~held_out), columns.take(held_out)

    def score(share: float) -> float:
        """Return the log-likelihood of the held-out rows; counts are smoothed, so that it is finite."""
        graph = grow_graph(fitted, recipe, labels, share)
        if graph.cells is None:
            network = Network.count(graph, fitted).smooth(8.0, fitted.margins)
        else:
            fit = fit_on(fitted.smoothed(1.0), Cells(graph.cells), Settings.read(tol=1e-6))
            network = Network.of_terms(graph, fit.theta)
        return float(tested.weights @ network.log_prob(tested))

    return max((1.0, 0.5, 0.25, 0.12), key=score)


def grow_graph(
    columns: CodedRows,
    recipe: Graph,
    labels: Labels,
    share: float | None = None,
    classes: Sequence[CodedRows] = (),
) -> InteractionGraph:
    """Grow a chordal graph: add the admissible edge with the highest score, while there is one with a positive score.

    The score is the gain in log-likelihood minus a penalty for each parameter, a `share` of what the recipe demands (by
    default all of it, or what held-out rows choose). If the rows are divided into `classes`, an edge gains the sum of
    its gains in all of them, as if the class were one more column, a member of every clique.
    Pairs wait in a heap with their scores and the common neighbours for which these were computed. A pair whose common
    neighbours have changed since is in the heap once more, and the old entry is skipped. Scores are rounded to 1e-5: if
    columns determine each other, rounding errors must not decide, and of equal scores the pair with the lowest numbers
    comes first. If the limit on cells is not the caller's and refuses edges that pay, the graph grows beyond it, edges
    are dropped, and it grows again, while the sum of scores rises. Columns that can have no edge are named in the notes
    of the graph, and pairs that determine each other.
    """
    from legendre.core.sums.kernels.columns import count_table, edge_gain
    from legendre.fitting.terms import choose_terms

    if share is None:
        share = _choose_share(columns, recipe, labels) if recipe.criterion == "held-out" else 1.0
    penalty = share * recipe.penalty(columns.total)
    constant, identifiers = _mark_useless(columns)
    identifiers &= not recipe.identifiers
    reason = "has a value of its own in each row: an identifier, which has no edge without graph(identifiers=True)."
    notes = [f"{labels.mode(k)} has one level, and is left out." for k in np.flatnonzero(constant).tolist()]
    notes += [f"{labels.mode(k)} {reason}" for k in np.flatnonzero(identifiers).tolist()]
    used = np.flatnonzero(~(constant | identifiers))
    groups = [CodedRows(group.codes[used], group.weights, group.sizes[used]) for group in classes or [columns]]
    sizes, single = columns.sizes[used].tolist(), (penalty, recipe.sparse)
    gains, dfs = (np.sum(each, axis=0) for each in zip(*(pair_gains(group, *single) for group in groups), strict=True))
    scores = (gains - penalty * dfs).round(5)

    @cache
    def rate(a: int, b: int, shared: Chosen) -> tuple[float, float, int]:
        """Return the score, the gain and the degrees of freedom of an edge, given the common neighbours of its ends."""
        if not shared:
            return float(scores[a, b]), float(gains[a, b]), int(dfs[a, b])
        family = np.array([*sorted(shared), a, b], dtype=np.int64)
        found = [edge_gain(group.codes, group.weights, group.sizes, family, *single) for group in groups]
        gain, df = map(sum, zip(*found, strict=True))
        return round(float(gain) - penalty * float(df), 5), float(gain), int(df)

    limit = recipe.cells or 256
    edges, refused = _grow_edges(rate, scores, sizes, limit, {})
    # early edges that are false may fill cliques up to the limit, so that true ones are refused
    while refused and recipe.cells is None:
        wider, _ = _grow_edges(rate, scores, sizes, 4096, edges)
        if len(wider) == len(edges):
            break
        better, refused = _grow_edges(rate, scores, sizes, limit, _drop_edges(rate, wider, sizes, limit))
        if sum(rate(*edge)[0] for edge in better.values()) <= sum(rate(*edge)[0] for edge in edges.values()):
            break
        edges = better
    for a, b, shared in edges.values():
        together = [] if shared else count_table(columns.codes, columns.weights, columns.sizes, used[[a, b]])
        table = np.reshape(together, (sizes[a], -1)) > 0
        if not shared and max(table.sum(axis=0).max(), table.sum(axis=1).max()) == 1:
            notes.append(f"{labels.mode(used[b])} and {labels.mode(used[a])} determine each other.")
    place = np.array([*edges], dtype=np.int64).reshape(-1, 2)
    _, found, found_dfs = np.array([rate(*edge) for edge in edges.values()]).reshape(-1, 3).T
    graph = InteractionGraph(labels, used[place], found, found_dfs.astype(np.int64), penalty, tuple(notes))
    return replace(graph, cells=choose_terms(graph, columns.smoothed(1.0), penalty)) if recipe.sparse else graph


def _grow_edges(rate: Rate, scores: FloatArray, sizes: list[int], limit: int, kept: Edges) -> tuple[Edges, bool]:
    """Add the edges of a chordal graph `kept`, then the admissible ones of the largest positive scores.

    Cliques have at most `limit` cells; two columns alone may have more. The second answer says whether this limit
    refused a pair, which may pay or not. `scores` are those of pairs without common neighbours.
    """
    from legendre.core.sums.kernels.columns import separates

    n = len(sizes)
    near: list[set[int]] = [set() for _ in range(n)]  # the neighbours of each column
    listed, degrees = np.empty((n, n), dtype=np.int32), np.zeros(n, dtype=np.int64)  # the same, for compiled code
    edges: Edges = {}
    refused = False
    ranked = scores.copy()
    for pair in kept:
        ranked[pair] += np.ptp(scores) + 1.0
    heap = [((a, b) not in kept, -float(scores[a, b]), a, b, Chosen()) for a, b in _spanning_forest(ranked)]
    heapify(heap)

    def is_admissible(a: int, b: int, shared: Chosen) -> bool:
        """Whether the graph stays chordal with an edge a - b, whose ends have the common neighbours `shared`."""
        return bool(separates(listed, degrees, np.array([*shared], dtype=np.int64), a, b))

    while heap:
        *_, a, b, shared = heappop(heap)
        if b in near[a] or shared != near[a] & near[b]:
            continue  # it is an edge already, or was scored with other common neighbours
        if shared and not is_admissible(a, b, shared):
            continue
        edges[a, b] = a, b, shared
        for u, v in ((a, b), (b, a)):
            near[u].add(v)
            listed[u, degrees[u]] = v
            degrees[u] += 1
        # score the pairs of one end with the other end's neighbours again: the new edge changed what they share
        for u, v in ((a, b), (b, a)):
            for x in near[v] - near[u] - {u}:
                shared, pair = Chosen(near[u] & near[x]), (max(u, x), min(u, x))
                if not is_admissible(*pair, shared):
                    continue
                if math.prod(sizes[k] for k in (u, x, *shared)) > limit:
                    refused = True
                    continue
                score, *_ = rate(*pair, shared)
                if score > 0 or pair in kept:
                    heappush(heap, (pair not in kept, -score, *pair, shared))
    return edges, refused


def _drop_edges(rate: Rate, edges: Edges, sizes: list[int], limit: int) -> Edges:
    """Drop edges that no longer pay, or are in a clique of more than `limit` cells, that of the lowest score first.

    An edge can be dropped if its ends' common neighbours are a clique; then the graph stays chordal.
    """
    left, waiting = dict(edges), [*edges]
    near: list[set[int]] = [set() for _ in sizes]
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    heap: list[tuple[float, int, int, Chosen]] = []
    while waiting or heap:
        for u, v in waiting:
            a, b, shared = max(u, v), min(u, v), Chosen(near[u] & near[v])
            if all(shared - {x} <= near[x] for x in shared):
                score, *_ = rate(a, b, shared)
                if score <= 0 or (shared and math.prod(sizes[k] for k in (a, b, *shared)) > limit):
                    heappush(heap, (score, a, b, shared))
        waiting = []
        if heap:
            _, a, b, shared = heappop(heap)
            # it was dropped, or was scored with other common neighbours, or these are no clique now
            if b in near[a] and shared == near[a] & near[b] and all(shared - {x} <= near[x] for x in shared):
                near[a].remove(b)
                near[b].remove(a)
                del left[a, b]
                waiting = [(end, x) for end in (a, b) for x in shared]
    return left


def pair_gains(columns: CodedRows, penalty: float, single: bool) -> tuple[FloatArray, IntArray]:
    """Return the gain of an edge for each pair of columns a > b and its degrees of freedom, both (columns x columns).

    The gain is N I(a; b). If `single`, it may be that of one term, see `or_single`. Pairs with a column of more than 32
    levels are counted one by one, which is then faster; a pair of more than 2^22 cells gains nothing.
    """
    from legendre.core.sums.kernels.columns import edge_gain

    sizes, wide = columns.sizes, columns.sizes > 32
    gains, dfs = np.zeros((len(sizes),) * 2), np.zeros((len(sizes),) * 2, dtype=np.int64)
    narrow = np.ix_(~wide, ~wide)
    gains[narrow], dfs[narrow] = _narrow_pair_gains(
        CodedRows(columns.codes[~wide], columns.weights, sizes[~wide]), penalty, single
    )
    for a, b in np.argwhere(np.tril(wide | wide[:, None], -1) & (np.multiply.outer(sizes, sizes) <= 1 << 22)):
        gains[a, b], dfs[a, b] = edge_gain(columns.codes, columns.weights, sizes, np.array([a, b]), penalty, single)
    return gains, dfs


def _narrow_pair_gains(
    columns: CodedRows, penalty: float, single: bool, block: int = 1 << 22
) -> tuple[FloatArray, IntArray]:
    """Return what `pair_gains` does, for columns of few levels.

    An indicator of a level is 1 for the rows that have it, else 0. The product of the matrix of all indicators with its
    transpose, by BLAS, has the cross tables of all pairs of columns. Without missing values level 0 needs no indicator,
    which saves three quarters of the work for binary columns: its counts are those of a row of ones, which comes first,
    minus those of the other levels. `block` bounds the entries of indicators that are formed at a time.
    """
    from legendre.core.sums.kernels import columns as kernels

    sizes, (n, n_rows) = columns.sizes, columns.codes.shape
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width, complete = int(starts[-1]), not columns.lacking.any()
    check_room(width * width, 4 * 8, "graph: tables of all pairs of levels", "Merge rare levels, or leave columns out.")
    # the column and the level of each indicator; levels count from `complete`, 1 if level 0 is left out, else 0
    owner, level = np.nonzero(np.arange(complete, sizes.max(initial=0)) < sizes[:, None])
    both = np.zeros((1 + len(owner),) * 2)
    for start in range(0, n_rows, step := 1 + block // len(both)):
        rows = slice(start, start + step)
        marks = columns.codes[:, rows][owner] == complete + level[:, None]
        # each factor of the product gets the square root of a row's weight
        ones = np.vstack([np.ones(marks.shape[1]), marks]) * np.sqrt(columns.weights[rows])
        with limit_blas(width):
            both += ones @ ones.T

    def restore(sums: FloatArray) -> FloatArray:
        """Drop the row of ones, and insert level 0 of each column, along the first axis, if it was left out."""
        if not complete or not n:
            return sums[1:]
        first = starts[:-1] - np.arange(n)  # where each column begins without the levels 0
        return np.insert(sums[1:], first, sums[0] - np.add.reduceat(sums[1:], first), axis=0)

    both = restore(restore(both).T)
    both[both < 1e-12 * columns.total] = 0.0  # rounding errors of sums and differences
    gains, dfs = np.zeros((n, n)), np.zeros((n, n), dtype=np.int64)
    kernels.pair_gains(both, starts, penalty, single, gains, dfs)
    return gains, dfs


def _spanning_forest(scores: FloatArray) -> list[tuple[int, int]]:
    """List the edges of the maximum spanning forest of the positive scores, the larger number of each pair first.

    `scores` (columns x columns) counts below the diagonal. These edges are all that can be taken among pairs without
    common neighbours (Chow and Liu 1968).
    """
    from scipy.sparse.csgraph import minimum_spanning_tree

    positive = np.tril(scores, -1) > 0
    if not positive.any():
        return []
    order = np.argsort(-scores[positive], kind="stable")
    # SciPy has the minimum: ranks, 1 for the highest score. 0 means no edge; no two ranks are equal, so the forest is
    # unique
    ranks = np.zeros(scores.shape)
    ranks[positive] = 1 + np.argsort(order)
    tree = minimum_spanning_tree(ranks).tocoo()
    return list(zip(tree.row.tolist(), tree.col.tolist(), strict=True))


# --- tables on a graph -----------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """Where a family lies in the junction tree of a network: members and families are places in the perfect order."""

    members: list[int]  # of the family, rising; the last one is its column v
    order: list[int]  # the permutation that brings the axes of its table to the order of `members`
    lost: tuple[int, ...]  # axes of the parent's table; summed over them, it is a table over v's parents
    parent: int | None  # the family above it in the tree; None: it is a root, whose only member is v


@frozen
class Network:
    """Tables over the families of a perfect ordering of a chordal graph, from counts to a distribution.

    A family is a column v with its parents, the neighbours before it in the ordering, which are a clique. The tables
    hold counts (from `count` and `expect`), or log p(v | parents of v) (from `smooth` and `with_pseudo_counts`); with
    the latter the network is a distribution of rows.
    """

    sizes: IntArray  # the number of levels of each column
    families: Sequence[IntArray]  # the columns of each family, v last; families are in perfect order
    tables: Sequence[FloatArray]  # an axis for each column of the family, in its order

    @classmethod
    def count(cls, graph: InteractionGraph, columns: CodedRows) -> Network:
        """Count rows in the tables of all families of a graph; a row with a gap is left out of tables that need it."""
        from legendre.core.sums.kernels.columns import count_table

        families = [np.array([*parents, v]) for v, parents in graph.families]
        tables = []
        for family in families:
            counts = count_table(columns.codes, columns.weights, columns.sizes, family)
            tables.append(counts.reshape(columns.sizes[family]))
        return cls(columns.sizes, families, tables)

    @classmethod
    def of_terms(cls, graph: InteractionGraph, theta: FloatArray) -> Network:
        """Turn the distribution with the parameters theta of a graph's sparse terms into its conditional tables."""
        from legendre.fitting.terms import graph_tables

        assert graph.cells is not None
        layout, sizes = graph_tables(graph, graph.cells), np.array(graph.labels.shape)
        margins = layout.matrices(layout.propagate(theta)[1].margins)
        families, tables = [np.array([*parents, v]) for v, parents in graph.families], []
        for family in families:
            home = layout.tree.home_of(family)  # a column of one level is in no clique: any table will do
            clique = layout.tree.cliques[home]
            letters = dict(zip(clique.modes, ascii_letters, strict=False))
            kept = "".join(letters[k] for k in family.tolist() if sizes[k] > 1)
            table = np.einsum(f"{''.join(letters.values())}->{kept}", margins[home].reshape(clique.shape))
            tables.append(table.reshape(sizes[family]))
        return cls(sizes, families, tables).with_pseudo_counts(0.0)

    def smooth(self, strength: float, base: Sequence[FloatArray]) -> Network:
        """Turn counts into log p(v | parents), each table shrunk to the one without its last parent by pseudo-counts.

        ``p(v | pa_1, ..., pa_k) = (n + c p(v | pa_1, ..., pa_k-1)) / (N + c)`` with c = `strength`: where there are few
        rows, the table with fewer parents decides. The table without parents is shrunk to `base`, which has the shares
        of the levels of each column. So no probability is 0 if `base` has none.
        """
        parts = []
        for family, table in zip(self.families, self.tables, strict=True):
            counts = [table]  # then without the last parent, without the last two, ..., of v alone
            while counts[-1].ndim > 1:
                counts.append(np.add.reduce(counts[-1], axis=-2))
            p = base[family[-1]]
            for n in reversed(counts):
                before = p if p.ndim == n.ndim else p[..., None, :]  # p with one parent fewer, for all of its levels
                p = (n + strength * before) / (np.add.reduce(n, axis=-1, keepdims=True) + strength)
            parts.append(np.log(p))
        return replace(self, tables=parts)

    def with_pseudo_counts(self, alpha: float) -> Network:
        """Turn counts into log p(v | parents), after `alpha` more rows are spread evenly over the cells of a table.

        With alpha = 0 these are the maximum likelihood estimates.
        """
        logs = []
        for table in self.tables:
            counts = table + alpha / table.size
            total = counts.sum(axis=-1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                # all levels are alike where the parents' levels were never seen
                logs.append(np.log(np.where(total > 0, counts / total, 1.0 / table.shape[-1])))
        return replace(self, tables=logs)

    def left_out_loss(self, alpha: float) -> float:
        """Return the leave-one-out loss: minus the sum over rows of log p(row) under the tables of all other rows.

        The tables must be counts. `alpha` is the pseudo-count of `with_pseudo_counts`; its caller takes the one with
        the smallest loss. No table is fitted again: without a row, each count that it belongs to is smaller by 1.
        """
        loss = 0.0
        for table in self.tables:
            parents = table.sum(axis=-1, keepdims=True)  # counts of the parents' levels
            others = np.maximum(table - 1, 0) + alpha / table.size
            total = np.maximum(parents - 1, 0) + alpha / parents.size
            loss -= float((table * np.log(others / total)).sum())  # each cell as often as rows are in it
        return loss

    def log_prob(self, columns: CodedRows) -> FloatArray:
        """Return the log-probability of the values that each row has, (rows,); missing values are summed out.

        For complete rows it is a sum of table entries; only rows with gaps need messages in the junction tree.
        """
        from legendre.core.sums.kernels.columns import add_entries

        out, lacking = np.zeros(len(columns.weights)), columns.lacking
        for family, table in zip(self.families, self.tables, strict=True):
            add_entries(columns.codes, self.sizes, family, table.ravel(), out)
        if lacking.any():  # these rows have been given minus infinity
            some = columns.take(lacking)
            out[lacking] = np.concatenate([logs for _, logs, _ in self._condition(some)])
        return out

    @cached_property
    def _tree(self) -> list[Placed]:
        """The junction tree of the families.

        The family of the last member but one contains all members but the last, because parents are a clique, so that
        family is the parent in the tree.
        """
        place = {int(family[-1]): f for f, family in enumerate(self.families)}
        listed = [[place[k] for k in family.tolist()] for family in self.families]
        out = []
        for members in listed:
            parent = sorted(members)[-2] if len(members) > 1 else None
            above = [] if parent is None else sorted(listed[parent])
            lost = tuple(axis for axis, f in enumerate(above) if f not in members)
            out.append(Placed(sorted(members), np.argsort(members).tolist(), lost, parent))
        return out

    def _condition(
        self, columns: CodedRows, block: int = 1 << 18
    ) -> Iterator[tuple[CodedRows, FloatArray, list[FloatArray]]]:
        """Condition on the values that rows have, by messages from the leaves of the junction tree to its roots.

        It is the upward pass of belief propagation, which is exact on a tree; `_families_given` is the downward pass.
        Rows are done in pieces, so that the tables of all families together hold about `block` entries, with 64 rows at
        least. For each piece this yields its rows, the log-probability of the values that each row has, and a table for
        each family: p(v | parents of v, values of the row), with axes for the family in perfect order, and a last one
        for the rows.
        """
        given = [np.exp(table).transpose(at.order) for table, at in zip(self.tables, self._tree, strict=True)]
        step = max(64, block // sum(table.size for table in given))
        for start in range(0, len(columns.weights), step):
            some = columns.take(slice(start, start + step))
            logs, values = np.zeros(len(some.weights)), []
            for family, table in zip(self.families, given, strict=True):
                codes, size = some.codes[family[-1]], table.shape[-1]
                # 0 where v has another level than the row; a row without a value of v keeps all levels
                values.append(table[..., None] * ((codes == np.arange(size)[:, None]) | (codes >= size)))
            # children come after their parents in the ordering, so from the last family to the first
            for value, at in reversed(list(zip(values, self._tree, strict=True))):
                message = value.sum(axis=-2)  # v is summed out: a table over its parents, for each row
                largest = message.max(axis=tuple(range(message.ndim - 1)))
                with np.errstate(divide="ignore"):
                    logs += np.log(largest)
                value /= np.where(message > 0, message, 1.0)[..., None, :]
                # messages are scaled to a largest entry of 1, so that they do not underflow; `logs` has the scales
                if at.parent is not None:
                    values[at.parent] *= np.expand_dims(message / np.where(largest > 0, largest, 1.0), at.lost)
            yield some, logs, values

    def _families_given(self, columns: CodedRows) -> Iterator[tuple[CodedRows, FloatArray, list[FloatArray]]]:
        """Yield what `_condition` does, with the joint distribution of each family given a row's values; axes as above.

        It is the downward pass, from the roots on: the joint distribution of v's parents is a sum over the family's
        parent in the tree, and times p(v | parents) it is that of v's family.
        """
        for block, logs, conditionals in self._condition(columns):
            joints: list[FloatArray] = []
            for conditional, at in zip(conditionals, self._tree, strict=True):
                if at.parent is None:
                    joints.append(conditional)
                else:  # the joint distribution of v's parents, with an axis for v's levels before that of the rows
                    joints.append(conditional * joints[at.parent].sum(axis=at.lost)[..., None, :])
            yield block, logs, joints

    def expect(self, columns: CodedRows) -> tuple[Network, float]:
        """E step of EM: return the expected counts of all families, and the log-likelihood of what the rows show.

        A row with gaps counts in each cell by the probability of that cell, given the values that it has.
        """
        counts, value = [np.zeros_like(table) for table in self.tables], 0.0
        for some, logs, joints in self._families_given(columns):
            value += float(some.weights @ logs)
            for table, joint, at in zip(counts, joints, self._tree, strict=True):
                table.transpose(at.order)[...] += joint @ some.weights
        return replace(self, tables=counts), value

    def predict(self, columns: CodedRows) -> FloatArray:
        """Return the distribution of each column given the values that a row has: rows x levels of all columns."""
        order, out = np.argsort([family[-1] for family in self.families]).tolist(), []  # of families, by column
        for _, _, joints in self._families_given(columns):
            # the parents are summed out; what is left has axes for the levels of v and for the rows
            out.append(np.vstack([joints[f].sum(axis=tuple(range(joints[f].ndim - 2))) for f in order]))
        return np.hstack(out).T

    def complete(self, columns: CodedRows, generator: np.random.Generator) -> IntArray:
        """Return the rows (rows x columns) with missing values drawn from their joint distribution given the others.

        Columns are drawn in perfect order, each given its parents; values that a row has are drawn with probability 1.
        """
        order, out = np.argsort([family[-1] for family in self.families]), []
        for some, _, conditionals in self._condition(columns):
            rows = np.arange(len(some.weights))
            drawn = np.zeros((len(order), len(rows)), dtype=np.int64)  # in perfect order
            for f, (own, at) in enumerate(zip(conditionals, self._tree, strict=True)):
                # p(v | parents as drawn), levels x rows, cumulated: the level is the first beyond a uniform number
                p = np.cumsum(np.moveaxis(own, -2, 0)[(slice(None), *drawn[at.members[:-1]], rows)], axis=0)
                drawn[f] = (p[:-1] <= p[-1] * generator.random(len(rows))).sum(axis=0)
            out.append(drawn[order])
        return np.hstack(out).T


@frozen
class Mixture:
    """A mixture model: each row comes from one of some classes, which was not observed; each class is a network."""

    log_weights: FloatArray  # logarithms of the shares of the classes
    parts: Sequence[Network]  # a distribution for each class

    @property
    def shape(self) -> Shape:
        """The number of levels of each column."""
        return tuple(self.parts[0].sizes.tolist())

    @property
    def levels(self) -> list[FloatArray]:
        """For each column the probability of its levels in each class, levels x classes."""
        nothing = CodedRows.of(np.full((1, len(self.shape)), -1), None, self.shape)
        found = np.stack([part.predict(nothing)[0] for part in self.parts], axis=1)
        return np.split(found, np.cumsum(self.shape)[:-1])

    def joint(self, columns: CodedRows) -> FloatArray:
        """Return the log-probability of the values that each row has, together with each class, rows x classes."""
        return np.stack([part.log_prob(columns) for part in self.parts], axis=1) + self.log_weights

    def log_prob(self, cells: IntArray) -> FloatArray:
        """Return the log-probability of each row of levels, n x columns; negative levels are missing and summed out."""
        return np.asarray(np.logaddexp.reduce(self.joint(CodedRows.of(cells, None, self.shape)), axis=1))

    def posterior(self, columns: CodedRows) -> FloatArray:
        """Return the probability of each class given the values that a row has, rows x classes.

        If no class allows these values, all classes get the same probability.
        """
        from scipy.special import softmax

        logs = self.joint(columns)
        logs[logs.max(axis=1) == -np.inf] = 0.0
        return np.asarray(softmax(logs, axis=1))

    def expect(self, columns: CodedRows) -> FloatArray:
        """E step of EM: return how much of each row, with its weight, belongs to each class, rows x classes."""
        return self.posterior(columns) * columns.weights[:, None]

    def predict(self, columns: CodedRows) -> FloatArray:
        """Return the distribution of each column given the values that a row has: rows x levels of all columns."""
        shares = self.posterior(columns)
        return np.asarray(sum(shares[:, k, None] * part.predict(columns) for k, part in enumerate(self.parts)))

    def complete(self, columns: CodedRows, generator: np.random.Generator) -> IntArray:
        """Return the rows (rows x columns) with missing values drawn: first the class of a row, then its values."""
        shares = np.cumsum(self.posterior(columns), axis=1)[:, :-1]
        chosen = (shares < generator.random(len(shares))[:, None]).sum(axis=1)
        out = np.empty((len(chosen), len(self.shape)), dtype=np.int64)
        for k, part in enumerate(self.parts):
            rows = np.flatnonzero(chosen == k)
            out[rows] = part.complete(columns.take(rows), generator)
        return out

    def _list_rows(self, at: Fixed, kept: Sequence[int] = ()) -> tuple[IntArray, FloatArray]:
        """Make a row for each combination of levels of the columns `kept`, in C order; return them and their log p.

        All rows have the levels `at` of other columns, and lack the rest, -1. An event of probability 0 is refused.
        """
        shape = [self.shape[k] for k in kept]
        rows = np.full((math.prod(shape), len(self.shape)), -1, dtype=np.min_scalar_type(-max(self.shape)))
        rows[:, list(kept)] = np.indices(shape).reshape(len(shape), len(rows)).T
        rows[:, list(at)] = list(at.values())
        logs = self.log_prob(rows)
        if logs.max() == -np.inf:
            raise ImpossibleEvent("the event has probability 0")
        return rows, logs

    def marginal(self, kept: list[int], at: Fixed) -> FloatArray:
        """Return the distribution of the columns `kept`, an axis for each, given levels `at` of others."""
        from scipy.special import softmax

        return np.asarray(softmax(self._list_rows(at, kept)[1])).reshape([self.shape[k] for k in kept])

    def sample(self, n: int, generator: np.random.Generator, at: Fixed) -> IntArray:
        """Draw n rows (n x columns), with the levels `at` of some columns given: complete rows that lack the rest."""
        row, _ = self._list_rows(at)
        return self.complete(CodedRows.of(row.repeat(n, axis=0), None, self.shape), generator)


# --- what was not observed -------------------------------------------------------------------------------------------


def fit_tables(
    counts: Network,
    columns: CodedRows,
    smooth: Callable[[Network], Network],
    tol: float = 1e-10,
    max_iter: int = 2000,
) -> tuple[Network, list[tuple[float, float]]]:
    """Maximise the likelihood of rows with gaps over the distributions on a graph, by EM, from some `counts` on.

    `smooth` is the M step, which has a closed form: it turns expected counts into tables log p(v | parents), such as
    `Network.smooth` with its arguments. Two EM steps are extrapolated, and a third taken from there, unless that lowers
    the likelihood. EM ends when no sum of expected counts at or above a cell changes by more than `tol` times the sum
    of the weights: the largest of these changes, per row, is that of the gradient. The likelihood is not concave, so
    the result is a stationary point: expected counts, with the log-likelihood and the largest change in each round.
    """
    path: list[tuple[float, float]] = []
    while True:
        first, value = smooth(counts).expect(columns)
        changes = [np.abs(zeta_adjoint(a - b)).max() for a, b in zip(first.tables, counts.tables, strict=True)]
        path.append((value, float(max(changes)) / columns.total))
        if path[-1][1] <= tol or len(path) >= max_iter:
            return counts, path
        second, before = smooth(first).expect(columns)
        far = replace(counts, tables=extrapolate(counts.tables, first.tables, second.tables))
        third, after = smooth(far).expect(columns)
        counts = third if after >= before else second


def extrapolate(*points: Sequence[FloatArray]) -> list[FloatArray]:
    """Return where three points of EM, each a list of arrays, lead to (SQUAREM, Varadhan and Roland 2008).

    They are extrapolated along the first difference and the second; length 1 is two plain EM steps. Entries keep at
    least a hundredth of the last point's: an EM step never raises a 0 again.
    """
    steps = [(b - a, c - 2 * b + a) for a, b, c in zip(*points, strict=True)]
    change, bend = (math.hypot(*map(np.linalg.norm, part)) for part in zip(*steps, strict=True))
    length = max(change / (bend or 1.0), 1.0)
    return [
        np.maximum(a + 2 * length * d + length**2 * e, 0.01 * c)
        for a, (d, e), c in zip(points[0], steps, points[2], strict=True)
    ]


@frozen
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
    columns: CodedRows,
    valid: CodedRows | None,
    recipe: Graph,
    classes: int | Literal["auto"],
    most: int = 128,
    strengths: tuple[float, ...] = (8.0, 32.0),
) -> list[Tried]:
    """Learn a mixture: double the number of classes while held-out rows gain, for each strength; list what was tried.

    Each class has its own graph and tables. The likelihood is not concave, so the result depends on the start, which
    is deterministic: one class is split in two along the leading principal component of its rows, then each of these,
    and so on. With ``classes="auto"`` this ends when held-out rows are predicted no better, or at `most` classes. If
    the number of classes is given, the last splits are of the classes with the most rows. If `valid` has no held-out
    rows, every tenth row is held out. `strengths` are those of `Network.smooth`. The last entry of the list is the
    best one; if rows of `columns` were held out, it has taken one more M step, on all of them.
    """
    every, hold_out = columns, valid is None
    if valid is None:
        held_out = np.arange(len(columns.weights)) % 10 == 9
        if not held_out.any():
            raise InvalidSamples("classes are chosen on held-out rows: pass at least ten rows, or valid.")
        columns, valid = (columns.take(rows) for rows in (~held_out, held_out))
    columns, valid = columns.merge(), valid.merge()
    limit = most if classes == "auto" else classes
    tried: list[Tried] = []
    for strength in strengths:
        run = _run_em(columns, valid, recipe, strength, columns.weights[:, None])
        tried.append(run)
        while run.n_classes < limit:
            last = run
            run = _run_em(columns, valid, recipe, strength, _split_classes(columns, last.mixture, limit))
            tried.append(run)
            # EM may have dropped the classes that a split added, or held-out rows gained nothing
            if run.n_classes <= last.n_classes or (classes == "auto" and run.held_out <= last.held_out):
                break
    # if a number of classes was asked for, runs that have it come before all others
    best = max(tried, key=lambda run: (classes in ("auto", run.n_classes), run.held_out))
    tried.remove(best)
    if hold_out:
        best = replace(best, mixture=_maximise(every, best.mixture.expect(every), recipe, best.strength))
    return [*tried, best]


def _run_em(
    columns: CodedRows, valid: CodedRows, recipe: Graph, strength: float, weights: FloatArray,
    most: int = 30, rise: float = 5e-4, least: float = 20.0,
) -> Tried:  # fmt: skip
    """Run EM while the mean log-likelihood of held-out rows rises by more than `rise`, in nats; return the best fit.

    `weights` (rows x classes) says how much of each row belongs to each class at the start. Classes of fewer than
    `least` rows, or of half of all rows if that is less, are dropped. At most `most` M steps are taken, at least two.
    """
    tried: list[Tried] = []
    while len(tried) < most and (len(tried) < 2 or tried[-1].held_out > tried[-2].held_out + rise):
        if tried:
            weights = tried[-1].mixture.expect(columns)
        sums = weights.sum(axis=0)
        weights = weights[:, sums >= min(least, 0.5 * columns.total, sums.max())]  # the largest class stays in any case
        mixture = _maximise(columns, weights, recipe, strength)
        logs = np.logaddexp.reduce(mixture.joint(valid), axis=1)
        tried.append(Tried(strength, mixture, float(valid.weights @ logs) / valid.total))
    return max(tried, key=lambda run: run.held_out)


def _maximise(
    columns: CodedRows, weights: FloatArray, recipe: Graph, strength: float, share: float = 0.5, least: float = 0.01
) -> Mixture:
    """M step: learn the graph and tables of each class from its `weights` (rows x classes), or one graph for all.

    Tables without parents are shrunk to the margins of all rows. A parameter must gain a `share` of the penalty that
    the criterion sets. Rows whose weight in a class is at most `least` are left out, so the likelihood may fall.
    """
    labels, base, networks = Labels(tuple(columns.sizes.tolist())), columns.margins, []
    chosen = [(np.flatnonzero(of_class > least), of_class) for of_class in weights.T]
    classes = [columns.take(rows, of_class[rows]) for rows, of_class in chosen]
    shared = grow_graph(columns, recipe, labels, share, classes) if recipe.shared else None
    for members in classes:
        graph = shared or grow_graph(members, recipe, labels, share)
        if members.lacking.any():
            counts, _ = fit_tables(
                Network.count(graph, members.take(slice(0))),
                members,
                lambda counts: counts.smooth(strength, base),
                1e-4,
            )
        else:
            counts = Network.count(graph, members)
        networks.append(counts.smooth(strength, base))
    return Mixture(np.log(weights.sum(axis=0) / weights.sum()), networks)


def _split_classes(columns: CodedRows, mixture: Mixture, classes: int) -> FloatArray:
    """Split classes in two, the largest first, until there are `classes`; return the new weights, rows x classes.

    Each class is split at most once, so there are at most twice as many afterwards.
    """
    weights = mixture.expect(columns)
    order = np.argsort(-weights.sum(axis=0), kind="stable").tolist()
    split: list[AnyArray] = []
    for place, k in enumerate(order):
        split += _split_class(columns, weights[:, k]) if place < classes - len(order) else [weights[:, k]]
    return np.stack(split, axis=1)


def _split_class(columns: CodedRows, weights: FloatArray, steps: int = 30, most: int = 64) -> list[AnyArray]:
    """Divide the weights of rows, (rows,), between two classes along the leading principal component of the rows.

    The variables are the indicators of the levels of each column, without the first and up to `most`, with the mean for
    missing values. Power iteration of `steps` steps from a fixed start finds the component; it need not be exact, as EM
    follows. A row at `place` on it belongs to the first class by a logistic function of its place, in units of a third
    of the standard deviation: rows in the middle belong to both.
    """
    # rows with hardly any weight in this class do not decide about the component, and go to the second class
    rows = np.flatnonzero(weights > 1e-3 * float(weights.max()))
    row_weights = weights[rows].astype(np.float32)
    column, level = np.nonzero(np.arange(1, min(columns.sizes.max(), most)) < columns.sizes[:, None])
    codes = columns.codes[:, rows][column]  # indicators x rows: the value of the indicator's column
    marks, known = (
        (codes == 1 + level[:, None]).astype(np.float32),
        (codes < columns.sizes[column, None]).astype(np.float32),
    )
    # indicators minus their means; missing values become 0, the mean. 1e-30 and 1e-12 avoid a division by 0
    centred = (marks - (marks @ row_weights / np.maximum(known @ row_weights, 1e-30))[:, None]) * known
    axis = np.sqrt(centred**2 @ row_weights)  # the start: the deviation of each indicator
    for _ in range(steps):
        axis = centred @ (row_weights * (axis @ centred))
        axis /= float(np.linalg.norm(axis)) + 1e-30
    place = (axis @ centred).astype(np.float64)
    deviation = float(np.sqrt(row_weights @ place**2 / row_weights.sum())) + 1e-12
    share = np.zeros(len(weights))  # of each row in the first class
    share[rows] = 1.0 / (1.0 + np.exp(-3.0 * place / deviation))
    return [weights * share, weights * (1.0 - share)]
