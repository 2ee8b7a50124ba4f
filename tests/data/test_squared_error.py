"""The squared error of every kind of X against a Q, compared with its definition cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_allclose

import legendre as ld
from legendre.core.types import FloatArray, IntArray
from legendre.data.dask import FittedModel
from legendre.data.observation import Observation
from legendre.data.read import read
from legendre.data.sparse import observe_rows


@dataclass(frozen=True, eq=False)
class _Q:
    """Q as an array, in the units of X."""

    array: FloatArray
    fit: ld.Decomposition

    def rows(self, rows: slice) -> FloatArray:
        return self.array[rows]

    def log_prob(self, cells: IntArray) -> FloatArray:
        found: FloatArray = np.log(self.array[tuple(cells.T)] / self.fit.total)
        return found

    def sum_of_squares(self) -> float:
        return float(((self.array / self.fit.total) ** 2).sum())

    def on_blocks(self) -> FittedModel:
        return FittedModel(self.fit.basis, self.fit.theta, self.fit.psi, self.fit.total, self.fit.model.quotient)


def _check(data: Observation, x: FloatArray) -> None:
    fit = ld.decompose(data, "B1")
    q = fit.tensor(extend=False)
    numbers = ~np.isnan(x)
    inside = data.support.on_grid()
    expected = ((x - np.where(inside, q, 0.0))[numbers] ** 2).sum()
    assert data.n_numbers == numbers.sum()
    assert_allclose(data.squared_error(_Q(np.where(inside, q, 0.0), fit)), expected, rtol=1e-9)
    assert_allclose(math.sqrt(expected / data.n_numbers), fit.rmse, rtol=1e-9)


def test_dense_with_missing_cells_and_cells_outside_the_support(rng: np.random.Generator) -> None:
    x = rng.integers(1, 9, (4, 5, 3)).astype(float)
    _check(read(x), x)
    x[1, 2, 0] = np.nan
    support = rng.random(x.shape) < 0.8
    _check(read(x, support), x)


@pytest.mark.parametrize("support", ["all", "nonzero"])
def test_sparse(rng: np.random.Generator, support: str) -> None:
    x = rng.integers(0, 3, (4, 5)).astype(float)
    _check(read(ld.from_coords(np.argwhere(x > 0), x[x > 0], x.shape), support), x)


def test_sparse_with_a_pseudo_count(rng: np.random.Generator) -> None:
    cells = rng.integers(0, 3, (20, 2))
    x = np.full((3, 3), 4 / 9)
    np.add.at(x, tuple(cells.T), 1.0)
    _check(observe_rows(cells, None, (3, 3), even=4.0), x)


def test_dask(rng: np.random.Generator) -> None:
    x = rng.random((6, 7))
    _check(read(da.from_array(x, chunks=(4, 3))), x)
