"""The front door."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import numpy as np
from numpy.typing import ArrayLike

from legendre.arrays import FloatArray, IntArray, frozen
from legendre.basis import Basis
from legendre.decomposition import Decomposition
from legendre.engines import Point, engine_for
from legendre.errors import ConvergenceWarning, InvalidSetting
from legendre.existence import Face, vanishing_cells
from legendre.plan import plan as make_plan
from legendre.problem import Problem
from legendre.progress import progress_line
from legendre.solvers import Solver
from legendre.solvers.loop import Callback, Outcome
from legendre.status import Status


def decompose(
    X: ArrayLike,
    basis: Basis | str | ArrayLike,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    start: ArrayLike | None = None,
    callback: Callback | None = None,
    progress: bool = False,
) -> Decomposition:
    """Find the tensor of the model with basis B that is nearest to X: eq. (4) of the paper.

    Parameters
    ----------
    X
        A nonnegative tensor of any order. NaN means missing: such a cell is not in the sample space.
    basis
        A `Basis`, a string such as ``"B1 + B2(10) + B3(10)"``, or cells (k x N, 0-based).
    support
        The sample space Omega: ``"all"``, ``"nonzero"`` or a boolean array of X's shape.
    base
        A base measure r of X's shape: ``q_v`` is proportional to ``r_v exp(sum of theta_u, u <= v)``. Default 1.
    solver
        ``"auto"`` (by structure and size; `plan` tells which), ``"natural"`` (Algorithm 2), ``"natural-cg"`` (the same
        without a Fisher matrix), ``"gradient"`` (Algorithm 1), ``"m-projection"``, ``"scaling"``, ``"closed"``, or a
        solver object with settings, e.g. ``ld.Gradient(learning_rate=0.1)``.
    tol
        The fit has converged when ``max|eta - eta_hat| <= tol`` on B.
    max_iter
        How many steps at most; by default what the solver thinks reasonable.
    start
        theta to start from; the answer does not depend on it. Default 0.
    callback
        Called with a `Step` at the start and after every step; a true return value stops the fit.
    progress
        Show a line on the terminal while fitting.

    Returns
    -------
    Decomposition
        Always, with a `ConvergenceWarning` where ``max|eta - eta_hat|`` stayed above tol.

    Examples
    --------
    >>> import legendre as ld
    >>> fit = ld.decompose([[1, 2], [3, 4]], "B1")
    >>> fit.tensor().round(6).tolist()
    [[1.2, 1.8], [2.8, 4.2]]
    """
    _check_limit(max_iter)
    if callback is not None and not callable(callback):
        raise InvalidSetting(f"callback must be a function of a Step, got {callback!r}.")
    plan = make_plan(X, basis, support=support, base=base, solver=solver, tol=tol)
    first = _start(start, plan.problem)[plan.columns]
    with progress_line(callback) if progress else nullcontext(callback) as watch:
        outcome, found_by = plan.run(first, max_iter, watch)
    problem, face = plan.problem, plan.face
    fit = Decomposition(
        model=problem.model,
        point=_on_all(problem, face, plan.columns, outcome.point),
        eta_hat=problem.eta_hat,
        total=problem.data.total,
        alive=face.alive,
        recession=face.recession,
        vanishing_cells=frozen(vanishing_cells(problem.model, face)),
        missing=problem.data.missing,
        status=_status(outcome, face),
        rank=len(plan.columns),
        newton_gap=outcome.gap,
        history=outcome.history,
        solver=found_by,
        tol=plan.tol,
        recipe=repr(plan.recipe),
        data=problem.data,
    )
    _warn(fit)
    return fit


def _check_limit(max_iter: int | None) -> None:
    if max_iter is None:
        return
    if isinstance(max_iter, bool) or not isinstance(max_iter, (int, np.integer)) or max_iter < 0:
        raise InvalidSetting(f"max_iter must be an integer >= 0, got {max_iter!r}.")


def _start(start: ArrayLike | None, problem: Problem) -> FloatArray:
    k = problem.model.n_params
    if start is None:
        return np.zeros(k)
    theta = np.asarray(start)
    if theta.dtype.kind not in "iuf" or theta.shape != (k,) or not np.isfinite(theta).all():
        raise InvalidSetting(
            f"start must hold {k} finite numbers, one per basis cell; got shape {theta.shape}, dtype {theta.dtype}."
        )
    return theta.astype(np.float64)


def _on_all(problem: Problem, face: Face, columns: IntArray, point: Point) -> Point:
    """Put the parameters that were held at 0 back in."""
    if len(columns) < problem.model.n_params:
        theta = np.zeros(problem.model.n_params)
        theta[columns] = point.theta
        point = engine_for(problem.model.on_face(face.alive)).at(theta)
    return Point(frozen(point.theta), frozen(point.eta), point.psi)


def _status(outcome: Outcome, face: Face) -> Status:
    if outcome.status is not Status.CONVERGED:
        return outcome.status
    if not face.certain:
        return Status.UNDECIDED
    return Status.CONVERGED if face.alive is None else Status.AT_BOUNDARY


def _warn(fit: Decomposition) -> None:
    if fit.status in (Status.CONVERGED, Status.AT_BOUNDARY):
        return
    text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
