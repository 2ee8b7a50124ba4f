"""Cholesky factors: the same bits whatever number of threads LAPACK may use."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from legendre.core.sums.linalg import factorise


@pytest.mark.parametrize("size", [8, 16, 63, 64, 200])
def test_the_diagonal_of_the_inverse_does_not_depend_on_the_number_of_threads(size: int) -> None:
    rows = np.random.default_rng(size).standard_normal((size, 2 * size))
    gram = rows @ rows.T
    found = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            found.append(factorise(gram.copy(), 2 * size).inverse_diagonal())
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found[0], np.diagonal(np.linalg.inv(gram)), rtol=1e-9)
