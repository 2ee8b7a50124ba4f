"""Rows that lack values: expectation-maximisation against the likelihood of what was observed, from its definition."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import legendre as ld
from legendre.core import limits
from legendre.core.errors import InvalidQuery, InvalidSamples, InvalidSupport
from legendre.results import LogLinear

Rows = dict[str, list[Any]]
NAMES = "abc"
LEVELS = {"a": ["a0", "a1"], "b": ["b0", "b1"], "c": ["c0", "c1", "c2"]}
# a 2 x 2 table with supplemental margins
SUPPLEMENTAL: Rows = {
    "y1": ["1", "1", "2", "2", "1", "2", None, None],
    "y2": ["1", "2", "1", "2", None, None, "1", "2"],
    "n": [100, 50, 75, 75, 30, 60, 28, 60],
}


def drawn(seed: int, n: int = 300, share: float = 0.25) -> Rows:
    """Draw rows in which a and b depend on each other, and values are missing at random."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 2, n), rng.integers(0, 3, n)
    codes = {"a": a, "b": (a + (rng.random(n) < 0.3)) % 2, "c": c}
    gone = {name: rng.random(n) < share for name in NAMES}
    return {name: [None if gone[name][i] else LEVELS[name][codes[name][i]] for i in range(n)] for name in NAMES}


def em(rows: Any, formula: str, **settings: Any) -> LogLinear:
    found = ld.loglinear(rows, formula, missing="em", **settings)
    assert isinstance(found, LogLinear)
    return found


def cells() -> list[tuple[int, ...]]:
    return list(product(range(2), range(2), range(3)))


def fits(cell: tuple[int, ...], shown: dict[str, Any]) -> bool:
    return all(LEVELS[name][cell[NAMES.index(name)]] == level for name, level in shown.items())


def design(formula: str) -> Any:
    """List dummy variables of treatment contrasts, without the constant: cells x parameters."""
    columns = []
    for term in ("a", "b", "c", *(["ab"] if "a*b" in formula else []), *(["bc"] if "b*c" in formula else [])):
        for levels in product(*(range(1, len(LEVELS[name])) for name in term)):
            wanted = dict(zip(term, levels, strict=True))
            columns.append([float(all(cell[NAMES.index(k)] == v for k, v in wanted.items())) for cell in cells()])
    return np.array(columns).T


def patterns(rows: Rows) -> list[tuple[int, list[int]]]:
    """Count equal rows; list the cells that each may belong to."""
    found: dict[tuple[Any, ...], int] = {}
    for row in zip(*(rows[name] for name in NAMES), strict=True):
        found[row] = found.get(row, 0) + 1
    out = []
    for row, n in found.items():
        shown = {name: level for name, level in zip(NAMES, row, strict=True) if level is not None}
        if shown:
            out.append((n, [j for j, cell in enumerate(cells()) if fits(cell, shown)]))
    return out


def objective(rows: Rows, Z: Any) -> Any:
    listed = patterns(rows)

    def value(beta: Any) -> float:
        logs = Z @ beta
        q = np.exp(logs - logs.max())
        q /= q.sum()
        return -float(sum(n * np.log(q[own].sum()) for n, own in listed))

    return value


@pytest.mark.parametrize("formula", ["a + b + c", "a*b + c", "a*b + b*c"])
def test_the_maximum_is_that_of_a_general_optimiser(formula: str) -> None:
    rows = drawn(1)
    m = em(rows, formula)
    Z = design(formula)
    value = objective(rows, Z)
    best = minimize(value, np.zeros(Z.shape[1]), method="BFGS", options={"gtol": 1e-7})
    assert m.converged
    assert m.local_maximum
    assert m.log_likelihoods[-1] == pytest.approx(-best.fun, abs=1e-8)
    np.testing.assert_allclose(m.coef().estimate[1:], best.x, atol=2e-5)
    q = np.ravel(m.fitted()) / m.fit.total
    found = sum(n * np.log(q[own].sum()) for n, own in patterns(rows))
    assert m.log_likelihoods[-1] == pytest.approx(found, abs=1e-9)
    assert (np.diff(m.log_likelihoods) >= -1e-9).all()


