"""What the state of a growing basis is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from legendre.core.sums.growing_factor import GrowingFactor
from legendre.core.sums.joins import Features
from legendre.core.sums.linalg import one_thread
from legendre.core.types import FloatArray, IntArray

DAMPING = 1e-9  # added to the correlations' diagonal, if not more is needed: dependent parameters are not moved far


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

    @property
    def sharp(self) -> bool:
        """Whether no more was added than always is: dependent features ask for more."""
        return self.damping <= DAMPING


@dataclass(frozen=True, eq=False)
class Inverse:
    """Near the inverse of the Fisher matrix: the factor of older correlations, the variances of the present."""

    factor: GrowingFactor
    scale: FloatArray  # one over the features' standard deviations
    origins: ClassVar[tuple[FloatArray, ...]] = ()

    def apply(self, vector: FloatArray) -> FloatArray:
        """Solve with the factor; in one thread, so that the bits do not follow their number."""
        with one_thread():
            return self.factor.solve(vector * self.scale) * self.scale
