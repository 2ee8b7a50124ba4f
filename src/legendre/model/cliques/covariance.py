"""Fisher matrix on a tree of cliques: the covariance of two parameters is computed in their lowest common ancestor.

Given the cell of a clique, what lies below it in different children is independent. So it is enough to know, for
every parameter u below a clique, the mean of its feature given each cell of the modes that the clique shares with its
parent, less eta_u: a matrix that is carried up the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from legendre.core.sums.zeta import accumulate
from legendre.core.types import FloatArray, IntArray
from legendre.model.cliques.graph import Clique
from legendre.model.cliques.messages import Beliefs, Link
from legendre.model.cliques.tables import Tables, reverse

BLOCK = 1 << 20  # numbers that are held at a time for rows of parameters by cells of a clique


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
            _put(out, part.rows, every.rows[stop:], (part.means * shared) @ every.means[stop:].T)
    return joined


def _meet(out: FloatArray, station: Station, below: list[tuple[Link, Carried]], eta: FloatArray) -> None:
    """Write the covariances of the clique's own parameters, with those below, and of those below different links."""
    out[station.rows[:, None], station.rows] = station.joins(eta[station.rows])
    for i, (link, carried) in enumerate(below):
        for block in _blocks(carried, len(station.margin)):
            joint = link.times(block.means, station.margin)
            _put(out, block.rows, station.rows, _suffix_sums(joint, station.clique.shape)[:, station.cells])
            for other, theirs in below[:i]:
                _put(out, block.rows, theirs.rows, other.reduce_rows(joint) @ theirs.means.T)


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
