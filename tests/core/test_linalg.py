"""Cholesky factors: the same bits whatever number of threads LAPACK may use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from legendre.core.sums.linalg import factorise


@pytest.mark.thread_unsafe(reason="BLAS has one number of threads for the process")
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


@pytest.mark.thread_unsafe(reason="BLAS has one number of threads for the process")
def test_a_limit_that_the_main_thread_waits_in_does_not_change_bits() -> None:
    """The library threadpoolctl lets no other thread change the number meanwhile, and says nothing."""
    rows = np.random.default_rng(3).standard_normal((300, 400))
    gram = rows @ rows.T
    alone = factorise(gram.copy(), 400).lower.tobytes()
    with ThreadPoolExecutor(1) as pool:
        for threads in (1, 2, 2):
            with threadpool_limits(limits=threads, user_api="blas"):
                assert pool.submit(lambda: factorise(gram.copy(), 400).lower.tobytes()).result() == alone
                assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {threads}


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
