"""Algorithm 2: the natural gradient, which for this model is Newton's method; and closed forms.

`Natural` factorises the Fisher matrix G. `NaturalCG` uses only products with G, for large bases. `Closed` computes the
answer by a formula if there is one, and corrects it by Newton steps. The bounds on the gap at the end of a fit are
proved with a Newton step, see `newton_bound`.
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
from legendre.core.types import FloatArray
from legendre.engines.junction import JunctionEngine
from legendre.engines.protocol import Preconditioner
from legendre.solvers.conjugate import conjugate_gradients
from legendre.solvers.linesearch import search
from legendre.solvers.loop import Evaluation, Solver, State, Target

ROUNDING = 1e-15  # the rounding error of expectations of order 1: smaller residuals are not corrected


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
        """Take a Newton step with a line search; the last step of a fit may use the factor of the step before."""
        point, work = state.point, state.memory or Workspace()
        # A step with the old factor saves a factorisation. It is tried if the residual falls below tol when it shrinks
        # by the same factor as in the last step, and taken only if that ends the fit. This is decided on all of B, not
        # only on the fitted parameters: otherwise such steps might go back and forth indefinitely.
        if work.factor is not None and point.residual**2 <= target.tol * work.point.residual:
            after = target.at(point.theta + work.step(point))
            if after.residual <= target.tol and target.residual(after) <= target.tol:
                return State(after, memory=work, step=1.0)
        return search(target, point, work.solve(target, point), work)

    def finish(self, target: Target, state: State) -> State:
        """Improve theta by up to four corrections with the last factor, and bound the gap and the tilt.

        The corrections give correct digits also to cells whose probability is far below tol. A point that is not within
        tol is not corrected, because the budget of steps is spent or the callback has stopped the fit.
        """
        point, work = state.point, state.memory or Workspace()
        if work.factor is None:  # the start was the answer, so no matrix has been factorised
            # a known approximate inverse is used, unless the tilt must prove that no cell vanishes: that needs a factor
            found = bound_nearby(target, point, target.inverse) if target.inverse and target.attained else None
            gap, tilt = found or newton_bound(target, point)
            return replace(state, gap=gap, tilt=tilt)
        # corrections stop one digit below a loose tol, and at tol^1.5 (1e-15 for 1e-10) below a tight one
        enough = max(ROUNDING, 0.1 * target.tol if target.tol > 1e-8 else target.tol**1.5)
        for _ in range(4 if point.residual <= target.tol else 0):
            corrected = target.at(point.theta + work.step(point))
            if corrected.residual >= point.residual:
                break
            pays = corrected.residual < 0.2 * point.residual  # with a smaller gain the next is not worth its sweep
            point = corrected
            if not pays or point.residual < enough:
                break
        gap, tilt = bound(target, point, work.step(point), work)
        return replace(state, point=point, gap=gap, tilt=tilt)


@dataclass(eq=False)
class Workspace:
    """The last Fisher matrix G that was factorised, its factor, and the point where it was computed.

    All states of a fit share one workspace, so that the next factorisation reuses the memory of the matrix (k x k).
    """

    matrix: FloatArray | None = None
    factor: Factor = None  # type: ignore[assignment]  # None before the first factorisation
    n_summed: int = 0  # cells that are summed over to get an entry of G, which determines its rounding error
    point: Evaluation = None  # type: ignore[assignment]  # where G was computed

    def solve(self, target: Target, point: Evaluation) -> FloatArray:
        """Compute G at a point and factorise it, overwriting the last one; return the Newton step."""
        k = len(point.theta)
        self.matrix = np.empty((k, k)) if self.matrix is None else self.matrix
        target.engine.fill_fisher(point, self.matrix)
        self.n_summed = self.n_summed or target.problem.model.n_summed
        self.factor, direction = solve(self.matrix, self.n_summed, point.gradient)
        # only a factor that drops parameters asks for G again, and what a point keeps may be as large as the grid
        self.point = point if len(self.factor.columns) < k else replace(point, cache=None)
        return -direction

    def step(self, point: Evaluation) -> FloatArray:
        """Solve ``G delta = eta_hat - eta`` with the last factor: nearly the Newton step, at a far lower cost."""
        return -self.factor.solve(point.gradient)

    def noise(self, target: Target, point: Evaluation) -> FloatArray:
        """Estimate the rounding error of each eta (k,): smaller differences cannot be distinguished from 0."""
        return rounding_level(len(point.theta), self.n_summed) * target.engine.sizes(point)


@dataclass(frozen=True)
class NaturalCG(Solver):
    """Natural gradient without a Fisher matrix: memory for the cells and the parameters, O(``|Omega| + |B|``).

    See Also
    --------
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=NaturalCG()).converged
    True
    """

    max_iter: int = 500
    patience: int = 5
    name: ClassVar[str] = "natural-cg"
    accepts_dependent: ClassVar[bool] = True

    def advance(self, target: Target, state: State) -> State | None:
        """Take an inexact Newton step: solve by conjugate gradients only as accurately as pays.

        The residual of the equations may be a share of about the Newton decrement, at most 0.3, because the quadratic
        model neglects as much. If progress is slow, as when some cells move far more than the average, the second term
        (choice 2 of Eisenstat and Walker 1996, with their 0.9) allows a larger share and saves products.
        """
        point, (last_inverse, last_size) = state.point, state.memory or (None, math.inf)
        inverse = target.engine.preconditioner(point, last_inverse)
        size = math.sqrt(float(point.gradient @ inverse.apply(point.gradient)))  # about the Newton decrement
        share = min(0.3, max(size, 0.9 * (size / last_size) ** 2))
        direction, _ = solve_by_products(target, point, inverse, share=share, floor=target.tol / 3)
        return search(target, point, direction, (inverse, size))

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap as `newton_bound` does, with conjugate gradients in place of a factor.

        A solution to 1 % is enough, because the bound itself is only good to a factor of 2. Where X was larger than
        memory, a step is little beside reading it: a better solution corrects theta, as `Natural` does. A small Fisher
        matrix is factorised instead, since conjugate gradients may miss directions with almost no curvature.
        """
        point = state.point
        if point.residual <= ROUNDING:  # the rest is noise, which no solve resolves
            return replace(state, gap=point.residual)
        if len(point.theta) <= limits.KEPT_JOINS and target.problem.model.n_cells <= limits.NUMPY_CELLS:
            return replace(state, gap=newton_bound(target, point)[0])
        inverse = target.engine.preconditioner(point, state.memory and state.memory[0])
        corrects = target.problem.model.tabled and point.residual <= target.tol
        share = 1e-4 if corrects else 0.01
        direction, unsolved = solve_by_products(target, point, inverse, share=share, floor=ROUNDING)
        gap, tilt = bound_along(target, point, direction, unsolved)
        if corrects and (corrected := target.at(point.theta + direction)).residual < point.residual:
            point = corrected
        return replace(state, point=point, gap=gap, tilt=tilt)


