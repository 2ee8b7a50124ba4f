"""The rules of a decomposition: its certificate is true, its KL minimal, its views are what brute force says."""

from __future__ import annotations

from typing import Any

import numpy as np

from .oracle import EPS, LONG, Problem, covariance, up_sums
from .rules import Wrong

Array = Any


def need(truth: bool, text: str) -> None:
    """Raise Wrong unless something holds."""
    if not truth:
        raise Wrong(text)


def close(found: Any, right: Any, allowed: Any, name: str) -> None:
    """Raise Wrong unless numbers agree to an allowed absolute error; NaN agrees with NaN."""
    found, right = np.asarray(found), np.asarray(right)
    need(found.shape == right.shape, f"{name} has shape {found.shape}, brute force {right.shape}")
    with np.errstate(invalid="ignore"):
        off = np.abs(found.astype(LONG) - right.astype(LONG))
    with np.errstate(over="ignore"):  # what is beyond float64 is infinite there
        same = (np.isnan(found) & np.isnan(right)) | (found == right.astype(np.float64)) | (off <= allowed)
    if not same.all():
        bad = tuple(np.argwhere(~same)[0])
        limit = np.broadcast_to(np.asarray(allowed), same.shape)[bad]
        raise Wrong(
            f"{name}{list(map(int, bad))} = {found[bad]!r}, brute force {float(right[bad])!r}: "
            f"off by {float(off[bad]):.3g}, "
            f"rounding allows {float(limit):.3g}"
        )


def cell_set(cells: Any) -> set[tuple[int, ...]]:
    """Return cells as a set, which is compared in any order."""
    return {tuple(map(int, v)) for v in cells}


def same_cells(found: Any, right: Any) -> None:
    """Raise Wrong unless a basis has the cells of its definition, each once."""
    need(cell_set(found) == cell_set(right), "the basis has other cells than its definition")
    need(len(cell_set(found)) == len(found), "the basis repeats cells")


def vanished(fit: Any, problem: Problem) -> Array:
    """Mark the cells of Omega that the fit does not list as vanishing."""
    gone = np.zeros(problem.shape, dtype=bool)
    gone[tuple(fit.vanishing_cells.T)] = True
    return ~gone[tuple(problem.omega.T)]


def check_fit(fit: Any, problem: Problem, rng: np.random.Generator, *, steady: bool = False) -> str:
    """Judge a `Decomposition` of the problem; `steady`: it has to converge."""
    alive = vanished(fit, problem)
    theta, rounding = fit.theta, problem.rounding(fit.theta)
    need(bool(np.isfinite(theta).all()) and np.isfinite(fit.psi), "theta or psi is not finite")
    log_q, psi = problem.log_q(theta, alive)
    q = np.exp(log_q)
    eta = problem.expectations(q)
    close(fit.total, float(problem.total), 8 * EPS * len(problem.x) * float(problem.total), "total")
    close(fit.eta_hat, problem.eta_hat, 8 * EPS * (len(problem.x) + 8) * problem.size, "eta_hat")
    close(fit.psi, psi, rounding * 1.0 + 4 * EPS * abs(float(psi)), "psi")
    close(fit.eta, eta, rounding * problem.size, "eta")
    _certificate(fit, problem, eta, rounding)
    _divergence(fit, problem, log_q, psi)
    if fit.status.name in ("CONVERGED", "AT_BOUNDARY"):
        _minimum(fit, problem, alive, q, rounding)
    elif steady:
        raise Wrong(f"an ordinary problem ended {fit.status.name} with residual {fit.residual:.2e}, tol {fit.tol:g}")
    if (
        fit.converged or rounding < 1e-3
    ):  # a theta of 1e20 that did not converge, and said so, leaves no digit to a view
        check_views(fit, problem, q, log_q, rounding, rng)
    return {"CONVERGED": "right", "AT_BOUNDARY": "boundary", "UNDECIDED": "right"}.get(fit.status.name, "unconverged")


def _certificate(fit: Any, problem: Problem, eta: Array, rounding: float) -> None:
    true = float(np.abs(eta - problem.eta_hat).max(initial=0.0))
    allowed = (rounding + 8 * EPS * (len(problem.x) + 8)) * problem.size
    close(fit.residual, true, allowed, "residual")
    if fit.converged:
        need(fit.residual <= fit.tol, f"{fit.status.name} though residual {fit.residual:.3g} > tol {fit.tol:.3g}")


