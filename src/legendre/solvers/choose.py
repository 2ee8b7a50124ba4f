"""From a name, a solver or "auto" to the solvers that will run."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from legendre.core import limits
from legendre.core.errors import InvalidSetting, unknown_name
from legendre.model.cliques.tables import saturated
from legendre.model.margins import Modes, decomposable, generating_margins
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

_EVERY: tuple[type[Solver], ...] = (Closed, Gradient, MProjection, MatrixScaling, Natural, NaturalCG, Scaling)
SOLVERS: dict[str, Callable[[], Solver]] = {kind.name: kind for kind in _EVERY}
METHODS = ("start", "advance", "finish")
NO_DEFAULT = ("start", "advance")  # what the base of solvers only describes
FLAGS = ("exact", "convex", "forms_fisher", "needs_products", "accepts_dependent", "needs_mass", "needs_matrix")
PROPERTIES = {"name": str, "max_iter": int, "patience": int, **dict.fromkeys(FLAGS, bool)}


def read_solver(solver: str | Solver) -> Solver | None:
    """Read the `solver` argument of `decompose`; ``None`` is "auto". A solver object is checked whole."""
    if isinstance(solver, str):
        if solver == "auto":
            return None
        if solver not in SOLVERS:
            raise InvalidSetting(unknown_name("solver", solver, ["auto", *SOLVERS]))
        return SOLVERS[solver]()
    if isinstance(solver, type) or not (hasattr(solver, "start") and hasattr(solver, "advance")):
        raise InvalidSetting(f"solver must be a name or a solver object such as Natural(), got {solver!r}.")
    lacking = [name for name in METHODS if not callable(getattr(solver, name, None)) or _described(solver, name)]
    lacking += [name for name, kind in PROPERTIES.items() if not isinstance(getattr(solver, name, None), kind)]
    if lacking:
        raise InvalidSetting(
            f"the solver {type(solver).__name__} lacks {', '.join(lacking)} (or has something of another type there). "
            "Derive it from legendre.solvers.Solver, which has a default for all but start and advance."
        )
    for name in METHODS:
        _check_arguments(solver, name)
    return solver


def _described(solver: Solver, method: str) -> bool:
    """Whether a method is the one that the base of solvers describes, and does not have."""
    own = getattr(getattr(solver, method), "__func__", None)
    return method in NO_DEFAULT and own is vars(Solver)[method]


def _check_arguments(solver: Solver, name: str) -> None:
    """Refuse a method that cannot be called with what the loop hands it, in the order of the base of solvers."""
    handed = list(inspect.signature(getattr(Solver, name)).parameters.values())[1:]
    wanted = [part.name for part in handed]
    always = [part.name for part in handed if part.default is part.empty]
    try:
        takes = inspect.signature(getattr(solver, name), follow_wrapped=False)  # what is called, not what it wraps
    except (TypeError, ValueError):  # of some built-in functions nothing is known
        return
    try:
        takes.bind(*wanted)
        takes.bind(*always)
    except TypeError as problem:
        plain = [part.replace(annotation=part.empty) for part in takes.parameters.values()]
        takes = takes.replace(parameters=plain, return_annotation=takes.empty)
        raise InvalidSetting(
            f"the solver {type(solver).__name__} defines {name}{takes}, which is called as "
            f"{name}({', '.join(wanted)}): {problem}. Define it with these arguments, as legendre.solvers.Solver does."
        ) from None


def choose(problem: Problem, *, seen: bool) -> list[Solver]:
    """Choose by structure and size; a solver after the first goes on from where the one before it gave up.

    Where P cannot be summed over the merged cells there is no scaling, but a closed form where B fits the tables of a
    tree of cliques whole, and every cell of them is `seen`. Nor has an outer product a theta if a level is not seen.
    """
    model = problem.model
    newton: Solver = Natural() if model.n_params <= limits.LARGEST_MATRIX else NaturalCG()
    if model.ties is not None:  # closed forms and scaling fit whole margins
        return [newton]
    if model.one_body:
        return [Closed(), newton] if seen else [newton]
    space = model.space
    known_in_tables = space.form == "cliques" and (problem.clique_sums is not None or not space.whole)
    if not problem.merged.known or known_in_tables:
        tree = space.form == "cliques" and saturated(space.tables)
        return [Closed(), newton] if seen and tree else [newton]
    # scaling forms a grid; where that is costly the slab engine does without
    costly = space.n_cells >= limits.COSTLY_SWEEP and model.n_params <= limits.LARGEST_MATRIX and space.measure is None
    few = space.measure is not None and model.n_params < limits.SCALING_FROM  # then neither exact nor cheaper
    if model.whole_interactions and not costly and not few:
        margins = generating_margins(model)
        if margins is not None and ((space.measure is None and decomposable(margins)) or scaling_pays(model, margins)):
            return [Scaling(max_iter=limits.SCALING_CYCLES), newton]
    return [newton]


def scaling_pays(model: Model, margins: list[Modes]) -> bool:
    """Whether cycles over margins are cheaper than Newton steps: not where B is small, or has many margins to sweep.

    Two costs in nanoseconds, see `limits`: of the cycles and of the steps that a fit takes to ten digits.
    """
    n, k = model.space.n_cells, model.n_params
    if not limits.SCALING_FROM <= k <= limits.LARGEST_MATRIX:
        return k >= limits.SCALING_FROM
    cycles = limits.USUAL_CYCLES * len(margins) * n * limits.MARGIN_TIME
    sweep, factor = n * len(model.quotient.shape) * limits.SWEEP_TIME, k**3 / 3 * limits.FLOP_TIME
    return cycles < limits.USUAL_STEPS * (sweep + factor)
