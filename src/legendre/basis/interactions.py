"""Many-body bases: `interactions` (hierarchical log-linear models), `boltzmann` (the paper's Section 2.4.2), `rbm`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from legendre.basis.basis import ROOM, Basis
from legendre.core import limits
from legendre.core.arguments import is_whole
from legendre.core.cells import unique_cells
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room, size_name
from legendre.core.types import IntArray
from legendre.data.observation import Observation


@dataclass(frozen=True)
class Interactions(Basis):
    """Cells, in the support or not, whose non-zero coordinates lie in one of `sets` (or are at most `sets` many)."""

    sets: int | tuple[tuple[Mode, ...], ...]

    def select(self, data: Observation) -> IntArray:
        shape, order = data.support.shape, len(data.support.shape)
        if isinstance(self.sets, int):
            if self.sets > order:
                raise InvalidBasis(f"interactions({self.sets}): X has {order} modes, so at most interactions({order}).")
            groups, most = [tuple(range(order))], self.sets
        else:
            found = found_modes("interactions", self.sets, order, data.origin.labels)
            groups, most = [tuple(sorted(group)) for group in found], order
        parts: set[tuple[int, ...]] = set()
        for group in groups:
            free = [k for k in group if shape[k] > 1]
            self._check_sets(len(free), most)  # before they are listed
            self._check_size(_n_cells([shape[k] for k in free], most), order)
            parts.update(part for size in range(1, min(len(free), most) + 1) for part in combinations(free, size))
        self._check_size(sum(math.prod(shape[k] - 1 for k in part) for part in parts), order)
        every = np.concatenate([np.empty((0, order), dtype=np.int64), *(block(shape, part) for part in sorted(parts))])
        return every[np.lexsort(every.T[::-1])]

    def _check_sets(self, n_modes: int, most: int) -> None:
        """Refuse more sets of modes than can be gone through one by one."""
        n_sets = _n_cells([2] * n_modes, most)
        if n_sets > limits.MOST_SETS:
            fitting = [m for m in range(1, most) if _n_cells([2] * n_modes, m) <= limits.MOST_SETS]
            way_out = f"interactions({fitting[-1]}) has few enough" if fitting else "Name smaller sets"
            raise InvalidBasis(
                f"{self._name}: {n_modes} modes have {size_name(n_sets)} sets of up to {min(most, n_modes)} modes, and "
                f"at most {limits.MOST_SETS:,} are listed. {way_out}; 'full' is the basis of all cells."
            )

    @property
    def _name(self) -> str:
        return repr(self) if isinstance(self.sets, int) else f"interactions(<{len(self.sets)} sets>)"

    def _check_size(self, size: int, order: int) -> None:
        if size <= limits.LONG_MODE:
            return
        check_room(size, ROOM * order, f"{self._name}: a basis", "Take fewer or shorter modes, or cells of your own.")

    def __repr__(self) -> str:
        return f"interactions({self.sets if isinstance(self.sets, int) else list(self.sets)})"


def interactions(sets: int | Iterable[Iterable[Mode]]) -> Basis:
    """Make the basis of all interactions up to an order, or within the given sets of modes.

    Parameters
    ----------
    sets
        An order (2: all two-body interactions and what they contain), or a list of sets of modes, which are counted
        from 0 or named as X names them: ``[("carrier", "dest")]``.

    See Also
    --------
    adaptive : A basis that the data choose.
    boltzmann : Biases and couplings of a Boltzmann machine.
    B1 : The paper's basis of single modes.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose(np.arange(1, 9).reshape(2, 2, 2), ld.interactions([(0, 1), (1, 2)])).basis.tolist()
    [[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 0]]
    """
    if isinstance(sets, (bool, float, str)):
        raise InvalidBasis(
            f"interactions({sets!r}): pass an order such as 2, or sets of modes such as [(0, 1), (1, 2)]."
        )
    if isinstance(sets, (int, np.integer)):
        if sets < 1:
            raise InvalidBasis(f"interactions({sets}): the order must be at least 1. For no parameters use empty().")
        return Interactions(int(sets))
    return Interactions(mode_sets("interactions", sets))


def mode_sets(name: str, sets: Iterable[Iterable[Mode]]) -> tuple[tuple[Mode, ...], ...]:
    """Read sets of modes, by number or by name; they are looked up in a tensor later, by `found_modes`."""
    groups = []
    try:
        groups = [(group,) if isinstance(group, str) else tuple(group) for group in sets]
    except TypeError:
        raise InvalidBasis(f"{name}: expected sets of modes such as [(0, 1), (1, 2)], got {sets!r}.") from None
    for group in groups:
        if not all(type(k) is int or isinstance(k, str) or is_whole(k) for k in group):
            raise InvalidBasis(f"{name}: modes are integers counted from 0, or names, got {group}.")
        if len(set(group)) < len(group):
            raise InvalidBasis(f"{name}: {group} names a mode twice.")
    return tuple(tuple(k if isinstance(k, str) else int(k) for k in group) for group in groups)


def found_modes(
    name: str, groups: Iterable[tuple[Mode, ...]], order: int, labels: Labels | None
) -> list[tuple[int, ...]]:
    """Look sets of modes up in a tensor of some order, with or without labels.

    Raises InvalidBasis, which begins with `name`, if one names a mode that the tensor does not have.
    """
    found = []
    for group in groups:
        if any(not isinstance(k, str) and not 0 <= k < order for k in group):
            raise InvalidBasis(f"{name}: {group} names a mode that X has not; X has {order} modes, 0 to {order - 1}.")
        modes = tuple(_found_name(name, k, group, labels) if isinstance(k, str) else k for k in group)
        if len(set(modes)) < len(modes):
            raise InvalidBasis(f"{name}: {group} names a mode twice.")
        found.append(modes)
    return found


def _found_name(name: str, mode: str, group: tuple[Mode, ...], labels: Labels | None) -> int:
    if labels is None or labels.names is None:
        raise InvalidBasis(f"{name}: {group} names modes, but those of X have no names: pass names=[...] with X.")
    return labels.find_mode(mode, name, InvalidBasis)


def _n_cells(lengths: list[int], most: int) -> int:
    """Count the cells other than the bottom with at most `most` coordinates away from 0."""
    counts = [1] + [0] * min(most, len(lengths))
    for length in lengths:
        for size in reversed(range(1, len(counts))):
            counts[size] += counts[size - 1] * (length - 1)
    return sum(counts) - 1


def block(shape: tuple[int, ...], part: tuple[int, ...]) -> IntArray:
    """All cells whose non-zero coordinates are exactly the modes of `part`."""
    sizes = [shape[k] - 1 for k in part]
    cells = np.zeros((math.prod(sizes), len(shape)), dtype=np.int64)
    if len(cells):
        cells[:, part] = np.indices(sizes).reshape(len(part), -1).T + 1
    return cells


@dataclass(frozen=True)
class Boltzmann(Basis):
    """One cell per node (its bias) and one per edge or hyperedge (its weight), on a 2 x ... x 2 tensor."""

    edges: tuple[tuple[Mode, ...], ...]

    def select(self, data: Observation) -> IntArray:
        """List the nodes' cells, then the edges' in the order given."""
        shape = data.support.shape
        if any(length != 2 for length in shape):
            raise InvalidBasis(
                f"boltzmann: every mode must have 2 levels, X has shape {shape}. "
                "For variables with more levels use interactions(edges)."
            )
        edges = found_modes("boltzmann", self.edges, len(shape), data.origin.labels)
        groups = [*((k,) for k in range(len(shape))), *edges]
        cells = np.zeros((len(groups), len(shape)), dtype=np.int64)
        for row, group in zip(cells, groups, strict=True):
            row[list(group)] = 1
        return unique_cells(cells)

    def __repr__(self) -> str:
        return f"boltzmann({list(self.edges)})"


def boltzmann(edges: Iterable[Iterable[Mode]]) -> Basis:
    """Make the basis of a Boltzmann machine: theta holds its biases, then its weights; exp(psi) is Z.

    Parameters
    ----------
    edges
        Pairs of modes, by number or name; larger sets are higher-order interactions. Every mode gets a bias.

    See Also
    --------
    interactions : All that sets of modes do together.
    BoltzmannMachine : Rows of variables, with biases and weights.
    rbm : A restricted Boltzmann machine, for `hidden`.

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

    See Also
    --------
    hidden : Fit a model with hidden modes.
    boltzmann : Biases and couplings of a Boltzmann machine.

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
