"""Questions to a Q whose sample space is a list of cells: sums over the list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.core.types import FloatArray, IntArray
from legendre.results.query_arguments import impossible, returned, values_of
from legendre.results.tensor import log_prob

if TYPE_CHECKING:
    from legendre.results.decomposition import Decomposition


def marginal(fit: Decomposition, points: IntArray, kept: list[int]) -> FloatArray:
    """Sum Q over all modes but the given ones."""
    return _gathered(fit, points, kept, np.exp(log_prob(fit, points)))


def condition(fit: Decomposition, points: IntArray, at: Mapping[int, int], kept: list[int]) -> FloatArray:
    """Give Q on some of the modes left when others are fixed."""
    inside = np.ones(len(points), dtype=np.bool_)
    for k, index in at.items():
        inside &= points[:, k] == index
    if not inside.any():
        raise impossible(at)
    some = points[inside]
    log_q = log_prob(fit, some)
    q = np.exp(log_q - log_q.max())
    return _gathered(fit, some, kept, q / q.sum())


def expectation(fit: Decomposition, points: IntArray, f: ArrayLike | Callable[..., ArrayLike]) -> float:
    """Sum ``q f`` over the list; f is called with one array of coordinates per mode, an entry for each cell."""
    columns = tuple(points.T.astype(np.int64))
    values = returned(f(*columns), (len(points),)) if callable(f) else values_of(f, fit.shape)[columns]
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise InvalidQuery(
            f"expectation: f{cell_name(points[bad[0]])} = {values[bad[0]]}; f must be finite wherever Q is positive. "
            "Cells of probability 0 do not count."
        )
    return float(np.exp(log_prob(fit, points)) @ values)


def _gathered(fit: Decomposition, points: IntArray, kept: list[int], q: FloatArray) -> FloatArray:
    shape = tuple(fit.shape[k] for k in kept)
    check_room(math.prod(shape), 8, f"a table over the modes {kept}", "Ask for fewer modes.")
    if not kept:
        return np.asarray(q.sum())
    flat = np.ravel_multi_index(tuple(points[:, k].astype(np.int64) for k in kept), shape)
    return np.bincount(flat, q, math.prod(shape)).astype(np.float64, copy=False).reshape(shape)
