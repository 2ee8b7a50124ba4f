"""What is said beyond a fit: the parametric bootstrap and the evidence, of models of counts."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import legendre as ld

from .. import draw
from ..draw import chance, pick
from ..fit_rules import check_fit, close, need
from ..oracle import Problem, covariance, independent, omega_mask
from ..rules import Trial
from . import Args, Target
from .fits import moderate

Array = Any


def draw_uncertain(rng: np.random.Generator) -> Args:
    dims = draw.shape(rng, 16, (1, 2, 2, 3, 3), 4)
    X = draw.values(rng, dims, pick(rng, "counts", "counts", "ties"))
    if not X.any():
        X.flat[0] = 3.0
    order = len(dims)
    sets = pick(rng, f"interactions({int(rng.integers(1, order + 1))})", "B1", "full()", "empty", "interactions(1)")
    if chance(rng, 0.3):
        sets = draw.basis_string(rng, dims)
    return {
        "X": X,
        "basis": sets,
        "support": rng.random(dims) < 0.85 if chance(rng, 0.15) else "all",
        "alpha": pick(rng, 1.0, 1.0, 0.5, 4.0),
        "n": pick(rng, 1, 2, 3),
        "rng": int(rng.integers(1 << 20)),
        "what": pick(rng, "evidence", "bootstrap"),
    }


def try_uncertain(args: Args, folder: Path) -> Trial:
    del folder
    X, what = args["X"], args["what"]

    def call() -> Any:
        tests = ld.decompose(X, args["basis"], support=args["support"]).inference()
        return tests, tests.evidence(args["alpha"]) if what == "evidence" else tests.bootstrap(args["n"], args["rng"])

    def check(found: Any) -> str:
        tests, answer = found
        problem = Problem.of(X, omega_mask(X, args["support"], None), tests.fit.basis)
        kind = check_fit(tests.fit, problem, np.random.default_rng(args["rng"]), steady=moderate(problem))
        if what == "evidence":
            close(answer, evidence(problem, args["alpha"]), 1e-6 * (1 + abs(answer)), "evidence")
        else:
            _bootstrap(answer, tests, problem, args["n"], args["rng"])
        return kind

    def bits(found: Any) -> Any:
        tests, answer = found
        return [tests.g2, answer] if what == "evidence" else [answer.g2, answer.x2, answer.theta, answer.g2_p_value]

    return Trial(call, check, (X, args["support"]), bits)


def evidence(problem: Problem, alpha: float) -> float:
    """Compute the log marginal likelihood: case by case where the model is a tree of margins, else by Laplace."""
    from scipy.special import gammaln

    counts = problem.x.astype(np.float64)
    prior = np.full(len(counts), alpha / len(counts))
    ways = float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())
    groups = tree_of(problem)
    if groups is not None and len(problem.omega) == int(np.prod(problem.shape)):
        return ways + _in_sequence(problem, groups, prior, counts)
    return ways + _laplace(problem, counts + prior) - _laplace(problem, prior)


def tree_of(problem: Problem) -> list[tuple[int, ...]] | None:
    """List the largest sets of modes of a basis that is all cells of some sets, if these form a tree; else ``None``.

    By definition: there is an order in which each set meets all before it within one of them.
    """
    shape = problem.shape
    cells = {tuple(map(int, u)) for u in problem.basis}
    used = {tuple(k for k, i in enumerate(u) if i) for u in cells}
    whole = {s for s in used if sum(tuple(k for k, i in enumerate(u) if i) == s for u in cells) == _size(s, shape)}
    if whole != used or any(part not in used for s in used for n in range(1, len(s)) for part in combinations(s, n)):
        return None
    largest = sorted(s for s in used if not any(set(s) < set(t) for t in used))
    return _ordered([], largest)


def _size(modes: tuple[int, ...], shape: tuple[int, ...]) -> int:
    return int(np.prod([shape[k] - 1 for k in modes]))


def _ordered(done: list[tuple[int, ...]], left: list[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    """Search all orders, with backtracking."""
    if not left:
        return done
    seen = {k for group in done for k in group}
    for i, group in enumerate(left):
        shared = set(group) & seen
        if not done or any(shared <= set(other) for other in done):
            found = _ordered([*done, group], left[:i] + left[i + 1 :])
            if found is not None:
                return found
    return None


def _in_sequence(problem: Problem, groups: list[tuple[int, ...]], prior: Array, counts: Array) -> float:
    """Multiply the probability of each case given those before it: a product of clique tables over separators."""
    parts: list[tuple[tuple[int, ...], int]] = []
    seen: set[int] = set()
    for i, group in enumerate(groups):
        parts.append((group, 1))
        if i:
            parts.append((tuple(sorted(set(group) & seen)), -1))
        seen |= set(group)
    free = float(np.prod([n for k, n in enumerate(problem.shape) if k not in seen]))
    now, total = prior.copy(), 0.0
    same = {
        group: (problem.omega[:, None, list(group)] == problem.omega[None][:, :, list(group)]).all(axis=2)
        for group, _ in parts
    }
    for cell in np.repeat(np.arange(len(counts)), counts.astype(int)):
        total -= np.log(free) + (np.log(now.sum()) if parts else 0.0)
        total += sum(sign * np.log(now[same[group][cell]].sum()) for group, sign in parts)
        now[cell] += 1.0
    return float(total)


def _laplace(problem: Problem, counts: Array) -> float:
    grid = np.zeros(problem.shape)
    grid[tuple(problem.omega.T)] = counts
    mask = np.zeros(problem.shape, dtype=bool)
    mask[tuple(problem.omega.T)] = True
    own = Problem.of(grid, mask, problem.basis)
    log_q = own.best.log_q
    columns = independent(own.Z)
    G = covariance(own, np.exp(log_q))[np.ix_(columns, columns)]
    volume = np.linalg.slogdet(float(own.total) * G)[1]
    return float((counts * log_q).sum() + 0.5 * len(columns) * np.log(2 * np.pi) - 0.5 * volume)


def _bootstrap(drawn: Any, tests: Any, problem: Problem, n: int, seed: int) -> None:
    """Draw the same tables, and find the minimum of each by brute force."""
    need(drawn.n + drawn.failed == n, f"{drawn.n} tables and {drawn.failed} that failed, {n} were asked for")
    least = tests.g2 * (1 - 1e-9) - 1e-9
    close(drawn.g2_p_value, (1 + (drawn.g2 >= least).sum()) / (1 + drawn.n), 1e-12, "g2_p_value")
    q = np.exp(tests.fit.log_prob(problem.omega))
    tables = np.random.default_rng(seed).multinomial(round(tests.fit.total), q / q.sum(), size=n)
    mask = np.zeros(problem.shape, dtype=bool)
    mask[tuple(problem.omega.T)] = True
    for i, table in enumerate(tables if not drawn.failed else ()):
        grid = np.zeros(problem.shape)
        grid[tuple(problem.omega.T)] = table
        own = Problem.of(grid, mask, problem.basis)
        right = 2 * float(own.total) * float(own.divergence(own.best.log_q))
        close(drawn.g2[i], max(right, 0.0), 1e-6 * (1 + right), f"G2 of table {i}")
    for low, high in drawn.coef().values():
        need(bool(low <= high) or np.isnan(low), f"an interval from {low} to {high}")


TARGETS = [Target("uncertain", draw_uncertain, try_uncertain, 0.04)]
