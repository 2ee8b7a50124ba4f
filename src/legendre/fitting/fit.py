"""One fit: from a tensor that has been read and a basis to a decomposition."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, Cells
from legendre.core import limits
from legendre.core.array_libraries import host
from legendre.core.cells import frozen
from legendre.core.checkpoint import Record, digest
from legendre.core.errors import ConvergenceWarning, InvalidSetting
from legendre.core.types import FloatArray, IntArray
from legendre.data.observation import Observation
from legendre.engines.choose import engine_for
from legendre.engines.protocol import Point
from legendre.fitting.plan import Plan, Settings, independence, plan_on
from legendre.results.decomposition import Decomposition
from legendre.solvers.before.faces import Face
from legendre.solvers.loop import Outcome, pack_outcome, run, run_in_turn
from legendre.solvers.scaling import Scaling
from legendre.solvers.status import Status


def fit_on(
    data: Observation,
    recipe: Basis,
    settings: Settings,
    *,
    start: ArrayLike | None = None,
    record: Record | None = None,
) -> Decomposition:
    """Plan, solve and put the result together; no warning is given.

    With ``settings.ranked = False`` the rank may come out as the number of parameters, see `Settings`.
    """
    plan = plan_on(data, recipe, settings)
    theta = _start(start, plan)
    if record is not None:
        basis, eta_hat = plan.problem.model.basis, digest(plan.problem.eta_hat)
        claims = {"basis": f"{len(basis)} cells {digest(basis)}", "X as the basis sees it": eta_hat}
        record.claim(lambda: claims | {"start": digest(theta)})
    outcome = _run(plan, theta, record)
    if not settings.ranked and outcome.status is not Status.CONVERGED:
        return fit_on(data, recipe, replace(settings, ranked=True), start=start)
    return _result(plan, outcome)


def warned(fit: Decomposition, stacklevel: int = 4) -> Decomposition:
    """Warn of a fit that did not reach its certificate."""
    if fit.status not in (Status.CONVERGED, Status.AT_BOUNDARY):
        text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)
    return fit


def _run(plan: Plan, theta: FloatArray, record: Record | None) -> Outcome:
    """Run the solvers until one converges; theta of all parameters becomes that of the independent ones, or of all."""
    max_iter, callback = plan.settings.max_iter, plan.settings.callback
    if plan.whole is not None:
        if record is not None:
            record.claim(lambda: {"max_iter": "not set" if max_iter is None else "set"})
        if max_iter is None:
            scaling = Scaling(max_iter=limits.DEPENDENT_CYCLES)
            part = None if record is None else record.section("whole")
            outcome = run(scaling, plan.whole, theta, scaling.max_iter, callback, part)
            if outcome.status in (Status.CONVERGED, Status.STOPPED):
                return outcome
            if part is not None:
                part.close(pack_outcome(outcome), now=False)
    start = theta if len(plan.columns) == len(theta) else theta[plan.columns]
    return run_in_turn(plan.solvers, plan.target, start, max_iter=max_iter, callback=callback, record=record)


def _start(start: ArrayLike | None, plan: Plan) -> FloatArray:
    model = plan.problem.model
    k = len(model.basis)
    if start is None:
        costly = plan.solvers[0].forms_fisher and model.space.measure is None
        return independence(plan.problem) if costly and model.space.n_cells >= limits.COSTLY_SWEEP else np.zeros(k)
    theta = np.asarray(host(start, "start", InvalidSetting))
    if theta.dtype.kind not in "iuf" or theta.shape != (k,) or not np.isfinite(theta).all():
        raise InvalidSetting(
            f"start must hold {k} finite numbers, one per basis cell; got shape {theta.shape}, dtype {theta.dtype}."
        )
    return theta.astype(np.float64)


def _result(plan: Plan, outcome: Outcome) -> Decomposition:
    problem, face, data = plan.problem, plan.face, plan.problem.data
    point: Point = outcome.point
    if len(point.theta) < len(problem.eta_hat):  # put the parameters that were held at 0 back in
        theta = np.zeros(len(problem.eta_hat))
        theta[plan.columns] = point.theta
        point = engine_for(problem.model.on_face(face.alive)).at(theta)
    return Decomposition(
        model=problem.model,
        point=Point(frozen(point.theta), frozen(point.eta), point.psi),
        eta_hat=problem.eta_hat,
        total=data.total,
        alive=face.alive,
        recession=face.recession,
        missing=data.missing,
        status=_status(outcome, face),
        rank=len(plan.columns),
        newton_gap=outcome.gap,
        history=outcome.history,
        solver=outcome.solver.name,
        tol=plan.settings.tol,
        recipe=repr(plan.recipe),
        data=data,
        refit=partial(_refit, data, problem.model.basis, plan.settings),
    )


def _refit(data: Observation, cells: IntArray, settings: Settings, columns: IntArray) -> Decomposition:
    """Fit some cells of a basis."""
    return warned(fit_on(data, Cells(cells[columns]), replace(settings, max_iter=None, callback=None)))


def _status(outcome: Outcome, face: Face) -> Status:
    """Decide how the fit ended; whether cells vanish may not have been known before it.

    A positive distribution with the data's expectations proves that none do; a solver that solves its systems exactly
    has computed one for its gap, see `State`.
    """
    if outcome.status is not Status.CONVERGED:
        return outcome.status
    proved = outcome.solver.exact and face.alive is None and outcome.tilt <= limits.PROOF_TILT
    if not face.certain and not proved:
        return Status.UNDECIDED
    return Status.CONVERGED if face.alive is None else Status.AT_BOUNDARY
