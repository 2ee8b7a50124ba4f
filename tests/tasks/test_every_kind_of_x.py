"""Tasks that need every cell of X: cells that are missing, in every kind of X, and what is refused.

That every kind of X gives the answer of the dense array is the table of tests/test_inputs_and_doors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import sparse
import torch
from numpy.testing import assert_allclose
from scipy.sparse import coo_array

import legendre as ld
from legendre.core.origin import host
from oracles import FloatArray

pytestmark = pytest.mark.usefixtures("one_thread", "double_precision")

COUNTS = np.random.default_rng(11).poisson(2.0, size=(6, 5)).astype(np.float64)
COUNTS[[0, 3], [1, 4]] = 0.0
WITH_ZEROS: FloatArray = COUNTS
POSITIVE: FloatArray = COUNTS + 1.0
GAPS: FloatArray = np.where(np.random.default_rng(12).random(COUNTS.shape) < 0.2, np.nan, POSITIVE)
NAIVE = ld.interactions([(0, 2), (1, 2)])


KINDS: dict[str, Callable[[FloatArray], Any]] = {
    "torch": lambda X: torch.asarray(X.copy()),
    "SciPy COO": coo_array,
    "SparseTensor": lambda X: ld.from_coords(np.argwhere(X), X[X > 0], shape=X.shape),
    "pydata/sparse": sparse.COO,
}
TASKS: dict[str, Callable[..., Any]] = {
    "complete": lambda X: ld.complete(X, "interactions(1)", support="nonzero"),
    "chosen": lambda X: ld.complete(X, ["empty", "B1", "adaptive(6)"], folds=3, rng=1, support="nonzero"),
    "without a basis": lambda X: ld.complete(X, folds=3, support="nonzero"),
    "hidden": lambda X: ld.hidden(X, NAIVE, 2, restarts=2, tol=1e-5, support="nonzero"),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_cells_that_are_not_listed_are_missing(kind: str, task: str) -> None:
    found, expected = TASKS[task](KINDS[kind](WITH_ZEROS)), TASKS[task](WITH_ZEROS)
    assert isinstance(found.tensor(), torch.Tensor if kind == "torch" else np.ndarray)
    assert_allclose(host(found.tensor()), expected.tensor(), rtol=1e-9, atol=1e-12)
    assert_allclose(found.theta, expected.theta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("library", [torch.asarray, np.ma.masked_invalid, np.ndarray.tolist])
def test_nan_is_missing(library: Callable[[FloatArray], Any]) -> None:
    for settings in ({"basis": "B1"}, {"folds": 3}):
        found, expected = (ld.complete(X, **settings).tensor() for X in (library(GAPS.copy()), GAPS))
        assert_allclose(host(found), expected, rtol=1e-9)


CALLS: dict[str, Callable[[Any], object]] = {
    "complete": lambda X: ld.complete(X, "B1"),
    "balance": ld.balance,
    "hidden": lambda X: ld.hidden(X, NAIVE, 2),
}
REFUSED: dict[str, tuple[Any, str]] = {
    "a large sparse tensor": (
        ld.from_coords([[0, 0], [5, 7]], [1, 2], shape=(10_000, 10_000)),
        r"^{task} needs every cell of X in memory, but X is sparse of shape \(10000, 10000\)",
    ),
    "a large dask array": (
        da.ones((10_000, 10_000), chunks=5_000, dtype="u1"),
        r"^{task} needs every cell of X in memory, but X is a dask array of shape \(10000, 10000\)",
    ),
    "sparse with NaN": (
        coo_array(([1.0, np.nan], ([0, 1], [1, 0]))),
        r"X\.data\[1\] = nan, stored for X\[1, 0\]\. .* Leave the entry out",
    ),
    "torch sparse": (torch.asarray(WITH_ZEROS.copy()).to_sparse(), r"not a dense torch array .* Pass X\.to_dense\(\)"),
    "ragged": ([[1, 2], [3]], "not a rectangular array"),
    "text": (np.array([["a", "b"]]), "entries must be numbers"),
    "infinite": (np.array([[1, np.inf], [1, 1]]), r"1 infinite entries, the first at X\[0, 1\]"),
    "zero": (coo_array((3, 3)), "X is zero everywhere"),
}


@pytest.mark.parametrize("task", CALLS)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_refused_by_all_tasks_alike(kind: str, task: str) -> None:
    X, text = REFUSED[kind]
    with pytest.raises(ld.errors.InvalidTensor, match=text.format(task=task)):
        CALLS[task](X)


def test_results_of_another_library_are_saved_and_read(tmp_path: Path) -> None:
    X = torch.asarray(WITH_ZEROS.copy())
    results = [
        ld.complete(X, "B1"),
        ld.complete(X, folds=3),
        ld.balance(X),
        ld.hidden(X, NAIVE, 2, restarts=1, tol=1e-3),
    ]
    for done in results:
        done.save(tmp_path / "result.npz")
        again = ld.load(tmp_path / "result.npz")
        assert_allclose(again.tensor(), host(done.tensor()), rtol=0)
        assert_allclose(again.eta, done.eta, rtol=0)
