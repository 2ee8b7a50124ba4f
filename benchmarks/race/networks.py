"""Sets of margins of pairs of modes, and rows drawn from a member of each model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import legendre as ld  # imported where it is used: the race times the import

Edges = list[tuple[int, int]]
Ints = NDArray[np.int64]
N_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class Network:
    """Modes with levels, and the pairs that interact."""

    name: str
    levels: tuple[int, ...]
    edges: Edges
    spread: float = 0.4

    def rows(self) -> Ints:
        """Draw rows from a member of the model, always the same."""
        from legendre.data.observation import Support
        from legendre.data.sparse import observe_rows
        from legendre.model.model import Model
        from legendre.results.distribution import CliqueDistribution

        rng = np.random.default_rng(2018)
        nothing = observe_rows(np.zeros((1, len(self.levels)), dtype=np.int64), np.ones(1), self.levels)
        model = Model.of(Support(self.levels), None, self.basis().select(nothing))
        return CliqueDistribution(model, self.spread * rng.normal(size=model.n_params)).sample(N_ROWS, rng, {})

    def basis(self) -> ld.Basis:
        """Take every pair with all its levels, and every mode."""
        import legendre as ld

        return ld.interactions([*((k,) for k in range(len(self.levels))), *self.edges])


def _lattice(rows: int, columns: int) -> Edges:
    """Join neighbours of a grid."""
    across = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    return across + [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]


def _tree(n: int, k: int) -> Edges:
    """Draw a k-tree."""
    rng = np.random.default_rng(k)
    edges, cliques = list(combinations(range(k + 1), 2)), [list(range(k + 1))]
    for node in range(k + 1, n):
        chosen = sorted(rng.permutation(cliques[rng.integers(len(cliques))])[:k].tolist())
        edges += [(other, node) for other in chosen]
        cliques.append([*chosen, node])
    return edges


def _chain(n: int) -> Edges:
    """Join each to the next."""
    return [(i, i + 1) for i in range(n - 1)]


NETWORKS = {
    network.name: network
    for network in (
        Network("chain of 25, binary", (2,) * 25, _chain(25)),
        Network("chain of 50, binary", (2,) * 50, _chain(50)),
        Network("chain of 100, binary", (2,) * 100, _chain(100)),
        Network("chain of 30, 10 levels", (10,) * 30, _chain(30), 0.1),
        Network("lattice 5 x 20, binary", (2,) * 100, _lattice(5, 20)),
        Network("lattice 5 x 20, binary, strong", (2,) * 100, _lattice(5, 20), 0.8),
        Network("5-tree, 100 binary", (2,) * 100, _tree(100, 5)),
    )
}
