"""Matrix scaling in the logarithms of row and column factors (the potentials): Sinkhorn's cycles, then Newton's steps.

A cycle (`sinkhorn_cycle`) is two products with the matrix, and converges at a rate that the matrix dictates.
Overstepping takes the square root of the number of cycles. Where there are still too many, Newton's method takes over:
the Hessian in the potentials is ``[D_r Q; Q' D_c]``, reduced to the shorter side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.sums.linalg import dot, factorise
from legendre.core.types import FloatArray
from legendre.engines.matrix import MatrixEngine, scaled
from legendre.engines.protocol import Point
from legendre.solvers.linesearch import search
from legendre.solvers.protocol import Solver, State, Target
from legendre.solvers.scaling import WINDOW, cycles_left, rate, relaxation

WORTHWHILE = 0.03  # omega is changed when it comes closer to 2, its limit, by this share


class CycleMemory(NamedTuple):
    """The margins to meet; the cycles that are affordable; residuals since omega was set; omega, 0 for Newton."""

    rows: FloatArray
    columns: FloatArray
    left: int
    residuals: tuple[float, ...] = ()
    omega: float = 1.0

    def judged(self, residual: float, tol: float) -> CycleMemory:
        """Overstep more where that helps; leave cycles for good where too many would be left even so."""
        memory = self._replace(residuals=(*self.residuals, residual)[-WINDOW:], left=self.left - 1)
        factor = rate(memory.residuals)
        if not memory.omega or factor is None:
            return memory
        omega = relaxation(factor, memory.omega)
        if factor >= 1 or memory.left < 0 or cycles_left(residual, tol, omega - 1.0) > memory.left:
            return memory._replace(omega=0.0)
        if omega - memory.omega > WORTHWHILE * (2.0 - memory.omega):
            return memory._replace(omega=omega, residuals=())
        return memory


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
    needs_matrix: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:
        left = _affordable(_engine(target))
        return State(target.at(theta), memory=CycleMemory(*_wanted(target), left))

    def advance(self, target: Target, state: State) -> State | None:
        engine, memory = _engine(target), state.memory.judged(state.point.residual, target.tol)
        if memory.omega:
            point = sinkhorn_cycle(engine, state.point, memory.rows, memory.columns, memory.omega)
            return State(target.evaluated(point), memory=memory, step=memory.omega)
        landed = search(target, state.point, _direction(target, state), memory)
        if landed is not None:
            return landed
        # links too weak for floating point: cycles go on, however slowly, and may strengthen them
        afresh = memory._replace(omega=1.0, residuals=(), left=_affordable(engine))
        point = sinkhorn_cycle(engine, state.point, memory.rows, memory.columns)
        return State(target.evaluated(point), memory=afresh, step=1.0)

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap as `natural.newton_gap` does."""
        if not self.prove:
            return state
        direction = _direction(target, state)
        tilt = target.engine.swing(direction)
        gap = max(-dot(state.point.gradient, direction), 0.0)
        return replace(state, gap=gap, tilt=tilt) if tilt <= 1.0 else state


def sinkhorn_cycle(
    engine: MatrixEngine, point: Point, rows: FloatArray, columns: FloatArray, omega: float = 1.0
) -> Point:
    """Scale the rows, then the columns, to their margins, overstepping by omega: two products with the matrix."""
    old = scaled(point)
    f = _step(rows, old.per_row, old.f, omega)
    per_column = engine.log_product(f, 0)
    return engine.scaled_by(f, _step(columns, per_column, old.g, omega), per_column)


def _step(wanted: FloatArray, log_sums: FloatArray, last: FloatArray, omega: float) -> FloatArray:
    """Move towards the log factors that give the wanted sums; those of empty rows or columns stay."""
    goal = np.log(wanted, where=wanted > 0, out=np.zeros_like(wanted))
    np.subtract(goal, log_sums, out=goal, where=log_sums > -np.inf)
    moved = last + omega * (goal - last)
    return np.where((wanted > 0) & (log_sums > -np.inf), moved, last)


def _wanted(target: Target) -> tuple[FloatArray, FloatArray]:
    sides = [k for k, n in enumerate(target.problem.model.quotient.merged_shape) if n > 1]
    rows, columns = (target.problem.margin((k,)).ravel() for k in sides)
    return rows, columns


def _engine(target: Target) -> MatrixEngine:
    if not isinstance(target.engine, MatrixEngine):  # the caller may name this solver for any problem
        raise InvalidSetting(
            "solver='matrix-scaling' balances matrices to margins of rows and columns. Use solver='auto'."
        )
    return target.engine


def _affordable(engine: MatrixEngine) -> int:
    """Count the cycles that cost as much as the few Newton steps that would replace them."""
    return 20 + int(min(engine.weights.shape)) // 4


def _direction(target: Target, state: State) -> FloatArray:
    """Compute Newton's direction in theta."""
    engine, at, memory = _engine(target), scaled(state.point), state.memory
    q = engine.probabilities(state.point)
    wanted = memory.rows - at.rows, memory.columns - at.columns
    if q.shape[0] < q.shape[1]:
        dg, df = reduced_newton(q.T, wanted[1], wanted[0])
    else:
        df, dg = reduced_newton(q, *wanted)
    direction = np.empty(engine.n_params)
    for line, change in zip(engine.lines, (df, dg), strict=True):
        direction[line] = np.diff(change)
    return direction


def reduced_newton(q: FloatArray, rows: FloatArray, columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve ``[D_r Q; Q' D_c] (df, dg) = (rows, columns)`` with the rows eliminated; both sides have the same sum.

    The Schur complement ``D_c - Q' D_r^-1 Q`` is the Laplacian of a graph. Its diagonal is summed from the other
    entries: so weak links between the blocks of a nearly decomposable matrix are not lost by cancellation.

    >>> df, dg = reduced_newton(np.array([[0.2, 0.3], [0.4, 0.1]]), np.array([0.1, -0.1]), np.array([0.0, 0.0]))
    >>> (np.array([[0.2, 0.3], [0.4, 0.1]]) * (df[:, None] + dg)).sum(axis=1).round(12).tolist()
    [0.1, -0.1]
    """
    sums = q.sum(axis=1)
    inverse = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
    half = q * np.sqrt(inverse)[:, None]
    links, moved = half.T @ half, (inverse * rows) @ q
    np.fill_diagonal(links, 0.0)
    degrees = links.sum(axis=1)
    np.negative(links, out=links)
    np.fill_diagonal(links, degrees)
    # constants cost nothing, so that one column is held at 0; the factor drops one more for each further block
    laplacian, dg = factorise(np.ascontiguousarray(links[:-1, :-1]), q.size), np.zeros(len(columns))
    dg[:-1] = laplacian.solve((columns - moved)[:-1])
    df: FloatArray = inverse * (rows - q @ dg)
    return df, dg
