"""The builders against their definitions, written as comprehensions, for orders 1 to 5."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import legendre as ld
from cases import BoolArray, Case
from legendre.basis.basis import cells, empty
from legendre.basis.parse import as_basis
from legendre.data.dense import observe
from oracles import FloatArray
from strategies import count_tables, masks, positive_tensors, problems, shapes

Cell = tuple[int, ...]
Drawn = tuple[FloatArray, BoolArray]


@st.composite
def tensors(draw: st.DrawFn) -> Drawn:
    """Small counts have many ties; zeros and holes are in the drawing too."""
    shape = draw(shapes(max_cells=40))
    X, mask = draw(count_tables(shape)), draw(masks(shape))
    return X, mask if X[mask].any() else np.ones(shape, dtype=np.bool_)


def selected(basis: ld.Basis | str, X: FloatArray, mask: BoolArray | None = None) -> list[Cell]:
    data = observe(X, "all" if mask is None else mask)
    chosen = as_basis(basis).select(data)
    assert chosen.dtype == np.int64
    assert chosen.shape[1:] == (X.ndim,)
    return [tuple(cell) for cell in chosen.tolist()]


def omega_plus(X: FloatArray, mask: BoolArray) -> list[Cell]:
    return [v for v in np.ndindex(X.shape) if mask[v] and any(v)]


def away_from_zero(v: Cell) -> set[int]:
    return {k for k, i in enumerate(v) if i > 0}


@given(tensors())
def test_b1_is_the_axes(drawn: Drawn) -> None:
    X, mask = drawn
    assert selected(ld.B1(), X, mask) == [v for v in omega_plus(X, mask) if len(away_from_zero(v)) == 1]


def chosen_rows(length: int, l: int) -> set[int]:  # noqa: E741 - the paper's name
    """C_k(l) = {c floor(I_k / l) : c = 1..l}, counted from 1 as in the paper; here from 0."""
    return {c * (length // l) - 1 for c in range(1, l + 1)} if l <= length else set(range(length))


@given(tensors(), st.integers(1, 4), st.integers(0, 4))
def test_b2_is_rows_and_columns_of_slices(drawn: Drawn, l: int, axis: int) -> None:  # noqa: E741
    X, mask = drawn
    axis %= X.ndim
    inner = [k for k in range(X.ndim) if k != axis]
    expected = [
        v
        for v in omega_plus(X, mask)
        if any(v[k] in chosen_rows(X.shape[k], l) and all(v[j] == 0 for j in inner if j != k) for k in inner)
    ]
    assert selected(ld.B2(l, axis=axis), X, mask) == expected
    assert selected(ld.B2(l, axis=axis - X.ndim), X, mask) == expected


def test_the_indices_of_c_k() -> None:
    """The 28 rows of MNIST with l = 10: every second row from the paper's row 2 on."""
    assert sorted(chosen_rows(28, 10)) == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
    chosen = selected(ld.B2(10), np.ones((28, 1, 1)))
    assert [v[0] for v in chosen] == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
    assert selected(ld.B2(9), np.ones((3, 4))) == [(0, j) for j in range(1, 4)] + [
        (i, j) for i in (1, 2) for j in range(4)
    ]


@given(tensors(), st.integers(1, 5), st.integers(0, 4))
def test_b3_is_the_largest_of_each_slice(drawn: Drawn, l: int, axis: int) -> None:  # noqa: E741
    """Larger values first, then the smaller index; the bottom competes and is then left out."""
    X, mask = drawn
    axis %= X.ndim
    expected = []
    for j in range(X.shape[axis]):
        competing = [v for v in np.ndindex(X.shape) if v[axis] == j and mask[v]]
        expected += sorted(competing, key=lambda v: (-X[v], v))[:l]
    assert selected(ld.B3(l, axis=axis), X, mask) == sorted(v for v in expected if any(v))


@given(shapes(max_cells=60).flatmap(positive_tensors), st.integers(1, 5))
def test_interactions_up_to_an_order(X: FloatArray, order: int) -> None:
    order = min(order, X.ndim)
    expected = [v for v in np.ndindex(X.shape) if 1 <= len(away_from_zero(v)) <= order]
    assert selected(ld.interactions(order), X) == expected


@given(tensors(), st.data())
def test_interactions_within_sets_reach_outside_omega(drawn: Drawn, data: st.DataObject) -> None:
    X, mask = drawn
    groups = [g for n in range(X.ndim + 1) for g in combinations(range(X.ndim), n)]
    sets = data.draw(st.lists(st.sampled_from(groups), max_size=4))
    expected = [v for v in np.ndindex(X.shape) if any(v) and any(away_from_zero(v) <= set(s) for s in sets)]
    assert selected(ld.interactions(sets), X, mask) == expected


