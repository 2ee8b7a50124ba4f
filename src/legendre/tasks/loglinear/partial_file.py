"""Rows that lack values as a file holds them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.cells import frozen
from legendre.data.partial_table import PartialTable, Pattern
from legendre.results.file_check import same
from legendre.results.file_format import Archive, Arrays

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def pack_patterns(table: PartialTable) -> Arrays:
    """List which variables each pattern has (a row of 0 and 1), and all counts one after the other."""
    has = np.array([[k in p.modes for k in range(len(table.shape))] for p in table.patterns], dtype=np.int64)
    return {"has": has, "counts": np.concatenate([p.counts.ravel() for p in table.patterns])}


def read_patterns(arrays: Archive, fit: Decomposition) -> PartialTable:
    """Read the patterns, whose counts sum to the fit's total."""
    has = arrays.integers("has", None, len(fit.shape))
    modes = [tuple(np.flatnonzero(row).tolist()) for row in has]
    sizes = [tuple(fit.shape[k] for k in own) for own in modes]
    counts = arrays.integers("counts", sum(map(math.prod, sizes)))
    if ((has != 0) & (has != 1)).any() or not all(modes) or len(set(modes)) < len(modes):
        raise arrays.unfit("patterns of missing values are different sets of variables")
    if (counts < 0).any() or not same(float(counts.sum()), fit.total):
        raise arrays.unfit(f"counts are whole numbers with the sum {fit.total:g}")
    parts = np.split(counts, np.cumsum(list(map(math.prod, sizes)))[:-1])
    patterns = [Pattern(own, frozen(part.reshape(size))) for own, part, size in zip(modes, parts, sizes, strict=True)]
    return PartialTable(fit.shape, fit.origin, tuple(patterns), fit.origin.notes)
