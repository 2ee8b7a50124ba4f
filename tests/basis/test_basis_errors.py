"""Bases that cannot be: each error names the value and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legendre as ld

X = np.arange(1.0, 13.0).reshape(3, 4)

AT_THE_TENSOR: list[tuple[Any, str]] = [
    ([[0, 1], [3, 0]], r"cell \[3, 0\] is outside the grid \(3, 4\)\. Indices start at 0"),
    ([[0, -1]], r"cell \[0, -1\] is outside the grid \(3, 4\)"),
    ([[0, 1], [0, 0]], r"the basis holds the bottom cell \[0, 0\]\. Leave it out: its parameter is -psi"),
    ([[0, 1, 2]], r"cells must be integers, k x 2; got shape \(1, 3\)"),
    ([[0.0, 1.0]], r"must be integers, got dtype float64\. Pass them \.astype\(int\)\."),
    ([[0.5, 1.0]], r"must be integers, got dtype float64\.$"),
    ([[True, False]], r"must be integers, got dtype bool\."),
    ([["a", "b"]], r"must be integers, got dtype <U1\."),
    ([0, 1], r"must be a k x N array, one row per cell; got shape \(2,\)\. For a single cell pass \[cell\]"),
    ([[0, 1], [1]], "its rows differ in length. Each cell needs one coordinate per mode"),
    (
        {},
        r"a basis is a recipe such as B1\(\) \| B3\(5\), a string such as 'B1 \+ B3\(5\)' or cells, k x N; got {}",
    ),
    (2.5, r"or cells, k x N; got 2\.5\."),
    (ld.interactions(3), r"interactions\(3\): X has 2 modes, so at most interactions\(2\)"),
    (ld.interactions([(0, 2)]), r"interactions: \(0, 2\): 2 is not a mode of X, which has 2, counted from 0 to 1"),
    (ld.interactions([(-1,)]), r"interactions: \(-1,\): -1 is not a mode of X"),
    (ld.interactions([(0, 0)]), r"interactions: \(0, 0\) names a mode twice"),
    (ld.B2(1, axis=2), r"B2: axis=2: 2 is not a mode of X, which has 2, counted from 0 to 1"),
    (ld.B3(1, axis=-3), r"B3: axis=-3: -3 is not a mode of X, which has 2"),
    ("B2(1, axis='rows')", r"axis.*'rows'"),
    ("B3(1, axis=1.0)", r"axis.*1\.0"),
]


@pytest.mark.parametrize(("basis", "message"), AT_THE_TENSOR, ids=str)
def test_a_basis_that_does_not_fit_the_tensor(basis: Any, message: str) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=message):
        ld.decompose(X, basis)


ALONE: list[tuple[Callable[[], Any], str]] = [
    (lambda: ld.B2(0), r"B2\(l\): l must be an integer >= 1, got 0"),
    (lambda: ld.B3(-4), r"B3\(l\): l must be an integer >= 1, got -4"),
    (lambda: ld.B2(True), r"B2\(l\): l must be an integer >= 1, got True"),
    (lambda: ld.B3(2.0), r"B3\(l\): l must be an integer >= 1, got 2\.0"),  # type: ignore[arg-type]
    (lambda: ld.B3("2"), r"B3\(l\): l must be an integer >= 1, got '2'"),  # type: ignore[arg-type]
    (lambda: ld.interactions(0), r"interactions: the order .* must be an integer >= 1, got 0"),
    (lambda: ld.interactions(True), "interactions: pass an order such as 2, or sets of modes .* got True"),
    (lambda: ld.interactions(1.5), r"interactions: pass an order .* got 1\.5"),  # type: ignore[arg-type]
    (lambda: ld.interactions("01"), "interactions: pass an order .* got '01'"),
    (lambda: ld.interactions([0, 1]), r"interactions: pass an order .* got \[0, 1\]"),  # type: ignore[list-item]
    (lambda: ld.interactions([(0.0,)]), r"interactions: modes are integers counted from 0, or names, got \(0\.0,\)"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("build", "message"), ALONE, ids=[message for _, message in ALONE])
def test_a_basis_that_no_tensor_has(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=message):
        build()


STRINGS = [
    ("B3(l=2, l=3)", r"'B3\(l=2, l=3\)' in the basis 'B3\(l=2, l=3\)' names an argument twice\."),
    (
        "B4",
        r"unknown basis 'B4'; did you mean 'B[123]'\? "
        r"Valid: B1, B2, B3, adaptive, boxes, cells, columns, diagonal, empty, full, graph, interactions, linear, "
        r"quasi_symmetric, rows, symmetric, topological, uniform\.",
    ),
    ("interaction(2)", "unknown basis 'interaction'; did you mean 'interactions'?"),
    ("", r"cannot read the basis ''\. Write it like 'B1 \+ B2\(10\) \+ B3\(10\)'"),
    ("B2", r"B2 in the basis 'B2': missing 1 required positional argument: 'l'"),
    ("B2(1, 2, 3)", r"B2 in the basis 'B2\(1, 2, 3\)': takes from"),
    ("B2(k=3)", r"B2 in the basis 'B2\(k=3\)': got an unexpected keyword argument 'k'"),
    ("B2(n)", r"'n' in the basis 'B2\(n\)' is not a number or a list of modes"),
    ("B1 * B2(1)", r"cannot read 'B1 \* B2\(1\)' in the basis 'B1 \* B2\(1\)'"),
    ("-B1", r"cannot read '-B1' in the basis '-B1'"),
    ("__import__('os').getcwd()", r"cannot read"),
    ("B2(**{'l': 1})", r"in the basis"),
    ("B2(*[1])", r"'\*\[1\]' in the basis .* is not a number or a list of modes"),
    ("B2({[1]})", r"in the basis"),
    ("(" * 500 + "B1" + ")" * 500, r"cannot read the basis"),
    ("B1\x00", r"cannot read the basis"),
]


@pytest.mark.parametrize(("text", "message"), STRINGS, ids=[text[:20] for text, _ in STRINGS])
def test_strings_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ld.errors.InvalidBasis, match=message):
        ld.decompose(X, text)
