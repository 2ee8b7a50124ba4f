"""Whatever type X comes in, its sums are those of float64, from the first addition: compared with exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose

import legendre as ld
from oracles import FloatArray

SHAPE = (6, 7)
N = 3_000  # entries, some seventy to a cell
CELLS = np.random.default_rng(0).integers(0, SHAPE, (N, 2))
TYPES = ("float16", "float32", "uint8", "int8", "int16")


def numbers(dtype: str) -> Any:
    """Entries whose sums float32 does not hold, or that overflow their own type at once."""
    rng = np.random.default_rng(0)
    drawn = rng.random(N) + 1e-3 if dtype.startswith("float") else rng.integers(60, 120, N)
    return drawn.astype(dtype)


def summed(values: Any) -> FloatArray:
    """Add the entries of each cell with no rounding but the last."""
    X = np.zeros(SHAPE)
    for cell in np.ndindex(SHAPE):
        X[cell] = math.fsum(values[np.all(np.asarray(cell) == CELLS, axis=1)].astype(np.float64))
    return X


def check(fit: ld.Decomposition, X: FloatArray, kl_error: float = 1e-15) -> None:
    """Compare total, eta_hat, KL and RMSE of a fit with what the definitions give."""
    total = math.fsum(X.ravel())
    assert_allclose(fit.total, total, rtol=1e-15)
    above = [math.fsum(X[tuple(slice(i, None) for i in cell)].ravel()) / total for cell in fit.basis.tolist()]
    assert_allclose(fit.eta_hat, above, rtol=1e-14)
    p, q = X.ravel() / total, np.asarray(fit.tensor(), dtype=np.float64).ravel() / total
    assert_allclose(fit.kl, math.fsum(p[p > 0] * np.log(p[p > 0] / q[p > 0])), rtol=1e-7, atol=kl_error)
    assert_allclose(fit.rmse, total * math.sqrt(math.fsum((p - q) ** 2) / len(p)), rtol=1e-9)


def _compressed(values: Any) -> tuple[Any, Any, Any]:
    """Write the entries row by row, repeated cells and all."""
    order = np.argsort(CELLS[:, 0], kind="stable")
    return values[order], CELLS[order, 1], np.searchsorted(CELLS[order, 0], np.arange(SHAPE[0] + 1))


SPARSE: dict[str, Callable[[Any], Any]] = {
    "coo": lambda v: scipy.sparse.coo_array((v, tuple(CELLS.T)), shape=SHAPE),
    "csr": lambda v: scipy.sparse.csr_array(_compressed(v), shape=SHAPE),
    "from_coords": lambda v: ld.from_coords(CELLS, v, SHAPE),
    "from_rows": lambda v: ld.from_rows(CELLS, counts=v),
    "batches": lambda v: ld.from_rows(
        [pd.DataFrame({"a": CELLS[i:, 0][:99], "b": CELLS[i:, 1][:99], "w": v[i:][:99]}) for i in range(0, N, 99)],
        counts="w",
    ),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("form", SPARSE)
def test_repeated_cells_are_added_in_float64(form: str, dtype: str) -> None:
    if dtype == "float16" and form.startswith("c"):
        pytest.skip("SciPy has no sparse arrays of float16")
    values = numbers(dtype)
    for support in ("all", "nonzero"):
        check(ld.decompose(SPARSE[form](values), ld.interactions(1), support=support), summed(values))


DENSE: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda X: X,
    "by columns": np.asfortranarray,
    "dask": lambda X: da.from_array(X, chunks=(5, 4)),
    "torch": torch.tensor,
    "csr": scipy.sparse.csr_array,
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8", "int8"])
@pytest.mark.parametrize("form", DENSE)
def test_kl_and_rmse_are_those_of_float64(form: str, dtype: str) -> None:
    """Nearly uniform, so that KL is about 1e-9: in float32 nothing would be left of it."""
    if form == "dask" and dtype != "float32":
        pytest.skip("each type that compiled code reads takes seconds to compile")
    if dtype == "float16" and form not in ("numpy", "by columns", "dask", "torch"):
        pytest.skip("SciPy has no sparse arrays of float16")
    X = (
        (1.0 + 1e-4 * np.random.default_rng(0).random((20, 30))).astype(dtype)
        if dtype == "float32"
        else numbers(dtype)[:600].reshape(20, 30)
    )
    check(ld.decompose(DENSE[form](X), "B1"), X.astype(np.float64))


def test_a_memory_mapped_float32_is_summed_in_float64(tmp_path: Path) -> None:
    X = (1.0 + 1e-4 * np.random.default_rng(0).random((800, 700))).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    fit = ld.decompose(np.load(tmp_path / "X.npy", mmap_mode="r"), [[1, 0], [0, 300], [400, 400]])
    check(fit, X.astype(np.float64), kl_error=1e-12)  # the difference of entropies, of half a million terms each


def test_base_measures_margins_and_weights_in_float32_are_summed_in_float64() -> None:
    rng = np.random.default_rng(0)
    X, base = (rng.random(SHAPE).astype(np.float32) for _ in range(2))
    one, two = (ld.decompose(x, "B1", base=r) for x, r in ((X, base), (X.astype(float), base.astype(float))))
    assert (one.kl, one.rmse, one.theta.tolist()) == (two.kl, two.rmse, two.theta.tolist())
    margins = [np.full(n, 1.0 / n, dtype=np.float32) for n in SHAPE]
    margins = [(m.astype(np.float64) / m.sum(dtype=np.float64)).astype(np.float32) for m in margins]
    narrow, wide = (
        ld.balance(x, m, tol=1e-6) for x, m in ((X, margins), (X.astype(float), [m.astype(float) for m in margins]))
    )
    assert_allclose(narrow.tensor(), wide.tensor(), rtol=1e-15)
    weights = rng.random(N).astype(np.float32)
    few, many = (
        ld.LegendreDensity("interactions(2)").fit(CELLS, sample_weight=w) for w in (weights, weights.astype(float))
    )
    assert_allclose(few.score_samples(CELLS[:20]), many.score_samples(CELLS[:20]), rtol=1e-14)


def test_errors_along_a_growing_basis_and_with_hidden_modes_are_those_of_float64() -> None:
    X = (1.0 + 1e-4 * np.random.default_rng(0).random(SHAPE)).astype(np.float32)
    one, two = (ld.decompose(x, "adaptive(4)").path for x in (X, X.astype(np.float64)))
    assert [(r.kl, r.rmse) for r in one] == [(r.kl, r.rmse) for r in two]
    hidden = [ld.hidden(x, ld.interactions([(0, 2), (1, 2)]), restarts=1) for x in (X, X.astype(np.float64))]
    assert hidden[0].kl == hidden[1].kl
