"""Calls that ended in Python's own exceptions: each is a sentence of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

import legendre as ld

X = [[1, 2], [3, 4]]
ROWS = {"a": [1, 1, 2], "b": [1, 2, 2]}
FLAG = np.array([1, 2])

ODD: dict[str, tuple[Callable[[], Any], str]] = {
    "a minus in a formula": (
        lambda: ld.loglinear(ROWS, "uniform(-a, b)"),
        "the formula 'uniform(-a, b)': ",
    ),
    "brackets in a formula": (lambda: ld.loglinear(ROWS, "(" * 5000 + "a" + ")" * 5000), "too many brackets"),
    "brackets in a basis": (lambda: ld.decompose(X, "(" * 5000 + "B1" + ")" * 5000), "cannot read the basis"),
    "a null byte, saved": (lambda: ld.decompose(X, "B1").save("a\0b"), "without null characters; got 'a\\x00b'."),
    "a null byte, loaded": (lambda: ld.load("a\0b"), "without null characters"),
    "a null byte, read": (lambda: ld.read_tns("a\0b"), "without null characters"),
    "no path, saved": (lambda: ld.decompose(X, "B1").save(None), "a file name is a string, such as 'fit.npz'"),  # type: ignore[arg-type]
    "no path, reported": (lambda: ld.decompose(X, "B1").report(None), "such as 'report.html'"),  # type: ignore[arg-type]
    "no path, loaded": (lambda: ld.load(5), "a file name is a string, such as 'fit.npz', .* got 5"),  # type: ignore[arg-type]
    "a column that is a number": (lambda: ld.from_rows({"a": 1}), "column 'a' of the table is 1; a column is a list"),
    "a column that is a text": (lambda: ld.from_rows({"a": "xyz"}), "column 'a' of the table is 'xyz'"),
    "a column of records": (lambda: ld.from_rows({"a": np.zeros(3, "V4")}), "column 'a' has dtype |V4; a column is"),
    "a path for rows": (lambda: ld.from_rows("x.csv"), "table is 'x.csv', which holds no rows. Read the file first"),
    "a path for X": (lambda: ld.decompose("x.csv", "B1"), "X is the name of a file, 'x.csv'. Read it first"),
    "records for rows": (lambda: ld.from_rows([{"a": 1}]), "Of records make a frame: pandas.DataFrame(records)."),
    "records for X": (lambda: ld.decompose([{"a": 1}], "B1"), "X is a list of records. Make a frame of them"),  # type: ignore[arg-type]
    "a dataset for X": (lambda: ld.decompose(dataset(pa.table(ROWS)), "B1"), "X is a InMemoryDataset of pyarrow. To"),
    "an array for progress": (lambda: ld.decompose(X, "B1", progress=FLAG), "progress must be True or False, got arr"),  # type: ignore[arg-type]
    "an array for extend": (lambda: ld.decompose(X, "B1").tensor(extend=FLAG), "extend must be True or False"),  # type: ignore[arg-type]
    "an array for indices": (lambda: ld.decompose(X, "B1").log_prob(X, indices=FLAG), "indices must be True or"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", ODD)
def test_raw_exceptions_are_sentences(name: str) -> None:
    call, sentence = ODD[name]
    with pytest.raises(ld.LegendreError) as problem:
        call()
    assert sentence.partition(" .* ")[0] in str(problem.value)
