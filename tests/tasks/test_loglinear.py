"""Log-linear models against what R prints: loglin, loglm, glm, step, gRim, bayesloglin."""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.special import gammaln

import legendre as ld
from oracles import cells_that_stay, deviance_of

FOLDER = Path(__file__).parents[1] / "oracles"
SQUARES = {
    name: np.array(table["counts"]) for name, table in json.loads((FOLDER / "association.json").read_text()).items()
}
REINIS: dict[str, Any] = json.loads((FOLDER / "reinis.json").read_text())
HAIR = ld.datasets.hair_eye_color()


def reinis() -> xr.DataArray:
    return xr.DataArray(np.array(REINIS["counts"]), dims=REINIS["names"])


# --- fits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("formula", "g2", "df"),
    [
        ("hair + eye + sex", 166.3001, 24),
        ("hair*sex + eye*sex", 156.6779, 18),
        ("hair*eye + sex", 19.85656, 15),
        ("[HE][S]", 19.85656, 15),
        ("hair*sex + eye", 158.2073, 21),
        (".^2", 6.7613, 9),
        (".^3", 0.0, 0),
    ],
)
def test_deviances_are_those_of_loglin(formula: str, g2: float, df: int) -> None:
    m = ld.loglinear(HAIR, formula)
    assert m.g2 == pytest.approx(g2, abs=5e-5)
    assert m.df == df


QUINE = """A F F0 AL 5 11 24 45; N F F0 AL 10 11 20 33; A M F0 AL 5 5 13 20 22; N M F0 AL 0 0 2 7 11 12
A F F1 AL 5 5 11 17 19; N F F1 AL 5 14 6 6 7 28; A M F1 AL 7 14; N M F1 AL 3 4; A F F2 AL 2; N F F2 AL 1
A M F2 AL 14 16 16 17 40 43 46; N M F2 AL 8 0 1 5 7 16 27; A F F3 AL 0 2 3 5 10 14 21 36 40
N F F3 AL 1 9 22 3 3 5 15 18 22 37; A M F3 AL 8 23 23 28 34 36 38; N M F3 AL 0 30 10 14 27 41 69; A F F0 SL 3
N F F0 SL 25; A M F0 SL 2 11 14; N M F0 SL 6 17 67; A F F1 SL 5 6 6 9 13 23 25 32 53 54
N F F1 SL 5 7 0 1 5 5 5 5 7 11 15; A M F1 SL 6 6 15; N M F1 SL 0 0 5 5 5 11 17; A F F2 SL 8 13 14 20 47 48 60 81
N F F2 SL 0 5 14 2 2 3 8 10 12; A M F2 SL 6 32 53 57; N M F2 SL 22 30 36"""


def test_degrees_of_freedom_are_counted_by_rank() -> None:
    """Days that children missed at school, several children to a cell: loglm says 127, and that this is wrong."""
    rows = []
    for group in QUINE.replace("\n", "; ").split("; "):
        *labels, days = group.split(" ", 4)
        rows += [(*labels, child, int(n)) for child, n in enumerate(days.split())]
    frame = pd.DataFrame(rows, columns=["Eth", "Sex", "Age", "Lrn", "child", "Days"])
    assert len(frame) == 146
    X = ld.from_rows(frame, ["Eth", "Sex", "Age", "Lrn", "child"], "Days")
    there = ld.from_rows(frame, ["Eth", "Sex", "Age", "Lrn", "child"]).toarray() > 0
    m = ld.loglinear(X, "(Eth + Sex + Age + Lrn)^2", support=there)
    assert m.df == 128
    assert m.g2 == pytest.approx(1368.668558, abs=1e-6)


