"""Tables over the cliques of a model, one behind the other in one array: where theta stands, and how they meet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray
from legendre.model.cliques.graph import CliqueTree
from legendre.model.cliques.messages import Link, links_of

ROWS = 1 << 12
"""Cells that are read at a time: neighbouring columns of so many rows stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class Tables:
    """The layout of all tables in one array; those of one shape lie together, so that sums along modes run at once.

    Parameters
    ----------
    quotient
        The boxes of a full grid without a base measure.
    basis
        The cells of B in merged coordinates, k x N.
    tree
        The cliques of the modes that they couple.
    """

    quotient: Quotient
    basis: IntArray
    tree: CliqueTree

    @cached_property
    def sizes(self) -> list[int]:
        """The number of cells of each table."""
        return [math.prod(clique.shape) for clique in self.tree.cliques]

    @cached_property
    def size(self) -> int:
        """The number of cells of all tables."""
        return sum(self.sizes)

    @cached_property
    def groups(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Where tables of one shape start and end, and that shape."""
        count: dict[tuple[int, ...], int] = {}
        for clique in self.tree.cliques:
            count[clique.shape] = count.get(clique.shape, 0) + 1
        out, start = [], 0
        for shape, n in count.items():
            stop = start + n * math.prod(shape)
            out.append((start, stop, shape))
            start = stop
        return out

    @cached_property
    def starts(self) -> list[int]:
        """Where each table starts."""
        free = {shape: start for start, _, shape in self.groups}
        out = []
        for clique, size in zip(self.tree.cliques, self.sizes, strict=True):
            out.append(free[clique.shape])
            free[clique.shape] += size
        return out

    @cached_property
    def matrices(self) -> list[tuple[slice, tuple[int, int]]]:
        """Where each table lies, and its shape as a matrix: cells of the shared modes by cells of its own."""
        out = []
        for start, clique, size in zip(self.starts, self.tree.cliques, self.sizes, strict=True):
            rows = math.prod(clique.shape[: clique.shared])
            out.append((slice(start, start + size), (rows, size // rows)))
        return out

    @cached_property
    def links(self) -> list[Link | None]:
        """How each table lies in its parent's; ``None`` for roots."""
        return links_of(self.tree.cliques)

    @cached_property
    def homes(self) -> IntArray:
        """The clique of each parameter."""
        return self.tree.homes(self.basis)

    @cached_property
    def positions(self) -> IntArray:
        """Where each parameter stands in the array."""
        out = np.empty(len(self.basis), dtype=np.int64)
        for c, rows in self.by_clique():
            out[rows] = self.starts[c] + self.flat(c, self.basis[rows].T)
        return out

    def by_clique(self) -> Iterator[tuple[int, IntArray]]:
        """List the parameters of each clique that has some."""
        order = np.argsort(self.homes, kind="stable")
        ends = np.searchsorted(self.homes[order], np.arange(len(self.tree.cliques) + 1))
        for c in range(len(self.tree.cliques)):
            if ends[c + 1] > ends[c]:
                yield c, order[ends[c] : ends[c + 1]]

    def columns(self, cells: IntArray) -> IntArray:
        """Find the boxes of cells (n x N) as `flat` wants them: N x n, since it reads mode after mode."""
        quotient = self.quotient
        short = np.uint8 if max(quotient.merged_shape, default=1) <= 256 else np.int64
        out = np.zeros((cells.shape[1], len(cells)), dtype=short)
        for start in range(0, len(cells), ROWS):
            part = slice(start, start + ROWS)
            for k in np.flatnonzero(self.tree.home >= 0).tolist():
                column = cells[part, k]
                merged = len(quotient.cuts[k]) < quotient.shape[k]
                out[k, part] = quotient.boxes_along(k, column) if merged else column
        return out

    def flat(self, c: int, columns: IntArray) -> IntArray:
        """Find the number of each cell in a clique's table; `columns` holds merged coordinates, N x n."""
        clique = self.tree.cliques[c]
        out: IntArray = columns[clique.modes[0]].astype(np.int64)
        for k, length in zip(clique.modes[1:], clique.shape[1:], strict=True):
            out *= length
            out += columns[k]
        return out

    def counts(self, cells: IntArray, weights: FloatArray | None = None) -> FloatArray:
        """Count the cells (n x N, not merged) that fall on each cell of each table, or add up their weights."""
        columns, out = self.columns(cells), np.empty(self.size)
        for c, (where, _) in enumerate(self.matrices):
            out[where] = np.bincount(self.flat(c, columns), weights, where.stop - where.start)
        return out

    def at(self, tables: FloatArray, cells: IntArray) -> FloatArray:
        """Add up, for each cell (n x N, not merged), what the tables hold at it."""
        columns, out = self.columns(cells), np.zeros(len(cells))
        for c, (where, _) in enumerate(self.matrices):
            out += tables[where].take(self.flat(c, columns))
        return out

    @cached_property
    def log_lengths(self) -> FloatArray:
        """The logarithm of how many levels each merged level stands for, in the table that the mode is own to."""
        out = np.zeros(self.size)
        for (where, _), clique in zip(self.matrices, self.tree.cliques, strict=True):
            table = out[where].reshape(clique.shape)
            for axis in range(clique.shared, len(clique.shape)):
                sides = np.log(self.quotient.lengths[clique.modes[axis]])
                table += sides.reshape(-1, *[1] * (len(clique.shape) - axis - 1))
        return out

    @cached_property
    def log_rest(self) -> float:
        """The logarithm of the number of cells in the modes that no parameter concerns."""
        pairs = zip(self.quotient.merged_shape, self.quotient.shape, strict=True)
        return float(sum(np.log(length) for merged, length in pairs if merged == 1))

    def sums_below(self, vector: FloatArray) -> FloatArray:
        """Add up what a vector on B has at or below each cell of its table: the terms of ``zeta(vector)``."""
        out = np.zeros(self.size)
        out[self.positions] = vector
        for start, stop, shape in self.groups:
            accumulate(out[start:stop].reshape(-1, *shape), first=1)
        return out

    def sums_above(self, tables: FloatArray) -> FloatArray:
        """Add up what stands at or above each parameter in its table."""
        return self.suffix_sums(tables)[self.positions]

    def suffix_sums(self, tables: FloatArray) -> FloatArray:
        """Add up what stands at or above each cell in its table."""
        out = tables.copy()
        for start, stop, shape in self.groups:
            stack = out[start:stop].reshape(-1, *shape)
            accumulate(reverse(stack), first=1)
        return out


def reverse(stack: FloatArray) -> FloatArray:
    """View a stack of tables with every mode reversed; np.flip takes ten times as long to say the same."""
    return stack[(slice(None), *[slice(None, None, -1)] * (stack.ndim - 1))]
