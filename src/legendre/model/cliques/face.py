"""Cells that vanish, told by tables over cliques: a cell of the grid carries probability where all of its tables do.

Where B fits the tables of a tree of cliques whole, the limit Q is the product of the data's tables over what they share
(Lauritzen 1996, section 4.4): it is 0 where a table is, and nowhere else, however many cells the grid has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from legendre.core.sums.quotient import EXACT
from legendre.core.types import AnyArray, BoolArray
from legendre.model.cliques.tables import Tables

Part = tuple[tuple[int, ...], BoolArray]  # modes that B couples, and which of their merged cells carry probability


def parts_of(tables: Tables) -> tuple[Part, ...]:
    """List the tables in which cells have no probability."""
    if tables.alive is None:
        return ()
    pairs = zip(tables.tree.cliques, tables.matrices, strict=True)
    every = ((clique.modes, tables.alive[where].reshape(clique.shape)) for clique, (where, _) in pairs)
    return tuple((modes, alive) for modes, alive in every if not alive.all())


def with_parts(tables: Tables, parts: Iterable[Part]) -> Tables:
    """Mark the same cells in tables of another layout, in which some clique holds all modes of each part."""
    marks: BoolArray | None = None
    for modes, alive in parts:
        home = tables.tree.home_of(modes)
        clique, where = tables.tree.cliques[home], tables.matrices[home][0]
        marks = np.ones(tables.size, dtype=np.bool_) if marks is None else marks
        table = marks[where].reshape(clique.shape)
        table &= _along(alive, modes, clique.modes)
    return tables if marks is None else replace(tables, alive=marks)


def given(parts: Iterable[Part], event: Mapping[int, int], places: Mapping[int, int]) -> list[Part]:
    """Fix some modes at merged levels; `places` holds the new numbers of the others."""
    out = []
    for modes, alive in parts:
        table = np.asarray(alive[tuple(event.get(k, slice(None)) for k in modes)])
        out.append((tuple(places[k] for k in modes if k not in event), table))
    return out


def on_grid(parts: Iterable[Part], merged_shape: tuple[int, ...]) -> BoolArray:
    """Mark the merged cells that carry probability."""
    out = np.ones(merged_shape, dtype=np.bool_)
    for modes, alive in parts:
        out &= _along(alive, modes, tuple(range(len(merged_shape))))
    return out


def _along(table: BoolArray, modes: tuple[int, ...], every: tuple[int, ...]) -> BoolArray:
    """Turn a table over some modes so that it broadcasts against one over more."""
    kept = [k for k in every if k in modes]
    turned = table.transpose([modes.index(k) for k in kept])
    return np.expand_dims(turned, tuple(axis for axis, k in enumerate(every) if k not in modes))


def n_carrying(tables: Tables) -> int:
    """Count the cells of the grid, not merged, that carry probability: exactly, by messages that are whole numbers."""
    quotient = tables.quotient
    if tables.alive is None:
        return math.prod(quotient.shape)
    kind = np.int64 if math.prod(quotient.shape) < EXACT else object
    pairs = zip(quotient.cuts, quotient.shape, strict=True)
    lengths = [np.diff(cut, append=length).astype(kind) for cut, length in pairs]
    total = math.prod(n for n, merged in zip(quotient.shape, quotient.merged_shape, strict=True) if merged == 1)
    counts: AnyArray = tables.alive.astype(kind)
    for c in reversed(range(len(tables.links))):
        (where, shape), clique, link = tables.matrices[c], tables.tree.cliques[c], tables.links[c]
        table = counts[where].reshape(clique.shape)
        for axis in range(clique.shared, len(clique.shape)):
            table = table * lengths[clique.modes[axis]].reshape(-1, *[1] * (len(clique.shape) - axis - 1))
        sums = table.reshape(shape).sum(axis=1)
        if link is None:
            total *= int(sums[0])
        else:
            above = counts[tables.parents[c]].reshape(link.parent)
            above *= sums.reshape(link.kept)
    return total


def n_free(tables: Tables) -> int:
    """Count the independent parameters where B fits all tables whole: what is free in each, given what it shares."""
    assert tables.alive is not None
    marks = (tables.alive[where].reshape(shape) for where, shape in tables.matrices)
    return sum(int(table.sum()) - int(table.any(axis=1).sum()) for table in marks)
