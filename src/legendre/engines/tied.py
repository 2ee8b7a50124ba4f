"""The engine for tied parameters: ``theta = A beta`` around the engine of the cells, so that solvers see beta alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core import limits
from legendre.core.cells import strides_of
from legendre.core.tied_parameters import Ties
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.engines.protocol import Diagonal, Engine, Point, Preconditioner
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Cliques, Model


@frozen
class TiedEngine(Engine):
    """Expectations ``A' eta`` and Fisher matrix ``A' G A``, from eta and G of the same model without ties.

    The cache of a point is the point of the inner engine, at ``A beta``.
    """

    model: Model  # with ties
    inner: Engine  # of the same model without them

    @property
    def ties(self) -> Ties:
        """The matrix A, which the model of this engine always has."""
        assert self.model.ties is not None
        return self.model.ties

    def at(self, theta: FloatArray) -> Point:
        """Evaluate the model of the cells at ``A theta``; its point is kept in the cache."""
        point = self.inner.at(self.ties.spread(theta))
        return Point(theta, self.ties.collect(point.eta), point.psi, point)

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        """Compute ``A' G A``, m x m.

        If the features on the merged cells fit into memory, it is their covariance matrix under q. Otherwise, features
        of boxes on a grid have sums over intersections of boxes. Others have a product with G of the cells, or, if that
        is too large, a product for each column.
        """
        if self._design is not None:
            q = self.probabilities(point)[self.model.alive]
            centred = (self._design - q @ self._design) * np.sqrt(q)[:, None]
            np.matmul(centred.T, centred, out=g)
            return
        if self.ties.boxes is not None and isinstance(self.inner, ReferenceEngine):
            self._fill_fisher_of_boxes(self.ties.boxes, point, g)
            return
        if self.ties.n_cells <= limits.LARGEST_MATRIX:
            a = self.ties.matrix()  # sparse: both products have it on the left
            g[:] = a.T @ (a.T @ self.inner.fisher(point.cache)).T
        else:
            for row, unit in zip(g, np.eye(self.n_params), strict=True):
                row[:] = self.fisher_product(point, unit)
        g += g.T.copy()  # rounding errors are not symmetric
        g *= 0.5

    def _fill_fisher_of_boxes(self, boxes: IntArray, point: Point, g: FloatArray) -> None:
        """Fill g (m x m) with the covariances of the features of boxes (m x 2 N), from suffix sums on the merged grid.

        A border of zeros behind the last level of each mode holds the suffix sums at the ends of boxes. A covariance is
        a correlation of features whose scale, in place of 1 / standard deviation, is 1.
        """
        from legendre.core.sums.kernels.growing import box_correlations

        sums, cuts = np.pad(point.cache.cache.above, (0, 1)), self.model.quotient.cuts
        # the first and the second corner of each box in merged coordinates, times strides, as the kernel wants them
        low, high = (
            np.stack([np.searchsorted(*pair) for pair in zip(cuts, corner, strict=True)])
            * strides_of(sums.shape)[:, None]
            for corner in np.split(boxes.T, 2)
        )
        features = low.astype(np.int32), high.astype(np.int32), point.eta + self.ties.shortfall, np.ones(len(g))
        box_correlations(g.size << len(cuts), len(g), sums.ravel(), *features, *features, g, False)  # not only half

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute ``A' G A x`` for a vector x (m) without forming G, for conjugate gradients."""
        return self.ties.collect(self.inner.fisher_product(point.cache, self.ties.spread(vector)))

    def preconditioner(self, point: Point, last: Any = None) -> Preconditioner:
        """Invert the variances that the tied features would have if the features of cells were uncorrelated.

        These are sums of squared coefficients times ``eta (1 - eta)`` of the cells. The exact diagonal of ``A' G A``
        would need entries of G off its diagonal.
        """
        del last
        eta, ties = point.cache.eta, self.ties
        return Diagonal.inverting(replace(ties, values=ties.values**2).collect(eta * (1.0 - eta)))

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of log q along a direction x of the parameters (m): the inner engine does, for ``A x``."""
        return self.inner.swing(self.ties.spread(vector))

    def sizes(self, point: Point) -> FloatArray:
        """Sum the absolute values of the terms of each eta (m), which bound its rounding error."""
        return self.ties.collect_sizes(self.inner.sizes(point.cache))

    def probabilities(self, point: Point) -> FloatArray:
        """Return the probabilities of the merged cells, which ties do not change: those of the inner engine."""
        return self.inner.probabilities(point.cache)

    @cached_property
    def _design(self) -> FloatArray | None:
        """The values of the m features on the n merged cells that carry probability, ``zeta A``; ``None`` if too large.

        The Fisher matrix that is computed from them is exact to the last digits even where probabilities are small.
        """
        space = self.model
        # 2^22 numbers are 32 MiB
        if isinstance(space, Cliques) or space.n_cells * self.n_params > (1 << 22):
            return None
        design = np.empty((space.n_alive, self.n_params))
        for j, unit in enumerate(np.eye(self.n_params)):
            design[:, j] = space.below(unit)[space.alive]
        return design
