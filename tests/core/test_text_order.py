"""Texts that mean numbers, times or days are sorted as these, by every reader of rows; others by alphabet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import legendre as ld
from legendre.core.labels import is_ascending, sort_keys, sorted_levels

LISTS = [
    ["7", "9", "10", "11"],
    ["-5", "-0.5", "0", "1e1", "200"],
    ["<18", "18-24", "25–34", "35 to 64", "65+"],
    ["<=10", "> 10"],
    ["5%", "20%"],
    ["2020-9-1", "2020-10-1", "2021-01-01 08:00"],
    ["7:30", "9:00", "10:15"],
    ["12:10 am", "9:30 am", "12:05 pm", "1:00 PM"],
    ["9h30", "10h00"],
    ["2024-01-01 9:00 AM", "2024-01-01 1:00 PM", "2024-01-02 9:00 AM", "2025-01-01 8:00 AM"],
    ["2024-01-01T10:00:00.25", "2024-01-01T10:00:00.5"],
    ["9:30", "1" * 5000],
    ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"],
    ["mo.", "tu.", "su."],
    ["January", "February", "March", "December"],
    ["Apr", "Jun", "Jul", "Sept"],
]


def levels_of(x: ld.SparseTensor) -> list[list[str]]:
    assert x.levels is not None
    return [list(own) for own in x.levels if own is not None]


@pytest.mark.parametrize("texts", LISTS, ids=lambda texts: texts[0][:20])
def test_texts_that_have_an_order_come_in_it(texts: list[str], rng: np.random.Generator) -> None:
    for mixed in (texts[::-1], rng.permutation(texts).tolist()):
        assert sorted_levels(np.array([*mixed, mixed[0]])).tolist() == texts
        assert sorted_levels(np.array(mixed, dtype=object)).tolist() == texts
    assert is_ascending(texts)
    assert is_ascending(texts[::-1])


@pytest.mark.parametrize(
    "texts", [["BOS", "LAX"], ["may", "will"], ["1st", "2nd"], ["Mon", "Jan"], ["a10", "a9"], ["mon", ""]]
)
def test_names_are_sorted_by_alphabet(texts: list[str]) -> None:
    assert sort_keys(texts) is None
    assert not is_ascending(texts)
    assert sorted_levels(np.array(texts[::-1])).tolist() == sorted(texts)


def test_equal_numbers_in_other_digits_are_levels_of_their_own() -> None:
    assert sorted_levels(np.array(["7", "07", "8", "7.0"])).tolist() == ["07", "7", "7.0", "8"]


def test_a_week_may_begin_on_any_day_but_not_jump() -> None:
    week = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    assert is_ascending(week)
    assert not is_ascending(sorted(week))
    assert not is_ascending(["10", "7", "9"])


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_rows_of_days_and_ages_are_read_in_order(library: object) -> None:
    columns = {"day": ["Tue", "Mon", "Sun", "Sat"], "age": ["5-9", "10-14", "65+", "5-9"]}
    x = ld.from_rows(library(columns), columns=["day", "age"])  # type: ignore[operator]  # any of the constructors
    wanted = {"day": ["Mon", "Tue", "Sat", "Sun"], "age": ["5-9", "10-14", "65+"]}
    assert levels_of(x) == list(wanted.values())


def test_batches_with_different_days_are_joined_in_order() -> None:
    batches = [pd.DataFrame({"day": days, "n": ["9", "10"]}) for days in (["Tue", "Fri"], ["Mon", "Tue"])]
    x = ld.from_rows(iter(batches), columns=["day", "n"])
    assert levels_of(x) == [["Mon", "Tue", "Fri"], ["9", "10"]]
    assert x.cells.tolist() == [[0, 0], [1, 0], [1, 1], [2, 1]]
    assert x.values.tolist() == [1, 1, 1, 1]


def test_batches_with_dates_of_different_units_are_joined() -> None:
    batches = [
        {"t": np.array(days, unit), "b": np.array([0, 1])}
        for days, unit in ((["2024-01-01", "2024-01-02"], "M8[ns]"), (["2024-01-03", "2024-01-02"], "M8[s]"))
    ]
    x = ld.from_rows(batches)
    assert x.shape == (3, 2)
    assert x.cells.tolist() == [[0, 0], [1, 1], [2, 0]]
    assert x.values.tolist() == [1, 2, 1]


def test_days_in_another_order_are_arranged_by_the_data() -> None:
    """A cross table of pandas has its days by alphabet; that is no order to grow a basis on."""
    week = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    X = np.random.default_rng(0).poisson(np.outer([9, 9, 9, 9, 9, 40, 40], [1, 2, 3, 4])).astype(float)
    given = ld.decompose(X, ld.adaptive(2), names=["day", "shop"], levels=[week, [1, 2, 3, 4]])
    order = np.argsort(week)
    mixed = ld.decompose(X[order], ld.adaptive(2), names=["day", "shop"], levels=[sorted(week), [1, 2, 3, 4]])
    assert not given.arrangement
    assert list(mixed.arrangement) == ["day"]
    days = [str(day) for day in mixed.arrangement["day"]]
    assert abs(days.index("Sat") - days.index("Sun")) == 1
