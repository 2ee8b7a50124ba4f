"""Linear programs in fractions, against HiGHS on small whole numbers, and on margins that HiGHS cannot tell from 0."""

from __future__ import annotations

import numpy as np
import pytest

from .exact import can_be_positive
from .oracle import possible


def margins_of(omega: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a matrix and its columns: which cells of Omega each sums, and to what."""
    cells = np.argwhere(omega)
    rows = [cells[:, k] == i for k in range(2) for i in range(T.shape[k])]
    return np.array(rows, dtype=np.int64), np.concatenate([T.sum(axis=1), T.sum(axis=0)]).astype(np.float64)


@pytest.mark.parametrize("seed", range(40))
def test_on_whole_numbers_it_is_the_linear_program_of_signs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    omega = rng.random(rng.integers(2, 5, size=2)) < 0.6
    omega[0, 0] = True
    T = np.where(omega, rng.integers(0, 3, omega.shape), 0)
    rows, wanted = margins_of(omega, T)
    found = [can_be_positive(rows, wanted, v) for v in range(rows.shape[1])]
    assert found == possible(rows.T.astype(np.float64), T[omega] > 0).tolist()


def test_a_margin_of_1e_30_has_room_beside_one_of_1() -> None:
    omega = np.array([[True, False], [True, True]])
    rows, _ = margins_of(omega, omega)
    assert [can_be_positive(rows, np.array([1e-30, 1.0, 1e-30, 1.0]), v) for v in range(3)] == [True, False, True]
    assert [can_be_positive(rows, np.array([1e-30, 1.0, 2e-30, 1.0]), v) for v in range(3)] == [True, True, True]


def test_margins_that_no_tensor_has_leave_no_room() -> None:
    omega = np.array([[True, False], [True, True]])
    rows, _ = margins_of(omega, omega)
    assert not any(can_be_positive(rows, np.array([2.0, 1.0, 1.0, 2.0]), v) for v in range(3))
