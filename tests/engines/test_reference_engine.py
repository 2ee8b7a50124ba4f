"""The reference engine: no overflow, and blocks of the Fisher matrix."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import NAMED, Case
from legendre.data.observation import Support
from legendre.engines.reference import ReferenceEngine
from legendre.model.model import Model
from oracles import distribution, fisher_matrix


def engine_of(case: Case) -> ReferenceEngine:
    return ReferenceEngine(Model.of(Support(case.X.shape, case.mask), case.base, case.basis))


@pytest.mark.parametrize("size", [800.0, -800.0, 1e5])
def test_no_theta_overflows(size: float) -> None:
    """exp(800) is infinite in float64; psi and eta are not: three cells have theta = size, one half, two nothing."""
    case = NAMED["vector"]
    engine = engine_of(case)
    point = engine.at(np.array([size, -size / 2]))
    assert point.psi == pytest.approx(size + np.log(3) if size > 0 else np.log(2), rel=1e-15)
    assert_allclose(point.eta, [float(size > 0), 0.0], atol=1e-15)
    assert engine.probabilities(point).sum() == pytest.approx(1.0)


def test_the_engine_does_not_change_theta(rng: np.random.Generator) -> None:
    case = NAMED["cube"]
    theta = rng.normal(size=len(case.basis))
    theta.flags.writeable = False
    engine = engine_of(case)
    point = engine.at(theta)
    engine.fisher(point)
    assert point.theta is theta
    assert_array_equal(point.cache.above.ravel()[:1], [1.0])


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
