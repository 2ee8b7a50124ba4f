"""The order of a grown basis: for every number of cells, which to keep."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import coo_array

import legendre as ld


def test_the_first_cells_of_the_order_are_a_good_basis() -> None:
    """Compare with the best subset of that size of the same cells: 0.8 of what that explains in nine cases of ten."""
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.gamma(1.0, size=(4, 5, 3)) if seed % 2 else rng.poisson(1.0, size=(5, 6)).astype(float)
        fit = ld.decompose(X, ld.adaptive(5))
        nothing = ld.decompose(X, "empty").kl
        for m in (1, 2, 3, 4):
            best = min(ld.decompose(X, fit.basis[list(some)]).kl for some in combinations(range(5), m))
            shares.append((nothing - fit.at(m).kl) / (nothing - best))
    assert np.mean(np.array(shares) >= 0.8) >= 0.9
    assert min(shares) > 0.6


def test_a_smaller_basis_is_as_good_as_one_grown_to_its_size() -> None:
    """Cells with no data above them, and cells of large theta, are not the first to be kept, nor the last."""
    rng = np.random.default_rng(9)
    X = rng.poisson(
        np.exp(rng.normal(size=(16, 1, 1)) + rng.normal(size=(1, 20, 8)) + rng.normal(size=(16, 20, 1)) - 2)
    )
    for swaps, most in ((1, 1.05), (None, 1.10)):  # cells that are given back to reach 100 may be good for 10
        fit = ld.decompose(X, ld.adaptive(100, swaps=swaps))
        for m in (10, 25):
            assert fit.at(m).kl <= most * ld.decompose(X, ld.adaptive(m, swaps=swaps)).kl


def test_dense_and_sparse_tensors_grow_the_same_basis_in_the_same_order() -> None:
    X = np.random.default_rng(4).poisson(0.6, size=(12, 9)).astype(float)
    dense, sparse = ld.decompose(X, ld.adaptive(18)), ld.decompose(coo_array(X), ld.adaptive(18))
    assert_array_equal(dense.basis, sparse.basis)
    assert_array_equal(dense.order(), sparse.order())


def test_a_file_has_the_cells_but_not_the_order(tmp_path: Path) -> None:
    fit = ld.decompose(np.random.default_rng(1).gamma(1.0, size=(4, 5)), ld.adaptive(6))
    fit.save(tmp_path / "fit.npz")
    with pytest.raises(ld.errors.InvalidQuery, match="this needs X, which a result loaded"):
        ld.load(tmp_path / "fit.npz").order()
    with pytest.raises(ld.errors.InvalidSetting, match="was not grown"):
        ld.decompose([[1.0, 2.0]], "B1").order()


def test_the_order_is_a_copy_and_the_parts_are_nested() -> None:
    X = np.random.default_rng(2).gamma(1.0, size=(5, 5))
    fit = ld.decompose(X, ld.adaptive(9))
    order = fit.order()
    order[:] = 0
    assert sorted(fit.order().tolist()) == list(range(9))
    assert_array_equal(fit.at(4).basis, fit.at(7).basis[:4])
    kls = [fit.at(m).kl for m in range(10)]
    assert all(after <= before + 1e-12 for before, after in pairwise(kls))
