"""Balancing: the tensor with given margins nearest to X; the problems of `benchmarks.balancing` and larger ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from . import margins
from .entrants import Cannot, Case, Discipline, Entrant, Fitted, Floats, errors
from .rows import OURS

RULES = """\
Margins must be right to 1e-10 of their largest entry, after at most 20,000 sweeps. POT and ott-jax get `-log X`,
computed beforehand, as cost with regularisation 1, each in the fastest of its methods that gets there. Only the package
says whether there is an answer, and which cells have to vanish.
"""
SIZES = (300, 1000, 3000)
EARLIER = (
    "1000x1000 lognormal, sigma 4",
    "200x200 in two blocks, links 1e-07",
    "100^3, all two-way margins",
    "100x100 triangular (no total support)",
    "raking 6x5x8x4: one two-way and two one-way margins",
)


def _lognormal(side: int) -> margins.Case:
    ones: margins.Margins = {(k,): np.ones(side) for k in (0, 1)}
    X = np.exp(2 * np.random.default_rng(side).normal(size=(side, side)))
    return margins.Case(f"{side}x{side} lognormal, sigma 2", X, ones)


@cache
def _earlier() -> dict[str, margins.Case]:
    return {case.name: case for case in margins.cases()}


def _ours(case: Case, given: margins.Case) -> Fitted:
    del case
    ld: Any = import_module("legendre")
    result = ld.balance(given.X, given.margins, tol=margins.TOL)
    return Fitted(result.tensor, result.n_params, result.n_iter, result.status.name)


def _matrices(given: margins.Case) -> None:
    if given.X.ndim > 2:
        raise Cannot("balances matrices alone")


@dataclass(frozen=True, eq=False)
class Transport:
    """The transport problem that is the same as balancing, made before the clock starts."""

    given: margins.Case
    cost: Floats
    rows: Floats
    columns: Floats
    compiled: dict[str, Any]  # what one call compiles and the next one uses


def _transport(case: Case, given: margins.Case) -> Transport:
    del case
    _matrices(given)
    with np.errstate(divide="ignore"):
        cost = -np.log(given.X)
    rows, columns = (given.margins[(k,)] / given.margins[(k,)].sum() for k in (0, 1))
    return Transport(given, cost, rows, columns, {})


def _pot(case: Case, problem: Transport, *, method: str, loose: bool) -> Fitted:
    """Run POT, which compares a 2-norm with its threshold: with a loose one it may stop earlier, and still be right."""
    del case
    threshold = margins.TOL * float(problem.columns.max()) * (len(problem.columns) ** 0.5 if loose else 1.0)
    answer, steps = margins.pot(problem.given, problem.cost, problem.rows, problem.columns, method, threshold)
    return Fitted(lambda: answer, None, steps)


def _ott(case: Case, problem: Transport, *, logarithms: bool) -> Fitted:
    del case
    if not problem.compiled:
        problem.compiled["solve"] = _compiled(logarithms, margins.TOL * float(problem.columns.max()))
    out = problem.compiled["solve"](problem.cost, problem.rows, problem.columns)
    answer = np.asarray(out.matrix) * problem.given.margins[(0,)].sum()
    return Fitted(lambda: answer, None, int(out.n_iters))


def _compiled(logarithms: bool, threshold: float) -> Any:
    jax: Any = import_module("jax")
    jax.config.update("jax_enable_x64", True)
    geometry: Any = import_module("ott.geometry.geometry")
    problems: Any = import_module("ott.problems.linear.linear_problem")
    solver: Any = import_module("ott.solvers.linear.sinkhorn").Sinkhorn(
        lse_mode=logarithms, threshold=threshold, max_iterations=margins.SWEEPS
    )
    return jax.jit(lambda cost, a, b: solver(problems.LinearProblem(geometry.Geometry(cost, epsilon=1.0), a, b)))


def _sinkhorn_knopp(case: Case, given: margins.Case) -> Fitted:
    del case
    _matrices(given)
    if not all(np.all(wanted == 1) for wanted in given.margins.values()):
        raise Cannot("knows no other margins than 1")
    module: Any = import_module("sinkhorn_knopp.sinkhorn_knopp")
    solver = module.SinkhornKnopp(max_iter=margins.SWEEPS, epsilon=margins.TOL)
    answer = np.asarray(solver.fit(given.X))
    return Fitted(lambda: answer, None, int(solver._iterations))


def _run_ipfn(case: Case, given: margins.Case) -> Fitted:
    del case
    answer, steps = margins.ipfn(given)
    return Fitted(lambda: answer, None, steps)


def _plain(case: Case, given: margins.Case) -> Fitted:
    del case
    answer, steps = margins.plain(given)
    return Fitted(lambda: answer, None, steps)


def _judge(case: Case, given: Any, fitted: Fitted) -> dict[str, float]:
    del case
    Q = fitted.answer()
    if not np.isfinite(Q).all():
        return {"residual": float("inf")}
    return {"residual": margins.error_of(Q, given.margins), "kl": errors(Q, given.X)["kl"]}


POT = {
    method + (", loose threshold" if loose else ""): partial(_pot, method=method, loose=loose)
    for method in ("sinkhorn", "sinkhorn_stabilized", "sinkhorn_log")
    for loose in (True, False)
}
OTT = {
    "plain sums": partial(_ott, logarithms=False),
    "sums of logarithms": partial(_ott, logarithms=True),
}
DISCIPLINE = Discipline(
    "balancing",
    "Balancing: given margins",
    RULES,
    (
        *(
            Case(f"{n}x{n} lognormal, sigma 2", n * n, partial(_lognormal, n), "lognormal, sigma 2", "lognormal")
            for n in SIZES
        ),
        *(Case(name, 0, lambda name=name: _earlier()[name]) for name in EARLIER),  # type: ignore[misc]
    ),
    (
        Entrant(OURS, "legendre", _ours, setting="balance", compiles=True),
        Entrant("POT", "ot", POT["sinkhorn"], _transport, "best of six", ways=POT, distributions=("POT",)),
        Entrant(
            "ott-jax", "ott", OTT["sums of logarithms"], _transport, "best of two", ways=OTT, warms=True,
            distributions=("ott-jax", "jax"),
        ),
        Entrant("sinkhorn_knopp", "sinkhorn_knopp", _sinkhorn_knopp, distributions=("sinkhorn_knopp",)),
        Entrant("ipfn", "ipfn", _run_ipfn, setting="numpy", distributions=("ipfn",)),
        Entrant("plain NumPy", "numpy", _plain, setting="proportional fitting in ten lines"),
    ),
    _judge,
    margins.TOL,
)  # fmt: skip
