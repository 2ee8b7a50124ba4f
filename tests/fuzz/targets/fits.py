"""Decompositions: fixed bases, growing ones, questions to them, and inference from them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..features import FeatureProblem, features_of
from ..fit_rules import cell_set, check_fit, close, need, same_cells
from ..oracle import EPS, LONG, Problem, basis_cells, covariance, omega_mask
from ..rules import Trial
from . import Args, Target

Array = Any


def fit_bits(fit: Any) -> Any:
    """List what has to be the same, bit for bit, when a call is repeated."""
    return [fit.basis, fit.theta, fit.eta, fit.psi, fit.kl, fit.rmse, fit.status.name, fit.n_iter, fit.vanishing_cells]


def problem_for(fit: Any, X: Array, mask: Array, base: Array | None = None) -> Problem:
    """State the problem with the cells or the features that the fit has."""
    if fit.ties is None and fit.labels.order is None:
        return Problem.of(X, mask, fit.basis, base)
    found: Problem = FeatureProblem.of_features(X, mask, *features_of(fit), base)
    return found


def judge_fit(fit: Any, args: Args, steady: bool | None = None, problem: Problem | None = None) -> tuple[str, Problem]:
    """Judge a fit of X on its sample space; it has to converge if `steady`, by default where X is moderate."""
    if problem is None:
        base = args.get("base")
        problem = problem_for(fit, args["X"], omega_mask(args["X"], args["support"], base), base)
    steady = moderate(problem) if steady is None else steady
    return check_fit(fit, problem, np.random.default_rng(args["seed"]), steady=steady), problem


def the_cells(basis: Any, X: Array, mask: Array) -> set[tuple[int, ...]]:
    """List the cells of a basis by its definition."""
    return basis_cells(basis, X, mask) if isinstance(basis, str) else cell_set(np.asarray(basis))


def moderate(problem: Problem) -> bool:
    """Whether X and the base measure are in a range where float64 has room for every answer."""
    x, r = problem.x[problem.x > 0], np.exp(problem.log_r)
    span, size = float(x.max() / x.min()), float(x.max())
    return span < 1e8 and 1e-100 < size < 1e100 and float(r.max() / r.min()) < 1e4 and 1e-50 < float(r.max()) < 1e50


def ordinary(args: Args, problem: Problem) -> bool:
    """Whether the call has to converge: a moderate X, Newton's steps, a tolerance within reach, and enough steps."""
    start = args.get("start")
    return (
        moderate(problem)
        and args.get("solver", "auto") in ("auto", "natural")
        and args.get("max_iter") is None
        and args.get("tol", 1e-10) >= 1e-12
        and (start is None or float(np.abs(start).max(initial=0.0)) <= 5.0)
    )


# --- decompose -------------------------------------------------------------------------------------------------------


def draw_decompose(rng: np.random.Generator) -> Args:
    X = draw.tensor(rng)
    question = {**draw.question(rng, X), **draw.settings(rng)}
    args: Args = {**question, "basis": draw.basis(rng, X.shape), "start": None}
    if chance(rng, 0.1) and not isinstance(args["basis"], str):
        k = len(np.unique(args["basis"], axis=0))
        args["start"] = rng.normal(size=k) * pick(rng, 1.0, 1.0, 5.0, 50.0, 1000.0)
    return args


def try_decompose(args: Args, folder: Path) -> Trial:
    X, mask = args["X"], omega_mask(args["X"], args["support"], args["base"])
    cells = the_cells(args["basis"], X, mask) if X[mask].any() else set()
    problem = Problem.of(X, mask, np.array(sorted(cells), dtype=np.int64), args["base"])
    steady = bool(X[mask].any()) and ordinary(args, problem)

    def call() -> Any:
        return ld.decompose(X, **{name: value for name, value in args.items() if name not in ("X", "seed")})

    def check(fit: Any) -> str:
        same_cells(fit.basis, cells)
        kind, own = judge_fit(fit, args, steady)
        if args["seed"] % 8 == 0:
            stored_alike(fit, folder, own)
        return kind

    held = tuple(args[name] for name in ("X", "basis", "support", "base", "start"))
    return Trial(call, check, held, fit_bits, benign=steady)


