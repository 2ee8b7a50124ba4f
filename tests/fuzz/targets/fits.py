"""Decompositions: fixed bases, growing ones, questions to them, and inference from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..fit_rules import check_fit, close, need
from ..oracle import EPS, LONG, Problem, basis_cells, covariance, omega_mask
from ..rules import Trial, Wrong
from . import Args, Target

Array = Any


def fit_bits(fit: Any) -> Any:
    """List what has to be the same, bit for bit, when a call is repeated."""
    return [fit.basis, fit.theta, fit.eta, fit.psi, fit.kl, fit.rmse, fit.status.name, fit.n_iter, fit.vanishing_cells]


def problem_of(args: Args) -> Problem | None:
    """State the problem for brute force; ``None`` where no cell of the sample space is positive."""
    X, base = args["X"], args["base"]
    mask = omega_mask(X, args["support"], base)
    if not X[mask].any():
        return None
    cells = the_cells(args["basis"], X, mask)
    return Problem.of(X, mask, np.array(sorted(cells), dtype=np.int64).reshape(len(cells), X.ndim), base)


def the_cells(basis: Any, X: Array, mask: Array) -> set[tuple[int, ...]]:
    """List the cells of a basis by its definition."""
    return basis_cells(basis, X, mask) if isinstance(basis, str) else {tuple(map(int, v)) for v in np.asarray(basis)}


def moderate(problem: Problem | None) -> bool:
    """Whether X and the base measure are in a range where float64 has room for every answer."""
    if problem is None:
        return False
    x, r = problem.x[problem.x > 0], np.exp(problem.log_r)
    span, size = float(x.max() / x.min()), float(x.max())
    return span < 1e8 and 1e-100 < size < 1e100 and float(r.max() / r.min()) < 1e4 and 1e-50 < float(r.max()) < 1e50


def ordinary(args: Args, problem: Problem | None) -> bool:
    """Whether the call has to converge: a moderate X, Newton's steps, a tolerance within reach, and enough steps."""
    start = args.get("start")
    return (
        problem is not None
        and moderate(problem)
        and args.get("solver", "auto") in ("auto", "natural")
        and args.get("max_iter") is None
        and args.get("tol", 1e-10) >= 1e-12
        and (start is None or float(np.abs(start).max(initial=0.0)) <= 5.0)
    )


# --- decompose -------------------------------------------------------------------------------------------------------


def draw_decompose(rng: np.random.Generator) -> Args:
    X = draw.tensor(rng)
    args: Args = {
        "X": X,
        "basis": draw.basis(rng, X.shape),
        "support": draw.support(rng, X),
        "base": draw.base(rng, X),
        **draw.settings(rng),
        "start": None,
        "seed": int(rng.integers(1 << 30)),
    }
    if chance(rng, 0.1) and not isinstance(args["basis"], str):
        k = len(np.unique(args["basis"], axis=0))
        args["start"] = rng.normal(size=k) * pick(rng, 1.0, 1.0, 5.0, 50.0, 1000.0)
    return args


def fitted(args: Args, **more: Any) -> Any:
    names = ("support", "base", "solver", "tol", "max_iter", "start")
    given = {name: args[name] for name in names if name in args}
    return ld.decompose(args["X"], args["basis"], **given, **more)


def try_decompose(args: Args, folder: Path) -> Trial:
    del folder
    problem = problem_of(args)
    steady = ordinary(args, problem)

    def check(fit: Any) -> str:
        if problem is None:
            raise Wrong("brute force finds no problem in these arguments, but there is an answer")
        found = {tuple(map(int, v)) for v in fit.basis}
        need(found == {tuple(map(int, v)) for v in problem.basis}, "the basis has other cells than its definition")
        need(len(found) == len(fit.basis), "the basis repeats cells")
        own = Problem.of(args["X"], omega_mask(args["X"], args["support"], args["base"]), fit.basis, args["base"])
        return check_fit(fit, own, np.random.default_rng(args["seed"]), steady=steady)

    held = tuple(args[name] for name in ("X", "basis", "support", "base", "start"))
    return Trial(lambda: fitted(args), check, held, fit_bits, benign=steady)


# --- adaptive --------------------------------------------------------------------------------------------------------


