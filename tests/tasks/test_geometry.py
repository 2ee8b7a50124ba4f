"""Geodesics, Pythagoras and the ladder: what the theorems say of them, for all tensors, supports and bases."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chi2

import legendre as ld
from cases import Case
from legendre.tasks.geometry import (
    e_geodesic,
    m_geodesic,
    plot_ladder,
    plot_triangle,
    pythagoras,
)
from oracles import FloatArray, distribution, divergence
from strategies import count_tables, masks, positive_tensors, problems, seeds, shapes

TABLE = np.array([[[911, 538], [44, 456]], [[3, 43], [2, 279]]])
Pair = tuple[FloatArray, FloatArray]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    shape = draw(shapes(max_cells=24))
    return draw(positive_tensors(shape)), draw(positive_tensors(shape))


# geodesics


@given(pairs(), st.floats(-2.0, 3.0))
def test_an_e_geodesic_is_straight_in_theta(pair: Pair, t: float) -> None:
    P, Q = pair
    between = (1 - t) * ld.dual.to_theta(P) + t * ld.dual.to_theta(Q)
    found = ld.dual.to_theta(e_geodesic(P, Q, t))
    bottom = (0,) * P.ndim
    between[bottom] = found[bottom] = 0.0  # -psi, which is convex along the line
    assert_allclose(found, between, atol=1e-10)


@given(pairs(), st.floats(0.0, 1.0))
def test_an_m_geodesic_is_straight_in_eta(pair: Pair, t: float) -> None:
    P, Q = pair
    assert_allclose(
        ld.dual.to_eta(m_geodesic(P, Q, t)), (1 - t) * ld.dual.to_eta(P) + t * ld.dual.to_eta(Q), atol=1e-13
    )


@given(shapes(max_cells=24), st.data())
def test_an_e_geodesic_lives_on_the_common_support(shape: tuple[int, ...], data: st.DataObject) -> None:
    P, Q = data.draw(count_tables(shape)), data.draw(count_tables(shape))
    common = (P > 0) & (Q > 0)
    if not common.any():
        with pytest.raises(ld.errors.InvalidTensor, match="P and Q have disjoint supports"):
            e_geodesic(P, Q, 0.5)
        return
    line = e_geodesic(P, Q, [0.0, 0.25, 1.0])
    assert ((line > 0) == common).all()
    assert_allclose(line[0], np.where(common, P, 0.0) / P[common].sum(), rtol=1e-12)
    assert_allclose(line[2], np.where(common, Q, 0.0) / Q[common].sum(), rtol=1e-12)


def test_an_m_geodesic_ends_at_the_boundary() -> None:
    """(1-t) (1, 3) + t (2, 2), over 4: from (0, 1) at t = -1 to (1, 0) at t = 3."""
    assert_allclose(m_geodesic([1, 3], [2, 2], [-1.0, 3.0]), [[0, 1], [1, 0]], atol=1e-15)
    with pytest.raises(
        ld.errors.InvalidSetting,
        match=r"the m-geodesic leaves the simplex at .* t = 3\.2: a probability would be negative",
    ):
        m_geodesic([1, 3], [2, 2], [0.5, 3.2])


# Pythagoras


@given(problems(weighted=True), seeds)
def test_pythagoras_holds_for_members(case: Case, seed: int) -> None:
    """For positive data, any support, any basis, any base measure and any R in the model."""
    theta = np.random.default_rng(seed).normal(size=len(case.basis))
    r = distribution(case.Z, theta, case.r)
    R = np.zeros(case.X.shape)
    R[tuple(case.omega.T)] = r
    fit = case.fit()
    triangle = pythagoras(fit, 3.0 * R)
    assert abs(triangle.defect) < 1e-10
    assert triangle.kl_pr == pytest.approx(divergence(case.p, r), abs=1e-12)
    assert triangle.kl_qr == pytest.approx(divergence(case.q(fit), r), abs=1e-12)
    assert triangle.kl_pq == pytest.approx(fit.kl, abs=1e-12)


@given(problems(zeros=True))
def test_pythagoras_holds_in_the_limit(case: Case) -> None:
    """Zeros in P may send Q to the boundary; the default R is uniform on the support."""
    triangle = pythagoras(case.fit())
    assert abs(triangle.defect) < 1e-10
    assert_allclose(triangle.R[tuple(case.omega.T)], 1 / len(case.omega))
    assert (triangle.R[~case.mask] == 0).all()


@given(pairs())
def test_the_defect_is_the_inner_product_of_the_sides(pair: Pair) -> None:
    """KL(P, R) - KL(P, Q) - KL(Q, R) = sum (p - q) log(q / r), whether R is in the model or not."""
    P, R = pair
    triangle = pythagoras(ld.decompose(P, "B1"), R)
    p, q, r = triangle.P, triangle.Q, triangle.R
    assert triangle.defect == pytest.approx(float(((p - q) * np.log(q / r)).sum()), abs=1e-12)


def test_missing_cells_are_no_part_of_the_triangle() -> None:
    X = np.outer([1.0, 2, 3], [4.0, 5, 6])
    X[0, 0], X[1, 2] = 9.0, np.nan
    triangle = pythagoras(ld.decompose(X, "B1"), np.outer([1, 1, 2], [1, 2, 3]))
    assert triangle.Q[1, 2] == 0.0
    assert triangle.Q.sum() == pytest.approx(1.0, abs=1e-12)
    assert abs(triangle.defect) < 1e-12


def test_the_base_measure_makes_the_e_projection(rng: np.random.Generator) -> None:
    """Q = decompose(P, B, base=R) is nearest to R of all S with P's eta on B: KL(S, R) = KL(S, Q) + KL(Q, R)."""
    P, R = rng.uniform(0.5, 2.0, size=(2, 3, 4))
    Q = ld.decompose(P, "B1", base=R).tensor()
    other = ld.decompose(P, "B1").tensor()
    for S in (P, other, m_geodesic(P, other, 0.3)):
        assert ld.dual.kl(S, R) == pytest.approx(ld.dual.kl(S, Q) + ld.dual.kl(Q, R), abs=1e-10)


