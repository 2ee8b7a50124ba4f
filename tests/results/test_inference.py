"""Inference for counts against R's loglin and glm, and against dense matrices written from the definitions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import legendre as ld
from cases import BoolArray, Case
from oracles import FloatArray, cells_that_vanish, coded_design
from strategies import problems

FOLDER = Path(__file__).parents[1] / "oracles"
LOGLIN: dict[str, Any] = json.loads((FOLDER / "contingency_oracle.json").read_text())["tables"]
GLM: dict[str, Any] = json.loads((FOLDER / "glm_oracle.json").read_text())["tables"]
TABLES = dict(np.load(FOLDER / "contingency.npz", allow_pickle=False))
NAN = float("nan")
DRUGS = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])


@cache
def fits(table: str) -> list[tuple[ld.results.Inference, dict[str, Any], dict[str, Any]]]:
    """Fit every model of a table; give R's two answers along with ours."""
    X, found = TABLES[table], []
    for loglin, glm in zip(LOGLIN[table]["models"], GLM[table], strict=True):
        support = {"full": "all", "support": "nonzero"}.get(loglin["omega"], ~np.eye(len(X), dtype=np.bool_))
        fit = ld.decompose(X, ld.interactions(loglin["margins"]), support=support)
        found.append((fit.inference(), loglin, glm))
    return found


def floats(values: list[float | None]) -> FloatArray:
    return np.array([NAN if value is None else value for value in values], dtype=np.float64)


@pytest.mark.parametrize("table", sorted(LOGLIN))
def test_tests_of_fit_are_those_of_r(table: str) -> None:
    for tests, loglin, glm in fits(table):
        told = f"{table}: margins {loglin['margins']} on omega {loglin['omega']}"
        positive = np.count_nonzero(loglin["fit"])
        assert tests.g2 == pytest.approx(loglin["G2"], rel=1e-6, abs=1e-6), told
        assert tests.x2 == pytest.approx(loglin["X2"], rel=1e-6, abs=1e-6), told
        assert tests.df == positive - loglin["rank"], told
        if loglin["omega"] == "full" and loglin["mle_exists"]:
            assert tests.df == loglin["df_loglin"], told
        whole = np.linalg.matrix_rank(features(tests.fit)) - 1
        assert tests.rank == whole, told
        aic = glm["aic"] + 2 * (whole + 1 - glm["rank"])  # glm was given the cells that do not vanish
        assert tests.aic == pytest.approx(aic, rel=1e-8), told
        assert tests.bic == pytest.approx(aic + (whole + 1) * (np.log(loglin["N"]) - 2), rel=1e-8), told
        if tests.df:
            for statistic, p in ((tests.g2, tests.g2_p_value), (tests.x2, tests.x2_p_value)):
                assert p == pytest.approx(float(stats.chi2.sf(statistic, tests.df)), rel=1e-9), told
        else:
            assert np.isnan([tests.g2_p_value, tests.x2_p_value]).all(), told


def features(fit: ld.Decomposition) -> FloatArray:
    """Write out the constant and the features of a basis on the support."""
    cells = fit.model.support.cells()
    below = (fit.basis[None] <= cells[:, None]).all(axis=2)
    return np.hstack([np.ones((len(cells), 1)), below])


@pytest.mark.parametrize("coding", ["treatment", "sum", "local"])
@pytest.mark.parametrize("table", sorted(LOGLIN))
def test_coef_is_that_of_r_wherever_the_estimate_exists(table: str, coding: Any) -> None:
    """R's fitted counts determine the coefficients of every coding, and their standard errors."""
    compared = 0
    for tests, loglin, _ in fits(table):
        if not loglin["mle_exists"] or tests.fit.rank < tests.fit.n_params:
            continue  # glm leaves out what depends on other columns, by an order of its own
        told = f"{table}: margins {loglin['margins']} on omega {loglin['omega']}"
        inside, mu = tests.fit.model.support.on_grid().ravel(), np.array(loglin["fit"], dtype=np.float64)
        Z = coded_design(TABLES[table].shape, coding, loglin["margins"])[inside]
        beta, *_ = np.linalg.lstsq(Z, np.log(mu[inside]), rcond=None)
        errors = np.sqrt(np.diagonal(np.linalg.inv(Z.T @ (mu[inside, None] * Z))))
        coef = tests.coef(coding)
        assert_allclose(coef.estimate, beta, rtol=1e-6, atol=1e-6, err_msg=told)
        assert_allclose(coef.standard_error, errors, rtol=1e-6, err_msg=told)
        compared += 1
    every = [model for model in LOGLIN[table]["models"] if model["mle_exists"] and model["omega"] == "full"]
    assert compared >= len(every)


