"""The engine for tied parameters: ``theta = A beta`` around the engine of the cells, so that solvers see beta alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.tied_parameters import Ties
from legendre.core.types import FloatArray
from legendre.engines.protocol import Diagonal, Engine, Point, Preconditioner
from legendre.model.model import Cliques, Model


@dataclass(frozen=True, eq=False)
class TiedEngine(Engine):
    """Expectations ``A' eta`` and Fisher matrix ``A' G A``; a point keeps that of the cells' engine."""

    model: Model  # with ties
    inner: Engine  # of the same model without them

    @property
    def ties(self) -> Ties:
        """The matrix A."""
        assert self.model.ties is not None
        return self.model.ties

    def at(self, theta: FloatArray) -> Point:
        """Evaluate the model of the cells at ``A theta``; its point is kept in the cache."""
        point = self.inner.at(self.ties.spread(theta))
        return Point(theta, self.ties.collect(point.eta), point.psi, point)

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Compute ``A' G A``: from the features on cells, from G of the cells, or by columns if both are large."""
        g = np.empty((self.n_params, self.n_params)) if out is None else out
        if self._design is not None:
            q = self.probabilities(point)[self.model.alive]
            centred = (self._design - q @ self._design) * np.sqrt(q)[:, None]
            return np.matmul(centred.T, centred, out=g)
        if self.ties.n_cells <= limits.LARGEST_MATRIX:
            a = self.ties.matrix()
            g[:] = a.T @ (a.T @ self.inner.fisher(point.cache)).T
        else:
            for row, unit in zip(g, np.eye(self.n_params), strict=True):
                row[:] = self.fisher_product(point, unit)
        g += g.T.copy()  # rounding errors are not symmetric
        g *= 0.5
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        return self.ties.collect(self.inner.fisher_product(point.cache, self.ties.spread(vector)))

    def preconditioner(self, point: Point, last: Any = None) -> Preconditioner:
        """Invert what the variances of the features would be if the features of cells were independent."""
        del last
        eta, ties = point.cache.eta, self.ties
        return Diagonal.inverting(replace(ties, values=ties.values**2).collect(eta * (1.0 - eta)))

    def swing(self, vector: FloatArray) -> float:
        return self.inner.swing(self.ties.spread(vector))

    def sizes(self, point: Point) -> FloatArray:
        return self.ties.collect_sizes(self.inner.sizes(point.cache))

    def probabilities(self, point: Point) -> FloatArray:
        return self.inner.probabilities(point.cache)

    @cached_property
    def _design(self) -> FloatArray | None:
        """The features on the merged cells that carry probability, ``zeta A``, n x m; ``None`` where too large."""
        space = self.model
        # up to 32 MiB the features are kept as a matrix: exact to the last digit where probabilities are small
        if isinstance(space, Cliques) or space.n_cells * self.n_params > (1 << 22):
            return None
        design = np.empty((space.n_alive, self.n_params))
        for j, unit in enumerate(np.eye(self.n_params)):
            design[:, j] = space.below(unit)[space.alive]
        return design
