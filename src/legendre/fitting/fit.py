"""`decompose`: settings, the plan (face, rank, engine, solvers), the run of the solvers, and the result.

The *face* is the set of cells that keep positive probability. On it, parameters may be dependent; a basis of the
independent ones is fitted, because Newton steps need a Fisher matrix of full rank. See CONTRIBUTING.md for the words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Never

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, BasisLike, Cells, empty
from legendre.basis.graph import Graph
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.arguments import check_flag, check_installed, check_int, is_real
from legendre.core.errors import BasisWarning, InvalidBasis, InvalidSetting, refuse_arguments, warn
from legendre.core.memory import size_name
from legendre.core.origin import read_array
from legendre.core.progress import Say, line, show_nothing
from legendre.core.sums.linalg import factorise, limit_blas
from legendre.core.sums.quotient import BoxTotals
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.data.dense import with_counts
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.engines.choose import choose_engine
from legendre.engines.protocol import Preconditioner
from legendre.model.model import Cliques
from legendre.model.problem import Problem
from legendre.results.decomposition import Decomposition
from legendre.solvers.choose import choose, read_solver, scaling_pays
from legendre.solvers.loop import Callback, Outcome, Solver, Status, Step, Target, run_in_turn
from legendre.solvers.newton import Closed, Natural, NaturalCG, newton_bound
from legendre.solvers.scaling import Scaling
from legendre.solvers.structure.faces import Face, search_face, structural_face
from legendre.solvers.structure.rank import Rank, independent, is_product, rank_of

if TYPE_CHECKING:
    from legendre.fitting.growing.seriate import Unordered


@frozen
class Settings:
    """How to fit: the arguments of `decompose` and the tasks, checked.

    With ``ranked = False``, the rank of a large set of margins is not computed if scaling can fit it: scaling accepts
    dependent parameters, and finding the independent ones takes longer.
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
        """Check a caller's arguments and return them as settings; wrong ones are refused before X is read."""
        if not ((type(tol) is float or is_real(tol)) and tol >= 0):
            raise InvalidSetting(f"tol must be a number >= 0, got {tol!r}.")
        if max_iter is not None:
            check_int(max_iter, "max_iter")
        if callback is not None and not callable(callback):
            raise InvalidSetting(f"callback must be a function of a Step, got {callback!r}.")
        return cls(read_solver(solver), float(tol), max_iter, callback)


