"""The acceptance table: every solver, on every case that it takes, finds the Q of SciPy, and proves it.

A new solver is one more row of TABLE. It is done when this file passes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from cases import NAMED, Case
from legendre.solvers.choose import SOLVERS
from oracles import FloatArray, divergence

pytestmark = pytest.mark.usefixtures("one_thread")
TOL = 1e-10
ALL = frozenset(NAMED)


class Found(NamedTuple):
    """What a solver found, listed in the order of the case's cells."""

    q: FloatArray
    residual: float
    gap: float
    solver: str


class Row(NamedTuple):
    """Which cases a solver takes, and its sentence about the others; and how it is called."""

    takes: frozenset[str] = ALL
    sentence: str = ""
    call: Callable[[Case, str, int | None], Found] | None = None


def decomposed(case: Case, solver: str, max_iter: int | None) -> Found:
    fit = case.fit(solver=solver, tol=TOL, max_iter=max_iter)
    assert max_iter is not None or fit.converged
    return Found(case.q(fit), fit.residual, fit.gap, fit.solver)


def balanced(case: Case, solver: str, max_iter: int | None) -> Found:
    """Q is the base measure balanced to the margins of P; other cases have no matrix to balance."""
    if case is not NAMED["rows_and_columns"] or case.base is None:
        return decomposed(case, solver, max_iter)
    P = np.where(case.mask, case.X, 0.0)
    found = ld.balance(
        np.where(case.mask, case.base, 0.0), {0: P.sum(axis=1), 1: P.sum(axis=0)}, solver=solver, tol=TOL,
        max_iter=max_iter,
    )  # fmt: skip
    assert max_iter is not None or found.converged
    return Found(case.on_omega(found.tensor()) / case.total, found.residual, found.gap, found.solver)


MARGINS = frozenset({"one_body", "all_pairs", "chain", "rows_and_columns", "zeros"})
TABLE: dict[str, Row] = {
    "auto": Row(),
    "natural": Row(),
    "natural-cg": Row(),
    "gradient": Row(),
    "closed": Row(
        frozenset({"vector", "one_body", "zeros"}),
        "the closed form is for one-body bases such as B1 on a full grid without zeros in its margins. Use "
        "solver='auto'.",
    ),
    "scaling": Row(
        MARGINS | {"vector", "dependent", "full_basis", "order_5", "order_12"},
        "scaling fits whole margins, and this basis is not a set of margins (or some of its parameters are dependent "
        "on the support). Use solver='natural', or interactions(...) on a full grid.",
    ),
    "matrix-scaling": Row(
        frozenset({"rows_and_columns"}),
        "solver='matrix-scaling' balances matrices to margins of rows and columns. Use solver='auto'.",
        balanced,
    ),
}


TAKEN = [(solver, name) for solver, row in TABLE.items() for name in sorted(row.takes)]


@cache
def best(name: str) -> tuple[FloatArray, float]:
    """Return Q by SciPy, and KL(P, Q)."""
    q = NAMED[name].answer()
    return q, divergence(NAMED[name].p, q)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("solver", TABLE)
def test_the_table(solver: str, name: str) -> None:
    case, row = NAMED[name], TABLE[solver]
    call = row.call or decomposed
    if name not in row.takes:
        with pytest.raises(ld.errors.InvalidSetting, match=f"^{re.escape(row.sentence)}$"):
            call(case, solver, None)
        return
    found, (q, kl) = call(case, solver, None), best(name)
    assert found.solver == solver or solver == "auto"
    assert_allclose(found.q, q, atol=1e-8)
    assert 0 <= found.residual <= TOL
    assert_allclose(case.Z.T @ found.q, case.eta_hat, atol=2 * TOL)
    assert divergence(case.p, found.q) - kl <= found.gap + 1e-14
    assert 0 <= found.gap <= 1e-15


@pytest.mark.parametrize(("solver", "name"), TAKEN)
@pytest.mark.filterwarnings("ignore::legendre.ConvergenceWarning")
def test_the_gap_is_an_upper_bound_on_the_way(solver: str, name: str) -> None:
    for steps in (0, 1, 2):
        found = (TABLE[solver].call or decomposed)(NAMED[name], solver, steps)
        assert divergence(NAMED[name].p, found.q) - best(name)[1] <= found.gap + 1e-14, steps


def test_every_solver_is_in_the_table() -> None:
    assert set(TABLE) == {"auto", *SOLVERS}