SUM = [2.63826211017, -0.16953400265, 0.80501292295, -0.58919248867, 0.52969050861, 0.50670099038, -0.33133754460]
SUM += [-0.07203214678, 0.10908613286, 0.07203214678, 0.02975345277]
SUM_SE = [0.05240859448, 0.08275533636, 0.06293416103, 0.09626684554, 0.06705302494, 0.06744600747, 0.08717636539]
SUM_SE += [0.04703676192, 0.08275533636, 0.06293416103, 0.09626684554]
LOCAL = [3.03547260220, 0.93749293952, -1.43648410564, 0.30228087187, -0.02298951823, -0.83803853497, -0.37371640979]
LOCAL += [-0.07410797215, 0.07410797215, 0.08455738803, 0.48125037033]
LOCAL_SE = [0.1439214963, 0.1576392987, 0.1908003399, 0.2261655423, 0.0958988581, 0.1241120947, 0.1624118890]
LOCAL_SE += [0.1925822157, 0.2259954049, 0.2653767168, 0.3008709411]


@pytest.mark.parametrize(("contrasts", "b", "se"), [("sum", SUM, SUM_SE), ("local", LOCAL, LOCAL_SE)])
def test_coefficients_are_those_of_glm(contrasts: Any, b: list[float], se: list[float]) -> None:
    coef = ld.loglinear(HAIR, "hair*sex + eye").coef(contrasts)
    assert_allclose(coef.estimate, b, atol=1e-8)
    assert_allclose(coef.standard_error, se, rtol=3e-6)  # R's are those of the step before the last


def test_an_offset_is_that_of_glm() -> None:
    """R: glm(Freq ~ Hair*Sex + Eye + offset(log(1:4)[Hair]), poisson)."""
    X = HAIR
    base = np.broadcast_to(np.array([1.0, 2.0, 3.0, 4.0])[:, None, None], X.shape).copy()
    m = ld.loglinear(X, "hair*sex + eye", base=base)
    assert m.g2 == pytest.approx(158.2073013, abs=1e-6)
    assert m.aic == pytest.approx(319.0860289, abs=1e-6)
    coef = m.coef()
    assert coef["(intercept)"] == pytest.approx(3.03547260220, abs=1e-8)
    assert coef["hair[blond]"] == pytest.approx(-1.58300465536, abs=1e-8)
    assert coef.standard_error[3] == pytest.approx(0.1989880180, rel=1e-6)


# --- comparison and choice -------------------------------------------------------------------------------------------


def test_anova_drop1_and_add1_are_those_of_r() -> None:
    small, middle, large = (ld.loglinear(HAIR, f) for f in ("hair + eye + sex", "hair*eye + sex", ".^2"))
    table = ld.anova(small, middle, large)
    assert_allclose([test.statistic for test in table.tests], [146.444, 13.095], atol=5e-4)
    assert [test.df for test in table.tests] == [9, 6]
    assert table.tests[1].p_value == pytest.approx(0.04155, abs=5e-6)
    assert [m.formula for m in ld.anova(large, small).models] == [small.formula, large.formula]  # either way
    assert table.to_frame().loc["hair*eye + sex", "aic"] == pytest.approx(192.735, abs=5e-4)
    found = middle.drop1().to_frame()
    assert found.index.tolist() == ["nothing", "sex", "hair:eye"]
    assert_allclose(found.g2[1:], [21.810, 166.300], atol=5e-4)
    assert_allclose(found.aic[1:], [192.69, 321.18], atol=5e-3)
    assert_allclose(found.lrt[1:], [1.954, 146.444], atol=6e-4)
    assert found.lrt_df.tolist()[1:] == [1, 9]
    assert found.p_value.iloc[1] == pytest.approx(0.1622, abs=5e-5)
    added = small.add1()
    assert added.names == ("nothing", "hair:eye", "hair:sex", "eye:sex")
    assert_allclose([test.p_value for test in added.tests[1:]], [0.04413, 0.67550], atol=5e-6)
    assert small.add1("hair*sex + eye").names == ("nothing", "hair:sex")