@frozen(repr=False)
class Plan:
    """A problem, the face that its minimum is on, its independent parameters, an engine and the solvers that will run.

    Print it to see what a fit will cost. `problem` has all parameters, `target` what the solvers fit: the independent
    parameters on the face. With `scales_first`, some parameters are dependent but the basis is a set of margins:
    scaling, which accepts dependent parameters, is then tried first on all of them.

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

    @cached_property
    def rank(self) -> Rank:
        """How many parameters are independent on the face: an upper bound if the plan did not find out."""
        model, alive = self.problem.model, self.face.alive
        if alive is None and model.plain:  # nothing that could make parameters dependent
            return Rank(len(self.problem.eta_hat))
        # the condition under which `_plan` looked for the independent parameters
        known = self.settings.solver is not None or self.settings.ranked or not scaling_pays(self.problem)
        columns = np.arange(model.n_params) if self.target.columns is None else self.target.columns
        return rank_of(model.on_face(alive), columns if known else None)

    def __repr__(self) -> str:
        """Describe size, solvers, engine and cost of the fit in a few lines, as `plan` prints them."""
        model, k = self.problem.model, self.target.engine.n_params
        engine = type(self.target.engine).__name__.removesuffix("Engine").lower()
        names = [*(["scaling"] if self.scales_first else []), *(solver.name for solver in self.solvers)]
        lines = [
            f"{size_name(model.support.n_cells)} cells in the sample space, merged into {size_name(model.n_alive)}",
            f"{model.n_params:,} parameters, {self.rank} of them independent",
            f"solver {', then '.join(names)} on the {engine} engine",
        ]
        if isinstance(model, Cliques):
            tree = model.tables.tree
            lines.append(f"{len(tree.cliques):,} cliques, the largest of {tree.largest.n_cells:,} cells")
        lines.append(f"one sweep: {self.target.problem.model.additions:.1e} additions")
        if not self.face.certain:
            lines.append("X has zeros: whether cells vanish in the limit is known after the fit")
        if isinstance(self.solvers[0], Natural):
            size = f"a Fisher matrix of {8 * k * k / 2**20:,.1f} MiB, {k**3 / 3:.1e} flops to factor"
            lines.append(f"one step: {size}")
        return "\n".join(lines)


def plan(
    X: TensorLike,
    basis: BasisLike,
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
    if recipe.growing is not None:
        raise InvalidBasis(
            f"plan: {recipe!r} is chosen by the data, round by round, so it cannot be planned. "
            "Plan for a basis of your own, or for the cells of a fit: plan(X, fit.basis)."
        )
    data = read(X, support, base, ranked=recipe.ranked, names=names, levels=levels)
    return plan_on(data, recipe, settings)


@frozen
class Known:
    """What earlier work found out, which saves a fit time; the answer depends on none of it."""

    boxes: BoxTotals | None = None  # sums of X over boxes: if the basis cuts X no finer, X is not read again
    recession: FloatArray | float = 0.0  # a direction in theta along which cells without data vanish
    inverse: Preconditioner | None = None  # near the inverse of the Fisher matrix at the start


NOTHING = Known()


def plan_on(data: Observation, recipe: Basis, settings: Settings, known: Known = NOTHING) -> Plan:
    """Plan the fit of a tensor that has been read.

    Cells that surely vanish, because a sum of X is 0, are left out. The expensive search for others is not made here,
    see `with_face_search`.
    """
    terms = recipe.terms(data)
    return plan_problem(Problem.of(data, terms.cells, terms.ties, known.boxes), recipe, settings, known)


def plan_problem(problem: Problem, recipe: Basis, settings: Settings, known: Known = NOTHING) -> Plan:
    """Plan the fit of a problem, see `plan_on`."""
    face = Face(None, np.zeros(len(problem.eta_hat)))  # no cell vanishes
    if not problem.known_to_exist:
        face = structural_face(problem, known.recession)
    return _plan(problem, recipe, settings, face, known.inverse)


def with_face_search(plan: Plan) -> Plan:
    """Search for all cells that vanish, unless the plan is certain about them; plan again if more are found.

    The plan has left out the cells that empty margins force to vanish. The search decides on the others, but takes a
    linear program, so `_solve` asks for it only if it pays.
    """
    face = plan.face if plan.face.certain else search_face(plan.problem, plan.face)
    if face.alive is plan.face.alive:
        return plan if face is plan.face else replace(plan, face=face)
    return _plan(plan.problem, plan.recipe, plan.settings, face)


def _plan(
    problem: Problem, recipe: Basis, settings: Settings, face: Face, inverse: Preconditioner | None = None
) -> Plan:
    """Plan the fit on a face: find the independent parameters, choose the solvers and an engine for them.

    `inverse` is a preconditioner for all parameters; it is of no use if only some of them are fitted.
    """
    every, tol, auto = np.arange(len(problem.eta_hat)), settings.tol, settings.solver is None
    full = problem if face.alive is None else problem.reduce(face.alive, every)
    model = full.model
    if auto and not settings.ranked and scaling_pays(problem):  # scaling alone, on all parameters
        target = Target(choose_engine(model), full, tol, attained=face.certain)
        return Plan(recipe, problem, face, target, (Scaling(max_iter=limits.DEPENDENT_CYCLES),), settings)
    # on a face, a model in tables over cliques is a product of them, with a closed form in all parameters, whether
    # or not these are independent
    if model.plain or (is_product(model) and (settings.solver is None or settings.solver.accepts_dependent)):
        columns = every
    else:
        with limit_blas(len(every)):
            columns = independent(model)
    dependent = len(columns) < len(every)  # some parameters are
    reduced = problem.reduce(face.alive, columns) if dependent else full
    solvers = choose(reduced, certain=face.certain) if settings.solver is None else [settings.solver]
    inverse = None if dependent else inverse
    engine = choose_engine(reduced.model, products=isinstance(solvers[-1], NaturalCG) or inverse is not None)
    target = Target(engine, reduced, tol, attained=face.certain, inverse=inverse)
    if dependent:
        target = replace(target, full=Target(choose_engine(model), full, tol), columns=columns)
    return Plan(recipe, problem, face, target, tuple(solvers), settings, dependent and auto and scaling_pays(problem))


def fit_recipe(
    data: Observation,
    recipe: Basis,
    settings: Settings,
    say: Say = show_nothing,
    *,
    start: ArrayLike | None = None,
) -> Decomposition:
    """Fit a tensor that has been read, by any recipe: a graph or a growing basis is chosen by the data first.

    `say` shows progress, see `show_progress`; the other arguments are those of `fit_on`. No warning is given; callers
    use `warn_if_not_converged`.
    """
    if isinstance(recipe, Graph):
        from legendre.fitting.columns import find_graph

        found = find_graph(recipe, data)
        fit = fit_on(data, Cells(found.basis(data.shape)), settings, start=start)
        return replace(fit, recipe=repr(recipe), graph=found)
    if (growing := recipe.growing) is None:
        return fit_on(data, recipe, settings, start=start)
    from legendre.fitting.growing.select import grow_basis

    growth = grow_basis(growing, data, say)
    basis = Cells(growth.terms.cells, growth.terms.ties)
    known = Known(growth.grown and growth.grown.totals, growth.recession, growth.inverse)
    fit = fit_on(data, basis, settings, start=growth.theta, known=known)
    origin = fit.origin
    if isinstance(growing.n, int) and fit.n_params < growing.n:
        short = f"{growing.n:,} parameters were asked for: {fit.n_params:,} are all that lower KL."
        origin = replace(origin, notes=(*origin.notes, short))
    return replace(fit, recipe=repr(recipe), _rounds=growth.rounds, _grown=growth.grown, origin=origin)


def fit_on(
    data: Observation, recipe: Basis, settings: Settings, *, start: ArrayLike | None = None, known: Known = NOTHING
) -> Decomposition:
    """Fit a tensor that has been read, by a recipe whose cells do not have to be chosen first; no warning is given.

    `start` is theta to start from; like `known`, it saves time, and the answer does not depend on it. With
    ``settings.ranked = False`` the rank may be an upper bound, see `Settings`; if that fit does not converge, it is
    repeated with the independent parameters.
    """
    fit = fit_plan(plan_on(data, recipe, settings, known), start)
    if not settings.ranked and not fit.converged:
        return fit_on(data, recipe, replace(settings, ranked=True), start=start, known=known)
    return fit


def fit_plan(plan: Plan, start: ArrayLike | None = None) -> Decomposition:
    """Fit as planned, see `fit_on`."""
    with limit_blas(len(plan.problem.eta_hat)):
        plan, outcome = _solve(plan, start)
    recipe, settings, data = plan.recipe, plan.settings, plan.problem.data
    problem, face, point = plan.problem, plan.face, outcome.full
    for array in (point.theta, point.eta, face.recession):
        array.setflags(write=False)
    # settings of refits that methods of the result start: limit and callback were meant for this fit alone
    alone = replace(settings, max_iter=None, callback=None)
    return Decomposition(
        model=problem.model,
        theta=point.theta,
        eta=point.eta,
        psi=point.psi,
        eta_hat=problem.eta_hat,
        total=data.total,
        _alive=face.alive,
        recession=face.recession,
        missing=data.missing,
        status=outcome.status,
        rank=plan.rank.n,
        rank_is_bound=not plan.rank.exact,
        _newton_gap=outcome.gap,
        history=outcome.history,
        solver=outcome.solver.name,
        tol=settings.tol,
        recipe=repr(recipe),
        data=data,
        origin=data.origin,
        _settings=alone,
        _boxes=problem.boxes,
    )


def refit(fit: Decomposition, columns: IntArray, counts: FloatArray | None = None) -> Decomposition:
    """Fit again with only some `columns` of the parameters of a fit: to X, or to other counts on its sample space.

    Tests that compare nested bases use it, and the bootstrap, which passes counts; then no warning is given.
    """
    data, kept = fit._observed, fit.model.terms.with_columns(columns)
    basis = Cells(kept.cells, kept.ties)
    if counts is not None:
        return fit_on(with_counts(data, counts), basis, fit._settings)
    return warn_if_not_converged(fit_on(data, basis, fit._settings, known=Known(fit._boxes)))


def _solve(plan: Plan, start: ArrayLike | None) -> tuple[Plan, Outcome]:
    """Run the solvers on the face that the minimum is on, and decide whether a finite theta attains it.

    If it is not known which cells vanish, there are two ways to find out: a search (a linear program), or a fit. Newton
    steps reach a boundary in about thirty steps; if no cell vanishes, the end of their fit proves it. So the search is
    made first only if it is cheap, or if the solver takes other steps, which approach a boundary slowly. If the end of
    the fit proves nothing, the search follows, and the fit is repeated without the cells that it finds.
    """
    model = plan.problem.model
    newton = isinstance(plan.solvers[-1], (Natural, NaturalCG))
    if not newton or model.n_cells * len(plan.problem.eta_hat) <= limits.QUICK_SEARCH:
        plan = with_face_search(plan)
    theta = _read_start(start, len(plan.problem.eta_hat))
    outcome = _run(plan, theta, given=start is not None)
    if not plan.face.certain and outcome.status is not Status.STOPPED:
        if _proves_existence(plan, outcome):
            plan = replace(plan, face=replace(plan.face, certain=True))
        else:
            before, plan = plan.face.alive, with_face_search(plan)
            if plan.face.alive is not before:
                outcome = _run(plan, theta, given=start is not None)
    if outcome.status is Status.CONVERGED and not plan.face.certain:
        return plan, replace(outcome, status=Status.UNDECIDED)
    if outcome.status is Status.CONVERGED and plan.face.alive is not None:
        return plan, replace(outcome, status=Status.AT_BOUNDARY)
    return plan, outcome


def _proves_existence(plan: Plan, outcome: Outcome) -> bool:
    """Return whether the end of a fit proves that no cell vanishes except those left out; False: nothing is proved.

    A positive distribution m with the data's expectations proves it. An exact Newton step gives an m with these
    expectations (see `newton_bound`), which is positive if the *tilt*, the largest |m / q - 1|, is less than 1. It must
    be at most `limits.PROOF_TILT`, as it tends to 1 where cells vanish. `Natural` and `Closed` report it; for other
    solvers it takes one factorisation of the Fisher matrix, if that is not too large.
    """
    if isinstance(outcome.solver, (Natural, Closed)):
        return outcome.tilt <= limits.PROOF_TILT
    target, point = plan.target, outcome.point
    if target.engine.n_params > limits.LARGEST_MATRIX or not np.isfinite(point.theta).all():
        return False
    if target.full is not None and len(point.theta) > target.engine.n_params:  # scaling fitted dependent parameters
        point = target.at(_move_to_independent(target, point.theta))
    return newton_bound(target, point)[1] <= limits.PROOF_TILT


def _run(plan: Plan, theta: FloatArray, *, given: bool) -> Outcome:
    """Run the solvers of a plan from theta (of all parameters) until one converges.

    If some parameters are dependent, scaling runs first if it pays, because it can fit all of them; the other solvers
    fit the independent ones. If they do not converge from a start that was `given`, they run again from 0, because the
    answer must not depend on the start.
    """
    target, max_iter, callback = plan.target, plan.settings.max_iter, plan.settings.callback
    if plan.scales_first and target.full is not None and max_iter is None:
        scaling = [Scaling(max_iter=limits.DEPENDENT_CYCLES)]
        outcome = run_in_turn(scaling, target.full, theta, max_iter=None, callback=callback)
        if outcome.status in (Status.CONVERGED, Status.STOPPED):
            return outcome
    start = theta
    # the start has dependent parameters too. Its part on the independent ones alone may be a bad start: values of +80
    # and -80 that cancel may be separated. Of several starts the one with the least KL is taken
    if target.columns is not None:
        starts = [np.zeros(len(target.columns)), theta[target.columns]]
        if theta.any() and isinstance(plan.solvers[-1], Natural):
            starts.append(_move_to_independent(target, theta))
        start = min(starts, key=lambda some: target.at(some).objective)
    outcome = run_in_turn(plan.solvers, target, start, max_iter=max_iter, callback=callback)
    ended = outcome.status in (Status.CONVERGED, Status.STOPPED) or max_iter is not None
    if not given or ended or not theta.any():
        return outcome
    again = _run(plan, np.zeros_like(theta), given=False)
    better = again.status is Status.CONVERGED or not again.point.objective > outcome.point.objective
    return again if better else outcome


def _move_to_independent(target: Target, theta: FloatArray) -> FloatArray:
    """Return values of the independent parameters that give the same Q as all parameters do at `theta`.

    On a face a feature may be a linear combination of others, and growing a basis spreads theta over all of them. Least
    squares in the Fisher metric, ``G_II x = G_I theta`` with I the independent parameters, moves it to these. Without
    it, a fit that could start at its answer would begin from 0.
    """
    assert target.full is not None
    assert target.columns is not None
    engine, point = target.full.engine, target.full.at(theta)
    right = engine.fisher_product(point, theta)[target.columns]
    g = engine.fisher(point)[np.ix_(target.columns, target.columns)]
    return factorise(g, target.problem.model.n_cells).solve(right)


def _read_start(start: ArrayLike | None, k: int) -> FloatArray:
    """Check a caller's start, theta of k parameters; by default 0, where Q is uniform or the base measure."""
    if start is None:
        return np.zeros(k)
    theta = read_array(start, "start", InvalidSetting)
    if theta.dtype.kind not in "iuf" or theta.shape != (k,) or not np.isfinite(theta).all():
        raise InvalidSetting(
            f"start must hold {k} finite numbers, one per parameter; got shape {theta.shape}, dtype {theta.dtype}."
        )
    return theta.astype(np.float64)


