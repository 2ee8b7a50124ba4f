"""What the state of a growing basis is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from legendre.core.sums.growing_factor import GrowingFactor
from legendre.core.sums.joins import Features, correlations
from legendre.core.types import FloatArray, IntArray

DAMPING = {"d": 1e-9, "f": 1e-6}
"""What is added to the correlations' diagonal, by the type of the factor, if not more is needed: dependent parameters
are not moved far."""
MOST_DAMPING = 0.1  # from here on correlations are taken for 0


class Member(NamedTuple):
    """A member of the model: theta, and everything of every cell that follows from it."""

    theta: FloatArray
    z: FloatArray  # sums of theta below each cell, plus the log measure: log q up to psi; -inf where q = 0
    q: FloatArray
    eta: FloatArray
    psi: float
    objective: float  # psi - theta . eta_hat


class Choice(NamedTuple):
    """Cells to add, with their rows of the factor."""

    places: IntArray
    features: Features  # of a list that they are on
    listed: IntArray  # their places there
    left: FloatArray  # rows of the factor left of the diagonal block
    lower: FloatArray  # that block
    gain: float  # what they lower KL by, together, to second order


@dataclass(frozen=True, eq=False)
class Anchor:
    """The factor of the correlations between the features of the basis, and the distribution they were taken under."""

    eta: FloatArray
    features: Features
    factor: GrowingFactor
    damping: float  # added to the diagonal

    @classmethod
    def of(cls, eta: FloatArray, places: IntArray, shape: tuple[int, ...], *, single: bool, compiled: bool) -> Anchor:
        """Factorise, in float32 if `single` and if that succeeds; more is added to the diagonal where rounding asks it.

        Where nothing helps, as where eta holds what is no number, correlations are taken for 0.
        """
        features = Features.of(eta, places, shape)
        for kind, damping in _attempts(single=single):
            matrix = correlations(eta, features, features, lower=True, compiled=compiled, dtype=kind)
            np.fill_diagonal(matrix, 1.0 + damping)
            factor = GrowingFactor.of(matrix)
            if factor is not None:
                return cls(eta, features, factor, damping)
        identity = GrowingFactor.of(np.eye(len(places)))
        assert identity is not None
        return cls(eta, features, identity, MOST_DAMPING)

    @property
    def sharp(self) -> bool:
        """Whether no more was added than always is: dependent features ask for more."""
        return self.damping <= DAMPING[self.factor.kind]


@dataclass(frozen=True, eq=False)
class Inverse:
    """Near the inverse of the Fisher matrix: the factor of older correlations, the variances of the present."""

    factor: GrowingFactor
    scale: FloatArray  # one over the features' standard deviations
    origins: ClassVar[tuple[FloatArray, ...]] = ()

    def apply(self, vector: FloatArray) -> FloatArray:
        """Solve with the factor."""
        return self.factor.solve(vector * self.scale) * self.scale


def _attempts(*, single: bool) -> Iterator[tuple[str, float]]:
    """List types of a factor and what is added to the diagonal, each to be tried if those before it fail."""
    if single:
        yield "f", DAMPING["f"]
    damping = DAMPING["d"]
    while damping < MOST_DAMPING:
        yield "d", damping
        damping *= 10.0
