"""How far KL(P, Q) lies above its minimum at the least: what the gap in a file must not be below."""

from __future__ import annotations

import math

import numpy as np

from legendre.core.sums.linalg import dot
from legendre.core.types import FloatArray
from legendre.engines.protocol import Diagonal, Engine, Point
from legendre.model.model import Model

SOLVED = 1e-6  # share of the squared gradient that is left when no further step adds to the bound
TILT = 0.5  # by how much a step may tilt log q; of steps up to here the bound of their curvature costs little


def excess_of_events(model: Model, gradient: FloatArray, rounding: float) -> float:
    """Bound it by Pinsker's inequality, without any sum: what has P's expectations gives a feature another mean than Q.

    A feature is the indicator of an event, of which the probabilities differ by an entry of ``eta - eta_hat``; a tied
    one lies within the sum of its coefficients.
    """
    ranges = 1.0 if model.ties is None else model.ties.collect_sizes(np.ones(model.ties.n_cells))
    apart = np.maximum(np.abs(gradient) - rounding, 0.0)
    shares = np.divide(apart, ranges, out=np.zeros_like(apart), where=np.asarray(ranges) > 0)
    return 2.0 * float(shares.max(initial=0.0)) ** 2


def excess_at_least(engine: Engine, point: Point, gradient: FloatArray, rounding: float, steps: int) -> float:
    """Bound it by what a step from theta gains: KL falls by as much, so that it was that far above its minimum.

    Along -d KL falls by ``t g . d`` to first order. Its curvature there, the variance of ``zeta(d)``, grows by no more
    than a factor ``e^(t s)``, s being the range of ``zeta(d)``, so that it falls by ``t g . d - t^2/2 e^(t s) d . G d``
    at least. Each entry of g is known up to `rounding`. Any d will do; conjugate gradients find one near ``G^-1 g``.
    """
    with np.errstate(all="ignore"):  # theta of a file may be anything
        d = _towards(engine, point, gradient, steps)
        slope = dot(gradient, d) - rounding * float(np.abs(d).sum())
        curvature = dot(d, engine.fisher_product(point, d))
        if not (math.isfinite(slope) and math.isfinite(curvature) and slope > 0.0 and curvature > 0.0):
            return 0.0
        swing = engine.swing(d)
        t = slope / curvature if swing * slope <= TILT * curvature else TILT / swing
        return max(t * slope - 0.5 * t * t * math.exp(t * swing) * curvature, 0.0)


def _towards(engine: Engine, point: Point, gradient: FloatArray, steps: int) -> FloatArray:
    """Take some steps of conjugate gradients for ``G d = gradient``."""
    tied = engine.model.ties is not None  # variances of such features are not read from eta
    by = Diagonal(np.ones_like(gradient)) if tied else Diagonal.of(point)
    d, left = np.zeros_like(gradient), gradient
    along = ahead = by.apply(left)
    size = first = dot(left, ahead)
    for _ in range(steps):
        changed = engine.fisher_product(point, along)
        bent = dot(along, changed)
        if not (bent > 0.0 and size > SOLVED * first):
            break
        d, left = d + size / bent * along, left - size / bent * changed
        ahead = by.apply(left)
        before, size = size, dot(left, ahead)
        along = ahead + size / before * along
    return d
