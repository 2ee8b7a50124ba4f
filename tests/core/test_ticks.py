"""Ticks of axes: which levels are named, and how."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from matplotlib.figure import Figure

from legendre.core.figures import choose_ticks, format_number, level_ticks, set_factor_ticks, write_ticks
from legendre.core.labels import Labels


def of(levels: object, name: str = "mode") -> Labels:
    listed = list(levels) if not isinstance(levels, np.ndarray) else levels  # type: ignore[call-overload]
    return Labels.read((len(listed),), [name], [listed])


@pytest.mark.parametrize(
    ("levels", "texts", "more"),
    [
        (np.array(["2019-01-05", "2019-02-06"], dtype="datetime64[ns]"), ["01-05", "02-06"], " (2019-…)"),
        (np.array(["2018-12", "2019-01"], dtype="datetime64[M]"), ["2018-12", "2019-01"], ""),
        (np.array(["2019-01-05T06", "2019-01-05T17"], dtype="datetime64[h]"), ["06:00", "17:00"], " (2019-01-05 …)"),
        ([datetime.date(2019, 1, 5), datetime.date(2019, 1, 6)], ["05", "06"], " (2019-01-…)"),
        ([datetime.time(6, 10), datetime.time(17, 0)], ["06:10", "17:00"], ""),
        ([1, 2.5, 1 / 3], ["1", "2.5", "0.3333"], ""),
        (["short", "a name of nineteen."], ["short", "a name …eteen."], ""),
        (
            ["North America, all 1", "North Atlantic all 1", "S"],
            ["North America, all 1", "North Atlantic all 1", "S"],
            "",
        ),
        ([100000.5, 100001.5], ["100000.5", "100001.5"], ""),
        ([12345.6], ["1.235e+04"], ""),
    ],
)
def test_levels_are_written_shortly(levels: object, texts: list[str], more: str) -> None:
    assert write_ticks(of(levels).levels_of(0)) == (texts, more)


def test_which_levels_have_an_order() -> None:
    assert Labels((3,)).is_ordered(0)
    for levels in (
        [1, 2],
        ["06:00", "06:10"],
        ["2019-01-01", "2019-01-02"],
        np.array(["2019"], "datetime64[Y]"),
        ["Mon", "Tue"],
    ):
        assert of(levels).is_ordered(0), levels
    assert not of(["AA", "UA"]).is_ordered(0)
    assert of([datetime.time(6), datetime.time(7)]).is_ordered(0)


def test_round_labels_are_preferred() -> None:
    half_past = [f"{5 + (i + 3) // 6:02}:{(i + 3) % 6}0" for i in range(108)]  # from 05:30 on
    assert {half_past[i][-2:] for i in choose_ticks(half_past, 8)} == {"00"}
    days = [f"{i} Jan" for i in range(1, 26)]
    assert [days[i] for i in choose_ticks(days, 5)] == ["1 Jan", "6 Jan", "11 Jan", "16 Jan", "21 Jan"]
    assert choose_ticks(["a", "b"], 8) == [0, 1]


def test_names_without_room_are_turned_and_every_nth_is_written() -> None:
    ax = Figure().add_subplot()
    level_ticks(ax, "x", of([f"station {i}" for i in range(100)], "station"), 0)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "20", "40", "60", "80"]
    assert ax.get_xticks().tolist() == [0, 20, 40, 60, 80]
    assert ax.get_xticklabels()[0].get_rotation() == 90
    assert ax.get_xlabel() == "station (station …)"


def test_all_levels_are_named_where_they_have_room() -> None:
    ax = Figure().add_subplot()
    level_ticks(ax, "x", of("abc"), 0)
    level_ticks(ax, "y", of("abcdef"), 0)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["a", "b", "c"]
    assert ax.get_xticklabels()[0].get_rotation() == 0
    assert [text.get_text() for text in ax.get_yticklabels()] == list("abcdef")
    level_ticks(ax, "x", Labels((4, 2000)), 1)
    assert ax.get_xlabel() == "level of mode 1"
    assert 3 <= len(ax.get_xticks()) <= 8


def test_a_million_levels() -> None:
    ax = Figure().add_subplot()
    level_ticks(ax, "x", Labels((1_000_000,)), 0)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["0", "250000", "500000", "750000"]
    days = np.arange("2000-01-01", "2010-01-01", dtype="datetime64[D]")
    level_ticks(ax, "y", of(days, "day"), 0)
    assert [text.get_text() for text in ax.get_yticklabels()][:2] == ["2002-01-20", "2004-10-16"]
    assert ax.get_ylabel() == "day"


def test_factors_are_plain_numbers() -> None:
    ax, short = Figure().add_subplot(), Figure().add_subplot()
    ax.plot([1, 2, 3], [0.2, 1, 7])
    set_factor_ticks(ax)
    low, high = ax.get_ylim()
    shown = [ax.yaxis.get_major_formatter()(v) for v in ax.get_yticks() if low <= v <= high]
    assert shown == ["0.2", "0.5", "1", "2", "5"]
    short.plot([1, 2], [0.6, 1.6])
    set_factor_ticks(short)
    assert short.get_yscale() == "linear"
    assert [format_number(v) for v in (0.05, 12345.0, 2e9)] == ["0.05", "12,345", "2e+09"]


def test_long_names_of_axes_are_broken_into_lines() -> None:
    """What all levels begin with was written into the label, which then went beyond the figure."""
    ax = Figure(figsize=(3, 2)).subplots()
    level_ticks(ax, "y", of([f"a long common beginning of level {i}" for i in range(4)], "a mode with a long name"), 0)
    lines = ax.get_ylabel().split("\n")
    assert len(lines) > 1
    assert max(map(len, lines)) <= 24
