"""Algorithm 1: gradient descent, as printed (one coordinate after the other) and as a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.sums.linalg import dot
from legendre.core.types import FloatArray
from legendre.solvers.linesearch import search
from legendre.solvers.natural import newton_gap
from legendre.solvers.protocol import Evaluation, Solver, State, Target

# 1 / max g_vv: a feature is 0 or 1, so that its variance, the curvature of KL along its parameter, is at most 1/4. An
# update with rate e lowers KL by at least e (1 - e / 8) gradient^2: most for 4, nothing for 8, and beyond KL may rise.
SWEEP_RATE = 4.0
FAR = 10.0  # times the size of theta that a step of the batch form may change an entry by
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Gradient(Solver):
    """Gradient descent on KL(P, Q).

    Parameters
    ----------
    learning_rate
        The paper's epsilon. ``None``: for the sweep 4, the rate that lowers KL most for certain; for the batch form the
        Barzilai-Borwein rate of the last step, shortened where KL would rise. A sweep never raises KL up to a rate of
        8, the batch form up to 8 divided by the number of parameters: 2 / (the largest eigenvalue of G there can be).
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
        if self.form not in ("sweep", "batch"):
            raise InvalidSetting(f"gradient: form is 'sweep' or 'batch', got {self.form!r}.")
        rate = self.learning_rate
        if rate is not None and not (isinstance(rate, (int, float)) and np.isfinite(rate) and rate > 0):
            raise InvalidSetting(f"gradient: learning_rate must be a positive number, got {rate!r}.")

    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin at theta; refuse to where no step leads back from: expectations lie in [0, 1], and so do gradients."""
        rate = SWEEP_RATE if self.learning_rate is None else self.learning_rate
        if self.form == "sweep" and self.learning_rate is None and target.problem.model.ties is not None:
            raise InvalidSetting(
                "gradient: the rate of its sweeps is for features that are 0 or 1, and those of tied parameters are "
                "not. Use solver='natural', or Gradient(form='batch')."
            )
        reach, far = rate * self.max_iter, float(np.abs(theta).max(initial=0.0))
        if far > reach:
            raise InvalidSetting(
                f"gradient: start has an entry of size {far:g}, and {self.max_iter:,} steps with a learning rate of "
                f"{rate:g} change an entry by at most {reach:g}. Begin nearer (the default is 0), or use "
                "solver='natural'."
            )
        return State(target.at(theta), memory=1.0)

    def advance(self, target: Target, state: State) -> State | None:
        if self.form == "sweep":
            return self._sweep(target, state.point)
        if self.learning_rate is not None:
            step = self.learning_rate * state.point.gradient
            return State(target.at(state.point.theta - step), step=self.learning_rate)
        return _barzilai_borwein(target, state)

    def finish(self, target: Target, state: State) -> State:
        return replace(state, gap=newton_gap(target, state.point))

    def _sweep(self, target: Target, point: Evaluation) -> State | None:
        rate = SWEEP_RATE if self.learning_rate is None else self.learning_rate
        before = point.theta
        for v in range(len(before)):
            theta = point.theta.copy()
            theta[v] -= rate * point.gradient[v]
            point = target.at(theta)
        return None if np.array_equal(before, point.theta) else State(point, step=rate)


def _barzilai_borwein(target: Target, state: State) -> State | None:
    before = state.point
    # where Q is nearly one cell the gradient hardly changes, and the rate of the last step means nothing
    furthest = FAR * (1.0 + float(np.abs(before.theta).max(initial=0.0)))
    first = min(float(state.memory), furthest / max(before.residual, TINY))
    landed = search(target, before, -before.gradient, first=first)
    if landed is None:
        return None
    moved = landed.point.theta - before.theta
    curvature = dot(moved, landed.point.eta - before.eta)
    return replace(landed, memory=dot(moved, moved) / curvature if curvature > 0 else 1.0)
