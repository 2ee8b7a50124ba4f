"""Names of modes and levels: looked up, written, and refused in a sentence."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from legendre.core.errors import InvalidLabels, InvalidQuery
from legendre.core.labels import Labels

FLIGHTS = Labels.read((3, 2, 4), ["carrier", "dest", "hour"], [["AA", "DL", "UA"], ["BOS", "SFO"], [6, 7, 8, 20]])


def test_a_cell_is_named_by_its_labels() -> None:
    assert FLIGHTS.cell((2, 1, 3)) == "carrier UA, dest SFO, hour 20"
    assert Labels((2, 2)).cell((0, 1)) == "[0, 1]"
    assert FLIGHTS.part([2, 0]).cell((0, 1)) == "hour 6, carrier DL"


def test_modes_and_levels_are_found_by_label_or_number() -> None:
    assert [FLIGHTS.find_mode(key) for key in ("carrier", 1, "hour")] == [0, 1, 2]
    assert FLIGHTS.find_level(1, "SFO") == FLIGHTS.find_level(1, 1) == 1
    assert FLIGHTS.find_level(2, 8) == FLIGHTS.find_level(2, np.int64(8)) == 2
    assert Labels((5,)).find_level(0, 4) == 4


def test_dates_are_labels() -> None:
    days = np.array(["2013-01-01", "2013-01-02"], dtype="datetime64[ns]")
    labels = Labels.read((2,), ["day"], [days])
    assert labels.level(0, 1) == "2013-01-02"
    assert labels.find_level(0, days[1]) == labels.find_level(0, "2013-01-02") == 1
    assert labels.find_level(0, datetime.date(2013, 1, 1)) == 0
    with pytest.raises(InvalidQuery, match=r"^day has no level '2014-01-01'"):
        labels.find_level(0, "2014-01-01")


@pytest.mark.parametrize(
    ("levels", "text"),
    [
        ([datetime.date(2024, 5, 2), datetime.date(2024, 5, 3)], "2024-05-03"),
        ([datetime.time(8), datetime.time(9, 30)], "09:30:00"),
        (list(pd.period_range("2024-04", periods=2, freq="M")), "2024-05"),
        (list(pd.interval_range(0, 2)), "(1, 2]"),
    ],
)
def test_objects_are_found_by_their_texts_too(levels: list[Any], text: str) -> None:
    labels = Labels.read((2,), ["day"], [levels])
    assert labels.find_level(0, text) == labels.find_level(0, levels[1]) == 1


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: FLIGHTS.find_mode("destt", "marginal"), "marginal: unknown mode 'destt'; did you mean 'dest'?"),
        (lambda: FLIGHTS.find_mode(3, "marginal"), "marginal: 3 is not a mode of X, which has 3, counted from 0 to 2."),
        (
            lambda: FLIGHTS.find_level(0, "AAA"),
            "carrier has no level 'AAA'. Did you mean 'AA'? Its levels: AA, DL, UA.",
        ),
        (lambda: FLIGHTS.find_level(2, 9), "hour has no level 9. Its levels: 6, 7, 8, 20."),
        (lambda: FLIGHTS.find_level(2, "noon"), "hour has no level 'noon'. Its levels: 6, 7, 8, 20."),
        (
            lambda: FLIGHTS.find_level(2, "20"),
            "hour has no level '20'. Did you mean 20? Its levels: 6, 7, 8, 20.",
        ),
        (
            lambda: Labels.read((2,), ["x"], [["200", "404"]]).find_level(0, 404),
            "x has no level 404. Did you mean '404'? Its levels: 200, 404.",
        ),
        (lambda: Labels((2, 3)).find_level(1, 3), "mode 1 has no index 3; its indices are integers from 0 to 2."),
    ],
)
def test_what_is_not_there_is_named_with_the_nearest(ask: Any, text: str) -> None:
    with pytest.raises(InvalidQuery) as problem:
        ask()
    assert str(problem.value).startswith(text)


@pytest.mark.parametrize(
    ("names", "levels", "text"),
    [
        (["a"], None, "names must hold a different, non-empty name for each of the 2 modes of X; got ['a']."),
        (["a", "a"], None, "names must hold a different, non-empty name"),
        (["a", "b"], [["x", "y"]], "levels has 1 lists, X has 2 modes"),
        (["a", "b"], [["x"], None], "levels of a: 1 labels, but the mode has 2 levels."),
        (["a", "b"], {"b": ["x", "y", "x"]}, "levels of b: 'x' stands for levels 0 and 2. Rename one."),
        (["a", "b"], {"b": ["x", None, "y"]}, "levels of b: label 1 is None"),
        (["a", "b"], {"b": "xyz"}, "levels of b: 'xyz' is not a list of labels"),
        (["a", "b"], {"a": {"x"}}, "levels of a: {'x'} is not a list of labels"),  # a set has no order
        (["a", "b"], {"b": np.ones((3, 3))}, "levels of b: label 0 is array"),
        (["a", "b"], {"c": ["x", "y"]}, "levels: unknown mode 'c'"),
        (["a", "b"], {"a": [["x"], ["y"]]}, "levels of a: label 0 is ['x']"),
    ],
)
def test_labels_that_do_not_fit_are_refused(names: Any, levels: Any, text: str) -> None:
    with pytest.raises(InvalidLabels) as problem:
        Labels.read((2, 3), names, levels)
    assert str(problem.value).startswith(text)


def test_a_million_labels() -> None:
    labels = Labels.read((10**6,), ["id"], [np.arange(10**6) * 7])
    assert labels.find_level(0, 7 * 123_456) == 123_456
    with pytest.raises(InvalidQuery, match=r"^id has no level 3\. .*Its levels: 0, 7, 14, .*, \.\.\.\.$"):
        labels.find_level(0, 3)
