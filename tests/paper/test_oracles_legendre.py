"""Fits of explicit, non-hierarchical bases by R's `glm`, and the run that the paper's authors published."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from cases import BoolArray
from legendre.solvers.linesearch import search
from legendre.solvers.loop import State, Target, run
from legendre.solvers.newton import Workspace
from oracles import FloatArray

ORACLE: dict[str, Any] = json.loads((Path(__file__).parents[1] / "oracles" / "legendre_oracle.json").read_text())
CASES: list[dict[str, Any]] = ORACLE["cases"]
NAMED = [case for case in CASES if not case["basis"].startswith("random")]
RUN: dict[str, Any] = ORACLE["reference_run"]


def name(case: dict[str, Any]) -> str:
    return f"{case['tensor']}-{case['basis']}-{case['omega']}"


def tensor(case: dict[str, Any]) -> FloatArray:
    stored = ORACLE["tensors"][case["tensor"]]
    return np.array(stored["values"], dtype=np.float64).reshape(stored["shape"])


def omega(case: dict[str, Any]) -> BoolArray:
    X = tensor(case)
    mask = np.ones(X.shape, dtype=np.bool_) if case["omega"] == "full" else X > 0
    if case["omega"] == "support+origin":
        mask[0, 0, 0] = True
    return mask


def check(case: dict[str, Any], **settings: Any) -> None:
    fit = ld.decompose(tensor(case), case["B"], support=omega(case), **settings)
    assert fit.status is ld.results.Status.CONVERGED
    assert fit.model.support.n_cells == case["n_omega"]
    assert fit.total == pytest.approx(case["sum"], rel=1e-12)
    assert_allclose(fit.tensor().ravel(), case["fit"], rtol=1e-7, atol=0)
    assert fit.kl == pytest.approx(case["KL"], rel=0, abs=1e-9)
    assert fit.rmse == pytest.approx(case["rmse"], rel=0, abs=1e-9)
    if fit.rank == fit.n_params:
        assert_array_equal(fit.basis, case["B"])
        assert_allclose(fit.theta, case["theta"], atol=1e-6)
        assert -fit.psi == pytest.approx(case["theta_origin"], abs=1e-6)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_fit_of_an_explicit_basis(case: dict[str, Any]) -> None:
    check(case)


@pytest.mark.parametrize("case", NAMED, ids=name)
def test_the_named_builder_selects_the_same_cells(case: dict[str, Any]) -> None:
    fit = ld.decompose(tensor(case), case["basis"], support=omega(case))
    assert sorted(fit.basis.tolist()) == sorted(case["B"])


def published() -> ld.Decomposition:
    return ld.decompose(RUN["tensor"], RUN["B"], tol=1e-8)


def test_the_authors_run_has_19_parameters() -> None:
    assert published().n_params == RUN["published"]["n_params"] == 19


@pytest.mark.parametrize(("step", "printed"), [(1, "0.00419722"), (2, "2.08951e-05")])
def test_the_authors_residuals_at_the_printed_digits(step: int, printed: str) -> None:
    """Their program prints the 2-norm after each full step, six digits as C++ does by default."""
    record = published().history[step]
    assert record.step == 1.0
    assert f"{record.residual_norm:.6g}" == printed


def test_the_authors_last_residual_to_rounding() -> None:
    """They print 5.15477e-10; 80-bit arithmetic gives 5.154784e-10: beyond 5e-15 both programs show rounding."""
    record = published().history[3]
    assert record.step == 1.0
    assert record.residual_norm == pytest.approx(5.15477e-10, rel=0, abs=5e-15)


def test_the_authors_answer() -> None:
    fit = published()
    assert f"{fit.rmse:.6g}" == "0.222512"
    assert fit.rmse == pytest.approx(RUN["computed"]["rmse"], abs=1e-9)
    assert fit.kl == pytest.approx(RUN["computed"]["KL"], abs=1e-9)
    assert_allclose(fit.tensor().ravel(), RUN["computed"]["fit"], rtol=1e-7)


class PlainNewton(ld.solvers.Natural):
    """Newton steps alone, each with a factor of its own."""

    def advance(self, target: Target, state: State) -> State | None:
        work = state.memory or Workspace()
        return search(target, state.point, work.solve(target, state.point), work)


def test_the_authors_run_is_the_run_without_chord_steps() -> None:
    """The default call may end with a step that is cheaper than the paper's; here it takes none."""
    decided = ld.plan(RUN["tensor"], RUN["B"], tol=1e-8)
    plain = run(PlainNewton(), decided.target, np.zeros(decided.target.engine.n_params), 500)
    assert published().history == plain.history
    assert len(plain.history) == 4
