"""One fit: from a tensor that has been read and a basis to a decomposition."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Basis, Cells, Listed
from legendre.basis.boxes import Boxes
from legendre.core import limits
from legendre.core.array_libraries import rectangular
from legendre.core.cells import frozen
from legendre.core.errors import BasisWarning, ConvergenceWarning, InvalidSetting
from legendre.core.progress import Say
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.quotient import BoxTotals
from legendre.core.tied_parameters import Terms
from legendre.core.types import FloatArray, IntArray
from legendre.data.dense import with_counts
from legendre.data.observation import Observation
from legendre.engines.protocol import Point
from legendre.fitting.adaptive.grow import grow
from legendre.fitting.adaptive.order import order_of
from legendre.fitting.boxes.grow import grow_boxes
from legendre.fitting.plan import NOTHING, Known, Plan, Settings, independence, plan_on, searched
from legendre.results.decomposition import Decomposition
from legendre.results.growth_path import GrowthPath, Round, on_grid
from legendre.results.inference.criteria import rounds_judged
from legendre.solvers.loop import Outcome, run, run_in_turn
from legendre.solvers.natural import newton_tilt
from legendre.solvers.scaling import Scaling
from legendre.solvers.status import Status
from legendre.solvers.structure.faces import Face
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

    `say` shows a text meanwhile, see `shown`; the other arguments are those of `fit_on`.
    """
    if (growing := recipe.growing) is not None:
        return _grown(data, growing, settings, say)
    if (boxed := recipe.boxed) is not None:
        return _grown_boxes(data, boxed, settings, say)
    return fit_on(data, recipe, settings, start=start)


def _grown(data: Observation, recipe: Adaptive, settings: Settings, say: Say | None) -> Decomposition:
    """Grow the basis, then fit it exactly; keep the rounds."""
    growth = grow(recipe, data, say)
    known = Known(growth.boxes, growth.inverse)
    fit = fit_on(data, Cells(growth.cells), settings, start=growth.theta, known=known)
    ranking = partial(order_of, recipe, data, growth.cells, growth.theta, growth.boxes)
    return replace(fit, recipe=repr(recipe), path=_path(growth.rounds, fit), ranking=ranking)


def _path(rounds: tuple[Round, ...], fit: Decomposition) -> GrowthPath:
    return GrowthPath(len(rounds), partial(_measured_path, rounds, fit))


def _measured_path(rounds: tuple[Round, ...], fit: Decomposition) -> tuple[Round, ...]:
    """Measure the rounds on X; the last one is the fit itself."""
    last, data = rounds[-1], fit.data
    assert data is not None
    end = replace(Round.measured(fit.n_params, fit.kl, fit.rmse, fit.total), held_out=last.held_out, spread=last.spread)
    return rounds_judged((*on_grid(rounds[:-1], data), end), fit)


def _grown_boxes(data: Observation, recipe: Boxes, settings: Settings, say: Say | None) -> Decomposition:
    """Grow the boxes, then fit them exactly; keep the rounds."""
    growth = grow_boxes(recipe, data, say)
    fit = fit_on(data, Listed(growth.terms), settings, start=growth.theta)
    return replace(fit, recipe=repr(recipe), path=_path(growth.rounds, fit))


def fit_on(
    data: Observation,
    recipe: Basis,
    settings: Settings,
    *,
    start: ArrayLike | None = None,
    known: Known = NOTHING,
) -> Decomposition:
    """Plan, solve and put the result together; no warning is given.

    With ``settings.ranked = False`` the rank may come out as a bound, see `Settings`.
    """
    plan = plan_on(data, recipe, settings, known)
    with limit_blas(plan.problem.model.n_params):
        plan = searched(plan) if _searches_first(plan) else plan
        plan, outcome = _run_on_face(plan, _start(start, plan), given=start is not None)
    if not settings.ranked and outcome.status is not Status.CONVERGED:
        return fit_on(data, recipe, replace(settings, ranked=True), start=start, known=known)
    return _result(plan, outcome)


def warned(fit: Decomposition, stacklevel: int = 4, start: ArrayLike | None = None) -> Decomposition:
    """Warn of a fit that did not reach its certificate, and of one to which the support left no parameter.

    `start` is where the caller began it.
    """
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
        far = (
            0.0
            if start is None or fit.converged
            else float(np.abs(rectangular(start, "start", InvalidSetting)).max(initial=0.0))
        )
        if far > limits.FAR_START:
            where = f"The start has entries of up to {far:g}, and next to all probability there is in one cell"
            text = f"{text}. {where}: begin nearer, by default at 0."
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)
    return fit


def _searches_first(plan: Plan) -> bool:
    """Whether to search for the cells that vanish before the first step: where that takes less than a few steps do.

    Newton steps run to the boundary in some thirty steps, and prove on arrival that none vanish where none do. Other
    methods creep towards a boundary, or need a point inside: for them the search comes first, too.
    """
    if plan.face.certain:
        return False
    newton = plan.solvers[-1].forms_fisher or plan.solvers[-1].needs_products
    return not newton or plan.problem.model.n_merged * plan.problem.model.n_params <= limits.QUICK_SEARCH


