"""The five questions: psi, eta on B, the Fisher matrix, its products, the probabilities of the merged cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from legendre.core.types import FloatArray


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
    cache
        What the engine that made the point may want to have again; no one else looks at it.
    """

    theta: FloatArray
    eta: FloatArray
    psi: float
    cache: Any = None


class Preconditioner(Protocol):
    """Something near the inverse of the Fisher matrix, and positive definite."""

    @property
    def origins(self) -> tuple[FloatArray, ...]:
        """Theta of the points that shaped it: asked for at one after the other, an engine gives the same again.

        Empty where the last preconditioner has no influence on the next.
        """
        ...

    def apply(self, vector: FloatArray) -> FloatArray:
        """Apply it to a vector."""
        ...


class Engine(Protocol):
    """What a solver may ask."""

    @property
    def n_params(self) -> int:
        """|B|."""
        ...

    def at(self, theta: FloatArray) -> Point:
        """Compute psi and eta at theta."""
        ...

    def fisher(self, point: Point, out: FloatArray | None = None) -> FloatArray:
        """Compute the Fisher matrix G, eq. (5), into `out` if it is given."""
        ...

    def fisher_product(self, point: Point, vector: FloatArray) -> FloatArray:
        """Compute G times a vector without forming G."""
        ...

    def preconditioner(self, point: Point, last: Preconditioner | None = None) -> Preconditioner:
        """Approximate the inverse of G at a point; `last` is what this engine gave for an earlier one."""
        ...

    def log_probabilities(self, point: Point) -> FloatArray:
        """Compute the log probability of each merged cell; ``-inf`` where it is 0."""
        ...

    def swing(self, vector: FloatArray) -> float:
        """Bound the range of ``zeta(vector)`` over the sample space: by how much a move in theta can tilt log q."""
        ...
