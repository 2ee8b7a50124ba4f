"""The front door."""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from legendre.arrays import IntArray
from legendre.basis import Basis, as_basis
from legendre.basis.adaptive import Adaptive
from legendre.basis.core import Cells
from legendre.decomposition import Decomposition, Round
from legendre.errors import ConvergenceWarning, InvalidSetting
from legendre.fit import fit_on
from legendre.growing import grow
from legendre.intake import Observation, observe
from legendre.plan import check_callback, check_limit, check_tol
from legendre.progress import progress_line
from legendre.solvers import Solver, read_solver
from legendre.solvers.loop import Callback
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
    check_limit(max_iter)
    check_tol(tol)
    check_callback(callback)
    asked, recipe = read_solver(solver), as_basis(basis)
    data = observe(X, support, base)
    with progress_line(callback) if progress else nullcontext(callback) as watch:
        if isinstance(recipe, Adaptive):
            if start is not None:
                raise InvalidSetting(
                    "start has no meaning while a basis grows; adaptive(..., start=basis) names cells."
                )
            fit = _adaptive(data, recipe, asked, float(tol), max_iter, watch)
        else:
            fit = fit_on(data, recipe, solver=asked, tol=float(tol), max_iter=max_iter, start=start, callback=watch)
    _warn(fit)
    return fit


def _adaptive(
    data: Observation,
    recipe: Adaptive,
    solver: Solver | None,
    tol: float,
    max_iter: int | None,
    callback: Callback | None,
) -> Decomposition:
    """Grow the basis, then fit it exactly; keep the way, and the means to fit any part of it."""
    growth = grow(recipe, data)
    fit = fit_on(
        data,
        Cells(growth.cells),
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        start=growth.theta,
        callback=callback,
    )
    path = (*growth.rounds[:-1], Round.of(fit))
    return replace(fit, recipe=repr(recipe), path=path, part=Part(data, growth.cells, solver, tol))


@dataclass(frozen=True, eq=False)
class Part:
    """Fits the first cells of a basis that was grown."""

    data: Observation
    cells: IntArray
    solver: Solver | None
    tol: float

    def __call__(self, n_params: int) -> Decomposition:
        """Fit the first so many."""
        fit = fit_on(self.data, Cells(self.cells[:n_params]), solver=self.solver, tol=self.tol)
        _warn(fit)
        return fit


def _warn(fit: Decomposition) -> None:
    if fit.status in (Status.CONVERGED, Status.AT_BOUNDARY):
        return
    text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
