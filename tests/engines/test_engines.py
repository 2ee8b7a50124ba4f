"""The engine's five answers against the twin that works on the unmerged cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal

from cases import NAMED, SMALL, Case
from legendre.data.support import Support
from legendre.engines.protocol import Point
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model
from oracles import FloatArray, distribution, expectations, fisher_matrix, normaliser
from strategies import problems, seeds


def engine_of(case: Case) -> ReferenceEngine:
    return ReferenceEngine(Model.of(Support(case.X.shape, case.mask), case.base, case.basis))


def probabilities(case: Case, engine: ReferenceEngine, point: Point) -> FloatArray:
    """Unmerge the engine's probabilities: within a box they are shared out like the base measure."""
    model = engine.model
    with np.errstate(invalid="ignore"):
        density = model.quotient.spread(np.exp(engine.log_probabilities(point)) / model.weights)
    return case.on_omega(density) * case.r


def check(case: Case, theta: FloatArray) -> None:
    engine = engine_of(case)
    point = engine.at(theta)
    q = distribution(case.Z, theta, case.r)
    assert engine.n_params == len(case.basis)
    assert point.psi == pytest.approx(normaliser(case.Z, theta, case.r), abs=1e-10)
    assert_allclose(point.eta, expectations(case.Z, q), atol=1e-12)
    assert_allclose(probabilities(case, engine, point), q, rtol=1e-10)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_named_cases(name: str, rng: np.random.Generator) -> None:
    check(NAMED[name], rng.normal(size=len(NAMED[name].basis)))


@given(problems(weighted=True), seeds)
def test_random_cases(case: Case, seed: int) -> None:
    check(case, np.random.default_rng(seed).normal(size=len(case.basis)))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_the_fisher_matrix_of_named_cases(name: str, rng: np.random.Generator) -> None:
    case = SMALL[name]
    engine = engine_of(case)
    theta = rng.normal(size=len(case.basis))
    point = engine.at(theta)
    G = fisher_matrix(case.omega, case.basis, distribution(case.Z, theta, case.r))
    assert_allclose(engine.fisher(point), G, atol=1e-13)
    x = rng.normal(size=len(case.basis))
    assert_allclose(engine.fisher_product(point, x), G @ x, atol=1e-12)


@given(problems(max_cells=20, max_params=6, weighted=True), seeds)
def test_the_fisher_matrix_of_random_cases(case: Case, seed: int) -> None:
    engine = engine_of(case)
    theta = np.random.default_rng(seed).normal(size=len(case.basis))
    point = engine.at(theta)
    G = fisher_matrix(case.omega, case.basis, distribution(case.Z, theta, case.r))
    assert_allclose(engine.fisher(point), G, atol=1e-13)
    assert_array_equal(engine.fisher(point), engine.fisher(point).T)
    for column, unit in zip(G.T, np.eye(len(G)), strict=True):
        assert_allclose(engine.fisher_product(point, unit), column, atol=1e-13)


@pytest.mark.parametrize("size", [800.0, -800.0, 1e5])
def test_no_theta_overflows(size: float) -> None:
    """exp(800) is infinite in float64; psi and eta are not."""
    case = NAMED["vector"]
    engine = engine_of(case)
    point = engine.at(np.array([size, -size / 2]))
    assert np.isfinite(point.psi)
    assert np.isfinite(point.eta).all()
    assert np.exp(engine.log_probabilities(point)).sum() == pytest.approx(1.0)


def test_the_engine_does_not_change_theta(rng: np.random.Generator) -> None:
    case = NAMED["cube"]
    theta = rng.normal(size=len(case.basis))
    theta.flags.writeable = False
    engine = engine_of(case)
    point = engine.at(theta)
    engine.fisher(point)
    assert point.theta is theta
    assert_array_equal(point.cache.eta.ravel()[:1], [1.0])


@given(problems(), seeds)
def test_the_swing_bounds_the_tilt_of_log_q(case: Case, seed: int) -> None:
    move = np.random.default_rng(seed).normal(size=len(case.basis))
    tilt = case.Z @ move
    assert engine_of(case).swing(move) >= tilt.max() - tilt.min() - 1e-12


@pytest.mark.parametrize(("block", "kept"), [(1, 1000), (3, 1000), (3, 0), (128, 0)])
def test_blocks_do_not_change_the_fisher_matrix(block: int, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = NAMED["cube"]
    theta = np.linspace(-1, 1, len(case.basis))
    monkeypatch.setattr("legendre.engines.reference.BLOCK", block)
    monkeypatch.setattr("legendre.core.limits.KEPT_JOINS", kept)
    engine = engine_of(case)
    G = fisher_matrix(case.omega, case.basis, distribution(case.Z, theta, case.r))
    for _ in range(2):  # the second time from what was kept
        assert_allclose(engine.fisher(engine.at(theta)), G, atol=1e-13)
