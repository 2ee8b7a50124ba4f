"""What an engine computes of the model at theta: psi, eta on B, the Fisher matrix and its products, log q, ranges."""

from __future__ import annotations

from functools import cached_property
from sys import float_info
from typing import Any, Protocol

import numpy as np

from legendre.core.sums.linalg import rounding_level
from legendre.core.types import FloatArray, frozen
from legendre.model.model import Model


@frozen
class Point:
    """A member of the model in its dual coordinates.

    See Also
    --------
    legendre.solvers.Evaluation : A point and how far it is from the minimum.

    Examples
    --------
    >>> import math, numpy as np, legendre as ld
    >>> ld.solvers.Point(np.zeros(1), np.array([0.5]), math.log(2))            # a fair coin
    Point(theta=array([0.]), eta=array([0.5]), psi=0.6931471805599453, cache=None)
    """

    theta: FloatArray  # natural parameters on B
    eta: FloatArray  # expectations on B, eq. (3)
    psi: float  # the normaliser psi(theta) of eq. (1)
    cache: Any = None  # what the engine that made the point may need again; nothing outside that engine reads it


class Preconditioner(Protocol):
    """A symmetric positive approximation of the inverse of the Fisher matrix, for conjugate gradients."""

    def apply(self, vector: FloatArray) -> FloatArray:
        """Multiply a vector (k,) by it."""
        ...


@frozen
class Diagonal:
    """A diagonal preconditioner."""

    inverse: FloatArray

    @classmethod
    def inverting(cls, variance: FloatArray) -> Diagonal:
        """Invert the variances of the features; constant features, whose variance is 0, get 0: they never move."""
        smallest = float_info.min  # smaller variances have no finite inverse
        return cls(np.divide(1.0, variance, out=np.zeros_like(variance), where=variance >= smallest))

    def apply(self, vector: FloatArray) -> FloatArray:
        """Multiply a vector (k,) by the inverse variances."""
        return self.inverse * vector


class Engine(Protocol):
    """What a solver may call. An engine derives from it and defines `at`, `fill_fisher` and `swing`."""

    model: Model

    @cached_property
    def n_params(self) -> int:
        """The number of parameters."""
        return self.model.n_params

    def at(self, theta: FloatArray) -> Point:
        """Compute psi and eta at theta: decode theta to Q (eq. 2), encode Q to eta (eq. 3)."""
        ...

    def fill_fisher(self, point: Point, g: FloatArray) -> None:
        """Fill g (k x k) with the Fisher matrix, eq. (5)."""
        ...

    def fisher(self, point: Point) -> FloatArray:
        """Compute the Fisher matrix G in new memory."""
        g = np.empty((self.n_params, self.n_params))
        self.fill_fisher(point, g)
        return g

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute ``G x = zeta' diag(q) (zeta x - E[zeta x])``: the change of eta along x.

        By default G is formed. Engines for large bases override this, and do without it.
        """
        return self.fisher(point) @ vector

    def swing(self, vector: FloatArray) -> float:
        """Return an upper bound on the largest minus the smallest value of ``zeta(vector)`` over the sample space.

        If theta moves by `vector`, no log ratio of two probabilities changes by more. Proofs of the gap need this.
        """
        ...

    def probabilities(self, point: Point) -> FloatArray:
        """Compute the probability of each merged cell, eq. (2)."""
        with np.errstate(divide="ignore"):
            return np.exp(self.model.below(point.theta) + np.log(self.model.weights) - point.psi)

    def sizes(self, point: Point) -> FloatArray:
        """Sum the absolute values of the terms of each eta, (k,): its rounding error is proportional to this.

        By default the terms are probabilities, so this is eta itself; tied parameters have terms of both signs.
        """
        return point.eta

    def preconditioner(self, point: Point, last: Any = None) -> Preconditioner:
        """Approximate the inverse of G at a point; by default, invert the diagonal of G.

        Features are 0 or 1, so the diagonal is eta (1 - eta); `TiedEngine`, whose features are not, overrides this.
        `last` is what this engine returned at another point, which it may update. Where eta is 1 up to rounding, the
        feature is constant, and its computed variance is noise: it is set to 0.
        """
        del last
        rest = 1.0 - point.eta
        rest[rest <= rounding_level(len(rest), self.model.n_summed)] = 0.0
        return Diagonal.inverting(point.eta * rest)