# nested fits


def ladder(X: Any, bases: Any = None, **settings: Any) -> Any:
    """Compare the model without parameters with nested ones."""
    some = bases or [f"interactions({k + 1})" for k in range(np.ndim(X))]
    return ld.anova(*(ld.decompose(X, basis, **settings) for basis in ("empty", *some)))


@given(shapes(max_cells=36), st.data())
def test_a_ladder_of_counts(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Additive, never rising, and to the top: with zeros, structural and sampled."""
    X, mask = data.draw(count_tables(shape)), data.draw(masks(shape))
    mask = mask if X[mask].any() else np.ones(shape, dtype=np.bool_)
    found = ladder(X, support=mask)
    p = X[mask] / X[mask].sum()
    assert found.kl[0] == pytest.approx(divergence(p, np.full(p.size, 1 / p.size)), abs=1e-12)
    assert all(0 <= above <= below + 1e-15 for below, above in pairwise(found.kl))  # both may be rounding error
    assert found.explained.sum() + found.kl[-1] == pytest.approx(found.kl[0], abs=1e-13)
    assert found.kl[-1] < 1e-12
    added = np.diff([m.n_params for m in found.models])
    assert all(0 <= test.df <= more for test, more in zip(found.tests, added, strict=True))
    if (X[mask] > 0).all():
        assert sum(test.df for test in found.tests) == p.size - 1


@given(problems(weighted=True, max_order=3), st.integers(0, 6))
def test_a_step_explains_the_divergence_between_projections(case: Case, cut: int) -> None:
    small, large = case.basis[:cut], case.basis
    found = ladder(case.X, [small, large], support=case.mask, base=case.base)
    below, above = (case.q(ld.decompose(case.X, b, support=case.mask, base=case.base)) for b in (small, large))
    ground = case.r / case.r.sum()
    assert found.explained[0] == pytest.approx(divergence(below, ground), abs=1e-10)
    assert found.explained[1] == pytest.approx(divergence(above, below), abs=1e-10)
    assert found.kl[-1] == pytest.approx(divergence(case.p, above), abs=1e-12)


def test_the_steps_are_the_g2_decomposition() -> None:
    """Against the saturated model: independence 1286.02 on 4, no three-way interaction 0.374 on 1 (Agresti)."""
    found = ladder(TABLE)
    g2, df = [test.statistic for test in found.tests], [test.df for test in found.tests]
    assert df == [3, 3, 1]
    assert g2[1] + g2[2] == pytest.approx(1286.02, abs=5e-3)
    assert g2[2] == pytest.approx(0.374, abs=5e-4)
    assert [test.p_value for test in found.tests] == pytest.approx(chi2.sf(g2, df), rel=1e-12)
    margins = [TABLE.sum(axis=others) for others in ((1, 2), (0, 2), (0, 1))]
    one_body = sum(2 * m @ np.log(m / m.mean()) for m in margins)
    assert g2[0] == pytest.approx(one_body, rel=1e-12)


def test_only_counts_have_tests() -> None:
    found = ladder(TABLE / 7)
    assert all(np.isnan(test.statistic) and test.df for test in found.tests)
    assert "LRT" not in repr(found)
    assert repr(found).splitlines()[3].split() == ["2", "interactions(1)", "3", "0.282518", "0.343902", "54.90%"]
    assert np.isnan(ladder(np.full((2, 3), 7)).share).all()


# pictures


def axes(**settings: str) -> Any:
    from matplotlib.figure import Figure

    return Figure().add_subplot(**settings)


@settings(max_examples=15)
@given(problems(max_cells=12, max_params=4))
def test_the_triangle_is_drawn_to_scale(case: Case) -> None:
    triangle = pythagoras(case.fit())
    ax: Any = plot_triangle(triangle, axes())
    lengths = [np.linalg.norm(line.get_xydata()[1] - line.get_xydata()[0]) for line in ax.get_lines()[1:4]]
    expected = np.sqrt([2 * triangle.kl_pq, 2 * triangle.kl_qr, 2 * triangle.kl_pr])
    assert_allclose(lengths, expected, atol=1e-6)


def test_the_steps_of_the_ladder() -> None:
    found = ladder(TABLE)
    ax: Any = plot_ladder(found, axes())
    grey, blue = ax.containers
    assert [bar.get_height() for bar in grey] == found.kl.tolist()
    assert [bar.get_height() for bar in blue] == found.explained.tolist()
    assert [bar.get_y() for bar in blue] == found.kl[1:].tolist()
    assert [text.get_text() for text in ax.texts] == ["54.9 %", "45.1 %", "0.0131 %"]
    assert [label.get_text() for label in ax.get_xticklabels()] == list(found.names)


FIT = ld.decompose([[4, 1], [2, 3]], "B1")
TROUBLE: list[tuple[Callable[[], object], str]] = [
    (lambda: e_geodesic([1, 2], [2, 1], [[0.5], [0.1, 0.2]]), "t is not a rectangular array"),
    (lambda: m_geodesic([1, 2], [2, 1], np.nan), "t must be a finite number or an array"),
    (lambda: e_geodesic([1, 2], [1, -2], 0.5), r"^Q\[1\] = -2: entries must be finite and not negative"),
    (lambda: m_geodesic([1, 2], [1, 2, 3], 0.5), r"P has shape \(2,\), Q has shape \(3,\)"),
    (lambda: pythagoras(FIT, [[1, 0], [1, 1]]), r"R\[0, 1\] = 0 where Q\[0, 1\] > 0, so KL\(Q, R\) is infinite"),
    (lambda: pythagoras(FIT, [1, 1]), r"R has shape \(2,\), the decomposition has shape \(2, 2\)"),
    (lambda: pythagoras(np.ones((2, 2))), r"takes a decomposition, got ndarray: pythagoras\(decompose\(P, basis"),  # type: ignore[arg-type]
    (lambda: plot_triangle(pythagoras(FIT, [[1, 2], [3, 1]])), r"the angle at Q is not right: .* = 0\.1.*R is not in"),
]


@pytest.mark.parametrize(("call", "text"), TROUBLE, ids=range(len(TROUBLE)))
def test_trouble_is_named(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ld.LegendreError, match=text):
        call()
