"""From a name, a solver or "auto" to the solvers that will run."""

from __future__ import annotations

from legendre.core import limits
from legendre.core.arguments import check_name
from legendre.core.errors import InvalidSetting
from legendre.model.model import Cliques, Packed, generating_margins, running_order
from legendre.model.problem import Problem
from legendre.solvers.gradient import Gradient
from legendre.solvers.loop import Solver
from legendre.solvers.newton import Closed, Natural, NaturalCG
from legendre.solvers.scaling import MatrixScaling, Scaling

SOLVERS: dict[str, type[Solver]] = {
    kind.name: kind for kind in (Closed, Gradient, MatrixScaling, Natural, NaturalCG, Scaling)
}


def read_solver(solver: str | Solver) -> Solver | None:
    """Read the `solver` argument of `decompose`; ``None`` is "auto"."""
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str):
        raise InvalidSetting(
            f"solver must be a name or a solver object such as Natural(), got {solver!r}. Derive a solver of your own "
            "from legendre.solvers.Solver."
        )
    if solver == "auto":
        return None
    check_name("solver", solver, ("auto", *SOLVERS))
    return SOLVERS[solver]()


def choose(problem: Problem, *, certain: bool) -> list[Solver]:
    """Choose the solvers for "auto" by structure and size; each starts where the one before it gave up.

    A closed form comes first if there is one: the outer product of the modes' margins, or the product of the
    conditional tables of a junction tree if B fits all of each table. All entries of these must be positive, except
    where cells were left out because they vanish; `certain` says that it is known which do. Scaling comes first if it
    pays, unless P is known on the tables of a junction tree, while scaling works on the merged cells. Then come Newton
    steps: with the Fisher matrix, or by conjugate gradients for many parameters.
    """
    model = problem.model
    by_matrix = len(problem.eta_hat) <= limits.LARGEST_MATRIX and not (isinstance(model, Packed) and model.tabled)
    newton = Natural() if by_matrix else NaturalCG()
    if model.ties is not None:  # closed forms and scaling fit margins, which tied parameters do not
        return [newton]
    # the margins of P decide, not `certain`: a positive entry of X may be too small to count as a share of its sum
    if model.one_body:
        return [Closed(), newton] if all((margin > 0).all() for margin in problem.margins) else [newton]
    if isinstance(model, Cliques) and (problem.clique_sums is not None or not model.whole):
        return [Closed(), newton] if certain and model.tables.saturated else [newton]
    return [Scaling(max_iter=limits.SCALING_CYCLES), newton] if scaling_pays(problem) else [newton]


def scaling_pays(problem: Problem) -> bool:
    """Return whether scaling, margin after margin, is exact in one cycle or expected to be cheaper than Newton steps.

    One cycle is exact for decomposable margins on a full grid. Otherwise scaling is not cheaper with few parameters,
    and always cheaper if a Fisher matrix cannot be formed. In between, the estimated times of a fit to 1e-10 decide, in
    nanoseconds: 20 cycles of 10 ns for each cell and margin, against 12 Newton steps of 7 ns for each cell and mode and
    0.1 ns for each of the k^3 / 3 operations of the Cholesky factor.
    """
    model, n, k = problem.model, problem.model.n_cells, len(problem.eta_hat)
    full_grid, small = model.measure is None, k <= limits.LARGEST_MATRIX
    if not problem.known or (not full_grid and k < limits.SCALING_FROM):
        return False
    if (margins := generating_margins(model)) is None:
        return False
    if full_grid and running_order(margins):
        return True
    if k < limits.SCALING_FROM or not small:
        return not small
    return 20 * 10.0 * len(margins) * n < 12 * (7.0 * n * len(model.quotient.shape) + 0.1 * k**3 / 3)
