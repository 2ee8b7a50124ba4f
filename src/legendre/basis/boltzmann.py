"""The basis of a Boltzmann machine, B(V) with B(E) (the paper's Section 2.4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from legendre.basis.basis import Basis
from legendre.basis.interactions import check_modes, mode_sets
from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.cells import unique_cells
from legendre.core.errors import InvalidBasis
from legendre.core.types import IntArray
from legendre.data.observation import Observation


@dataclass(frozen=True)
class Boltzmann(Basis):
    """One cell per node (its bias) and one per edge or hyperedge (its weight), on a 2 x ... x 2 tensor."""

    edges: tuple[tuple[int, ...], ...]

    def select(self, data: Observation) -> IntArray:
        """List the nodes' cells, then the edges' in the order given."""
        order = len(data.support.shape)
        if any(length != 2 for length in data.support.shape):
            raise InvalidBasis(
                f"boltzmann: every mode must have 2 levels, X has shape {data.support.shape}. "
                "For variables with more levels use interactions(edges)."
            )
        check_modes("boltzmann", self.edges, order)
        groups = [(k,) for k in range(order)] + list(self.edges)
        cells = np.zeros((len(groups), order), dtype=np.int64)
        for row, group in zip(cells, groups, strict=True):
            row[list(group)] = 1
        return unique_cells(cells)

    def __repr__(self) -> str:
        return f"boltzmann({list(self.edges)})"


def boltzmann(edges: Iterable[Iterable[int]]) -> Basis:
    """Make the basis of a Boltzmann machine: theta holds its biases, then its weights; exp(psi) is Z.

    Parameters
    ----------
    edges
        Pairs of modes; larger sets are higher-order interactions. Every mode gets a bias.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose(np.arange(1, 9).reshape(2, 2, 2), ld.boltzmann([(0, 1), (1, 2)])).basis.tolist()
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
    """
    groups = mode_sets("boltzmann", edges)
    if () in groups:
        raise InvalidBasis("boltzmann: an edge has no node. Every edge names at least one mode.")
    return Boltzmann(groups)


def rbm(n_visible: int, n_hidden: int) -> Basis:
    """Make the basis of a restricted Boltzmann machine: an edge from every visible mode to every hidden one.

    Parameters
    ----------
    n_visible, n_hidden
        How many modes there are; hidden ones come last, as in `hidden`.

    Examples
    --------
    >>> rbm(2, 1)
    boltzmann([(0, 2), (1, 2)])
    """
    for name, count in (("n_visible", n_visible), ("n_hidden", n_hidden)):
        if not is_whole(count, 1):
            raise InvalidBasis(f"rbm: {name} must be an integer >= 1, got {count!r}.")
    n_visible, n_hidden = int(n_visible), int(n_hidden)
    if n_visible + n_hidden > limits.MOST_AXES:
        raise InvalidBasis(
            f"rbm({n_visible}, {n_hidden}) has {n_visible + n_hidden} modes; at most {limits.MOST_AXES} are allowed."
        )
    return Boltzmann(tuple((i, n_visible + j) for i in range(n_visible) for j in range(n_hidden)))
