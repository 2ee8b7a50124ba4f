"""Calls that ended in Python's own exceptions: each is a sentence of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow.dataset import dataset

import legendre

ld: Any = legendre  # of any type, because wrong types are passed on purpose
X = [[1, 2], [3, 4]]
ROWS = {"a": [1, 1, 2], "b": [1, 2, 2]}
FLAG = np.array([1, 2])  # an array where a flag or a name is expected
TABLE = pd.DataFrame([[3, 4], [5, 8]], pd.Index(["x", "y"], name="a"), pd.Index(["n", "y"], name="b"))
FIT = ld.decompose(X, "B1")
TURNED = [ld.loglinear(table, "a + b") for table in (TABLE, TABLE[::-1])]

ODD: dict[str, Callable[[], Any]] = {
    "the formula 'uniform(-a, b)': ": lambda: ld.loglinear(ROWS, "uniform(-a, b)"),
    "too many brackets": lambda: ld.loglinear(ROWS, "(" * 5000 + "a" + ")" * 5000),
    "cannot read the basis": lambda: ld.decompose(X, "(" * 5000 + "B1" + ")" * 5000),
    "without null characters; got 'a\\x00b'.": lambda: FIT.save("a\0b"),
    "without null characters": lambda: ld.read_tns("a\0b"),
    "a file name is a string, such as 'fit.npz'": lambda: FIT.save(None),
    "such as 'report.html'": lambda: FIT.report(None),
    "a file name is a string, such as 'fit.npz', .* got 5": lambda: ld.load(5),
    "column 'a' of the table is 1; a column is a list": lambda: ld.from_rows({"a": 1}),
    "column 'a' of the table is 'xyz'": lambda: ld.from_rows({"a": "xyz"}),
    "column 'a' has dtype |V4; a column is": lambda: ld.from_rows({"a": np.zeros(3, "V4")}),
    "column 'a' holds (1, [2]) in row 0, where a": lambda: ld.from_rows({"a": [(1, [2]), "x"]}),
    "table is 'x.csv', which holds no rows. Read the file first": lambda: ld.from_rows("x.csv"),
    "If you have records, make a frame first: pandas.": lambda: ld.from_rows([{"a": 1}]),
    "X is a list of records. Make a frame of them": lambda: ld.decompose([{"a": 1}], "B1"),
    "X is a InMemoryDataset of pyarrow. To": lambda: ld.decompose(dataset(pa.table(ROWS)), "B1"),
    "progress must be True or False, got arr": lambda: ld.decompose(X, "B1", progress=FLAG),
    "progress must be True or False": lambda: ld.compare(X, progress=FLAG),
    "solver must be a name or a solver object": lambda: ld.decompose(X, "B1", solver=FLAG),
    "extend must be True or False": lambda: FIT.tensor(extend=FLAG),
    "exp must be True or False": lambda: FIT.inference().coef(exp=FLAG),
    "hierarchical must be": lambda: ld.loglinear(ROWS, "a", hierarchical=FLAG),
    "data is 'a + b'. Write loglinear(data, formula)": lambda: ld.loglinear("a + b", ROWS),
    "Variables are given by name, not by number.": lambda: ld.loglinear(TABLE, [[1, 2]]),
    "the levels or their order differ: ['x', 'y'] and ['y', 'x']": lambda: ld.anova(*TURNED),
    "unknown coefficient 'a[x]'; .* its coefficient is 0.": lambda: TURNED[0].contrast({"a[x]": 1.0, "a[y]": -1.0}),
    "the support or base measure has no labels of levels": lambda: ld.loglinear(
        ROWS, "a + b", base=pd.DataFrame(X, columns=["x", "y"])
    ),
    "X has dtype <U1; .* count labels with ld.from_rows.": lambda: ld.decompose(np.array([["a", "b"]])),
    "If X is on a log scale, pass np.exp(X)": lambda: ld.decompose(np.log(np.divide(X, 9)), "B1"),
    "marginal: given: mode 1 has": lambda: FIT.marginal(0, given={1: 9}),
    "got 3. A number of parameters is adaptive(n).": lambda: ld.hidden(X, 3),
    "solver must be a name or a": lambda: ld.complete(X, solver=FLAG),
    "slack must be a finite number >= 0, got array": lambda: ld.balance(X, slack=FLAG),
    "features must be a dict of names and": lambda: ld.loglinear(ROWS, "a", features=FLAG),
    "nested must be True or False": lambda: ld.anova(FIT, FIT, nested=FLAG),
    "at least one; got 3": lambda: ld.from_rows(ROWS, 3),
    "kl_lost must be True or False": lambda: FIT.effects().summary(kl_lost=FLAG),
    "by must be 'share' or 'kl', got array": lambda: FIT.plot.graph(by=FLAG),
    "shared must be True or": lambda: ld.graph(shared=FLAG),
    "classes, if not None or 'auto',": lambda: ld.LegendreDensity(basis=ld.graph(), classes=FLAG).fit(X),
    "indices must be True or": lambda: FIT.log_prob(X, indices=FLAG),
}


@pytest.mark.parametrize("sentence", ODD)
def test_raw_exceptions_are_sentences(sentence: str) -> None:
    with pytest.raises(ld.LegendreError) as problem:
        ODD[sentence]()
    said = str(problem.value)
    assert all(part in said for part in sentence.split(" .* "))
    assert len(said) < 4000  # a text that was passed is not quoted in full


def test_the_recession_of_a_fit_is_not_writable() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ld.decompose([[1, 0], [2, 0]], "B1").recession[0] = 9


WORDS: dict[str, Callable[[Any], Any]] = {
    "offset='n'. Pass the factors themselves": lambda _: ld.loglinear(ROWS, "a", offset="n"),
    "family='p'. Counts are Poisson": lambda _: ld.loglinear(ROWS, "a", family="p"),
    "k=3. The penalty is the first argument": lambda m: m.step(k=3),
    "trace=0. The steps are in path": lambda m: m.step(trace=0),
    "test=1. Likelihood ratio tests are always made": lambda m: m.drop1(test=1),
    "rank=3. There is no rank: adaptive(n)": lambda _: ld.decompose(X, rank=3),
    "mask=3. Write NaN where nothing was measured": lambda _: ld.complete(X, mask=3),
    "nothing=3": lambda _: ld.decompose(X, nothing=3),
    "deviance. It is g2": lambda m: m.deviance,
    "params. coef() has them.": lambda m: m.params,
    "factors. effects() says": lambda m: m.fit.factors,
    "predict. tensor() has the fitted values": lambda m: m.fit.predict,
    "coef. loglinear(...) and fit.inference() have it": lambda m: m.fit.coef,
    "conf_int. coef(profile=True) has profile likelihood intervals": lambda m: m.conf_int,
    "heatmap. There are slices(), margins()": lambda m: m.plot.heatmap,
    "nothing": lambda m: m.nothing,
}


@pytest.mark.parametrize("said", WORDS)
def test_words_of_other_libraries_get_a_hint(said: str) -> None:
    """`deviance`, `params`, `rank=` and `offset=` ended in Python's bare errors."""
    word, _, hint = said.partition(". ")
    with pytest.raises((TypeError, AttributeError)) as problem:
        WORDS[said](TURNED[0])
    assert f"{word.partition('=')[0]!r}" in str(problem.value)
    assert str(problem.value).endswith(("'", "'.")) if not hint else hint in str(problem.value)