def test_steps_are_those_of_r() -> None:
    chosen = ld.loglinear(HAIR, ".^3").step()
    assert [(move.action, move.term) for move in chosen.path] == [("drop", "hair:eye:sex"), ("drop", "eye:sex")]
    assert_allclose([move.criterion for move in chosen.path], [191.64, 190.64], atol=5e-3)
    assert chosen.formula == "hair*eye + hair*sex"
    up = ld.loglinear(HAIR, ".").step(direction="forward")
    assert up.formula == chosen.formula
    bic: Any = "BIC"  # as R writes it
    assert ld.loglinear(HAIR, "1").step(bic).formula == ld.loglinear(HAIR, ".").step(np.log(592)).formula
    titanic = ld.loglinear(ld.datasets.titanic(), ".^4").step()  # at the boundary, and with R's numbers all the same
    assert [move.term for move in titanic.path] == ["class:sex:age:survived", "sex:age:survived"]
    assert_allclose([move.criterion for move in titanic.path], [185.40, 185.09], atol=5e-3)


def test_searches_among_decomposable_models_are_those_of_grim() -> None:
    X, told = reinis(), REINIS["gRim"]
    forward = ld.loglinear(X, ".").step(type="decomposable", direction="forward")
    changes = told["forward AIC among decomposable models, change of AIC at each step"]
    assert_allclose([-move.change for move in forward.path], changes, atol=5e-5)
    backward = ld.loglinear(X, ".^6").step(type="decomposable", direction="backward")
    changes = told["backward AIC among decomposable models from the saturated one"]
    assert_allclose([move.change for move in backward.path], changes, atol=5e-5)
    margin = ld.loglinear(X.sum(["protein", "family"]), "smoke:systol + smoke:mental:phys")
    assert round(margin.g2, 1) == 3.8
    assert margin.df == 6
    orders = gammaln(margin.fit.total + 1) - gammaln(margin.counts.n + 1).sum()
    assert -2 * (margin.log_likelihood - orders) == pytest.approx(9391.38, abs=5e-3)


