"""A gap that is bounded by products with the Fisher matrix, against one that is bounded with its factor."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import legendre as ld
from legendre.basis.basis import Cells
from legendre.core import limits
from legendre.core.types import FloatArray
from legendre.data.dense import observe
from legendre.fitting.fit import Known, Settings, plan_on
from legendre.solvers.loop import Target
from legendre.solvers.newton import Workspace, bound, bound_nearby


@dataclass(frozen=True)
class Near:
    """The inverse of a matrix."""

    matrix: FloatArray

    def apply(self, vector: FloatArray) -> FloatArray:
        """Solve."""
        return np.asarray(np.linalg.solve(self.matrix, vector), dtype=np.float64)


def target_and_fisher(*, products: bool) -> tuple[Target, FloatArray, FloatArray]:
    """Return a problem near its answer, the start, and the Fisher matrix there."""
    rng = np.random.default_rng(3)
    data = observe(rng.random((6, 7, 5)) + 0.1)
    cells = np.unique(rng.integers(0, 5, (40, 3)), axis=0)[1:]
    near = Near(np.eye(len(cells))) if products else None
    plan = plan_on(data, Cells(cells), Settings(), Known(inverse=near))
    answer = ld.decompose(data.values, cells)
    theta = answer.theta + 1e-7 * rng.normal(size=len(cells))
    return plan.target, theta, plan.target.engine.fisher(plan.target.at(theta))


@pytest.mark.parametrize("off", [0.0, 0.02])
def test_products_bound_the_gap_as_a_factor_does(off: float) -> None:
    """Also where the inverse is that of a matrix nearby."""
    target, theta, fisher = target_and_fisher(products=True)
    point = target.at(theta)
    scale = 1.0 + off * np.random.default_rng(0).random(len(theta))
    found = bound_nearby(target, point, Near(fisher * scale[:, None] * scale))
    work = Workspace()
    gap, tilt = bound(target, point, work.solve(target, point), work)
    assert found is not None
    assert found[0] == pytest.approx(gap, rel=1e-9)
    assert found[1] == pytest.approx(tilt, rel=1e-4)


def test_an_inverse_that_is_far_off_bounds_nothing() -> None:
    """Then the Fisher matrix is factorised, and the answer is the same."""
    target, theta, fisher = target_and_fisher(products=True)
    point, far = target.at(theta), Near(np.diag(10.0 ** np.linspace(-6, 6, len(fisher))))
    assert bound_nearby(target, point, far) is None
    solver = ld.solvers.Natural()
    ends = [solver.finish(each, solver.start(each, theta)) for each in (replace(target, inverse=far), target)]
    assert ends[0].gap == pytest.approx(ends[1].gap, rel=1e-6)


def test_a_grown_basis_has_the_same_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the factor that it grew with, and with a new one."""
    X = np.random.default_rng(1).gamma(2.0, size=(7, 8, 9)) * np.linspace(1, 3, 9)
    plain = ld.decompose(X, ld.adaptive(40))
    monkeypatch.setattr(limits, "INVERSE_KEPT", 1)
    helped = ld.decompose(X, ld.adaptive(40))
    np.testing.assert_array_equal(helped.theta, plain.theta)
    assert helped.status is plain.status
    assert helped.rank == plain.rank
    assert helped.gap == pytest.approx(plain.gap, rel=1e-5)