def draw_adaptive(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 30, (1, 2, 2, 3, 3, 4))
    X = draw.tensor(rng, dims)
    size: Any = pick(rng, *range(1, 7), 12, 40, "aic", "bic", "cv")
    extra = {"swaps": int(rng.integers(0, 3))} if chance(rng, 0.4) else {}
    if chance(rng, 0.3):
        extra["include"] = pick(rng, "B1", "interactions(1)", draw.basis_list(rng, dims, 3))
    if chance(rng, 0.3):
        extra["candidates"] = pick(rng, "full()", "interactions(2)", "B3(2)", draw.basis_list(rng, dims, 9))
    support, base = draw.support(rng, X), draw.base(rng, X)
    return {
        "X": X,
        "size": size,
        "extra": extra,
        "support": support,
        "base": base,
        "tol": 1e-10,
        "seed": int(rng.integers(1 << 30)),
    }


def try_adaptive(args: Args, folder: Path) -> Trial:
    del folder
    X, extra = args["X"], args["extra"]

    def call() -> Any:
        return ld.decompose(
            X, ld.adaptive(args["size"], **extra), support=args["support"], base=args["base"], tol=args["tol"]
        )

    def check(fit: Any) -> str:
        mask = omega_mask(X, args["support"], args["base"])
        problem = Problem.of(X, mask, fit.basis, args["base"])
        rng = np.random.default_rng(args["seed"])
        kind = check_fit(fit, problem, rng, steady=moderate(problem))
        found = {tuple(map(int, v)) for v in fit.basis}
        need(len(found) == fit.n_params, "cells are repeated")
        first = the_cells(extra.get("include", "empty"), X, mask)
        need(first <= found, "included cells are missing")
        if "candidates" in extra:
            need(found <= first | the_cells(extra["candidates"], X, mask), "cells that are no candidates")
        else:
            need(found - first <= {tuple(map(int, v)) for v in problem.omega}, "cells outside the support")
        if isinstance(args["size"], int):
            need(fit.n_params <= max(args["size"], len(first)), f"{fit.n_params} cells, {args['size']} were asked for")
        close(fit.path[-1].kl, fit.kl, 1e-9 * (1 + fit.kl), "path[-1].kl")
        if fit.n_params:
            part = fit.at(int(rng.integers(0, fit.n_params)))
            own = Problem.of(X, mask, part.basis, args["base"])
            need(np.array_equal(part.basis, fit.basis[fit.order()[: part.n_params]]), "at(k) has other cells")
            check_fit(part, own, rng, steady=moderate(own))
        return kind

    return Trial(call, check, (X, args["support"], args["base"], extra), fit_bits, twice=args["seed"] % 4 == 0)


# --- inference -------------------------------------------------------------------------------------------------------


def draw_inference(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 30, (1, 2, 2, 3, 3, 4))
    X: Any = rng.poisson(rng.uniform(0.5, 20.0), dims)
    if chance(rng, 0.05):
        X = X * pick(rng, 10**6, 10**12, 0)
    if chance(rng, 0.4):
        X = X.astype(np.float64)
    return {
        "X": X,
        "basis": draw.basis(rng, dims),
        "support": draw.support(rng, X),
        "level": pick(rng, 0.95, 0.5, 0.999, 0.9),
        "kind": pick(rng, "pearson", "deviance", "adjusted"),
        "seed": int(rng.integers(1 << 30)),
    }


def try_inference(args: Args, folder: Path) -> Trial:
    del folder

    def call() -> Any:
        fit = ld.decompose(args["X"], args["basis"], support=args["support"])
        tests = fit.inference()
        return fit, tests, tests.intervals(args["level"]), tests.residuals(args["kind"])

    def check(found: Any) -> str:
        fit, tests, intervals, residuals = found
        problem = Problem.of(args["X"], omega_mask(args["X"], args["support"], None), fit.basis)
        kind = check_fit(fit, problem, np.random.default_rng(args["seed"]))
        check_inference(tests, problem, intervals, args["level"], residuals, args["kind"])
        return kind

    def bits(found: Any) -> Any:
        _, tests, intervals, residuals = found
        return [tests.g2, tests.x2, tests.df, tests.aic, tests.bic, tests.log_likelihood, intervals, residuals]

    return Trial(call, check, (args["X"], args["support"]), bits)


