"""Tables over the cliques of a model in one array: the data's sums in them, closed forms, faces, and messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import accumulate
from legendre.core.types import BoolArray, FloatArray, IntArray, Modes, S, Shape, frozen
from legendre.data.sparse import Sparse
from legendre.model.cliques.graph import Clique, CliqueTree


@dataclass(frozen=True)
class Link:
    """How the modes that a clique shares with its parent lie in the parent's table: messages between the two use it."""

    above: int  # the number of the parent
    shape: Shape  # of the parent's table
    shared_shape: Shape  # the same with length 1 for axes that are not shared
    summed: Modes  # the numbers of the axes that are not shared

    @classmethod
    def of(cls, child: Clique, parent: Clique) -> Link:
        """Find the shared modes of a clique among the axes of its parent."""
        summed = tuple(axis for axis, k in enumerate(parent.modes) if k not in child.modes[: child.shared])
        shared_shape = tuple(1 if axis in summed else length for axis, length in enumerate(parent.shape))
        return cls(child.parent, parent.shape, shared_shape, summed)

    def add(self, values: FloatArray, table: FloatArray) -> None:
        """Add a message, with an entry for each cell of the shared modes, to the parent's table, in place.

        The table is a matrix from `Tables.matrices`; a third axis, which numbers vectors, is carried along.
        """
        rest = table.shape[2:]
        view = table.reshape(*self.shape, *rest)
        view += values.reshape(*self.shared_shape, *rest)

    def reduce(self, table: FloatArray, by: np.ufunc = np.add) -> FloatArray:
        """Sum the parent's table over the modes that are not shared, or take maxima: an entry for each shared cell."""
        rest = table.shape[2:]
        return np.asarray(by.reduce(table.reshape(*self.shape, *rest), axis=self.summed)).reshape(-1, *rest)


# Cells that vanish. If B fits the tables of a junction tree exactly, the limit Q is the product of the data's tables
# divided by the tables of the separators (Lauritzen 1996, section 4.4). A cell of the grid therefore carries
# probability if each table does at the cell that it falls on.

Marks = tuple[Modes, BoolArray]  # modes that B couples, and which of their merged cells carry probability


@frozen
class Beliefs:
    """Q on the cliques, in the layout of `Tables`."""

    given: FloatArray  # the distribution of each clique's own modes given the shared ones: rows of matrices sum to 1
    margins: FloatArray  # the joint distribution of each clique's modes