@pytest.mark.parametrize("formula", ["a + b + c", "a*b + b*c"])
def test_standard_errors_are_those_of_the_observed_information(formula: str) -> None:
    """Louis' formula against second differences of the likelihood of what was observed."""
    rows = drawn(2)
    m = em(rows, formula)
    value, beta, h = objective(rows, design(formula)), m.coef().estimate[1:], 1e-4
    k = len(beta)
    steps = np.eye(k) * h
    signs = list(product((1, -1), repeat=2))
    hessian = np.empty((k, k))
    for i, j in np.ndindex(k, k):
        hessian[i, j] = sum(s * t * value(beta + s * steps[i] + t * steps[j]) for s, t in signs) / (4 * h * h)
    np.testing.assert_allclose(m.coef().standard_error[1:], np.sqrt(np.diagonal(np.linalg.inv(hessian))), rtol=1e-5)
    whole = ld.loglinear(ld.from_rows(rows, missing="drop"), formula).coef().standard_error
    assert (m.coef().standard_error < whole).all()  # rows that lack values say something too


def test_monotone_patterns_have_a_closed_form() -> None:
    """Where b is known only of rows of which a is, P(a) comes from all rows and P(b | a) from the complete ones."""
    rows: Rows = {"a": [*"xxyyzz", *"xyz"], "b": [*"uvuvuv", None, None, None], "n": [5, 9, 7, 2, 4, 4, 11, 3, 8]}
    m = em(rows, "a*b", counts="n")
    complete = np.array(rows["n"][:6]).reshape(3, 2)
    every = complete.sum(axis=1) + rows["n"][6:]
    expected = every[:, None] * complete / complete.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(m.fitted(), expected, rtol=1e-9)
    apart = em(rows, "a + b", counts="n")
    test = ld.anova(apart, m).tests[0]  # the rows without b say nothing about whether they go together
    plain = ld.loglinear(complete, "A + B")
    assert test.statistic == pytest.approx(plain.g2, abs=1e-8)
    assert test.df == plain.df == apart.df
    assert apart.g2 == pytest.approx(plain.g2, abs=1e-6)


def test_sparse_rows_end_on_the_boundary_exactly() -> None:
    """Fitted counts that go to 0 are 0, their coefficients infinite, and no probabilities are better."""
    rows: Rows = {"a": [*"xxyyxy", None, None], "b": [*"uvuv", None, None, *"uv"], "n": [10, 5, 8, 0, 3, 6, 3, 9]}
    m = em(rows, "a*b", counts="n")
    assert m.fitted()[1, 1] == 0.0
    assert m.converged
    assert m.coef()["a[y]:b[v]"] == -np.inf
    assert np.isfinite(m.coef().standard_error[:3]).all()
    for seed in range(3):
        sparse = drawn(seed, n=25)
        saturated_model = em(sparse, "a*b*c")
        assert saturated_model.g2 == pytest.approx(0.0, abs=1e-5)


def test_a_likelihood_with_two_maxima_is_not_called_concave() -> None:
    """Twelve rows whose likelihood has two maxima: the lower one is what it says, a local maximum."""
    rows, formula = drawn(24, n=12, share=0.3), "a*b + b*c"
    m = em(rows, formula, columns=list(NAMES), levels=LEVELS)
    value, k = objective(rows, design(formula)), design(formula).shape[1]
    start = np.random.default_rng(0).normal(size=k)
    other = -minimize(value, start, method="BFGS", options={"gtol": 1e-6}).fun
    assert other > m.log_likelihoods[-1] + 0.01
    assert m.converged
    assert m.local_maximum
    assert "there may be others" in repr(m)


def test_variables_that_are_never_known_together() -> None:
    rows: Rows = {"a": ["x", "y", None, None], "b": [None, None, "u", "v"], "n": [10, 5, 8, 4]}
    both = em(rows, "a*b", counts="n")
    assert not both.local_maximum
    assert "flat" in both._describe_status()
    with pytest.raises(InvalidQuery, match="along some direction no information was observed"):
        both.coef()
    apart = em(rows, "a + b", counts="n")
    np.testing.assert_allclose(apart.fitted(), 27 * np.outer([2 / 3, 1 / 3], [2 / 3, 1 / 3]), rtol=1e-9)