@pytest.mark.parametrize("table", sorted(LOGLIN))
def test_contrasts_that_the_counts_determine_are_those_of_glm(table: str) -> None:
    """Every coefficient that stays finite, at the boundary and with structural zeros too."""
    compared = open_ = 0
    for tests, loglin, glm in fits(table):
        told = f"{table}: margins {loglin['margins']} on omega {loglin['omega']}"
        coef = tests.coef()
        places = {name: i for i, name in enumerate(coef.names)}
        order = [places[":".join(f"mode {k}[{cell[k]}]" for k in np.flatnonzero(cell))] for cell in tests.fit.basis]
        ours, errors, theirs = coef.estimate[order], coef.standard_error[order], floats(glm["se"])
        known = ~np.isnan(errors)
        if not np.isnan(theirs).any():
            assert known.all(), told
        assert_allclose(ours[known], floats(glm["coef"])[known], rtol=1e-6, atol=1e-6, err_msg=told)
        assert_allclose(errors[known], theirs[known], rtol=1e-6, err_msg=told)
        compared, open_ = compared + int(known.sum()), open_ + int((~known).sum())
    assert compared > open_


@pytest.mark.parametrize("table", sorted(LOGLIN))
def test_residuals_are_those_of_glm(table: str) -> None:
    X, seen = TABLES[table], 0
    for tests, loglin, glm in fits(table):
        if loglin["all_kway"] is None:
            continue
        seen += 1
        mu = np.array(loglin["fit"]).reshape(X.shape)
        inside, alive = tests.fit.model.support.on_grid(), mu > 0
        for kind in ("pearson", "deviance", "adjusted"):
            assert np.isnan(tests.residuals(kind)[~inside]).all()
        assert_allclose(tests.residuals()[alive], ((X - mu)[alive] / np.sqrt(mu[alive])), atol=1e-5)
        assert (tests.residuals()[inside & ~alive] == 0).all()
        assert (tests.residuals("deviance")[inside & ~alive] == 0).all()
        # in a saturated cell R is left with the square root of a rounding error
        assert_allclose(tests.residuals("deviance").ravel()[alive.ravel()], floats(glm["deviance"])[alive.ravel()],
                        rtol=1e-6, atol=1e-5)  # fmt: skip
        assert_allclose(tests.residuals("adjusted").ravel(), floats(glm["adjusted"]), rtol=1e-6, atol=1e-5)
    assert seen > 0


def dense(case: Case) -> tuple[BoolArray, FloatArray, FloatArray]:
    """Cells that stay, the features on them and their singular vectors of value 0, constant left out."""
    stays = ~cells_that_vanish(case.Z, case.p)
    Z = case.Z[stays]
    _, s, right = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=True)
    return stays, Z, right[int((s > 1e-9).sum()) :]


