"""Hidden variables: modes that were not observed (the paper's Section 2.4.2 calls them ongoing research)."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.basis import Basis, Cells
from legendre.basis.parse import as_basis
from legendre.core import limits
from legendre.core.arguments import entries, is_whole
from legendre.core.array_libraries import home_of
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSetting
from legendre.core.sums.zeta import zeta
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dense import Dense, in_memory, observe
from legendre.data.read import TensorLike, read
from legendre.fitting.fit import fit_on
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.results.query_arguments import generator_from
from legendre.solvers.status import Status
from legendre.tasks.hidden.em import HiddenModel, Run
from legendre.tasks.hidden.result import HiddenDecomposition

M_TOL = 1e-12
"""How closely the last fit meets the completed data."""
ROUGH = 1e-4
"""All starts are followed until the gradient is this small, the best of them to the end."""


def hidden(
    X: TensorLike,
    basis: Basis | str | ArrayLike,
    sizes: int | Sequence[int] = 2,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    restarts: int = 10,
    rng: int | np.random.Generator | None = 0,
    tol: float = 1e-8,
    max_iter: int | None = None,
) -> HiddenDecomposition:
    """Fit X by the visible marginal of a model with more modes than X has.

    Parameters
    ----------
    X, support, base
        As in `decompose`; every cell is held in memory.
    basis
        As in `decompose`, on X's modes followed by the hidden ones: on a tensor of order 3 the first hidden mode is 3.
        B1, B2 and B3 choose their cells on X spread evenly over the hidden levels.
    sizes
        How many levels each hidden mode has; at least 2.
    restarts
        The number of random starts: the marginal is not convex in theta, so that the answer depends on the start. All
        are followed until the gradient is below 1e-4, the best of them to tol.
    rng
        Draws the starts: an integer, a `numpy.random.Generator`, or ``None`` for other starts each time.
    tol
        A run has converged when the gradient of KL(P, Q) in theta is at most tol everywhere.
    max_iter
        How many steps a run may take; by default 5000.

    Returns
    -------
    HiddenDecomposition
        Always, with a `ConvergenceWarning` where the best run has not converged. Its KL is a local minimum; levels of a
        hidden mode come in no particular order.

    Examples
    --------
    Two coins of different bias, one of them thrown three times:

    >>> import legendre as ld
    >>> coins = [0.5 * np.array([1 - p, p]) for p in (0.2, 0.7)]
    >>> X = sum(4.0 * np.einsum("i,j,k->ijk", c, c, c) for c in coins)
    >>> fit = ld.hidden(X, ld.rbm(3, 1))
    >>> fit.kl < 1e-10, fit.tensor().shape
    (True, (2, 2, 2))
    """
    settings, levels, recipe = Settings.read(tol=tol, max_iter=max_iter), _sizes(sizes), as_basis(basis)
    if not is_whole(restarts, 1):
        raise InvalidSetting(f"restarts must be an integer >= 1, got {restarts!r}.")
    generators = _generators(rng, restarts)
    home, data = home_of(X), in_memory(read(X, support, base), "hidden")
    data = replace(data, values=frozen(np.asarray(data.values, dtype=np.float64)))
    _check_grid((*data.shape, *levels))
    even = _shared(data, np.full((1,) * len(data.shape) + levels, 1.0 / math.prod(levels)))
    cells = _cells(recipe, even, len(data.shape))
    model = HiddenModel.of(even, cells, len(data.shape))
    starts = (_start(cells, len(data.shape), generator) for generator in generators)
    steps = model.max_iter if settings.max_iter is None else settings.max_iter
    runs = [model.run(start, max(settings.tol, ROUGH), steps) for start in starts]
    best = int(np.argmin([run.history[-1].objective for run in runs]))
    runs[best] = _continued(model, runs[best], settings.tol, steps)
    fit = replace(_last_fit(data, even, cells, runs[best].theta), home=home)
    result = HiddenDecomposition(
        fit=fit,
        n_visible=len(data.shape),
        runs=tuple(runs),
        best=best,
        status=_status(fit, runs[best], settings.tol, steps),
        tol=settings.tol,
        recipe=repr(recipe),
        data=data,
    )
    if not result.converged:
        text = (
            f"the best of {restarts} runs stopped after {result.n_iter} steps with a gradient of "
            f"{result.residual:.2e}, above tol = {tol:g}. Raise max_iter or loosen tol."
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=2)
    return result


def _generators(rng: int | np.random.Generator | None, restarts: int) -> list[np.random.Generator]:
    """Make a source of random numbers for each start; of an integer the first few do not depend on their number."""
    if is_whole(rng, 0):
        return [np.random.default_rng([int(rng), i]) for i in range(restarts)]
    return generator_from(rng, InvalidSetting).spawn(restarts)


def _continued(model: HiddenModel, run: Run, tol: float, max_iter: int) -> Run:
    """Go on from where a run ended."""
    more = model.run(run.theta, tol, max_iter - len(run.history) + 1)
    later = (replace(step, iteration=step.iteration + len(run.history) - 1) for step in more.history[1:])
    return replace(more, history=(*run.history, *later))


def _status(fit: Decomposition, run: Run, tol: float, max_iter: int) -> Status:
    """Say how the best run ended, and with it the last fit."""
    if run.residual <= tol:
        return fit.status
    return Status.OUT_OF_STEPS if len(run.history) > max_iter else Status.STALLED


def _start(cells: IntArray, n_visible: int, generator: np.random.Generator) -> FloatArray:
    """Draw the parameters that involve a hidden mode: were they equal, no step could ever tell its levels apart."""
    ties = (cells[:, n_visible:] > 0).any(axis=1)
    return np.where(ties, generator.normal(size=len(cells)), 0.0)


def _shared(data: Dense, share: FloatArray) -> Dense:
    """Share X out among hidden levels; `share` has X's modes (maybe of length 1), then the hidden ones."""
    n_hidden = share.ndim - len(data.shape)
    shape = (*data.shape, *share.shape[len(data.shape) :])

    def over(grid: AnyArray) -> AnyArray:
        return np.broadcast_to(np.expand_dims(grid, tuple(range(-n_hidden, 0))), shape)

    values = over(data.values) * share
    # Probabilities may be subnormal, and have no digits left then; in X's units they have none wherever X has none.
    values = np.where(values < np.finfo(np.float64).tiny * data.total, 0.0, values)
    mask = "all" if data.support.mask is None else over(data.support.mask)
    return observe(values, mask, None if data.base is None else over(data.base))


