"""Which modes interact: a chordal graph, grown edge by edge from tables of the data.

What an edge between a and b gains depends only on their common neighbours S: N I(a; b | S). The graph stays chordal
exactly if S separates a from b. A new edge changes S only for pairs of one of its ends with a neighbour of the other,
so that only these are scored again; it can make other pairs inadmissible, never admissible, so that admissibility is
tested again when a pair comes up. Pairs without common neighbours join two components, so that of these only the edges
of the maximum spanning forest can be taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np

from legendre.basis.graph import Graph
from legendre.core.errors import InvalidBasis
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
        """Store rows (n x N) of levels; what is below 0 is missing."""
        kind = np.uint8 if max(shape) < 250 else np.uint16 if max(shape) < 65_000 else np.uint32
        codes = np.ascontiguousarray(rows.T.astype(kind))  # what is below 0 becomes large
        each = np.ones(len(rows)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(codes, each, np.array(shape, dtype=np.int64))

    def take(self, rows: AnyArray, weights: FloatArray | None = None) -> Columns:
        """Return some rows, with other weights if these are given."""
        own = self.weights[rows] if weights is None else weights
        return Columns(np.ascontiguousarray(self.codes[:, rows]), own, self.sizes)

    def merge(self) -> Columns:
        """Take equal rows together."""
        rows, place = np.unique(self.codes, axis=1, return_inverse=True)
        return Columns(
            np.ascontiguousarray(rows), np.bincount(place.ravel(), self.weights).astype(np.float64), self.sizes
        )

    @property
    def lacking(self) -> BoolArray:
        """Mark the rows with a missing value."""
        return np.asarray((self.codes >= self.sizes[:, None]).any(axis=0))

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.weights.sum())


def read_columns(data: Observation) -> Columns:
    """List the rows of a tensor that has been read: its cells with their counts."""
    entries = data.entries
    if entries is not None:
        return Columns.of(entries.cells, entries.values, data.shape)
    dense = data.here()
    if dense is None:
        raise InvalidBasis("graph(...) needs X in memory, or as a list of entries: ld.from_rows, ld.from_coords.")
    counts = np.where(dense.support.on_grid(), np.nan_to_num(dense.values), 0)
    cells = np.argwhere(counts > 0)
    return Columns.of(cells, counts[tuple(cells.T)], data.shape)


def rows_as_tensor(X: Any) -> Any:
    """Count rows: an array of two modes, a data frame or columns by name; other kinds of X come back as they are."""
    framed = isinstance(X, (list, Mapping)) or hasattr(X, "columns") or hasattr(X, "column_names")
    return from_rows(X) if framed or (isinstance(X, np.ndarray) and X.ndim == 2) else X


def find_graph(recipe: Graph, data: Observation) -> InteractionGraph:
    """Find the graph of a tensor that has been read."""
    return search(read_columns(data), recipe, data.labels)


def search(columns: Columns, recipe: Graph, labels: Labels) -> InteractionGraph:
    """Find the graph of columns by the criterion of a recipe; only `labels` knows their names."""
    penalty = recipe.criterion
    bic = 0.5 * np.log(max(columns.total, 1.0))
    if penalty == "held-out":
        penalty = bic * _best_share(columns, recipe, labels)
    elif isinstance(penalty, str):
        penalty = bic if penalty == "bic" else 1.0
    used, notes = _choose_columns(columns, labels)
    some = Columns(np.ascontiguousarray(columns.codes[used]), columns.weights, columns.sizes[used])
    ends, gains, dfs = grow(some, float(penalty), recipe.cells)
    for a, b in used[ends[gains > 0]].tolist():
        if _equal(columns, a, b):
            notes.append(f"{labels.mode(a)} and {labels.mode(b)} determine each other.")
    return InteractionGraph(labels, used[ends], gains, dfs, float(penalty), tuple(notes))


def _choose_columns(columns: Columns, labels: Labels, few: int = 20) -> tuple[IntArray, list[str]]:
    """Leave out columns with one level, and identifiers: columns of more than `few` rows, all of them different."""
    sizes, n_rows = columns.sizes, columns.codes.shape[1]
    different = (sizes == n_rows) & (n_rows > few) & bool(columns.total == n_rows)
    notes = [f"{labels.mode(k)} has one level, and is left out." for k in np.flatnonzero(sizes == 1).tolist()]
    own = "has a value of its own in each row, and no edge: it is taken for an identifier."
    notes += [f"{labels.mode(k)} {own}" for k in np.flatnonzero(different).tolist()]
    return np.flatnonzero((sizes > 1) & ~different), notes


def _equal(columns: Columns, a: int, b: int) -> bool:
    """Whether each level of a goes with one level of b, and the other way round."""
    pairs = columns.codes[a].astype(np.int64) * columns.sizes[b] + columns.codes[b]
    n_pairs = np.count_nonzero(np.bincount(pairs))
    return all(n_pairs == np.count_nonzero(np.bincount(columns.codes[k])) for k in (a, b))


def _best_share(columns: Columns, recipe: Graph, labels: Labels) -> float:
    """Find the share of the penalty of BIC that predicts every tenth row best; of equal ones the largest."""
    from legendre.fitting.networks import Network

    held = np.arange(columns.codes.shape[1]) % 10 == 9
    fitted, other = (columns.take(some) for some in (~held, held))
    if not other.total:
        return 1.0
    scores = {}
    for share in (1.0, 0.5, 0.25, 0.12):
        penalty = share * 0.5 * float(np.log(max(fitted.total, 1.0)))
        found = InteractionGraph(labels, *grow(fitted, penalty, recipe.cells), penalty)
        scores[share] = float(other.weights @ Network.count(found, fitted).smooth().log_prob(other.codes))
    return max(scores, key=lambda share: scores[share])


def grow(columns: Columns, penalty: float, cells: int) -> tuple[IntArray, FloatArray, IntArray]:
    """Add the edge that gains most, less `penalty` for each degree of freedom, as long as one pays.

    Return the ends of the edges, what each gained, and its degrees of freedom. Scores are rounded to 1e-5, so that
    columns which determine each other tie, and the lowest pair comes first.
    """
    from legendre.core.sums.kernels.columns import edge_gain, separates

    n, sizes = len(columns.sizes), columns.sizes.tolist()
    gains, dfs = pair_gains(columns)
    scores = np.round(gains - penalty * dfs, 5)
    heap: list[tuple[float, int, int, int]] = [(-float(scores[a, b]), a, b, 0) for a, b in _forest(scores)]
    heapify(heap)
    known: dict[tuple[int, int], tuple[float, int]] = {}
    near, words = [0] * n, np.zeros((n, n // 64 + 1), dtype=np.uint64)  # the same neighbours: one finds, one walks
    ends, gained, added = [], [], []
    while heap:
        _, a, b, shared = heappop(heap)
        if near[a] >> b & 1 or shared != near[a] & near[b]:
            continue  # it was scored with other neighbours
        if shared and not separates(words, _as_words(shared, words.shape[1]), a, b):
            continue
        gain, df = known.pop((a, b)) if shared else (gains[a, b], dfs[a, b])
        ends.append((a, b))
        gained.append(float(gain))
        added.append(int(df))
        for u, v in ((a, b), (b, a)):
            near[u] |= 1 << v
            words[u, v >> 6] |= np.uint64(1 << (v & 63))
        for u, v in ((a, b), (b, a)):
            for x in _members(near[v] & ~near[u] & ~(1 << u)):
                shared = near[u] & near[x]
                chosen = [*_members(shared), max(u, x), min(u, x)]
                n_cells = 1
                for k in chosen:
                    n_cells *= sizes[k]
                if n_cells > cells or not separates(words, _as_words(shared, words.shape[1]), u, x):
                    continue
                pair = chosen[-2], chosen[-1]
                known[pair] = edge_gain(columns.codes, columns.weights, columns.sizes, np.array(chosen, dtype=np.int64))
                score = round(penalty * known[pair][1] - known[pair][0], 5)
                if score < 0:
                    heappush(heap, (score, *pair, shared))
    return np.array(ends, dtype=np.int64).reshape(-1, 2), np.array(gained), np.array(added, dtype=np.int64)


def pair_gains(columns: Columns, block: int = 1 << 22) -> tuple[FloatArray, FloatArray]:
    """Return N I(a; b) of each pair of columns and its degrees of freedom, from one product of indicators of levels.

    Without missing values level 0 is found by subtraction, so that it needs no indicator. `block` bounds the entries of
    indicators that are formed at a time.
    """
    codes, sizes, n_rows = columns.codes, columns.sizes, columns.codes.shape[1]
    lacking = bool(columns.lacking.any())
    first = 0 if lacking else 1
    starts = np.concatenate([[0], np.cumsum(np.maximum(sizes - first, 1))])
    width = int(starts[-1])
    check_room(width * width, 5 * 8, "graph: tables of all pairs of levels", "Merge rare levels, or leave columns out.")
    table = np.zeros((width, width))
    step = max(1, block // width)
    for start in range(0, n_rows, step):
        part, weights = codes[:, start : start + step], columns.weights[start : start + step]
        ones, root = np.zeros((width, part.shape[1])), np.sqrt(weights)
        for level in range(first, int(sizes.max())):
            some = np.flatnonzero(sizes > level)
            ones[starts[some] + level - first] = (part[some] == level) * root
        with limit_blas(width):
            table += ones @ ones.T
    if not lacking:
        table, starts = _with_level_0(table, starts, sizes, columns.total)
    noise = 1e-12 * columns.total  # of sums and differences
    table[table < noise] = 0.0
    left = np.add.reduceat(table, starts[:-1], axis=0)  # counts of b's levels in rows that have a
    total = np.add.reduceat(left, starts[:-1], axis=1)

    def summed(values: FloatArray) -> FloatArray:
        return np.add.reduceat(np.asarray(values), starts[:-1], axis=1)

    def xlogx(values: FloatArray) -> FloatArray:
        return np.asarray(values * np.log(np.where(values > 0, values, 1.0)))

    entropy = summed(xlogx(left))
    gains = np.add.reduceat(summed(xlogx(table)), starts[:-1], axis=0) - entropy - entropy.T + xlogx(total)
    seen = summed((left > noise).astype(np.float64))  # levels of b in rows that have a
    dfs = np.maximum(seen - 1, 0) * np.maximum(seen.T - 1, 0)
    return gains, dfs


def _with_level_0(table: FloatArray, starts: IntArray, sizes: IntArray, total: float) -> tuple[FloatArray, IntArray]:
    """Add level 0 of each column to the tables of all pairs: what its other levels leave."""
    ends = np.concatenate([[0], np.cumsum(sizes)])
    real = sizes > 1
    one, place = np.flatnonzero(np.repeat(real, np.maximum(sizes - 1, 1))), np.arange(ends[-1])
    zero = ends[:-1]
    rest = np.setdiff1d(place, zero)
    counts = np.diag(table)
    others = np.add.reduceat(table, starts[:-1], axis=0)  # levels of b in rows where a is not at level 0
    out = np.zeros((int(ends[-1]),) * 2)
    out[np.ix_(rest, rest)] = table[np.ix_(one, one)]
    out[np.ix_(zero, rest)] = (counts - others)[:, one]
    out[np.ix_(rest, zero)] = out[np.ix_(zero, rest)].T
    above = np.add.reduceat(counts, starts[:-1])
    both = np.add.reduceat(others, starts[:-1], axis=1)
    out[np.ix_(zero, zero)] = total - above[:, None] - above + both
    return out, ends


def _forest(scores: FloatArray) -> list[tuple[int, int]]:
    """List the edges of the maximum spanning forest of the positive scores, the larger number of each pair first."""
    rows, columns = np.nonzero(np.tril(scores, -1) > 0)
    order = np.lexsort((columns, rows, -scores[rows, columns]))
    above = list(range(len(scores)))
    out = []
    for a, b in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        one, other = _root(above, a), _root(above, b)
        if one != other:
            above[one] = other
            out.append((a, b))
            if len(out) == len(scores) - 1:
                break
    return out


def _root(above: list[int], k: int) -> int:
    while above[k] != k:
        above[k] = above[above[k]]
        k = above[k]
    return k


def _members(bits: int) -> list[int]:
    """List the positions of the bits of an integer."""
    out = []
    while bits:
        low = bits & -bits
        out.append(low.bit_length() - 1)
        bits ^= low
    return out


def _as_words(bits: int, n_words: int) -> AnyArray:
    return np.frombuffer(bits.to_bytes(8 * n_words, "little"), dtype=np.uint64)
