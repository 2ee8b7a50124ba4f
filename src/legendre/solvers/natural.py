"""Algorithm 2: the natural gradient, which for this model is Newton's method."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from legendre.core import limits
from legendre.core.sums.linalg import Factor, dot, factorise, rounding_level
from legendre.core.types import FloatArray, IntArray
from legendre.solvers.conjugate import bound_nearby
from legendre.solvers.linesearch import search
from legendre.solvers.protocol import Evaluation, Solver, State, Target

CORRECTIONS = 4  # corrections at most at the end of a fit
BLURS = 4  # errors of random signs that are tried: those of one sign may happen to cancel
ROUNDING = 1e-15  # expectations of order 1 are not known better than this: no correction beyond


@dataclass(frozen=True)
class Natural(Solver):
    """Solve ``G delta = eta_hat - eta`` by Cholesky and step by delta, shortened only where the full step is bad.

    Parameters
    ----------
    polish
        Correct the answer beyond tol at the end, and bound the gap.

    See Also
    --------
    legendre.solvers.NaturalCG : The same without a matrix, for large bases.
    legendre.solvers.Gradient : The paper's gradient descent.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Natural()).n_iter <= 5
    True
    """

    max_iter: int = 500
    patience: int = 5
    polish: bool = field(default=True, repr=False)
    name: ClassVar[str] = "natural"
    exact: ClassVar[bool] = True
    forms_fisher: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:
        return State(target.at(theta), memory=Workspace())

    def advance(self, target: Target, state: State) -> State | None:
        point, work = state.point, _workspace(state)
        if (chord := self._chord(target, point, work)) is not None:
            return chord
        return search(target, point, -work.factorise(target, point).factor.solve(point.gradient), work)

    @staticmethod
    def _chord(target: Target, point: Evaluation, work: Workspace) -> State | None:
        """Step with the last factor, if the last step's contraction promises that this ends the fit, and it does."""
        if work.anchor is None or point.residual**2 > target.tol * work.anchor.point.residual:
            return None
        after = target.at(point.theta - work.anchor.factor.solve(point.gradient))
        # of all of B, not only of the parameters that are fitted: else such steps may go to and fro for ever
        ends = after.residual <= target.tol and target.residual(after) <= target.tol
        return State(after, memory=work, step=1.0) if ends else None

    def finish(self, target: Target, state: State) -> State:
        """Correct with the last factor while that pays, so that cells far below tol gain their digits too.

        Only what is within tol is corrected: a budget that is spent, or a callback that stopped, is not overstepped.
        """
        if not self.polish:
            return state
        point, work = state.point, _workspace(state)
        if work.anchor is None:
            if target.inverse is not None and target.attained:  # else the tilt is to prove something
                found = bound_nearby(target, point, target.inverse)
                if found is not None:
                    return replace(state, gap=found[0], tilt=found[1])
            gap, tilt = bound(target, point, Workspace().factorise(target, point))
            return replace(state, gap=gap, tilt=tilt)
        # corrections stop one digit beyond a loose tol, half as many digits again beyond a tight one
        enough = max(ROUNDING, 0.1 * target.tol if target.tol > 1e-8 else target.tol**1.5)
        cheap = target.problem.model.space.n_cells < limits.COSTLY_SWEEP
        for _ in range(CORRECTIONS if cheap and point.residual <= target.tol else 0):
            corrected = target.at(point.theta - work.anchor.factor.solve(point.gradient))
            if corrected.residual >= point.residual:
                break
            pays = corrected.residual < 0.2 * point.residual
            point = corrected
            if not pays or point.residual < enough:
                break
        gap, tilt = bound(target, point, work.anchor)
        return replace(state, point=point, gap=gap, tilt=tilt)


@dataclass(frozen=True, eq=False)
class Anchor:
    """A factorised Fisher matrix and the point it belongs to."""

    point: Evaluation
    factor: Factor


@dataclass(eq=False)
class Workspace:
    """The one k x k matrix of a fit, shared by all its states, and what was last factorised in it."""

    matrix: FloatArray | None = None
    anchor: Anchor | None = None
    n_cells: int = 0

    def factorise(self, target: Target, point: Evaluation) -> Anchor:
        """Compute and factorise G at a point, in place of the last one."""
        self.matrix = target.engine.fisher(point, self.matrix)
        self.n_cells = self.n_cells or target.problem.model.space.n_summed
        self.anchor = Anchor(point, factorise(self.matrix, self.n_cells))
        return self.anchor


