"""Scaling: fit one margin after another, for bases that consist of margins only.

`Scaling` is iterative proportional fitting of tensors. Each fit is the exact minimum in the parameters of its margin.
Decomposable sets of margins on a full grid are solved by one cycle in running order.

`MatrixScaling` works with the logarithms of row and column factors (the potentials). A cycle (`sinkhorn_cycle`) is two
products with the matrix. The matrix determines its rate of convergence; over-relaxation by a factor omega needs about
the square root of the number of cycles. If too many cycles would still be left, Newton's method takes over. The Hessian
in the potentials is ``[D_r Q; Q' D_c]``, which is reduced to the shorter side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from sys import float_info
from typing import ClassVar, NamedTuple

import numpy as np

from legendre.core.cells import other_modes
from legendre.core.errors import InvalidSetting
from legendre.core.sums.linalg import factorise
from legendre.core.sums.zeta import moebius, zeta_adjoint
from legendre.core.types import FloatArray, IntArray, Modes, frozen
from legendre.engines.matrix import MatrixEngine, Scaled
from legendre.engines.protocol import Point
from legendre.model.model import generating_margins, running_order
from legendre.model.problem import Problem, list_within
from legendre.solvers.linesearch import search
from legendre.solvers.loop import Solver, State, Target
from legendre.solvers.newton import bound_along

WINDOW = 5  # residuals over which the rate of convergence is measured


@frozen
class Margin:
    """A margin of the data, to which Q is scaled."""

    summed: Modes  # the modes that are summed out
    values: FloatArray  # the margin of P, with length 1 in those modes
    rows: IntArray  # the numbers of the parameters that belong to this margin
    cells: tuple[IntArray, ...]  # the cells of these parameters, as indices of `values`


@frozen
class Scales:
    """What `Scaling` carries from cycle to cycle: the current Q, and the factors that led to it."""

    start: FloatArray  # theta at the start
    psi: float  # of the start
    margins: tuple[Margin, ...]
    q: FloatArray  # the current tensor on the merged grid
    log_scales: tuple[FloatArray, ...]  # for each margin, the logarithms of all its factors so far, in its shape
    residuals: tuple[float, ...] = ()  # of the last cycles


@dataclass(frozen=True)
class Scaling(Solver):
    """Multiply Q by ``margin of P / margin of Q``, margin after margin, until all agree; a step is one cycle.

    Parameters
    ----------
    horizon
        Stop, and let another solver continue, when at the present rate more cycles than this are left.

    See Also
    --------
    legendre.solvers.MatrixScaling : Sinkhorn's cycles for matrices.
    legendre.solvers.Natural : Newton steps with the Fisher matrix.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 5]], "B1", solver=Scaling())
    >>> fit.n_iter, fit.converged
    (1, True)
    """

    max_iter: int = 10_000
    patience: int = 5
    horizon: int | None = None
    name: ClassVar[str] = "scaling"
    accepts_dependent: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:
        """Compute the margins of P, and the tensor Q at theta to scale."""
        margins, point = _list_margins(target.problem), target.at(theta)
        none = tuple(np.zeros(margin.values.shape) for margin in margins)
        q = target.engine.probabilities(point)
        return State(point, memory=Scales(theta, point.psi, margins, q, none))

    def advance(self, target: Target, state: State) -> State | None:
        """Scale Q to each margin once; ``None`` if another solver should continue.

        It should if more than `horizon` cycles are left, or if a margin of P has an empty cell. The factors are kept as
        logarithms, from which theta follows (`_make_point`).
        """
        scales: Scales = state.memory
        residuals = (*scales.residuals, state.point.residual)[-WINDOW:]
        if self.horizon is not None and cycles_left(residuals[-1], target.tol, rate(residuals)) > self.horizon:
            return None
        q, logs = scales.q.copy(), []
        for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
            current = q.sum(axis=margin.summed, keepdims=True)
            ratio = np.divide(margin.values, current, out=np.ones_like(current), where=current > 0)
            if not (ratio.all() and np.isfinite(ratio).all()):
                return None  # P has an empty cell in this margin: cells vanish in the limit, and theta is not finite
            q *= ratio
            logs.append(log_scale + np.log(ratio))
        following = replace(scales, q=q, log_scales=tuple(logs), residuals=residuals)
        return State(target.evaluate(_make_point(following)), memory=following, step=1.0)

    def finish(self, target: Target, state: State) -> State:
        """Evaluate theta by the engine, so that the residual is theta's and not that of the scaled Q; bound the gap."""
        gap, tilt = _bound_gap(state.memory)
        return replace(state, point=target.at(state.point.theta), gap=gap, tilt=tilt)


