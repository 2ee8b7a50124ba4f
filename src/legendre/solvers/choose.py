"""From a name, a solver or "auto" to a solver."""

from __future__ import annotations

from collections.abc import Callable

from legendre.errors import InvalidSetting, unknown_name
from legendre.solvers.gradient import Gradient
from legendre.solvers.mprojection import MProjection
from legendre.solvers.natural import Natural
from legendre.solvers.natural_cg import NaturalCG
from legendre.solvers.protocol import Solver
from legendre.solvers.scaling import Scaling

SOLVERS: dict[str, Callable[[], Solver]] = {
    "auto": Natural,
    "gradient": Gradient,
    "m-projection": MProjection,
    "natural": Natural,
    "natural-cg": NaturalCG,
    "scaling": Scaling,
}


def choose(solver: str | Solver) -> Solver:
    """Read the `solver` argument of `decompose`.

    Examples
    --------
    >>> choose("natural")
    Natural(max_iter=500, patience=5)
    """
    if not isinstance(solver, str):
        if not (hasattr(solver, "start") and hasattr(solver, "advance")):
            raise InvalidSetting(f"solver must be a name or a solver object, got {solver!r}.")
        return solver
    if solver not in SOLVERS:
        raise InvalidSetting(unknown_name("solver", solver, SOLVERS))
    return SOLVERS[solver]()
