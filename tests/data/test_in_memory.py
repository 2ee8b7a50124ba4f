"""Sparse and distributed tensors formed in memory, for tasks that need every cell: the same as the dense tensor."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.core.types import AnyArray
from legendre.data.dense import Dense, in_memory, observe
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
    dense = in_memory(data, "a test")
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
    dense = in_memory(data, "a test")
    assert_allclose(dense.values, np.array([[0, 2], [0, 0], [1, 0]]) + 0.25, rtol=1e-15)
    assert (dense.total, dense.positive, dense.support.full, dense.counts) == (4.5, True, True, False)
    assert dense.values.sum() == pytest.approx(dense.total, rel=1e-15)
    assert_allclose(dense.at(cells), data.at(cells), rtol=1e-14)
    assert dense.negentropy == pytest.approx(data.negentropy, rel=1e-14)


@pytest.mark.parametrize("kind", HELD)
def test_inference_is_that_of_the_dense_tensor(kind: str) -> None:
    X = np.random.default_rng(3).poisson(2.0, SHAPE)
    given: Any = da.from_array(X, chunks=3) if kind == "dask" else ld.from_coords(np.argwhere(X), X[X > 0], SHAPE)
    support = "nonzero" if kind == "sparse_nonzero" else "all"
    found = ld.decompose(given, "B1", support=support).inference()
    wanted = ld.decompose(X, "B1", support=support).inference()
    assert found.df == wanted.df
    assert found.g2 == pytest.approx(wanted.g2, rel=1e-9)
    assert_allclose(found.standard_errors, wanted.standard_errors, rtol=1e-7)


MANY = ld.from_coords(np.zeros((1, 40), dtype=np.int64), shape=(2,) * 40)
LARGE = ld.from_coords([[0, 0], [5, 7]], [1, 2], shape=(10_000, 10_000))
TOO_MANY = r"has 100,000,000 cells, and at most 67,108,864 are formed\. "
REFUSED: dict[str, tuple[Any, str]] = {
    "modes": (MANY, r"X is sparse of shape \(2, .*\), which has 40 modes, and an array has at most 32\. "),
    "cells": (
        LARGE,
        r"X is sparse of shape \(10000, 10000\), which " + TOO_MANY,
    ),
    "dask": (
        da.ones((10_000, 10_000), chunks=5_000, dtype="u1"),
        r"X is a dask array of shape \(10000, 10000\), which " + TOO_MANY,
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_grids_that_are_not_formed(name: str) -> None:
    X, text = REFUSED[name]
    data = read(X)
    assert data.as_dense() is None
    ending = r"Sum modes out or merge levels first; decompose takes it as it is\.$"
    with pytest.raises(
        ld.errors.InvalidTensor, match=r"^balance needs every cell of X in memory, but " + text + ending
    ):
        in_memory(data, "balance")
