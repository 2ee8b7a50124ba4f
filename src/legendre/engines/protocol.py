"""The five questions: psi, eta on B, the Fisher matrix, its products, the probabilities of the merged cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from legendre.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Point:
    """A member of the model in its dual coordinates.

    Parameters
    ----------
    theta
        Natural parameters on B.
    eta
        Expectations on B, eq. (3).
    psi
        The normaliser psi(theta) of eq. (1).
    log_q
        Log probability of each merged cell; ``-inf`` where it is 0.
    eta_grid
        eta of every merged cell, from which the Fisher matrix is read.
    """

    theta: FloatArray
    eta: FloatArray
    psi: float
    log_q: FloatArray
    eta_grid: FloatArray


class Engine(Protocol):
    """What a solver may ask."""

    @property
    def n_params(self) -> int:
        """|B|."""
        ...

    def at(self, theta: FloatArray) -> Point:
        """Compute psi, eta and the probabilities at theta."""
        ...

    def fisher(self, point: Point) -> FloatArray:
        """Compute the Fisher matrix G, eq. (5)."""
        ...

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute G times a vector without forming G."""
        ...
