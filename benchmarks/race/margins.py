"""Problems of balancing, always the same: X and margins; and how POT, ipfn and plain NumPy are run on them.

POT is given ``-log X`` as cost with regularisation 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from .entrants import Floats

Margins = dict[tuple[int, ...], Floats]
TOL = 1e-10
SWEEPS = 20_000


@dataclass(frozen=True, eq=False)
class Case:
    """A tensor, and the margins that it shall have."""

    name: str
    X: Floats
    margins: Margins


def cases() -> Iterator[Case]:
    """Draw the problems, always the same."""
    rng = np.random.default_rng(2017)
    n = 1000
    ones: Margins = {(0,): np.ones(n), (1,): np.ones(n)}
    noise = rng.normal(size=(n, n))
    for sigma in (1.0, 2.0, 4.0, 6.0):
        yield Case(f"1000x1000 lognormal, sigma {sigma:g}", np.exp(sigma * noise), ones)
    yield _nearly_decomposable(rng, 200, 1e-7)
    cube = rng.random((100, 100, 100)) + 0.1
    pairs: Margins = {modes: np.ones((100, 100)) for modes in ((0, 1), (0, 2), (1, 2))}
    yield Case("100^3, all two-way margins", cube, pairs)
    triangle = np.triu(rng.random((100, 100)) + 0.1)
    small: Margins = {(0,): np.ones(100), (1,): np.ones(100)}
    yield Case("100x100 triangular (no total support)", triangle, small)
    yield _raking(rng)


def _nearly_decomposable(rng: np.random.Generator, n: int, link: float) -> Case:
    X = link * rng.random((n, n))
    half = n // 2
    X[:half, :half], X[half:, half:] = rng.random((2, half, half)) + 0.1
    rows = np.ones(n)
    rows[:half] += 1e-3
    margins: Margins = {(0,): rows, (1,): np.full(n, rows.sum() / n)}
    return Case(f"{n}x{n} in two blocks, links {link:g}", X, margins)


def _raking(rng: np.random.Generator) -> Case:
    """Draw a survey of 20,000 in 6 x 5 x 8 x 4 groups, raked to a population that differs from it."""
    groups = rng.gamma(2.0, size=(6, 5, 8, 4))
    survey = rng.multinomial(20_000, groups.ravel() / groups.sum()).reshape(groups.shape).astype(float) + 1.0
    population = groups * np.exp(0.5 * rng.normal(size=groups.shape))
    population *= 8e6 / population.sum()
    margins: Margins = {
        (0, 1): population.sum(axis=(2, 3)),
        (2,): population.sum(axis=(0, 1, 3)),
        (3,): population.sum(axis=(0, 1, 2)),
    }
    return Case("raking 6x5x8x4: one two-way and two one-way margins", survey, margins)


Answer = tuple[Floats, int | None]


def pot(case: Case, cost: Floats, rows: Floats, columns: Floats, method: str, threshold: float) -> Answer:
    """Run POT with one of its methods; return its answer and the number of sweeps."""
    ot: Any = import_module("ot")
    sweeps = SWEEPS if method != "sinkhorn_log" else SWEEPS // 100  # each costs a hundred times as much
    answer, log = ot.sinkhorn(
        rows, columns, cost, 1.0, method=method, stopThr=threshold, numItermax=sweeps, log=True, warn=False
    )
    return answer * case.margins[(0,)].sum(), log.get("niter", log.get("n_iter"))


def ipfn(case: Case) -> Answer:
    """Run ipfn."""
    solver: Any = import_module("ipfn.ipfn").ipfn
    limit = 30 if case.X.size > 100_000 else 2_000
    margins = [m.copy() for m in case.margins.values()]
    worker = solver(
        case.X.copy(),
        margins,
        [list(s) for s in case.margins],
        convergence_rate=TOL,
        max_iteration=limit,
        rate_tolerance=0.0,
        verbose=2,
    )
    answer, _, rates = worker.iteration()
    return answer, len(rates)


def plain(case: Case) -> Answer:
    """Run iterative proportional fitting in plain NumPy."""
    q = case.X.copy()
    sweep = 0
    while sweep < SWEEPS and error_of(q, case.margins) > TOL:
        sweep += 1
        for modes, wanted in case.margins.items():
            others = tuple(k for k in range(q.ndim) if k not in modes)
            q *= np.expand_dims(wanted / q.sum(axis=others), others)
    return q, sweep


def error_of(tensor: Floats, margins: Margins) -> float:
    """Return the largest error of a margin as a share of its largest entry."""
    sums = {s: tensor.sum(axis=tuple(k for k in range(tensor.ndim) if k not in s)) for s in margins}
    return max(float(np.abs(sums[s] - wanted).max() / wanted.max()) for s, wanted in margins.items())
