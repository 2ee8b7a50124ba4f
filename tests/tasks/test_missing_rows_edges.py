"""Rows that lack values, where the arithmetic or the rows leave little room."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import legendre as ld
from legendre.core import limits
from legendre.core.errors import InvalidQuery, InvalidSupport
from legendre.tasks.loglinear import em as ascent
from legendre.tasks.loglinear.observed import Margin
from legendre.tasks.loglinear.saturated import saturated

Rows = dict[str, list[Any]]
CROSSED: Rows = {
    "a": ["x", "x", "y", "x", "y", None, None],
    "b": ["u", "v", "u", None, None, "u", "v"],
    "n": [20, 20, 20, 5, 60, 5, 60],
}
# a chain of five variables of which most rows know two; its maximum leaves two of 32 cells
CHAIN = "uu... .vvv. ..u.. uuuu. u.... ..uu. u.... ....u ..v.. uu..u ..v.v ..uu. ...uu .u... uuuuu"


def em(rows: Any, formula: str, **settings: Any) -> ld.PartialLogLinear:
    found = ld.loglinear(rows, formula, missing="em", **settings)
    assert isinstance(found, ld.PartialLogLinear)
    return found


@pytest.mark.parametrize("scale", [1, 1000])
def test_only_the_best_probabilities_are_called_so_however_many_rows_there_are(scale: int) -> None:
    n = [2503 * scale, 2497 * scale, 2497 * scale, 2503 * scale, 7]
    rows: Rows = {"a": ["x", "x", "y", "y", "x"], "b": ["u", "v", "u", "v", None], "n": n}
    apart, saturated = em(rows, "a + b", counts="n"), em(rows, "a*b", counts="n")
    assert apart.g2 == pytest.approx(0.0144 * scale, rel=1e-3)
    assert not apart.global_maximum
    assert "a local maximum" in repr(apart)
    assert saturated.global_maximum
    assert "no probabilities have a higher likelihood" in repr(saturated)


@pytest.mark.parametrize("last", [-36.0, -30.0, 30.0, 36.0])
def test_a_saturated_fit_does_not_depend_on_its_offset(last: float) -> None:
    plain = em(CROSSED, "a*b", counts="n")
    shifted = em(CROSSED, "a*b", counts="n", offset=[[0.0, 0.0], [0.0, last]])
    np.testing.assert_allclose(shifted.fitted(), plain.fitted(), rtol=1e-7)
    assert shifted.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-9)
    assert shifted.global_maximum


@pytest.mark.parametrize("last", [-300.0, -40.0, 40.0, 690.0])
def test_offsets_beyond_the_arithmetic_are_refused(last: float) -> None:
    with pytest.raises(InvalidSupport, match=rf"differ by up to {abs(last):.1f}.* at most 36\.0, .* support="):
        em(CROSSED, "a*b", counts="n", offset=[[0.0, 0.0], [0.0, last]])


def chain() -> ld.PartialLogLinear:
    rows = {c: [None if row[k] == "." else row[k] for row in CHAIN.split()] for k, c in enumerate("abcde")}
    return em(rows, "a*b + b*c + c*d + d*e", counts="rows", levels={c: ["u", "v"] for c in "abcde"})


def test_counts_that_go_to_zero_late_are_zero_exactly() -> None:
    """The way there is interrupted by counts that are no limit yet; the limit is looked for at its end again."""
    m = chain()
    fitted = np.sort(np.asarray(m.fitted()).ravel())
    assert (fitted[:-2] == 0).all()
    np.testing.assert_allclose(fitted[-2:], [45 / 13, 150 / 13], rtol=1e-8)
    assert m.fit.n_vanishing == 30
    assert m.global_maximum
    assert "30 fitted counts are 0 in the limit" in repr(m)


def test_a_limit_that_was_not_found_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ascent, "_on_boundary", lambda *_: None)
    m = chain()
    assert np.isnan(m.missing_information)
    assert not m.local_maximum
    assert "not known: some fitted counts tend to 0" in repr(m)
    assert "a stationary point of the likelihood of what was observed; some fitted counts tend to 0" in m._status()
    with pytest.raises(InvalidQuery, match=r"some fitted counts tend to 0, the smallest is .*no standard errors"):
        m.coef()


def test_models_of_other_offsets_or_supports_are_not_compared() -> None:
    apart = em(CROSSED, "a + b", counts="n")
    weighted = em(CROSSED, "a*b", counts="n", offset=[[0.0, 0.0], [0.0, 1.0]])
    with pytest.raises(InvalidQuery, match=r"the base measures differ, first at \[1, 1\]: 1.0 and 2.7"):
        ld.anova(apart, weighted)
    holed = em(CROSSED, "a*b", counts="n", support=np.array([[True, True], [True, False]]))
    with pytest.raises(InvalidQuery, match=r"the supports differ, first at \[1, 1\]: True and False"):
        apart.against(holed)
    both = em(CROSSED, "a + b", counts="n", offset=[[0.0, 0.0], [0.0, 1.0]])
    assert ld.anova(both, weighted).tests[0].df == 1


def test_the_saturated_model_forms_only_kinds_of_rows_that_occur() -> None:
    n = 2000
    complete = Margin(np.bincount([3, 500, 1999], minlength=n).astype(np.float64), np.arange(n), complete=True)
    half = Margin(np.array([2.0, 1.0]), np.arange(n) // (n // 2), complete=False)
    tracemalloc.start()
    try:
        found = saturated((complete, half))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * n * n / 4
    np.testing.assert_allclose(found.q[[3, 500, 1999]], [1 / 3, 1 / 3, 1 / 3], atol=1e-8)


def test_cells_that_vanish_count_for_the_size_of_the_saturated_model(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Rows = {"a": ["x", "y", None], "b": ["u", "u", "u"]}
    levels = {"a": ["x", "y"], "b": ["u", *"klmnopqrst"]}
    assert em(rows, "a + b", levels=levels).fit.n_vanishing == 20
    monkeypatch.setattr(limits, "LARGEST_FEATURES", 60)
    with pytest.raises(ld.LegendreError, match=r"22 cells by 11 parameters and by 3 kinds of rows; at most 60"):
        em(rows, "a + b", levels=levels)


@pytest.mark.parametrize("n", [[10, 5, 8, 4], [10, 0, 8, 4]])
def test_models_that_rows_cannot_tell_apart_have_one_aic(n: list[int]) -> None:
    rows: Rows = {"a": ["x", "y", None, None], "b": [None, None, "u", "v"], "n": n}
    both, apart = (em(rows, f, counts="n", levels={"a": ["x", "y"]}) for f in ("a*b", "a + b"))
    assert both.log_likelihood == pytest.approx(apart.log_likelihood, abs=1e-9)
    assert both.inference.rank == apart.inference.rank == 2
    assert (both.aic, both.bic) == pytest.approx((apart.aic, apart.bic), abs=1e-8)
    assert both.inference.aic_on_face == pytest.approx(apart.inference.aic_on_face, abs=1e-8)
    assert ld.anova(both, apart).tests[0].df == ld.anova(apart, both).tests[0].df == 0


def test_small_counts_are_told_without_what_such_models_lack() -> None:
    rows: Rows = {"a": [*"xxyy", "x"], "b": [*"uvuv", None], "n": [2, 1, 1, 3, 2]}
    text = " ".join(repr(em(rows, "a + b", counts="n")).split())
    assert "the chi-square distribution of G2 is rough; differences of G2" in text
    assert "bootstrap" not in text
    assert "X2" not in text


def test_counts_that_are_small_on_the_way_may_rise_again() -> None:
    """Of 15 rows that lack half of their values: eleven cells at once taken as 0 would leave G2 = 0.076."""
    text = "..v. .v.. u..v ..u. vvv. ..v. v.v. u... .v.u ..uv .vvv .vvu v.vv ...v ..vv"
    rows = {c: [None if row[k] == "." else row[k] for row in text.split()] for k, c in enumerate("abcd")}
    m = em(rows, "a*b*c*d", levels={c: ["u", "v"] for c in "abcd"})
    assert m.g2 == pytest.approx(0.0, abs=1e-6)
    assert m.global_maximum


def test_fitted_counts_sum_to_the_number_of_rows_at_the_boundary() -> None:
    """Small counts that are taken as 0 go to the other cells, not away."""
    m = em(
        {"a": ["x", None], "b": [None, "u"], "n": [3, 3]}, "a + b", counts="n", levels={"a": [*"xyz"], "b": [*"uvw"]}
    )
    assert m.fit.n_vanishing == 8
    assert m.fit.total == pytest.approx(6.0, abs=1e-14)
    assert m.fitted()[0, 0] == pytest.approx(6.0, abs=1e-14)


def test_a_summary_needs_no_standard_errors() -> None:
    m = em({"a": ["x", "y", None, None], "b": [None, None, "u", "v"], "n": [3, 4, 5, 6]}, "a*b", counts="n")
    assert not m.local_maximum
    assert m.summary() == repr(m)
    with pytest.raises(InvalidQuery, match="do not determine all parameters"):
        m.coef()


def test_the_likelihood_does_not_fall_where_cells_vanish_on_the_way() -> None:
    """A fit of a completed table may lose cells: its theta says nothing of them."""
    rows = "xu.. xup. xu.. xu.. x... xu.. xv.s xv.t xv.. xv.. yu.. yu.. yu.. yuq. yu.. yv.t yv.. yv.. yv.. yv.. yv.."
    rows += " yv.. yv.t z..t zvpt zv.. zv.s zv.. zv.."
    named = {name: [None if row[k] == "." else row[k] for row in rows.split()] for k, name in enumerate("abcd")}
    m = em(named, ".^2", levels={"c": ["p", "q", "r"]})
    assert np.diff(m.log_likelihoods).min() >= -1e-13
    assert m.converged
    assert m.fit.n_vanishing == 24
