"""Messages between the tables of cliques: exact sums and maxima over grids of any size.

What two neighbouring cliques share is all that they need to know of each other: the sums of one table over the modes
that are not shared are added to the other (Lauritzen and Spiegelhalter 1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.types import FloatArray

if TYPE_CHECKING:
    from legendre.model.cliques.graph import Clique
    from legendre.model.cliques.tables import Tables


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
    psi = tables.log_rest
    for c in reversed(range(len(links))):
        (where, shape), link = matrices[c], links[c]
        table = given[where].reshape(shape)
        peaks = table.max(axis=1)
        table -= peaks[:, None]
        np.exp(table, out=table)
        sums = table.sum(axis=1)
        table /= sums[:, None]
        message = np.log(sums)
        message += peaks
        top = float(message.max())  # taken out, so that what is passed on stays small
        psi += top
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


def largest_sum(tables: Tables, parts: FloatArray) -> tuple[float, FloatArray]:
    """Return the largest value of a sum over cliques, and in each table the largest of the sums given its cell.

    `parts` holds the terms and is overwritten with the second.
    """
    links, matrices = tables.links, tables.matrices
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
            table += (link.reduce(parts[tables.parents[c]], np.maximum) - messages[c])[:, None]
    return total, parts
