"""One pass over X, sums over boxes and suffix sums: every layout of memory, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import legendre as ld
from legendre.core import limits
from legendre.core.sums.cell_sums import suffix_sums
from legendre.core.sums.kernels.scan import scan_large
from legendre.core.sums.quotient import Quotient
from legendre.core.sums.zeta import zeta_adjoint
from legendre.data.checks import Scan, scan

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.uncompiled]

Tensor = NDArray[Any]
# Each dtype is one more compilation, so that there are few
DTYPES = ["uint8", "int64", "float32", "float64"]
SHAPES = [(60,), (12, 9), (8, 1, 7), (200, 3), (5, 6, 4, 3), (3, 2, 4, 2, 3), (2, 3, 2, 1, 2, 3), (70, 60, 50)]


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 200, shape).astype(dtype) if dtype[0] in "ui" else rng.random(shape).astype(dtype)


def layouts(x: Tensor) -> Iterator[Tensor]:
    """Yield the same values in other places of memory."""
    everywhere = tuple(slice(None, None, -1) for _ in x.shape)
    apart = tuple(slice(None, None, 2) for _ in x.shape)
    wide = np.zeros([2 * n for n in x.shape], dtype=x.dtype)
    wide[apart] = x
    turn = np.random.default_rng(0).permutation(x.ndim)
    yield x
    yield np.asfortranarray(x)
    yield np.ascontiguousarray(x.transpose(turn)).transpose(np.argsort(turn))
    yield np.ascontiguousarray(x[everywhere])[everywhere]
    yield wide[apart]
    yield x.astype(x.dtype.newbyteorder())


def random_quotient(shape: tuple[int, ...], seed: int = 1) -> Quotient:
    rng = np.random.default_rng(seed)
    return Quotient(shape, tuple(np.flatnonzero(np.r_[True, rng.random(n - 1) < 0.4]) for n in shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_layout(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    wide, every = x.astype(np.float64), range(len(shape))
    quotient, rng = random_quotient(shape), np.random.default_rng(2)
    merged = wide
    for k, cuts in enumerate(quotient.cuts):
        merged = np.add.reduceat(merged, cuts, axis=k)
    cells = np.stack([rng.integers(0, n, 40) for n in shape], axis=1)
    for other in layouts(x):
        seen = Scan(*scan_large(other))
        assert seen.total == pytest.approx(wide.sum())
        assert (seen.smallest, seen.positive, seen.largest) == (x.min(), x[x > 0].min(), x.max())
        for k in every:
            assert_allclose(seen.by_mode[k], wide.sum(axis=tuple(j for j in every if j != k)), rtol=1e-12)
        if other.flags.c_contiguous:
            assert_array_equal(seen.last_ranking, x.reshape(-1, shape[-1]).argmax(axis=0))
        assert_allclose(quotient.merge(other), merged, rtol=1e-12)
        assert_allclose(suffix_sums(other, cells), zeta_adjoint(wide)[tuple(cells.T)], rtol=1e-12)
        assert_allclose(suffix_sums(other, cells, few=100), zeta_adjoint(wide)[tuple(cells.T)], rtol=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_entries_that_are_not_finite_make_the_total_so(wrong: float) -> None:
    x = sample((9, 8, 7), "float64")
    x[3, 2, 1] = wrong
    for seen in (Scan(*scan_large(x)), scan(x)):
        assert not np.isfinite(seen.total)
        assert seen.smallest == np.nanmin(x)


@pytest.mark.parametrize("basis", ["B3(1)", "B1 + B3(1)", "B3(1, axis=0)", "B3(2)"])
def test_compiled_code_finds_the_largest_entries_of_slices(basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(8).random((6, 5, 70))
    twin = ld.decompose(X, basis)
    monkeypatch.setattr(limits, "COMPILED_CELLS", 1)
    fit = ld.decompose(X, basis)
    assert_array_equal(fit.basis, twin.basis)
    assert_allclose(fit.theta, twin.theta, atol=1e-9)