@given(problems(max_cells=20, max_params=8, zeros=True, weighted=True))
@settings(max_examples=40)
def test_errors_and_residuals_from_the_definitions(case: Case) -> None:
    """With cells that vanish and parameters that depend on each other; tests/fuzz judges statistics and p-values."""
    fit = case.fit()
    tests = fit.inference()
    stays, Z, null = dense(case)
    n, mu = case.on_omega(case.X)[stays], (case.total * case.q(fit))[stays]
    A = np.hstack([np.ones((len(n), 1)), Z])
    open_ = (np.abs(null) > 1e-7).any(axis=0) if len(null) else np.zeros(len(case.basis), dtype=np.bool_)
    assert_array_equal(np.isnan(tests.standard_errors), open_)
    assert_array_equal([bool(reason) for reason in tests.reasons], open_)
    inverse = np.linalg.pinv(A.T @ (mu[:, None] * A), rcond=1e-12, hermitian=True)
    covariance = tests.covariance()
    assert_allclose(covariance[np.ix_(~open_, ~open_)], inverse[1:, 1:][np.ix_(~open_, ~open_)], rtol=1e-6, atol=1e-8)
    assert np.isnan(covariance[open_]).all()
    assert np.isnan(covariance[:, open_]).all()

    hat = np.einsum("ij,jk,ik->i", A, inverse, A) * mu
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(hat < 1 - 1e-7, (n - mu) / np.sqrt(mu * (1 - hat)), NAN)
    adjusted = np.full(len(stays), NAN)
    adjusted[stays] = expected
    assert_allclose(case.on_omega(tests.residuals("adjusted")), adjusted, rtol=1e-6, atol=1e-6)
    deviance = case.on_omega(tests.residuals("deviance"))
    assert float((deviance**2).sum()) == pytest.approx(tests.g2, abs=1e-8)
    assert_array_equal(np.sign(deviance[stays])[np.abs(n - mu) > 1e-6], np.sign(n - mu)[np.abs(n - mu) > 1e-6])
    assert isinstance(tests.summary(), str)


def test_summary() -> None:
    text = ld.decompose(DRUGS, ld.interactions(2)).inference().summary()
    assert text.split("\n\n")[0].splitlines() == [
        "Log-linear model of counts",
        "-" * 38,
        "table           2x2x2, N = 2276",
        "cells           8",
        "model           interactions(2)",
        "parameters      6",
        "G2 (deviance)   0.3740 on 1 df, p = 0.541",
        "X2 (Pearson)    0.4011 on 1 df, p = 0.527",
        "log-likelihood  -19.925  (multinomial)",
        "AIC             63.417",
        "BIC             103.529",
        "note            2 of 8 fitted counts are below 5, the smallest 1.4: the chi-square distribution of G2 and X2",
        "                is rough, and where they disagree neither p-value can be trusted. bootstrap() gives p-values",
        "                without it; differences of G2 between two models with few parameters are more reliable.",
    ]
    assert str(ld.decompose(DRUGS, ld.interactions(2)).inference()) == text


def test_notes_in_the_summary() -> None:
    said = ld.decompose(DRUGS, ld.adaptive(2)).inference().summary()
    assert "the data chose the basis: p-values of fit are too large, those of parameters too small" in said
    undecided = replace(ld.decompose(DRUGS, "B1"), status=ld.results.Status.UNDECIDED)
    assert "was not decided" in undecided.inference().summary()
    with pytest.raises(ld.errors.InvalidSetting, match="rows must be an integer >= 1, got 0"):
        undecided.inference().summary(rows=0)


def test_all_nested_pairs_of_a_table() -> None:
    """Differences of R's G2 and of the numbers of parameters."""
    models = [m for m in LOGLIN["MSPatients"]["models"] if m["omega"] == "full"]
    made = [ld.decompose(TABLES["MSPatients"], ld.interactions(m["margins"])) for m in models]
    nested = 0
    for small, m in zip(made, models, strict=True):
        for large, other in zip(made, models, strict=True):
            within = [
                all(any(set(a) <= set(b) for b in two["margins"]) for a in one["margins"])
                for one, two in ((m, other), (other, m))
            ]
            if within[0]:
                test = ld.anova(small, large).tests[0]
                assert test.statistic == pytest.approx(m["G2"] - other["G2"], abs=1e-6)
                if m["mle_exists"]:
                    assert test.df == large.n_params - small.n_params
                nested += 1
            elif not within[1]:
                with pytest.raises(ld.errors.InvalidQuery, match="nested"):
                    ld.anova(small, large)
    assert nested > 40


