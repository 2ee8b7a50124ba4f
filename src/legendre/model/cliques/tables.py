"""Tables over the cliques of a model, one behind the other in one array: where theta stands, and how they meet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray
from legendre.model.cliques.graph import Clique, CliqueTree
from legendre.model.model import Model

ROWS = 1 << 12
"""Cells that are read at a time: neighbouring columns of so many rows stay in the processor's cache."""


@dataclass(frozen=True)
class Link:
    """How a clique's table lies in its parent's: axes of the parent that follow each other are taken together.

    Parameters
    ----------
    parent
        The shape of the parent's table, axes taken together.
    kept
        The same with length 1 where the child does not share the axes.
    summed
        Those axes.
    """

    parent: tuple[int, ...]
    kept: tuple[int, ...]
    summed: tuple[int, ...]

    @classmethod
    def of(cls, child: Clique, parent: Clique) -> Link:
        """Compare the modes of two cliques."""
        common = set(child.modes[: child.shared])
        lanes: list[list[int]] = []
        for k, length in zip(parent.modes, parent.shape, strict=True):
            if lanes and lanes[-1][1] == (k in common):
                lanes[-1][0] *= length
            else:
                lanes.append([length, int(k in common)])
        return cls(
            tuple(length for length, _ in lanes),
            tuple(length if shared else 1 for length, shared in lanes),
            tuple(axis for axis, (_, shared) in enumerate(lanes) if not shared),
        )

    def add(self, values: FloatArray, table: FloatArray) -> None:
        """Add what is said of the shared modes to the parent's table."""
        view = table.reshape(self.parent)
        view += values.reshape(self.kept)

    def reduce(self, table: FloatArray) -> FloatArray:
        """Sum a parent's table over what is not shared."""
        sums: FloatArray = np.add.reduce(table.reshape(self.parent), axis=self.summed)
        return sums.ravel()

    def largest(self, table: FloatArray) -> FloatArray:
        """Take the maximum of a parent's table over what is not shared."""
        peaks: FloatArray = np.maximum.reduce(table.reshape(self.parent), axis=self.summed)
        return peaks.ravel()

    def times(self, rows: FloatArray, table: FloatArray) -> FloatArray:
        """Multiply each row, values on the shared modes, by the parent's table: one table for each row."""
        product: FloatArray = rows.reshape(-1, *self.kept) * table.reshape(self.parent)
        return product.reshape(len(rows), -1)

    def reduce_rows(self, tables: FloatArray) -> FloatArray:
        """Sum tables, one in each row, over what is not shared."""
        sums = tables.reshape(-1, *self.parent).sum(axis=tuple(axis + 1 for axis in self.summed))
        return np.asarray(sums).reshape(len(tables), -1)


@dataclass(frozen=True, eq=False)
class Tables:
    """The layout of all tables in one array; those of one shape lie together, so that sums along modes run at once.

    Parameters
    ----------
    model
        A model on a full grid without a base measure.
    tree
        Its cliques.
    """

    model: Model
    tree: CliqueTree

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques."""
        return self.tree.cliques

    @cached_property
    def size(self) -> int:
        """The number of cells of all tables."""
        return self.tree.n_cells

    @cached_property
    def groups(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """Where tables of one shape start and end, and that shape."""
        count: dict[tuple[int, ...], int] = {}
        for clique in self.cliques:
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
        for clique in self.cliques:
            out.append(free[clique.shape])
            free[clique.shape] += clique.n_cells
        return out

    @cached_property
    def matrices(self) -> list[tuple[slice, tuple[int, int]]]:
        """Where each table lies, and its shape as a matrix: cells of the shared modes by cells of its own."""
        out = []
        for start, clique in zip(self.starts, self.cliques, strict=True):
            rows = math.prod(clique.shape[: clique.shared])
            out.append((slice(start, start + clique.n_cells), (rows, clique.n_cells // rows)))
        return out

    @cached_property
    def links(self) -> list[Link | None]:
        """How each table lies in its parent's; ``None`` for roots."""
        return [Link.of(c, self.cliques[c.parent]) if c.parent >= 0 else None for c in self.cliques]

    @cached_property
    def homes(self) -> IntArray:
        """The clique of each parameter."""
        return self.tree.homes(self.model.positions)

    @cached_property
    def positions(self) -> IntArray:
        """Where each parameter stands in the array."""
        out = np.empty(self.model.n_params, dtype=np.int64)
        for c, rows in self.by_clique():
            out[rows] = self.starts[c] + self.flat(c, self.model.positions[rows].T)
        return out

    def by_clique(self) -> Iterator[tuple[int, IntArray]]:
        """List the parameters of each clique that has some."""
        order = np.argsort(self.homes, kind="stable")
        ends = np.searchsorted(self.homes[order], np.arange(len(self.cliques) + 1))
        for c in range(len(self.cliques)):
            if ends[c + 1] > ends[c]:
                yield c, order[ends[c] : ends[c + 1]]

    def columns(self, cells: IntArray) -> IntArray:
        """Find the boxes of cells (n x N) as `flat` wants them: N x n, since it reads mode after mode."""
        quotient = self.model.quotient
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
        clique = self.cliques[c]
        out: IntArray = columns[clique.modes[0]].astype(np.int64)
        for k, length in zip(clique.modes[1:], clique.shape[1:], strict=True):
            out *= length
            out += columns[k]
        return out

    @cached_property
    def log_lengths(self) -> FloatArray:
        """The logarithm of how many levels each merged level stands for, in the table that the mode is own to."""
        out = np.zeros(self.size)
        for (where, _), clique in zip(self.matrices, self.cliques, strict=True):
            table = out[where].reshape(clique.shape)
            for axis in range(clique.shared, len(clique.shape)):
                sides = np.log(self.model.quotient.lengths[clique.modes[axis]])
                table += sides.reshape(-1, *[1] * (len(clique.shape) - axis - 1))
        return out

    @cached_property
    def log_rest(self) -> float:
        """The logarithm of the number of cells in the modes that no parameter concerns."""
        pairs = zip(self.model.quotient.merged_shape, self.model.quotient.shape, strict=True)
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
