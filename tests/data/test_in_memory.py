"""Sparse and distributed tensors formed in memory, for tasks that need every cell: the same as the dense tensor."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core.types import AnyArray
from legendre.data.dense import Dense, observe
from legendre.data.observation import Observation
from legendre.data.read import read
from legendre.data.sparse import observe_entries, observe_rows

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPE = (6, 5, 4)
HELD = ["sparse", "sparse_nonzero", "dask"]


def table(dtype: str) -> AnyArray:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 4, SHAPE)
    return (counts if dtype.startswith("i") else counts * rng.random(SHAPE)).astype(dtype)


def held(kind: str, X: AnyArray) -> tuple[Observation, Dense]:
    """Return the observation of X as it is held, and of the dense array."""
    if kind == "dask":
        return read(da.from_array(X, chunks=(4, 2, 3))), observe(X)
    support = "nonzero" if kind == "sparse_nonzero" else "all"
    cells = np.argwhere(X)
    return observe_entries(cells, X[tuple(cells.T)], X.shape, support), observe(X, support)


@pytest.mark.parametrize("dtype", ["int64", "float64", "float32"])
@pytest.mark.parametrize("kind", HELD)
def test_every_cell_is_that_of_the_dense_tensor(kind: str, dtype: str) -> None:
    X = table(dtype)
    data, twin = held(kind, X)
    dense = data.in_memory("a test")
    assert dense is data.as_dense()  # formed once
    assert (dense.values.dtype, dense.values.flags.writeable) == (X.dtype, False)
    assert_array_equal(dense.values, X)
    assert dense.total == data.total == pytest.approx(twin.total, rel=1e-15)
    assert (dense.positive, dense.base, dense.missing) == (twin.positive, None, None)
    assert (dense.counts, dense.shape) == (twin.counts, SHAPE)
    assert dense.support.points is None
    assert dense.support.n_cells == data.support.n_cells
    assert_array_equal(dense.support.on_grid(), twin.support.on_grid())


def test_a_pseudo_count_is_added_to_every_cell() -> None:
    cells = np.array([[0, 1], [2, 0], [0, 1]])
    data = observe_rows(cells, None, (3, 2), even=1.5)
    dense = data.in_memory("a test")
    assert_allclose(dense.values, np.array([[0, 2], [0, 0], [1, 0]]) + 0.25, rtol=1e-15)
    assert (dense.total, dense.positive, dense.support.full, dense.counts) == (4.5, True, True, False)
    assert dense.values.sum() == pytest.approx(dense.total, rel=1e-15)
    assert_allclose(dense.at(cells), data.at(cells), rtol=1e-14)
    assert dense.negentropy == pytest.approx(data.negentropy, rel=1e-14)


def test_a_grid_of_many_modes_is_not_formed() -> None:
    data = read(ld.from_coords(np.zeros((1, 40), dtype=np.int64), shape=(2,) * 40))
    assert data.as_dense() is None
    text = r"^balance needs every cell of X in memory, but X is sparse of shape \(2, .*\), which has 40 modes, and an "
    ending = r"array has at most 32\. Sum modes out or merge levels first; decompose takes it as it is\.$"
    with pytest.raises(ld.errors.InvalidTensor, match=text + ending):
        data.in_memory("balance")
