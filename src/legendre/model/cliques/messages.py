"""Messages between the tables of cliques: exact sums, maxima and covariances over grids of any size.

What two neighbouring cliques share is all that they need to know of each other: the sums of one table over the modes
that are not shared are added to the other (Lauritzen and Spiegelhalter 1988). The covariance of two parameters is
computed in their lowest common ancestor: given the cell of a clique, what lies below it in different children is
independent, so that the mean of each feature below given the modes shared with the parent, less eta, is carried up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray
from legendre.model.cliques.graph import Clique

if TYPE_CHECKING:
    from legendre.model.cliques.tables import Tables

BLOCK = 1 << 20  # numbers that are held at a time for rows of parameters by cells of a clique


@dataclass(frozen=True)
class Link:
    """How a clique's table lies in its parent's: axes of the parent that follow each other are taken together."""

    parent: tuple[int, ...]  # the shape of the parent's table, axes taken together
    kept: tuple[int, ...]  # the same with length 1 where the child does not share the axes
    summed: tuple[int, ...]  # those axes

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

    def reduce(self, table: FloatArray, by: np.ufunc = np.add) -> FloatArray:
        """Sum a parent's table over what is not shared, or take its maximum there."""
        return np.asarray(by.reduce(table.reshape(self.parent), axis=self.summed)).ravel()

    def times(self, rows: FloatArray, table: FloatArray) -> FloatArray:
        """Multiply each row, values on the shared modes, by the parent's table: one table for each row."""
        product: FloatArray = rows.reshape(-1, *self.kept) * table.reshape(self.parent)
        return product.reshape(len(rows), -1)

    def reduce_rows(self, tables: FloatArray) -> FloatArray:
        """Sum tables, one in each row, over what is not shared."""
        sums = tables.reshape(-1, *self.parent).sum(axis=tuple(axis + 1 for axis in self.summed))
        return np.asarray(sums).reshape(len(tables), -1)


def links_of(cliques: Sequence[Clique]) -> list[Link | None]:
    """Compare each clique with its parent; ``None`` for roots."""
    return [Link.of(clique, cliques[clique.parent]) if clique.parent >= 0 else None for clique in cliques]


@dataclass(frozen=True, eq=False)
class Beliefs:
    """Q on the cliques: the distribution of each one's own modes given the shared ones, and its margin."""

    given: FloatArray
    margins: FloatArray


def propagate(tables: Tables, theta: FloatArray) -> tuple[float, Beliefs]:
    """Compute psi and Q on the cliques: logarithms on the way up, and on the way down there is nothing to divide."""
    links, matrices = tables.links, tables.matrices
    given = tables.sums_below(theta)
    given += tables.log_lengths
    if tables.alive is not None:
        given[~tables.alive] = -np.inf
    psi = tables.log_rest
    for c in reversed(range(len(links))):
        (where, shape), link = matrices[c], links[c]
        message = _normalise(given[where].reshape(shape), partial=tables.alive is not None)
        top = float(message.max())  # taken out, so that what is passed on stays small
        psi += top
        if top == -np.inf:  # no cell is left that carries probability
            return psi, Beliefs(np.zeros(tables.size), np.zeros(tables.size))
        if link is not None:
            message -= top
            link.add(message, given[tables.parents[c]])
    margins = np.empty(tables.size)
    for c, ((where, shape), link) in enumerate(zip(matrices, links, strict=True)):
        if link is None:
            margins[where] = given[where]
        else:
            shared = link.reduce(margins[tables.parents[c]])
            np.multiply(given[where].reshape(shape), shared[:, None], out=margins[where].reshape(shape))
    return psi, Beliefs(given, margins)


def _normalise(table: FloatArray, *, partial: bool) -> FloatArray:
    """Turn rows of logarithms into rows that sum to 1, in place, and return the logarithms of their sums.

    Where only a part of the cells carries probability, rows may have none: they become 0, their logarithm is -inf.
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


def largest_sum(tables: Tables, parts: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest value of a sum over cliques; overwrite its terms `parts` with the largest sum at each cell."""
    links, matrices = tables.links, tables.matrices
    if tables.alive is not None:
        parts[~tables.alive] = -np.inf
    messages: list[FloatArray] = [np.empty(0)] * len(links)
    total = 0.0
    for c in reversed(range(len(links))):
        (where, shape), link = matrices[c], links[c]
        messages[c] = parts[where].reshape(shape).max(axis=1)
        if link is None:
            total += float(messages[c][0])
        else:
            link.add(messages[c], parts[tables.parents[c]])
    for c, ((where, shape), link) in enumerate(zip(matrices, links, strict=True)):
        if link is None:
            parts[where] += total - float(messages[c][0])
        else:
            table = parts[where].reshape(shape)
            inside = np.where(messages[c] > -np.inf, messages[c], 0.0)  # of rows without a cell nothing is taken out
            table += (link.reduce(parts[tables.parents[c]], np.maximum) - inside)[:, None]
    return total, parts


@dataclass(frozen=True, eq=False)
class Carried:
    """Parameters below a clique, and the means of their features given the shared modes, less eta."""

    rows: IntArray
    means: FloatArray


