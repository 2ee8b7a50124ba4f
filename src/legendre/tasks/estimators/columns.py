"""Columns of a table as modes of a grid: levels of categories and ordinal numbers, bins of continuous ones."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.arguments import entries
from legendre.core.errors import InvalidSamples, InvalidSetting
from legendre.core.types import AnyArray, FloatArray, IntArray

UNKNOWN = -1


class Column(Protocol):
    """How one column is read and written."""

    @property
    def size(self) -> int:
        """The number of levels."""
        ...

    def codes(self, values: AnyArray) -> IntArray:
        """Return the numbers of the levels of some values; `UNKNOWN` where there is none."""
        ...

    def log_width(self, codes: IntArray) -> FloatArray:
        """Return the logarithm of the measure of each level: 0 for a category, the width of a bin."""
        ...

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Return a value of each level."""
        ...


@dataclass(frozen=True, eq=False)
class Levels:
    """Distinct values, in the order of the mode.

    Examples
    --------
    >>> Levels(np.array(["a", "c"])).codes(np.array(["c", "b"])).tolist()
    [1, -1]
    """

    values: AnyArray

    @property
    def size(self) -> int:
        """The number of levels."""
        return len(self.values)

    def codes(self, values: AnyArray) -> IntArray:
        """Look each value up."""
        place = {value: code for code, value in enumerate(self.values.tolist())}
        return np.array([place.get(value, UNKNOWN) for value in values.tolist()], dtype=np.int64)

    def log_width(self, codes: IntArray) -> FloatArray:
        """Give every category measure 1."""
        return np.zeros(len(codes))

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Return the value itself."""
        del rng
        drawn: AnyArray = self.values[codes]
        return drawn


@dataclass(frozen=True, eq=False)
class Bins:
    """Intervals between increasing edges; what lies beyond the outermost edges counts as lying on them.

    Examples
    --------
    >>> Bins(np.array([0.0, 1.0, 4.0])).codes(np.array([0.5, 1.0, 9.0])).tolist()
    [0, 1, 1]
    """

    edges: FloatArray

    @property
    def size(self) -> int:
        """The number of bins."""
        return len(self.edges) - 1

    def codes(self, values: AnyArray) -> IntArray:
        """Find the bin of each value."""
        try:
            numbers = values.astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise InvalidSamples(f"a column that fit saw as numbers holds something else ({problem}).") from None
        return np.searchsorted(self.edges[1:-1], numbers, side="right").astype(np.int64)

    def log_width(self, codes: IntArray) -> FloatArray:
        """Return the logarithm of the bins' widths."""
        widths: FloatArray = np.log(np.diff(self.edges))[codes]
        return widths

    def draw(self, codes: IntArray, rng: np.random.Generator) -> AnyArray:
        """Draw evenly within the bin."""
        return np.asarray(self.edges[codes] + rng.random(len(codes)) * np.diff(self.edges)[codes])


def read_column(values: AnyArray, weights: FloatArray, n_bins: int | None, given: Any, name: str) -> Column:
    """Learn a column: levels that are given, bins if it holds fractions and bins are asked for, else its own levels."""
    if given is not None:
        return _given(values, given, name)
    if n_bins is not None and values.dtype.kind == "f" and not (values == np.rint(values)).all():
        # with weights, a row of weight 2 is two rows
        edges = np.quantile(values, np.linspace(0, 1, int(n_bins) + 1), method="inverted_cdf", weights=weights)
        edges = np.unique(edges)
        if len(edges) < 2:
            raise InvalidSamples(
                f"{name} holds one value only, {values[0]:g} (n_samples={len(values)}): bins need two different ones. "
                "Leave the column out."
            )
        return Bins(edges)
    try:
        return Levels(np.unique(values))
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise InvalidSamples(
            f"{name} mixes values of types {', '.join(kinds)}, which have no order. Convert it to one type, or "
            "list its levels in categories."
        ) from None


def _given(values: AnyArray, given: Any, name: str) -> Levels:
    listed = given.tolist() if isinstance(given, np.ndarray) else entries(given)
    try:
        different = listed is not None and 0 < len(listed) == len(set(listed))
    except TypeError:  # lists within the list
        different = False
    if listed is None or not different or isinstance(given, (set, frozenset)):
        raise InvalidSetting(f"categories of {name} must be different values in a list, got {given!r}.")
    levels = Levels(typed(listed))
    unknown = np.flatnonzero(levels.codes(values) == UNKNOWN)
    if len(unknown):
        raise InvalidSamples(
            f"{name} holds {plain(values[unknown[0]])!r} in row {unknown[0]}, which categories does not list."
        )
    return levels


def typed(values: AnyArray | list[Any]) -> AnyArray:
    """Give values out of a list or a mixed table the type that they share; numbers and texts together stay objects.

    >>> [typed(values).dtype.kind for values in ([1, 2.5], ["a", "b"], ["a", 1])]
    ['f', 'U', 'O']
    """
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    listed = list(values)
    numbers = all(isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)) for value in listed)
    if numbers or (not isinstance(values, np.ndarray) and all(isinstance(value, str) for value in listed)):
        return np.array(listed)
    objects = np.empty(len(listed), dtype=object)
    objects[:] = listed
    return objects


def as_given(samples: ArrayLike, rows: AnyArray) -> AnyArray:
    """Keep the numbers of a list that has texts as well; NumPy would make texts of all of them."""
    lost = rows.dtype.kind in "SU" and not hasattr(samples, "dtype")
    return np.array(samples, dtype=object) if lost else rows


def plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's own: errors show 'c', not np.str_('c')."""
    return value.item() if isinstance(value, np.generic) else value


def check_values(rows: AnyArray, name: Sequence[str]) -> None:
    """Refuse missing and infinite values, and what is no single value at all."""
    if rows.dtype.kind == "f":
        bad = np.argwhere(~np.isfinite(rows))
    elif rows.dtype.kind == "O":
        bad = np.array([place for place, value in np.ndenumerate(rows) if _absent(value)]).reshape(-1, 2)
        nested = tuple(kind for kind in set(map(type, rows.flat)) if not issubclass(kind, Hashable))
        if nested:
            i, j = next(place for place, value in np.ndenumerate(rows) if isinstance(value, nested))
            raise InvalidSamples(f"{name[j]} holds {rows[i, j]!r} in row {i}, where a number or a text should stand.")
    elif rows.dtype.kind in "mM":
        bad = np.argwhere(np.isnat(rows))
    else:
        return
    if len(bad):
        i, j = (int(k) for k in bad[0])
        raise InvalidSamples(
            f"Input X contains NaN or infinity: {name[j]} is {rows[i, j]} in row {i}. Leave such rows out, or make "
            "missing a level of its own."
        )


def _absent(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return not np.isfinite(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")