@given(tensors())
def test_full_and_empty(drawn: Drawn) -> None:
    X, mask = drawn
    assert selected(ld.full(), X, mask) == omega_plus(X, mask)
    assert selected(empty(), X, mask) == []
    assert selected(cells([]), X, mask) == []


@given(problems())
def test_explicit_cells_keep_their_order_and_lose_repeats(case: Case) -> None:
    twice = np.concatenate([case.basis, case.basis[::-1]])
    chosen = cells(twice).select(observe(case.X, case.mask))
    assert_array_equal(chosen, case.basis)


@given(problems(max_params=8), st.data())
def test_set_algebra(case: Case, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(case.basis)))
    lower = data.draw(st.integers(0, cut))
    left, right = cells(case.basis[:cut]), cells(case.basis[lower:])
    a, b = (set(map(tuple, part.tolist())) for part in (case.basis[:cut], case.basis[lower:]))
    assert set(selected(left | right, case.X)) == a | b
    assert set(selected(left & right, case.X)) == a & b
    assert set(selected(left - right, case.X)) == a - b
    assert selected(left | right, case.X)[:cut] == [tuple(v) for v in case.basis[:cut].tolist()]


STRINGS: dict[str, ld.Basis] = {
    "B1": ld.B1(),
    "B1()": ld.B1(),
    " B1 + B2(2) + B3(3) ": ld.B1() | ld.B2(2) | ld.B3(3),
    "B2(l=2, axis=0)": ld.B2(2, axis=0),
    "B3(2, axis=-1)": ld.B3(2),
    "full - B1": ld.full() - ld.B1(),
    "interactions(2) & B3(4)": ld.interactions(2) & ld.B3(4),
    "interactions([(0, 1), (2,)])": ld.interactions([(0, 1), (2,)]),
    "empty": empty(),
    "B1 | B2(1) & B3(2)": ld.B1() | (ld.B2(1) & ld.B3(2)),
    "(B1 | B2(1)) & B3(2)": (ld.B1() | ld.B2(1)) & ld.B3(2),
    "B1 + B2(1) & B3(2)": (ld.B1() | ld.B2(1)) & ld.B3(2),
    "full - B1 & B3(2)": (ld.full() - ld.B1()) & ld.B3(2),
    "full - B1 - B2(1)": (ld.full() - ld.B1()) - ld.B2(1),
    "full - (B1 - B2(1))": ld.full() - (ld.B1() - ld.B2(1)),
}


@pytest.mark.parametrize("text", STRINGS, ids=str)
def test_the_string_form(text: str, rng: np.random.Generator) -> None:
    X = rng.integers(0, 9, size=(3, 4, 2)).astype(np.float64)
    assert selected(text, X) == selected(STRINGS[text], X)


RECIPES = [
    ld.B1() | ld.B2(2) | ld.B3(3),
    ld.full() - ld.B1(),
    (ld.B1() | ld.full()) & ld.B3(2),
    ld.B1() | (ld.full() & ld.B3(2)),
    ld.full() - (ld.B1() | ld.B2(1)),
    (ld.full() - ld.B1()) | ld.B2(1),
    ld.interactions([(0, 1), (2,)]) & ld.full(),
]


@pytest.mark.parametrize("basis", RECIPES, ids=repr)
def test_a_repr_reads_back_as_the_same_basis(basis: ld.Basis, rng: np.random.Generator) -> None:
    """A fit stores this text as its recipe."""
    X = rng.uniform(size=(3, 4, 2))
    assert selected(repr(basis), X) == selected(basis, X)


@pytest.mark.parametrize("combine", [operator.or_, operator.and_, operator.sub])
def test_bases_combine_with_bases_and_cells(combine: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match="a basis is a recipe"):
        combine(ld.B1(), 3)
    both = combine(ld.B1(), [[0, 1]]), combine(ld.B1(), cells([[0, 1]]))
    first, second = (basis.select(observe(np.ones((2, 2)))).tolist() for basis in both)
    assert first == second


@pytest.mark.parametrize("order", [12, 20])
def test_millions_of_sets_of_modes_are_refused_before_they_are_listed(order: int) -> None:
    X = ld.from_coords([[0] * 24, [1] * 24], [1.0, 2.0], [2] * 24)
    with pytest.raises(
        ld.errors.InvalidBasis, match=rf"interactions: 24 modes .* up to {order} modes, .* Take a lower order"
    ):
        ld.decompose(X, ld.interactions(order))
    with pytest.raises(ld.errors.InvalidBasis, match=r"interactions: 24 modes .* name smaller sets"):
        ld.decompose(X, ld.interactions([range(24)]))