def _divergence(fit: Any, problem: Problem, log_q: Array, psi: Any) -> None:
    seen = problem.x > 0
    if np.isneginf(log_q[seen].astype(np.float64)).any():
        raise Wrong("a cell with X > 0 is listed as vanishing")
    right = problem.divergence(log_q)
    terms = (problem.p[seen] * np.abs(np.log(problem.p[seen]) - problem.log_r[seen])).sum() + abs(psi)
    terms += (np.abs(fit.theta).astype(LONG) * np.abs(problem.eta_hat)).sum()
    close(fit.kl, max(float(right), 0.0), 16 * EPS * (float(terms) + 1.0) * (len(problem.x) ** 0.5 + 2), "kl")


def _minimum(fit: Any, problem: Problem, alive: Array, q: Array, rounding: float) -> None:
    if (np.float64(1) * problem.p[problem.x > 0].astype(np.float64) < 1e-290).any():
        return  # entries that are next to nothing beside the total: which cells vanish is no question of float64
    if not np.array_equal(alive, problem.alive):
        more = problem.omega[problem.alive & ~alive].tolist()[:3]
        less = problem.omega[~problem.alive & alive].tolist()[:3]
        if fit.status.name != "CONVERGED" or less or more:
            raise Wrong(f"{fit.status.name}: vanish though they need not: {more}; do not, but must: {less}")
    need((fit.status.name == "AT_BOUNDARY") == (not problem.alive.all()), f"status {fit.status.name}")
    need(fit.rank == problem.rank, f"rank is {fit.rank}, brute force {problem.rank}")
    best = problem.best
    # convexity: the objective at theta exceeds that at any other theta by at most the gradient times the difference
    eta = problem.expectations(q)
    _, psi = problem.log_q(fit.theta, alive)
    objective = psi - fit.theta.astype(LONG) @ problem.eta_hat
    above = objective - best.objective
    slack = (np.abs(eta - problem.eta_hat) + LONG(1e-18 * problem.size)) @ np.abs(fit.theta - best.theta)
    slack += LONG(1e-18) * (
        len(problem.x) + abs(objective) + abs(psi) + (np.abs(fit.theta).astype(LONG) @ np.abs(problem.eta_hat))
    )
    need(bool(above <= slack), f"KL is {float(above):.3g} above the minimum; the residual explains {float(slack):.3g}")
    if best.residual < 1e-15 * problem.size:
        allowed = fit.gap * 1.01 + 16 * EPS * float(abs(psi) + 1 + problem.size * np.abs(fit.theta).sum())
        need(bool(above <= allowed), f"KL is {float(above):.3g} above its minimum, gap says {fit.gap:.3g}")
        same_tensor(problem, q, eta, rounding)


def same_tensor(problem: Problem, q: Array, eta: Array, rounding: float) -> None:
    """Raise Wrong unless Q is the oracle's, to what the residual and the Fisher matrix explain.

    If theta moves by d, log q of a cell changes by zeta(d) minus its mean, to first order `swing`, and then by minus
    half the variance of zeta(d), which is at most the square of the largest swing: in a cell whose features equal their
    means nothing else is left.
    """
    G = covariance(problem, q)
    columns = np.flatnonzero(np.diag(G) > 0)
    if not len(columns) or np.linalg.cond(G[np.ix_(columns, columns)]) > 1e9:
        return
    inverse = np.linalg.inv(G[np.ix_(columns, columns)])
    rows = problem.Z[:, columns] - eta[columns].astype(np.float64)
    off = np.abs(eta - problem.eta_hat)[columns].astype(np.float64) + 1e-15 * problem.size
    swing = np.abs(rows @ inverse) @ off
    if swing.max() < 0.1:
        close(q, np.exp(problem.best.log_q), q * (2.0 * swing + swing.max() ** 2 + 4 * rounding) + 1e-17, "q")


