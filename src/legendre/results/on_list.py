"""Questions to a Q whose sample space is a list of cells: sums over the list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.cells import cell_name
from legendre.core.errors import InvalidQuery
from legendre.core.memory import check_room
from legendre.core.types import FloatArray, IntArray
from legendre.results.on_grid import OnGrid, draw, first_of
from legendre.results.query_arguments import impossible, returned, values_of


@dataclass(frozen=True, eq=False)
class OnList(OnGrid):
    """A member of a model whose sample space is a list of cells; parameters as for `OnGrid`."""

    @property
    def _points(self) -> IntArray:
        points = self.model.support.points
        assert points is not None
        return points

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        if not at:
            return self._gathered(self._points, kept, np.exp(self.log_prob(self._points)))
        inside = np.ones(len(self._points), dtype=np.bool_)
        for k, index in at.items():
            inside &= self._points[:, k] == index
        if not inside.any():
            raise impossible(at)
        some = self._points[inside]
        log_q = self.log_prob(some)
        peak = float(log_q.max())
        if peak == -np.inf:
            raise impossible(at)
        q = np.exp(log_q - peak)
        return self._gathered(some, kept, q / q.sum())

    def expectation(self, f: ArrayLike | Callable[..., ArrayLike]) -> float:
        """Sum ``q f`` over the list; f is called with one array of coordinates per mode, an entry for each cell."""
        points, shape = self._points, self.model.support.shape
        columns = tuple(points.T.astype(np.int64))
        values = returned(f(*columns), (len(points),)) if callable(f) else values_of(f, shape)[columns]
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise InvalidQuery(
                f"expectation: f{cell_name(points[bad[0]])} = {values[bad[0]]}; f must be finite wherever Q is "
                "positive. Cells of probability 0 do not count."
            )
        return float(np.exp(self.log_prob(points)) @ values)

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells of the list."""
        q = np.exp(self.log_prob(self._points))
        return self._points[draw(q, n, generator)].astype(np.int64)

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order where several are."""
        log_q = self.log_prob(self._points)
        return tuple(int(i) for i in self._points[first_of(log_q, float(log_q.max()))])

    def sum_of_squares(self) -> float:
        """Sum ``q^2`` over the list."""
        return float(np.sum(np.exp(2.0 * self.log_prob(self._points))))

    def _gathered(self, points: IntArray, kept: list[int], q: FloatArray) -> FloatArray:
        shape = tuple(self.model.support.shape[k] for k in kept)
        check_room(math.prod(shape), 8, f"a table over the modes {kept}", "Ask for fewer modes.")
        if not kept:
            return np.asarray(q.sum())
        flat = np.ravel_multi_index(tuple(points[:, k].astype(np.int64) for k in kept), shape)
        return np.bincount(flat, q, math.prod(shape)).astype(np.float64, copy=False).reshape(shape)
