"""Rows of observations on a grid too large to be held: only sums over cliques of modes are ever formed."""

from __future__ import annotations

import numpy as np

from legendre.core.errors import InvalidBasis
from legendre.core.types import FloatArray
from legendre.data.sparse import Sparse
from legendre.model.cliques.tables import Tables
from legendre.model.model import Model


def tables_of(model: Model) -> Tables:
    """Lay out the tables of a model's cliques; refuse cliques that are too large."""
    if not model.cliques.fits:
        raise InvalidBasis(model.cliques.trouble())
    return Tables(model, model.cliques)


def clique_sums(data: Sparse, tables: Tables) -> FloatArray:
    """Sum P over each cell of each clique's table.

    Examples
    --------
    >>> from legendre.data.sparse import observe_rows
    >>> from legendre.data.support import Support
    >>> model = Model.of(Support((2,) * 70), None, np.eye(70, dtype=np.int64)[:1])
    >>> data = observe_rows(np.eye(70, dtype=np.int64)[:4], np.ones(4), (2,) * 70)
    >>> clique_sums(data, tables_of(model)).tolist()
    [0.75, 0.25]
    """
    columns, out, values = tables.columns(data.cells), np.empty(tables.size), data.values
    equal = bool((values == values[0]).all())  # counting is faster than adding up
    for c, (where, _) in enumerate(tables.matrices):
        flat = tables.flat(c, columns)
        out[where] = np.bincount(flat, weights=None if equal else values, minlength=where.stop - where.start)
    if equal:
        out *= float(values[0])
    if data.even:
        out += data.even * _even_shares(tables)
    return out / data.total


def _even_shares(tables: Tables) -> FloatArray:
    """Return the share of the whole grid that each cell of each table stands for."""
    out = np.empty(tables.size)
    for clique, (where, _) in zip(tables.cliques, tables.matrices, strict=True):
        share = np.ones(())
        for k in clique.modes:
            lengths = tables.model.quotient.lengths[k]
            share = np.multiply.outer(share, lengths / lengths.sum())
        out[where] = share.ravel()
    return out