def warn_if_not_converged(fit: Decomposition) -> Decomposition:
    """Return the fit; warn if it did not converge, or if the basis has no cell on the support: nothing was fitted."""
    support = fit.model.support
    lost = not (len(fit.theta) or support.full) and support.n_cells > 1
    # no warning if the data chose a basis without cells (`reason`, `_rounds`), or if the caller asked for none
    if lost and fit.reason is None and not fit._rounds and fit.recipe != repr(empty()):
        text = (
            f"{fit.recipe} has no cell on the support, {support.n_cells:,} cells of the grid, so nothing of X was "
            "fitted: Q is uniform there (or the base measure). interactions(1) fits the sums of every level, and "
            "interactions(2) those of every pair of levels, on any support; support='all' counts zeros in."
        )
        warn(text, BasisWarning)
    if fit.status not in (Status.CONVERGED, Status.AT_BOUNDARY):
        text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
        warn(text)
    return fit


@contextmanager
def show_progress(progress: bool | None, callback: Callback | None) -> Iterator[tuple[Callback | None, Say]]:
    """Show on standard error that X is read, then step and residual, while the block runs.

    The block gets two functions: a callback for each step, which also calls the caller's own, and one that shows any
    text. With ``progress=None`` it is shown only if standard error is a terminal.
    """
    shown = sys.stderr.isatty() if progress is None else progress
    if shown is not False and check_flag(shown, "progress") and progress:
        check_installed("progress=True", ["rich"], "'legendre[cli]'")
    if not shown:
        yield callback, show_nothing
        return
    with line("reading X") as say:

        def show(step: Step) -> bool | None:
            """Show a step, and pass it on to the caller's callback, whose answer may stop the fit."""
            say(f"step {step.iteration}   max|eta - eta_hat| = {step.residual:.2e}")
            return None if callback is None else callback(step)

        yield show, say