@given(problems(max_cells=12, max_params=5, zeros=True))
@settings(max_examples=30)
def test_nesting_is_a_question_of_spans(case: Case) -> None:
    fit, other = case.fit(), Case(case.X, case.mask, case.basis[: len(case.basis) // 2]).fit()
    more = np.array([v for v in np.ndindex(case.X.shape) if any(v)][:5], dtype=np.int64).reshape(-1, case.X.ndim)
    third = Case(case.X, case.mask, more)
    ones = np.ones((len(case.omega), 1))
    both = np.linalg.matrix_rank(np.hstack([ones, third.Z, case.Z]))
    inside, around = (both == np.linalg.matrix_rank(np.hstack([ones, Z])) for Z in (third.Z, case.Z))
    assert ld.anova(other, fit).tests[0].df >= 0
    if inside:
        stays = ~cells_that_vanish(case.Z, case.p)
        ranks = [np.linalg.matrix_rank(np.hstack([ones, Z])[stays]) for Z in (case.Z, third.Z)]
        assert ld.anova(fit, third.fit()).tests[0].df == ranks[1] - ranks[0]
    elif not around:
        with pytest.raises(ld.errors.InvalidQuery, match="nested"):
            ld.anova(fit, third.fit())


CHANGED = np.where(DRUGS == 43, 44, DRUGS)
PAIRS: list[tuple[Any, str]] = [
    (lambda: DRUGS, "compares results of decompose or loglinear, got a ndarray"),
    (lambda: ld.decompose(DRUGS, [[0, 1, 1]]), "is not nested in .*, e.g. the one of cell "),
    (lambda: ld.decompose(DRUGS[0], "B1"), r"the variables differ: mode 0 \(2 levels\), mode 1 \(2 levels\) and "),
    (lambda: ld.decompose(CHANGED, ld.interactions(2)), r"the tables differ, first at \[1, 0, 1\]: 43 and 44"),
    (
        lambda: ld.decompose(DRUGS, ld.interactions(2), support=DRUGS < 900),
        r"the supports differ, first at \[0, 0, 0\]: True and False",
    ),
    (
        lambda: ld.decompose(DRUGS, ld.interactions(2), base=np.full(DRUGS.shape, 2.0)),
        r"the base measures differ, first at \[0, 0, 0\]: 1.0 and 2.0",
    ),
]


@pytest.mark.parametrize(("other", "text"), PAIRS, ids=[text for _, text in PAIRS])
def test_pairs_that_cannot_be_compared(other: Any, text: str) -> None:
    with pytest.raises(ld.errors.InvalidQuery, match=text):
        ld.anova(ld.decompose(DRUGS, "B1"), other())


def test_x_must_hold_counts(tmp_path: Path) -> None:
    X = np.array([[1.0, 2.0], [2.5, 4.25]])
    fit = ld.decompose(X, "B1")
    with pytest.raises(ld.errors.InvalidTensor, match=r"but X\[1, 0\] is 2.5 \(2 of 4 positive entries are not\)"):
        fit.inference()
    assert ld.decompose([[1.0, 2.0], [NAN, 4.0]], ld.interactions(1)).inference().df == 0
    with pytest.raises(ld.errors.InvalidTensor, match=r"whole numbers from 0 to 2\*\*53, but X\[0, 1\] is 2e\+20"):
        ld.decompose([[1e9, 2e20], [3e20, 4e20]], "B1").inference()
    assert ld.decompose([[10**17, 2 * 10**17], [10**17, 3 * 10**17]], "B1").inference().df == 1  # integers are exact
    fit.save(tmp_path / "fit.npz")
    with pytest.raises(ld.errors.InvalidQuery, match=r"inference needs .*: X is not available"):
        ld.load(tmp_path / "fit.npz").inference()


def test_the_fit_must_be_the_maximum() -> None:
    with pytest.warns(ld.ConvergenceWarning):
        fit = ld.decompose(DRUGS, ld.interactions(2), solver="gradient", max_iter=1)
    with pytest.raises(
        ld.errors.InvalidQuery, match=r"inference needs .* maximum of their likelihood: the fit ended OUT_OF"
    ):
        fit.inference()


def test_bases_too_large_for_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 2)
    tests = ld.decompose(DRUGS, "B1").inference()
    assert tests.df == 4
    with pytest.raises(ld.errors.InvalidQuery, match="a Fisher matrix of 3 x 3; at most 2 parameters"):
        _ = tests.standard_errors
    monkeypatch.setattr("legendre.core.limits.LARGEST_MATRIX", 2)
    with pytest.raises(ld.errors.InvalidQuery, match="not checked beyond 2 parameters"):
        ld.anova(tests.fit, ld.decompose(DRUGS, [[1, 1, 0]])).tests[0]
