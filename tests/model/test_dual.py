"""theta, eta and KL as functions: each against its definition, and back again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import legendre as ld
from oracles import FloatArray, below, divergence
from strategies import count_tables, positive_tensors, shapes


@st.composite
def drawn(draw: st.DrawFn) -> FloatArray:
    return draw(positive_tensors(draw(shapes(max_cells=30))))


@given(drawn())
def test_theta_is_its_definition(X: FloatArray) -> None:
    """Eq. (2): log p is the sum of theta at or below."""
    theta, P = ld.dual.to_theta(X), X / X.sum()
    for v in np.ndindex(X.shape):
        assert sum(theta[u] for u in np.ndindex(X.shape) if below(u, v)) == pytest.approx(np.log(P[v]), abs=1e-9)
    assert_allclose(ld.dual.from_theta(theta), P, atol=1e-12)


@given(drawn())
def test_eta_is_its_definition(X: FloatArray) -> None:
    eta, P = ld.dual.to_eta(X), X / X.sum()
    for u in np.ndindex(X.shape):
        assert eta[u] == pytest.approx(sum(P[v] for v in np.ndindex(X.shape) if below(u, v)), abs=1e-12)
    assert eta[(0,) * X.ndim] == pytest.approx(1.0)
    assert_allclose(ld.dual.from_eta(eta), P, atol=1e-12)


@given(shapes(max_cells=30), st.data())
def test_kl(shape: tuple[int, ...], data: st.DataObject) -> None:
    X, Y = data.draw(count_tables(shape)), data.draw(positive_tensors(shape))
    p, q = X.ravel() / X.sum(), Y.ravel() / Y.sum()
    assert ld.dual.kl(X, Y) == pytest.approx(divergence(p, q), abs=1e-12)
    assert ld.dual.kl(X, X) == pytest.approx(0.0, abs=1e-15)
    assert ld.dual.kl(Y, X) == (pytest.approx(divergence(q, p), abs=1e-12) if X.all() else np.inf)


def test_legendre_duality(rng: np.random.Generator) -> None:
    """Psi and the negative entropy are conjugate: psi(theta) - H = theta . eta."""
    P = rng.uniform(0.1, 1.0, size=(3, 4))
    theta, eta = ld.dual.to_theta(P), ld.dual.to_eta(P)
    p = P / P.sum()
    inner = np.vdot(theta, eta) - theta[0, 0] * eta[0, 0]
    assert -theta[0, 0] + np.vdot(p, np.log(p)) == pytest.approx(inner, abs=1e-12)


def test_coordinates_of_a_fit(rng: np.random.Generator) -> None:
    """Theta outside B is 0 and eta on B is that of the data: the two halves of the decomposition."""
    X = rng.uniform(0.1, 1.0, size=(3, 4))
    fit = ld.decompose(X, "B1 + B3(1)")
    theta, eta = ld.dual.to_theta(fit.tensor()), ld.dual.to_eta(fit.tensor())
    assert_allclose(theta, fit.theta_tensor(), atol=1e-9)
    assert_allclose(eta[tuple(fit.basis.T)], ld.dual.to_eta(X)[tuple(fit.basis.T)], atol=1e-10)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: ld.dual.to_theta([[1, 2], [0, 3]]), r"P\[1, 0\] = 0: theta is fin"),
    (lambda: ld.dual.from_eta([1.0, 0.3, 0.5]), r"no tensor has these eta: cell \[1\] would ge"),
    (lambda: ld.dual.kl([1, 2], [1, 2, 3]), r"P has shape \(2,\), Q has shape \(3,\)"),
    (lambda: ld.dual.kl([1, 2], [0, 0]), "Q is zero everywhere"),
    (lambda: ld.dual.to_eta([1.0, -2.0]), r"P\[1\] = -2: entries must be finite and not negative"),
    (lambda: ld.dual.from_theta([0.0, np.nan]), "grids of finite numbers"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_refusals(call: Callable[[], object], words: str) -> None:
    with pytest.raises(ld.LegendreError, match=words):
        call()
