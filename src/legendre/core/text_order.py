"""Texts that have an order of their own: numbers, ranges of numbers, dates, times, days of the week and months."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from legendre.core.types import AnyArray

NUMBER = re.compile(
    r"(?P<sign>[<>]?)=? ?(?P<first>[-+]?\d+(\.\d+)?([eE][-+]?\d+)?)"
    r"( ?(-|–|to) ?(?P<last>\d+(\.\d+)?))?(%|(?P<open>\+))?"
)
TIME = re.compile(r"\d{4}([-/]\d\d?){1,2}([ T].*)?|\d\d?[:h]\d\d.*")
PART, HOUR = re.compile(r"\.\d+|\d+"), re.compile(r"(?<=\d)[:h]")  # numbers; what ends an hour
HALF_DAY = re.compile(r"\d *([ap])\.?m\b", re.IGNORECASE)
WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
YEAR = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november")
CALENDAR = ((WEEK, (2, 3, 4, 9)), ((*YEAR, "december"), (3, 4, 9)))
"""Names with an order, and the numbers of letters that they are cut to."""


def sort_keys(texts: Sequence[str]) -> list[Any] | None:
    """Return keys that sort texts by what they mean; ``None`` for texts that are names.

    >>> texts = ["65+", "18-24", "<18"]
    >>> [text for _, text in sorted(zip(sort_keys(texts), texts))]
    ['<18', '18-24', '65+']
    >>> sort_keys(["Mon", "Wed"]), sort_keys(["9:30", "10:00"]), sort_keys(["BOS", "LAX"])
    ([0, 2], [(9.0, 30.0), (10.0, 0.0)], None)
    """
    stripped = [text.strip() for text in texts]
    numbers = [NUMBER.fullmatch(text) for text in stripped]
    if all(numbers):
        return [_number_key(found) for found in numbers if found]
    if all(found or TIME.fullmatch(text) for text, found in zip(stripped, numbers, strict=True)):
        return [_time_key(text) for text in stripped]
    words = [text.lower().rstrip(".") for text in stripped]
    for names, cuts in CALENDAR:
        places = {name[:n]: place for place, name in enumerate(names) for n in cuts}
        if all(word in places for word in words):
            return [places[word] for word in words]
    return None


def _number_key(found: re.Match[str]) -> tuple[float, int, float]:
    """Return the number, or the first of a range; what lies below it comes before, what lies above it after."""
    first = float(found["first"])
    side = -1 if found["sign"] == "<" else int(found["sign"] == ">" or bool(found["open"]))
    return first, side, float(found["last"] or first)


def _time_key(text: str) -> tuple[float, ...]:
    """Return all numbers from left to right, the hour by the clock of 24 hours."""
    parts = [float(part) for part in PART.findall(text)]
    half = HALF_DAY.search(text)
    if half:
        hour = len(PART.findall(HOUR.split(text, maxsplit=1)[0])) - 1
        parts[hour] = parts[hour] % 12 + 12 * (half[1].lower() == "p")
    return tuple(parts)


def ascending(texts: Sequence[str]) -> bool:
    """Whether texts that have an order stand in it, or in its reverse; a week may begin with any of its days.

    >>> [ascending(texts) for texts in (["7", "10"], ["10", "7", "9"], ["Sun", "Mon", "Tue"], ["Fri", "Mon", "Sat"])]
    [True, False, True, False]
    """
    keys = sort_keys(texts)
    if keys is None:
        return False
    if all(a >= b for a, b in pairwise(keys)):
        return True
    breaks = sum(a > b for a, b in pairwise(keys))
    rotated = isinstance(keys[0], int) and breaks == 1 and keys[-1] <= keys[0]  # days of the week, months
    return breaks == 0 or rotated


def sorted_levels(values: AnyArray) -> AnyArray:
    """Return different values once each, sorted: texts that have an order of their own in that order.

    >>> sorted_levels(np.array(["Tue", "Sun", "Mon", "Tue"])).tolist(), sorted_levels(np.array(["9", "10"])).tolist()
    (['Mon', 'Tue', 'Sun'], ['9', '10'])
    """
    found = np.unique(values)
    if found.dtype.kind not in "UTO" or not all(isinstance(value, str) for value in found.tolist()):
        return found
    keys = sort_keys(found.tolist())
    return found if keys is None else found[sorted(range(len(found)), key=keys.__getitem__)]
