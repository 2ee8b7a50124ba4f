"""Algorithm 2: the natural gradient, which for this model is Newton's method; and closed forms.

`Natural` factorises the Fisher matrix. `NaturalCG` does without one, for large bases. `Closed` writes the answer down
where it can be, and corrects it by Newton steps. The bounds of the gap at the end of a fit rest on the Newton step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from legendre.core import limits
from legendre.core.errors import InvalidSetting
from legendre.core.sums.linalg import Factor, rounding_level, solve
from legendre.core.types import FloatArray, IntArray
from legendre.engines.junction import JunctionEngine
from legendre.engines.protocol import Preconditioner
from legendre.solvers.conjugate import conjugate_gradients
from legendre.solvers.linesearch import search
from legendre.solvers.loop import Evaluation, Solver, State, Target

ROUNDING = 1e-15  # expectations of order 1 are not known better than this: no correction beyond


@dataclass(frozen=True)
class Natural(Solver):
    """Solve ``G delta = eta_hat - eta`` by Cholesky and step by delta, shortened only where the full step is bad.

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
    name: ClassVar[str] = "natural"

    def advance(self, target: Target, state: State) -> State | None:
        """Take a Newton step with a line search; the last step of a fit may do with the factor of the one before."""
        point, work = state.point, state.memory or Workspace()
        # Step with the last factor, if the last step's contraction promises that this ends the fit, and it does: on all
        # of B, not only for the parameters that are fitted, else such steps may go back and forth indefinitely.
        if work.factor is not None and point.residual**2 <= target.tol * work.point.residual:
            after = target.at(point.theta + work.step(point))
            if after.residual <= target.tol and target.residual(after) <= target.tol:
                return State(after, memory=work, step=1.0)
        return search(target, point, work.solve(target, point), work)

    def finish(self, target: Target, state: State) -> State:
        """Correct with the last factor while that pays, so that cells far below tol gain their digits too.

        Only what is within tol is corrected: a budget that is spent, or a callback that stopped, is not overstepped.
        """
        point, work = state.point, state.memory or Workspace()
        if work.factor is None:  # the start was the answer
            # if cells may vanish, the tilt is to prove that none does, which takes an exact factor
            found = bound_nearby(target, point, target.inverse) if target.inverse and target.attained else None
            if found is None:
                found = bound(target, point, work.solve(target, point), work)
            return replace(state, gap=found[0], tilt=found[1])
        # corrections stop one digit beyond a loose tol, half as many digits again beyond a tight one
        enough = max(ROUNDING, 0.1 * target.tol if target.tol > 1e-8 else target.tol**1.5)
        for _ in range(4 if point.residual <= target.tol else 0):
            corrected = target.at(point.theta + work.step(point))
            if corrected.residual >= point.residual:
                break
            pays = corrected.residual < 0.2 * point.residual
            point = corrected
            if not pays or point.residual < enough:
                break
        gap, tilt = bound(target, point, work.step(point), work)
        return replace(state, point=point, gap=gap, tilt=tilt)


@dataclass(eq=False)
class Workspace:
    """The Fisher matrix G that was factorised last, and the point that it belongs to; all states of a fit share it.

    The memory of the matrix (k x k) is used again by the next factorisation.
    """

    matrix: FloatArray | None = None
    factor: Factor = None  # type: ignore[assignment]  # None before the first factorisation
    n_summed: int = 0  # cells that are summed over to get an entry of G, which determines its rounding error
    point: Evaluation = None  # type: ignore[assignment]  # where G was computed

    def solve(self, target: Target, point: Evaluation) -> FloatArray:
        """Compute G at a point and factorise it, in place of the last one; solve for the Newton step."""
        self.matrix, self.point = target.engine.fisher(point, self.matrix), point
        self.n_summed = self.n_summed or target.problem.model.n_summed
        self.factor, direction = solve(self.matrix, self.n_summed, point.gradient)
        return -direction

    def step(self, point: Evaluation) -> FloatArray:
        """Solve ``G delta = eta_hat - eta`` with the last factor, which is near the Newton step and costs far less."""
        return -self.factor.solve(point.gradient)

    def noise(self, target: Target, point: Evaluation) -> FloatArray:
        """Estimate the rounding error of each eta: what is below it cannot be told from 0."""
        return rounding_level(len(point.theta), self.n_summed) * target.engine.sizes(point)