def _bound_gap(scales: Scales, max_cycles: int = 100) -> tuple[float, float]:
    """Bound KL(P, Q) minus its minimum by the squared Newton decrement, see `newton.newton_bound`; and the tilt.

    No Fisher matrix is needed: a is found by the same cycles, linearised. It is changed margin by margin until ``q (1 +
    a)`` has the margins of the data, to 1 % of what was missing at first: the bound itself is only good to a factor of
    2. Both bounds are infinite if that takes more than `max_cycles` or if ``q (1 + a)`` is negative somewhere.
    """
    q = scales.q
    margins = [(margin, q.sum(axis=margin.summed, keepdims=True)) for margin in scales.margins]
    a = np.zeros_like(q)
    first = 0.0
    rounding = float_info.epsilon * np.sqrt(q.size)  # of a sum of this many probabilities
    for _ in range(max_cycles):
        missing = 0.0
        for margin, current in margins:
            lack = margin.values - current - (q * a).sum(axis=margin.summed, keepdims=True)
            a += np.divide(lack, current, out=np.zeros_like(current), where=current > 0)
            missing = max(missing, float(np.abs(lack).max()))
        first = max(first, missing)
        if missing <= max(0.01 * first, rounding):
            if a.min() >= -1.0:
                return float((q * a * a).sum()), float(np.abs(a).max(where=q > 0, initial=0.0))
            break
    return np.inf, np.inf


def _list_margins(problem: Problem) -> tuple[Margin, ...]:
    """List the margins of P in the order in which they are fitted; raise InvalidSetting if B is not a set of margins.

    In running order, one cycle is exact if the margins are decomposable.
    """
    modes = generating_margins(problem.model)
    if modes is None:
        raise InvalidSetting(
            "scaling fits whole margins, and this basis is not a set of margins (or some of its parameters are "
            "dependent on the support). Use solver='natural', or interactions(...) on a full grid."
        )
    positions, margins = problem.model.positions, []
    for group in running_order(modes) or modes:
        rows, summed = list_within(positions, group), other_modes(group, positions.shape[1])
        margins.append(Margin(summed, problem.margin(group), rows, tuple(positions[rows].T)))
    return tuple(margins)


def _make_point(scales: Scales) -> Point:
    """Compute theta, eta and psi of the current tensor from its margins, which is cheaper than a sweep of the grid.

    log q is that of the start plus the logarithms of all factors. Theta therefore changes by the Möbius inverse of
    these, and psi by minus their sum at the bottom cell. The total of q, which is 1 up to rounding, is divided out.
    """
    total, theta, eta = float(scales.q.sum()), scales.start.copy(), np.empty_like(scales.start)
    for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
        eta[margin.rows] = zeta_adjoint(scales.q.sum(axis=margin.summed, keepdims=True) / total)[margin.cells]
        theta[margin.rows] += moebius(log_scale)[margin.cells]
    bottom = sum(float(log_scale.flat[0]) for log_scale in scales.log_scales)
    return Point(theta, eta, scales.psi - bottom + float(np.log(total)))


class CycleMemory(NamedTuple):
    """What `MatrixScaling` carries from cycle to cycle."""

    rows: FloatArray  # the row sums to meet
    columns: FloatArray  # the column sums to meet
    left: int  # how many more cycles cost less than Newton's steps; -1: Newton's method has taken over
    residuals: tuple[float, ...] = ()  # the last ones since omega was set
    omega: float = 1.0  # the relaxation: a cycle moves the log factors this many times as far as Sinkhorn's does

    def update(self, residual: float, tol: float) -> CycleMemory:
        """Return the memory of the next cycle: count a cycle, and set omega once the rate of convergence is known.

        If even with the best omega more cycles would be left than are affordable, `left` is -1: Newton's method takes
        over.
        """
        memory = self._replace(residuals=(*self.residuals, residual)[-WINDOW:], left=max(self.left - 1, -1))
        if len(memory.residuals) < WINDOW or memory.left < 0:
            return memory
        factor = rate(memory.residuals)
        omega = relaxation(factor, memory.omega)
        if factor >= 1 or cycles_left(residual, tol, omega - 1.0) > memory.left:
            return memory._replace(left=-1)
        # a change of omega by less than 0.02 is not worth the cycles that are needed to measure the new rate
        return memory._replace(omega=omega, residuals=()) if omega > memory.omega + 0.02 else memory