@pytest.mark.parametrize("seed", range(4))
def test_searches_among_decomposable_models_are_exhaustive(seed: int) -> None:
    """Every graph with one edge more or less that networkx calls chordal is fitted; the path takes the best."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (80, 5)) % [2, 3, 2, 2, 3]
    rows[:40, 1:] = rows[:40, :1]
    table = ld.from_rows(dict(zip("abcde", rows.T, strict=True)))
    price = 2.0 if seed % 2 else np.log(80)
    own: Any = nx.empty_graph("abcde")
    chosen = ld.loglinear(table, "." if seed < 2 else ".^5").step(price, type="decomposable")
    own = own if seed < 2 else nx.complete_graph(own)

    def criterion(graph: Any) -> float:
        fit = ld.loglinear(table, [list(clique) for clique in nx.find_cliques(graph)])
        return float(fit.aic + (price - 2.0) * (fit.rank + 1))

    def others() -> list[Any]:
        found = []
        for a, b in combinations("abcde", 2):
            other = own.copy()
            (other.remove_edge if other.has_edge(a, b) else other.add_edge)(a, b)
            found += [other] if nx.is_chordal(other) else []
        return found

    for move in chosen.path:
        best = min(map(criterion, others()))
        assert move.criterion == pytest.approx(best, abs=1e-6)
        a, b = move.term.split(":")
        (own.remove_edge if move.action == "drop" else own.add_edge)(a, b)
        assert move.criterion == pytest.approx(criterion(own), abs=1e-6)
    assert min(map(criterion, others())) > criterion(own) - 1e-6


def test_evidence_is_that_of_bayesloglin() -> None:
    """Its closed form leaves the gamma functions of N out; what it approximates otherwise is refused here."""
    n = np.array(REINIS["counts"])
    X = xr.DataArray(n, dims=list("abcdef"))
    constant = gammaln(n + 1.0).sum()
    for model, told in REINIS["bayesloglin"].items():
        m = ld.loglinear(X, model.split(",")[0])
        if "closed" in model:
            assert m.evidence() + constant == pytest.approx(told, abs=5e-4), model
        else:
            with pytest.raises(ld.errors.InvalidQuery, match="known in closed form for decomposable models"):
                m.evidence()


def test_the_evidence_of_closed_forms_is_an_integral() -> None:
    """Of a saturated model that of a Dirichlet distribution; a variable that is not in a model is uniform."""
    n = np.array([[3, 1, 4], [1, 5, 9]])
    tests = ld.decompose(n, ld.full()).inference()
    a = 2.0 / 6
    own = gammaln(2.0) - gammaln(25.0) + (gammaln(n + a) - gammaln(a)).sum()
    dirichlet = gammaln(24) - gammaln(n + 1.0).sum() + own
    assert tests.evidence(2.0) == pytest.approx(dirichlet, rel=1e-12)
    rows = ld.loglinear(n, "A").evidence(2.0)
    of_margin = ld.loglinear(n.sum(axis=1), "A").evidence(2.0)
    orders = gammaln(n.sum(axis=1) + 1.0).sum() - gammaln(n + 1.0).sum()
    assert rows == pytest.approx(of_margin + orders - 23 * np.log(3), rel=1e-12)


# --- the view --------------------------------------------------------------------------------------------------------


def test_every_form_of_a_table_gives_the_same_model() -> None:
    X = HAIR
    frame = X.to_frame("Freq")
    cases = frame.loc[frame.index.repeat(frame.Freq)].drop(columns="Freq")
    cross = frame.pivot_table(index=["hair", "eye"], columns="sex", values="Freq", sort=False)
    series = frame.set_index(["hair", "eye", "sex"]).Freq
    tables = [X, HAIR, frame, pl.from_pandas(frame), cases, cross, series, series.to_xarray(), frame.to_dict("list")]
    wanted = ld.loglinear(X, "hair*eye + sex")
    for given in tables:
        listed = given is frame or isinstance(given, (pl.DataFrame, dict))
        found = ld.loglinear(given, "hair*eye + sex", counts="Freq" if listed else None)
        assert found.g2 == pytest.approx(wanted.g2)
        assert found.df == 15
        coef = found.coef(reference={"hair": "red", "eye": "blue", "sex": "male"})
        assert coef["sex[female]"] == pytest.approx(np.log(313 / 279))
        assert coef["hair[black]:eye[brown]"] == pytest.approx(np.log(68 * 17 / (20 * 26)))
    assert ld.loglinear(frame, "Freq ~ hair*eye + sex").g2 == pytest.approx(wanted.g2)
    assert ld.loglinear(frame, "Freq ~ hair + eye").fit.shape == (4, 4)  # of a frame the variables of the formula
    assert ld.loglinear(X, "hair + eye").fit.shape == (4, 4, 2)


def test_it_prints_as_statisticians_expect(tmp_path: Path) -> None:
    m = ld.loglinear(HAIR, "hair*eye + sex")
    assert "G2      19.8566 on 15 df, p = 0.178" in repr(m)
    assert "hair[brown]" in m.summary()
    assert "(intercept)" in m._repr_html_()
    boundary = repr(ld.loglinear(ld.datasets.titanic(), ".^2"))
    assert "status  the maximum likelihood estimate does not exist; in the limit 4 fitted counts are 0" in boundary
    assert "not in the model, so all levels have equal means: sex" in repr(ld.loglinear(HAIR, "hair*eye"))
    m.save(tmp_path / "m.npz")
    again = ld.load(tmp_path / "m.npz")
    assert repr(again) == repr(m)
    assert again.summary() == m.summary()
    assert repr(again.drop1()) == repr(m.drop1())


def test_a_model_draws_as_its_fit_does(tmp_path: Path) -> None:
    m = ld.loglinear(HAIR, "hair*eye + sex")
    m.save(tmp_path / "m.npz")
    for model in (m, ld.load(tmp_path / "m.npz")):
        drawn = np.asarray(model.plot.odds("hair", "eye").lines[1].get_xdata()).tolist()
        assert drawn == pytest.approx(m.odds("hair", "eye").estimate.tolist())


def test_odds_that_the_model_fixes_say_so() -> None:
    m = ld.loglinear(HAIR, "hair*eye + sex")
    odds = m.odds("hair", "sex")
    assert odds.estimate.tolist() == [1.0] * 3
    assert odds.standard_error.tolist() == [0.0] * 3
    assert "nan" not in str(odds)
    assert str(odds).endswith("\n3 without s.e.: fixed by the model: it involves no parameter.")
    assert not any(m.odds("hair", "eye").notes)
    assert np.asarray(m.plot.odds("hair", "sex").lines[1].get_xdata()).tolist() == [1.0] * 3


def test_formulas() -> None:
    X = xr.DataArray(np.arange(1, 17).reshape(2, 2, 2, 2), dims=["a", "b", "c", "hair colour"])
    written = {
        "a*b + c": "a*b + c",
        "a:b": "a*b",
        "(a + b + c)^2": "a*b + a*c + b*c",
        "(a + b + c)**2 - a:b": "a*c + b*c",
        ".^2 - a:b - `hair colour`:a": "a*c + b*c + b*`hair colour` + c*`hair colour`",
        "a*b*c - a:b:c": "a*b + a*c + b*c",
        "a*(b + c)": "a*b + a*c",
        "[ab][bc]": "a*b + b*c",
        "[a, b][`hair colour`]": "a*b + `hair colour`",
        "~ 'hair colour' + a": "a + `hair colour`",
        "1": "1",
    }
    for formula, same in written.items():
        assert ld.loglinear(X, formula).formula == same, formula
    assert ld.loglinear(X, [["a", "b"], "c"]).formula == "a*b + c"
    assert ld.loglinear(X, ["a", "b"]).formula == "a + b"
    n = ld.loglinear(X, "a*b + b*c + `hair colour`")
    for sign in (". ~ . + a:c", "~ . + a:c", "+ a:c", "a:c + ."):  # the dot is the model, as in R
        assert n.update(sign).formula == "a*b + a*c + b*c + `hair colour`", sign
    assert n.update(". - a:b").formula == n.update("- a:b").formula == "a + b*c + `hair colour`"
    assert n.update(". ~ a + b").formula == n.update("~ a + b").formula == "a + b"
    assert n.update("a + b").update(".^2 + c").formula == "a*b + c"
    loose = ld.loglinear(X, "a:b + c", hierarchical=False)
    assert loose.update(". + a").formula == "a + c + a:b"
    assert loose.fit.n_params == 2
    assert loose.formula == "c + a:b"


HAUSER = SQUARES["hauser79"]


def test_coefficients_beside_an_association() -> None:
    m = ld.loglinear(HAUSER, "A + B + 1:uniform(A, B) + diagonal(A, B)")
    tied = "A by B, per step of both"
    for coding in ("treatment", "sum", "local"):
        assert m.coef(coding)[tied] == pytest.approx(0.1584003, abs=5e-8)
    coef = m.coef()
    assert coef.names[:2] == ("(intercept)", "A[1]")
    assert coef.names[-1] == "A = B = 4"
    assert m.odds("A", "B")["A[3/2]:B[1/0]"] == pytest.approx(np.exp(0.1584003), rel=1e-6)
    # the same regression, written out
    i, j = np.indices((5, 5)).reshape(2, -1)
    Z = np.column_stack([np.ones(25), *(i == k for k in range(1, 5)), *(j == k for k in range(1, 5)), i * j])
    Z = np.column_stack([Z, *((i == k) & (j == k) for k in range(5))]).astype(float)
    n, eta = HAUSER.ravel().astype(float), np.log(HAUSER.ravel() + 0.5)
    for _ in range(30):
        mu = np.exp(eta)
        beta = np.linalg.solve(Z.T @ (mu[:, None] * Z), Z.T @ (mu * eta + n - mu))
        eta = Z @ beta
    covariance = np.linalg.inv(Z.T @ (np.exp(eta)[:, None] * Z))
    first = np.eye(15)
    first[0, 10] = 1.0  # features count from the first cell, which is on the diagonal
    assert_allclose(coef.estimate, first @ beta, atol=1e-7)
    assert_allclose(coef.standard_error, np.sqrt(np.diagonal(first @ covariance @ first.T)), rtol=1e-6)
    quasi = ld.loglinear(HAUSER, "quasi_symmetric(A, B)").coef()
    assert quasi.names[:6] == ("(intercept)", "A[1]", "A[2]", "A[3]", "A[4]", "B[1]")
    assert "A[2/1]:B[2/1]" in quasi.names  # of a term that is tied in part: theta, the local log odds ratio


def test_a_model_reads_its_own_formula_of_functions(tmp_path: Path) -> None:
    """Names with blanks lost their quotes, and small numbers had exponents: neither was read back, nor was a file."""
    table = np.array([[5, 3, 2], [4, 6, 1], [1, 2, 7]])
    written = "`the son` + uniform(father, `the son`) + rows(`the son`, father, scores=[0, 0.00001, -2])"
    m = ld.loglinear(table, f"father + {written}", names=["father", "the son"])
    assert m.formula == f"father + {written}"
    assert m.update(m.formula).g2 == m.g2
    m.save(tmp_path / "model.npz")
    assert ld.load(tmp_path / "model.npz").formula == m.formula


def test_large_tables_stay_lists() -> None:
    rows = np.random.default_rng(0).integers(0, 2, (500, 40))
    X = ld.from_rows({f"v{k}": rows[:, k] for k in range(40)})
    chain = " + ".join(f"v{k}*v{k + 1}" for k in range(39))
    small, large = ld.loglinear(X, "."), ld.loglinear(X, chain)
    assert ld.anova(small, large).tests[0].df == 39


# --- bad input -------------------------------------------------------------------------------------------------------

FRAME = HAIR.to_frame("Freq")
FORMULAS: dict[Any, str] = {
    "hair*eyes": "unknown variable 'eyes'; did you mean 'eye'?",
    "[hair, eyes]": "did you mean 'eye'",
    "[HE": "cannot be read from its end",
    (("hair", "sexx"),): "did you mean 'sex'",
    "hair*eye - hair": "the term hair:eye needs hair, which the formula removes.",
    "hair + eye - sex": "removes sex, which is not in it",
    "-hair + eye": "removes hair, which is not in it",
    "hair + (eye": "cannot be read from its end: names are joined by + - * : and ^, and every bracket is closed",
    "hair eye": "cannot be read from 'eye' on (place 6)",
    "hair ? eye": "cannot be read from '?' on (place 6)",
    "hair + `eye": "cannot be read from '`' on (place 8)",
    "hair^x": "a power, after ^, must be a whole number",
    "": "is empty",
    3: "a model is a formula such as",
    "nonsense ~ hair*eye": "'nonsense' before ~, but a SparseTensor is read as a table",
    "twin(hair, eye)": "unknown function 'twin'",
    ". + uniform(hair, eyes)": "unknown mode 'eyes'; did you mean 'eye'?",
    ". + uniform(hair)": "the formula has uniform(hair); write uniform(a, b).",
    ". + rows(hair, eye, scores=[1, 2])": "scores of eye, which has 4 levels",
    "symmetric(hair, sex)": "hair has 4 levels, sex has 2",
}
BAD: list[tuple[Any, str]] = [
    (lambda: ld.loglinear(FRAME, "hair*eyes", counts="Freq"), "unknown column 'eyes'; did you mean 'eye'?"),
    (
        lambda: ld.loglinear(FRAME, "Freq ~ hair ~ eye"),
        "cannot be read from '~' on (place 13): before ~ stands the name of a column",
    ),
    (lambda: ld.loglinear(FRAME, "Freq ~ hair", counts="n"), "names the counts 'Freq', and counts= is passed too"),
    (lambda: ld.loglinear(HAIR, ".").update("n ~ . + hair:eye"), "'n' before ~; update keeps the counts: write '. ~'."),
    (lambda: ld.loglinear(np.ones((2, 2)), "[xx]", names=["xa", "xb"]), "may be xa or xb"),
    (lambda: ld.loglinear(FRAME, "hair*eye"), "pass counts='Freq'"),
    (
        lambda: ld.loglinear(FRAME, "hair", counts="Freq", missing="omit"),  # type: ignore[arg-type]
        "missing must be 'error', 'drop' or 'em', got 'omit'",
    ),
    (lambda: ld.loglinear(FRAME.assign(Freq=FRAME.Freq / 2), "Freq ~ hair"), "counts holds 5.5 in row 2; counts are"),
    (lambda: ld.loglinear([[1, np.nan], [3, 4]], "."), "the count of [0, 1] is NaN"),
    (lambda: ld.loglinear([[1, 2], [3, 4]], ".", counts="n"), "only a data frame has columns"),
    (lambda: ld.anova(ld.loglinear(HAIR, ".")), "two fits or more"),
    (
        lambda: ld.loglinear(HAIR, ".").step("hqc"),  # type: ignore[arg-type]
        "must be 'aic' or 'bic', got 'hqc'",
    ),
    (lambda: ld.loglinear(HAIR, "hair*eye").step(scope="hair"), "does not contain the model: eye is missing"),
    (lambda: ld.loglinear(HAIR, ".^2").step(type="decomposable"), "whose generators are the cliques of its graph"),
    (lambda: ld.loglinear(HAIR, "hair:eye", hierarchical=False).drop1(), "this one has hierarchical=False"),
    (lambda: ld.loglinear(HAIR, ".").evidence(0), "must be a finite number > 0, got 0"),
    (partial(ld.loglinear, np.ones((2,) * 18), "[ABCDEFGHIJKLMNOPQR]"), "18 modes have 262,143 sets of up to 18 modes"),
]


BAD += [(partial(ld.loglinear, HAIR, formula), text) for formula, text in FORMULAS.items()]


@pytest.mark.parametrize(("ask", "text"), BAD, ids=[text for _, text in BAD])
def test_bad_input_is_told(ask: Any, text: str) -> None:
    with pytest.raises(ld.LegendreError) as caught:
        ask()
    assert text in str(caught.value)


def test_what_is_left_out_is_said() -> None:
    one = ld.from_rows(FRAME.assign(year=1974), counts="Freq")
    for formula in ("hair*eye*year + sex", ".^2 - hair:sex - eye:sex + year", "[HEY][S]"):
        for m in (ld.loglinear(one, formula), ld.loglinear(FRAME.assign(year=1974), formula, counts="Freq")):
            assert m.g2 == pytest.approx(19.85656, abs=5e-5), "as if it were not there"
            assert m.df == 15
    m = ld.loglinear([[4, 0, 3], [6, 0, 2]], ".")
    assert m.df == 1
    assert "in the limit 2 fitted counts are 0" in repr(m)
    assert m.coef()["B[1]"] == -np.inf
    assert m.coef()["B[2]"] == pytest.approx(np.log(0.5))


def test_rows_without_a_value_are_left_out_aloud() -> None:
    cases = {"a": ["x", "x", None, "y", "y", "y"], "b": ["p", "q", "p", None, "q", "p"], "n": [3, 1, 9, 2, 5, 4]}
    said = "Left out: 2 of 6 rows, which lack a value of a (1), b (1)."
    for given in (cases, pd.DataFrame(cases), pl.DataFrame(cases)):
        with pytest.raises(ld.LegendreError, match="column 'a' is missing in row 2"):
            ld.loglinear(given, "n ~ a + b")
        X = ld.from_rows(given, ["a", "b"], "n", missing="drop")
        assert X.toarray().tolist() == [[3, 1], [4, 5]]
        assert X.notes == (said,)
        for m in (ld.loglinear(given, "n ~ a + b", missing="drop"), ld.loglinear(X, "a + b")):
            assert m.fit.total == 13
            assert said in repr(m)


def test_sparse_tables_against_a_linear_program() -> None:
    """Vanishing cells, degrees of freedom and G2 of 200 random tables, most of them without an estimate."""
    random, at_boundary = np.random.default_rng(14), 0
    shapes = [((2, 3), [".", "A*B"]), ((3, 3), ["."]), ((2, 2, 3), [".", ".^2", "A*B + C", "A*B + B*C"])]
    for _ in range(200):
        shape, formulas = shapes[random.integers(len(shapes))]
        n = random.poisson(random.choice([0.5, 1.0, 2.0]), shape)
        while n.sum() < 2:
            n = random.poisson(1.0, shape)
        m = ld.loglinear(n, formulas[random.integers(len(formulas))])
        cells = np.argwhere(np.ones(shape))
        Z = np.hstack([np.ones((len(cells), 1)), (m.fit.basis[None] <= cells[:, None]).all(axis=2)]).astype(float)
        stays, counts = cells_that_stay(Z, n.ravel().astype(float)), n.ravel().astype(float)
        assert np.array_equal(m.fit.vanishing_cells, cells[~stays])
        assert m.df == stays.sum() - np.linalg.matrix_rank(Z[stays])
        assert m.g2 == pytest.approx(deviance_of(Z[stays], counts[stays]), abs=1e-7)
        at_boundary += not stays.all()
    assert at_boundary > 60


TOPOLOGY = "[[2, 4, 5, 5, 5], [3, 4, 5, 5, 5], [5, 5, 5, 5, 5], [5, 5, 5, 4, 4], [5, 5, 5, 4, 1]]"
ASSOCIATIONS = [
    ("mental", "a + b", 47.41784679, 15),
    ("mental", "a + b + uniform(a, b)", 9.89512355, 14),
    ("mental", "a + b + linear(a, b)", 9.89512355, 14),
    ("mental", "a + b + columns(a, b)", 6.280760919, 12),
    ("mental", "a + b + rows(a, b)", 6.82933437, 10),
    ("hauser79", "a + b", 6170.130145, 16),
    ("hauser79", "a + b + diagonal(a, b)", 683.3417873, 11),
    ("hauser79", "quasi_symmetric(a, b)", 27.44793499, 6),
    ("hauser79", "a + b + uniform(a, b) + diagonal(a, b)", 73.00701489, 10),
    ("hauser79", f"a + b + topological({TOPOLOGY}, a, b)", 66.56695437, 12),
    ("vision", "symmetric(a, b)", 19.24918745, 6),
    ("vision", "a + b + quasi_symmetric(a, b)", 7.270761834, 3),
    ("vision", "a + b + diagonal(a, b)", 199.1061867, 5),
]


@pytest.mark.parametrize(("name", "formula", "g2", "df"), ASSOCIATIONS)
def test_association_models_by_formula_are_those_of_r(name: str, formula: str, g2: float, df: int) -> None:
    model = ld.loglinear(SQUARES[name], formula, names=["a", "b"])
    assert model.g2 == pytest.approx(g2, abs=1e-6)
    assert model.df == df


def test_anova_names_the_variables_that_differ_before_all_else() -> None:
    rows = np.random.default_rng(0).integers(0, 2, size=(200, 12))
    large = ld.decompose(ld.from_rows({f"c{k}": column for k, column in enumerate(rows.T)}), "interactions(1)")
    with pytest.raises(ld.errors.InvalidQuery, match="anova: the variables differ: mode 0"):
        ld.anova(large, ld.decompose([[1, 2], [3, 6]], "interactions(1)"))


def test_warnings_point_at_the_line_of_the_call() -> None:
    rows = np.random.default_rng(0).integers(0, 3, size=(300, 3)).astype(float)
    rows[::7, 0] = np.nan
    table = dict(zip("abc", rows.T, strict=True))
    with pytest.warns(ld.ConvergenceWarning) as first:
        model = ld.loglinear(table, ".^2", missing="em", tol=1e-300)
    with pytest.warns(ld.ConvergenceWarning) as second:
        model.update("- a:b")
    assert [warning.filename for warning in (first[0], second[0])] == [__file__] * 2