@dataclass(frozen=True)
class NaturalCG(Solver):
    """Natural gradient without a Fisher matrix: memory for the cells and the parameters, O(``|Omega| + |B|``).

    Parameters
    ----------
    max_products
        The largest number of Fisher-vector products in one step.

    See Also
    --------
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=NaturalCG()).converged
    True
    """

    max_products: int = 20_000
    max_iter: int = 500
    patience: int = 5
    name: ClassVar[str] = "natural-cg"
    accepts_dependent: ClassVar[bool] = True

    def advance(self, target: Target, state: State) -> State | None:
        """Solve for the step as exactly as pays: to a share of about the Newton decrement, at most 0.3.

        That is what the quadratic model neglects. Where some cells move far more than the average, progress is slow;
        the second term (Eisenstat and Walker's choice 2) then saves products.
        """
        point, (last, before) = state.point, state.memory or (None, math.inf)
        pre = target.engine.preconditioner(point, last)
        size = math.sqrt(float(point.gradient @ pre.apply(point.gradient)))
        share = min(0.3, max(size, 0.9 * (size / before) ** 2))
        floor, most = target.tol / 3, self.max_products
        direction, _ = solve_by_products(target, point, pre, share=share, floor=floor, max_products=most)
        return search(target, point, direction, (pre, size))

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap as `newton_gap` does, with conjugate gradients in place of a factor.

        A solution to one per cent is enough, because the bound itself is only good to a factor of 2. A small Fisher
        matrix is factorised instead, since conjugate gradients may miss directions of almost no curvature.
        """
        point = state.point
        if point.residual <= ROUNDING:  # the rest is noise, which no solve resolves
            return replace(state, gap=point.residual)
        if len(point.theta) <= limits.KEPT_JOINS and target.problem.model.n_cells <= limits.NUMPY_CELLS:
            return replace(state, gap=newton_gap(target, point))
        pre = target.engine.preconditioner(point, state.memory and state.memory[0])
        most = self.max_products
        direction, left = solve_by_products(target, point, pre, share=0.01, floor=ROUNDING, max_products=most)
        gap, tilt = bound_along(target, point, direction, left)
        return replace(state, gap=gap, tilt=tilt)


@dataclass(frozen=True)
class Closed(Solver):
    """Compute the closed form: the outer product of the data's margins, or a product along a tree of cliques.

    Natural-gradient steps follow only if the rounding error is above tol.

    See Also
    --------
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Closed()).n_iter
    0
    """

    max_iter: int = 10
    patience: int = 2
    name: ClassVar[str] = "closed"
    accepts_dependent: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:  # noqa: ARG002 - the answer needs no start
        """Write the answer down; raise InvalidSetting if the problem has no closed form."""
        engine = target.engine
        answer = engine.closed_form(target.problem) if isinstance(engine, JunctionEngine) else None
        if answer is None:
            raise InvalidSetting(
                "the closed form is for one-body bases such as B1 on a full grid without zeros in its margins. "
                "Use solver='auto'."
            )
        return State(target.at(answer))

    def advance(self, target: Target, state: State) -> State | None:
        return Natural().advance(target, state)

    def finish(self, target: Target, state: State) -> State:
        assert isinstance(target.engine, JunctionEngine)
        gap, tilt = target.engine.closed_gap(target.problem, state.point)
        return replace(state, gap=gap, tilt=tilt)


def solve_by_products(
    target: Target, point: Evaluation, inverse: Preconditioner, **stops: Any
) -> tuple[FloatArray, float]:
    """Solve ``G delta = eta_hat - eta`` by products with G; `stops` and the result are those of `conjugate_gradients`.

    `inverse` is something near the inverse of G.
    """
    product = partial(target.engine.fisher_product, point)
    return conjugate_gradients(product, -point.gradient, inverse.apply, **stops)


def newton_gap(target: Target, point: Evaluation) -> float:
    """Bound KL(P, Q) above its minimum by the squared Newton decrement; infinite where it bounds nothing.

    Let d solve ``G d = eta_hat - eta`` and let a be ``zeta(d)`` less its mean. Then ``m = q (1 + a)`` has the
    expectations of the data. Where m >= 0 it is a distribution, and by the Pythagorean theorem KL(P, Q) is above its
    minimum by at most ``KL(m, q) <= sum of q a^2 = d . G d``.
    """
    work = Workspace()
    return bound(target, point, work.solve(target, point), work)[0]


def bound_along(target: Target, point: Evaluation, direction: FloatArray, unsolved: float = 0.0) -> tuple[float, float]:
    """Bound the gap as `newton_gap` does, given the Newton step; and the tilt, ``max|m / q - 1|``.

    `unsolved` is the squared norm of what an inexact step leaves of its equations, which is added to the gap. Where the
    tilt is above 1, m is negative in some cell and proves nothing: both bounds are then infinite.
    """
    tilt = target.engine.swing(direction)
    gap = max(unsolved - float(point.gradient @ direction), 0.0)
    return (gap, tilt) if tilt <= 1.0 else (np.inf, np.inf)


def newton_tilt(target: Target, point: Evaluation, columns: IntArray) -> float:
    """Compute ``|m / q - 1|`` for the m of `newton_gap`, in terms of some independent parameters that span all.

    Infinite where rounding leaves fewer of them independent: then no m is known to have the data's expectations.
    """
    g = target.engine.fisher(point)
    part = g if len(columns) == len(g) else g[np.ix_(columns, columns)]
    direction = np.zeros_like(point.gradient)
    factor, direction[columns] = solve(part, target.problem.model.n_summed, point.gradient[columns])
    if len(factor.columns) < len(columns):
        return np.inf
    return target.engine.swing(direction)


def bound(target: Target, point: Evaluation, direction: FloatArray, work: Workspace) -> tuple[float, float]:
    """Bound the gap and the tilt at `point`, q, by a direction solved with the factor of an earlier point, q0.

    With d and a as in `newton_gap` but taken at q0, ``m = q + q0 a`` has the expectations of the data. Where no
    probability changed by more than a factor e^r between q0 and q, ``m >= 0`` if ``|a| <= e^-r``, and
    ``KL(m, q) <= sum of (q0 a)^2 / q <= e^r sum of q0 a^2``. A factor drops parameters that depend on others, and those
    of which rounding leaves too little. Its solution is d all the same if ``G d`` is what it should be for the dropped
    parameters too, up to the rounding error of eta; the tilt then proves nothing.
    """
    full = len(work.factor.columns) == len(point.theta)
    if not full:
        with np.errstate(over="ignore", invalid="ignore"):
            left = np.abs(point.gradient + target.engine.fisher(work.point) @ direction)
        if not (left <= work.noise(target, point)).all():
            return np.inf, np.inf
    if not np.isfinite(direction).all():  # of cells whose probability is nearly 0: no bound is known
        return np.inf, np.inf
    drift = target.engine.swing(point.theta - work.point.theta)
    factor = float(np.exp(drift)) if drift < 700.0 else np.inf  # e^710 overflows
    gap, tilt = (value * factor for value in bound_along(target, point, direction))
    if not tilt <= 1.0:
        return np.inf, np.inf
    if not full:
        return gap, np.inf
    if not target.attained:
        # Cells that vanish in the limit sink until their probability is below the rounding error of eta; eta then
        # equals eta_hat in every digit, though no finite theta attains the minimum. Errors of random signs show by how
        # much they may tilt m.
        noise = work.noise(target, point)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(4, len(noise)))
        tilt += factor * max(target.engine.swing(work.factor.solve(noise * sign)) for sign in signs)
    return gap, tilt


def bound_nearby(
    target: Target, point: Evaluation, inverse: Preconditioner, *, unsolved: float = 1e-6, max_products: int = 12
) -> tuple[float, float] | None:
    """Bound the gap and the tilt by conjugate gradients, given something near the inverse of G.

    The fit of a basis that was grown begins at its answer. Growing has a preconditioner, and a few products with G then
    cost far less than a factor of a large G. What the solution leaves of the right-hand side is computed anew, and
    measured twice: in the norm of the inverse, and in units of the features' standard deviations, since an approximate
    inverse that is nearly 0 in some direction would hide an error there. ``None`` if more is left than the share
    `unsolved`: the bound would lack digits.
    """
    size = float(point.gradient @ inverse.apply(point.gradient))
    variance = point.eta * (1.0 - point.eta)
    if not (size > 0.0 and (variance > 0.0).all()):
        return None
    direction, _ = solve_by_products(target, point, inverse, share=0.1 * unsolved, max_products=max_products)
    left = -point.gradient - target.engine.fisher_product(point, direction)
    rest = float(left @ inverse.apply(left))
    plain = float(point.gradient / variance @ point.gradient)
    if not (0.0 <= rest <= unsolved**2 * size and float(left / variance @ left) <= unsolved**2 * plain):
        return None
    return bound_along(target, point, direction, rest)