def _last_fit(data: Dense, even: Dense, cells: IntArray, theta: FloatArray) -> Decomposition:
    """Complete X by the posterior at theta and fit that to the end."""
    grid = np.zeros(even.shape)
    grid[tuple(cells.T)] = theta
    log_q, modes = zeta(grid), tuple(range(len(data.shape), len(even.shape)))
    share = np.exp(log_q - log_q.max(axis=modes, keepdims=True))
    share /= share.sum(axis=modes, keepdims=True)
    # from 0, not from theta: where parameters have run far out, what is left of them on a face may be far from the end
    return fit_on(_shared(data, share), Cells(cells), Settings(tol=M_TOL))


def _cells(recipe: Basis, joint: Dense, n_visible: int) -> IntArray:
    """List the basis, and refuse one that leaves a hidden mode alone: then it can explain nothing."""
    if recipe.grows:
        raise InvalidBasis("adaptive(...) cannot grow with hidden modes; give a basis of fixed cells, e.g. rbm(4, 2).")
    try:
        cells = recipe.select(joint)
    except InvalidBasis as trouble:
        grid = "x".join(map(str, joint.shape))
        raise InvalidBasis(
            f"{trouble} The basis of a fit with hidden modes is laid out on visible and hidden modes together, here "
            f"{grid}: modes {n_visible} and up are hidden, one for each entry of sizes."
        ) from None
    for k in range(n_visible, len(joint.shape)):
        tied = (cells[:, k] > 0) & (np.delete(cells, k, axis=1) > 0).any(axis=1)
        if not tied.any():
            raise InvalidBasis(
                f"no cell of the basis ties hidden mode {k} to another mode, so that it cannot explain anything. "
                f"Hidden modes come after the visible ones, 0 to {n_visible - 1}; e.g. interactions([(0, {k})])."
            )
    return cells


def _sizes(sizes: int | Sequence[int]) -> tuple[int, ...]:
    listed = [sizes] if is_whole(sizes) else entries(sizes)
    if listed == []:
        raise InvalidSetting("sizes is empty: without hidden modes use decompose.")
    if listed is None or not all(is_whole(size, 2) for size in listed):
        raise InvalidSetting(
            f"sizes={sizes!r}: a hidden mode needs at least 2 levels, as an integer; a list has one for each mode."
        )
    return tuple(int(size) for size in listed)


def _check_grid(shape: tuple[int, ...]) -> None:
    if len(shape) > limits.MOST_AXES or math.prod(shape) > limits.LARGEST_HELD:
        raise InvalidSetting(
            f"visible and hidden modes together make {len(shape)} modes and {math.prod(shape):,} cells; at most "
            f"{limits.MOST_AXES} modes and {limits.LARGEST_HELD:,} cells can be held. Use fewer hidden levels."
        )
