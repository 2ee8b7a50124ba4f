"""What a solver is: settings, a start and a step. The loop in `loop.py` does the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from legendre.core.types import FloatArray
from legendre.engines.protocol import Engine, Point
from legendre.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Target:
    """What a solver is given: an engine for independent parameters, the expectations to meet, and how closely."""

    engine: Engine
    problem: Problem
    tol: float

    @property
    def eta_hat(self) -> FloatArray:
        """The expectations of the data."""
        return self.problem.eta_hat

    def objective(self, point: Point) -> float:
        """``psi(theta) - theta . eta_hat``: KL(P, Q) up to a constant of the data."""
        return point.psi - float(point.theta @ self.eta_hat)

    def gradient(self, point: Point) -> FloatArray:
        """``eta - eta_hat``, the gradient of KL(P, Q) in theta."""
        return point.eta - self.eta_hat

    def residual(self, point: Point) -> float:
        """``max|eta - eta_hat|`` on B: 0 exactly at the decomposition."""
        return float(np.abs(self.gradient(point)).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class State:
    """What a solver carries from step to step.

    Parameters
    ----------
    point
        The current member of the model.
    memory
        Whatever else the solver needs; no one else looks at it.
    step
        The step length that led here.
    gap
        A bound of KL(P, Q) above its minimum; infinite while the solver has none.
    tilt
        By which share the distribution behind that bound, which has the expectations of P exactly, differs from Q in
        any cell, at most: below 1 it is positive.
    """

    point: Point
    memory: Any = None
    step: float = 0.0
    gap: float = np.inf
    tilt: float = np.inf


class Solver(Protocol):
    """Settings of a method, and its step."""

    @property
    def name(self) -> str:
        """The name by which `decompose` knows it."""
        ...

    @property
    def max_iter(self) -> int:
        """How many steps are allowed when the caller does not say."""
        ...

    @property
    def patience(self) -> int:
        """How many steps without any progress end the fit."""
        ...

    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin at theta."""
        ...

    def advance(self, target: Target, state: State) -> State | None:
        """Take one step; ``None`` when rounding leaves no better point."""
        ...

    def finish(self, target: Target, state: State) -> State:
        """Add what is cheap once the loop has ended: a last correction, a bound of the gap."""
        ...

    def pack(self, state: State) -> dict[str, Any]:
        """List the arrays from which `unpack` makes the same state again, to the last bit, without copying them."""
        ...

    def unpack(self, target: Target, arrays: Mapping[str, Any], beside: State | None = None) -> State:
        """Make a state from what `pack` listed; `beside` is another of the same fit, which may share a workspace."""
        ...
