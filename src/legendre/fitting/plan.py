"""Settings, and all that is decided before the first step: problem, face, rank, engine, solvers, cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.arguments import check_int, is_real
from legendre.core.errors import InvalidBasis, InvalidSetting
from legendre.core.memory import size_name
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import BoxTotals
from legendre.core.text import NamedValues, fragment
from legendre.core.types import FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.engines.choose import engine_for
from legendre.engines.protocol import Preconditioner
from legendre.model.model import Cliques, generating_margins
from legendre.model.problem import Problem
from legendre.solvers.choose import choose, read_solver, scaling_pays
from legendre.solvers.loop import Callback, Solver, Target
from legendre.solvers.newton import Natural, NaturalCG
from legendre.solvers.scaling import Scaling
from legendre.solvers.structure.faces import Face, search_face, structural_face
from legendre.solvers.structure.rank import Rank, independent, rank_of


@dataclass(frozen=True, eq=False)
class Settings:
    """How to fit: the arguments of `decompose` and the tasks, checked.

    With ``ranked = False`` large sets of margins are taken as they are: scaling does not need to know which parameters
    are independent, and finding out takes longer.
    """

    solver: Solver | None = None  # None leaves the choice to `solvers.choose`
    tol: float = 1e-10
    max_iter: int | None = None
    callback: Callback | None = None
    ranked: bool = True

    @classmethod
    def read(
        cls,
        solver: str | Solver = "auto",
        tol: float = 1e-10,
        max_iter: int | None = None,
        callback: Callback | None = None,
    ) -> Settings:
        """Read a caller's arguments; refuse what is not valid before X is read."""
        if not ((type(tol) is float or is_real(tol)) and tol >= 0):
            raise InvalidSetting(f"tol must be a number >= 0, got {tol!r}.")
        if max_iter is not None:
            check_int(max_iter, "max_iter")
        if callback is not None and not callable(callback):
            raise InvalidSetting(f"callback must be a function of a Step, got {callback!r}.")
        return cls(read_solver(solver), float(tol), max_iter, callback)


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What growing a basis has computed that the fit of it need not compute again."""

    boxes: BoxTotals | None = None  # sums of X from which those that the fit needs may follow
    inverse: Preconditioner | None = None  # near the inverse of the Fisher matrix where the fit begins


@dataclass(frozen=True, eq=False)
class Plan:
    """A problem, the face that its minimum is on, its independent parameters, an engine and the solvers that will run.

    Print it to see what a fit will cost. With `scales_first`, some parameters are dependent but the basis is a set of
    margins: scaling, which takes dependent parameters, is then tried first on the problem with all parameters.

    See Also
    --------
    plan : Say beforehand which solver and engine a fit will use.
    decompose : Fit X by a model with some basis.

    Examples
    --------
    >>> import legendre as ld
    >>> ld.plan([[1, 2], [3, 5]], "B1").rank.n
    2
    """

    recipe: Basis
    problem: Problem
    face: Face
    target: Target
    solvers: tuple[Solver, ...]
    settings: Settings
    scales_first: bool = False

    @property
    def columns(self) -> IntArray:
        """The independent parameters."""
        return np.arange(self.problem.model.n_params) if self.target.columns is None else self.target.columns

    @cached_property
    def rank(self) -> Rank:
        """How many parameters are independent on the face."""
        on_face = self.problem.model.on_face(self.face.alive)
        if on_face.plain:
            return Rank(on_face.n_params)
        known = self.settings.solver is not None or self.settings.ranked or not _scales(self.problem)
        return rank_of(on_face, self.columns if known else None)

    def __str__(self) -> str:
        return "\n".join(line for _, line in self._rows())

    def _repr_html_(self) -> str:
        """Return the same for a notebook."""
        rows = [(name, line.removeprefix(f"{name}:").removeprefix(name).strip()) for name, line in self._rows()]
        return fragment([NamedValues("Plan", rows)])

    def _rows(self) -> list[tuple[str, str]]:
        """List what is decided, each with a name."""
        model, k = self.problem.model, len(self.columns)
        engine = type(self.target.engine).__name__.removesuffix("Engine").lower()
        names = [*(["scaling"] if self.scales_first else []), *(solver.name for solver in self.solvers)]
        rows = [
            (
                "sample space",
                f"{size_name(model.support.n_cells)} cells in the sample space, merged into {size_name(model.n_alive)}",
            ),
            ("parameters", f"{model.n_params:,} parameters, {self.rank} of them independent"),
            ("solver", f"solver {', then '.join(names)} on the {engine} engine"),
            ("one sweep", f"one sweep: {self.target.problem.model.additions:.1e} additions"),
        ]
        if isinstance(model, Cliques):
            tree = model.tables.tree
            text = f"{len(tree.cliques):,} cliques, the largest of {tree.largest.n_cells:,} cells"
            rows.insert(3, ("cliques", text))
        if not self.face.certain:
            rows.append(("note", "X has zeros: whether cells vanish in the limit is known after the fit"))
        if isinstance(self.solvers[0], Natural):
            matrix = f"a Fisher matrix of {8 * k * k / 2**20:,.1f} MiB, {k**3 / 3:.1e} flops to factor"
            rows.append(("one step", f"one step: {matrix}"))
        return rows


def plan(
    X: TensorLike,
    basis: Basis | str | ArrayLike,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    names: Names = None,
    levels: Levels = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
) -> Plan:
    """Say how `decompose` would fit X, without fitting: size, solver, engine, memory.

    Parameters are those of `decompose`.

    See Also
    --------
    legendre.results.Plan : What `plan` returns.
    decompose : Fit X by a model with some basis.

    Examples
    --------
    >>> import legendre as ld
    >>> print(ld.plan(np.random.default_rng(0).random((20, 20, 20)), "B3(20)"))
    8,000 cells in the sample space, merged into 8,000
    400 parameters, 400 of them independent
    solver natural on the reference engine
    one sweep: 2.4e+04 additions
    one step: a Fisher matrix of 1.2 MiB, 2.1e+07 flops to factor
    """
    settings, recipe = Settings.read(solver, tol), as_basis(basis)
    if recipe.grows:
        raise InvalidBasis(
            f"plan: {recipe!r} is chosen by the data, round by round, so that nothing can be planned before. "
            "Plan for a basis of your own, or for the cells of a fit: plan(X, fit.basis)."
        )
    data = read(X, support, base, rankings=recipe.rankings, names=names, levels=levels)
    return plan_on(data, recipe, settings)


def plan_on(data: Observation, recipe: Basis, settings: Settings, known: WarmStart = WarmStart()) -> Plan:
    """Plan for a tensor that has been read; nothing is searched for, see `with_face_search`."""
    terms = recipe.terms(data)
    problem = Problem.of(data, terms.cells, terms.ties, known.boxes)
    # only cells without data can vanish
    face = Face(None, np.zeros(len(problem.eta_hat))) if data.positive else structural_face(problem)
    return _plan(problem, recipe, settings, face, known.inverse)


def with_face_search(plan: Plan) -> Plan:
    """Search for the cells that vanish where empty margins left that open, and plan for what is found."""
    face = plan.face if plan.face.certain else search_face(plan.problem, plan.face)
    if face.alive is plan.face.alive:
        return plan if face is plan.face else replace(plan, face=face)
    return _plan(plan.problem, plan.recipe, plan.settings, face)


def _plan(
    problem: Problem, recipe: Basis, settings: Settings, face: Face, inverse: Preconditioner | None = None
) -> Plan:
    model, tol, auto = problem.model.on_face(face.alive), settings.tol, settings.solver is None
    every = np.arange(model.n_params)
    full = problem.reduced(face.alive, every)
    if auto and not settings.ranked and _scales(problem):
        target = Target(engine_for(model), full, tol, attained=face.certain)
        return Plan(recipe, problem, face, target, (Scaling(max_iter=limits.DEPENDENT_CYCLES),), settings)
    # a product of tables has a closed form in all parameters, whether or not they are independent on the face
    product = model.form == "cliques" and not model.whole
    product = product and (settings.solver is None or settings.solver.accepts_dependent)
    columns = every
    if not (model.plain or product):
        with limit_blas(len(every)):
            columns = independent(model)
    some = len(columns) < len(every)
    reduced = problem.reduced(face.alive, columns) if some else full
    # of an outer product the margins of P itself decide: entries of X may be too small for a share of its sum
    seen = reduced.all_margins_positive if reduced.model.one_body else face.certain
    solvers = choose(reduced, seen=seen) if settings.solver is None else [settings.solver]
    inverse = None if some else inverse
    engine = engine_for(reduced.model, products=isinstance(solvers[-1], NaturalCG) or inverse is not None)
    target = Target(engine, reduced, tol, attained=face.certain, inverse=inverse)
    if some:
        target = replace(target, full=Target(engine_for(model), full, tol), columns=columns)
    return Plan(recipe, problem, face, target, tuple(solvers), settings, some and auto and _scales(problem))


def _scales(problem: Problem) -> bool:
    """Whether the basis is a set of margins, and scaling is cheaper than Newton steps."""
    large = problem.known and problem.model.n_params >= limits.SCALING_FROM
    margins = generating_margins(problem.model) if large else None
    return margins is not None and scaling_pays(problem.model, margins)


def independence(problem: Problem) -> FloatArray:
    """Return theta of the best product over modes: a start that costs no sweep and saves steps.

    A mode's factor is constant between the cells that B has on its axis; one that would vanish somewhere stays at 1.
    """
    model = problem.model
    theta = np.zeros(model.n_params)
    alone = np.count_nonzero(model.positions, axis=1) == 1
    for k, margin in enumerate(problem.data.margins(model.quotient)):
        rows = np.flatnonzero(alone & (model.positions[:, k] > 0))
        rows = rows[np.argsort(model.positions[rows, k])]
        cuts = np.concatenate([[0], model.positions[rows, k]])
        mass, cells = np.add.reduceat(margin, cuts), np.add.reduceat(model.quotient.lengths[k], cuts)
        if (mass > 0).all():
            theta[rows] = np.diff(np.log(mass / cells))
    return theta