def _run_on_face(plan: Plan, theta: FloatArray, *, given: bool) -> tuple[Plan, Outcome]:
    """Run; where the end proves nothing about existence, search for cells that vanish, and run anew without them."""
    run_from = _run_from_anywhere if given else _run
    outcome = run_from(plan, theta)
    if plan.face.certain or outcome.status is Status.STOPPED:
        return plan, outcome
    if _proves_existence(plan, outcome):
        return replace(plan, face=replace(plan.face, certain=True)), outcome
    found = searched(plan)
    if found.face.alive is plan.face.alive:
        return found, outcome
    return found, run_from(found, theta)


def _run_from_anywhere(plan: Plan, theta: FloatArray) -> Outcome:
    """Run from a caller's start; where that leads nowhere, from 0: the answer must not depend on it."""
    outcome = _run(plan, theta)
    ended = outcome.status in (Status.CONVERGED, Status.STOPPED) or plan.settings.max_iter is not None
    if ended or not theta.any():
        return outcome
    again = _run(plan, np.zeros_like(theta))
    if again.status is Status.CONVERGED or not again.point.objective > outcome.point.objective:
        return again
    return outcome


def _proves_existence(plan: Plan, outcome: Outcome) -> bool:
    """Return whether the end of a fit proves that, but for the cells left out, none vanish.

    A positive distribution with the data's expectations proves it; solving for the Newton step exactly computes one,
    see `State`. A solver that does not is given one factorisation of the Fisher matrix.
    """
    if outcome.solver.exact:
        return outcome.tilt <= limits.PROOF_TILT
    if len(plan.columns) > limits.LARGEST_MATRIX or not np.isfinite(outcome.point.theta).all():
        return False
    if plan.whole is not None and len(outcome.point.theta) > len(plan.columns):  # of dependent parameters
        return newton_tilt(plan.whole, outcome.point, plan.columns) <= limits.PROOF_TILT
    return newton_tilt(plan.target, outcome.point, np.arange(len(plan.columns))) <= limits.PROOF_TILT


def _run(plan: Plan, theta: FloatArray) -> Outcome:
    """Run the solvers until one converges; theta of all parameters becomes that of the independent ones, or of all."""
    max_iter, callback = plan.settings.max_iter, plan.settings.callback
    if plan.whole is not None and max_iter is None:
        scaling = Scaling(max_iter=limits.DEPENDENT_CYCLES)
        outcome = run(scaling, plan.whole, theta, scaling.max_iter, callback)
        if outcome.status in (Status.CONVERGED, Status.STOPPED):
            return outcome
    start = theta if len(plan.columns) == len(theta) else _independent_start(plan, theta)
    return run_in_turn(plan.solvers, plan.target, start, max_iter=max_iter, callback=callback)


def _start(start: ArrayLike | None, plan: Plan) -> FloatArray:
    model, k = plan.problem.model, plan.problem.model.n_params
    if start is None:
        if model.ties is not None:
            return np.zeros(k)
        costly = plan.solvers[0].forms_fisher and model.space.measure is None
        return independence(plan.problem) if costly and model.space.n_cells >= limits.COSTLY_SWEEP else np.zeros(k)
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


def _result(plan: Plan, outcome: Outcome) -> Decomposition:
    problem, face, data = plan.problem, plan.face, plan.problem.data
    point: Point = outcome.point
    if plan.target.whole is not None and len(point.theta) < len(problem.eta_hat):
        point = plan.target.whole.at(point.theta)
    return Decomposition(
        model=problem.model,
        point=Point(frozen(point.theta), frozen(point.eta), point.psi),
        eta_hat=problem.eta_hat,
        total=data.total,
        alive=face.alive,
        recession=face.recession,
        missing=data.missing,
        status=_status(outcome.status, face),
        rank=plan.rank.n,
        rank_is_bound=not plan.rank.exact,
        newton_gap=outcome.gap,
        history=outcome.history,
        solver=outcome.solver.name,
        tol=plan.settings.tol,
        recipe=repr(plan.recipe),
        data=data,
        origin=data.origin,
        _refit=partial(_refit, data, problem.model.terms, plan.settings.unwatched, problem.merged.boxes),
    )


def _refit(
    data: Observation,
    terms: Terms,
    settings: Settings,
    boxes: BoxTotals | None,
    columns: IntArray,
    counts: FloatArray | None = None,
) -> Decomposition:
    """Fit some parameters of a basis; to other counts on the same sample space, where given, without a warning."""
    kept = terms.of_columns(columns)
    basis = Cells(kept.cells) if kept.ties is None else Listed(kept)
    if counts is None:
        return warned(fit_on(data, basis, settings, known=Known(boxes)))
    return fit_on(with_counts(data, counts), basis, settings)


def _status(status: Status, face: Face) -> Status:
    """Say of a fit that met its tolerance whether a finite theta does."""
    if status is not Status.CONVERGED:
        return status
    if not face.certain:
        return Status.UNDECIDED
    return Status.CONVERGED if face.alive is None else Status.AT_BOUNDARY