def test_missing_completely_at_random() -> None:
    """The statistic from its definition: each pattern on its own against one table for all."""
    rows = drawn(5)
    m = em(rows, "a*b*c")
    apart = 0.0
    df = -(len(cells()) - 1)
    for has in product((True, False), repeat=3):
        names = [name for name, keep in zip(NAMES, has, strict=True) if keep]
        own = [
            tuple(rows[name][i] for name in names)
            for i in range(len(rows["a"]))
            if [rows[name][i] is not None for name in NAMES] == list(has)
        ]
        if names and own:
            counts = np.array([own.count(entry) for entry in set(own)])
            apart += float(counts @ np.log(counts / counts.sum()))
            df += int(np.prod([len(LEVELS[name]) for name in names])) - 1
    assert m.mcar.df == df
    assert m.mcar.statistic == pytest.approx(2 * (apart - m.log_likelihoods[-1]), abs=1e-5)


def test_structural_zeros_and_offsets() -> None:
    rows: Rows = {"a": [*"xxyyzz", *"xy"], "b": ["u", "v"] * 3 + [None, None], "n": [0, 9, 7, 2, 4, 4, 11, 3]}
    mask = np.array([[False, True], [True, True], [True, True]])
    m = em(rows, "a + b", counts="n", support=mask)
    assert m.converged
    assert m.df == 1
    assert m.fit.total == 40  # rows of x alone can only be (x, v)
    assert em(rows, "a + b", counts="n", base=mask * 1.0).df == 1
    nothing = np.array([[False, False], [True, True], [True, True]])
    with pytest.raises(InvalidSupport, match="11 rows have a x, which support or base says cannot occur"):
        em({**rows, "n": [0, 0, 7, 2, 4, 4, 11, 3]}, "a + b", counts="n", support=nothing)
    with pytest.raises(InvalidSupport, match="which cells are empty is not known where rows lack values"):
        em(rows, "a + b", counts="n", support="nonzero")
    with pytest.raises(InvalidSamples, match="the cells to which their 'n' belongs are not known"):
        em(rows, "a + b", counts="n", base="n")


def test_comparisons_are_differences_of_likelihoods() -> None:
    rows = drawn(6)
    small, large = (em(rows, f) for f in ("a + b + c", "a*b + c"))
    found = ld.anova(small, large)
    gain = 2 * (large.log_likelihoods[-1] - small.log_likelihoods[-1])
    assert found.tests[0].statistic == pytest.approx(gain, abs=1e-9)
    assert found.tests[0].statistic == pytest.approx(small.g2 - large.g2, abs=1e-9)
    assert found.tests[0].df == 1
    assert small.aic - large.aic == pytest.approx(gain - 2, abs=1e-8)
    assert large.drop1().to_frame().lrt["a:b"] == pytest.approx(gain, abs=1e-9)
    assert large.update("- a:b").g2 == pytest.approx(small.g2, abs=1e-9)
    with pytest.raises(InvalidQuery, match="rows that lack values"):
        ld.anova(ld.loglinear(rows, "a + b + c", missing="drop"), large)
    with pytest.raises(InvalidQuery, match="is not nested in"):
        ld.anova(em(rows, "a*c + b", columns=["a", "b", "c"]), large)
    with pytest.raises(InvalidQuery, match=r"the variables differ: a \(2 levels\), b .* and a .*, c .*, b "):
        ld.anova(large, em(rows, "a*c + b"))
    with pytest.raises(InvalidQuery, match="the rows differ"):
        ld.anova(small, em(drawn(7), "a*b + c")).tests[0]


def test_it_prints_and_is_saved(tmp_path: Path) -> None:
    m = em(SUPPLEMENTAL, "y1 + y2", counts="n")
    text = repr(m)
    assert "300 complete, 90 without y2, 88 without y1" in text
    assert "MCAR" in text
    assert "X2" not in text
    assert "a local maximum of the likelihood of what was observed; there may be others" in text
    assert "300 complete" in m._repr_html_()
    m.save(tmp_path / "m.npz")
    again = ld.load(tmp_path / "m.npz")
    assert type(again) is LogLinear
    assert repr(again) == text
    assert (again.coef().standard_error == m.coef().standard_error).all()
    assert again.update("y1*y2").g2 == pytest.approx(0.0, abs=1e-6)
    for ask in (m.bootstrap, m.evidence, m.residuals):
        with pytest.raises(InvalidQuery, match="needs complete rows, and some of these lack values"):
            ask()


