"""Balancing: the e-projection of X onto the tensors with prescribed margins.

The model has base measure X on the support X > 0 and the basis of all interactions within the margins' modes; only
the expectations are not those of data but of the margins. Everything else is an ordinary fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from legendre.basis.interactions import interactions
from legendre.core import limits
from legendre.core.array_libraries import HERE, home_of, host
from legendre.core.cells import cell_name, frozen
from legendre.core.errors import ConvergenceWarning, InvalidSetting, InvalidTensor
from legendre.core.types import AnyArray
from legendre.data.dense import Dense, in_memory
from legendre.data.read import TensorLike, read
from legendre.data.support import Support
from legendre.fitting.plan import Settings
from legendre.model.problem import Problem
from legendre.solvers.loop import Callback
from legendre.solvers.protocol import Solver
from legendre.solvers.status import Status
from legendre.tasks.balance.margins import MarginsLike, read_margins
from legendre.tasks.balance.projection import Projection
from legendre.tasks.balance.result import Balanced

SOLVERS = ("gradient", "natural", "natural-cg", "matrix-scaling", "scaling")
"""The solvers that need no more of P than its margins."""


def balance(
    X: TensorLike,
    margins: MarginsLike | None = None,
    *,
    modes: int | Iterable[Iterable[int]] | None = None,
    total: float | None = None,
    solver: str | Solver = "auto",
    tol: float = 1e-10,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> Balanced:
    """Find the tensor with prescribed margins that is nearest to X: ``Q(v) = X(v) exp(sum of theta_u, u <= v)``.

    Also known as matrix scaling, Sinkhorn-Knopp, iterative proportional fitting, raking. Q minimises KL(Q, X).

    Parameters
    ----------
    X
        A nonnegative tensor of any kind that `decompose` takes, without missing cells. Cells with X = 0 stay 0. Every
        cell is held in memory.
    margins
        ``{0: row_sums, 1: column_sums}``, ``{(0, 1): M, (1, 2): K}`` or a list of one-way margins, one per mode.
        Default: uniform margins.
    modes
        Which margins are uniform when none are given: sets of modes, or an order (2: all two-way margins). Default:
        every mode by itself.
    total
        What uniform margins sum to. By default the entries of the first one are 1.
    solver
        ``"auto"``, ``"matrix-scaling"`` (matrices: Sinkhorn's cycles, then Newton's steps), ``"scaling"`` (cycles
        only), ``"natural"``, ``"natural-cg"``, ``"gradient"``, or a solver object.
    tol
        Converged when each margin is met to tol times its largest entry (and so ``max|eta - eta_hat| <= tol``).
    max_iter
        How many steps or cycles at most; by default what the solver thinks reasonable.
    callback
        Called with a `Step` at the start and after every step; a true return value stops.

    Returns
    -------
    Balanced
        Always, with a `ConvergenceWarning` where a margin was not met.

    Raises
    ------
    InvalidMargins
        When margins are malformed, contradict each other, or no tensor on X's support has them.

    Examples
    --------
    >>> import legendre as ld
    >>> result = ld.balance([[1, 2], [3, 4]])
    >>> result.tensor().round(6).tolist()
    [[0.44949, 0.55051], [0.55051, 0.44949]]
    >>> ld.balance([[1, 2], [3, 4]], {0: [30, 70], 1: [50, 50]}).tensor().sum(axis=1).round(8).tolist()
    [30.0, 70.0]
    """
    settings = Settings.read(solver, tol, max_iter, callback)
    _check_solver(settings.solver)
    home, prior = home_of(X), _prior(X)
    wanted = read_margins(margins, modes, total, prior.values.shape, settings.tol)
    shares = wanted.normalised()
    basis = interactions(list(shares)).select(prior)
    problem = Problem.with_margins(replace(prior, total=wanted.total), basis, shares)
    result = Projection(prior.values, problem, wanted, settings).balanced()
    _warn(result)
    return result if home is HERE else replace(result, values=home.bring(result.values))


def _warn(result: Balanced) -> None:
    if result.status in (Status.CONVERGED, Status.AT_BOUNDARY):
        return
    text = f"{result.status.value} (largest margin error {result.margin_error:.2e}, tol = {result.tol:g}, "
    warnings.warn(f"{text}{result.n_iter} steps)", ConvergenceWarning, stacklevel=3)


def _check_solver(solver: Solver | None) -> None:
    if solver is not None and solver.needs_mass:
        raise InvalidSetting(
            f"solver '{solver.name}' needs a tensor with the margins, which is what balancing looks for. "
            f"Use auto, {', '.join(SOLVERS)}."
        )


def _prior(X: TensorLike) -> Dense:
    """Make X the base measure on its own support; here NaN is no missing value but an error."""
    values = _clean(host(X))
    if values is None:
        values = in_memory(read(X), "balance").values
        if np.isnan(values).any():
            raise _refusal(values)
    mask = None if values.min() > 0 else values > 0
    kept = frozen(values.copy() if values.size < limits.COMPILED_CELLS else values)
    base = frozen(np.asarray(kept, dtype=np.float64))
    return Dense(Support(values.shape, mask), base, missing=None, total=1.0, positive=True, values=kept)


def _clean(X: Any) -> AnyArray | None:
    """Return an array of numbers >= 0 whose sum is finite and > 0; ``None`` where `read` is to say what is wrong.

    Unlike `read` it accepts entries that are 0 when they are divided by the sum: balancing does not divide by it.
    """
    if not isinstance(X, (np.ndarray, list, tuple)) or isinstance(X, np.ma.MaskedArray):
        return None
    try:
        values = np.asarray(X)
    except ValueError:
        return None
    if values.dtype.kind not in "iuf" or not values.size or not 0 < values.ndim <= limits.MOST_AXES:
        return None
    if values.min() < 0:
        raise _refusal(values)
    with np.errstate(over="ignore", invalid="ignore"):
        return values if 0 < float(values.sum(dtype=np.float64)) < np.inf else None


def _refusal(values: AnyArray) -> InvalidTensor:
    wrong = ~(values >= 0)
    place = np.argwhere(wrong)[0]
    return InvalidTensor(
        f"X has {int(wrong.sum())} entries that are negative or NaN; the first is X{cell_name(place)} = "
        f"{values[tuple(place)]:g}. Balancing multiplies each cell by a positive factor: entries must be >= 0, and a "
        "cell that must stay empty is 0."
    )
