"""Questions to a Q whose sample space is a list of cells: sums over the list."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.memory import check_room
from legendre.core.types import FloatArray, IntArray
from legendre.results.on_grid import OnGrid, draw, first_of
from legendre.results.query import impossible, returned, summed, values_of


@dataclass(frozen=True, eq=False)
class OnList(OnGrid):
    """A member of a model whose sample space is a list of cells."""

    @property
    def _points(self) -> IntArray:
        points = self.model.support.points
        assert points is not None
        return points

    def marginal(self, kept: list[int], at: Mapping[int, int]) -> FloatArray:
        """Sum Q, or Q given the indices of some modes, over all modes but the kept ones."""
        fixed = list(at)
        points = self._points[(self._points[:, fixed] == [at[k] for k in fixed]).all(axis=1)] if at else self._points
        log_q = self.log_prob(points)
        if at:
            peak = float(log_q.max(initial=-np.inf))
            if peak == -np.inf:
                raise impossible(at)
            log_q -= peak
        q = np.exp(log_q)
        q = q / q.sum() if at else q
        shape = tuple(self.model.support.shape[k] for k in kept)
        check_room(math.prod(shape), 8, f"a table over the modes {kept}", "Ask for fewer modes.")
        if not kept:
            return np.asarray(q.sum())
        flat = np.ravel_multi_index(tuple(points[:, k].astype(np.int64) for k in kept), shape)
        return np.bincount(flat, q, math.prod(shape)).astype(np.float64, copy=False).reshape(shape)

    def expectation(self, f: ArrayLike | Callable[..., ArrayLike]) -> float:
        """Sum ``q f`` over the list; f is called with one array of coordinates per mode, an entry for each cell."""
        columns = tuple(self._points.T.astype(np.int64))
        shape, q = self.model.support.shape, np.exp(self.log_prob(self._points))
        values = returned(f(*columns), q.shape) if callable(f) else values_of(f, shape)[columns]
        return summed(q, values, cells=self._points)

    def sample(self, n: int, generator: np.random.Generator) -> IntArray:
        """Draw cells of the list."""
        return self._points[draw(np.exp(self.log_prob(self._points)), n, generator)].astype(np.int64)

    def most_probable(self) -> tuple[int, ...]:
        """Find the most probable cell, the first in C order where several are."""
        log_q = self.log_prob(self._points)
        return tuple(int(i) for i in self._points[first_of(log_q, float(log_q.max()))])

    def sum_of_squares(self) -> float:
        """Sum ``q^2`` over the list."""
        return float(np.sum(np.exp(2.0 * self.log_prob(self._points))))