@dataclass(frozen=True)
class Closed(Solver):
    """Compute the closed form: the outer product of the data's margins, or a product along a junction tree.

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
        """Start at the answer, whatever theta is; raise InvalidSetting if the problem has no closed form."""
        engine = target.engine
        answer = engine.closed_form(target.problem) if isinstance(engine, JunctionEngine) else None
        if answer is None:
            raise InvalidSetting(
                "the closed form is for one-body bases such as B1 on a full grid without zeros in its margins. "
                "Use solver='auto'."
            )
        return State(target.at(answer))

    def advance(self, target: Target, state: State) -> State | None:
        """Correct the rounding error of the formula by a Newton step."""
        return Natural().advance(target, state)

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap and the tilt by the data's tables, which need no Fisher matrix."""
        assert isinstance(target.engine, JunctionEngine)
        gap, tilt = target.engine.closed_gap(target.problem, state.point)
        return replace(state, gap=gap, tilt=tilt)


def solve_by_products(
    target: Target, point: Evaluation, inverse: Preconditioner, **stops: Any
) -> tuple[FloatArray, float]:
    """Solve ``G delta = eta_hat - eta`` by products with G; `stops` and the result are those of `conjugate_gradients`.

    `inverse` is an approximate inverse of G.
    """
    product = partial(target.engine.fisher_product, point)
    return conjugate_gradients(product, -point.gradient, inverse.apply, **stops)


