"""Which modes interact, and the tree of cliques in which sums over all cells become sums over small tables.

The parameter of a cell u concerns only the modes with ``u_k > 0``. They are joined pairwise in a graph. The graph is
made chordal by eliminating its modes one by one. The cliques of a chordal graph form a junction tree: modes that two
cliques share are in every clique between them (Lauritzen and Spiegelhalter 1988).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.memory import size_name
from legendre.core.sums.linalg import limit_blas
from legendre.core.types import BoolArray, IntArray, Modes, Shape, frozen


@dataclass(frozen=True)
class Clique:
    """A node of the junction tree: modes that have one table together."""

    modes: Modes  # first those shared with the parent, in the parent's order, then the clique's own
    shared: int  # how many are shared with the parent: the separator
    parent: int  # the number of the parent; -1 for a root
    shape: Shape  # the levels of the modes

    @property
    def n_cells(self) -> int:
        """The number of cells of the table."""
        return math.prod(self.shape)


@frozen
class CliqueTree:
    """A junction tree: cliques, each listed after its parent; there may be several roots."""

    cliques: tuple[Clique, ...]  # every mode with more than one level is one clique's own, not shared with its parent
    home: IntArray  # (N,) the number of that clique for each mode; -1 for a mode with one level
    # (N,) when each mode was eliminated. All modes of an interaction are in the home of the one eliminated first,
    # because its neighbours at that time are its clique.
    turn: IntArray

    @cached_property
    def n_cells(self) -> int:
        """The number of cells of all tables together."""
        return sum(clique.n_cells for clique in self.cliques)

    @property
    def largest(self) -> Clique:
        """The clique with the largest table."""
        return max(self.cliques, key=lambda clique: clique.n_cells, default=Clique((), 0, -1, ()))

    @property
    def fits(self) -> bool:
        """Whether the tables are small enough to be formed."""
        return self.n_cells <= limits.LARGEST_CLIQUES

    def homes(self, positions: IntArray) -> IntArray:
        """Find for each cell of B (k x N) the clique whose table has its parameter: it holds all its modes."""
        found: IntArray = self.home[np.where(positions > 0, self.turn, len(self.turn)).argmin(axis=1)]
        return found

    def home_of(self, modes: Iterable[int]) -> int:
        """Find a clique that holds all these modes; if there is none, the home of the one eliminated first."""
        first = min(modes, key=lambda k: int(self.turn[k]))
        return int(self.home[first])

    def trouble(self) -> str:
        """Return the text of an error: the tables are too large, and which clique is to blame.

        It is needed where the grid cannot be formed either, so that there is no other form of the model.
        """
        widest = self.largest
        some = ", ".join(map(str, sorted(widest.modes)[:6])) + (", ..." if len(widest.modes) > 6 else "")
        return (
            f"the basis couples modes so widely that exact sums need tables of {size_name(self.n_cells)} cells, and at "
            f"most {limits.LARGEST_CLIQUES:,} are allowed. The largest of {len(self.cliques)} cliques holds "
            f"{len(widest.modes)} modes ({some}), {size_name(widest.n_cells)} cells. "
            "Leave interactions out until the cliques are small, or use a basis with fewer distinct coordinates."
        )


def cliques_of(positions: IntArray, merged_shape: Shape, together: Sequence[int] = ()) -> CliqueTree:
    """Build the junction tree of the modes that B couples; `positions` (k x N) are its cells in merged coordinates.

    All modes of `together` will be in one clique, so that a question about their joint margin is a look-up.
    """
    used = (positions > 0).astype(np.float32)
    with limit_blas():
        graph = used.T @ used > 0
    graph[np.ix_(together, together)] = True
    return clique_tree(graph, merged_shape)


def clique_tree(graph: BoolArray, levels: Sequence[int]) -> CliqueTree:
    """Triangulate a graph of modes (N x N, True where two interact) and arrange its cliques in a junction tree.

    `levels` has the number of levels of each mode. Modes with one level are left out.

    >>> chain = np.eye(4, k=1, dtype=bool) | np.eye(4, k=-1, dtype=bool)
    >>> [clique.modes for clique in clique_tree(chain, [2, 2, 2, 2]).cliques]
    [(2, 3), (2, 1), (1, 0)]
    """
    order, neighbours = _eliminate_modes(graph, np.log(np.array(levels, dtype=np.float64)).tolist())
    return _build_tree(order, neighbours, levels)


def _eliminate_modes(graph: BoolArray, log_sizes: list[float]) -> tuple[list[int], list[list[int]]]:
    """Eliminate the modes one by one; return their order, and the neighbours of each when it was eliminated.

    Eliminating a mode joins its neighbours to each other; all edges together make the graph chordal. The order decides
    how large the cliques are. The next mode is always one that adds the fewest edges, and of these one with the
    smallest clique: the min-fill rule, since the best order is NP-hard to find. Sets of modes are the bits of integers,
    which makes unions and differences fast.
    """
    kept = [k for k, size in enumerate(log_sizes) if size > 0]
    every = sum(1 << k for k in kept)
    near = {k: sum(1 << int(j) for j in np.flatnonzero(graph[k])) & every & ~(1 << k) for k in kept}

    def cost(k: int) -> tuple[float, float, int]:
        """Return twice the edges that eliminating k adds, the logarithm of its clique's size, and k itself for ties."""
        around = _list_bits(near[k])
        fill = sum((near[k] & ~near[j]).bit_count() - 1 for j in around)  # neighbours of k that j is not joined to yet
        size = sum(log_sizes[j] for j in around) + log_sizes[k]
        return fill, size, k

    costs = {k: cost(k) for k in kept}
    order: list[int] = []
    neighbours: list[list[int]] = []
    while costs:
        fill, size, k = min(costs.values())
        if len(costs) > 256 and size > math.log(limits.LARGEST_CLIQUES):
            # The clique of this mode is too large for a table, so the caller will refuse the tree. Finding an order for
            # so many modes would take long: those that are left become one clique.
            left = sorted(costs)
            return order + left, neighbours + [left[i + 1 :] for i in range(len(left))]
        del costs[k]
        around = _list_bits(near[k])
        order.append(k)
        neighbours.append(around)
        stale = near[k]  # modes whose cost changes
        for j in around:
            near[j] = (near[j] | near[k]) & ~(1 << j | 1 << k)
            stale |= near[j] if fill else 0  # a new edge also saves fill to modes that are next to both of its ends
        del near[k]
        for j in _list_bits(stale):
            costs[j] = cost(j)
    return order, neighbours


