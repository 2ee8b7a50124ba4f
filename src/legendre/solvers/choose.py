"""From a name, a solver or "auto" to the solvers that will run."""

from __future__ import annotations

from collections.abc import Callable

from legendre.core import limits
from legendre.core.errors import InvalidSetting, unknown_name
from legendre.model.cliques.data_margins import saturated
from legendre.model.margins import has_closed_form, margins_that_are_the_model
from legendre.model.model import Model
from legendre.model.problem import Problem
from legendre.solvers.closed import Closed
from legendre.solvers.gradient import Gradient
from legendre.solvers.matrix_scaling import MatrixScaling
from legendre.solvers.mprojection import MProjection
from legendre.solvers.natural import Natural
from legendre.solvers.natural_cg import NaturalCG
from legendre.solvers.protocol import Solver
from legendre.solvers.scaling import Scaling

SOLVERS: dict[str, Callable[[], Solver]] = {
    "closed": Closed,
    "gradient": Gradient,
    "m-projection": MProjection,
    "matrix-scaling": MatrixScaling,
    "natural": Natural,
    "natural-cg": NaturalCG,
    "scaling": Scaling,
}
METHODS = ("start", "advance", "finish", "pack", "unpack")
PROPERTIES = {
    "name": str,
    "max_iter": int,
    "patience": int,
    "exact": bool,
    "forms_fisher": bool,
    "needs_products": bool,
    "accepts_dependent": bool,
    "needs_mass": bool,
    "needs_matrix": bool,
}


def read_solver(solver: str | Solver) -> Solver | None:
    """Read the `solver` argument of `decompose`; ``None`` is "auto". A solver object is checked whole.

    Examples
    --------
    >>> read_solver("natural")
    Natural(max_iter=500, patience=5)
    """
    if isinstance(solver, str):
        if solver == "auto":
            return None
        if solver not in SOLVERS:
            raise InvalidSetting(unknown_name("solver", solver, ["auto", *SOLVERS]))
        return SOLVERS[solver]()
    if isinstance(solver, type) or not (hasattr(solver, "start") and hasattr(solver, "advance")):
        raise InvalidSetting(f"solver must be a name or a solver object such as Natural(), got {solver!r}.")
    lacking = [name for name in METHODS if not callable(getattr(solver, name, None))]
    lacking += [name for name, kind in PROPERTIES.items() if not isinstance(getattr(solver, name, None), kind)]
    if lacking:
        raise InvalidSetting(
            f"the solver {type(solver).__name__} lacks {', '.join(lacking)} (or has something of another type there). "
            "Derive it from legendre.solvers.Solver, which has a default for all but start and advance."
        )
    return solver


def choose(problem: Problem, *, seen: bool) -> list[Solver]:
    """Choose by structure and size; a solver after the first goes on from where the one before it gave up.

    Where P cannot be summed over the merged cells there is no scaling, but a closed form where B fits the tables of a
    tree of cliques whole, and every cell of them is `seen`. Nor has an outer product a theta if a level is not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from legendre.data.dense import observe
    >>> choose(Problem.of(observe([[1, 2], [3, 4]]), np.array([[1, 0], [0, 1]])), seen=True)
    [Closed(max_iter=10, patience=2), Natural(max_iter=500, patience=5)]
    """
    model = problem.model
    newton: Solver = Natural() if len(model.basis) <= limits.LARGEST_MATRIX else NaturalCG()
    if model.one_body:
        return [Closed(), newton] if seen else [newton]
    space = model.space
    if not problem.merged.known:
        tree = space.form == "cliques" and saturated(space.tables)
        return [Closed(), newton] if seen and tree else [newton]
    if model.whole_interactions and not _too_costly(model):
        margins = margins_that_are_the_model(model)
        if margins is not None and (model.n_params >= limits.SCALING_FROM or has_closed_form(model, margins)):
            return [Scaling(max_iter=limits.SCALING_CYCLES), newton]
    return [newton]


def _too_costly(model: Model) -> bool:
    """Tell whether scaling would form a grid that the slab engine does without."""
    costly = model.n_merged >= limits.COSTLY_SWEEP and model.n_params <= limits.LARGEST_MATRIX
    return model.measure is None and costly
