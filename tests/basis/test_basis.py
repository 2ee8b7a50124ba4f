"""The builders against their definitions, written as comprehensions, for orders 1 to 5."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import legendre as ld
from cases import BoolArray, Case
from fuzz import draw
from fuzz.oracle import basis_cells
from legendre.basis.basis import cells, empty
from legendre.basis.parse import as_basis
from legendre.data.dense import observe
from oracles import FloatArray
from strategies import count_tables, masks, problems, seeds, shapes

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


@settings(max_examples=200)
@given(tensors(), seeds)
def test_the_cells_of_a_basis_are_those_of_its_definition(drawn: Drawn, seed: int) -> None:
    """Every builder and every combination, in the order of cells; explicit cells keep their own order."""
    X, mask = drawn
    text = draw.basis_string(np.random.default_rng(seed), X.shape)
    chosen = selected(text, X, mask)
    assert len(chosen) == len(set(chosen))
    assert set(chosen) == basis_cells(text, X, mask)
    if not any(sign in text for sign in ("cells", "+", "|", "&", " - ")):
        assert chosen == sorted(chosen)


def test_the_indices_of_c_k() -> None:
    """The 28 rows of MNIST with l = 10: every second row from the paper's row 2 on."""
    chosen = selected(ld.B2(10), np.ones((28, 1, 1)))
    assert [v[0] for v in chosen] == [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]
    assert selected(ld.B2(9), np.ones((3, 4))) == [(0, j) for j in range(1, 4)] + [
        (i, j) for i in (1, 2) for j in range(4)
    ]


@given(problems())
def test_explicit_cells_keep_their_order_and_lose_repeats(case: Case) -> None:
    twice = np.concatenate([case.basis, case.basis[::-1]])
    chosen = cells(twice).select(observe(case.X, case.mask))
    assert_array_equal(chosen, case.basis)


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