@frozen
class Tables:
    """The layout of the tables of all cliques in one array.

    Tables of the same shape are contiguous, so that prefix sums along their modes are computed for all of them at once.
    """

    quotient: Quotient  # the boxes of a full grid without a base measure
    positions: IntArray  # the cells of B in merged coordinates, k x N
    tree: CliqueTree  # the cliques of the modes that they couple
    alive: BoolArray | None = None  # (size,) marks cells that carry probability, see `marks`; ``None``: all do

    @cached_property
    def size(self) -> int:
        """The number of cells of all tables together: the length of the array."""
        return self.tree.n_cells

    @cached_property
    def groups(self) -> list[tuple[int, int, Shape]]:
        """For each shape of tables: where these tables start and end in the array, and the shape."""
        out, stop = [], 0
        for shape, n in Counter(clique.shape for clique in self.tree.cliques).items():
            start, stop = stop, stop + n * math.prod(shape)
            out.append((start, stop, shape))
        return out

    @cached_property
    def _layout(self) -> list[tuple[slice, tuple[int, int]]]:
        """For each clique, where its table lies, and its shape as a matrix: shared cells x cells of its own modes."""
        starts, out = {shape: start for start, _, shape in self.groups}, []  # of the next table of each shape
        for clique in self.tree.cliques:
            start, sides = starts[clique.shape], (clique.shape[: clique.shared], clique.shape[clique.shared :])
            n_rows, n_columns = map(math.prod, sides)
            starts[clique.shape] = stop = start + n_rows * n_columns
            out.append((slice(start, stop), (n_rows, n_columns)))
        return out

    @cached_property
    def saturated(self) -> bool:
        """Whether every cell of every clique's table has a parameter, so that Q has the data's tables exactly.

        The minimum then has a closed form (`closed_form`).
        """
        # Column 0 of a matrix has the cells that are 0 in all of the clique's own modes. They concern shared modes
        # only, so their parameters belong to the parent's table (at a root, it is the bottom); others have one here.
        return sum(n_rows * (n_columns - 1) for _, (n_rows, n_columns) in self._layout) == len(self.positions)

    @property
    def marks(self) -> tuple[Marks, ...]:
        """The marks of each table in which some cells carry no probability; they do not depend on the layout."""
        if self.alive is None:
            return ()
        pairs = zip(self.tree.cliques, self.matrices(self.alive), strict=True)
        return tuple((clique.modes, alive.reshape(clique.shape)) for clique, alive in pairs if not alive.all())

    def with_marks(self, found: Sequence[Marks]) -> Tables:
        """Return these tables with cells marked as `marks` found them in tables of another layout.

        A question about a joint margin needs a junction tree that has a clique for it; this carries the face of a fit
        over. Some clique must hold all modes of each table that was found.
        """
        every = np.ones(self.size, dtype=np.bool_)
        for modes, alive in found:
            home = self.tree.home_of(modes)
            clique = self.tree.cliques[home]
            table = self.matrices(every)[home].reshape(clique.shape)
            table &= _broadcast_table(alive, modes, clique.modes)
        return replace(self, alive=every) if found else self

    @property
    def n_free(self) -> int:
        """The number of independent parameters on a face, for a B that fits all tables exactly.

        Each table has as many as it has living cells, minus one for each living cell of the shared modes: a conditional
        distribution sums to 1.
        """
        assert self.alive is not None
        return sum(int(table.sum()) - int(table.any(axis=1).sum()) for table in self.matrices(self.alive))

    @property
    def n_carrying(self) -> int:
        """The number of unmerged cells of the grid that carry probability: exact below 10^13, else to about 13 digits.

        At theta = 0, psi is the logarithm of this number.
        """
        if self.alive is None:
            return math.prod(self.quotient.shape)
        # a float holds powers of 2 up to 1023: beyond 2^60 the rest is shifted as an integer
        bits = self.propagate(np.zeros(len(self.positions)))[0] / math.log(2.0)
        if bits == -math.inf:
            return 0
        spare = max(int(bits) - 60, 0)
        return round(math.pow(2.0, bits - spare)) << spare

    def matrices(self, tables: NDArray[S]) -> list[NDArray[S]]:
        """View the table of each clique as a matrix: rows are cells of the shared modes, columns of its own modes.

        `tables` holds all tables; a second axis of it, which numbers vectors, becomes the third of the matrices.
        """
        return [tables[where].reshape(*shape, *tables.shape[1:]) for where, shape in self._layout]

    @cached_property
    def links(self) -> list[Link | None]:
        """For each clique, how it lies in its parent; ``None`` for roots."""
        cliques = self.tree.cliques
        return [Link.of(clique, cliques[clique.parent]) if clique.parent >= 0 else None for clique in cliques]

    @cached_property
    def places(self) -> IntArray:
        """(k,) the place of each cell of B in the array: in the table of its home clique."""
        out = np.empty(len(self.positions), dtype=np.int64)
        for c, rows in self.by_clique():
            out[rows] = self._layout[c][0].start + self.flat(c, self.positions[rows].T)
        return out

    def by_clique(self) -> Iterator[tuple[int, IntArray]]:
        """Yield the number of each clique that has parameters, and the numbers of these."""
        homes = self.tree.homes(self.positions)
        order = np.argsort(homes, kind="stable")
        found, first = np.unique(homes[order], return_index=True)
        yield from zip(found.tolist(), np.split(order, first[1:]), strict=False)  # without parameters there is none

    def merge_by_mode(self, cells: IntArray, block: int = 1 << 12) -> IntArray:
        """Find the merged coordinates of cells (n x N, not merged), transposed to N x n: `flat` reads mode after mode.

        Modes that are in no clique stay 0. Cells are read a `block` at a time, which stays in the processor's cache.
        """
        quotient = self.quotient
        # bytes, if they suffice, need an eighth of the memory
        short = np.uint8 if max(quotient.merged_shape, default=1) <= 256 else np.int64
        out = np.zeros((cells.shape[1], len(cells)), dtype=short)
        for start in range(0, len(cells), block):
            part = slice(start, start + block)
            for k in np.flatnonzero(self.tree.home >= 0).tolist():
                column = cells[part, k]
                is_merged = len(quotient.cuts[k]) < quotient.shape[k]
                out[k, part] = quotient.boxes_along(k, column) if is_merged else column
        return out

    def flat(self, c: int, by_mode: IntArray) -> IntArray:
        """Find the place (C order) of n cells in the table of clique c; `by_mode` is what `merge_by_mode` returns."""
        clique = self.tree.cliques[c]
        out: IntArray = by_mode[clique.modes[0]].astype(np.int64)
        for k, length in zip(clique.modes[1:], clique.shape[1:], strict=True):
            out *= length
            out += by_mode[k]
        return out

    def counts(self, cells: IntArray, weights: FloatArray | None = None) -> FloatArray:
        """Count the cells (n x N, not merged) that fall on each cell of each table, or add up their weights (n,)."""
        by_mode, out = self.merge_by_mode(cells), np.empty(self.size)
        for c, table in enumerate(self.matrices(out)):
            table[:] = np.bincount(self.flat(c, by_mode), weights, table.size).reshape(table.shape)
        return out

    def at(self, tables: FloatArray, cells: IntArray) -> FloatArray:
        """Add up, for each of n cells (n x N, not merged), the entries of all tables that it falls on.

        If the tables hold the terms of a sum over cliques, such as log q, this is the sum.
        """
        by_mode, out = self.merge_by_mode(cells), np.zeros(len(cells))
        for c, table in enumerate(self.matrices(tables)):
            out += table.take(self.flat(c, by_mode))
        return out

    @cached_property
    def log_lengths(self) -> FloatArray:
        """(size,) the logarithm of how many unmerged cells of the clique's own modes each cell of its table stands for.

        Shared modes are left out, because they are another clique's own: so each mode counts once.
        """
        out = np.empty(self.size)
        for matrix, clique in zip(self.matrices(out), self.tree.cliques, strict=True):
            log_lengths = [np.log(self.quotient.lengths[k]) for k in clique.modes[clique.shared :]]
            matrix[:] = reduce(np.add.outer, log_lengths).ravel()
        return out

    @cached_property
    def log_rest(self) -> float:
        """The logarithm of the number of cells in the modes that no parameter concerns: a constant part of psi."""
        pairs = zip(self.quotient.merged_shape, self.quotient.shape, strict=True)
        return float(sum(np.log(length) for merged, length in pairs if merged == 1))

    def sums_below(self, vector: FloatArray) -> FloatArray:
        """Compute prefix sums of a vector on B (k,), or of each column (k x n), within the tables.

        Each parameter is in one table, so ``zeta(vector)`` at a cell is the sum over the tables that it falls on.
        """
        out = np.zeros((self.size, *vector.shape[1:]))
        out[self.places] = vector
        for stack in self._stacks(out):
            accumulate(stack, first=out.ndim)
        return out

    def sums_above(self, tables: FloatArray) -> FloatArray:
        """Sum a table at or above each cell of B: eta from margins on the cliques. The adjoint of `sums_below`.

        `tables` may have a second axis; the sums then have it too.
        """
        return self.cumulate(tables)[self.places]

    def cumulate(self, tables: FloatArray) -> FloatArray:
        """Sum each table at or above each of its cells."""
        out = tables.copy()
        for stack in self._stacks(out):
            # reverse the modes by slices: np.flip does the same in ten times the time
            modes = [slice(None, None, -1)] * (stack.ndim - out.ndim)
            accumulate(stack[(slice(None),) * out.ndim + tuple(modes)], first=out.ndim)
        return out

    def sum_entries(self, entries: Sparse, total: float) -> FloatArray:
        """Sum P over each cell of each clique's table, for a sparse X with this total.

        `entries.even` is mass that is spread evenly over the full grid, beside the listed entries.
        """
        out = self.counts(entries.cells, entries.values.astype(np.float64))
        if entries.even:  # each cell of each table stands for a share of the full grid
            shares = [lengths / lengths.sum() for lengths in self.quotient.lengths]
            for clique, table in zip(self.tree.cliques, self.matrices(out), strict=True):
                share = reduce(np.multiply.outer, [shares[k] for k in clique.modes])
                table += entries.even * share.reshape(table.shape)
        return out / total

    def lay_out(self, sums: Sequence[FloatArray]) -> FloatArray:
        """Put one table for each clique, with axes in the order of its modes, into one array as `Tables` has it."""
        out = np.empty(self.size)
        for matrix, table in zip(self.matrices(out), sums, strict=True):
            matrix[:] = table.reshape(matrix.shape)
        return out

    def closed_form(self, sums: FloatArray) -> FloatArray:
        """Return theta of the distribution with these margins on the cliques: the product of conditional margins.

        Each clique contributes its margin given the shared modes (Lauritzen 1996, section 4.4). `sums` must be positive
        at all cells of tables that can carry probability.
        """
        log_q = _log_or_zero(sums)
        for conditional, table, link in zip(self.matrices(log_q), self.matrices(sums), self.links, strict=True):
            if link is not None:
                conditional -= _log_or_zero(table.sum(axis=1))[:, None]
        log_q -= self.log_lengths  # from a merged cell to the cells that it stands for
        return self.theta_of(log_q)

    def theta_of(self, terms: FloatArray) -> FloatArray:
        """Return theta (k,) whose zeta is, up to a constant, the sum of the terms of all cliques; overwrite these.

        This is Möbius inversion within each table: differences along every mode. Every table must have all its
        parameters.
        """
        for start, stop, shape in self.groups:
            stack = terms[start:stop].reshape(-1, *shape)
            for axis in range(1, stack.ndim):
                stack = np.diff(stack, axis=axis, prepend=0.0)
            terms[start:stop] = stack.ravel()
        matrices = self.matrices(terms)
        for table, link in zip(reversed(matrices), reversed(self.links), strict=True):
            if link is not None:  # what concerns only shared modes (column 0) belongs to the parent's parameters
                above = matrices[link.above].reshape(link.shape)
                bottom = tuple(slice(0, 1) if axis in link.summed else slice(None) for axis in range(above.ndim))
                above[bottom] += table[:, 0].reshape(link.shared_shape)
        return terms[self.places]

    def excess(self, sums: FloatArray, margins: FloatArray) -> tuple[float, float]:
        """Return KL(m, q), where m has the margins `sums` on the cliques and q `margins`; and a bound on ``|m/q - 1|``.

        Near the closed form, m is the minimum and q the computed point, so this is the gap left by rounding. Both are
        products of conditional margins on the tree: divergences of the conditionals add up, and so do their log ratios.
        """
        gap = drift = 0.0
        for m, q in zip(self.matrices(sums), self.matrices(margins), strict=True):
            filled = m.sum(axis=1) > 0  # rows of cells that vanish have no mass in either
            m, q = m[filled], q[filled]
            ratio = np.log(np.divide(m, q, out=np.ones_like(m), where=m > 0))
            # from margins to conditionals: subtract the log ratio of the shared modes' margins
            ratio -= np.where(m > 0, np.log(m.sum(axis=1) / q.sum(axis=1))[:, None], 0.0)
            gap += float((m * ratio).sum())
            drift += float(np.abs(ratio).max())
        return max(gap, 0.0), float(np.expm1(drift))

    # Messages between the tables give exact sums and maxima over grids of any size. A message from a clique to its
    # neighbour is a table over the modes that they share, in which the other modes have been summed out (Lauritzen and
    # Spiegelhalter 1988).

    def propagate(self, theta: FloatArray) -> tuple[float, Beliefs]:
        """Compute psi and Q on the cliques by messages: first from the leaves to the roots, then back.

        Upwards, each table is normalised given the modes that it shares with its parent; the logarithms of the sums are
        added to the parent. Downwards, these conditional distributions are multiplied by the parents' margins.
        """
        given = self.sums_below(theta)
        given += self.log_lengths
        if self.alive is not None:
            given[~self.alive] = -np.inf
        psi, links, matrices = self.log_rest, self.links, self.matrices(given)
        for table, link in zip(reversed(matrices), reversed(links), strict=True):
            message = _normalise(table, partial=self.alive is not None)
            top = float(message.max())  # goes to psi, so that the messages stay small and lose no digits
            psi += top
            if top == -np.inf:  # no cell is left that carries probability
                return psi, Beliefs(np.zeros(self.size), np.zeros(self.size))
            if link is not None:
                message -= top
                link.add(message, matrices[link.above])
        margins = np.empty(self.size)
        filled = self.matrices(margins)
        for table, margin, link in zip(matrices, filled, links, strict=True):
            shared = 1.0 if link is None else link.reduce(filled[link.above])[:, None]
            np.multiply(table, shared, out=margin)
        return psi, Beliefs(given, margins)

    def largest_sum(self, terms: FloatArray) -> tuple[float, FloatArray]:
        """Return the maximum over all cells of a sum of a term for each clique, and its maxima given a table's cells.

        `terms`, such as those of log q, are overwritten with these "max-marginals". As `propagate`, with maxima instead
        of sums (the Viterbi algorithm, if the tree is a chain).
        """
        if self.alive is not None:
            terms[~self.alive] = -np.inf
        links, matrices = self.links, self.matrices(terms)
        messages = []  # from the last clique to the first
        total = 0.0
        for table, link in zip(reversed(matrices), reversed(links), strict=True):
            messages.append(table.max(axis=1))
            if link is None:
                total += float(messages[-1][0])
            else:
                link.add(messages[-1], matrices[link.above])
        for table, message, link in zip(matrices, reversed(messages), links, strict=True):
            if link is None:
                table += total - float(message[0])
            else:
                # replace the maximum over the clique's own side by that over everything; rows without a cell stay -inf
                inside = np.where(message > -np.inf, message, 0.0)
                table += (link.reduce(matrices[link.above], np.maximum) - inside)[:, None]
        return total, terms

    def _stacks(self, tables: FloatArray) -> Iterator[FloatArray]:
        """View the tables of each shape as one array: vectors if there are several, tables, then the modes."""
        for start, stop, shape in self.groups:
            stack = tables[start:stop].reshape(-1, *shape, *tables.shape[1:])
            yield stack if tables.ndim == 1 else np.moveaxis(stack, -1, 0)