def check_inference(tests: Any, problem: Problem, intervals: Array, level: float, residuals: Array, kind: str) -> None:
    """Compare with the textbook's formulae over the list of cells."""
    from scipy import stats
    from scipy.special import gammaln

    fit, alive = tests.fit, problem.alive
    log_q, _ = problem.log_q(fit.theta, alive)
    n, mu = problem.x[alive], (np.exp(log_q) * problem.total)[alive]
    N, relative = problem.total, problem.rounding(fit.theta) + 64 * EPS * len(n)
    log_mu = log_q[alive] + np.log(N)
    seen = n > 0
    g2 = 2 * (n[seen] * (np.log(n[seen]) - log_mu[seen])).sum()
    # errors of terms n log(n / mu) - n + mu: relative ones of mu, and what the residual leaves between the sums
    size = float((np.abs(n[seen] * np.log(n[seen])) + np.abs(n[seen] * log_mu[seen])).sum() + N)
    loose = 8 * relative * size + 4 * float(N) * fit.residual * (1 + len(fit.theta))
    close(tests.g2, max(float(g2), 0.0), loose, "g2")
    x2 = ((n - mu) ** 2 / mu).sum()
    close(tests.x2, x2, float((4 * relative * (np.abs(n - mu) * (n + mu) + n * n) / mu).sum()) + loose, "x2")
    df = int(alive.sum()) - 1 - problem.rank
    need(tests.df == df, f"df is {tests.df}, brute force {df}")
    if df > 0:
        close(tests.g2_p_value, stats.chi2.sf(tests.g2, df), 1e-9, "g2_p_value")
        close(tests.x2_p_value, stats.chi2.sf(tests.x2, df), 1e-9, "x2_p_value")
    ways = gammaln(float(N) + 1) - gammaln(n.astype(float) + 1).sum()
    cross = float((n[seen] * log_mu[seen]).sum())
    rough = loose + 64 * EPS * (abs(ways) + float(gammaln(float(N) + 1)) + abs(cross))
    close(tests.log_likelihood, ways + cross - float(N * np.log(N)), rough, "log_likelihood")
    poisson = cross - float(mu.sum()) - float(gammaln(n.astype(float) + 1).sum())
    close(tests.aic, 2 * (tests.rank + 1) - 2 * poisson, 2 * rough, "aic")
    close(tests.bic, float(np.log(N)) * (tests.rank + 1) - 2 * poisson, 2 * rough, "bic")
    z = stats.norm.ppf((1 + level) / 2)
    se = tests.standard_errors
    close(
        intervals,
        np.stack([fit.theta - z * se, fit.theta + z * se], axis=1),
        1e-12 * (1 + np.nan_to_num(np.abs(fit.theta) + 9 * se))[:, None] if len(se) else 0.0,
        "intervals",
    )
    if problem.rank == len(fit.theta) and alive.all() and len(se):
        G = covariance(problem, np.exp(log_q))
        if np.linalg.cond(G) < 1e8:
            V = np.linalg.inv(G) / float(N)
            close(tests.covariance(), V, 1e3 * relative * np.linalg.cond(G) * np.abs(V).max(), "covariance")
    if kind == "pearson":
        r = (n - mu) / np.sqrt(mu)
        right = np.full(problem.shape, np.nan, dtype=LONG)
        whole = np.zeros(len(alive), dtype=LONG)
        whole[alive] = r
        right[tuple(problem.omega.T)] = whole
        slack = np.zeros(problem.shape, dtype=LONG)
        every = np.zeros(len(alive), dtype=LONG)
        every[alive] = 4 * relative * (n + mu) / np.sqrt(mu)
        slack[tuple(problem.omega.T)] = every
        close(residuals, right, slack, "residuals")
    if kind == "deviance":
        close(np.nansum(residuals**2), tests.g2, 1e-9 * (1 + tests.g2) + loose, "deviance residuals")


TARGETS = [
    Target("decompose", draw_decompose, try_decompose, 0.40),
    Target("adaptive", draw_adaptive, try_adaptive, 0.05),
    Target("inference", draw_inference, try_inference, 0.08),
]
