"""The front door."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from legendre.arrays import FloatArray, IntArray, frozen
from legendre.basis import Basis, as_basis
from legendre.decomposition import Decomposition
from legendre.engines import GridEngine, Point
from legendre.errors import ConvergenceWarning, InvalidSetting
from legendre.existence import Face, find_face, vanishing_cells
from legendre.intake import observe
from legendre.problem import Problem
from legendre.progress import progress_line
from legendre.rank import independent
from legendre.solvers import Solver, choose, run
from legendre.solvers.loop import Callback, Outcome
from legendre.solvers.protocol import Target
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
        ``"auto"``, ``"natural"`` (Algorithm 2), ``"gradient"`` (Algorithm 1), ``"m-projection"``, or a solver object
        with settings, e.g. ``ld.Gradient(learning_rate=0.1)``.
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
    method = choose(solver)
    limit = _settings(tol, max_iter, method)
    data = observe(X, support, base)
    recipe = as_basis(basis)
    problem = Problem.of(data, recipe.select(data))
    first = _start(start, problem)
    face = find_face(problem)
    columns = independent(problem.model.on_face(face.alive))
    reduced = problem.reduced(face.alive, columns)
    target = Target(GridEngine(reduced.model), reduced)
    with progress_line(callback, limit) if progress else nullcontext(callback) as watch:
        outcome = run(method, target, first[columns], tol=tol, max_iter=limit, callback=watch)
    fit = Decomposition(
        model=problem.model,
        point=_on_all(problem, face, columns, outcome.point),
        eta_hat=problem.eta_hat,
        total=data.total,
        alive=face.alive,
        recession=face.recession,
        vanishing_cells=vanishing_cells(problem.model, face),
        missing=data.missing,
        status=_status(outcome, face),
        rank=len(columns),
        newton_gap=outcome.gap,
        history=outcome.history,
        solver=method.name,
        tol=tol,
        recipe=repr(recipe),
        data=data,
    )
    _warn(fit)
    return fit


def _settings(tol: float, max_iter: int | None, method: Solver) -> int:
    if isinstance(tol, bool) or not isinstance(tol, (int, float, np.number)) or not tol >= 0:
        raise InvalidSetting(f"tol must be a number >= 0, got {tol!r}.")
    if max_iter is None:
        return method.max_iter
    if isinstance(max_iter, bool) or not isinstance(max_iter, (int, np.integer)) or max_iter < 0:
        raise InvalidSetting(f"max_iter must be an integer >= 0, got {max_iter!r}.")
    return int(max_iter)


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
        point = GridEngine(problem.model.on_face(face.alive)).at(theta)
    return replace(point, theta=frozen(point.theta), eta=frozen(point.eta))


def _status(outcome: Outcome, face: Face) -> Status:
    if outcome.status is not Status.CONVERGED:
        return outcome.status
    if face.recession.any():
        return Status.AT_BOUNDARY
    return Status.CONVERGED if face.certain else Status.UNDECIDED


def _warn(fit: Decomposition) -> None:
    if fit.status in (Status.CONVERGED, Status.AT_BOUNDARY):
        return
    text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
