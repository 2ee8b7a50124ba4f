"""The data's margins on the cliques, and the closed form that they give where B fits the cliques' tables whole.

Rows of observations on a grid too large to be held are only ever summed over cliques of modes.
"""

from __future__ import annotations

import numpy as np

from legendre.core.types import FloatArray
from legendre.data.observation import Entries
from legendre.model.cliques.tables import Tables


def clique_sums(entries: Entries, tables: Tables, total: float) -> FloatArray:
    """Sum P over each cell of each clique's table."""
    values = entries.values
    equal = bool((values == values[0]).all())  # counting is faster than adding up
    out = tables.counts(entries.cells, None if equal else values.astype(np.float64))
    if equal:
        out *= float(values[0])
    if entries.even:
        out += entries.even * _even_shares(tables)
    return out / total


def mode_margins(tables: Tables, sums: FloatArray) -> list[FloatArray]:
    """Sum P to each mode, in the table of the clique that the mode is own to."""
    out = []
    for k, home in enumerate(tables.tree.home):
        if home < 0:
            out.append(np.ones(1))
            continue
        (where, _), clique = tables.matrices[home], tables.tree.cliques[home]
        others = tuple(axis for axis, j in enumerate(clique.modes) if j != k)
        out.append(sums[where].reshape(clique.shape).sum(axis=others))
    return out


def _even_shares(tables: Tables) -> FloatArray:
    """Return the share of the whole grid that each cell of each table stands for."""
    out = np.empty(tables.size)
    for clique, (where, _) in zip(tables.tree.cliques, tables.matrices, strict=True):
        share = np.ones(())
        for k in clique.modes:
            lengths = tables.quotient.lengths[k]
            share = np.multiply.outer(share, lengths / lengths.sum())
        out[where] = share.ravel()
    return out


def saturated(tables: Tables) -> bool:
    """Tell whether every cell of every clique's table has a parameter."""
    # a cell belongs to the clique that one of its modes is own to; the rest of each row stands further up
    return sum(states * (inside - 1) for _, (states, inside) in tables.matrices) == len(tables.basis)


def closed_form(tables: Tables, sums: FloatArray) -> FloatArray:
    """Return theta of the distribution that has these margins on the cliques, all of them positive."""
    out = np.log(sums)
    for c, (where, shape) in enumerate(tables.matrices):
        table = out[where].reshape(shape)
        if tables.links[c] is not None:
            table -= np.log(sums[where].reshape(shape).sum(axis=1))[:, None]
    out -= tables.log_lengths
    for start, stop, sides in tables.groups:
        stack = out[start:stop].reshape(-1, *sides)
        for axis in range(1, stack.ndim):
            stack = np.diff(stack, axis=axis, prepend=0.0)
        out[start:stop] = stack.ravel()
    for c in reversed(range(len(tables.tree.cliques))):
        link, (where, shape) = tables.links[c], tables.matrices[c]
        if link is not None:
            above = out[tables.matrices[tables.tree.cliques[c].parent][0]].reshape(link.parent)
            bottom = tuple(slice(0, 1) if axis in link.summed else slice(None) for axis in range(above.ndim))
            above[bottom] += out[where].reshape(shape)[:, 0].reshape(link.kept)
    theta: FloatArray = out[tables.positions]
    return theta


def excess(tables: Tables, sums: FloatArray, margins: FloatArray) -> tuple[float, float]:
    """Return KL(m, q), where m has the margins `sums` on the cliques and q has `margins`; and a bound of ``|m/q - 1|``.

    Both are products of conditional margins on the tree, so that the divergences of the cliques' own modes given
    the shared ones add up, and so do the logarithms of their ratios.
    """
    gap = drift = 0.0
    for where, shape in tables.matrices:
        p, q = sums[where].reshape(shape), margins[where].reshape(shape)
        ratio = np.log(p / q) - np.log(p.sum(axis=1) / q.sum(axis=1))[:, None]
        gap += float((p * ratio).sum())
        drift += float(np.abs(ratio).max())
    return max(gap, 0.0), float(np.expm1(drift))
