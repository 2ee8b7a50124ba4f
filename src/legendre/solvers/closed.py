"""Closed forms on a full grid: the outer product of the data's margins, or a product along a tree of cliques."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray
from legendre.engines.junction import JunctionEngine
from legendre.engines.product import ProductEngine
from legendre.model.cliques.closed import closed_form, excess, saturated
from legendre.model.problem import Problem
from legendre.solvers.natural import Natural
from legendre.solvers.protocol import State, Target


@dataclass(frozen=True)
class Closed:
    """Write the answer down; natural-gradient steps follow only if rounding left more than tol.

    Parameters
    ----------
    max_iter
        Default budget of steps.
    patience
        Steps without any progress after which what remains is rounding error.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.decompose([[1, 2], [3, 5]], "B1", solver=Closed()).n_iter
    0
    """

    max_iter: int = 10
    patience: int = 2
    name: str = field(default="closed", init=False, repr=False)

    def start(self, target: Target, theta: FloatArray) -> State:  # noqa: ARG002 - the answer needs no start
        """Begin at the answer."""
        if isinstance(target.engine, JunctionEngine) and _tree_has_one(target.problem):
            return State(target.engine.at(closed_form(*target.problem.clique_sums)))
        if not isinstance(target.engine, ProductEngine) or not target.problem.sees_levels:
            raise InvalidSetting(
                "the closed form is for one-body bases such as B1 on a full grid without zeros in its margins. "
                "Use solver='auto'."
            )
        return State(target.engine.at(target.engine.closed_form(target.problem.margins)))

    def advance(self, target: Target, state: State) -> State | None:
        """Take a natural-gradient step."""
        return Natural().advance(target, state)

    def finish(self, target: Target, state: State) -> State:
        """Bound the gap as `natural.newton_gap` does: here ``a`` is ``(p - q) / q`` of the margins, mode by mode."""
        if isinstance(target.engine, JunctionEngine):
            gap, tilt = excess(*target.problem.clique_sums, state.point.cache.margins)
            return replace(state, gap=gap, tilt=tilt)
        parts = zip(target.problem.margins, state.point.cache, strict=True)
        changes = [(q, p / q - 1.0) for p, q in parts]
        if not sum(float(change.min()) for _, change in changes) >= -1.0:
            return state
        return replace(state, gap=sum(float(q @ change**2) for q, change in changes))

    def pack(self, state: State) -> dict[str, Any]:
        """Keep what natural-gradient steps need."""
        return Natural().pack(state)

    def unpack(self, target: Target, arrays: Mapping[str, Any], beside: State | None = None) -> State:
        """Go on with natural-gradient steps."""
        return Natural().unpack(target, arrays, beside)


def _tree_has_one(problem: Problem) -> bool:
    """Tell whether rows are seen in every cell of the cliques' tables, all of which B fits."""
    return not problem.has_grid and saturated(problem.model) and bool((problem.clique_sums[1] > 0).all())
