"""One fit: from a tensor that has been read and a basis to a decomposition."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, Cells
from legendre.core import limits
from legendre.core.cells import frozen
from legendre.core.errors import BasisWarning, ConvergenceWarning, InvalidSetting
from legendre.core.origin import rectangular
from legendre.core.progress import Say, line
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import BoxTotals
from legendre.core.tied_parameters import Terms
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import with_counts
from legendre.data.observation import Observation
from legendre.fitting.plan import Plan, Settings, WarmStart, independence, plan_on, with_face_search
from legendre.results.decomposition import Decomposition
from legendre.results.growth_path import GrowthPath
from legendre.solvers.loop import Callback, Outcome, Status, Step, run, run_in_turn
from legendre.solvers.newton import Closed, Natural, NaturalCG, newton_tilt
from legendre.solvers.scaling import Scaling
from legendre.solvers.structure.rank import same_on_face


def fit_recipe(
    data: Observation,
    recipe: Basis,
    settings: Settings,
    say: Say | None = None,
    *,
    start: ArrayLike | None = None,
) -> Decomposition:
    """Fit a tensor that has been read to a basis, which is grown first where it grows; no warning is given.

    `say` shows a text meanwhile, see `show_progress`; the other arguments are those of `fit_on`.
    """
    if (growing := recipe.growing) is None:
        return fit_on(data, recipe, settings, start=start)
    from legendre.fitting.growing.select import grow_basis

    growth = grow_basis(growing, data, say)
    basis = Cells(growth.terms.cells, growth.terms.ties)
    totals = None if growth.grown is None else growth.grown.totals
    fit = fit_on(data, basis, settings, start=growth.theta, known=WarmStart(totals, growth.inverse))
    path = GrowthPath(growth.rounds, fit, growth.negentropy)
    return replace(fit, recipe=repr(recipe), path=path, _grown=growth.grown)


def fit_on(
    data: Observation,
    recipe: Basis,
    settings: Settings,
    *,
    start: ArrayLike | None = None,
    known: WarmStart = WarmStart(),  # noqa: B008 - frozen
) -> Decomposition:
    """Plan, solve and put the result together; no warning is given.

    With ``settings.ranked = False`` the rank may come out as a bound, see `Settings`.
    """
    plan = plan_on(data, recipe, settings, known)
    with limit_blas(plan.problem.model.n_params):
        plan, outcome = _solve(plan, start)
    if not settings.ranked and not outcome.status.converged:
        return fit_on(data, recipe, replace(settings, ranked=True), start=start, known=known)
    problem, face = plan.problem, plan.face
    point = plan.target.complete(outcome.point)
    alone = replace(settings, max_iter=None, callback=None)  # for fits that the caller did not begin
    return Decomposition(
        model=problem.model,
        theta=frozen(point.theta),
        eta=frozen(point.eta),
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


def refit(
    data: Observation,
    terms: Terms,
    settings: Settings,
    boxes: BoxTotals | None,
    columns: IntArray,
    counts: FloatArray | None = None,
) -> Decomposition:
    """Fit some parameters of a basis; to other counts on the same sample space, where given, without a warning."""
    kept = terms.of_columns(columns)
    basis = Cells(kept.cells, kept.ties)
    if counts is not None:
        return fit_on(with_counts(data, counts), basis, settings)
    return warn_if_not_converged(fit_on(data, basis, settings, known=WarmStart(boxes)))


def _solve(plan: Plan, start: ArrayLike | None) -> tuple[Plan, Outcome]:
    """Run the solvers on the face that the minimum is on, and decide whether a finite theta attains it.

    Where it is open which cells vanish, the search for them comes first if it takes less than a few steps do. Newton
    steps run to the boundary in some thirty steps, and prove on arrival that none vanish where none do. Other methods
    creep towards a boundary, or need a point inside: the search comes first for them too. Where the end of a fit proves
    nothing, the search follows, and the fit is repeated without the cells that it finds.
    """
    model = plan.problem.model
    newton = isinstance(plan.solvers[-1], (Natural, NaturalCG))
    if not newton or model.n_merged * model.n_params <= limits.QUICK_SEARCH:
        plan = with_face_search(plan)
    theta = _start(start, plan)
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
    """Whether the end of a fit proves that, but for the cells left out, none vanish.

    A positive distribution with the data's expectations proves it; solving for the Newton step exactly computes one,
    see `State`. A solver that does not is given one factorisation of the Fisher matrix.
    """
    if isinstance(outcome.solver, (Natural, Closed)):
        return outcome.tilt <= limits.PROOF_TILT
    target, columns, point = plan.target, plan.columns, outcome.point
    if len(columns) > limits.LARGEST_MATRIX or not np.isfinite(point.theta).all():
        return False
    if target.full is not None and len(point.theta) > len(columns):  # of dependent parameters
        return newton_tilt(target.full, point, columns) <= limits.PROOF_TILT
    return newton_tilt(target, point, np.arange(len(columns))) <= limits.PROOF_TILT


def _run(plan: Plan, theta: FloatArray, *, given: bool) -> Outcome:
    """Run the solvers until one converges; theta of all parameters becomes that of the independent ones, or of all.

    Where a caller's start leads nowhere, they run from 0: the answer must not depend on it.
    """
    target, max_iter, callback = plan.target, plan.settings.max_iter, plan.settings.callback
    if plan.scales_first and target.full is not None and max_iter is None:
        scaling = Scaling(max_iter=limits.DEPENDENT_CYCLES)
        outcome = run(scaling, target.full, theta, scaling.max_iter, callback)
        if outcome.status in (Status.CONVERGED, Status.STOPPED):
            return outcome
    start = theta if target.columns is None else _independent_start(plan, theta)
    outcome = run_in_turn(plan.solvers, target, start, max_iter=max_iter, callback=callback)
    ended = outcome.status in (Status.CONVERGED, Status.STOPPED) or max_iter is not None
    if not given or ended or not theta.any():
        return outcome
    again = _run(plan, np.zeros_like(theta), given=False)
    better = again.status is Status.CONVERGED or not again.point.objective > outcome.point.objective
    return again if better else outcome


def _start(start: ArrayLike | None, plan: Plan) -> FloatArray:
    model, k = plan.problem.model, plan.problem.model.n_params
    if start is None:
        newton = isinstance(plan.solvers[0], Natural) and model.ties is None and model.measure is None
        costly = newton and model.n_cells >= limits.COSTLY_SWEEP
        return independence(plan.problem) if costly else np.zeros(k)
    theta = rectangular(start, "start", InvalidSetting)
    if theta.dtype.kind not in "iuf" or theta.shape != (k,) or not np.isfinite(theta).all():
        raise InvalidSetting(
            f"start must hold {k} finite numbers, one per parameter; got shape {theta.shape}, dtype {theta.dtype}."
        )
    return theta.astype(np.float64)


def _independent_start(plan: Plan, theta: FloatArray) -> FloatArray:
    """Find the independent parameters that make the same tensor on the face as all of a start; 0 if that is nearer.

    A basis that grew to a boundary has parameters of +80 and -80 that cancel each other: one of them alone is so far
    off that no step leads back.
    """
    nothing = np.zeros(len(plan.columns))
    if not theta.any():
        return nothing
    starts = [same_on_face(plan.problem.model.on_face(plan.face.alive), plan.columns, theta), nothing]
    with np.errstate(all="ignore"):
        objectives = [plan.target.at(start).objective if np.isfinite(start).all() else np.nan for start in starts]
    return starts[0] if objectives[0] <= objectives[1] else nothing


def warn_if_not_converged(fit: Decomposition, stacklevel: int = 4) -> Decomposition:
    """Warn of a fit that did not reach its certificate, and of one to which the support left no parameter."""
    support = fit.model.support
    named = fit.reason is None and not fit.path and not fit.recipe.startswith("cells(")
    if named and not (fit.model.n_params or support.full) and support.n_cells > 1:
        text = (
            f"{fit.recipe} has no cell on the support, {support.n_cells:,} cells of the grid, so that nothing of X was "
            "fitted: Q is uniform there (or the base measure). interactions(1) fits the sums of every level, and "
            "interactions(2) those of every pair of levels, on any support; support='all' counts zeros in."
        )
        warnings.warn(text, BasisWarning, stacklevel=stacklevel)
    if fit.status not in (Status.CONVERGED, Status.AT_BOUNDARY):
        text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)
    return fit


@contextmanager
def show_progress(progress: bool | None, callback: Callback | None) -> Iterator[tuple[Callback | None, Say | None]]:
    """Show on standard error how much of X has been read, then step and residual, while the block runs.

    The block gets the function to call after each step, and one that shows any text. ``None``: on a terminal only.
    """
    if not (sys.stderr.isatty() if progress is None else progress):
        yield callback, None
        return
    with line("reading X") as say:

        def show(step: Step) -> bool | None:
            say(f"step {step.iteration}   max|eta - eta_hat| = {step.residual:.2e}")
            return None if callback is None else callback(step)

        yield show, say
