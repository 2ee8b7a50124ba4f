"""Means, intervals and covariances against R, and what a statistician saw first: labels, offsets, data left out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import legendre as ld

MODELS = json.loads((Path(__file__).parents[1] / "oracles" / "means_oracle.json").read_text())["models"]
EDUCATION = pd.DataFrame(
    {
        "edu": ["low", "mid", "high"] * 2,
        "sex": list("fffmmm"),
        "n": [10, 20, 40, 15, 30, 60],
        "pop": [100, 200, 400, 150, 300, 600],
    }
)


def by_name(found: dict[str, Any], name: str) -> Any:
    """Find what R says of a coefficient: it writes no brackets, and variables in another order."""
    own = name.replace("[", "").replace("]", "").replace("intercept", "Intercept")
    return next(found[key] for key in found if set(key.split(":")) == set(own.split(":")))


@pytest.mark.parametrize("told", MODELS, ids=lambda told: f"{told['table']} {told['formula']} {told['family']}")
def test_means_and_intervals_are_those_of_emmeans_and_mass(told: dict[str, Any]) -> None:
    names = list(told["levels"])
    counts = np.reshape(told["counts"], [len(told["levels"][name]) for name in names]).astype(int)
    m = ld.loglinear(counts, told["formula"], names=names, levels=told["levels"])
    m = m.scaled() if told["family"] == "quasipoisson" else m
    means = m.means(told["by"])
    for name, (mean,) in told["means"].items():
        row = means.names.index(name)
        assert means.estimate[row] == pytest.approx(mean, rel=1e-8)
        assert means.standard_error[row] == pytest.approx(told["se"][name][0], rel=1e-8)
        assert [means.lower[row], means.upper[row]] == pytest.approx(told["ends"][name], rel=1e-8)
    cells = m.predict()
    assert_allclose(cells.logs, told["fit"], rtol=1e-7, atol=1e-7)
    assert_allclose(cells.standard_error, told["error"], rtol=1e-8)
    vcov = m.vcov()
    for name, variance in vcov.items():
        assert variance[name] == pytest.approx(by_name(told["vcov"], str(name))[0], rel=1e-8)
    coef = m.coef(profile=True)
    for name, lower, upper in zip(coef.names, coef.lower, coef.upper, strict=True):
        assert [lower, upper] == pytest.approx(by_name(told["exact"], name), abs=1e-8)
        assert [lower, upper] == pytest.approx(by_name(told["profile"], name), abs=1e-3)  # MASS interpolates


def test_offsets_and_features_of_labelled_objects_are_matched_by_labels() -> None:
    """By position every effect of these was wrong, edu[mid] 2.08 with three stars; each must be 0."""
    pivot = EDUCATION.pivot(index="edu", columns="sex", values="pop")
    turned = xr.DataArray(pivot.T.iloc[::-1], dims=["sex", "edu"])
    for base in (pivot, pivot.iloc[[2, 0, 1]], pivot.T, turned, "pop", EDUCATION.set_index(["sex", "edu"])["pop"]):
        m = ld.loglinear(EDUCATION, "n ~ edu + sex", base=base)
        assert_allclose(m.coef().estimate, [np.log(0.1), 0, 0, 0], atol=1e-9)
    assert ld.loglinear(EDUCATION, "n ~ .", base="pop").names == ("edu", "sex")
    X = ld.from_rows(EDUCATION, ["edu", "sex"], "n")
    assert_allclose(ld.loglinear(X, ".", base=pivot.T).coef().estimate[1:], 0, atol=1e-9)
    step = pd.Series({"mid": 1.0, "high": 2.0, "low": 0.0}).rename_axis("edu")
    rising = ld.loglinear(EDUCATION, "n ~ sex + rise(edu)", features={"rise": step})
    assert rising.g2 == pytest.approx(0, abs=1e-9)
    assert rising.coef()["rise(edu)"] == pytest.approx(np.log(2))
    mask = pivot > 120
    assert ld.loglinear(EDUCATION, "n ~ edu + sex", support=mask.iloc[::-1]).fit.model.support.n_cells == 5
    with pytest.raises(ld.LegendreError, match="base measure has the level 'none' of edu, unlike X"):
        ld.loglinear(EDUCATION, "n ~ edu + sex", base=pivot.rename(index={"low": "none"}))
    with pytest.raises(ld.LegendreError, match="lacks the level 'high' of edu"):
        ld.loglinear(EDUCATION, "n ~ edu + sex", base=pivot.iloc[1:])


def test_contrasts_of_cells_are_logarithms_of_means_with_the_offset() -> None:
    m = ld.loglinear(EDUCATION, "n ~ edu + sex", base="pop")
    found = m.contrast(np.eye(2), [["low", "f"], ["high", "m"]], exp=True)
    assert_allclose(found.estimate, [10, 60])
    assert_allclose(m.predict().estimate, np.ravel(m.fitted()))
    assert_allclose(m.means("sex").estimate, [20, 30])
    with pytest.raises(ld.LegendreError, match="edu has no level 'none'"):
        m.contrast([[1, -1]], [["low", "f"], ["none", "m"]])


def test_exp_puts_the_estimate_and_its_interval_on_one_scale() -> None:
    """The estimate was a logarithm, 2.097, beside the interval of a factor, 2.29 to 28.9."""
    m = ld.loglinear(EDUCATION, "n ~ edu + sex")
    logs, factors = m.coef(), m.coef(exp=True)
    for name in ("estimate", "lower", "upper"):
        assert_allclose(getattr(factors, name), np.exp(getattr(logs, name)))
        assert_allclose(factors.to_frame()[name], getattr(factors, name))


def test_data_that_are_left_out_or_added_up_are_named() -> None:
    twice = pd.concat([EDUCATION, EDUCATION])
    assert "12 rows were added up to 6 cells" in repr(ld.loglinear(twice, "n ~ edu + sex"))
    gone = repr(ld.loglinear(EDUCATION.iloc[1:], "n ~ edu + sex"))
    assert "1 of 6 combinations of levels are not listed; they are read as 0." in gone
    mask = np.array([[True, True], [False, True], [True, True]])
    part = ld.loglinear(EDUCATION, "n ~ edu + sex", support=mask)
    assert "10 cases lie outside the support" in repr(part)
    assert "10 of the sum of X lie outside the support" in part.fit.summary()
    assert "note" not in repr(ld.loglinear(EDUCATION, "n ~ edu + sex"))
    scored = repr(ld.loglinear(EDUCATION, "n ~ edu + sex + uniform(edu, sex)"))
    assert "uniform(edu, sex) takes the levels of edu and sex as ordered and equally spaced" in scored
    amounts = ld.from_rows({"a": [1, 2], "n": [3.5, 2]}, ["a"], counts="n")
    assert "X holds amounts, not counts: 3.5 is not a whole number." in ld.decompose(amounts, "B1").summary()
    assert "5,000 parameters were asked for: 3 are all" in ld.decompose([[1, 2], [3, 9]], ld.adaptive(5000)).summary()


def test_one_table_says_by_which_rule_it_counts_at_the_boundary() -> None:
    m = ld.loglinear(ld.datasets.titanic(), "class*sex*age + class*survived")
    assert "AIC and BIC count them" in " ".join(repr(m.drop1()).split())
    assert "count them" not in repr(ld.loglinear(EDUCATION, "n ~ edu*sex").drop1())


def test_whole_numbers_that_are_no_counts_are_named() -> None:
    """Ozone in Dobson units: X2 / df = 0.12 without a word."""
    random = np.random.default_rng(0)
    X = np.rint(300 + np.add.outer(10 * np.arange(8), 5 * np.arange(9)) + random.normal(0, 4, (8, 9)))
    tests = ld.decompose(X, "interactions(1)").inference()
    assert tests.dispersion < 0.3
    assert all("varies less than counts do" in note for note in (tests.notes[0], tests.coef().to_markdown()))
    assert not any("varies less" in note for note in tests.scaled().notes)
    with pytest.raises(ld.LegendreError, match="fitted as measurements"):
        ld.decompose(X, "interactions(1)", counts=False).inference()
    first = ld.decompose(X)  # 5 parameters by BIC, as if these were counts
    assert str(first.reason).startswith("X holds whole numbers that vary less than counts do, so cells were held out")
    assert first.n_params > ld.decompose(X, counts=True).n_params
    assert np.isnan(first.parameters().standard_error).all()
    explicit = ld.decompose(X, "interactions(1)").parameters()
    assert np.isnan(explicit.standard_error).all()
    assert "varies less than counts do" in explicit.notes[0]
    table = str(ld.decompose(pd.DataFrame(X.astype(int))).reason)
    assert table.endswith("varies less than counts do: if it holds measurements, pass counts=False.")
    sparse = np.where(random.random((30, 30)) < 0.02, 1, 0)  # X2 is no guide where means are small
    assert not any("varies less" in note for note in ld.decompose(sparse, "interactions(1)").inference().notes)


def test_association_terms_within_groups() -> None:
    """One model of both groups is the models of each, side by side."""
    tables = np.array([[[5, 2, 1], [4, 5, 3], [3, 1, 5]], [[9, 3, 1], [2, 7, 3], [1, 6, 8]]]) * 4
    for function in ("quasi_symmetric(l, r)", "uniform(l, r)", "diagonal(l, r)", "far(l, r)"):
        own = {"far": lambda i, j: abs(i - j)} if "far" in function else None
        both = ld.loglinear(tables, f"g*l + g*r + g:{function}", names=["g", "l", "r"], features=own)
        apart = [ld.loglinear(t, f"l + r + {function}", names=["l", "r"], features=own) for t in tables]
        assert both.g2 == pytest.approx(sum(m.g2 for m in apart), abs=1e-8)
        assert both.df == sum(m.df for m in apart)
        assert both.update(both.formula, features=own).g2 == pytest.approx(both.g2)
        assert both.update(f"- g:{function}").formula == "g*l + g*r"
    assert ld.loglinear(tables, "g*l + g*r + g:uniform(l, r)", names=["g", "l", "r"]).coef().names[-1] == (
        "g 1: l by r, per step of both"
    )


def test_words_of_r_get_a_hint() -> None:
    fit = partial(ld.loglinear, EDUCATION, columns=["edu", "sex"])
    hints = {"offset(pop)": "base=", "I(edu)": "features=", "edu/sex": r"a \+ a:b", "edu %in% sex": "write a:b"}
    for formula, text in hints.items():
        with pytest.raises(ld.LegendreError, match=text):
            fit(f"n ~ edu + {formula}")


def test_every_table_is_written_for_latex_and_markdown() -> None:
    m = ld.loglinear(EDUCATION, "n ~ edu*sex")
    tests = m.drop1(), ld.anova(m.update("- edu:sex"), m), m.bootstrap(9, 0)
    for table in (m, m.coef(), m.odds("edu", "sex"), *tests, ld.datasets.titanic()):
        assert r"\begin{tabular}" in table.to_latex()
        assert "|:---" in table.to_markdown()
    assert r"edu[low] & " in m.coef().to_latex()
    assert ld.decompose([[1, 2], [3, 4]], "B1").to_markdown().startswith("|")
