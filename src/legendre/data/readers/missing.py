"""Rows of a data frame in which a variable has no value: left out, and counted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from legendre.core.errors import InvalidSamples, unknown_name


def without_missing(data: Any, variables: Sequence[Hashable] | None, counts: Any) -> tuple[Any, tuple[str, ...]]:
    """Leave rows without a value out; return what is left, in the form of the data, and a sentence about the others.

    >>> without_missing({"a": [1, None, 2], "b": ["x", "y", "z"]}, None, None)[1]
    ('1 of 3 rows has no value of a (1) and was left out.',)
    """
    if counts is not None and not isinstance(counts, str):
        raise InvalidSamples("table(missing='drop'): counts must be a column, so that its rows are left out as well.")
    import narwhals.stable.v2 as nw

    columns = [*data] if isinstance(data, Mapping) else None
    frame: Any = nw.from_native(data, pass_through=True) if columns is None else None
    named = list(frame.columns) if isinstance(frame, nw.DataFrame) else columns
    if named is None:
        raise InvalidSamples(f"table(missing='drop') takes a data frame, got a {type(data).__name__}.")
    wanted = [name for name in named if name != counts] if variables is None else list(variables)
    for name in wanted:
        if name not in named:
            raise InvalidSamples(f"table: {unknown_name('column', str(name), map(str, named))}")
    if columns is None:
        lost = {name: int(frame[name].null_count()) for name in wanted}
        kept = frame.drop_nulls(subset=wanted)
        cases = None if counts not in named else (_total(frame[counts]), _total(kept[counts]))
        return kept.to_native(), _told(lost, len(frame), len(frame) - len(kept), cases)
    absent = {name: [value is None or value != value for value in data[name]] for name in wanted}
    n = len(next(iter(data.values()), ()))
    whole = [not any(absent[name][row] for name in wanted) for row in range(n)]
    rest = {key: [value for value, keep in zip(data[key], whole, strict=True) if keep] for key in columns}
    cases = None if counts not in columns else (_total(data[counts]), _total(rest[counts]))
    return rest, _told({name: sum(marks) for name, marks in absent.items()}, n, n - sum(whole), cases)


def _total(counts: Any) -> float:
    """Sum a column of counts; NaN where it holds something else, which is refused later."""
    try:
        return float(sum(counts))
    except (TypeError, ValueError):
        return float("nan")


def _told(lost: Mapping[Hashable, int], n: int, gone: int, cases: tuple[float, float] | None) -> tuple[str, ...]:
    """Say how many rows were left out, and how many cases where rows have counts."""
    if not gone:
        return ()
    which = ", ".join(f"{name} ({count:,})" for name, count in lost.items() if count)
    verb = "has no value of" if gone == 1 else "have no value of"
    was = "was" if gone == 1 else "were"
    many = ""
    if cases is not None and math.isfinite(cases[0]):
        many = f" ({cases[0] - cases[1]:,.0f} of {cases[0]:,.0f} cases)"
    return (f"{gone:,} of {n:,} rows{many} {verb} {which} and {was} left out.",)
