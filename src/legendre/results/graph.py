"""A graph of the modes that the data chose: its edges in the order in which they were added, and its cliques."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from legendre.basis.interactions import blocks, list_subsets
from legendre.core.arguments import check_installed
from legendre.core.labels import Labels, Mode
from legendre.core.text import NamedValues, Printed, Table
from legendre.core.types import FloatArray, IntArray, Modes, Shape, frozen
from legendre.results.base import import_pandas


class Edge(NamedTuple):
    """Two modes that interact; by names, or by numbers if they have none."""

    a: Mode
    b: Mode
    given: tuple[Mode, ...]  # their common neighbours when the edge was added
    gain: float  # of log-likelihood, in nats
    df: int  # how many parameters it added
    p_value: float  # of the likelihood-ratio test of this edge; the best of many edges was chosen, so it is too small


@frozen(repr=False)
class InteractionGraph(Printed):
    """The chordal graph that `graph` found: which modes interact, and what each edge gained.

    Attributes
    ----------
    edges
        One `Edge` for each, in the order in which they were added: its ends ``a`` and ``b``, ``given`` (their common
        neighbours then), ``gain`` in nats of log-likelihood, ``df`` and ``p_value``.
    cliques
        Maximal sets of modes that all interact with each other.
    penalty
        The gain in nats that was required of each parameter.
    notes
        Sentences about modes that were left out, and about modes that determine each other.
    cells
        With ``graph(terms="sparse")``: the cells of the basis (k x N). ``None`` means all cells within cliques.

    See Also
    --------
    graph : A basis whose interactions the data choose as a graph.
    Decomposition : The result of `decompose`.

    Examples
    --------
    >>> import legendre as ld
    >>> rows = {"rain": [0, 0, 1, 1] * 9, "wet": [0, 0, 1, 1] * 9, "day": [0, 1, 0, 1] * 9}
    >>> ld.decompose(ld.from_rows(rows), ld.graph()).graph.cliques
    [('rain', 'wet'), ('day',)]
    """

    labels: Labels
    ends: IntArray  # the modes that each edge joins, edges x 2
    gains: FloatArray
    dfs: IntArray
    penalty: float
    notes: tuple[str, ...] = ()
    cells: IntArray | None = None

    @property
    def edges(self) -> list[Edge]:
        """The edges in the order in which they were added, with the test of each.

        The likelihood-ratio statistic of an edge is twice its gain, in the model to which it was added. There, the two
        modes were independent given their common neighbours, so these neighbours are `Edge.given`.
        """
        from scipy.stats import chi2

        near: list[set[int]] = [set() for _ in self.labels.shape]  # the neighbours of each mode so far
        key, out = self.labels.key, []
        p_values = np.asarray(chi2.sf(2 * self.gains, np.maximum(self.dfs, 1))).tolist()
        for t, (a, b) in enumerate(self.ends.tolist()):
            given = tuple(map(key, sorted(near[a] & near[b])))
            out.append(Edge(key(a), key(b), given, float(self.gains[t]), int(self.dfs[t]), p_values[t]))
            near[a].add(b)
            near[b].add(a)
        return out

    @property
    def cliques(self) -> list[tuple[Mode, ...]]:
        """The maximal sets of modes that all interact with each other; a mode without edges is a set of its own.

        In a chordal graph, every maximal clique is a mode with its parents in a perfect ordering (`families`).
        """
        families = {frozenset((v, *parents)) for v, parents in self.families}
        largest = [sorted(family) for family in families if not any(family < other for other in families)]
        return [tuple(map(self.labels.key, clique)) for clique in sorted(largest)]

    @cached_property
    def families(self) -> list[tuple[int, Modes]]:
        """A perfect ordering of the modes: each with its parents, the neighbours before it, which form a clique.

        Q is the product of the distributions of each mode given its parents. The ordering is found by maximum
        cardinality search (Tarjan and Yannakakis 1984): the next mode is the one with the most neighbours before it.
        Parents are in the order in which their edges were added.
        """
        near: list[dict[int, int]] = [{} for _ in self.labels.shape]  # for each mode: neighbour -> number of the edge
        for t, (a, b) in enumerate(self.ends.tolist()):
            near[a][b] = near[b][a] = t
        # the modes that are left, with the number of their neighbours that are in the ordering
        left, out = dict.fromkeys(range(len(near)), 0), []
        while left:
            v = max(left, key=left.__getitem__)
            del left[v]
            before = sorted((t, u) for u, t in near[v].items() if u not in left)
            out.append((v, tuple(u for _, u in before)))
            for u in left.keys() & near[v].keys():
                left[u] += 1
        return out

    def interactions(self, shape: Shape) -> list[Modes]:
        """List the sets of modes that interact: all nonempty subsets of cliques, without modes of one level.

        `shape` is that of X. Each clique is a mode with its parents, see `families`. With sparse terms they are the
        sets of modes that have a term.
        """
        if self.cells is not None:
            return sorted({tuple(np.flatnonzero(cell).tolist()) for cell in self.cells})
        return list_subsets(((v, *parents) for v, parents in self.families), shape, len(shape))

    def basis(self, shape: Shape) -> IntArray:
        """List the cells (k x N) of a basis, for an X of this shape: all within cliques, unless terms are sparse."""
        return blocks(shape, self.interactions(shape)) if self.cells is None else self.cells

    def to_frame(self) -> Any:
        """Return the edges as a pandas data frame."""
        return import_pandas("to_frame()").DataFrame(self.edges, columns=list(Edge._fields))

    def to_networkx(self) -> Any:
        """Return a networkx graph, whose edges have `gain`, `df` and `p_value`."""
        check_installed("to_networkx", ["networkx"], "networkx")
        import networkx as nx

        out = nx.Graph()
        out.add_nodes_from(self.labels.key(k) for k in range(self.labels.n_modes))
        out.add_edges_from((e.a, e.b, {"gain": e.gain, "df": e.df, "p_value": e.p_value}) for e in self.edges)
        return out

    def tables(self) -> list[Table]:
        """List the table that notebooks show: the first 20 edges and the notes."""
        rows = [
            (f"{e.a} - {e.b}", f"{e.gain:.4g} nats, df {e.df}, p {e.p_value:.2g}, given {list(e.given)}")
            for e in self.edges[:20]
        ]
        more = [("...", f"{len(self.ends) - 20} more edges")] if len(self.ends) > 20 else []
        return [NamedValues(repr(self)[1:-1], [*rows, *more, *(("note", note) for note in self.notes)])]

    def __repr__(self) -> str:
        cliques = self.cliques
        return (
            f"<InteractionGraph of {self.labels.n_modes} modes: {len(self.ends)} edges, {len(cliques)} cliques of "
            f"up to {max(map(len, cliques), default=0)} modes, {math.fsum(self.gains):.4g} nats gained>"
        )
