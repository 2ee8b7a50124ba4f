"""Ticks of axes: levels by their labels, as many as there is room for; factors as plain numbers; whole numbers."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING

import numpy as np

from legendre.core.figures import SMALL, room
from legendre.core.labels import Labels, level_text
from legendre.core.types import AnyArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER, LINE, GAP = SMALL * 0.6 / 72, SMALL * 1.15 / 72, 0.12  # inches: of a letter, of a line, between two labels
LONGEST = 14  # letters of a label; longer ones are cut
LONG, FEW = 2_000, 5  # levels from which on a mode is long, and ticks that it has
MOST = 8  # ticks on an axis whose levels do not all have room
CLOCK, ISO_DATE = re.compile(r"\d{1,2}:\d\d(:\d\d)?"), re.compile(r"\d{4}-\d\d(-\d\d)?")


def level_ticks(ax: Axes, axis: str, labels: Labels, k: int, sizes: FloatArray | None = None) -> None:
    """Name an axis, "x" or "y", after a mode, and its ticks after levels: all of them, or those that have room.

    Of levels in no order those with the largest `sizes` are named, of others some at equal distances.
    """
    name = labels.mode(k) if labels.names is not None else f"level of {labels.mode(k)}"
    inches, along = room(ax, axis), ax.xaxis if axis == "x" else ax.yaxis
    if labels.shape[k] > LONG:
        some, texts, more = _far_apart(labels, k)
        along.set_ticks(some, texts)
        along.set_label_text(name + more)
        return
    texts, more = tick_texts(labels, k)
    width = LETTER * max(map(len, texts)) + GAP
    ordered, n = is_ordered(labels, k), len(texts)
    if axis == "x" and (n * width <= inches or (ordered and inches >= 3 * width)):
        shown, turned = spaced(texts, min(MOST, int(inches / width)) if n * width > inches else n), False
    else:
        fits = max(int(inches / LINE), 2)
        turned = axis == "x"
        shown = list(range(n)) if n <= fits else spaced(texts, min(MOST, fits))
        if n > fits and not ordered and sizes is not None:
            shown = extreme(sizes, min(fits, 2 * MOST))
    along.set_ticks(shown, [texts[i] for i in shown])
    if turned:
        ax.tick_params(axis="x", labelrotation=90)
    along.set_label_text(name + more)


def _far_apart(labels: Labels, k: int) -> tuple[list[int], list[str], str]:
    """Name a few levels of a mode with very many, without writing the others."""
    n = labels.shape[k]
    least, unit = -(-n // FEW), 10 ** (len(str(-(-n // FEW))) - 1)
    step = next(times * unit for times in (1, 2, 5, 10) if times * unit >= least)
    some = list(range(0, n, step))
    own = labels.levels_of(k)[[*some, n - 1]]  # the last one for the years that the levels span
    texts, more = tick_texts(Labels(own.shape, None, (own,)), 0)
    return some, texts[:-1], more


def named_level(labels: Labels, k: int, i: int) -> str:
    """Write a mode with one of its levels.

    >>> named_level(Labels((2, 3)), 1, 2), named_level(Labels.read((2, 3), ["sex", "age"]), 1, 2)
    ('mode 1, level 2', 'age 2')
    """
    return f"{labels.mode(k)}{', level' if labels.names is None else ''} {labels.level(k, i)}"


def is_ordered(labels: Labels, k: int) -> bool:
    """Whether a line from level to level means something: for numbers, dates and times, not for other texts."""
    own = labels.levels_of(k)
    if own.dtype.kind not in "UO":
        return True
    return all(isinstance(x, (int, float, datetime.date, datetime.time)) or _is_time(str(x)) for x in own.tolist())


def _is_time(text: str) -> bool:
    return CLOCK.fullmatch(text) is not None or ISO_DATE.fullmatch(text) is not None


def tick_texts(labels: Labels, k: int) -> tuple[list[str], str]:
    """Write the levels of a mode shortly, and what the name of the axis says of all of them: the year, the day.

    >>> days = np.arange("2019-01-01", "2019-01-04", dtype="datetime64[D]")
    >>> tick_texts(Labels.read((3,), ["day"], [days]), 0)
    (['1 Jan', '2 Jan', '3 Jan'], ' (2019)')
    """
    own = labels.levels_of(k)
    if own.dtype.kind == "O" and all(isinstance(label, datetime.date) for label in own.tolist()):
        own = own.astype("datetime64[us]")
    if own.dtype.kind == "M":
        return _dates(own)
    texts = [f"{label:.4g}" if own.dtype.kind == "f" else level_text(label) for label in own]
    if all(re.fullmatch(r"\d\d:\d\d:00", text) for text in texts):
        texts = [text[:-3] for text in texts]
    return [text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in texts], ""


def _dates(own: AnyArray) -> tuple[list[str], str]:
    moments = [moment.item() for moment in own.astype("datetime64[s]")]
    days = {moment.date() for moment in moments}
    if len(days) == 1:
        return [f"{moment:%H:%M}" for moment in moments], f" ({next(iter(days))})"
    if any(moment.time() != datetime.time() for moment in moments):
        return [f"{moment:%Y-%m-%d %H:%M}" for moment in moments], ""
    years = {day.year for day in days}
    if len(years) == 1:
        return [f"{moment.day} {moment:%b}" for moment in moments], f" ({next(iter(years))})"
    if all(day.day == 1 for day in days):
        january = all(day.month == 1 for day in days)
        return [f"{moment:%Y}" if january else f"{moment:%b %Y}" for moment in moments], ""
    return [f"{moment:%Y-%m-%d}" for moment in moments], ""


def spaced(texts: list[str], most: int) -> list[int]:
    """Choose levels at equal distances, at most so many: of all distances the one with the roundest labels.

    >>> clock = [f"{6 + i // 6:02}:{i % 6}0" for i in range(108)]
    >>> [clock[i] for i in spaced(clock, 8)]
    ['06:00', '09:00', '12:00', '15:00', '18:00', '21:00']
    >>> spaced([str(i) for i in range(108)], 8)
    [0, 20, 40, 60, 80, 100]
    >>> [str(i + 1) for i in spaced([str(i + 1) for i in range(80)], 8)]
    ['10', '20', '30', '40', '50', '60', '70', '80']
    """
    n = len(texts)
    if n <= most:
        return list(range(n))
    least = -(-n // max(most, 2))
    dates = all(re.fullmatch(r"\d+ [A-Z][a-z]+", text) for text in texts)
    week = next((days for days in (7, 14, 28) if dates and least <= days <= 2 * least), 0)
    round_ending = ":00" if ":" in texts[0] else "0"

    def roundness(place: tuple[int, int]) -> tuple[bool, int, bool, int, int]:
        step, start = place
        shown = texts[start::step]
        letters = {text[-1:] for text in shown} | ({text[-2:] for text in shown} if ":" in shown[0] else set())
        return step != week, len(letters), not shown[0].endswith(round_ending), step, start

    steps = range(least, 2 * least + 1)
    starts = {s: next((i for i in range(s) if texts[i].endswith(round_ending)), 0) for s in steps}
    step, start = min({(s, i) for s in steps for i in (0, starts[s])}, key=roundness)
    return list(range(start, n, step))


def extreme(sizes: FloatArray, most: int) -> list[int]:
    """Choose levels of the largest sizes, not too near to each other to be named.

    >>> extreme(np.array([0, 9, 8, 0, 0, 0, 0, 0, 0, 7]), 4)
    [1, 9]
    """
    apart, chosen = len(sizes) / max(most, 1), list[int]()
    for i in np.argsort(-sizes, kind="stable").tolist():
        if len(chosen) < most and sizes[i] > 0 and all(abs(i - j) >= apart for j in chosen):
            chosen.append(i)
    return sorted(chosen)


def factor_ticks(ax: Axes) -> None:
    """Make the y-axis a logarithmic one of factors, with plain numbers at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    if high / low < 2.5:  # too short for 1, 2, 5
        ax.set_yscale("linear")
        return
    decades = np.log10(high / low)
    subs: tuple[float, ...] = (1.0, 2.0, 5.0) if decades <= 2 else (1.0, 3.0) if decades <= 3 else (1.0,)
    if decades < 1 and sum(low <= sub * ten <= high for sub in subs for ten in (0.01, 0.1, 1.0, 10.0)) < 3:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # so that there are three numbers to read factors by
    ax.yaxis.set_major_locator(LogLocator(subs=subs))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: plain(v)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_minor_formatter(NullFormatter())


def plain(value: float) -> str:
    """Write a number without an exponent where that is short.

    >>> [plain(v) for v in (0.001, 2.0, 1500000.0, 1e-12)]
    ['0.001', '2', '1,500,000', '1e-12']
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.3g}"


def whole_ticks(ax: Axes) -> None:
    """Put ticks of the x-axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
