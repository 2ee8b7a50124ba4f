"""Labels of levels: how one is written, and which one a caller's value means."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Number
from typing import Any

import numpy as np

from legendre.core.types import AnyArray


def level_text(label: Any) -> str:
    """Write a label: dates without the time of day where that is midnight, numbers in full, texts as they are."""
    if isinstance(label, np.datetime64):
        day = label.astype("datetime64[D]")
        return str(day if day == label else np.datetime_as_string(label, unit="auto"))
    return str(label)


def comparable(value: Any) -> Any:
    """Make labels comparable: NumPy's scalars as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def as_date(value: Any, own: AnyArray) -> Any:
    """Read a date, be it NumPy's, Python's or a text, as the labels of a mode have it."""
    try:
        return np.asarray(value, dtype=own.dtype).item()
    except (ValueError, TypeError):
        return None


def places(own: AnyArray) -> dict[Hashable, int]:
    """Return the place of each label; objects such as dates and periods are found by their texts too.

    >>> import datetime
    >>> places(np.array([datetime.date(2024, 5, 3)]))
    {'2024-05-03': 0, datetime.date(2024, 5, 3): 0}
    """
    by_label = {comparable(label): i for i, label in enumerate(own.tolist())}
    if own.dtype.kind != "O":
        return by_label
    others = {label: i for label, i in by_label.items() if not isinstance(label, (str, Number))}
    by_text = {level_text(label): i for label, i in others.items()}
    return by_text | by_label if len(by_text) == len(others) else by_label


def have_rank(labels: Any) -> bool:
    """Whether a caller's labels are ordered categories (of pandas, an Enum of polars), listed up or down their order.

    >>> import pandas as pd
    >>> [have_rank(pd.Categorical(list(own), list("smlx"), ordered=True)) for own in ("sml", "lms", "msl")]
    [True, True, False]
    """
    kind = getattr(labels, "dtype", None)
    known = getattr(kind, "categories", None)
    if known is None or not (getattr(kind, "ordered", False) or type(kind).__name__ == "Enum"):
        return False
    place = {label: i for i, label in enumerate(known)}
    steps = np.diff([place.get(label, -1) for label in labels])
    return bool((steps > 0).all() or (steps < 0).all())


def of_another_type(value: Any, own: AnyArray) -> str:
    """Say which label is written like a value and has another type; nothing where none is.

    >>> of_another_type("200", np.array([200, 404]))
    'the level is 200, a number, not a text'
    """
    try:
        number = float(value)
    except (ValueError, TypeError):
        number = None
    alike = (label for label in own.tolist() if str(label) == str(value) or (number is not None and label == number))
    found = next(alike, None)
    return "" if found is None else f"the level is {found!r}, a {_kind(found)}, not a {_kind(comparable(value))}"


def _kind(label: Any) -> str:
    return "text" if isinstance(label, str) else "number" if isinstance(label, Number) else type(label).__name__
