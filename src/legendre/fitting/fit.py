"""One fit: from a tensor that has been read and a basis to a decomposition."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis
from legendre.core import limits
from legendre.core.array_libraries import host
from legendre.core.checkpoint import UNRECORDED, Record, digest
from legendre.core.errors import InvalidSetting
from legendre.core.types import FloatArray, IntArray, frozen
from legendre.data.observation import Observation
from legendre.engines.choose import engine_for
from legendre.engines.protocol import Point
from legendre.fitting.plan import Plan, plan_on
from legendre.model.problem import Problem
from legendre.results.decomposition import Decomposition
from legendre.solvers.before.faces import Face
from legendre.solvers.history import Callback, Outcome, record_step
from legendre.solvers.protocol import Solver, State, Target
from legendre.solvers.status import Status


def fit_on(
    data: Observation,
    recipe: Basis,
    *,
    solver: Solver | None = None,
    tol: float,
    max_iter: int | None = None,
    start: ArrayLike | None = None,
    callback: Callback | None = None,
    ranked: bool = True,
    record: Record = UNRECORDED,
) -> Decomposition:
    """Plan, solve and put the result together; no warning is given.

    With ``ranked = False`` the rank may come out as the number of parameters, see `plan_on`.
    """
    plan = plan_on(data, recipe, solver, tol, ranked=ranked)
    theta = _start(start, plan)
    record.claim(lambda: _claims(plan.problem, theta))
    outcome, found_by = plan.run(theta, max_iter, callback, record)
    if not ranked and outcome.status is not Status.CONVERGED:
        return fit_on(data, recipe, solver=solver, tol=tol, max_iter=max_iter, start=start, callback=callback)
    return _result(plan, outcome, found_by)


def fit_at(data: Observation, recipe: Basis, theta: FloatArray, *, tol: float) -> Decomposition:
    """Return the fit that `fit_on` found to have this theta, to the last bit of Q: planned again, but not solved again.

    How it was found is not known: the history is this one point, and there is no bound of the gap.
    """
    plan = plan_on(data, recipe, None, tol)
    model = plan.problem.model
    independent = len(plan.columns) == model.n_params
    engine = plan.target.engine if independent else engine_for(model.on_face(plan.face.alive))
    point = engine.at(theta)
    first = record_step(Target(engine, plan.problem, tol), State(point), 0)
    return _result(plan, Outcome(point, Status.OUT_OF_STEPS, (first,), np.inf), plan.solvers[-1].name)


def _claims(problem: Problem, theta: FloatArray) -> dict[str, str]:
    """Name what decides the steps of a fit: of X it knows the expectations alone."""
    basis = problem.model.basis
    return {
        "basis": f"{len(basis)} cells {digest(basis)}",
        "X as the basis sees it": digest(problem.eta_hat),
        "start": digest(theta),
    }


def _result(plan: Plan, outcome: Outcome, found_by: str) -> Decomposition:
    problem, face, data = plan.problem, plan.face, plan.problem.data
    return Decomposition(
        model=problem.model,
        point=_on_all(problem, face, plan.columns, outcome.point),
        eta_hat=problem.eta_hat,
        total=data.total,
        alive=face.alive,
        recession=face.recession,
        missing=data.missing,
        status=_status(outcome, face, exact=found_by in ("natural", "closed")),
        rank=len(plan.columns),
        newton_gap=outcome.gap,
        history=outcome.history,
        solver=found_by,
        tol=plan.tol,
        recipe=repr(plan.recipe),
        data=data,
    )


def _start(start: ArrayLike | None, plan: Plan) -> FloatArray:
    k = plan.problem.model.n_params
    if start is None:
        steps = plan.solvers[0].name == "natural" and plan.problem.model.measure is None
        return (
            _independence(plan.problem) if steps and plan.problem.model.n_merged >= limits.COSTLY_SWEEP else np.zeros(k)
        )
    theta = np.asarray(host(start, "start", InvalidSetting))
    if theta.dtype.kind not in "iuf" or theta.shape != (k,) or not np.isfinite(theta).all():
        raise InvalidSetting(
            f"start must hold {k} finite numbers, one per basis cell; got shape {theta.shape}, dtype {theta.dtype}."
        )
    return theta.astype(np.float64)


def _independence(problem: Problem) -> FloatArray:
    """Return theta of the best product over modes: where a sweep is costly, steps are spared by what costs none.

    A mode's factor is constant between the cells that B has on its axis; one that would vanish somewhere stays at 1.
    """
    model = problem.model
    theta = np.zeros(model.n_params)
    alone = (model.positions > 0).sum(axis=1) == 1
    for k, margin in enumerate(problem.data.margins(model.quotient)):
        rows = np.flatnonzero(alone & (model.positions[:, k] > 0))
        rows = rows[np.argsort(model.positions[rows, k])]
        cuts = np.concatenate([[0], model.positions[rows, k]])
        mass, cells = np.add.reduceat(margin, cuts), np.add.reduceat(model.quotient.lengths[k], cuts)
        if (mass > 0).all():
            theta[rows] = np.diff(np.log(mass / cells))
    return theta


def _on_all(problem: Problem, face: Face, columns: IntArray, point: Point) -> Point:
    """Put the parameters that were held at 0 back in."""
    if len(point.theta) < problem.model.n_params:
        theta = np.zeros(problem.model.n_params)
        theta[columns] = point.theta
        point = engine_for(problem.model.on_face(face.alive)).at(theta)
    return Point(frozen(point.theta), frozen(point.eta), point.psi)


def _status(outcome: Outcome, face: Face, *, exact: bool) -> Status:
    """Judge; where it was not known beforehand, a positive distribution with the data's expectations is the proof.

    Such a one stands behind the gap of a solver that solves its systems exactly, see `State`.
    """
    if outcome.status is not Status.CONVERGED:
        return outcome.status
    if not face.certain and not (exact and face.alive is None and outcome.tilt <= limits.PROOF_TILT):
        return Status.UNDECIDED
    return Status.CONVERGED if face.alive is None else Status.AT_BOUNDARY
