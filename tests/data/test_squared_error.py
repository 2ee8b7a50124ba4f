"""The squared error of every kind of X against a Q, compared with its definition cell by cell."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest

import legendre as ld
from legendre.core.types import FloatArray
from legendre.data.observation import Observation
from legendre.data.read import read
from legendre.data.sparse import observe_rows

RNG = np.random.default_rng(3)
X = RNG.integers(0, 9, (4, 5, 3)).astype(float)
GAPS = np.where(np.arange(60).reshape(X.shape) == 17, np.nan, X)
ROWS = RNG.integers(0, 3, (20, 2))
COUNTED = np.full((3, 3), 4 / 9)
np.add.at(COUNTED, tuple(ROWS.T), 1.0)
SPARSE = ld.from_coords(np.argwhere(X > 0), X[X > 0], X.shape)
KINDS: dict[str, tuple[Observation, FloatArray]] = {
    "dense": (read(X), X),
    "missing cells, and cells outside the support": (read(GAPS, RNG.random(X.shape) < 0.8), GAPS),
    "sparse": (read(SPARSE), X),
    "a list of cells": (read(SPARSE, "nonzero"), X),
    "a pseudo-count": (observe_rows(ROWS, None, (3, 3), even=4.0), COUNTED),
    "dask": (read(da.from_array(X, chunks=(3, 3, 2))), X),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rmse_is_that_of_the_definition(kind: str) -> None:
    data, x = KINDS[kind]
    fit = ld.decompose(data, "B1")
    numbers, q = ~np.isnan(x), np.where(data.support.on_grid(), fit.tensor(), 0.0)
    assert data.n_numbers == numbers.sum()
    assert fit.rmse == pytest.approx(np.sqrt(((x - q)[numbers] ** 2).mean()), rel=1e-9)