@dataclass(frozen=True)
class MatrixScaling(Solver):
    """Balance a matrix: cycles while they converge fast, Newton's steps from then on.

    Parameters
    ----------
    prove
        Bound the gap at the end: one more Newton direction, which proves that a finite answer exists.

    See Also
    --------
    legendre.solvers.Scaling : Proportional fitting of margins, in cycles.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.balance([[1, 2], [3, 4]], solver=MatrixScaling()).converged
    True
    """

    prove: bool = True
    max_iter: int = 1_000
    patience: int = 10
    name: ClassVar[str] = "matrix-scaling"
    accepts_dependent: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin with cycles at theta; the two modes with more than one level are the rows and the columns."""
        affordable = _count_affordable(target)
        sides = [k for k, n in enumerate(target.problem.model.quotient.merged_shape) if n > 1]
        rows, columns = (target.problem.margin((k,)).ravel() for k in sides)
        return State(target.at(theta), memory=CycleMemory(rows, columns, affordable))

    def advance(self, target: Target, state: State) -> State | None:
        """Take a cycle, or a Newton step once cycles have become too slow."""
        engine, memory = _require_matrix(target), state.memory.update(state.point.residual, target.tol)
        if memory.left < 0:
            landed = search(target, state.point, _newton_direction(target, state), memory)
            if landed is not None:
                return landed
            # Newton's equations are singular in floating point, because some rows and columns are hardly linked. Cycles
            # continue, however slowly; Newton's method gets another chance later.
            memory = memory._replace(residuals=(), left=_count_affordable(target), omega=1.0)
        point = sinkhorn_cycle(engine, state.point, memory)
        return State(target.evaluate(point), memory=memory, step=memory.omega)

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap as `newton.newton_bound` does."""
        if not self.prove:
            return state
        gap, tilt = bound_along(target, state.point, _newton_direction(target, state))
        return replace(state, gap=gap, tilt=tilt)


def _count_affordable(target: Target) -> int:
    """Estimate how many cycles cost as much as the few Newton steps that would replace them.

    A Newton step on an n x n matrix takes of the order of n^3 operations and a cycle n^2, so the number grows with n.
    """
    return 20 + int(min(_require_matrix(target).weights.shape)) // 4


def sinkhorn_cycle(engine: MatrixEngine, point: Point, memory: CycleMemory) -> Point:
    """Scale the rows, then the columns, to their margins, with relaxation omega: two products with the matrix.

    Omega 1 is the method of Sinkhorn (1964); a larger omega is successive over-relaxation of the log factors.
    """
    old: Scaled = point.cache
    f = old.f + memory.omega * (_find_factors(memory.rows, old.per_row, old.f) - old.f)
    per_column = engine.log_product(f, 0)
    g = old.g + memory.omega * (_find_factors(memory.columns, per_column, old.g) - old.g)
    return engine.scaled_by(f, g, per_column)


def _find_factors(wanted: FloatArray, log_sums: FloatArray, last: FloatArray) -> FloatArray:
    """Find the log factors that give rows (or columns) the wanted sums.

    `log_sums` are the logarithms of the sums without these factors. A row whose wanted or present sum is 0 keeps its
    last factor.
    """
    filled = (wanted > 0) & (log_sums > -np.inf)
    return np.subtract(np.log(wanted, where=filled, out=last.copy()), log_sums, where=filled, out=last.copy())


def _require_matrix(target: Target) -> MatrixEngine:
    """Return the engine for matrices; raise InvalidSetting if the problem is not a matrix with two margins."""
    if not isinstance(target.engine, MatrixEngine):  # a user may ask for this solver on any problem
        raise InvalidSetting(
            "solver='matrix-scaling' balances matrices to margins of rows and columns. Use solver='auto'."
        )
    return target.engine


