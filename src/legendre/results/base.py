"""What results share: the certificate of a fit, a summary, a file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from legendre.core.files import write_arrays
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Point
from legendre.model.model import Model
from legendre.results.file import Archive, Arrays, labelled, nested
from legendre.solvers.loop import Step
from legendre.solvers.status import Status


class Storable(ABC):
    """Something that sums itself up in text and can be written to a file, which `legendre.load` reads."""

    format: ClassVar[str]
    """What a file says that it holds."""

    @abstractmethod
    def summary(self) -> str:
        """Return a table of what was found."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """List what a file must hold, by name; not the format itself."""

    @classmethod
    @abstractmethod
    def from_arrays(cls, arrays: Archive) -> Self:
        """Put the result together again; what is missing or of the wrong kind is refused."""

    def as_part(self, name: str) -> Arrays:
        """List the same as part of another result's file."""
        return nested(name, {"format": self.format, **self.to_arrays()})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the result to an npz file, whole or not at all; `legendre.load` reads it.

        X itself is not written, except where it is part of the result. What comes back has arrays of NumPy.
        """
        write_arrays(path, labelled(self.format, self.to_arrays()))


class Result(Storable):
    """What the result of every fit has.

    Attributes
    ----------
    theta, eta
        Natural parameters and expectations on the basis.
    residual
        How far the fit is from the exact condition, ``max|eta - eta_hat|`` unless the result says otherwise.
    gap
        Upper bound of what is minimised above its minimum.
    status, converged
        How the fit ended; converged when the residual is at most tol.
    n_iter, history
        The number of steps, and one `Step` for each, the start first.
    n_params
        The size of the basis.
    """

    if TYPE_CHECKING:  # fields of some results and properties of others; a dataclass would take these as defaults

        @property
        def shape(self) -> tuple[int, ...]:
            """The shape of X."""

        @property
        def theta(self) -> FloatArray:
            """Natural parameters on B."""

        @property
        def eta(self) -> FloatArray:
            """Expectations on B, eq. (3)."""

        @property
        def residual(self) -> float:
            """How far the fit is from the exact condition."""

        @property
        def gap(self) -> float:
            """Upper bound of what is minimised above its minimum."""

        @property
        def status(self) -> Status:
            """How the fit ended."""

        @property
        def history(self) -> tuple[Step, ...]:
            """One `Step` for each iteration, the start first."""

    @abstractmethod
    def tensor(self) -> Any:
        """Return the result as a tensor in X's units."""

    @property
    def n_params(self) -> int:
        """|B|."""
        return len(self.theta)

    @property
    def n_iter(self) -> int:
        """The number of steps (or cycles)."""
        return self.history[-1].iteration

    @property
    def converged(self) -> bool:
        """True when the residual is at most tol."""
        return self.status.converged


def of_fit(name: str, doc: str) -> property:
    """Make an attribute of a result that is the one of its `fit`."""
    return property(attrgetter(f"fit.{name}"), doc=doc)


@dataclass(frozen=True, eq=False, repr=False)
class ModelResult(Result):
    """A result that is one member of a model, with the expectations that it should have."""

    model: Model
    point: Point
    eta_hat: FloatArray

    @property
    def basis(self) -> IntArray:
        """The cells of B, k x N."""
        return self.model.basis

    @property
    def theta(self) -> FloatArray:
        """Natural parameters on B."""
        return self.point.theta

    @property
    def eta(self) -> FloatArray:
        """Expectations on B, eq. (3)."""
        return self.point.eta

    @property
    def psi(self) -> float:
        """The normaliser psi(theta)."""
        return self.point.psi

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of X."""
        return self.model.support.shape

    @cached_property
    def residual(self) -> float:
        """``max|eta - eta_hat|`` on B."""
        return float(np.abs(self.eta - self.eta_hat).max(initial=0.0))