def newton_bound(target: Target, point: Evaluation) -> tuple[float, float]:
    """Bound KL(P, Q) minus its minimum (the gap), and the tilt, ``max|m / q - 1|``; infinite without a proof.

    Let d solve ``G d = eta_hat - eta`` and let a be ``zeta(d)`` minus its mean. Then ``m = q (1 + a)`` has the
    expectations of the data. If m >= 0 in every cell, it is a distribution, and by the Pythagorean theorem KL(P, Q) is
    above its minimum by at most ``KL(m, q) <= sum of q a^2 = d . G d``. The Fisher matrix is factorised, so solvers
    that have no factor of their own call this once, at the end of a fit.
    """
    work = Workspace()
    return bound(target, point, work.solve(target, point), work)


def bound_along(target: Target, point: Evaluation, direction: FloatArray, unsolved: float = 0.0) -> tuple[float, float]:
    """Bound the gap and the tilt as `newton_bound` does, given the Newton step `direction`, however it was solved.

    `unsolved` is the squared norm of the residual of an inexact step, which is added to the gap. If the bound on the
    tilt is above 1, m may be negative in some cell and prove nothing: both bounds are then infinite.
    """
    # |a| is at most the range of zeta(d), since a has mean 0; and d . G d is -gradient . d
    tilt = target.engine.swing(direction)
    gap = max(unsolved - float(point.gradient @ direction), 0.0)
    return (gap, tilt) if tilt <= 1.0 else (np.inf, np.inf)


def bound(target: Target, point: Evaluation, direction: FloatArray, work: Workspace) -> tuple[float, float]:
    """Bound the gap and the tilt at `point`, q, by a direction that was solved with the factor of an earlier point, q0.

    With d and a as in `newton_bound` but taken at q0, ``m = q + q0 a`` has the expectations of the data. If no
    probability changed by more than a factor e^r between q0 and q, then ``m >= 0`` if ``|a| <= e^-r``, and
    ``KL(m, q) <= sum of (q0 a)^2 / q <= e^r sum of q0 a^2``.

    A factor drops parameters whose variance given the others is 0 up to rounding. Its solution is still d if ``G d`` is
    right for the dropped parameters too, up to the rounding error of eta. The gap then holds up to rounding. The tilt
    is infinite, because it has to prove that no cell vanishes: rounding errors decide that, and those of the dropped
    parameters are not in it.
    """
    full = len(work.factor.columns) == len(point.theta)
    if not full:
        with np.errstate(over="ignore", invalid="ignore"):
            unsolved = np.abs(point.gradient + target.engine.fisher(work.point) @ direction)
        if not (unsolved <= work.noise(target, point)).all():
            return np.inf, np.inf
    if not np.isfinite(direction).all():  # overflow, where probabilities are nearly 0: no bound is known
        return np.inf, np.inf
    drift = target.engine.swing(point.theta - work.point.theta)
    growth = float(np.exp(drift)) if drift < 700.0 else np.inf  # e^r; e^710 overflows
    gap, tilt = (value * growth for value in bound_along(target, point, direction))
    if not tilt <= 1.0:
        return np.inf, np.inf
    if not full:
        return gap, np.inf
    return gap, tilt if target.attained else tilt + growth * _tilt_by_rounding(target, point, work)


def _tilt_by_rounding(target: Target, point: Evaluation, work: Workspace) -> float:
    """Estimate how far the rounding errors of eta may tilt m, by errors of this size with four random sign patterns.

    The probability of a cell that vanishes in the limit falls until it is below the rounding error of eta. Then eta
    equals eta_hat in every digit, although no finite theta attains the minimum. A tilt that is to prove that none
    vanishes must therefore count these errors.
    """
    noise = work.noise(target, point)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(4, len(noise)))
    moves = np.ascontiguousarray(work.factor.solve((noise * signs).T).T)
    return max(map(target.engine.swing, moves))


def bound_nearby(
    target: Target, point: Evaluation, inverse: Preconditioner, *, unsolved: float = 1e-6, max_products: int = 12
) -> tuple[float, float] | None:
    """Bound the gap and the tilt by conjugate gradients, given an approximate inverse of G.

    The last fit of a grown basis starts at its answer, and growing has a preconditioner. A few products with G then
    cost far less than a factor of a large G. The residual of the solution is computed anew and measured twice: in the
    norm of the inverse, and in units of the features' standard deviations, because an approximate inverse that is
    nearly 0 in some direction would hide an error there. ``None`` if one of them is more than the share `unsolved` of
    the right-hand side: the bound would not be accurate, and the caller factorises G.
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
