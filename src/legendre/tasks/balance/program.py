"""Cells against prescribed margins, as linear programs and flows see them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.types import BoolArray, FloatArray, IntArray
from legendre.model.margins import Modes
from legendre.model.problem import Problem

WHOLE = 1e-6
"""Entries this close to whole numbers are such: what is left is the rounding of numbers up to limits.LARGEST_FLOW."""


@dataclass(frozen=True, eq=False)
class Contradiction:
    """Multipliers of the margins' entries that prove that no tensor has them."""

    multipliers: FloatArray


@dataclass(frozen=True, eq=False)
class Program:
    """The alive cells against the entries of all margins."""

    problem: Problem
    alive: BoolArray

    @property
    def margins(self) -> dict[Modes, FloatArray]:
        """The prescribed margins."""
        return self.problem.prescribed or {}

    @property
    def size(self) -> int:
        """The number of entries of the constraints."""
        return int(self.alive.sum()) * len(self.margins)

    @property
    def bipartite(self) -> bool:
        """True for two margins without a common mode: a cell joins an entry of one to an entry of the other."""
        groups = [set(modes) for modes in self.margins]
        return len(groups) == 2 and not groups[0] & groups[1]

    @cached_property
    def cells(self) -> IntArray:
        """The alive cells in merged coordinates."""
        return np.argwhere(self.alive).astype(np.int64)

    @cached_property
    def columns(self) -> IntArray:
        """For each cell and each margin the entry that the cell counts for, all entries numbered in a row."""
        found, start = [], 0
        for modes, values in self.margins.items():
            found.append(start + np.ravel_multi_index(tuple(self.cells[:, modes].T), values.shape))
            start += values.size
        return np.stack(found, axis=1)

    @cached_property
    def wanted(self) -> FloatArray:
        """All entries of all margins."""
        return np.concatenate([values.ravel() for values in self.margins.values()])

    @cached_property
    def matrix(self) -> Any:
        """Cells x entries, sparse."""
        from scipy.sparse import csr_array

        cells, ways = self.columns.shape
        index = (np.ones(cells * ways), self.columns.ravel(), np.arange(0, cells * ways + 1, ways))
        return csr_array(index, shape=(cells, len(self.wanted)))


def whole_numbers(program: Program) -> IntArray | None:
    """Write all entries of both margins as whole numbers, in the caller's units or in others, if they are such."""
    sizes = [values.size for values in program.margins.values()]
    units = (program.problem.data.total, 1.0 / program.wanted[program.wanted > 0].min(), float(math.lcm(*sizes)))
    for unit in units:
        scaled = program.wanted * unit
        whole = np.rint(scaled)
        first, second = whole[: sizes[0]].sum(), whole[sizes[0] :].sum()
        if first == second <= limits.LARGEST_FLOW and np.abs(scaled - whole).max() <= WHOLE * min(1.0, scaled.max()):
            return whole.astype(np.int64)
    return None


def largest_flow(program: Program, whole: IntArray) -> FloatArray | Contradiction:
    """Send as much as possible from the first margin through the cells to the second: all of it, or there is a cut."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    entries, total = len(whole), int(whole.sum()) // 2
    first = next(iter(program.margins.values())).size
    one, other = program.columns.T
    source, sink = entries, entries + 1
    tails = np.concatenate([one, np.full(first, source), np.arange(first, entries)])
    heads = np.concatenate([other, np.arange(first), np.full(entries - first, sink)])
    room = np.concatenate([np.full(len(one), total), whole]).astype(np.int32)
    network = csr_array((room, (tails, heads)), shape=(entries + 2, entries + 2))
    found = maximum_flow(network, source, sink)
    if found.flow_value < total:
        left: Any = network - found.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        reached = np.zeros(entries + 2, dtype=np.bool_)
        reached[breadth_first_order(left, source, return_predecessors=False)] = True
        return Contradiction(np.where(reached[:entries], np.where(np.arange(entries) < first, 1.0, -1.0), 0.0))
    flow = found.flow.tocoo()
    through = (flow.row < first) & (flow.col < entries) & (flow.data > 0)
    tensor = np.zeros(len(one))
    used = flow.row[through].astype(np.int64) * entries + flow.col[through]
    keys = one * entries + other
    order = np.argsort(keys)
    tensor[order[np.searchsorted(keys, used, sorter=order)]] = flow.data[through] / total
    return tensor