def test_columns_with_gaps_are_read_as_columns_without() -> None:
    import pandas as pd

    order = ["low", "mid", "high"]
    size = pd.Categorical(["low", None, "high", "mid", "low"], categories=order, ordered=True)
    frame = pd.DataFrame({"size": size, "n_rooms": [1, 2, np.nan, 2, 1], "n": [5, 4, 3, 6, 2]})
    m = em(frame, "size + n_rooms", counts="n")
    assert m.fit.labels.levels_of(0).tolist() == order
    assert m.fit.labels.levels_of(1).tolist() == [1, 2]
    assert "13 complete, 4 without size, 3 without n_rooms" in repr(m)


def test_large_tables_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGEST_FEATURES", 40)
    with pytest.raises(ld.LegendreError, match=r"12 cells by 4 parameters; at most 40"):
        em(drawn(1), "a + b + c")


def test_bad_rows_are_told() -> None:
    rows: Rows = {"a": ["x", "y", None], "b": ["u", "v", "u"], "c": [None, None, None], "d": ["k", None, "k"]}
    with pytest.raises(InvalidSamples, match="column 'c' has no value in any row"):
        em(rows, "a + c")
    with pytest.raises(InvalidSamples, match=r"'a' is missing in row 2\. .*missing='drop'.* missing='em'"):
        ld.loglinear(rows, "a + b")
    m = ld.loglinear({**rows, "a": ["x", "y", None], "b": ["u", "v", None]}, "a + b", missing="em")
    assert type(m) is ld.results.LogLinear  # nothing is left to be completed
    assert "Left out: 1 of the rows, which lack every value." in repr(m)
    assert em(rows, "a*d + b").df == em(rows, "a + b").df  # d has one level only
    for how in ("error", "em"):  # of these rows none counts
        with pytest.raises(InvalidSamples, match="no row counts: each has a count of 0 or lacks every value"):
            ld.loglinear({"a": ["x", "y"], "n": [0, 0]}, "n ~ a", missing=how)


def test_what_did_not_converge_is_told() -> None:
    with pytest.warns(ld.ConvergenceWarning, match="expectation-maximisation stopped after .* above tol = 0"):
        m = em(drawn(8), "a*b + c", tol=0.0)
    assert not m.converged
    assert m.residual < 1e-12
    assert "not converged: the gradient of the log-likelihood per row is" in repr(m)


def test_what_a_file_does_not_hold_is_told(tmp_path: Path) -> None:
    own = {"alike": lambda y1, y2: (y1 == y2) * 1.0}
    m = em(SUPPLEMENTAL, "y1 + y2 + alike(y1, y2)", counts="n", features=own)
    assert m.df == 0
    m.save(tmp_path / "m.npz")
    loaded = ld.load(tmp_path / "m.npz")
    assert loaded.coef()["alike(y1, y2)"] == m.coef()["alike(y1, y2)"]
    assert loaded.update("y1 + y2").df == 1
    assert loaded.update("y1 + y2").update(". ~ . + y1:y2").formula == "y1*y2"
    assert loaded.update(". ~ .", features=own).g2 == pytest.approx(m.g2, abs=1e-9)
    with pytest.raises(InvalidQuery, match="the feature 'alike' is not in the file that this model was loaded from"):
        loaded.update("- y1")


@pytest.mark.parametrize("last", [20, 25], ids=["whole numbers", "fractions"])
def test_the_completed_table_is_not_taken_for_counts(last: int) -> None:
    """Standard errors from it would be those of complete rows: too small."""
    rows: Rows = {"a": list("yynny"), "b": ["y", "n", "y", "n", None], "n": [20, 20, 20, 20, last]}
    m = ld.loglinear(rows, "a*b", counts="n", missing="em")
    with pytest.raises(InvalidQuery, match=r"rows that lack values were divided among.*m\.coef\(\) and m\."):
        m.fit.inference()
    listed = str(m.fit.parameters())
    assert "3 without s.e.: rows that lack values were divided among the cells, so standard errors would be" in listed


# --- where the arithmetic or the rows leave little room ---


CROSSED: Rows = {
    "a": ["x", "x", "y", "x", "y", None, None],
    "b": ["u", "v", "u", None, None, "u", "v"],
    "n": [20, 20, 20, 5, 60, 5, 60],
}
# a chain of five variables of which most rows know two; its maximum leaves two of 32 cells
CHAIN = "uu... .vvv. ..u.. uuuu. u.... ..uu. u.... ....u ..v.. uu..u ..v.v ..uu. ...uu .u... uuuuu"