def _newton_direction(target: Target, state: State) -> FloatArray:
    """Compute Newton's direction in theta: solve for the log factors, of which theta has the differences of neighbours.

    Theta adds up to the log factors along each side of the matrix.
    """
    engine, memory = _require_matrix(target), state.memory
    scaled: Scaled = state.point.cache
    q = engine.probabilities(state.point).reshape(len(scaled.f), len(scaled.g))
    direction = np.empty(engine.n_params)
    changes = reduced_newton(q, memory.rows - scaled.rows, memory.columns - scaled.columns)
    for line, change in zip(engine.lines, changes, strict=True):
        direction[line] = np.diff(change)
    return direction


def reduced_newton(q: FloatArray, rows: FloatArray, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve ``[D_r Q; Q' D_c] (df, dg) = (rows, columns)``, where D_r and D_c hold the sums of Q's rows and columns.

    This is Newton's equation for the log factors; `rows` and `columns`, with equal totals, are what their sums lack.
    The rows are eliminated, which leaves the Schur complement ``D_c - Q' D_r^-1 Q``. It is the Laplacian of a graph of
    the columns, so its diagonal is computed as the sum of the other entries. Weak links between the blocks of a nearly
    decomposable matrix are thus not lost by cancellation.

    >>> df, dg = reduced_newton(np.array([[0.2, 0.3], [0.4, 0.1]]), np.array([0.1, -0.1]), np.array([0.0, 0.0]))
    >>> (np.array([[0.2, 0.3], [0.4, 0.1]]) * (df[:, None] + dg)).sum(axis=1).round(12).tolist()
    [0.1, -0.1]
    """
    if q.shape[0] < q.shape[1]:  # the longer side is eliminated, and a small system is left
        return reduced_newton(q.T, columns, rows)[::-1]
    sums = q.sum(axis=1)
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    half = q * np.sqrt(inverse)[:, None]  # so that the product is exactly symmetric
    links, moved = half.T @ half, (inverse * rows) @ q
    np.fill_diagonal(links, 0.0)
    degrees = links.sum(axis=1)
    np.negative(links, out=links)
    np.fill_diagonal(links, degrees)
    # a constant can be moved from rows to columns, so one column is held at 0; the factor leaves out one more for each
    # further connected component of the graph
    dg = np.zeros(len(columns))
    dg[:-1] = factorise(np.ascontiguousarray(links[:-1, :-1]), q.size).solve((columns - moved)[:-1])
    df: FloatArray = inverse * (rows - q @ dg)
    return df, dg


def rate(residuals: tuple[float, ...]) -> float:
    """Return the mean factor from one residual to the next; 0 while fewer than `WINDOW` have been seen.

    >>> round(rate((16.0, 8.0, 4.0, 2.0, 1.0)), 12)
    0.5
    """
    if len(residuals) < WINDOW or not residuals[0] > 0:
        return 0.0
    return float((residuals[-1] / residuals[0]) ** (1 / (WINDOW - 1)))


def relaxation(factor: float, omega: float) -> float:
    """Return the best omega of successive over-relaxation, given the factor per cycle that was measured at `omega`.

    By Young (1954), a cycle at omega multiplies the error by the factor with ``(factor + omega - 1)^2 = factor omega^2
    mu^2``, where mu^2 is the factor at omega 1. The best omega is ``2 / (1 + sqrt(1 - mu^2))``; the factor there is
    omega - 1. The result is never smaller than `omega`.

    >>> round(relaxation(0.75, 1.0), 12)
    1.333333333333
    """
    squared = (factor + omega - 1.0) ** 2 / (factor * omega**2) if factor > 0 else 0.0
    return max(omega, 2.0 / (1.0 + math.sqrt(max(1.0 - squared, 0.0))))


def cycles_left(residual: float, tol: float, factor: float) -> float:
    """Predict how many cycles are left until the residual is at most tol, if each multiplies it by `factor`.

    >>> round(cycles_left(1e-5, 1e-10, 0.1))
    5
    >>> cycles_left(1e-5, 1e-10, 1.0)
    inf
    """
    if residual <= tol or factor <= 0:
        return 0.0
    if tol == 0 or not factor < 1:
        return math.inf
    return math.log(residual / tol) / -math.log(factor)
