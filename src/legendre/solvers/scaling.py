"""Iterative proportional scaling: fit one margin after the other, for bases that are nothing but margins.

Each fit is the exact minimum in the parameters of its margin. One-body bases and decomposable sets of interactions on a
full grid are solved by one cycle in the right order: the closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from legendre.core.errors import InvalidSetting
from legendre.core.sums.zeta import moebius, zeta_adjoint
from legendre.core.types import FloatArray, IntArray
from legendre.engines.protocol import Point
from legendre.model.margins import Modes, in_running_order, margins_that_are_the_model
from legendre.model.problem import Problem
from legendre.solvers.protocol import Solver, State, Target
from legendre.solvers.rate import cycles_left, rate, seen

LINEAR_CYCLES = 100
"""Cycles at most to find the direction that bounds the gap."""


@dataclass(frozen=True, eq=False)
class Margin:
    """A margin of the data.

    Parameters
    ----------
    others
        The modes that are summed out.
    values
        The margin of P, with length 1 in those modes.
    rows
        The parameters that are read from this margin.
    cells
        Where they stand in `values`.
    """

    others: Modes
    values: FloatArray
    rows: IntArray
    cells: tuple[IntArray, ...]


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
    """Multiply Q by ``margin of P / margin of Q``, margin after margin, until all agree.

    Parameters
    ----------
    max_iter
        Default budget of cycles over the margins.
    patience
        Steps without any progress after which what remains is rounding error.
    horizon
        Give up, for another solver to go on, when at the present rate more than so many cycles are left.

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
        """Begin at theta; refuse a basis that is not a set of margins."""
        margins, point = _margins(target.problem), target.at(theta)
        none = tuple(np.zeros(margin.values.shape) for margin in margins)
        return State(
            point, memory=Scales(theta, point.psi, margins, np.exp(target.engine.log_probabilities(point)), none)
        )

    def advance(self, target: Target, state: State) -> State | None:
        """Fit every margin once."""
        scales: Scales = state.memory
        residuals = seen(scales.residuals, state.point.residual)
        if self._too_slow(residuals, target.tol):
            return None
        q = scales.q.copy()
        logs = []
        for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
            current = q.sum(axis=margin.others, keepdims=True)
            ratio = np.divide(margin.values, current, out=np.ones_like(current), where=current > 0)
            q *= ratio
            logs.append(log_scale + np.log(ratio))
        following = replace(scales, q=q, log_scales=tuple(logs), residuals=residuals)
        return State(target.evaluated(_point(following)), memory=following, step=1.0)

    def _too_slow(self, residuals: tuple[float, ...], tol: float) -> bool:
        factor = rate(residuals)
        return (
            self.horizon is not None and factor is not None and cycles_left(residuals[-1], tol, factor) > self.horizon
        )

    def finish(self, target: Target, state: State) -> State:
        """Evaluate theta anew, so that the certificate is theta's, and bound the gap."""
        gap, tilt = _gap(state.memory)
        return replace(state, point=target.at(state.point.theta), gap=gap, tilt=tilt)

    def pack(self, state: State) -> dict[str, Any]:
        """Keep the tensor itself: made anew from the factors it would differ in its last bits."""
        scales: Scales = state.memory
        return {
            "theta": state.point.theta,
            "eta": state.point.eta,
            "psi": state.point.psi,
            "step": state.step,
            "start": scales.start,
            "start_psi": scales.psi,
            "q": scales.q,
            "residuals": np.array(scales.residuals),
            **{f"log_scale{i}": values for i, values in enumerate(scales.log_scales)},
        }

    def unpack(self, target: Target, arrays: Mapping[str, Any], beside: State | None = None) -> State:
        """Read the margins of the data again, unless another state has them."""
        margins = _margins(target.problem) if beside is None else beside.memory.margins
        logs = tuple(arrays[f"log_scale{i}"] for i in range(len(margins)))
        residuals = tuple(float(r) for r in arrays["residuals"])
        scales = Scales(arrays["start"], float(arrays["start_psi"]), margins, arrays["q"], logs, residuals)
        point = target.evaluated(Point(arrays["theta"], arrays["eta"], float(arrays["psi"])))
        return State(point, memory=scales, step=float(arrays["step"]))


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
            a += np.divide(wanted, current, out=np.zeros_like(current), where=current > 0)
            missing = max(missing, float(np.abs(wanted).max()))
        first, last = max(first, missing), missing
        if last <= max(0.01 * first, rounding):
            break
    within = last <= max(0.01 * first, rounding)
    tilt = float(np.abs(a).max(where=q > 0, initial=0.0))
    return (float((q * a * a).sum()), tilt) if within and a.min() >= -1.0 else (np.inf, np.inf)


def _margins(problem: Problem) -> tuple[Margin, ...]:
    """List the margins in the order in which they are fitted; refuse a basis that is not a set of margins."""
    modes = margins_that_are_the_model(problem.model)
    if modes is None:
        raise InvalidSetting(
            "scaling fits whole margins, and this basis is not a set of margins (or some of its parameters are "
            "dependent on the support). Use solver='natural', or interactions(...) on a full grid."
        )
    return tuple(_margin(problem, s) for s in in_running_order(modes))


def _margin(problem: Problem, modes: Modes) -> Margin:
    positions = problem.model.positions
    others = tuple(k for k in range(positions.shape[1]) if k not in modes)
    rows = np.flatnonzero(~(positions[:, list(others)] > 0).any(axis=1))
    return Margin(others, problem.margin(modes), rows, tuple(positions[rows].T))


def _point(scales: Scales) -> Point:
    """Read eta from the margins, which is far cheaper than a sweep, and psi from the factors of the bottom cell."""
    total = float(scales.q.sum())
    eta = np.empty_like(scales.start)
    for margin in scales.margins:
        eta[margin.rows] = zeta_adjoint(scales.q.sum(axis=margin.others, keepdims=True) / total)[margin.cells]
    bottom = sum(float(log_scale.flat[0]) for log_scale in scales.log_scales)
    return Point(_theta(scales), eta, scales.psi - bottom + float(np.log(total)))


def _theta(scales: Scales) -> FloatArray:
    """Invert log q margin by margin; what margins say about a parameter that they share adds up."""
    theta = scales.start.copy()
    for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
        theta[margin.rows] += moebius(log_scale)[margin.cells]
    return theta
