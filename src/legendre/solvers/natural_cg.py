"""Algorithm 2 for large bases: the natural gradient by preconditioned conjugate gradients (inexact Newton)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

from legendre.core import limits
from legendre.core.sums.linalg import dot
from legendre.core.types import FloatArray
from legendre.engines.protocol import Preconditioner
from legendre.solvers.conjugate import conjugate_gradients
from legendre.solvers.linesearch import search
from legendre.solvers.natural import ROUNDING, bound_anew
from legendre.solvers.protocol import Evaluation, Solver, State, Target

FORCING = 0.3  # most of a system's residual that may be left unsolved


class CGMemory(NamedTuple):
    """The last preconditioner, where one has a memory, and the size of the last right-hand side in its norm."""

    preconditioner: Preconditioner | None
    size: float


@dataclass(frozen=True)
class NaturalCG(Solver):
    """Natural gradient without a Fisher matrix: memory for the cells and the parameters, O(``|Omega| + |B|``).

    Parameters
    ----------
    max_products
        Fisher-vector products at most in one step.

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
    needs_products: ClassVar[bool] = True
    accepts_dependent: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:
        return State(target.at(theta))

    def advance(self, target: Target, state: State) -> State | None:
        point, last = state.point, state.memory
        pre = target.engine.preconditioner(point, None if last is None else last.preconditioner)
        before = math.inf if last is None else last.size
        size = math.sqrt(dot(point.gradient, pre.apply(point.gradient)))
        direction, _ = self._solve(target, point, pre, _forcing(size, before), target.tol / 3)
        return search(target, point, direction, CGMemory(pre, size))

    def _solve(
        self, target: Target, point: Evaluation, pre: Preconditioner, share: float, floor: float
    ) -> tuple[FloatArray, float]:
        """Solve ``G d = eta_hat - eta``."""
        product = partial(target.engine.fisher_product, point)
        return conjugate_gradients(
            product, -point.gradient, pre.apply, share=share, floor=floor, max_products=self.max_products
        )

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap as `natural.newton_gap` does; a solve to one percent, where the bound itself has a factor 2.

        Conjugate gradients may miss directions of hardly any curvature, so that a Fisher matrix that costs next to
        nothing is factorised instead.
        """
        point = state.point
        if point.residual <= ROUNDING:  # the rest is noise, which no solve resolves
            return replace(state, gap=point.residual)
        if len(point.theta) <= limits.NUMPY_BASIS and target.problem.model.space.n_cells <= limits.NUMPY_CELLS:
            gap, tilt = bound_anew(target, point)
            return replace(state, gap=gap, tilt=tilt)
        pre = target.engine.preconditioner(point, None if state.memory is None else state.memory.preconditioner)
        direction, left = self._solve(target, point, pre, 0.01, ROUNDING)
        tilt = target.engine.swing(direction)
        if tilt > 1.0:
            return state
        return replace(state, gap=max(-dot(point.gradient, direction) + left, 0.0), tilt=tilt)


def _forcing(size: float, before: float) -> float:
    """Return the part of the right-hand side that may be left unsolved, given its norm now and one step before.

    The size is about the Newton decrement, and so what the quadratic model neglects. Where some cells move far more
    than the average, progress is slow; the second term (Eisenstat and Walker's choice 2) then saves products.
    """
    return min(FORCING, max(size, 0.9 * (size / before) ** 2))
