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
from legendre.core.arguments import entries, generator_from, is_whole
from legendre.core.cells import frozen
from legendre.core.errors import ConvergenceWarning, InvalidBasis, InvalidSetting
from legendre.core.labels import Labels
from legendre.core.origin import Origin
from legendre.core.progress import Say, line, silent
from legendre.core.sums.linalg import limit_blas
from legendre.core.sums.zeta import zeta, zeta_adjoint
from legendre.core.types import AnyArray, FloatArray, IntArray
from legendre.data.dense import Dense, in_memory, observe
from legendre.data.read import TensorLike, read
from legendre.data.readers.labelled import Levels, Names
from legendre.fitting.fit import fit_on
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.results.tensor import tensor
from legendre.solvers.status import Status
from legendre.tasks.hidden.em import HiddenModel, Run, visible_sums
from legendre.tasks.hidden.result import HiddenDecomposition
from legendre.tasks.hidden.visible import visible_fit

TIGHTER = (1.0, 0.1, 0.01)  # shares of tol to which the best run is followed, until the last fit meets tol as well
M_TOL = 1e-12  # how closely the last fit meets the completed data
ROUND = 60  # steps that every run may take before runs are compared; most have converged by then
OUTLOOK = 10.0  # a run is given up when ten times its fall in the last half of a round would not make it the best
WORTHWHILE = 1e-6  # and a lead of this share of KL is none: two ways to the same minimum differ by more


def hidden(
    X: TensorLike,
    basis: Basis | str | ArrayLike,
    sizes: int | Sequence[int] = 2,
    *,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    names: Names = None,
    levels: Levels = None,
    restarts: int = 10,
    rng: int | np.random.Generator | None = 0,
    tol: float = 1e-8,
    max_iter: int | None = None,
    progress: bool = False,
) -> HiddenDecomposition:
    """Fit X by the visible marginal of a model with more modes than X has.

    Parameters
    ----------
    X, support, base, names, levels
        As in `decompose`; every cell is held in memory.
    basis
        As in `decompose`, on X's modes followed by the hidden ones: on a tensor of order 3 the first hidden mode is 3.
        B1, B2 and B3 choose their cells on X spread evenly over the hidden levels.
    sizes
        How many levels each hidden mode has; at least 2.
    restarts
        The number of random starts. The problem is not convex, so the answer depends on the start. Each run goes on
        until it reaches tol, or until its KL falls too slowly to become the best.
    rng
        Draws the starts: an integer, a `numpy.random.Generator`, or ``None`` for other starts each time.
    tol
        A run has converged when the gradient of KL(P, Q) in theta is at most tol everywhere.
    max_iter
        The largest number of steps of a run; by default 5000.
    progress
        Show a line on the terminal from the third second on.

    Returns
    -------
    HiddenDecomposition
        Always, with a `ConvergenceWarning` where the best run has not converged. Its KL is a local minimum; levels of a
        hidden mode come in no particular order.

    See Also
    --------
    HiddenDecomposition : The result of `hidden`.
    rbm : A restricted Boltzmann machine, for `hidden`.
    decompose : Fit X by a model with some basis.

    Examples
    --------
    One of two biased coins is picked and thrown three times:

    >>> import legendre as ld
    >>> coins = [0.5 * np.array([1 - p, p]) for p in (0.2, 0.7)]
    >>> X = sum(4.0 * np.einsum("i,j,k->ijk", c, c, c) for c in coins)
    >>> fit = ld.hidden(X, ld.rbm(3, 1))
    >>> fit.kl < 1e-10, fit.tensor().shape
    (True, (2, 2, 2))
    """
    with limit_blas(), line("reading X", progress) as say:
        settings, added, recipe = Settings.read(tol=tol, max_iter=max_iter), _sizes(sizes), as_basis(basis)
        if not is_whole(restarts, 1):
            raise InvalidSetting(f"restarts must be an integer >= 1, got {restarts!r}.")
        generators = _generators(rng, restarts)
        data = in_memory(read(X, support, base, names=names, levels=levels), "hidden")
        data = replace(data, values=frozen(np.asarray(data.values, dtype=np.float64)))
        n_visible, n_cells = len(data.shape), math.prod((*data.shape, *added))
        if n_visible + len(added) > limits.MOST_AXES or n_cells > limits.LARGEST_HELD:
            raise InvalidSetting(
                f"visible and hidden modes together make {n_visible + len(added)} modes and {n_cells:,} cells; at "
                f"most {limits.MOST_AXES} modes and {limits.LARGEST_HELD:,} cells can be held. Use fewer hidden levels."
            )
        even = _shared(data, np.full((1,) * n_visible + added, 1.0 / math.prod(added)))
        cells = _cells(recipe, even, n_visible)
        model = HiddenModel.of(even, cells, n_visible)
        # were the parameters that involve a hidden mode equal at the start, no step could make its levels differ
        ties = (cells[:, n_visible:] > 0).any(axis=1)
        starts = [np.where(ties, generator.normal(size=len(cells)), 0.0) for generator in generators]
        steps = model.max_iter if settings.max_iter is None else settings.max_iter
        runs, best = _race(model, starts, settings.tol, steps, say)
        say(f"the last fit, of the best start   KL {runs[best].kl:.4g}")
        runs[best], fit, met = _finished(model, data, even, cells, runs[best], settings.tol, steps)
        fit = replace(fit, origin=_with_hidden(data, fit.shape))
        kl, log_likelihood = visible_fit(data, fit)
        cut_short = Status.OUT_OF_STEPS if len(runs[best].history) > steps else Status.STALLED
        result = HiddenDecomposition(
            fit=fit,
            n_visible=n_visible,
            runs=tuple(runs),
            best=best,
            status=fit.status if met else cut_short,
            tol=settings.tol,
            recipe=repr(recipe),
            total=data.total,
            kl=kl,
            log_likelihood=log_likelihood,
        )
        if not result.converged:
            where = f"the best of {restarts} runs stopped after {result.n_iter} steps with a gradient of"
            advice = f"{result.residual:.2e}, above tol = {tol:g}. Raise max_iter or loosen tol."
            warnings.warn(f"{where} {advice}", ConvergenceWarning, stacklevel=2)
        return result


