"""A first answer where X's cells differ by more powers of ten than floating point adds up.

At X itself the largest cell has all the probability and the others' are rounding errors, so that no step from there
knows where to go. X^t for a small t has no such cells. As t doubles up to 1, the logarithms of the factors double with
it, and stay near the answer: annealing, as in computing optimal transport. All is done in logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from legendre.core import limits
from legendre.core.types import FloatArray, IntArray
from legendre.model.problem import Problem, within
from legendre.tasks.balance.feasible import Program

FIRST_RANGE = 10.0  # how far the logarithms of X^t are apart at first: one step of Newton's method sees e^10
ROUGH = 0.05  # the total error of the margins at which t doubles
STEPS = 60  # steps at most at each t
RIDGE = 1e-13  # what is added to the Hessian, whose diagonal is about 1: the rounding error of its entries
NOTHING = 1e-9  # eigenvalues of a matrix of counts below this share of the largest are 0
FARTHEST = 600.0  # exponents beyond this overflow
SHORTEST = 1e-6  # the share of the first length below which no step is tried


def annealed(program: Program, tol: float) -> tuple[Problem, FloatArray]:
    """Multiply X by factors that bring it near the answer, which is the same for both; return these as theta too."""
    problem, model = program.problem, program.problem.model
    log_x = np.log(model.weights[program.alive])
    log_factors = near(Cells(log_x, program.columns, program.wanted), tol)
    measure = np.zeros(program.alive.shape)
    measure[program.alive] = np.exp(log_x + log_factors[program.columns].sum(axis=1))
    theta, start = np.zeros(model.n_params), 0
    for modes, values in program.margins.items():
        part = log_factors[start : start + values.size].reshape(values.shape)
        start += values.size
        for axis in range(part.ndim):
            part = np.diff(part, axis=axis, prepend=0.0)
        rows = within(model.positions, modes)
        theta[rows] += part[tuple(model.positions[rows][:, modes].T)]
    return replace(problem, model=model.on_measure(measure)), theta


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells with their logarithms, and the entries of margins that they count for; margins sum to 1."""

    log_x: FloatArray
    columns: IntArray  # cells x margins, all entries numbered in a row
    wanted: FloatArray  # positive for each entry that has a cell

    @cached_property
    def felt(self) -> FloatArray:
        """The projection of factors onto those that cells feel: others, which add up to 0 on each cell, only grow."""
        count = len(self.wanted)
        shared = np.zeros((count, count))
        for one in self.columns.T:
            for other in self.columns.T:
                np.add.at(shared, (one, other), 1.0)
        sizes, axes = np.linalg.eigh(shared)
        axes = axes[:, sizes > NOTHING * sizes.max()]
        projection: FloatArray = axes @ axes.T
        return projection

    def log_sums(self, log_q: FloatArray, way: int) -> FloatArray:
        """Sum cells over each entry of a margin; all entries are listed, those of other margins are -inf."""
        at, count = self.columns[:, way], len(self.wanted)
        peaks = np.full(count, -np.inf)
        np.maximum.at(peaks, at, log_q)
        sums = np.bincount(at, np.exp(log_q - peaks[at]), count)
        return np.log(sums, out=np.full(count, -np.inf), where=sums > 0) + np.where(sums > 0, peaks, 0.0)

    def sums(self, q: FloatArray) -> FloatArray:
        """Sum cells over each entry of each margin."""
        return np.asarray(np.sum([np.bincount(at, q, len(self.wanted)) for at in self.columns.T], axis=0))


def near(cells: Cells, tol: float) -> FloatArray:
    """Find log factors, one for each entry of a margin, with which X has about the margins: to tol, if all goes well.

    >>> cells = Cells(np.array([690.0, 0.0, 0.0, 690.0]), np.array([[0, 2], [0, 3], [1, 2], [1, 3]]), np.full(4, 0.5))
    >>> u = near(cells, 1e-10)
    >>> np.exp(cells.log_x + u[cells.columns].sum(axis=1)).round(12).tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    spread = float(np.ptp(cells.log_x))
    heat = min(1.0, FIRST_RANGE / spread) if spread else 1.0
    factors = np.zeros(len(cells.wanted))
    while heat < 1.0:
        factors = _settled(cells, heat, factors, ROUGH)
        following = min(2.0 * heat, 1.0)
        factors *= following / heat
        heat = following
    return _settled(cells, 1.0, factors, tol)


def _settled(cells: Cells, heat: float, factors: FloatArray, tol: float) -> FloatArray:
    """Alternate cycles over the margins with Newton's steps until the margins of X^heat are met to tol."""
    small = len(cells.wanted) <= limits.TEMPERED_NEWTON
    for _ in range(STEPS):
        factors = _cycle(cells, heat, factors)
        q = np.exp(heat * cells.log_x + factors[cells.columns].sum(axis=1))
        off = cells.wanted - cells.sums(q)
        if float(np.abs(off).sum()) <= tol:
            break
        if small:
            factors = factors + _step(cells, q, off)
    return factors


def _cycle(cells: Cells, heat: float, factors: FloatArray) -> FloatArray:
    """Meet the margins one after the other."""
    factors = factors.copy()
    for way, at in enumerate(cells.columns.T):
        log_sums = cells.log_sums(heat * cells.log_x + factors[cells.columns].sum(axis=1), way)
        own = np.unique(at)
        factors[own] += np.log(cells.wanted[own]) - log_sums[own]
    return factors


def _step(cells: Cells, q: FloatArray, off: FloatArray) -> FloatArray:
    """Take Newton's step for the convex ``sum of q - factors . wanted``, as far as that falls; 0 if it does not.

    It does not call `solvers.linesearch`, which compares values of the objective: where cells differ by hundreds of
    powers of ten these are lost in rounding, and the slope behind the step alone decides.
    """
    count = len(cells.wanted)
    hessian = np.zeros((count, count))
    for one in cells.columns.T:
        for other in cells.columns.T:
            np.add.at(hessian, (one, other), q)
    used = cells.wanted > 0
    # entries of any size count alike; factors that make up a constant cost nothing, and the ridge holds them
    unit = np.sqrt(np.where(used, np.maximum(cells.wanted, np.diagonal(hessian)), 1.0))
    scaled = hessian / np.multiply.outer(unit, unit)
    scaled[np.diag_indices(count)] += np.where(used, RIDGE, 1.0)
    try:
        direction = np.linalg.solve(scaled, off / unit) / unit
    except np.linalg.LinAlgError:
        return np.zeros(count)
    direction = cells.felt @ direction
    change, gain = direction[cells.columns].sum(axis=1), float(off @ direction)
    reach = float(np.abs(change).max(initial=0.0))
    length = min(1.0, FARTHEST / reach) if reach else 0.0
    shortest = SHORTEST * length
    while length > shortest:
        # the slope behind the step, without cancellation: sum of q (exp(length * change) - 1) change - gain
        slope = float((q * np.expm1(length * change)) @ change) - gain
        if slope <= 0.5 * abs(gain):
            return length * direction
        length *= 0.5
    return np.zeros(count)
