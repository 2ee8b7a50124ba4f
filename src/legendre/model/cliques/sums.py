"""Rows of observations on a grid too large to be held: only sums over cliques of modes are ever formed."""

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