@dataclass(frozen=True, eq=False)
class Station:
    """A clique, the parameters in its table, and Q there: the margin, and own modes given the shared ones."""

    clique: Clique
    rows: IntArray
    cells: IntArray
    margin: FloatArray
    given: FloatArray

    def joins(self, eta: FloatArray) -> FloatArray:
        """Read the covariances of the own features from eta at joins."""
        above = _suffix_sums(self.margin[None], self.clique.shape)[0]
        levels = np.unravel_index(self.cells, self.clique.shape)
        joint = np.zeros((len(self.cells), len(self.cells)), dtype=np.int64)
        for level, length in zip(levels, self.clique.shape, strict=True):
            joint *= length
            joint += np.maximum.outer(level, level)
        return np.asarray(above[joint] - np.multiply.outer(eta, eta))

    def own_means(self) -> FloatArray:
        """Compute the means of the own features given the shared modes: where those are high enough, a suffix sum."""
        shared, own = self.clique.shape[: self.clique.shared], self.clique.shape[self.clique.shared :]
        n, (states, inside) = len(self.cells), self.given.shape
        reached = np.zeros((n, states))
        reached[np.arange(n), self.cells // inside] = 1.0
        accumulate(reached.reshape(n, *shared), first=1)
        reached *= _suffix_sums(self.given, own)[:, self.cells % inside].T
        return reached


def covariance(tables: Tables, eta: FloatArray, q: Beliefs, out: FloatArray) -> None:
    """Fill a k x k matrix with the covariances of the features, from their expectations eta and Q on the cliques."""
    out[:] = 0.0
    waiting: dict[int, list[tuple[Link, Carried]]] = {}
    own: dict[int, IntArray] = dict(tables.by_clique())
    nothing = np.empty(0, dtype=np.int64)
    for c in reversed(range(len(tables.links))):
        (where, shape), link, rows = tables.matrices[c], tables.links[c], own.get(c, nothing)
        cells, clique = tables.positions[rows] - where.start, tables.tree.cliques[c]
        station = Station(clique, rows, cells, q.margins[where], q.given[where].reshape(shape))
        below = _joined(out, station, waiting.pop(c, []))
        _meet(out, station, below, eta)
        if link is not None:
            waiting.setdefault(clique.parent, []).append((link, _carry(station, below, eta)))


def _joined(out: FloatArray, station: Station, children: list[tuple[Link, Carried]]) -> list[tuple[Link, Carried]]:
    """Take children together that share the same modes: one product gives the covariances between them."""
    together: dict[Link, list[Carried]] = {}
    for link, carried in children:
        together.setdefault(link, []).append(carried)
    joined = []
    for link, parts in together.items():
        every = Carried(np.concatenate([p.rows for p in parts]), np.concatenate([p.means for p in parts]))
        joined.append((link, every))
        shared, stop = link.reduce(station.margin), 0
        for part in parts[:-1]:
            stop += len(part.rows)
            joint = (part.means * shared) @ every.means[stop:].T
            _put(out, part.rows, every.rows[stop:], joint)
    return joined


def _meet(out: FloatArray, station: Station, below: list[tuple[Link, Carried]], eta: FloatArray) -> None:
    """Write the covariances of the clique's own parameters, with those below, and of those below different links."""
    out[station.rows[:, None], station.rows] = station.joins(eta[station.rows])
    for i, (link, carried) in enumerate(below):
        for block in _blocks(carried, len(station.margin)):
            joint = link.times(block.means, station.margin)
            _put(out, block.rows, station.rows, _suffix_sums(joint, station.clique.shape)[:, station.cells])
            for other, theirs in below[:i]:
                reduced = other.reduce_rows(joint)
                between = reduced @ theirs.means.T
                _put(out, block.rows, theirs.rows, between)


def _carry(station: Station, below: list[tuple[Link, Carried]], eta: FloatArray) -> Carried:
    """Take the means from the modes that children share to those that the clique shares with its parent."""
    rows, means = [station.rows], [station.own_means() - eta[station.rows, None]]
    table, (states, _) = station.given.ravel(), station.given.shape
    for link, carried in below:
        rows.append(carried.rows)
        means += [
            link.times(block.means, table).reshape(len(block.rows), states, -1).sum(axis=2)
            for block in _blocks(carried, len(station.margin))
        ]
    return Carried(np.concatenate(rows), np.concatenate(means))


def _put(out: FloatArray, rows: IntArray, columns: IntArray, values: FloatArray) -> None:
    out[rows[:, None], columns] = values
    out[columns[:, None], rows] = values.T


def _blocks(carried: Carried, n_cells: int) -> Iterator[Carried]:
    step = max(1, BLOCK // n_cells)
    for start in range(0, len(carried.rows), step):
        yield Carried(carried.rows[start : start + step], carried.means[start : start + step])


def _suffix_sums(tables: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Add up what stands at or above each cell of tables, one in each row."""
    out = tables.copy().reshape(-1, *shape)
    accumulate(reverse(out), first=1)
    return out.reshape(len(tables), -1)


def reverse(stack: FloatArray) -> FloatArray:
    """View a stack of tables with every mode reversed; np.flip takes ten times as long to say the same."""
    return stack[(slice(None), *[slice(None, None, -1)] * (stack.ndim - 1))]
