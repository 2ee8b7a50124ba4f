"""The compiled pass over X: every layout of memory and every block, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import legendre as ld
from cases import BoolArray
from legendre.core import limits
from legendre.core.sums.kernels.box_sums import _row_bounds, sums_over_boxes
from legendre.core.sums.kernels.largest_entries import NOWHERE, keep_largest, largest_rows
from legendre.core.sums.kernels.margins import margins
from legendre.core.sums.kernels.memory_walk import plan_walk
from legendre.core.sums.kernels.suffix_sums import suffix_sums
from legendre.core.sums.quotient import Quotient
from legendre.data.dense import observe
from legendre.data.largest_entries import largest_of_each
from oracles import FloatArray, IntArray

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.uncompiled]

Tensor = NDArray[Any]
# Each dtype is one more compilation, so that there are four; bool is read as uint8.
DTYPES = ["uint8", "int64", "float32", "float64"]
SHAPES = [(60,), (12, 9), (8, 1, 7), (5, 6, 4, 3), (3, 2, 4, 2, 3), (2, 3, 2, 1, 2, 3)]
LARGE = (70, 60, 50)
"""Enough cells to be cut into blocks as they are."""


@pytest.fixture(params=["whole", "blocks"])
def _cut(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as small arrays are read, once as if nothing were small."""
    if request.param == "blocks":
        monkeypatch.setattr(limits, "ONE_BLOCK", 0)
        monkeypatch.setattr("legendre.core.limits.ONE_THREAD", 0)


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
    yield x[everywhere].copy()[everywhere]
    yield x[..., ::-1].copy()[..., ::-1]
    yield wide[apart]
    yield x.astype(x.dtype.newbyteorder())


