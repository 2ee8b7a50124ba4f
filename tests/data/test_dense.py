"""Raw input: what is readable is read and left as it is, all else is refused with place, value and way out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.data.dense import observe

NAN, INF = float("nan"), float("inf")
GOOD = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 1.0]])

BAD_TENSORS: dict[str, tuple[Any, str]] = {
    "one_negative": ([[1.0, -2.0]], r"X has 1 negative entry: it is X\[0, 1\] = -2\. .*np\.where\(X < 0, np\.nan, X\)"),
    "negatives": (
        [[1.0, -2.0], [3.0, -0.5]],
        r"X has 2 negative entries; the smallest is X\[0, 1\] = -2\. X is read as unnormalised probabilities",
    ),
    "negative_beside_nan": ([NAN, -1.0, 2.0], r"X has 1 negative entry: it is X\[1\] = -1"),
    "infinity": ([[1.0], [INF]], r"X has 1 infinite entries, the first at X\[1, 0\]\. .*set those cells to NaN"),
    "complex": ([1 + 0j, 2.0], r"X is complex \(complex128\); entries must be real and >= 0\. Take \.real or abs\(\)"),
    "objects": ([1, None], r"holds Python objects \(dtype object\), e\.g\. X\[1\] = None of type NoneType"),
    "text": (["1", "2"], r"X has dtype <U1; entries must be numbers\. Convert them with \.astype\(float\)"),
    "a_string": ("file.npy", r"X is the name of a file, 'file.npy'\. Read it first: np\.load"),
    "dates": (np.array(["2020-01-01"], dtype="datetime64[D]"), r"X has dtype datetime64\[D\]; entries must be numbers"),
    "boolean": ([True, False], r"X is boolean\. If True counts as 1, pass it \.astype\(int\).*pass it as support"),
    "empty": (np.empty((2, 0, 3)), r"X is empty: its shape is \(2, 0, 3\)\. Every mode needs at least one level"),
    "number": (3.5, r"X is a single number, 3\.5; a tensor needs at least one mode, e\.g\. \[3\.5\]"),
    "zeros": ([[0, 0], [0, 0]], r"X is zero everywhere: its sum is 0, so it cannot be normalised"),
    "all_nan": ([NAN, NAN], r"every entry of X is NaN, that is, missing: there is nothing to decompose"),
    "zeros_beside_nan": ([NAN, 0.0], r"X on the support is zero everywhere"),
    "ragged": ([[1, 2], [3]], r"X is not a rectangular array: .* Pad ragged rows with NaN"),
    "too_large": (
        [1e308, 1e308, 3.0],
        r"X\[0\] = 1e\+308; positive entries must lie between 1e-100",
    ),
    "too_small": ([1.0, 0.0, 1e-101], r"X\[2\] = 1e-101; positive entries must lie between"),
    "too_wide": (
        [1.0, 0.0, 1e-19],
        r"X\[0\] = 1 is more than 1e\+18 times the .* X\[2\] = 1e-19",
    ),
    "masked_out": (np.ma.masked_array([1.0, 2.0], mask=True), "every entry of X is NaN"),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_bad_tensors(name: str) -> None:
    X, message = BAD_TENSORS[name]
    with pytest.raises(ld.errors.InvalidTensor, match=message):
        ld.decompose(X, "B1")


BAD_SUPPORTS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"support": "nonzeros"}, r"unknown support 'nonzeros'; did you mean 'nonzero'\? Valid: all, nonzero\."),
    "shape": ({"support": np.ones((3, 2), dtype=bool)}, r"support has shape \(3, 2\), X has shape \(2, 3\)"),
    "integers": ({"support": np.ones((2, 3), dtype=int)}, r"support has dtype int64; .*support\.astype\(bool\)"),
    "none": ({"support": None}, r"support has dtype object; pass a boolean array"),
    "empty": ({"support": np.zeros((2, 3), dtype=bool)}, r"support is empty: no cell is True"),
    "ragged": ({"support": [[True, True, True], [True]]}, r"support is not a rectangular array: its rows differ in le"),
    "base_shape": ({"base": np.ones(3)}, r"base has shape \(3,\), X has shape \(2, 3\); they must be equal"),
    "base_negative": ({"base": GOOD - 2}, r"base\[0, 0\] = -1; a base measure must be finite and >= 0 on the support"),
    "base_nan": ({"base": GOOD * NAN}, r"base\[0, 0\] = nan; a base measure must be finite"),
    "base_subnormal": ({"base": GOOD * 1e-310}, r"base\[0, 0\] = 1e-310; positive entries must lie between"),
    "base_zero": (
        {"base": [[1, 1, 0], [1, 1, 1]]},
        r"base\[0, 2\] = 0 where X\[0, 2\] = 4 > 0: .*KL would be infinite",
    ),
    "base_text": ({"base": "uniform"}, r"base has dtype <U7; entries must be numbers"),
}


@pytest.mark.parametrize("name", BAD_SUPPORTS)
def test_bad_supports_and_base_measures(name: str) -> None:
    settings, message = BAD_SUPPORTS[name]
    with pytest.raises(ld.errors.InvalidSupport, match=message):
        ld.decompose(GOOD, "B1", **settings)


def test_no_positive_entry_on_the_support() -> None:
    with pytest.raises(ld.errors.InvalidTensor, match="X on the support is zero everywhere: its sum is 0"):
        ld.decompose([[0, 1], [0, 2]], "B1", support=[[True, False], [True, False]])


@pytest.mark.parametrize("X", [[[0, 0], [0, 0]], [[NAN, 0.0], [0.0, NAN]]])
def test_nothing_but_zeros(X: Any) -> None:
    doors: list[Callable[..., object]] = [partial(ld.decompose, basis="B1"), partial(ld.complete, basis="B1")]
    doors += [partial(ld.hidden, basis="B1"), partial(ld.compare, peers=())]
    for door in doors:
        with pytest.raises(ld.errors.InvalidTensor, match=r"X has no entry > 0, so support='nonzero' leaves no cell"):
            door(X, support="nonzero")


def test_nothing_left_on_the_support() -> None:
    with pytest.raises(ld.errors.InvalidSupport, match="no cell is left in the support once missing cells"):
        ld.decompose([NAN, 1.0], "B1", support=[True, False])
    with pytest.raises(ld.errors.InvalidSupport, match="no cell is left in the support once missing cells"):
        ld.decompose([0.0, 1.0], "B1", support=[True, False], base=[0.0, 1.0])


DTYPES = ["float16", "float32", "float64", "longdouble", "uint8", "uint16", "uint64", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", [*DTYPES, ">f4", ">i2"])
def test_every_real_dtype_gives_the_answer_of_float64(dtype: str) -> None:
    X = GOOD.astype(dtype)
    before = X.copy()
    fit = ld.decompose(X, "B1 + B3(1)")
    reference = ld.decompose(GOOD, "B1 + B3(1)")
    assert_allclose(fit.tensor(), reference.tensor(), rtol=1e-12)
    assert fit.tensor().dtype == np.float64
    assert (fit.kl, fit.rmse) == pytest.approx((reference.kl, reference.rmse), abs=1e-12)
    assert X.dtype == np.dtype(dtype)
    assert_array_equal(X, before)


def test_a_small_x_may_change_later() -> None:
    X = GOOD.copy()
    fit = ld.decompose(X, "B1", support=X > 1, base=np.ones((2, 3)))
    expected = ld.decompose(GOOD, "B1", support=GOOD > 1).kl
    X *= np.arange(6.0).reshape(2, 3)
    assert fit.kl == pytest.approx(expected, rel=1e-14)


def test_a_large_x_is_held_and_stays_writable() -> None:
    X = np.ones((1 << 21, 1))
    data = observe(X)
    assert np.shares_memory(data.values, X)
    assert not data.values.flags.writeable
    assert X.flags.writeable


def test_the_callers_mask_and_base_may_change_later() -> None:
    mask, base = GOOD > 1, np.ones((2, 3))
    fit = ld.decompose(GOOD, "B1", support=mask, base=base)
    before = fit.tensor()
    mask[:] = True
    base[:] = 7.0
    assert_array_equal(fit.tensor(), before)


def test_results_are_read_only() -> None:
    fit = ld.decompose(GOOD, "B1")
    for array in (fit.theta, fit.eta_hat, fit.basis):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_masked_array_means_missing() -> None:
    X = np.ma.masked_array([[1, 2], [3, 4]], mask=[[False, True], [False, False]])
    fit = ld.decompose(X, "B1")
    assert fit.missing is not None
    assert fit.missing.tolist() == [[False, True], [False, False]]
    reference = ld.decompose([[1.0, NAN], [3.0, 4.0]], "B1")
    assert_array_equal(fit.theta, reference.theta)
    assert_array_equal(X.mask, [[False, True], [False, False]])


def test_nan_is_not_in_omega() -> None:
    X = GOOD.copy()
    X[0, 1] = NAN
    data = observe(X)
    assert data.support.n_cells == 5
    assert data.total == GOOD.sum() - 2.0
    inside = observe(X, np.ones((2, 3), dtype=bool))
    assert_array_equal(inside.support.mask, ~np.isnan(X))
    assert_array_equal(observe(X, "nonzero").support.mask, X > 0)


def test_cells_of_base_zero_leave_omega() -> None:
    X = [[0.0, 1.0], [2.0, 3.0]]
    fit = ld.decompose(X, "B1", base=[[0.0, 1.0], [1.0, 1.0]])
    masked = ld.decompose(X, "B1", support=[[False, True], [True, True]])
    assert fit.model.support.n_cells == 3
    assert_allclose(fit.tensor(), masked.tensor(), atol=1e-12)


def test_base_may_be_anything_outside_the_support() -> None:
    base = np.array([[NAN, 1.0, -1.0], [1.0, 1.0, 2.0]])
    mask = np.array([[False, True, False], [True, True, True]])
    fit = ld.decompose(GOOD, "B1", support=mask, base=base)
    clean = ld.decompose(GOOD, "B1", support=mask, base=np.where(mask, base, 1.0))
    assert_allclose(fit.tensor(), clean.tensor(), rtol=1e-12)
    assert fit.model.support.n_cells == 4


def test_anything_may_stand_outside_the_support_but_numbers_below_zero() -> None:
    """A negative entry is more likely a mistake than a mark: the error says how to make it one."""
    with pytest.raises(ld.errors.InvalidTensor, match=r"it is X\[1\] = -1\. .*np\.where"):
        ld.decompose([1.0, -1.0], "B1", support=[True, False])


@pytest.mark.parametrize("scale", [1e-90, 1e-30, 1e30, 1e90])
def test_extreme_units(scale: float) -> None:
    fit, reference = ld.decompose(GOOD * scale, "B1"), ld.decompose(GOOD, "B1")
    assert_allclose(fit.theta, reference.theta, atol=1e-10)
    assert_allclose(fit.tensor() / scale, reference.tensor(), rtol=1e-10)
    assert fit.kl == pytest.approx(reference.kl, abs=1e-12)


@pytest.mark.parametrize("shape", [(1,), (1, 1, 1), (5, 1), (1, 7), (3, 1, 1, 2)])
def test_modes_of_one_level(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    X = rng.uniform(1, 2, size=shape)
    assert_allclose(ld.decompose(X, "full").tensor(), X, rtol=1e-9)
    assert ld.decompose(X, "B1").converged


def test_an_entry_outside_the_support_may_be_as_small_as_it_likes() -> None:
    X = [[1e10, 0.0], [1.0, 5e-324]]
    assert ld.decompose(X, "B1", support=[[True, True], [True, False]]).residual <= 1e-10
    with pytest.raises(ld.errors.InvalidTensor, match="positive entries must lie between"):
        ld.decompose(X, "B1")