def _list_bits(bits: int) -> list[int]:
    """List the positions of the bits of an integer: the modes of a set."""
    out = []
    while bits:
        low = bits & -bits  # the lowest bit
        out.append(low.bit_length() - 1)
        bits ^= low
    return out


def _build_tree(order: list[int], neighbours: list[list[int]], levels: Sequence[int]) -> CliqueTree:
    """Build the junction tree from an elimination order and the neighbours of each mode then.

    Modes are taken in reverse order, so that a mode's neighbours are already in the tree, all in one clique: the home
    of the one eliminated first among them. If they are all of that clique, the mode joins it. If they are only a part,
    the mode and its neighbours are a new clique, and that one is its parent.
    """
    turn, home = np.full(len(levels), len(levels), dtype=np.int64), np.full(len(levels), -1, dtype=np.int64)
    turn[order] = np.arange(len(order))
    found: list[tuple[set[int], set[int], int]] = []  # of each clique: all modes, those shared with the parent, parent
    for k, around in zip(reversed(order), reversed(neighbours), strict=True):
        parent = int(home[min(around, key=turn.item)]) if around else -1
        if around and len(found[parent][0]) == len(around):  # the neighbours are all of that clique
            found[parent][0].add(k)
            home[k] = parent
        else:
            home[k] = len(found)
            found.append(({*around, k}, {*around}, parent))
    cliques: list[Clique] = []
    for members, shared, parent in found:
        modes = [k for k in cliques[parent].modes if k in shared] if shared else []  # these come first
        modes += sorted(members - shared)
        cliques.append(Clique(tuple(modes), len(shared), parent, tuple(int(levels[k]) for k in modes)))
    return CliqueTree(tuple(cliques), home, turn)
