"""The same call gives the same bits."""

from __future__ import annotations

import pytest
from numpy.testing import assert_array_equal

import legendre as ld
from cases import NAMED


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("solver", ["natural", "natural-cg", "auto"])
@pytest.mark.parametrize("engine", ["grid", "sheet", "stream"])
def test_the_same_fit_twice(engine: str, solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine != "grid":
        monkeypatch.setattr("legendre.core.limits.NUMPY_CELLS", 0)
        monkeypatch.setattr("legendre.core.limits.COMPILED_CELLS", 1)
    if engine == "sheet":
        monkeypatch.setattr("legendre.engines.compiled.SlabEngine.applies", lambda _: False)
    X = NAMED["few_cuts"].X
    for basis in (ld.B1() | ld.B3(3), ld.interactions(2)):
        first, second = (ld.decompose(X, basis, solver=solver) for _ in range(2))
        assert first.history == second.history
        assert_array_equal(second.theta, first.theta)
        assert_array_equal(second.tensor(), first.tensor())
        assert (second.psi, second.gap) == (first.psi, first.gap)
