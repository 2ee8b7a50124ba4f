"""Many-body bases: `interactions`, the hierarchical log-linear models.

On binary modes these are Boltzmann machines (the paper's Section 2.4.2): a set of one mode is a bias, one of two a
weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from legendre.basis.basis import ROOM, Basis, sort_cells
from legendre.core.arguments import check_int, entries, is_whole
from legendre.core.errors import InvalidBasis
from legendre.core.labels import Labels, Mode
from legendre.core.memory import check_room, size_name
from legendre.core.types import IntArray, Modes, Shape
from legendre.data.observation import Observation


@dataclass(frozen=True)
class Interactions(Basis):
    """All cells whose non-zero coordinates lie within one of `sets`; if `sets` is a number, are at most that many.

    They need not be in the support, so the model is the same log-linear model on every support.
    """

    sets: int | tuple[tuple[Mode, ...], ...]

    def select(self, data: Observation) -> IntArray:
        """List the cells of the basis in C order, k x N."""
        shape, order = data.shape, data.n_modes
        if not isinstance(self.sets, int):
            groups, largest = look_up_modes("interactions", self.sets, order, data.origin.labels), order
        elif self.sets <= order:  # an order: the subsets of all modes, up to that size
            groups, largest = [tuple(range(order))], self.sets
        else:
            raise InvalidBasis(f"interactions({self.sets}): X has {order} modes, so at most interactions({order}).")
        subsets = list_subsets(groups, shape, largest)
        n_cells = sum(math.prod(shape[k] - 1 for k in modes) for modes in subsets)
        way_out = "Use fewer or shorter modes, or cells of your own."
        check_room(n_cells, ROOM * order, "interactions: a basis", way_out)
        return sort_cells(blocks(shape, subsets))

    def __repr__(self) -> str:
        return f"interactions({self.sets if isinstance(self.sets, int) else list(self.sets)})"


def interactions(sets: int | Iterable[Iterable[Mode]]) -> Basis:
    """Make the basis of all interactions up to an order, or within the given sets of modes.

    Parameters
    ----------
    sets
        An order (2: all interactions of pairs, and single modes), or a list of sets of modes, by name or counted from
        0: ``[("carrier", "dest")]``. On binary modes these are the edges of a Boltzmann machine, and sets of single
        modes its biases.

    See Also
    --------
    adaptive : A basis that the data choose.
    BoltzmannMachine : Rows of variables, with biases and weights.
    B1 : The paper's basis of single modes.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose(np.arange(1, 9).reshape(2, 2, 2), ld.interactions([(0, 1), (1, 2)])).basis.tolist()
    [[0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0], [1, 1, 0]]
    """
    if is_whole(sets):
        return Interactions(check_int(sets, "interactions: the order (for no parameters use 'empty')", 1, InvalidBasis))
    return Interactions(mode_sets("interactions", sets))


def mode_sets(name: str, sets: Any) -> tuple[tuple[Mode, ...], ...]:
    """Check sets of modes, given by number or by name; `look_up_modes` finds them in a tensor later.

    `name` is the public function or argument for which they were given, for error messages.
    """
    listed: Any = entries(sets)
    try:
        groups = [(group,) if isinstance(group, str) else tuple(group) for group in listed]
    except TypeError:  # it is no list, or has an entry that is none
        form = "pass an order such as 2, or sets of modes such as [(0, 1), (1, 2)]"
        raise InvalidBasis(f"{name}: {form}; got {sets!r}.") from None
    for group in groups:
        if not all(isinstance(k, str) or is_whole(k) for k in group):
            raise InvalidBasis(f"{name}: modes are integers counted from 0, or names, got {group}.")
    return tuple(tuple(k if isinstance(k, str) else int(k) for k in group) for group in groups)


def look_up_modes(name: str, groups: Iterable[tuple[Mode, ...]], order: int, labels: Labels | None) -> list[Modes]:
    """Find the numbers of modes, given by number or by name, in a tensor with `order` modes, with or without labels.

    `name` is the public function that was called, for error messages.
    """
    known = Labels((1,) * order) if labels is None else labels
    found = [tuple(known.find_mode(k, f"{name}: {group}", InvalidBasis) for k in group) for group in groups]
    for group in found:
        if len(set(group)) < len(group):
            raise InvalidBasis(f"{name}: {group} names a mode twice.")
    return found


def list_subsets(groups: Iterable[Sequence[int]], shape: Shape, most: int, most_sets: int = 1 << 17) -> list[Modes]:
    """List the non-empty subsets of groups of modes, of at most `most` modes each: the sets of modes that interact.

    Modes of one level are left out, as they have no parameters. A group with more than `most_sets` such subsets is
    refused, because listing them would take very long.
    """
    found: set[Modes] = set()
    for group in groups:
        free = sorted(k for k in group if shape[k] > 1)
        sizes = range(1, min(len(free), most) + 1)
        n_sets = sum(math.comb(len(free), size) for size in sizes)
        if n_sets > most_sets:
            raise InvalidBasis(
                f"interactions: {len(free)} modes have {size_name(n_sets)} sets of up to {sizes[-1]} modes, and at "
                f"most {most_sets:,} are listed. Take a lower order, or name smaller sets; 'full' is the basis of all "
                "cells."
            )
        found.update(modes for size in sizes for modes in combinations(free, size))
    return sorted(found)


def blocks(shape: Shape, sets: Iterable[Modes]) -> IntArray:
    """List, for each of some sets of modes, all cells whose coordinates are non-zero in exactly these modes."""
    out, coordinates = [np.empty((0, len(shape)), dtype=np.int64)], dict[Shape, IntArray]()
    for modes in sets:
        sides = tuple(shape[k] - 1 for k in modes)
        if sides not in coordinates:  # many sets have the same sides
            coordinates[sides] = np.argwhere(np.ones(sides)) + 1
        cells = np.zeros((len(coordinates[sides]), len(shape)), dtype=np.int64)
        cells[:, modes] = coordinates[sides]
        out.append(cells)
    return np.concatenate(out)
