"""A Cholesky factor of the correlations between boxes, at one point, to which rows are appended as boxes are added."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack

from legendre.core.types import FloatArray
from legendre.fitting.boxes.observed_sums import SMALLEST, BoxList, Ground

DAMPING = 1e-9  # added to the diagonal of the correlations, so that next to dependent boxes keep a factor


def inverse_deviation(eta: FloatArray) -> FloatArray:
    """Return 1 over the standard deviation of indicators with these means; 0 where it is next to 0."""
    variance = eta * (1.0 - eta)
    return np.where(variance > SMALLEST, 1.0 / np.sqrt(np.maximum(variance, SMALLEST)), 0.0)


def correlations(ground: Ground, anchor: FloatArray, boxes: BoxList, eta: FloatArray, scale: FloatArray) -> FloatArray:
    """Compute the damped correlations of boxes under Q with these running sums."""
    from legendre.core.sums.kernels.boxes import own_correlations
    from legendre.core.sums.kernels.dense import mirror

    k = len(boxes)
    gram = np.empty((k, k))
    if k:
        work = k * k << (len(ground.shape) - 1)
        own_correlations(work, (len(boxes) + 1) // 2, anchor.ravel(), *ground.corners(boxes), eta, scale, gram)
        mirror(gram)
    np.fill_diagonal(gram, 1.0 + DAMPING)
    return gram


@dataclass(frozen=True, eq=False)
class BoxFactor:
    """``L L'`` of the damped correlations of boxes under Q at an anchor."""

    ground: Ground
    anchor: FloatArray  # running sums of Q there
    boxes: BoxList
    eta: FloatArray  # means of the indicators there
    scale: FloatArray  # 1 over their deviations
    lower: FloatArray  # L, in Fortran order

    @classmethod
    def of(cls, ground: Ground, anchor: FloatArray, boxes: BoxList) -> BoxFactor:
        """Compute and factorise all correlations; damp them more where rounding leaves no factor."""
        eta = ground.sums(anchor, boxes)
        scale, damping = inverse_deviation(eta), DAMPING
        gram = correlations(ground, anchor, boxes, eta, scale)
        while len(boxes):
            lower, info = lapack.dpotrf(gram.T, lower=1, clean=1)
            if info == 0:
                return cls(ground, anchor, boxes, eta, scale, lower)
            damping *= 10.0
            np.fill_diagonal(gram, 1.0 + damping)
        return cls(ground, anchor, boxes, eta, scale, np.zeros((0, 0), order="F"))

    def half(self, vector: FloatArray) -> FloatArray:
        """Solve ``L y = vector``."""
        if not len(vector):
            return vector
        return np.asarray(blas.dtrsv(self.lower, vector, lower=1))

    def solve(self, half: FloatArray) -> FloatArray:
        """Solve ``L' x = half``, in the units of theta."""
        if not len(half):
            return half
        return np.asarray(blas.dtrsv(self.lower, half, lower=1, trans=1)) * self.scale

    def inverse_diagonal(self) -> FloatArray:
        """Return the diagonal of the inverse of the covariances."""
        if not len(self.boxes):
            return np.zeros(0)
        inverse, _ = lapack.dpotri(self.lower, lower=1)
        return np.asarray(np.diagonal(inverse) * self.scale**2)

    def with_others(self, boxes: BoxList, eta: FloatArray, scale: FloatArray) -> FloatArray:
        """Compute the correlations of other boxes with these, m x k."""
        from legendre.core.sums.kernels.boxes import box_correlations

        out = np.empty((len(boxes), len(self.boxes)))
        if out.size:
            others = *self.ground.corners(boxes), eta, scale
            own = *self.ground.corners(self.boxes), self.eta, self.scale
            box_correlations(out.size << len(self.ground.shape), len(out), self.anchor.ravel(), *others, *own, out)
        return out

    def nearest(self, boxes: BoxList, eta: FloatArray, scale: FloatArray) -> FloatArray:
        """Find the largest squared correlation of each of some other boxes with one of these."""
        from legendre.core.sums.kernels.boxes import nearest_box

        out = np.zeros(len(boxes))
        if len(boxes) and len(self.boxes):
            others = *self.ground.corners(boxes), eta, scale
            own = *self.ground.corners(self.boxes), self.eta, self.scale
            work = len(boxes) * len(self.boxes) << len(self.ground.shape)
            nearest_box(work, len(out), self.anchor.ravel(), *others, *own, out)
        return out

    def eliminated(self, rows: FloatArray) -> FloatArray:
        """Solve ``L w = row`` for each row of correlations with these boxes, m x k."""
        if not rows.size:
            return rows
        return np.asarray(blas.dtrsm(1.0, self.lower, rows.T, lower=1)).T

    def appended(self, boxes: BoxList, eta: FloatArray, scale: FloatArray, rows: FloatArray) -> BoxFactor:
        """Add boxes, given their rows of L, m x (k + m)."""
        k, m = len(self.boxes), len(boxes)
        lower = np.zeros((k + m, k + m), order="F")
        lower[:k, :k] = self.lower
        lower[k:] = rows
        joint = self.boxes.joined(boxes), np.append(self.eta, eta), np.append(self.scale, scale)
        return BoxFactor(self.ground, self.anchor, *joint, lower)