def check_views(fit: Any, problem: Problem, q: Array, log_q: Array, rounding: float, rng: np.random.Generator) -> None:
    """Every view of the fit against sums over the list of cells."""
    order, grid = len(problem.shape), problem.on_grid(q)
    relative = 2 * rounding + 32 * EPS * len(problem.x)
    at = tuple(problem.omega.T)
    near = fit.tensor()
    tiny = float(problem.total) * 1e-300 + 1e-307
    close(near[at], q * problem.total, q * problem.total * relative + tiny, "tensor")
    outside = np.ones(problem.shape, dtype=bool)
    outside[at] = False
    outside &= ~np.isnan(problem.grid.astype(np.float64))  # missing cells are NaN
    need(not near[outside].any(), "tensor is not 0 outside the support")
    close(
        fit.log_prob(problem.omega), log_q, relative * (1 + np.abs(np.where(np.isfinite(log_q), log_q, 0))), "log_prob"
    )
    _dual_tensors(fit, problem, grid, log_q, relative)
    kept = [int(k) for k in rng.permutation(order)[: int(rng.integers(1, order + 1))]]
    others = tuple(k for k in range(order) if k not in kept)
    right = grid.sum(axis=others).transpose(np.argsort(np.argsort(kept)))
    close(fit.marginal(kept), right, relative, f"marginal({kept})")
    f = rng.normal(size=problem.shape)
    close(fit.expectation(f), (grid * f).sum(), relative * float((grid * np.abs(f)).sum()) + 1e-300, "expectation")
    event = {k: int(rng.integers(problem.shape[k])) for k in kept[: max(1, order - 1)]}
    possible = problem.on_grid(np.isfinite(log_q))
    _condition(fit, grid, possible, event, relative)
    drawn = fit.sample(8, rng=int(rng.integers(100)))
    need(bool((grid[tuple(drawn.T)] > 0).all()), "sample drew a cell of probability 0")
    top = fit.most_probable()
    need(bool(grid[top] >= grid.max() * (1 - 1e-11 - relative)), f"most_probable {top} has less than the maximum")
    G = covariance(problem, q)
    close(fit.fisher(), G, 4 * relative * problem.size**2, "fisher")
    need(bool(fit.summary() and repr(fit)), "no summary")
    _rmse(fit, problem, q, relative)


def _dual_tensors(fit: Any, problem: Problem, grid: Array, log_q: Array, relative: float) -> None:
    """Eta of every cell, and theta on the grid; where levels were arranged, both belong to that arrangement."""
    order = fit.labels.order
    straight = [None] * grid.ndim if order is None else order
    places = np.ix_(*(np.arange(n) if own is None else own for n, own in zip(grid.shape, straight, strict=True)))
    close(fit.eta_tensor()[places], up_sums(grid[places]), relative, "eta_tensor")
    T = np.zeros(problem.shape)
    T[tuple(fit.basis.T)] = fit.theta if fit.ties is None else fit.ties.matrix() @ fit.theta
    T.flat[0] = -fit.psi
    found = fit.theta_tensor()[places]
    tied = 0.0 if fit.ties is None else 8 * EPS * problem.size
    close(found, T, tied * np.abs(fit.theta).max(initial=0.0), "theta_tensor")
    alive = np.isfinite(log_q)
    below = np.empty(problem.shape, dtype=LONG)
    below[places] = _down_sums(found.astype(LONG))
    right = log_q - problem.log_r
    far = 1 + np.abs(np.where(alive, right, 0)) + np.abs(problem.log_r)
    close(below[tuple(problem.omega.T)][alive], right[alive], relative * far[alive], "sums of theta_tensor")


def _down_sums(grid: Array) -> Array:
    for axis in range(grid.ndim):
        grid = np.cumsum(grid, axis=axis)
    return grid


def _condition(fit: Any, grid: Array, possible: Array, event: dict[int, int], relative: float) -> None:
    import legendre as ld

    at = tuple(event.get(k, slice(None)) for k in range(grid.ndim))
    part, mass = grid[at], grid[at].sum()
    try:
        found = fit.condition(event)
    except ld.errors.ImpossibleEvent:
        need(float(mass) < 1e-300, f"condition({event}) is refused, but the event has probability {float(mass):.3g}")
        return
    need(bool(possible[at].any()), f"condition({event}) answers though the event has probability 0")
    if mass == 0:  # below the range of long double, where logarithms still tell what is more probable
        return
    close(found, part / mass, 2 * relative, f"condition({event})")
    if part.ndim:
        first = next(k for k in range(grid.ndim) if k not in event)
        right = part.sum(axis=tuple(range(1, part.ndim))) / mass
        close(fit.marginal([first], given=event), right, 2 * relative, f"marginal([{first}], given={event})")


def _rmse(fit: Any, problem: Problem, q: Array, relative: float) -> None:
    """Over every cell of X that is a number: outside the support Q is 0."""
    X = problem.grid.astype(LONG)
    number = ~np.isnan(X)
    off = (X - problem.on_grid(q) * problem.total)[number]
    right = np.sqrt((off**2).mean())
    scale = np.sqrt((X[number] ** 2).mean()) + np.sqrt(((q * problem.total) ** 2).mean())
    rough = 0.0
    if fit.data is not None and fit.data.entries is not None:  # the squares of Q where X has no entry are a difference
        square = 16 * EPS * float(scale) ** 2
        rough = min(square**0.5, square / float(right)) if right > 0 else square**0.5
    allowed = float(scale) * (relative + 64 * EPS) + 1e-12 * float(right) + tiny_square(scale) + rough
    close(fit.rmse, right, allowed, "rmse")


def tiny_square(scale: Any) -> float:
    """Errors whose squares are below the range of float64, for a total of 1."""
    return float(scale) * 1e-150
