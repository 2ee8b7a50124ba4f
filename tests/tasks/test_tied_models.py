"""Association models in formulas, and their coefficients, odds ratios and criteria."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld

MENTAL = np.array(
    [[64, 57, 57, 72, 36, 21], [94, 94, 105, 141, 97, 71], [58, 54, 65, 77, 54, 54], [46, 40, 60, 94, 78, 71]]
)
TABLE = ld.table(MENTAL, names=["mental", "ses"])
WOMEN = ld.table(
    [[1520, 266, 124, 66], [234, 1512, 432, 78], [117, 362, 1772, 205], [36, 82, 179, 492]], names=["r", "l"]
)


@pytest.mark.parametrize(
    ("formula", "g2", "df"),
    [
        ("mental + ses + uniform(mental, ses)", 9.89512355, 14),
        ("mental + ses + rows(mental, ses)", 6.280760919, 12),
        ("mental + ses + columns(mental, ses)", 6.82933437, 10),
        ("mental + ses + linear(mental, ses, scores=[[0, 1, 2, 3], [1, 2, 3, 4, 5, 6]])", 9.89512355, 14),
    ],
)
def test_formulas_take_association_models(formula: str, g2: float, df: int) -> None:
    model = ld.loglinear(TABLE, formula)
    assert model.df == df
    assert model.g2 == pytest.approx(g2, abs=1e-7)


def test_symmetry_in_formulas() -> None:
    assert ld.loglinear(WOMEN, "symmetric(r, l)").g2 == pytest.approx(19.24918745, abs=1e-6)
    assert ld.loglinear(WOMEN, "quasi_symmetric(r, l)").df == 3
    assert ld.loglinear(WOMEN, "r + l + diagonal(r, l)").g2 == pytest.approx(199.1061867, abs=1e-6)


def test_tied_models_are_compared_and_their_terms_dropped() -> None:
    uniform, rows = (ld.loglinear(TABLE, f"mental + ses + {name}(mental, ses)") for name in ("uniform", "rows"))
    test = ld.anova(uniform, rows)
    assert "3.6144      2  0.164" in str(test)
    assert "uniform(mental, ses)  15   47.4178" in str(uniform.drop1())


def test_coefficients_beside_a_tied_parameter_equal_those_of_r() -> None:
    """As of glm(Freq ~ mental + ses + I((Rscore - 1) * (Cscore - 1)), poisson), treatment contrasts."""
    coef = ld.loglinear(TABLE, "mental + ses + uniform(mental, ses)").coef()
    assert coef.names[-1] == "mental by ses, per step of both"
    assert coef[coef.names[-1]] == pytest.approx(0.09068660881, abs=1e-9)
    mu = ld.loglinear(TABLE, "mental + ses + uniform(mental, ses)").fit.tensor()
    assert coef["(intercept)"] == pytest.approx(np.log(mu[0, 0]), abs=1e-9)
    assert coef["mental[2]"] == pytest.approx(np.log(mu[2, 0] / mu[0, 0]), abs=1e-9)
    assert coef["ses[5]"] == pytest.approx(np.log(mu[0, 5] / mu[0, 0]), abs=1e-9)


def test_odds_ratios_of_uniform_association_are_all_the_same() -> None:
    fit = ld.decompose(MENTAL, ld.interactions(1) | ld.ties.uniform(0, 1))
    odds = fit.inference().odds(0, 1)
    assert_allclose(odds.estimate, 0.09068660881, atol=1e-9)
    assert_allclose(odds.standard_error, 0.01500612698, atol=1e-8)


def test_cells_that_symmetry_leaves_alone_are_listed_as_they_are() -> None:
    coef = ld.loglinear(WOMEN, "quasi_symmetric(r, l)").coef()
    assert coef.names[1:8] == ("r[1]", "r[2]", "r[3]", "l[1]", "l[2]", "l[3]", "r >= 1, l >= 1")


def test_criteria_at_the_boundary_count_tied_parameters() -> None:
    x = np.array([[0, 3, 2], [4, 0, 3], [2, 5, 0]])
    fit = ld.decompose(x, ld.interactions(1) | ld.features({"diagonal": np.eye(3)}))
    assert fit.status is ld.Status.AT_BOUNDARY
    tests = fit.inference()
    poisson = (tests.bic - tests.aic) / (np.log(fit.total) - 2.0)
    assert poisson == pytest.approx(6.0)  # five parameters on the support, and the constant


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("mental + uniform(mental, sess)", "uniform: unknown mode 'sess'; did you mean 'ses'"),
        ("uniform(mental)", r"the formula has uniform\(mental\); write uniform\(a, b\)"),
        ("linear(mental, ses, scores=[[1, 2], [1, 2]])", "2 scores for mental, which has 4 levels"),
        ("symmetric(mental, ses)", "mental has 4 levels, ses has 6; the two must have the same levels"),
        ("unifrm(mental, ses)", "unknown function 'unifrm'"),
    ],
)
def test_misspelt_functions_are_told(formula: str, words: str) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=words):
        ld.loglinear(TABLE, formula)