@pytest.mark.parametrize("last", [-36.0, -30.0, 30.0, 36.0])
def test_a_saturated_fit_does_not_depend_on_its_offset(last: float) -> None:
    plain = em(CROSSED, "a*b", counts="n")
    shifted = em(CROSSED, "a*b", counts="n", base=[[1.0, 1.0], [1.0, np.exp(last)]])
    np.testing.assert_allclose(shifted.fitted(), plain.fitted(), rtol=1e-7)
    assert shifted.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-9)


def chain() -> LogLinear:
    rows = {c: [None if row[k] == "." else row[k] for row in CHAIN.split()] for k, c in enumerate("abcde")}
    return em(rows, "a*b + b*c + c*d + d*e", counts="rows", levels={c: ["u", "v"] for c in "abcde"})


def test_counts_that_go_to_zero_late_are_zero_exactly() -> None:
    """The way there is interrupted by counts that are no limit yet; the limit is looked for at its end again."""
    m = chain()
    fitted = np.sort(np.asarray(m.fitted()).ravel())
    assert (fitted[:-2] == 0).all()
    np.testing.assert_allclose(fitted[-2:], [45 / 13, 150 / 13], rtol=1e-8)
    assert m.fit.n_vanishing == 30
    assert "30 fitted counts are 0 in the limit" in repr(m)


@pytest.mark.parametrize("n", [[10, 5, 8, 4], [10, 0, 8, 4]])
def test_models_that_rows_cannot_tell_apart_have_one_aic(n: list[int]) -> None:
    rows: Rows = {"a": ["x", "y", None, None], "b": [None, None, "u", "v"], "n": n}
    both, apart = (em(rows, f, counts="n", levels={"a": ["x", "y"]}) for f in ("a*b", "a + b"))
    assert both.log_likelihood == pytest.approx(apart.log_likelihood, abs=1e-9)
    assert (both.df, apart.df, both.rank, apart.rank) == (0, 0, 2, 2)
    assert (both.aic, both.bic) == pytest.approx((apart.aic, apart.bic), abs=1e-8)
    assert ld.anova(both, apart).tests[0].df == ld.anova(apart, both).tests[0].df == 0


def test_counts_that_are_small_on_the_way_may_rise_again() -> None:
    """Of 15 rows that lack half of their values: eleven cells at once taken as 0 would leave G2 = 0.076."""
    text = "..v. .v.. u..v ..u. vvv. ..v. v.v. u... .v.u ..uv .vvv .vvu v.vv ...v ..vv"
    rows = {c: [None if row[k] == "." else row[k] for row in text.split()] for k, c in enumerate("abcd")}
    m = em(rows, "a*b*c*d", levels={c: ["u", "v"] for c in "abcd"})
    assert m.g2 == pytest.approx(0.0, abs=1e-6)


def test_fitted_counts_sum_to_the_number_of_rows_at_the_boundary() -> None:
    """Small counts that are taken as 0 go to the other cells, not away."""
    m = em(
        {"a": ["x", None], "b": [None, "u"], "n": [3, 3]}, "a + b", counts="n", levels={"a": [*"xyz"], "b": [*"uvw"]}
    )
    assert m.fit.n_vanishing == 8
    assert m.fit.total == pytest.approx(6.0, abs=1e-14)
    assert m.fitted()[0, 0] == pytest.approx(6.0, abs=1e-14)


def test_the_likelihood_does_not_fall_where_cells_vanish_on_the_way() -> None:
    """A fit of a completed table may lose cells: its theta says nothing of them."""
    rows = "xu.. xup. xu.. xu.. x... xu.. xv.s xv.t xv.. xv.. yu.. yu.. yu.. yuq. yu.. yv.t yv.. yv.. yv.. yv.. yv.."
    rows += " yv.. yv.t z..t zvpt zv.. zv.s zv.. zv.."
    named = {name: [None if row[k] == "." else row[k] for row in rows.split()] for k, name in enumerate("abcd")}
    m = em(named, ".^2", levels={"c": ["p", "q", "r"]})
    assert np.diff(m.log_likelihoods).min() >= -1e-13
    assert m.converged
