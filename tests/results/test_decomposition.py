"""The result: errors, forms of X, and what it says of itself; tests/fuzz judges every view of it by its definition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.results.distribution import FittedTensor

NAN = float("nan")
X = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 1.0], [2.0, 2.0, 7.0]])


def test_rmse_is_over_every_number_of_x() -> None:
    """Cells outside the support count, with Q = 0; missing cells do not."""
    x = np.array([[1.0, 2.0, NAN], [3.0, 9.0, 4.0]])
    mask = np.array([[True, True, True], [True, False, True]])
    fit = ld.decompose(x, "B1", support=mask)
    q = np.where(mask, fit.tensor(), 0.0)
    squares = [(x[v] - q[v]) ** 2 for v in np.ndindex(x.shape) if not np.isnan(x[v])]
    assert len(squares) == 5
    assert fit.rmse == pytest.approx(float(np.sqrt(sum(squares) / 5)), rel=1e-12)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[0, 0], [-1, 0]], r"cell \[-1, 0\] is outside the grid \(3, 3\)\. Indices start at 0"),
        ([0], r"cells must be integers, k x 2; got shape \(1, 1\), dtype int64"),
        ([[0.0, 1.0]], r"cells must be integers, k x 2; got shape \(1, 2\), dtype float64"),
        ([[0, 1], [1]], "cells is not a rectangular array: its rows differ in length"),
    ],
)
def test_cells_that_are_not_there(cells: Any, message: str) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=message):
        ld.decompose(X, "B1").log_prob(cells)


@pytest.mark.parametrize("with_base", [False, True])
def test_all_forms_in_which_x_is_compared_with_q_agree(with_base: bool, rng: np.random.Generator) -> None:
    X, base = rng.gamma(2.0, size=(4, 3, 5)), rng.gamma(2.0, size=(4, 3, 5))
    fit = ld.decompose(X, "B1 + B2(2)", base=base if with_base else None)
    q, rows, every = FittedTensor(fit), slice(1, 3), np.argwhere(np.ones(X.shape, dtype=bool))
    expected = fit.tensor()
    assert_allclose(q.rows(rows), expected[rows], rtol=1e-13)
    assert_allclose(np.exp(q.log_prob(every)) * fit.total, expected.ravel(), rtol=1e-12)
    if not with_base:  # X is then a list or a dask array, which take no base measure
        assert_allclose(q.on_blocks().on((1, 0, 2), (2, 3, 3)), expected[1:3, :, 2:], rtol=1e-12)
        assert q.sum_of_squares() == pytest.approx(float(((expected / fit.total) ** 2).sum()), rel=1e-12)


def test_the_error_of_a_grid_with_more_cells_than_float64_counts() -> None:
    """2100 modes of two levels: 2^2100 cells, of which two hold data."""
    X = ld.from_rows(np.array([[0] * 2100, [1] * 2100]))
    assert 0 <= ld.decompose(X, "B1").rmse < 1e-300


HOLE = np.array([[True, True], [True, False]])
BASE = np.array([[1.0, 2.0], [3.0, 5.0]])


@pytest.mark.parametrize(
    ("x", "settings", "expected", "extended"),
    [
        ([[1.0, 2.0], [3.0, NAN]], {}, [[1, 2], [3, NAN]], [[1, 2], [3, 6]]),  # independence: d = b c / a
        ([[1.0, 2.0], [3.0, 100.0]], {"support": HOLE}, [[1, 2], [3, 0]], [[1, 2], [3, 6]]),
        (BASE, {"support": HOLE, "base": BASE}, [[1, 2], [3, 0]], BASE),
        # where theta diverges the model's value is 0, or undetermined (NaN), never a number made up
        ([[1.0, 1.0, NAN], [0.0, 0.0, NAN]], {}, [[1, 1, NAN], [0, 0, NAN]], [[1, 1, 1], [0, 0, 0]]),
    ],
)
def test_cells_outside_the_support(x: Any, settings: Any, expected: Any, extended: Any) -> None:
    fit = ld.decompose(x, [(1, 0), (0, 1)], **settings)
    assert_allclose(fit.tensor(), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(fit.tensor(extend=True), extended, rtol=1e-9, atol=1e-9)
    assert fit.log_prob([1, 1]).tolist() == [-np.inf]
    assert fit.log_prob(np.empty((0, 2), dtype=int)).shape == (0,)


def test_the_summary_says_what_was_asked_and_how_it_ended() -> None:
    text = ld.decompose([[1.0, 1.0, 3.0], [0.0, 0.0, NAN]], "B1").summary()
    for words in ("Legendre decomposition\n---", "2x3, sum 5", "5 of 6 cells, 1 missing", "vanishing cells     2\n"):
        assert words in text
    for words in ("basis               B1()\n", "(rank 2)", "AT_BOUNDARY: "):
        assert words in text


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    fit = ld.decompose(X, "B1")
    (tmp_path / "file").write_text("x")
    for path, message in (
        (tmp_path, r"cannot write .*: it is a directory\. Give a file name, e\.g\. .*fit\.npz"),
        (tmp_path / "missing" / "fit.npz", r"cannot write .*: No such file or directory\. Choose a folder"),
        (tmp_path / "file" / "fit.npz", r"cannot write .*: Not a directory"),
    ):
        with pytest.raises(ld.errors.InvalidFile, match=message):
            fit.save(path)
    fit.save(tmp_path / "result")  # no .npz is added behind the caller's back
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "result"]


def test_views_of_missing_cells_contradicted_each_other() -> None:
    """tensor() was 10 everywhere and summed to 120 for a total of 90; marginal(0) was that of the observed cells."""
    y = np.full((3, 4), 10.0)
    y[0, :3] = NAN
    fit = ld.decompose(y, "interactions(1)")
    assert_array_equal(np.isnan(fit.tensor()), np.isnan(y))
    assert np.nansum(fit.tensor()) == pytest.approx(fit.total)
    assert_allclose(fit.marginal(0) * fit.total, np.nansum(fit.tensor(), axis=1))
    assert_allclose(fit.tensor(extend=True), 10.0)
    assert "3 cells are missing: every answer is about the others" in " ".join(fit.summary().split())
    assert "3 cells are missing: effects describe the others" in repr(fit.effects())
    text = " ".join(ld.decompose(y, "B1").summary().split())
    assert "B1 has no parameter for the 2 missing cells on the axes" in text
    assert "interactions(1) has one for each level" in text


@pytest.mark.parametrize("support", ["all", "mask", "base"])
def test_explained_is_a_share_of_kl_from_uniform_and_from_independence(
    support: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    x = rng.poisson(9.0, (4, 3, 2)) + 1.0
    given: dict[str, Any] = {"mask": {"support": x != x.min()}, "base": {"base": rng.random(x.shape) + 0.1}}.get(
        support, {}
    )
    fit, simple, none = (ld.decompose(x, basis, **given) for basis in ("interactions(2)", "interactions(1)", "empty"))
    assert (fit.kl_uniform, fit.kl_independence) == pytest.approx((none.kl, simple.kl), rel=1e-7)
    fit.save(tmp_path / "fit.npz")
    words = f"{100 * (1 - fit.kl / none.kl):.1f} % of KL from"
    for one in (fit, ld.load(tmp_path / "fit.npz")):
        assert words in repr(one)
        assert f"and {100 * (1 - fit.kl / simple.kl):.1f} % of KL from independence" in one.summary()
    assert "CONVERGED without a step" in repr(ld.decompose(x, "interactions(1)"))


def test_a_share_of_nothing_is_not_said_to_be_explained() -> None:
    """The uniform model of an outer product explained "100.0 % of KL from independence"."""
    fit = ld.decompose([[1, 2], [3, 6]], "empty")
    assert fit.explained == "0.0 % of KL from uniform"
    assert "100.0 % of KL from independence" in ld.decompose([[1, 2], [3, 6]], "B1").explained
