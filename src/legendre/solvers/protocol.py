"""What a solver is, what it is given and what it carries from step to step. The loop in `loop.py` does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Engine, Point, Preconditioner
from legendre.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Evaluation(Point):
    """A point of the model, and how far it is from the minimum.

    See Also
    --------
    legendre.solvers.Point : A member of the model.
    legendre.solvers.Target : What a solver is given.

    Examples
    --------
    >>> import legendre as ld
    >>> class Watched(ld.solvers.Natural):
    ...     def advance(self, target, state):
    ...         print(state.point.gradient.shape, state.point.residual < 0.5)
    ...         return super().advance(target, state)
    >>> fit = ld.decompose([[1, 2, 3], [3, 5, 1]], "B1", solver=Watched())
    (3,) True
    (3,) True
    (3,) True
    """

    objective: float = field(kw_only=True)  # psi(theta) - theta . eta_hat: KL(P, Q) up to a constant of the data
    gradient: FloatArray = field(kw_only=True)  # eta - eta_hat, the gradient of KL(P, Q) in theta
    residual: float = field(kw_only=True)  # max|eta - eta_hat| of the gradient: 0 exactly at the decomposition


@dataclass(frozen=True, eq=False)
class Target:
    """What a solver is given: an engine for independent parameters, the expectations to meet, and how closely.

    See Also
    --------
    legendre.solvers.Solver : The base of all solvers.
    legendre.solvers.Evaluation : A point and how far it is from the minimum.

    Examples
    --------
    >>> import legendre as ld
    >>> class Watched(ld.solvers.Natural):
    ...     def advance(self, target, state):
    ...         print(target.engine.n_params, target.tol, target.at(state.point.theta).residual < 0.5)
    ...         return super().advance(target, state)
    >>> fit = ld.decompose([[1, 2, 3], [3, 5, 1]], "B1", solver=Watched())
    3 1e-10 True
    3 1e-10 True
    3 1e-10 True
    """

    engine: Engine
    problem: Problem
    tol: float
    # the same problem with all parameters, where those that depend on others are held at 0; and those that are not
    full: Target | None = field(default=None, kw_only=True)
    columns: IntArray | None = field(default=None, kw_only=True)
    # False: it is not known whether a finite theta attains the minimum, and the tilt is to prove it
    attained: bool = field(default=True, kw_only=True)
    # something near the inverse of the Fisher matrix at the start, where what came before has it
    inverse: Preconditioner | None = field(default=None, kw_only=True)

    def residual(self, point: Evaluation) -> float:
        """``max|eta - eta_hat|`` on all of B: at a dependent parameter it may be larger than at all others."""
        return self.complete(point).residual

    def complete(self, point: Evaluation) -> Evaluation:
        """Put the parameters that are held at 0 back in."""
        if self.full is None or len(point.theta) == self.full.engine.n_params:
            return point
        theta = np.zeros(self.full.engine.n_params)
        theta[self.columns] = point.theta
        return self.full.at(theta)

    def at(self, theta: FloatArray) -> Evaluation:
        """Evaluate the model at theta."""
        theta = np.asarray(theta, dtype=np.float64)  # a solver of a user's may hold it in another form
        if theta.shape != self.problem.eta_hat.shape:
            k = len(self.problem.eta_hat)
            raise InvalidSetting(f"the solver evaluates theta of shape {theta.shape}; there are {k} parameters.")
        return self.evaluate(self.engine.at(theta))

    def evaluate(self, point: Point) -> Evaluation:
        """Compare a point with the expectations to meet."""
        eta_hat = self.problem.eta_hat
        gradient = point.eta - eta_hat
        return Evaluation(
            point.theta,
            point.eta,
            point.psi,
            point.cache,
            objective=point.psi - float((point.theta * eta_hat).sum()),
            gradient=gradient,
            residual=float(np.abs(gradient).max(initial=0.0)),
        )


@dataclass(frozen=True, eq=False)
class State:
    """What a solver carries from step to step.

    See Also
    --------
    legendre.solvers.Solver : The base of all solvers.
    legendre.solvers.Evaluation : A point and how far it is from the minimum.

    Examples
    --------
    >>> import legendre as ld
    >>> class Watched(ld.solvers.Natural):
    ...     def advance(self, target, state):
    ...         print(state.step, state.gap)
    ...         return super().advance(target, state)
    >>> fit = ld.decompose([[1, 2, 3], [3, 5, 1]], "B1", solver=Watched())
    0.0 inf
    1.0 inf
    1.0 inf
    """

    point: Evaluation  # the current member of the model, from `Target.at` or `Target.evaluate`
    memory: Any = None  # whatever else the solver needs; nothing else reads it
    step: float = 0.0  # the step length that led here
    gap: float = np.inf  # a bound of KL(P, Q) above its minimum; infinite while the solver has none
    # the distribution behind that bound has P's expectations and differs from Q by at most this share in any cell
    tilt: float = np.inf


class Solver(ABC):
    """A method: its settings, what it needs, and its step. Derive from it to write your own.

    A solver of your own defines `start` and `advance`; everything else has a default here. Settings of every solver:
    `max_iter`, the steps that are allowed when the caller names no number, and `patience`, the steps without any
    progress that end the fit, because what remains is rounding error.

    See Also
    --------
    legendre.solvers.Target : What a solver is given.
    legendre.solvers.State : What a solver carries from step to step.
    legendre.solvers.Step : What is recorded of a step.
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> class Downhill(ld.solvers.Solver):
    ...     def start(self, target, theta):
    ...         return ld.solvers.State(target.at(theta))
    ...     def advance(self, target, state):
    ...         step = 8 / (1 + target.engine.n_params)
    ...         return ld.solvers.State(target.at(state.point.theta - step * state.point.gradient), step=step)
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Downhill(), tol=1e-8).converged
    True
    """

    name: ClassVar[str] = "your own"  # the name by which `decompose` and summaries know it
    max_iter: int = 500
    patience: int = 5
    convex: ClassVar[bool] = True  # of a fit that stalls, the point of smallest residual is the best one
    accepts_dependent: ClassVar[bool] = False  # parameters may be linearly dependent on the sample space
    needs_mass: ClassVar[bool] = False  # it needs P itself; balancing, which looks for a P, cannot use it
    needs_matrix: ClassVar[bool] = False  # it works on matrices of weights, with the engine for those

    @abstractmethod
    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin at theta."""

    @abstractmethod
    def advance(self, target: Target, state: State) -> State | None:
        """Take one step; ``None`` when rounding leaves no better point."""

    def finish(self, target: Target, state: State) -> State:
        """Add what is cheap once the loop has ended: a last correction, a bound of the gap."""
        del target
        return state
