"""Cholesky factors: inverses and solutions, with dependent rows too."""

from __future__ import annotations

import numpy as np
import pytest

from legendre.core.sums.linalg import factorise


@pytest.mark.parametrize("dependent", [0, 2])
def test_several_right_sides_are_solved_as_each_of_them(dependent: int) -> None:
    """Also where rows are scaled and put in another order, because some are dependent or nearly so."""
    rows = np.random.default_rng(5).standard_normal((6, 9)) * 10.0 ** np.arange(-3, 3)[:, None]
    rows[:dependent] = rows[-1]
    rows[2] = rows[3] * (1 + 1e-9)
    factor = factorise(rows @ rows.T, 9)
    assert len(factor.columns) < 6
    found = factor.solve(np.eye(6))
    np.testing.assert_array_equal(found, np.stack([factor.solve(one) for one in np.eye(6)], axis=1))
    own = np.ix_(factor.columns, factor.columns)
    np.testing.assert_allclose(found[own], np.linalg.inv((rows @ rows.T)[own]), rtol=1e-6)