def _workspace(state: State) -> Workspace:
    """Return the fit's workspace, or a new one at a start that another solver made."""
    return Workspace() if state.memory is None else state.memory


def newton_gap(target: Target, point: Evaluation) -> float:
    """Bound KL(P, Q) above its minimum by the squared Newton decrement; infinite where it bounds nothing.

    Let d solve ``G d = eta_hat - eta`` and let a be ``zeta(d)`` less its mean. Then ``m = q (1 + a)`` has the
    expectations of the data. Where m >= 0 it is a distribution, and by the Pythagorean theorem KL(P, Q) is above its
    minimum by at most ``KL(m, q) <= sum of q a^2 = d . G d``.
    """
    return bound(target, point, Workspace().factorise(target, point))[0]


def newton_tilt(target: Target, point: Evaluation, columns: IntArray) -> float:
    """Compute ``|m / q - 1|`` for the m of `newton_gap`, in terms of some independent parameters that span all.

    Infinite where rounding leaves fewer of them independent: then no m is known to have the data's expectations.
    """
    point = target.at(point.theta)  # anew: the cache may belong to another engine
    g = target.engine.fisher(point)
    part = g if len(columns) == len(g) else g[np.ix_(columns, columns)]
    factor = factorise(part, target.problem.model.space.n_summed)
    if len(factor.columns) < len(columns):
        return np.inf
    direction = np.zeros_like(point.gradient)
    direction[columns] = factor.solve(point.gradient[columns])
    return target.engine.swing(direction)


def bound(target: Target, point: Evaluation, anchor: Anchor) -> tuple[float, float]:
    """Bound the gap at `point` with the factor from an earlier one, at q0; and the tilt, ``|m / q - 1|``.

    With d and a as in `newton_gap` but taken at q0, ``m = q + q0 a`` has the expectations of the data. Where no
    probability changed by more than a factor e^r between q0 and q, ``m >= 0`` if ``|a| <= e^-r``, and
    ``KL(m, q) <= sum of (q0 a)^2 / q <= e^r sum of q0 a^2``. A factor that dropped parameters solves for less than d.
    """
    if len(anchor.factor.columns) < len(point.theta):
        return np.inf, np.inf
    direction = anchor.factor.solve(point.gradient)
    if not np.isfinite(direction).all():  # of cells whose probability is next to nothing: no bound is known
        return np.inf, np.inf
    drift = target.engine.swing(point.theta - anchor.point.theta)
    factor = float(np.exp(drift)) if drift < 700.0 else np.inf  # e^710 overflows
    tilt = target.engine.swing(direction) * factor
    if not tilt <= 1.0:
        return np.inf, np.inf
    gap = max(dot(point.gradient, direction), 0.0) * factor
    return gap, tilt if target.attained else tilt + _blur(target, point, anchor) * factor


def bound_anew(target: Target, point: Evaluation) -> tuple[float, float]:
    """Bound gap and tilt with a factor computed here, also where parameters depend on each other.

    A factor drops parameters that depend on others, and those of which rounding leaves too little. Its solution is d
    all the same if ``G d`` is what it should be for the dropped parameters too, up to the rounding error of eta.
    """
    anchor = Workspace().factorise(target, point)
    if len(anchor.factor.columns) == len(point.theta):
        return bound(target, point, anchor)
    direction = anchor.factor.solve(point.gradient)
    with np.errstate(over="ignore", invalid="ignore"):
        left = np.abs(point.gradient - target.engine.fisher(point) @ direction)
    noise = rounding_level(len(point.theta), target.problem.model.space.n_summed) * target.engine.sizes(point)
    tilt = target.engine.swing(direction) if (left <= noise).all() else np.inf
    return (max(dot(point.gradient, direction), 0.0), tilt) if tilt <= 1.0 else (np.inf, np.inf)


def _blur(target: Target, point: Evaluation, anchor: Anchor) -> float:
    """Estimate by how much the rounding error of eta may tilt m: where q is no larger than that error, without bound.

    Each eta is known up to a share of `rounding_level`. Cells that vanish in the limit sink until their probability is
    less; eta then equals eta_hat in every digit, though no finite theta attains the minimum.
    """
    share = rounding_level(len(point.theta), target.problem.model.space.n_summed)
    sizes = share * target.engine.sizes(point)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(BLURS, len(point.theta)))
    return max(target.engine.swing(anchor.factor.solve(sizes * sign)) for sign in signs)