def decompose(
    X: TensorLike,
    basis: BasisLike | None = None,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    counts: bool | None = None,
    names: Names = None,
    levels: Levels = None,
    unordered: Unordered = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    start: ArrayLike | None = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    **others: Never,
) -> Decomposition:
    """Fit a model with few parameters to X: the one nearest to X, which is unique (eq. (4) of the paper).

    Parameters
    ----------
    X
        A nonnegative tensor of any order. NaN means missing: such a cell is not in the sample space. An xarray
        DataArray, a pandas cross table or a pandas Series with a MultiIndex keeps its labels, and answers have the same
        form. X may be sparse: a `SparseTensor`, or a SciPy or pydata/sparse array. torch, JAX and CuPy tensors are
        copied to NumPy, and answers are copied back to their device, in float64. A dask array is read block by block,
        by a distributed client if there is one.
    basis
        A `Basis`, a string such as ``"B1 + B2(10) + B3(10)"``, or cells (k x N, 0-based). With ``None`` the data
        choose: for counts ``adaptive("bic")``, for other tensors the smallest basis that predicts held-out cells about
        as well as the best does. `Decomposition.reason` and the summary say which it is and why.
    support
        The sample space Omega: ``"all"``, ``"nonzero"`` or a boolean array of X's shape.
    base
        A base measure r of X's shape: ``q_v`` is proportional to ``r_v exp(sum of theta_u, u <= v)``. Default 1.
    counts
        Whether X holds counts. Counts have standard errors, and a criterion chooses the basis. ``None``: X holds counts
        if all entries are whole numbers. Rounded measurements are not counts: pass False.
    names, levels
        The names of the modes, and for each mode (in a list, or by name) the labels of its levels, in order. A labelled
        X (xarray, pandas, `from_rows`) has its own.
    unordered
        Modes whose levels have no order, such as names of places: ``["zone"]`` or their numbers. The data put these
        levels in an order before the fit, and answers have them in the order of X again. ``{"zone": [...]}`` lists all
        levels in an order of your own. ``None``: where a basis grows, the modes whose labels are names; ``()``: no
        mode. Cells of `basis` refer to levels in the new order.
    solver
        ``"auto"`` (by structure and size; `plan` shows which), ``"natural"`` (Algorithm 2), ``"natural-cg"`` (the same
        without a Fisher matrix), ``"gradient"`` (Algorithm 1), ``"scaling"``, ``"closed"``, or a solver
        object with settings, e.g. ``ld.solvers.Gradient(learning_rate=0.1)``.
    tol
        The fit has converged exactly when `residual`, ``max|eta - eta_hat|`` on all of B at the theta that is returned,
        is at most tol. Sums of float64 are seldom more precise than 1e-16: with a smaller tol (0 is allowed), most fits
        end STALLED, as close as rounding permits.
    max_iter
        The largest number of steps; by default the solver's own limit.
    start
        theta to start from; the answer does not depend on it. Default 0.
    callback
        Called with a `Step` at the start and after every step; a true return value stops the fit.
    progress
        Show a line on the terminal while fitting, from the third second on. ``None``: only if no basis is named.

    Returns
    -------
    Decomposition
        Always, with a `ConvergenceWarning` where ``max|eta - eta_hat|`` stayed above tol.

    See Also
    --------
    Decomposition : The result of `decompose`.
    plan : Say beforehand which solver and engine a fit will use.
    adaptive : A basis that the data choose.
    interactions : All that sets of modes do together.
    complete : Fill missing cells by a model with some basis.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
    >>> fit.tensor().round(6).tolist()
    [[1.2, 1.8], [2.8, 4.2]]
    """
    if others:
        refuse_arguments("decompose", others)
    settings, asked = Settings.read(solver, tol, max_iter, callback), None if basis is None else as_basis(basis)
    if start is not None and (asked is None or asked.growing is not None):
        raise InvalidSetting("start has no meaning while a basis grows; adaptive(..., include=basis) names cells.")
    quiet = progress is None and asked is not None  # a fit to a named basis is usually short
    with show_progress(False if quiet else progress, settings.callback) as (step, say):
        settings = replace(settings, callback=step)
        if isinstance(asked, Graph):
            from legendre.fitting.columns import rows_as_tensor

            X = rows_as_tensor(X)
        ranked = () if asked is None else asked.ranked
        data = read(X, support, base, ranked=ranked, names=names, levels=levels)
        if counts is not None:
            if not isinstance(counts, bool) or (counts and not data.whole_numbers):
                raise InvalidSetting(f"counts={counts!r}: pass None, False, or True if all entries are whole numbers.")
            data = replace(data, origin=replace(data.origin, counted=counts))
        if asked is None:
            from legendre.fitting.first_choice import first_basis, first_fit
        recipe = first_basis(data) if asked is None else asked
        # the order of levels matters most to a growing basis; a named one keeps X's order unless the caller asks
        if unordered is not None or recipe.growing is not None:
            from legendre.fitting.growing.seriate import arrange

            data = arrange(data, unordered, say)
        if asked is None:
            fit = first_fit(data, recipe, settings, say, hint=unordered is None)
        else:
            fit = fit_recipe(data, recipe, settings, say, start=start)
    return warn_if_not_converged(fit)
