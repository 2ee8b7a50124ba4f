"""Algorithm 1: gradient descent, as printed (one coordinate after the other) and as a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from legendre.core.arguments import check_choice, check_number
from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray
from legendre.solvers.linesearch import search
from legendre.solvers.loop import Solver, State, Target
from legendre.solvers.newton import newton_bound


@dataclass(frozen=True)
class Gradient(Solver):
    """Gradient descent on KL(P, Q).

    Parameters
    ----------
    learning_rate
        The paper's epsilon. ``None``: 4 for the sweep, the rate with the largest guaranteed decrease of KL; for the
        batch form, the Barzilai-Borwein rate of the last step, shortened where KL would rise. A sweep never raises KL
        up to a rate of 8, the batch form up to 8 divided by the number of parameters, which is 2 divided by the largest
        possible eigenvalue of G.
    form
        ``"sweep"``: Algorithm 1 as printed, which decodes and encodes again after each single update; one iteration is
        a pass over B. ``"batch"``: all parameters at once.

    See Also
    --------
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Gradient(form="batch")).converged
    True
    """

    learning_rate: float | None = None
    form: Literal["sweep", "batch"] = "sweep"
    max_iter: int = 100_000
    patience: int = 1000
    name: ClassVar[str] = "gradient"

    def __post_init__(self) -> None:
        """Check the settings, which a user gives."""
        check_choice(self.form, "gradient: form", ("sweep", "batch"))
        if self.learning_rate is not None:
            check_number(self.learning_rate, "gradient: learning_rate", above=0.0)

    @property
    def _rate(self) -> float:
        """The rate of sweeps, 4 by default.

        A feature is 0 or 1, so its variance, which is the curvature of KL in its parameter, is at most 1/4. An update
        with rate e therefore lowers KL by at least ``e (1 - e / 8) gradient^2``: most for 4, nothing for 8.
        """
        return 4.0 if self.learning_rate is None else self.learning_rate

    def start(self, target: Target, theta: FloatArray) -> State:
        """Make the first state; its memory, 1, is the rate that the first batch step tries."""
        if self.form == "sweep" and self.learning_rate is None and target.problem.model.ties is not None:
            raise InvalidSetting(
                "gradient: the rate of its sweeps is for features that are 0 or 1, and those of tied parameters are "
                "not. Use solver='natural', or Gradient(form='batch')."
            )
        return State(target.at(theta), memory=1.0)

    def advance(self, target: Target, state: State) -> State | None:
        """Take one pass over B (sweep), or one step of all parameters with the given or the Barzilai-Borwein rate."""
        point, before = state.point, state.point.theta
        if self.form == "sweep":
            for v in range(len(before)):
                theta = point.theta.copy()
                theta[v] -= self._rate * point.gradient[v]
                point = target.at(theta)
            return None if np.array_equal(before, point.theta) else State(point, step=self._rate)
        if self.learning_rate is not None:
            return State(target.at(before - self.learning_rate * point.gradient), step=self.learning_rate)
        # The Barzilai-Borwein rate of the last step comes first. If Q is nearly one cell, the gradient hardly changes,
        # and that rate may be huge: no entry may change by more than ten times the size of theta.
        furthest = 10.0 * (1.0 + float(np.abs(before).max(initial=0.0)))
        first = min(float(state.memory), furthest / max(point.residual, 1e-300))
        landed = search(target, point, -point.gradient, first=first)
        if landed is None:
            return None
        # the next rate is |change of theta|^2 / (change of theta . change of gradient)
        moved = landed.point.theta - before
        curvature = float(moved @ (landed.point.eta - point.eta))
        return replace(landed, memory=float(moved @ moved) / curvature if curvature > 0 else 1.0)

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap, by the only Fisher matrix of the fit."""
        return replace(state, gap=newton_bound(target, state.point)[0])
