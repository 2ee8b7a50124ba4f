"""The front door."""

from __future__ import annotations

import os
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Basis, Cells
from legendre.basis.parse import as_basis
from legendre.core.array_libraries import HERE, Home, home_of
from legendre.core.checkpoint.record import Record, digest
from legendre.core.checkpoint.section import open_checkpoint
from legendre.core.errors import ConvergenceWarning, InvalidSetting
from legendre.core.types import IntArray
from legendre.data.observation import Observation
from legendre.data.read import TensorLike, read
from legendre.data.support import Support
from legendre.fitting.adaptive.grow import grow
from legendre.fitting.fit import fit_on
from legendre.fitting.plan import check_callback, check_limit, check_tol, rankings_of
from legendre.fitting.progress import ProgressLine, progress_line
from legendre.results.decomposition import Decomposition
from legendre.results.rounds import Round
from legendre.solvers.choose import check_packs, read_solver
from legendre.solvers.loop import Callback
from legendre.solvers.protocol import Solver
from legendre.solvers.status import Status


def decompose(
    X: TensorLike,
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
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float | None = None,
) -> Decomposition:
    """Find the tensor of the model with basis B that is nearest to X: eq. (4) of the paper.

    Parameters
    ----------
    X
        A nonnegative tensor of any order. NaN means missing: such a cell is not in the sample space. Or a sparse one:
        `SparseTensor`, or a sparse array of SciPy or pydata/sparse. Tensors of torch, JAX and CuPy may stay on their
        device, and results go back there, in float64. A dask array is read block by block, by a distributed client
        where there is one; its sample space is the full grid.
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
        theta to start from; the answer does not depend on it. Default 0; for large grids the best product over modes.
    callback
        Called with a `Step` at the start and after every step; a true return value stops the fit.
    progress
        Show a line on the terminal while fitting.
    checkpoint
        A file that keeps the state of a long fit. When the process was ended, the same call goes on from there and
        comes to the same theta, bit for bit; when the fit was finished, it returns it. The file stays. One that belongs
        to another problem, or is damaged, is refused with an `InvalidFile`.
    checkpoint_every
        Seconds from one write of it to the next; 0 writes after every step. Default 10, or more where writing would
        take more than 1 % of the time.

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
    home, record = home_of(X), open_checkpoint(checkpoint, checkpoint_every)
    with progress_line(callback) if progress else nullcontext(ProgressLine(callback)) as line:
        data = read(X, support, base, rankings=rankings_of(recipe, X), watch=line.say)
        if checkpoint is not None:
            check_packs(asked)
        record.claim(lambda: _claims(data, recipe, asked, float(tol)))
        if isinstance(recipe, Adaptive):
            if start is not None:
                raise InvalidSetting(
                    "start has no meaning while a basis grows; adaptive(..., start=basis) names cells."
                )
            fit = _adaptive(data, home, recipe, asked, float(tol), max_iter, line, record)
        else:
            fit = fit_on(
                data,
                recipe,
                solver=asked,
                tol=float(tol),
                max_iter=max_iter,
                start=start,
                callback=line.step,
                record=record,
            )
    _warn(fit)
    return fit if home is HERE else replace(fit, home=home)


def _adaptive(
    data: Observation,
    home: Home,
    recipe: Adaptive,
    solver: Solver | None,
    tol: float,
    max_iter: int | None,
    line: ProgressLine,
    record: Record,
) -> Decomposition:
    """Grow the basis, then fit it exactly; keep the way, and the means to fit any part of it."""
    growth = grow(recipe, data, record.section("growth"), line.say)
    fit = fit_on(
        data,
        Cells(growth.cells),
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        start=growth.theta,
        callback=line.step,
        record=record,
    )
    path = (*growth.rounds[:-1], Round.of(fit))
    return replace(fit, recipe=repr(recipe), path=path, part=PrefixFit(data, home, growth.cells, solver, tol))


@dataclass(frozen=True, eq=False)
class PrefixFit:
    """Fits the first cells of a basis that was grown."""

    data: Observation
    home: Home
    cells: IntArray
    solver: Solver | None
    tol: float

    def __call__(self, n_params: int) -> Decomposition:
        """Fit the first so many."""
        fit = fit_on(self.data, Cells(self.cells[:n_params]), solver=self.solver, tol=self.tol)
        _warn(fit)
        return replace(fit, home=self.home)


def _claims(data: Observation, recipe: Basis, solver: Solver | None, tol: float) -> dict[str, str]:
    """Name what is known of the problem before anything is computed; `fit_on` and `grow` add to it."""
    return {
        "shape of X": "x".join(map(str, data.shape)),
        "sum of X": f"{data.total!r}",
        "support": _said_support(data.support),
        "base": digest(data.base),
        "adaptive basis": repr(recipe) if isinstance(recipe, Adaptive) else "none",
        "solver": "auto" if solver is None else _said(solver),
        "tol": f"{tol!r}",
    }


def _said_support(support: Support) -> str:
    if support.full:
        return "all"
    return digest(support.points if support.mask is None else np.packbits(support.mask))


def _said(solver: Solver) -> str:
    """Print a solver's settings, without its address in memory if that is all it prints."""
    return type(solver).__name__ if type(solver).__repr__ is object.__repr__ else repr(solver)


def _warn(fit: Decomposition) -> None:
    if fit.status in (Status.CONVERGED, Status.AT_BOUNDARY):
        return
    text = f"{fit.status.value} (max|eta - eta_hat| = {fit.residual:.2e}, tol = {fit.tol:g}, {fit.n_iter} steps)"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
