"""Closed forms on a full grid: the outer product of the data's margins, or a product along a tree of cliques."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray
from legendre.solvers.natural import Natural
from legendre.solvers.protocol import Solver, State, Target


@dataclass(frozen=True)
class Closed(Solver):
    """Write the answer down; natural-gradient steps follow only if rounding left more than tol.

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
    exact: ClassVar[bool] = True
    accepts_dependent: ClassVar[bool] = True
    needs_mass: ClassVar[bool] = True

    def start(self, target: Target, theta: FloatArray) -> State:  # noqa: ARG002 - the answer needs no start
        answer = target.engine.closed_form(target.problem)
        if answer is None:
            raise InvalidSetting(
                "the closed form is for one-body bases such as B1 on a full grid without zeros in its margins. "
                "Use solver='auto'."
            )
        return State(target.at(answer))

    def advance(self, target: Target, state: State) -> State | None:
        return Natural().advance(target, state)

    def finish(self, target: Target, state: State) -> State:
        gap, tilt = target.engine.closed_gap(target.problem, state.point)
        return replace(state, gap=gap, tilt=tilt)
