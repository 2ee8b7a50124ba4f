"""How far two evaluations of a model may be apart, though both are right."""

from __future__ import annotations

import math

import numpy as np

from legendre.engines.protocol import Point
from legendre.model.model import Model

SPREAD = 4  # times that size; of 1,500 saved results of all kinds none came back by more than a thirtieth of it apart
COARSEST = 1e-6  # at most this, however large theta is: eta that is known less well certifies nothing
EPS = float(np.finfo(np.float64).eps)


def rounding(model: Model, point: Point) -> float:
    """Return how far eta and psi of two correct evaluations may be apart: by the rounding errors of sums of theta.

    A logarithm of q is a running sum of theta along each mode, whose errors grow with the square root of its length and
    with the size of what is added; an error in log q is the same share of q, and eta is a sum of these.
    """
    size = 1.0 + abs(point.psi) + float(np.abs(model.space.on_cells(point.theta)).sum())
    size *= 1.0 if model.ties is None else model.ties.size
    return min(SPREAD * EPS * math.sqrt(sum(model.quotient.merged_shape)) * size, COARSEST)


def apart(one: Point, other: Point) -> float:
    """Return the largest difference of eta and psi; infinite where one of them is no number."""
    largest = max(float(np.abs(one.eta - other.eta).max(initial=0.0)), abs(one.psi - other.psi))
    return largest if math.isfinite(float(np.sum(one.eta) + np.sum(other.eta)) + one.psi + other.psi) else math.inf
