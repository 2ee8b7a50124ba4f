"""Iterative proportional scaling: fit one margin after the other, for bases that are nothing but margins.

Each fit is the exact minimum in the parameters of its margin. One-body bases and decomposable sets of interactions on a
full grid are solved by one cycle in the right order: the closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from legendre.arrays import FloatArray, IntArray
from legendre.errors import InvalidSetting
from legendre.hierarchy import Modes, in_running_order, margins_that_are_the_model
from legendre.problem import Problem
from legendre.solvers.protocol import State, Target
from legendre.zeta import moebius

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
    margins: tuple[Margin, ...]
    q: FloatArray
    log_scales: tuple[FloatArray, ...]


@dataclass(frozen=True)
class Scaling:
    """Multiply Q by ``margin of P / margin of Q``, margin after margin, until all agree.

    Parameters
    ----------
    max_iter
        Default budget of cycles over the margins.
    patience
        Steps without any progress after which what remains is rounding error.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 5]], "B1", solver=Scaling())
    >>> fit.n_iter, fit.converged
    (1, True)
    """

    max_iter: int = 10_000
    patience: int = 5
    name: str = field(default="scaling", init=False, repr=False)

    def start(self, target: Target, theta: FloatArray) -> State:
        """Begin at theta; refuse a basis that is not a set of margins."""
        modes = margins_that_are_the_model(target.problem.model)
        if modes is None:
            raise InvalidSetting(
                "scaling fits whole margins, and this basis is not a set of margins (or some of its parameters are "
                "dependent on the support). Use solver='natural', or interactions(...) on a full grid."
            )
        point = target.engine.at(theta)
        margins = tuple(_margin(target.problem, s) for s in in_running_order(modes))
        none = tuple(np.zeros(margin.values.shape) for margin in margins)
        return State(point, memory=Scales(theta, margins, np.exp(target.engine.log_probabilities(point)), none))

    def advance(self, target: Target, state: State) -> State | None:
        """Fit every margin once."""
        scales: Scales = state.memory
        q = scales.q.copy()
        logs = []
        for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
            current = q.sum(axis=margin.others, keepdims=True)
            ratio = np.divide(margin.values, current, out=np.ones_like(current), where=current > 0)
            q *= ratio
            logs.append(log_scale + np.log(ratio))
        following = replace(scales, q=q, log_scales=tuple(logs))
        point = target.engine.at(_theta(following))
        return State(point, memory=following, step=1.0)

    def finish(self, target: Target, state: State) -> State:  # noqa: ARG002 - the margins tell all
        """Bound the gap."""
        return replace(state, gap=_gap(state.memory))


def _gap(scales: Scales) -> float:
    """Bound KL(P, Q) above its minimum by the squared Newton decrement, see `natural.newton_gap`.

    The Newton direction is found by the same cycles, linearised: a is changed margin by margin until ``q (1 + a)`` has
    the margins of the data.
    """
    q = scales.q
    margins = [(margin, q.sum(axis=margin.others, keepdims=True)) for margin in scales.margins]
    a = np.zeros_like(q)
    first = last = 0.0
    for _ in range(LINEAR_CYCLES):
        missing = 0.0
        for margin, current in margins:
            wanted = margin.values - current - (q * a).sum(axis=margin.others, keepdims=True)
            a += np.divide(wanted, current, out=np.zeros_like(current), where=current > 0)
            missing = max(missing, float(np.abs(wanted).max()))
        first, last = max(first, missing), missing
        if last <= 0.01 * first:
            break
    within = last <= 0.01 * first or last <= np.finfo(np.float64).eps
    return float((q * a * a).sum()) if within and a.min() >= -1.0 else np.inf


def _margin(problem: Problem, modes: Modes) -> Margin:
    positions = problem.model.positions
    others = tuple(k for k in range(positions.shape[1]) if k not in modes)
    rows = np.flatnonzero(~(positions[:, list(others)] > 0).any(axis=1))
    return Margin(others, problem.mass.sum(axis=others, keepdims=True), rows, tuple(positions[rows].T))


def _theta(scales: Scales) -> FloatArray:
    """Invert log q margin by margin; what margins say about a parameter that they share adds up."""
    theta = scales.start.copy()
    for margin, log_scale in zip(scales.margins, scales.log_scales, strict=True):
        theta[margin.rows] += moebius(log_scale)[margin.cells]
    return theta