def _log_or_zero(sums: FloatArray) -> FloatArray:
    """Take logarithms; 0 belongs to cells that vanish, where any finite number will do."""
    return np.log(np.where(sums > 0, sums, 1.0))


def on_grid(found: Iterable[Marks], merged_shape: Shape) -> BoolArray:
    """Mark the merged cells that carry probability, as an array of this shape: those that are marked in every table."""
    out = np.ones(merged_shape, dtype=np.bool_)
    for modes, alive in found:
        out &= _broadcast_table(alive, modes, tuple(range(len(merged_shape))))
    return out


def _broadcast_table(table: BoolArray, modes: Modes, every: Modes) -> BoolArray:
    """Transpose a table over `modes` and insert axes of length 1, so that it broadcasts over `every` mode."""
    turned = table.transpose([modes.index(k) for k in every if k in modes])
    return np.expand_dims(turned, tuple(axis for axis, k in enumerate(every) if k not in modes))


def _normalise(table: FloatArray, *, partial: bool) -> FloatArray:
    """Turn rows of logarithms into rows of probabilities, in place; return the log-sum-exp of each row.

    With `partial` some cells carry no probability (-inf). A row that has no others becomes 0, and its sum is -inf.
    """
    peaks = table.max(axis=1)
    if partial:
        empty = peaks == -np.inf
        peaks[empty] = 0.0
    table -= peaks[:, None]
    np.exp(table, out=table)
    sums = table.sum(axis=1)
    if partial:
        sums[empty] = 1.0
    table /= sums[:, None]
    message: FloatArray = np.log(sums)
    message += peaks
    if partial:
        message[empty] = -np.inf
    return message
