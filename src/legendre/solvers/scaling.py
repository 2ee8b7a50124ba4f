"""Iterative proportional scaling: fit one margin after the other, for bases that are nothing but margins.

Each fit is the exact minimum in the parameters of its margin. Decomposable sets of margins on a full grid are solved by
one cycle in the right order. At the end of the file: how fast cycles converge, and how far to overstep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.sums.zeta import moebius, zeta_adjoint
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Point
from legendre.model.margins import Modes, generating_margins, in_running_order
from legendre.model.problem import Problem, within
from legendre.solvers.protocol import Solver, State, Target

WINDOW = 5  # residuals over which the rate of convergence is measured
LINEAR_CYCLES = 100  # cycles at most to find the direction that bounds the gap


@dataclass(frozen=True, eq=False)
class Margin:
    """A margin of the data."""

    others: Modes  # the modes that are summed out
    values: FloatArray  # the margin of P, with length 1 in those modes
    rows: IntArray  # the parameters that are read from this margin
    cells: tuple[IntArray, ...]  # where they stand in `values`


@dataclass(frozen=True, eq=False)
class Scales:
    """The current tensor, where it started, and for each margin the logarithm of all factors it was multiplied with."""

    start: FloatArray
    psi: float
    margins: tuple[Margin, ...]
    q: FloatArray
    log_scales: tuple[FloatArray, ...]
    residuals: tuple[float, ...] = ()


@dataclass(frozen=True)
class Scaling(Solver):
    """Multiply Q by ``margin of P / margin of Q``, margin after margin, until all agree; a step is one cycle.

    Parameters
    ----------
    horizon
        Give up, for another solver to go on, when at the present rate more cycles than this are left.

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
        margins, point = _margins(target.problem), target.at(theta)
        none = tuple(np.zeros(margin.values.shape) for margin in margins)
        q = np.exp(target.engine.log_probabilities(point))
        return State(point, memory=Scales(theta, point.psi, margins, q, none))

    def advance(self, target: Target, state: State) -> State | None:
        scales: Scales = state.memory
        residuals = (*scales.residuals, state.point.residual)[-WINDOW:]
        factor = None if self.horizon is None else rate(residuals)
        if factor is not None and cycles_left(residuals[-1], target.tol, factor) > (self.horizon or 0):
            return None
        q, logs = scales.q.copy(), []
        for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
            current = q.sum(axis=margin.others, keepdims=True)
            with np.errstate(over="ignore"):
                ratio = np.divide(margin.values, current, out=np.ones_like(current), where=current > 0)
            if not (ratio.all() and np.isfinite(ratio).all()):
                # the margin is empty in P: its cells vanish in the limit, where theta is not finite; or it is so far
                # from Q's that no factor of float64 leads there
                return None
            q *= ratio
            logs.append(log_scale + np.log(ratio))
        following = replace(scales, q=q, log_scales=tuple(logs), residuals=residuals)
        return State(target.evaluated(_point(following)), memory=following, step=1.0)

    def finish(self, target: Target, state: State) -> State:
        """Evaluate theta anew, so that the certificate is theta's, and bound the gap."""
        gap, tilt = _gap(state.memory)
        return replace(state, point=target.at(state.point.theta), gap=gap, tilt=tilt)


def _gap(scales: Scales) -> tuple[float, float]:
    """Bound KL(P, Q) above its minimum by the squared Newton decrement, see `natural.newton_gap`; and the tilt.

    The Newton direction is found by the same cycles, linearised: a is changed margin by margin until ``q (1 + a)`` has
    the margins of the data.
    """
    q = scales.q
    margins = [(margin, q.sum(axis=margin.others, keepdims=True)) for margin in scales.margins]
    a = np.zeros_like(q)
    first = last = 0.0
    rounding = np.finfo(np.float64).eps * np.sqrt(q.size)  # of a sum of this many probabilities
    for _ in range(LINEAR_CYCLES):
        missing = 0.0
        for margin, current in margins:
            wanted = margin.values - current - (q * a).sum(axis=margin.others, keepdims=True)
            with np.errstate(over="ignore"):
                a += np.divide(wanted, current, out=np.zeros_like(current), where=current > 0)
            if not np.isfinite(a).all():  # a margin of Q is next to nothing: no linear step leads from there
                return np.inf, np.inf
            missing = max(missing, float(np.abs(wanted).max()))
        first, last = max(first, missing), missing
        if last <= max(0.01 * first, rounding):
            break
    within = last <= max(0.01 * first, rounding)
    tilt = float(np.abs(a).max(where=q > 0, initial=0.0))
    return (float((q * a * a).sum()), tilt) if within and a.min() >= -1.0 else (np.inf, np.inf)


def _margins(problem: Problem) -> tuple[Margin, ...]:
    """List the margins in the order in which they are fitted; refuse a basis that is not a set of margins."""
    modes = generating_margins(problem.model)
    if modes is None:
        raise InvalidSetting(
            "scaling fits whole margins, and this basis is not a set of margins (or some of its parameters are "
            "dependent on the support). Use solver='natural', or interactions(...) on a full grid."
        )
    positions, margins = problem.model.positions, []
    for group in in_running_order(modes):
        rows, others = within(positions, group), tuple(k for k in range(positions.shape[1]) if k not in group)
        margins.append(Margin(others, problem.margin(group), rows, tuple(positions[rows].T)))
    return tuple(margins)


def _point(scales: Scales) -> Point:
    """Read eta and theta from the margins, far cheaper than a sweep, and psi from the bottom cell's factors."""
    total, theta, eta = float(scales.q.sum()), scales.start.copy(), np.empty_like(scales.start)
    for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
        eta[margin.rows] = zeta_adjoint(scales.q.sum(axis=margin.others, keepdims=True) / total)[margin.cells]
        theta[margin.rows] += moebius(log_scale)[margin.cells]
    bottom = sum(float(log_scale.flat[0]) for log_scale in scales.log_scales)
    return Point(theta, eta, scales.psi - bottom + float(np.log(total)))


def rate(residuals: tuple[float, ...]) -> float | None:
    """Return the mean factor from one residual to the next; ``None`` while too few have been seen.

    >>> round(rate((16.0, 8.0, 4.0, 2.0, 1.0)), 12)
    0.5
    """
    if len(residuals) < WINDOW:
        return None
    if not residuals[0] > 0:
        return 0.0
    factor: float = (residuals[-1] / residuals[0]) ** (1 / (WINDOW - 1))
    return factor


def cycles_left(residual: float, tol: float, factor: float) -> float:
    """Predict how many cycles are left at a given factor per cycle.

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


def relaxation(factor: float, omega: float) -> float:
    """From the factor per cycle that was seen with overstepping by omega, find the best omega (Young's formulas).

    Alternating exact minimisation in two blocks is a Gauss-Seidel method near its limit. If it converges with factor
    rho, then ``omega = 2 / (1 + sqrt(1 - rho))`` is best, and converges with factor ``omega - 1``.

    >>> relaxation(0.75, 1.0).__round__(6)
    1.333333
    """
    rho = (factor + omega - 1.0) ** 2 / (factor * omega**2) if factor > 0 else 0.0
    return 2.0 / (1.0 + math.sqrt(max(1.0 - rho, 0.0)))
