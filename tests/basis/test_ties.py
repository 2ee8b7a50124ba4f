"""Bases of tied parameters: their columns on the grid, set algebra, names, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import legendre as ld
from legendre.basis.basis import Basis, empty
from legendre.core.sums.zeta import zeta
from legendre.data.dense import observe
from legendre.data.observation import Observation
from oracles import FloatArray

SQUARE = np.arange(1.0, 17.0).reshape(4, 4)


def tables(basis: Basis, x: FloatArray, data: Observation | None = None) -> list[FloatArray]:
    """Tabulate the features of a basis, less their values at the first cell."""
    terms = basis.terms(observe(x) if data is None else data)
    out = []
    for column in terms.as_ties().matrix().toarray().T:
        grid = np.zeros(x.shape)
        grid[tuple(terms.cells.T)] = column
        out.append(zeta(grid))
    return out


def from_first(table: FloatArray) -> FloatArray:
    return table - table.flat[0]


def test_a_feature_is_the_function_that_was_given() -> None:
    x, rng = np.ones((3, 4, 2)), np.random.default_rng(0)
    table = rng.normal(size=x.shape)
    found = tables(ld.features({"all": table, "two": np.ones((4, 1)) * np.arange(2.0)}), x)
    assert_allclose(found[0], from_first(table), atol=1e-14)
    assert_allclose(found[1], np.broadcast_to(np.arange(2.0), x.shape), atol=1e-14)
    (some,) = tables(ld.features({"some": lambda k, i: i - 2.0 * k}, modes=[2, 0]), x)
    assert_allclose(some, np.indices(x.shape)[0] - 2.0 * np.indices(x.shape)[2], atol=1e-14)


@pytest.mark.parametrize(
    ("basis", "expected"),
    [
        (ld.ties.linear(1, 0, {1: [0, 2, 4, 6]}), lambda i, j: [i * 2 * j]),
        (ld.ties.columns(0, 1, scores=[5, 6, 6, 8]), lambda i, j: [
            (j == k) * np.array([0, 1, 1, 3])[i] for k in (1, 2, 3)]),
        (ld.ties.rows(0, 1), lambda i, j: [(i == k) * j for k in (1, 2, 3)]),
    ],
)  # fmt: skip
def test_columns_are_in_order(basis: Basis, expected: Callable[..., list[FloatArray]]) -> None:
    """Which they are is judged by the target "ties" of tests/fuzz, without scores in a dict or for columns."""
    found, wanted = tables(basis, SQUARE), expected(*np.indices((4, 4)))
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert_array_equal(one, from_first(np.asarray(other, dtype=float)))


def test_quasi_symmetry_has_free_margins_and_a_symmetric_association() -> None:
    terms = ld.ties.quasi_symmetric(0, 1).terms(observe(SQUARE))
    assert terms.n_params == 3 + 3 + 6
    assert (terms.single_cells()[:6] >= 0).all()
    for table in tables(ld.ties.quasi_symmetric(0, 1), SQUARE)[6:]:
        assert_array_equal(table, table.T)


def test_bases_of_ties_combine_as_sets() -> None:
    data, main, uniform = observe(SQUARE), ld.interactions(1), ld.ties.uniform(0, 1)
    assert (main | uniform | uniform).terms(data).n_params == 7
    assert ((main | uniform) - uniform).terms(data).ties is None
    assert_array_equal(((main | uniform) - uniform).select(data), main.select(data))
    assert ((main | uniform) & (uniform | ld.full())).terms(data).n_params == 7
    assert (ld.ties.quasi_symmetric(0, 1) - main).terms(data).n_params == 6
    assert (uniform - main).terms(data).n_params == 1
    assert (empty() | uniform).terms(data).n_params == 1
    assert repr(main | uniform) == "interactions(1) | uniform(0, 1)"


def test_ties_are_read_from_text() -> None:
    text = "interactions(1) + linear('father', 'son', scores=([0, 1, 3], [0, 1, 4])) - diagonal(0, 1)"
    basis = ld.decompose(np.ones((3, 3)), text, names=["father", "son"]).ties
    assert basis is not None
    assert basis.names[-1] == "father by son, per unit of both scores"


def test_names_use_labels() -> None:
    levels = {"father": ["low", "high"], "son": ["low", "high"]}
    x = np.array([[8, 4], [3, 9]])

    def last(basis: Basis) -> str:
        return ld.decompose(x, basis, names=["father", "son"], levels=levels).parameters(kl_lost=None).names[-1]

    assert last(ld.ties.uniform("father", "son")) == "father by son, per step of both"
    assert last(ld.ties.diagonal("father", "son")) == "father = son = high"
    assert last(ld.ties.symmetric("father", "son") - ld.full()) == "son >= high, and the other way round"
    assert last(ld.ties.rows("father", "son", scores=[0, 2])) == "father = high, per step of the scores of son"
    assert last(ld.features({"steep": np.eye(2)})) == "steep"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ld.ties.linear(0, 1, ([1, 2, 3], [1, 2, 3, 4])), "linear: scores of mode 0, which has 4 levels"),
        (lambda: ld.ties.rows(0, 1, [1, 2, 3, 4, 5]), "rows: scores of mode 1, which has 4 levels"),
        (lambda: ld.ties.linear(0, 1, [1, 2, 3, 4]), "linear: scores=.* give two lists"),
        (lambda: ld.ties.linear(0, 1, {2: [1]}), "linear: scores for 2, but the modes are 0 and 1"),
        (lambda: ld.ties.linear(0, 1, {0: [1, 2, 3, np.nan]}), "scores of mode 0.* must be one finite number"),
        (lambda: ld.ties.uniform(0, 0), r"uniform: \(0, 0\) names a mode twice"),
        (lambda: ld.ties.uniform(0, 5), "uniform: .* is not a mode of X"),
        (lambda: ld.ties.uniform("a", "b"), "'a' is not a mode of X"),
        (lambda: ld.ties.topological([[1, 2], [2, 1]]), r"has shape \(2, 2\), but .* topological\(levels, 'f"),
        (lambda: ld.ties.topological([[1.5]]), "topological: levels must be a table of whole numbers"),
        (lambda: ld.ties.topological([[1, 2]], 0), "levels has 2 axes, but 1 modes are named"),
        (lambda: ld.features(cast(Any, [1])), "features: pass a dict of names"),
        (lambda: ld.features({"f": np.ones((3, 4))}), r"features\['f'\] has shape \(3, 4\), where \(4, 4\) is"),
        (lambda: ld.features({"f": np.full((4, 4), np.inf)}), r"features\['f'\] is not finite everywhere"),
        (lambda: ld.features({"f": "text"}), r"features\['f'\] has dtype"),
    ],
)  # fmt: skip
def test_what_is_no_tie_is_refused_in_a_sentence(make: Callable[[], Basis], words: str) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=words):
        ld.decompose(SQUARE, make())


@pytest.mark.parametrize(
    "basis",
    [
        ld.features({"array": np.arange(12.0).reshape(4, 3) ** 2, "function": lambda i, j: i * j}),
        ld.ties.linear(0, 1, ([0, 5, 1, 2], [0, 2, 7])),
        ld.ties.rows(1, 0, scores=[3, 0, 9, 1]),
        ld.ties.topological([[1, 2, 3], [3, 1, 2], [2, 2, 1], [3, 1, 1]]),
    ],
    ids=lambda basis: repr(basis).split("(")[0],
)
def test_features_stay_with_their_levels_however_these_are_arranged(basis: Basis) -> None:
    x = np.random.default_rng(0).poisson(30, (4, 3)) + 1.0
    own = ld.decompose(x, ld.interactions(1) | basis)
    fit = ld.decompose(x, ld.interactions(1) | basis, unordered={0: [2, 0, 3, 1], 1: [1, 2, 0]})
    assert_allclose(fit.tensor(), own.tensor(), rtol=1e-7)


def test_symmetry_needs_the_same_levels() -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=r"symmetric: mode 0 has 2 levels, mode 1 has 3; the two must"):
        ld.decompose(np.ones((2, 3)), ld.ties.symmetric(0, 1))
    with pytest.raises(ld.errors.InvalidBasis, match=r"diagonal: a and b have the same levels in different orders"):
        ld.decompose(np.ones((2, 2)), ld.ties.diagonal(0, 1), names=["a", "b"], levels=[["x", "y"], ["y", "x"]])


def test_doors_that_take_cells_only_say_which_take_ties() -> None:
    words = r"uniform\(0, 1\) has tied parameters .* which decompose, plan and complete take"
    for call in (
        lambda: ld.hidden(np.ones((3, 3)), ld.ties.uniform(0, 1), [2]),
        lambda: ld.decompose(np.ones((3, 3)), ld.adaptive(3, include=ld.ties.uniform(0, 1))),
    ):
        with pytest.raises(ld.errors.InvalidBasis, match=words):
            call()
