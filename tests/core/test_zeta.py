"""The zeta transform, its adjoint and both inverses against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from legendre.core.sums.zeta import moebius, moebius_adjoint, zeta, zeta_adjoint
from oracles import FloatArray, below
from strategies import positive_tensors, shapes

grids = shapes(max_cells=48).flatmap(positive_tensors)
whole = shapes(max_cells=48).flatmap(
    lambda shape: hnp.arrays(np.int64, shape, elements={"min_value": -9, "max_value": 9})
)


@given(grids)
def test_zeta_sums_what_is_below_and_its_adjoint_what_is_above(grid: FloatArray) -> None:
    flat = grid.ravel()
    order = np.array([[below(u, v) for u in np.ndindex(grid.shape)] for v in np.ndindex(grid.shape)])
    assert_allclose(zeta(grid).ravel(), order @ flat, rtol=1e-12)
    assert_allclose(zeta_adjoint(grid).ravel(), flat @ order, rtol=1e-12)


@given(whole)
def test_the_inverses_are_exact_on_whole_numbers(grid: FloatArray) -> None:
    assert_array_equal(moebius(zeta(grid)), grid)
    assert_array_equal(zeta(moebius(grid)), grid)
    assert_array_equal(moebius_adjoint(zeta_adjoint(grid)), grid)
    assert_array_equal(zeta_adjoint(moebius_adjoint(grid)), grid)


@pytest.mark.parametrize("transform", [zeta, zeta_adjoint, moebius, moebius_adjoint])
def test_the_input_stays_as_it_is(transform: object, rng: np.random.Generator) -> None:
    grid = rng.normal(size=(3, 1, 4))
    grid.flags.writeable = False
    before = grid.copy()
    assert callable(transform)
    out = transform(grid)
    assert_array_equal(grid, before)
    assert out.dtype == np.float64
    assert out.shape == grid.shape
    assert not np.shares_memory(out, grid)