def random_cuts(shape: tuple[int, ...], seed: int = 1) -> list[IntArray]:
    """First coordinates of some intervals of each mode."""
    rng = np.random.default_rng(seed)
    cuts = [np.append(0, rng.permutation(np.arange(1, n))[: n // 2]) for n in shape]
    return [np.sort(cut).astype(np.int64) for cut in cuts]


def boxes_of(cuts: list[IntArray], shape: tuple[int, ...]) -> list[IntArray]:
    return [np.searchsorted(c, np.arange(n), side="right") - 1 for c, n in zip(cuts, shape, strict=True)]


def sums_over(x: Tensor, boxes: list[IntArray]) -> FloatArray:
    """Add entry after entry to its box."""
    out = np.zeros([int(box.max()) + 1 for box in boxes])
    np.add.at(out, np.ix_(*boxes), x.astype(np.float64))
    return out


def check_aggregate(x: Tensor, boxes: list[IntArray]) -> None:
    found = sums_over_boxes(x, boxes)
    assert_allclose(found.sums, sums_over(x, boxes), rtol=1e-12)
    assert (found.minimum, found.missing, found.infinite) == (float(x.min()), 0, 0)


def check_masked(x: Tensor, boxes: list[IntArray], mask: BoolArray) -> None:
    found = sums_over_boxes(x, boxes, mask)
    assert_allclose(found.sums, sums_over(np.where(mask, x, 0), boxes), rtol=1e-12)
    assert found.minimum == (float(x[mask].min()) if mask.any() else np.inf)


def check_suffix(x: Tensor, cuts: list[IntArray], positions: IntArray) -> None:
    above = [tuple(slice(c[i], None) for c, i in zip(cuts, cell, strict=True)) for cell in positions]
    assert_allclose(suffix_sums(x, cuts, positions), [x[part].sum(dtype=np.float64) for part in above], rtol=1e-11)


def some_positions(cuts: list[IntArray], count: int = 30) -> IntArray:
    """Cells in no order, some of them more than once."""
    rng = np.random.default_rng(2)
    return np.stack([rng.integers(0, len(cut), count) for cut in cuts], axis=1)


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_layout(shape: tuple[int, ...], dtype: str) -> None:
    cuts = random_cuts(shape)
    boxes, positions = boxes_of(cuts, shape), some_positions(cuts)
    mask = np.random.default_rng(3).random(shape) < 0.6
    for x in layouts(sample(shape, dtype)):
        check_aggregate(x, boxes)
        check_suffix(x, cuts, positions)
        for seen in (mask, np.asfortranarray(mask), mask[::-1]):
            check_masked(x, boxes, seen)


@pytest.mark.usefixtures("_cut")
def test_boxes_in_any_order() -> None:
    """A box may be met again after another one: then no cut between rows separates them."""
    x = sample((40, 30), "float64")
    check_aggregate(x, [np.arange(40) % 7, np.arange(30) % 4])
    check_aggregate(x, [np.arange(40)[::-1].copy(), np.arange(30)])
    check_aggregate(x, [np.arange(40), np.arange(30)])
    check_aggregate(x, [np.zeros(40, dtype=np.int64), np.zeros(30, dtype=np.int64)])


@pytest.mark.parametrize("first", [np.arange(40) // 3, np.arange(40)[::-1] // 3, np.arange(40) % 7], ids=str)
def test_blocks_with_one_target_never_share_a_box(first: IntArray, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that add to one cell would lose a sum now and then: no answer shows that reliably."""
    monkeypatch.setattr(limits, "ONE_BLOCK", 0)
    layout = plan_walk([sample((40, 30), "float64")], [first * 30, np.arange(30)], [0, 1])
    bounds, copies = _row_bounds(layout, int(first.max() + 1) * 30)
    assert copies == 1
    assert (bounds[0], bounds[-1]) == (0, 40)
    blocks = [set(first[start:stop].tolist()) for start, stop in pairwise(bounds)]
    assert sum(len(block) for block in blocks) == len(set(first.tolist()))


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_arrays_are_cut_into_blocks(dtype: str) -> None:
    cuts = random_cuts(LARGE)
    every = [np.arange(n) for n in LARGE]
    first = [np.arange(n) if k == 0 else np.zeros(n, dtype=np.int64) for k, n in enumerate(LARGE)]
    for x in list(layouts(sample(LARGE, dtype)))[:4]:
        for boxes in (boxes_of(cuts, LARGE), first, every):
            check_aggregate(x, boxes)
        check_suffix(x, cuts, some_positions(cuts, 200))


def test_large_masked_arrays() -> None:
    x, mask = sample(LARGE, "float64"), np.random.default_rng(4).random(LARGE) < 0.6
    check_masked(x, boxes_of(random_cuts(LARGE), LARGE), mask)
    check_masked(np.asfortranarray(x), [np.arange(n) // 30 for n in LARGE], mask)


def test_no_cell_of_the_mask() -> None:
    check_masked(sample((4, 5), "float64"), [np.arange(4), np.arange(5)], np.zeros((4, 5), dtype=np.bool_))


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_missing_entries_are_left_out_and_counted(shape: tuple[int, ...], dtype: str) -> None:
    cuts = random_cuts(shape)
    boxes = boxes_of(cuts, shape)
    gone = np.random.default_rng(5).random(shape) < 0.3
    gone.flat[-1] = True
    for x in layouts(np.where(gone, np.nan, sample(shape, dtype)).astype(dtype)):
        found = sums_over_boxes(x, boxes)
        assert_allclose(found.sums, sums_over(np.where(gone, 0, x), boxes), rtol=1e-12)
        assert (found.missing, found.infinite) == (gone.sum(), 0)
        assert found.minimum == np.nanmin(x)


def test_missing_entries_beside_a_mask() -> None:
    x = np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, np.inf]])
    mask = np.array([[True, True, True], [False, True, False]])
    found = sums_over_boxes(x, [np.arange(2), np.zeros(3, dtype=np.int64)], mask)
    assert found.sums.ravel().tolist() == [4.0, 5.0]
    assert (found.minimum, found.missing, found.infinite) == (1.0, 1, 0)


@pytest.mark.usefixtures("_cut")
def test_infinite_entries_are_counted() -> None:
    x = sample((12, 9), "float64")
    x[0, 0], x[3, 4], x[11, 8] = np.inf, np.nan, -np.inf
    found = sums_over_boxes(x, [np.arange(12), np.arange(9)])
    assert (found.infinite, found.missing, found.minimum) == (2, 1, -np.inf)


def test_everything_missing() -> None:
    found = sums_over_boxes(np.full((3, 4), np.nan), [np.arange(3), np.arange(4)])
    assert (found.missing, found.minimum, found.sums.sum()) == (12, np.inf, 0.0)


def test_a_sum_beyond_float64_is_no_infinite_entry() -> None:
    found = sums_over_boxes(np.full((2, 2), 1.5e308), [np.zeros(2, dtype=np.int64)] * 2)
    assert found.sums.tolist() == [[np.inf]]
    assert (found.infinite, found.missing, found.minimum) == (0, 0, 1.5e308)


BOXES = [np.array([0, 0, 1]), np.array([0, 1])]
SMALL = np.arange(6.0).reshape(3, 2)


def exotic() -> dict[str, Tensor]:
    record = np.zeros((3, 2), dtype=[("a", "u1"), ("b", "f8")])
    record["b"] = SMALL
    fixed = SMALL.copy()
    fixed.flags.writeable = False
    return {
        "half": SMALL.astype(np.float16),
        "long": SMALL.astype(np.longdouble),
        "unaligned": record["b"],
        "swapped": SMALL.astype(">f8"),
        "read_only": fixed,
    }


@pytest.mark.parametrize("name", list(exotic()))
def test_exotic_arrays(name: str) -> None:
    assert_array_equal(sums_over_boxes(exotic()[name], BOXES).sums, [[2, 4], [4, 5]])


def test_booleans_count_as_one() -> None:
    assert_array_equal(sums_over_boxes(SMALL > 1, BOXES).sums, [[1, 1], [1, 1]])


def test_a_broadcast_array() -> None:
    x = np.broadcast_to(np.arange(1.0, 5.0), (6, 4))
    check_aggregate(x, [np.arange(6) // 2, np.arange(4)])
    check_suffix(x, [np.array([0, 2, 4]), np.arange(4)], np.array([[1, 2], [2, 0], [0, 3]]))


def test_empty_arrays() -> None:
    found = sums_over_boxes(np.zeros((0, 3)), [np.zeros(0, dtype=np.int64), np.arange(3)])
    assert (found.sums.shape, found.minimum) == ((0, 3), np.inf)


@pytest.mark.parametrize("shape", [(1, 40, 30), (2, 30, 30), (7, 5, 300), (1, 1, 50), (40, 30, 1), (1,)], ids=str)
@pytest.mark.usefixtures("_cut")
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    cuts = random_cuts(shape)
    for x in layouts(sample(shape, "float64")):
        check_suffix(x, cuts, some_positions(cuts, 20))
        check_aggregate(x, boxes_of(cuts, shape))


def test_sums_above_no_cells() -> None:
    assert suffix_sums(SMALL, [np.arange(3), np.arange(2)], np.empty((0, 2), dtype=np.int64)).shape == (0,)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"boxes and mask must fit the shape \(3, 2\)"):
        sums_over_boxes(SMALL, BOXES[::-1])
    with pytest.raises(ValueError, match=r"boxes and mask must fit"):
        sums_over_boxes(SMALL, BOXES, np.ones((2, 3), dtype=np.bool_))
    with pytest.raises(ValueError, match="box indices must not be negative"):
        sums_over_boxes(SMALL, [BOXES[0] - 1, BOXES[1]])
    with pytest.raises(TypeError, match="expected real numbers, got dtype complex128"):
        sums_over_boxes(SMALL.astype(complex), BOXES)
    with pytest.raises(ValueError, match="positions must lie in the grid"):
        suffix_sums(SMALL, [np.arange(3), np.arange(2)], np.array([[3, 0]]))
    with pytest.raises(ValueError, match="cuts must begin with 0"):
        suffix_sums(SMALL, [np.arange(1, 3), np.arange(2)], np.array([[1, 0]]))


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("levels", [1, 2, 1000])
def test_the_first_of_the_largest_rows_wins(rows: int, levels: int) -> None:
    """Few levels make many ties, within blocks of rows and between them."""
    x = np.random.default_rng(rows).integers(0, levels, (rows, 40)).astype(np.float64)
    assert_array_equal(largest_rows(x), x.argmax(axis=0))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_the_largest_entry_of_each_slice(axis: int) -> None:
    x = np.random.default_rng(axis).integers(0, 5, (6, 4, 5))
    for values in layouts(x.astype(np.float64)):
        if not values.dtype.isnative:
            continue
        cells = largest_of_each(values, axis)
        assert_array_equal(cells[:, axis], np.arange(x.shape[axis]))
        for j, cell in enumerate(cells):
            in_slice = np.delete(cell, axis)
            assert np.ravel_multi_index(tuple(in_slice), x.take(j, axis).shape) == x.take(j, axis).argmax()


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64"])
@pytest.mark.parametrize("shape", [(100,), (30, 70), (5, 6, 80), (70, 1), (5, 1, 9, 1), (3, 2, 2, 64)], ids=str)
def test_sums_and_the_largest_entries_in_one_pass(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(6).integers(0, 5, shape).astype(dtype)
    every = [np.arange(n) for n in shape]
    found, plain_sums = sums_over_boxes(x, every, rank=True), sums_over_boxes(x, every)
    assert_array_equal(found.sums, plain_sums.sums)
    assert found.largest is not None
    assert_array_equal(found.largest, x.reshape(-1, shape[-1]).argmax(axis=0))
    assert plain_sums.largest is None
    zeros = np.full(shape, np.iinfo(dtype).min if dtype == "int64" else 0, dtype=dtype)
    assert_array_equal(sums_over_boxes(zeros, every, rank=True).largest, np.zeros(shape[-1]))


def test_no_ranking_where_rows_are_not_those_of_x() -> None:
    x = sample((9, 70), "float64")
    every = [np.arange(9), np.arange(70)]
    assert sums_over_boxes(np.asfortranarray(x), every, rank=True).largest is None
    assert sums_over_boxes(x[::-1], every, rank=True).largest is None
    flat = sample((1, 90), "float64")  # modes of one level are walked last
    assert sums_over_boxes(flat, [np.arange(1), np.arange(90)], rank=True).largest is None
    fused = sample((4, 5, 6), "float64")  # short modes are walked as one
    assert sums_over_boxes(fused, [np.arange(n) for n in fused.shape], rank=True).largest is None
    x[3, 4] = np.nan
    assert sums_over_boxes(x, every, rank=True).largest is None


@pytest.mark.usefixtures("_cut")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (1, 40, 30), (40, 30, 1), (1, 1, 50), (3, 2, 90), (1,)], ids=str)
def test_the_margins_of_every_mode_in_one_pass(shape: tuple[int, ...], dtype: str) -> None:
    x = sample(shape, dtype)
    expected = [x.sum(axis=tuple(j for j in range(x.ndim) if j != k), dtype=np.float64) for k in range(x.ndim)]
    for layout in layouts(x):
        found = margins(layout)
        assert found is not None
        assert (found.minimum, found.largest) == (float(x.min()), None)
        for own, margin in zip(found.sums, expected, strict=True):
            assert_allclose(own, margin, rtol=1e-12)
    ranked, twin = margins(x, rank=True), sums_over_boxes(x, [np.arange(n) for n in shape], rank=True)
    assert ranked is not None
    assert (ranked.largest is None) == (twin.largest is None)
    if ranked.largest is not None:
        assert_array_equal(ranked.largest, twin.largest)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1.7e308])
def test_no_margins_where_a_sum_is_not_finite(wrong: float) -> None:
    x = sample((9, 70), "float64")
    x[3, 4] = x[5, 6] = wrong
    assert margins(x) is None


@pytest.mark.parametrize("shape", [(30, 40), (9, 70, 11), (2500,)], ids=str)
def test_margins_found_beforehand_change_nothing(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """They save a pass where a basis grows on a coarser grid; a sample space that leaves cells out has none."""
    X = np.random.default_rng(9).gamma(2.0, size=shape)
    monkeypatch.setattr(limits, "COARSE_BOXES", X.size - 1)
    assert observe(X, grows=True).by_mode == ()
    monkeypatch.setattr(limits, "COMPILED_CELLS", 1)
    plain, found = observe(X), observe(X, grows=True)
    assert (len(plain.by_mode), len(found.by_mode)) == (1, X.ndim)
    assert found.total == pytest.approx(plain.total, rel=1e-13)
    assert found.positive == plain.positive
    quotient = Quotient(shape, tuple(random_cuts(shape)))
    for own, margin in zip(found.margins(quotient), plain.margins(quotient), strict=True):
        assert_allclose(own, margin, rtol=1e-12)
    assert observe(X, X > 1.0, grows=True).by_mode == ()
    X.flat[7] = np.nan
    assert observe(X, grows=True).by_mode == ()
    monkeypatch.setattr(limits, "COARSE_BOXES", X.size)
    assert len(observe(np.nan_to_num(X), grows=True).by_mode) == 1


@pytest.mark.parametrize("basis", ["B3(1)", "B1 + B3(1)", "B3(1, axis=0)", "B3(2)"])
def test_a_ranking_found_beforehand_changes_nothing(basis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(8).random((6, 5, 70))
    twin = ld.decompose(X, basis)
    monkeypatch.setattr(limits, "COMPILED_CELLS", 1)
    fit = ld.decompose(X, basis)
    assert_array_equal(fit.basis, twin.basis)
    assert_allclose(fit.theta, twin.theta, atol=1e-9)
    found = observe(X, rankings=lambda _: {2: 1})
    assert found.last_ranking is not None
    assert_array_equal(found.largest(1, 2), observe(X).largest(1, 2))
    assert observe(X, X > 0.5, rankings=lambda _: {2: 1}).last_ranking is None
    assert observe(X, rankings=lambda _: {2: 2, 0: 1}).last_ranking is None


@pytest.mark.parametrize("shape", [(9, 4, 1), (1, 3, 12), (4, 3, 5)], ids=str)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_largest_entries_of_each_slice_are_kept(shape: tuple[int, int, int], count: int) -> None:
    """Many ties, and NaN, which is never kept."""
    x = np.random.default_rng(count).integers(0, 3, shape).astype(np.float64)
    x[0, 0, 0] = np.nan
    values, places = np.full((shape[1], count), -np.inf), np.full((shape[1], count), NOWHERE)
    keep_largest(x, values, places)
    for j in range(shape[1]):
        entries = x[:, j, :].ravel()
        found = sorted(zip(-values[j], places[j], strict=True))
        wanted = sorted((-value, place) for place, value in enumerate(entries) if value == value)[:count]
        assert found == wanted
