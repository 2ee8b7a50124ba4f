"""From a name, a solver or "auto" to the solvers that will run."""

from __future__ import annotations

from collections.abc import Callable

from legendre.core import limits
from legendre.core.errors import InvalidSetting, unknown_name
from legendre.engines.product import ProductEngine
from legendre.model.cliques.closed import saturated
from legendre.model.margins import has_closed_form, margins_that_are_the_model
from legendre.model.model import Model
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
    "natural": Natural,
    "natural-cg": NaturalCG,
    "matrix-scaling": MatrixScaling,
    "scaling": Scaling,
}


def read_solver(solver: str | Solver) -> Solver | None:
    """Read the `solver` argument of `decompose`; ``None`` is "auto".

    Examples
    --------
    >>> read_solver("natural")
    Natural(max_iter=500, patience=5)
    """
    if not isinstance(solver, str):
        if isinstance(solver, type) or not (hasattr(solver, "start") and hasattr(solver, "advance")):
            raise InvalidSetting(f"solver must be a name or a solver object such as Natural(), got {solver!r}.")
        return solver
    if solver == "auto":
        return None
    if solver not in SOLVERS:
        raise InvalidSetting(unknown_name("solver", solver, ["auto", *SOLVERS]))
    return SOLVERS[solver]()


def check_packs(solver: Solver | None) -> None:
    """Refuse a solver of the caller's own whose states cannot be written down."""
    if solver is not None and not (hasattr(solver, "pack") and hasattr(solver, "unpack")):
        raise InvalidSetting(
            f"checkpoint needs a solver that can write its state down and read it again; {type(solver).__name__} has "
            "no methods pack and unpack. Leave checkpoint out, or add them."
        )


def choose(model: Model, *, grid: bool = True, seen: bool = True) -> list[Solver]:
    """Choose by structure and size; a solver after the first goes on from where the one before it gave up.

    Without a `grid` of P on the merged cells there is no scaling, but a closed form where B fits the tables of a tree
    of cliques whole, and every cell of them is `seen`. Nor has an outer product a theta if a level is not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from legendre.data.support import Support
    >>> choose(Model.of(Support((2, 2)), None, np.array([[1, 0], [0, 1]])))
    [Closed(max_iter=10, patience=2), Natural(max_iter=500, patience=5)]
    """
    newton: Solver = Natural() if model.n_params <= limits.LARGEST_MATRIX else NaturalCG()
    if ProductEngine.applies(model):
        return [Closed(), newton] if seen else [newton]
    if not grid:
        return [Closed(), newton] if seen and model.by_cliques and saturated(model) else [newton]
    streamed = (
        model.measure is None and model.n_merged >= limits.COSTLY_SWEEP and model.n_params <= limits.LARGEST_MATRIX
    )
    # scaling would form a grid that the slab engine does without
    margins = None if streamed else margins_that_are_the_model(model)
    if margins is not None and (model.n_params >= limits.SCALING_FROM or has_closed_form(model, margins)):
        return [Scaling(max_iter=limits.SCALING_CYCLES), newton]
    return [newton]
