"""Tied parameters read as a statistician does: odds ratios, criteria at the boundary, symmetry in formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import legendre as ld

FOLDER = Path(__file__).parents[1] / "oracles"
MENTAL, MOBILITY = (
    np.array(json.loads((FOLDER / "association.json").read_text())[name]["counts"]) for name in ("mental", "hauser79")
)
MENTAL = MENTAL.T


def test_coefficients_beside_a_tied_parameter_are_ratios_of_means_at_the_first_levels() -> None:
    model = ld.loglinear(xr.DataArray(MENTAL, dims=["mental", "ses"]), "mental + ses + uniform(mental, ses)")
    coef, mu = model.coef(), np.asarray(model.fit.tensor())
    assert coef["mental by ses, per step of both"] == pytest.approx(0.09068660881, abs=1e-9)
    assert coef["(intercept)"] == pytest.approx(np.log(mu[0, 0]), abs=1e-9)
    assert coef["mental[2]"] == pytest.approx(np.log(mu[2, 0] / mu[0, 0]), abs=1e-9)
    assert coef["ses[5]"] == pytest.approx(np.log(mu[0, 5] / mu[0, 0]), abs=1e-9)


def test_odds_ratios_of_uniform_association_are_all_the_same() -> None:
    fit = ld.decompose(MENTAL, ld.interactions(1) | ld.ties.uniform(0, 1))
    odds = fit.inference().odds(0, 1)
    assert_allclose(np.log(odds.estimate), 0.09068660881, atol=1e-9)
    assert_allclose(odds.standard_error, 0.01500612698, atol=1e-8)


def test_criteria_at_the_boundary_count_tied_parameters() -> None:
    x = np.array([[0, 3, 2], [4, 0, 3], [2, 5, 0]])
    fit = ld.decompose(x, ld.interactions(1) | ld.features({"diagonal": np.eye(3)}))
    assert fit.status is ld.results.Status.AT_BOUNDARY
    tests = fit.inference()
    charged = (tests.bic - tests.aic) / (np.log(fit.total) - 2.0)
    assert charged == pytest.approx(6.0)  # five parameters on the support, and the constant


def distance(i: Any, j: Any) -> Any:
    return abs(i - j)


def test_features_in_formulas_are_those_of_a_basis() -> None:
    t = xr.DataArray(MOBILITY, dims=["father", "son"])
    own: dict[str, Any] = {"far": distance, "stays": np.eye(5)}
    m = ld.loglinear(t, "father + son + far(father, son) + stays", features=own)
    fit = ld.decompose(MOBILITY, ld.interactions(1) | ld.features({"far": distance, "stays": np.eye(5)}))
    assert_allclose(m.fit.theta, fit.theta, rtol=1e-9)
    assert m.coef().names[-2:] == ("far(father, son)", "stays")
    assert m.formula == "father + son + far(father, son) + stays"
    assert m.drop1().names[-2:] == ("far(father, son)", "stays")
    assert [test.df for test in m.drop1().tests[-2:]] == [1, 1]
    frame = t.to_dataframe("Freq").reset_index()
    assert ld.loglinear(frame, "Freq ~ father + son + far(son, father) + stays", features=own).g2 == pytest.approx(m.g2)


def test_features_stay_known_to_their_model(tmp_path: Path) -> None:
    t = xr.DataArray(MOBILITY, dims=["father", "son"])
    m = ld.loglinear(t, "father + son + far(father, son)", features={"far": distance})
    more = m.update("+ stays", features={"stays": np.eye(5)})
    assert more.update("- stays").g2 == pytest.approx(m.g2)
    assert more.df == m.df - 1
    assert m.update(". ~ . + stays", features={"stays": np.eye(5)}).formula == more.formula
    assert ld.anova(m, more).tests[0].df == 1
    more.save(tmp_path / "m.npz")
    loaded = ld.load(tmp_path / "m.npz")
    assert loaded.formula == more.formula
    assert loaded.coef()["stays"] == more.coef()["stays"]
    with pytest.raises(ld.LegendreError, match="the feature 'far' is not in the file that this model was loaded from"):
        loaded.update("- stays")


BAD_FEATURES: list[tuple[str, Any, str]] = [
    ("A + B + fra(A, B)", {"far": distance}, r"unknown function 'fra'; did you mean 'far'\?"),
    ("A + B", {"far": distance}, r"does not name the feature 'far'\. Write far\(a, b\) with the variables"),
    ("A + B + far(A)", {"far": distance}, r"is called with the levels of A, 1 in all .* Name the modes"),
    ("A + B + far(A, C)", {"far": distance}, "unknown mode 'C'"),
    ("A + B + far(A, 2)", {"far": distance}, "the feature far takes names of variables only"),
    ("A + B + A(B)", {"A": distance}, "features: 'A' is a variable. Give the feature another name"),
    ("A + B + uniform(A, B)", {"uniform": distance}, "'uniform' is an association model. Give the feature another"),
    ("A + B + far", {"far": np.eye(3)}, r"has shape \(3, 3\), where \(5, 5\) is expected"),
    ("far:far", {"far": np.eye(5)}, "functions can be added, and taken for each level of a variable"),
    ("A + B + far", [np.eye(5)], "features must be a dict of names and functions or arrays"),
]


@pytest.mark.parametrize(("formula", "features", "text"), BAD_FEATURES, ids=[text for *_, text in BAD_FEATURES])
def test_bad_features_are_told(formula: str, features: Any, text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        ld.loglinear(MOBILITY, formula, features=features)


def test_collinear_ties_are_told() -> None:
    m = ld.loglinear(MENTAL, "A + B + uniform(A, B) + linear(A, B, scores=[[0, 1, 2, 3], [0, 2, 4, 6, 8, 10]])")
    assert m.df == ld.loglinear(MENTAL, "A + B + uniform(A, B)").df
    assert "9 of the 10 parameters are independent: those that depend on each other have no estimate" in " ".join(
        repr(m).split()
    )
    assert np.isnan(m.coef().standard_error[-2:]).all()
    assert "not estimable" in m.coef().notes[-1]
    assert "independent" not in repr(ld.loglinear(MENTAL, "A + B + uniform(A, B)"))