def _with_hidden(data: Dense, shape: tuple[int, ...]) -> Origin:
    """Name the hidden modes after those of X."""
    origin, labels = data.origin, data.origin.labels
    if labels is None:
        return origin
    more = range(len(shape) - len(data.shape))
    names = None if labels.names is None else (*labels.names, *(f"hidden {k}" for k in more))
    levels = None if labels.levels is None else (*labels.levels, *(None for _ in more))
    own = None if origin.own_names is None else (*origin.own_names, *(f"hidden {k}" for k in more))
    return replace(origin, labels=Labels(shape, names, levels), own_names=own)


def _generators(rng: int | np.random.Generator | None, restarts: int) -> list[np.random.Generator]:
    """Make a source of random numbers for each start; with an integer, start i does not depend on `restarts`."""
    if is_whole(rng, 0):
        return [np.random.default_rng([int(rng), i]) for i in range(restarts)]
    return generator_from(rng, InvalidSetting).spawn(restarts)


def _race(
    model: HiddenModel, starts: list[FloatArray], tol: float, steps: int, say: Say = silent
) -> tuple[list[Run], int]:
    """Follow all starts, round after round those that may still become the best, and the best to the end."""
    allowed, runs = min(ROUND, steps), list[Run]()
    for start in starts:
        say(f"start {len(runs) + 1} of {len(starts)}", len(runs) / len(starts))
        runs.append(model.run(start, tol, allowed))
    going = list(range(len(runs)))
    while going and allowed < steps:
        lowest = min(run.kl for run in runs)
        # a run with fewer steps than it was allowed has ended by itself
        going = [i for i in going if len(runs[i].history) > allowed and _may_win(runs[i], lowest, tol)]
        allowed = min(allowed + ROUND, steps)
        for i in going:
            say(f"following {len(going)} of {len(starts)} starts to step {allowed}   lowest KL {lowest:.4g}")
            runs[i] = _continued(model, runs[i], tol, allowed)
    best = int(np.argmin([run.kl for run in runs]))
    runs[best] = _continued(model, runs[best], tol, steps)
    return runs, best


def _may_win(run: Run, lowest: float, tol: float) -> bool:
    """Whether a run's KL, which has been falling at some rate, may yet become the lowest by a share worth having."""
    fall = run.history[-1 - ROUND // 2].objective - run.kl
    return run.residual > tol and run.kl - OUTLOOK * fall < (1.0 - WORTHWHILE) * lowest


def _continued(model: HiddenModel, run: Run, tol: float, max_iter: int) -> Run:
    """Go on from where a run ended."""
    more = model.run(run.theta, tol, max_iter - len(run.history) + 1)
    later = (replace(step, iteration=step.iteration + len(run.history) - 1) for step in more.history[1:])
    return replace(more, history=(*run.history, *later))


def _finished(
    model: HiddenModel, data: Dense, even: Dense, cells: IntArray, run: Run, tol: float, steps: int
) -> tuple[Run, Decomposition, bool]:
    """Complete X by the best run and fit that to the end; return whether both meet tol.

    The fit is one step further, which lowers KL; yet its gradient may be the larger one. The run is then followed on.
    """
    for share in TIGHTER:
        run = _continued(model, run, share * tol, steps)
        fit = _last_fit(data, even, cells, run.theta)
        if run.residual > tol or _gradient(data, fit) <= tol:
            break
    return run, fit, run.residual <= tol and _gradient(data, fit) <= tol


def _gradient(data: Dense, fit: Decomposition) -> float:
    """Compute the largest entry of the gradient of KL(P, Q): expectations of Q less those of X shared out by it."""
    inside = data.support.on_grid()
    # cells of missing ones have a value, but no probability
    q = np.where(_over(inside, fit.shape), tensor(fit, extend=False), 0.0) / data.total
    p = np.where(inside, data.values, 0.0) / data.total
    p = np.expand_dims(p, tuple(range(p.ndim, q.ndim)))
    visible = visible_sums(q, len(data.shape), keepdims=True)
    excess = zeta_adjoint(q - q * np.divide(p, visible, out=np.zeros_like(visible), where=visible > 0))
    return float(np.abs(excess[tuple(fit.basis.T)]).max(initial=0.0))


def _shared(data: Dense, share: FloatArray) -> Dense:
    """Share X out among hidden levels; `share` has X's modes (maybe of length 1), then the hidden ones."""
    shape = (*data.shape, *share.shape[len(data.shape) :])
    values = _over(data.values, shape) * share
    # Probabilities may be subnormal, and have no digits left then; in X's units they have none wherever X has none.
    values = np.where(values < np.finfo(np.float64).tiny * data.total, 0.0, values)
    mask = "all" if data.support.mask is None else _over(data.support.mask, shape)
    shared = observe(values, mask, None if data.base is None else _over(data.base, shape))
    return replace(shared, origin=_with_hidden(data, shape))


def _over(grid: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Repeat what belongs to visible cells for every hidden level."""
    return np.broadcast_to(np.expand_dims(grid, tuple(range(grid.ndim, len(shape)))), shape)


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
    if recipe.growing is not None:
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
