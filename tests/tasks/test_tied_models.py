"""Tied parameters read as a statistician does: odds ratios, criteria at the boundary, symmetry in formulas."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld

MENTAL = np.array(
    [[64, 57, 57, 72, 36, 21], [94, 94, 105, 141, 97, 71], [58, 54, 65, 77, 54, 54], [46, 40, 60, 94, 78, 71]]
)
COUNTS = [[1520, 266, 124, 66], [234, 1512, 432, 78], [117, 362, 1772, 205], [36, 82, 179, 492]]
WOMEN = ld.table(COUNTS, names=["r", "l"])


def test_symmetry_in_formulas() -> None:
    assert ld.loglinear(WOMEN, "symmetric(r, l)").g2 == pytest.approx(19.24918745, abs=1e-6)
    assert ld.loglinear(WOMEN, "quasi_symmetric(r, l)").df == 3
    assert ld.loglinear(WOMEN, "r + l + diagonal(r, l)").g2 == pytest.approx(199.1061867, abs=1e-6)


def test_coefficients_beside_a_tied_parameter_are_ratios_of_means_at_the_first_levels() -> None:
    model = ld.loglinear(ld.table(MENTAL, names=["mental", "ses"]), "mental + ses + uniform(mental, ses)")
    coef, mu = model.coef(), model.fit.tensor()
    assert coef["mental by ses, per step of both"] == pytest.approx(0.09068660881, abs=1e-9)
    assert coef["(intercept)"] == pytest.approx(np.log(mu[0, 0]), abs=1e-9)
    assert coef["mental[2]"] == pytest.approx(np.log(mu[2, 0] / mu[0, 0]), abs=1e-9)
    assert coef["ses[5]"] == pytest.approx(np.log(mu[0, 5] / mu[0, 0]), abs=1e-9)


def test_odds_ratios_of_uniform_association_are_all_the_same() -> None:
    fit = ld.decompose(MENTAL, ld.interactions(1) | ld.ties.uniform(0, 1))
    odds = fit.inference().odds(0, 1)
    assert_allclose(odds.estimate, 0.09068660881, atol=1e-9)
    assert_allclose(odds.standard_error, 0.01500612698, atol=1e-8)


def test_criteria_at_the_boundary_count_tied_parameters() -> None:
    x = np.array([[0, 3, 2], [4, 0, 3], [2, 5, 0]])
    fit = ld.decompose(x, ld.interactions(1) | ld.features({"diagonal": np.eye(3)}))
    assert fit.status is ld.Status.AT_BOUNDARY
    tests = fit.inference()
    charged = (tests.bic - tests.aic) / (np.log(fit.total) - 2.0)
    assert charged == pytest.approx(6.0)  # five parameters on the support, and the constant