def stored_alike(fit: Any, folder: Path, problem: Problem | None = None) -> None:
    """Save and load, and pickle: the same bits, and the same answers."""
    fit.save(folder / "fit.npz")
    for back in (ld.load(folder / "fit.npz"), pickle.loads(pickle.dumps(fit))):
        for name in ("theta", "eta", "psi", "basis", "vanishing_cells", "rank", "residual", "kl", "rmse", "status"):
            need(np.array_equal(getattr(back, name), getattr(fit, name)), f"{name} of the stored fit is another")
        need(np.array_equal(back.tensor(), fit.tensor(), equal_nan=True), "the tensor of the stored fit is another")
        if problem is not None:
            check_fit(back, problem, np.random.default_rng(0))


# --- adaptive --------------------------------------------------------------------------------------------------------


def draw_adaptive(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 30, (1, 2, 2, 3, 3, 4))
    size: Any = pick(rng, *range(1, 7), 12, 40, "aic", "bic", "cv")
    extra = {"swaps": int(rng.integers(0, 3))} if chance(rng, 0.4) else {}
    if chance(rng, 0.3):
        extra["include"] = pick(rng, "B1", "interactions(1)", draw.basis_list(rng, dims, 3))
    if chance(rng, 0.3):
        extra["candidates"] = pick(rng, "full()", "interactions(2)", "B3(2)", draw.basis_list(rng, dims, 9))
    return {**draw.question(rng, draw.tensor(rng, dims)), "size": size, "extra": extra}


def try_adaptive(args: Args, folder: Path) -> Trial:
    del folder
    X, extra = args["X"], args["extra"]

    def call() -> Any:
        return ld.decompose(X, ld.adaptive(args["size"], **extra), support=args["support"], base=args["base"])

    def check(fit: Any) -> str:
        mask = omega_mask(X, args["support"], args["base"])
        kind, problem = judge_fit(fit, args)
        found = cell_set(fit.basis)
        need(len(found) == fit.n_params, "cells are repeated")
        first = the_cells(extra.get("include", "empty"), X, mask)
        need(first <= found, "included cells are missing")
        if "candidates" in extra:
            need(found <= first | the_cells(extra["candidates"], X, mask), "cells that are no candidates")
        else:
            need(found - first <= cell_set(problem.omega), "cells outside the support")
        if isinstance(args["size"], int):
            need(fit.n_params <= max(args["size"], len(first)), f"{fit.n_params} cells, {args['size']} were asked for")
        close(fit.path[-1].kl, fit.kl, 1e-9 * (1 + fit.kl), "path[-1].kl")
        if fit.n_params:
            part = fit.at(args["seed"] % fit.n_params)
            need(np.array_equal(part.basis, fit.basis[fit.order()[: part.n_params]]), "at(k) has other cells")
            judge_fit(part, args)
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
        kind, problem = judge_fit(fit, args, steady=False)
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
        right, slack = (np.zeros(len(alive), dtype=LONG) for _ in range(2))
        right[alive], slack[alive] = (n - mu) / np.sqrt(mu), 4 * relative * (n + mu) / np.sqrt(mu)
        close(residuals, problem.on_grid(right, np.nan), problem.on_grid(slack), "residuals")
    if kind == "deviance":
        close(np.nansum(residuals**2), tests.g2, 1e-9 * (1 + tests.g2) + loose, "deviance residuals")


TARGETS = [
    Target("decompose", draw_decompose, try_decompose, 0.40),
    Target("adaptive", draw_adaptive, try_adaptive, 0.05),
    Target("inference", draw_inference, try_inference, 0.08),
]
