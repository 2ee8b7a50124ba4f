"""Names of modes and of their levels, which are read with X and appear in every answer; and the order of levels.

Strings that represent numbers, times, days or months have a natural order. Where levels are names, a basis that grows
may arrange them so that similar levels are neighbours (`fitting/growing/seriate.py`). The *place* of a level is its
position in that arrangement, in which everything is computed. Its *index in X* is its position in the caller's X, which
is what callers pass and answers show. Without an arrangement the two are equal.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np

from legendre.core.arguments import entries, is_whole
from legendre.core.cells import cell_name, freeze
from legendre.core.errors import InvalidLabels, InvalidQuery, InvalidSamples, LegendreError, unknown_name
from legendre.core.types import AnyArray, IntArray, Shape, frozen

Mode = int | str  # a mode, counted from 0 or by its name
Event = Mapping[Any, Any]  # some modes and a level of each, as a caller names them
Fixed = Mapping[int, int]  # the same by numbers: some modes and the place of a level of each
Orders = Sequence[IntArray | None]  # for each mode the index in X of the level at each place; None: those of X


@frozen
class Labels:
    """What the modes of a tensor and their levels are called.

    Made by `Labels.read`, which checks. A tensor without labels has modes 0, 1, ... with levels 0, 1, ...

    Parameters
    ----------
    shape
        How many levels each mode has.
    names
        The name of each mode; ``None`` where they have none.
    levels
        For each mode the labels of its levels in order; ``None`` for a mode whose levels are 0, 1, ...
    order
        Where levels were arranged: for each mode the index in X of the level at each place; ``None`` for a mode whose
        levels are in the order of X. `levels` lists labels by place.

    Examples
    --------
    >>> labels = Labels.read((2, 24), ["dest", "hour"], {"dest": ["BOS", "SFO"]})
    >>> labels.mode(1), labels.level(0, 1), labels.cell((0, 8))
    ('hour', 'SFO', 'dest BOS, hour 8')
    >>> labels.find_mode("dest"), labels.find_level(0, "SFO")
    (0, 1)
    """

    shape: Shape
    names: tuple[str, ...] | None = None
    levels: tuple[AnyArray | None, ...] | None = None
    order: tuple[IntArray | None, ...] | None = None

    @classmethod
    def read(
        cls,
        shape: Shape,
        names: Sequence[Hashable] | None = None,
        levels: Sequence[Any] | Mapping[Any, Any] | None = None,
        present: Labels | None = None,
    ) -> Labels:
        """Check names and levels that a caller gives for a tensor of this shape, whose `present` labels they replace.

        `levels` has one list for each mode (``None`` for a mode without), or is a mapping of modes to lists. Modes that
        the mapping does not contain keep their present levels.
        """
        present = present or cls(shape)
        mode_names = present.names if names is None else tuple(map(str, entries(names) or ()))
        if mode_names is not None and (
            len(mode_names) != len(shape) or len(set(mode_names)) < len(mode_names) or not all(mode_names)
        ):
            raise InvalidLabels(
                f"names must hold a different, non-empty name for each of the {len(shape)} modes of X; got {names!r}."
            )
        modes = cls(shape, mode_names)  # with names, without levels: enough to look modes up
        listed = list(present.levels or (None,) * len(shape))
        if isinstance(levels, Mapping):
            for key, given in levels.items():
                listed[modes.find_mode(key, "levels", InvalidLabels)] = given
        elif levels is not None:
            listed = entries(levels) or []
            if len(listed) != len(shape):
                raise InvalidLabels(
                    f"levels has {len(listed)} lists, X has {len(shape)} modes: give one list for each mode, None for "
                    "a mode without, or a mapping of modes to lists."
                )
        checked = tuple(
            None if given is None else read_levels(given, modes.mode(k), shape[k]) for k, given in enumerate(listed)
        )
        return replace(modes, levels=None if all(given is None for given in listed) else checked)

    @property
    def n_modes(self) -> int:
        """The number of modes."""
        return len(self.shape)

    @property
    def given(self) -> bool:
        """Whether there are any labels."""
        return self.names is not None or self.levels is not None

    def key(self, k: int) -> str | int:
        """Return the name of mode k, or its number if modes have no names: what a caller can pass again."""
        return k if self.names is None else self.names[k]

    def mode(self, k: int) -> str:
        """Name mode k: "mode 2" where modes have no names."""
        return f"mode {k}" if self.names is None else self.names[k]

    def order_of(self, k: int) -> IntArray | None:
        """Return the index in X of the level at each place of a mode; ``None`` where that is the place itself."""
        return None if self.order is None else self.order[k]

    def levels_of(self, k: int) -> AnyArray:
        """List the labels of a mode's levels by place: their indices in X where they have none."""
        return np.arange(self.shape[k]) if (listed := self._own_levels(k)) is None else listed

    def is_ordered(self, k: int) -> bool:
        """Whether a line from level to level of a mode means something: for numbers, dates, weekdays, but not names.

        Levels that a growing basis arranged are names. Pictures draw points for names, without a line.
        """
        own = self.levels_of(k)  # "U", "O": strings or objects, which may be names
        return self.order_of(k) is None and (own.dtype.kind not in "UO" or is_ascending(list(map(level_text, own))))

    def _own_levels(self, k: int) -> AnyArray | None:
        """List a mode's labels by place, or indices in X if it has none; ``None`` if these are the places 0, 1, ..."""
        return self.order_of(k) if self.levels is None or self.levels[k] is None else self.levels[k]

    def _label(self, k: int, i: int) -> Any:
        """Return the label of the level at place i of mode k; its index in X where the mode has no labels."""
        return i if (listed := self._own_levels(k)) is None else listed[i]

    def level(self, k: int, i: int) -> str:
        """Name the level at place i of mode k."""
        return level_text(self._label(k, int(i)))

    @cached_property
    def directions(self) -> tuple[int, ...]:
        """For each mode 1 if its levels rise, -1 if they fall, 0 if neither.

        A parameter acts on all levels from one place on. If levels rise or fall, a sign says which these are, as in
        "hour >= 8"; else they must be listed (`from_on`). Strings are compared by what they represent, see `sort_keys`;
        names that were not arranged count as rising.

        >>> Labels.read((3, 2, 3), None, [[100, 10, 1], ["BOS", "ATL"], [5, 9, 7]]).directions
        (-1, 1, 0)
        """
        found = []
        for k, levels in enumerate(self.levels or (None,) * self.n_modes):
            keys = [] if levels is None else levels.tolist()
            if all(isinstance(label, str) for label in keys):
                keys = sort_keys(keys) or []  # names have none: an empty list counts as rising
            try:
                rises, falls = all(a < b for a, b in pairwise(keys)), all(a > b for a, b in pairwise(keys))
            except TypeError:  # numbers among names
                rises = falls = False
            # levels that were arranged are names in an order that a reader does not know
            found.append(0 if self.order_of(k) is not None else 1 if rises else -1 if falls else 0)
        return tuple(found)

    def from_on(self, k: int, i: int) -> str:
        """Name the levels of a mode from place i on: by the level at i, or as a list where they neither rise nor fall.

        Names of parameters consist of such parts: the feature of a cell u is 1 at or above u.

        >>> labels = Labels.read((4,), ["dest"], [["BOS", "LAX", "ORD", "SFO"]])
        >>> labels.from_on(0, 1), labels.from_on(0, 3), labels.reorder([np.array([2, 0, 3, 1])]).from_on(0, 2)
        ('dest >= LAX', 'dest = SFO', 'dest in SFO, LAX')
        >>> Labels.read((3,), ["dose"], [[10, 1, 0.1]]).from_on(0, 1)
        'dose <= 1'
        """
        last = self.shape[k] - 1
        if i < last and not self.directions[k]:
            return f"{self.mode(k)} in {self.name_levels(k, i, last + 1)}"
        sign = "=" if i == last else ">=" if self.directions[k] > 0 else "<="
        return f"{self.mode(k)} {sign} {self.level(k, i)}"

    def name_levels(self, k: int, first: int, end: int, listed: int = 3) -> str:
        """Name the levels of a mode at places first, ..., end - 1: by the first and the last, or as a list.

        Levels that neither rise nor fall are listed, the first `listed` of them: a reader could not know which levels
        lie between two of them.

        >>> labels = Labels.read((5,), ["dest"], [["BOS", "LAX", "ORD", "SEA", "SFO"]])
        >>> labels.name_levels(0, 0, 4), labels.reorder([np.array([4, 0, 3, 1, 2])]).name_levels(0, 0, 4)
        ('BOS to SEA', 'SFO, BOS, SEA and 1 more')
        """
        if self.directions[k]:
            # the dictionary drops the second name if it equals the first: a single level
            return " to ".join(dict.fromkeys((self.level(k, first), self.level(k, end - 1))))
        shown = range(first, min(end, first + listed))
        more = f" and {end - shown.stop} more" if shown.stop < end else ""
        return f"{', '.join(self.level(k, j) for j in shown)}{more}"

    def cell(self, cell: Sequence[int] | IntArray) -> str:
        """Name a cell, given by places: each mode with its level, or the indices in X where there are no labels."""
        if not self.given:
            return cell_name([self._label(k, int(i)) for k, i in enumerate(cell)])
        return ", ".join(f"{self.mode(k)} {self.level(k, int(i))}" for k, i in enumerate(cell))

    def values_at(self, cell: Sequence[int] | IntArray) -> tuple[Any, ...]:
        """Return the labels of a cell, given by places; indices in X where there are none."""
        return tuple(_as_python(self._label(k, int(i))) for k, i in enumerate(cell))

    def part(self, modes: Sequence[int]) -> Labels:
        """Return the labels of some modes, in the order given: those of a marginal, for example."""
        fields: tuple[Any, ...] = self.shape, self.names, self.levels, self.order
        return Labels(*(items and tuple(items[k] for k in modes) for items in fields))

    # --- the order of levels

    def reorder(self, order: Orders) -> Labels:
        """Arrange the levels of these labels, which are in the order of X; `order` has the index in X at each place."""
        levels = None
        if self.levels is not None:
            pairs = zip(self.levels, order, strict=True)
            levels = tuple(listed if listed is None or by is None else freeze(listed[by]) for listed, by in pairs)
        return replace(self, levels=levels, order=tuple(order))

    def restore_order(self) -> Labels:
        """Return the labels in the order of X."""
        return self if self._to_X is None else replace(self.reorder(self._to_X), order=None)

    @property
    def _to_X(self) -> Orders | None:
        """For each mode the place of the level at each index in X: the inverse permutation of `order`."""
        return None if self.order is None else [None if by is None else np.argsort(by) for by in self.order]

    def arrange(self, array: AnyArray) -> AnyArray:
        """Permute an array over all modes, indexed as X is, so that it is indexed by places."""
        return _take_along_modes(array, self.order)

    def straighten(self, array: AnyArray) -> AnyArray:
        """Permute an array over all modes, indexed by places, so that it is indexed as X is: undo `arrange`."""
        return _take_along_modes(array, self._to_X)

    def places(self, cells: IntArray) -> IntArray:
        """Turn cells (k x N) that are given by indices in X, as a caller names them, into places."""
        return _look_up(cells, self._to_X)

    def indices(self, cells: IntArray) -> IntArray:
        """Turn cells (k x N) that are given by places into indices in X, as answers show them."""
        return _look_up(cells, self.order)

    # --- what a caller names

    def find_mode(self, key: object, door: str = "", error: type[LegendreError] = InvalidQuery) -> int:
        """Return the number of a mode that a caller names, or counts from 0.

        `door` is the public function or argument where the caller named it; the error message begins with it.
        """
        start = f"{door}: " if door else ""
        if is_whole(key, 0) and key < self.n_modes:
            return int(key)
        if self.names is not None and not is_whole(key):
            if isinstance(key, str) and key in self.names:
                return self.names.index(key)
            raise error(start + unknown_name("mode", str(key), self.names[:12]))
        hint = " They have no names: pass names=." if isinstance(key, str) else ""
        raise error(
            f"{start}{key!r} is not a mode of X, which has {self.n_modes}, counted from 0 to {self.n_modes - 1}.{hint}"
        )

    def find_modes(self, modes: Any, door: str, error: type[LegendreError] = InvalidQuery) -> list[int]:
        """Return the numbers of one mode or of several different ones, given by name or number, in the order given.

        `door` is as in `find_mode`.
        """
        listed = [modes] if isinstance(modes, (int, np.integer, str)) else entries(modes)
        if listed is None:
            raise error(f"{door}: {modes!r} is not a set of modes; pass a mode such as 0, or modes such as [0, 2].")
        found = [self.find_mode(k, door, error) for k in listed]
        if len(set(found)) < len(found):
            raise error(f"{door}: {modes!r} names a mode twice.")
        return found

    def find_level(self, k: int, value: Any, door: str = "", error: type[LegendreError] = InvalidQuery) -> int:
        """Return the place of a level that a caller names.

        A mode with labels takes those, and indices in X too unless one of its labels is a number. Other modes take
        indices. `door` is as in `find_mode`.
        """
        places, value = self._places[k], value if isinstance(value, np.datetime64) else _as_python(value)
        if places is not None:
            levels = self.levels_of(k)
            key = _as_date(value, levels) if levels.dtype.kind == "M" else value  # "M": dates
            if isinstance(key, Hashable) and (found := places.get(key)) is not None:
                return found
        # where labels are numbers, a number that is not one of them is a mistake, not an index
        numbers = places is not None and any(isinstance(label, (int, float)) for label in places)
        if not numbers and is_whole(value, 0) and value < self.shape[k]:
            return int(value) if (order := self.order_of(k)) is None else int(np.flatnonzero(order == value)[0])
        indices = f"no index {value!r}; its indices are integers from 0 to {self.shape[k] - 1}."
        text = f"{self.mode(k)} has {indices if places is None else self._no_such_level(k, value)}"
        raise error(f"{door}: {text}" if door else text)

    @cached_property
    def _places(self) -> tuple[dict[Hashable, int] | None, ...]:
        """For each mode the place of each label, ``None`` for a mode without labels.

        Objects such as dates and periods are found by their strings too, so that a caller can type them.
        """
        found = []
        for levels in self.levels or (None,) * self.n_modes:
            places = {} if levels is None else {_as_python(label): i for i, label in enumerate(levels.tolist())}
            texts = {level_text(label): i for label, i in places.items() if not isinstance(label, (str, Number))}
            found.append(None if levels is None else texts | places)
        return tuple(found)

    def _no_such_level(self, k: int, value: Any) -> str:
        """Write the end of an error: the mode has no such level, which one was probably meant, and which there are."""
        levels = self.levels_of(k)[:10_000]  # comparing with many more strings would take seconds
        texts = [level_text(label) for label in levels]
        near = get_close_matches(str(value), texts, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0] if levels.dtype.kind in 'biuf' else repr(near[0])}?" if near else ""
        some = ", ".join(texts[:12]) + (", ..." if len(texts) > 12 else "")
        return f"no level {value!r}.{hint} Its levels: {some}."


def read_levels(given: Any, name: str, size: int | None = None) -> AnyArray:
    """Return the labels that a caller lists for a mode or a column: all different, none missing, `size` of them.

    Every argument `levels` is checked by this function. A set is refused, because it has no order. `name` is what
    errors call the mode; without `size` there may be any number of labels.
    """
    listed = (None if isinstance(given, (set, frozenset)) else entries(given)) or []
    if not listed or size not in (None, len(listed)):
        said = f"{len(listed)} labels" if listed else f"{given!r} is not a list of labels"
        wanted = "" if size is None else f", but the mode has {size} levels"
        raise InvalidLabels(f"levels of {name}: {said}{wanted}.")
    places: dict[Any, int] = {}
    for i, label in enumerate(listed):
        if not isinstance(label, Hashable) or label is None or label != label:  # NaN and NaT differ from themselves
            raise InvalidLabels(
                f"levels of {name}: label {i} is {label!r}; give each level a string, a number or a date."
            )
        if places.setdefault(label, i) < i:
            raise InvalidLabels(f"levels of {name}: {label!r} stands for levels {places[label]} and {i}. Rename one.")
    return freeze(as_labels(listed))


NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def as_labels(listed: Any) -> AnyArray:
    """Put labels into an array of the type that they share; numbers mixed with strings stay objects.

    NumPy alone would turn the numbers of such a list into strings.
    """
    for kinds in (NUMBERS, str, np.generic):  # the last are scalars of NumPy, such as dates
        if all(isinstance(label, kinds) for label in listed):
            return np.array(listed)
    return as_objects(listed)


def as_objects(listed: Any) -> AnyArray:
    """Put values into a vector of objects, unchanged: np.array would make another mode of tuples and lists."""
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _take_along_modes(array: AnyArray, order: Orders | None) -> AnyArray:
    """Permute an array over all modes, mode by mode: entry i of a mode comes from index ``order[k][i]``."""
    for k, by in enumerate(order or ()):
        array = array if by is None else array.take(by, axis=k)
    return array


def _look_up(cells: IntArray, tables: Orders | None) -> IntArray:
    """Replace each coordinate of some cells (k x N) by its entry in the table of its mode; ``None`` changes nothing."""
    if tables is None:
        return cells
    columns = [cells[:, k] if table is None else table[cells[:, k]] for k, table in enumerate(tables)]
    return np.column_stack(columns).astype(np.int64)


def ordered_parts_bits(lengths: Sequence[Sequence[int]]) -> float:
    """Return log2 of the number of ways to divide the levels of each mode among intervals of these lengths.

    That is the information in an arrangement of levels: within an interval their order makes no difference to Q. The
    number of ways is a multinomial coefficient for each mode; lgamma(n + 1) is log n!.

    >>> ordered_parts_bits([[2, 2]]), ordered_parts_bits([[1, 1, 1, 1], [5]])  # 6 ways; 4! ways, and one
    (2.584..., 4.584...)
    """
    return sum(
        math.lgamma(sum(sizes) + 1) - sum(math.lgamma(size + 1) for size in sizes) for sizes in lengths
    ) / math.log(2.0)


# --- labels of levels ------------------------------------------------------------------------------------------------


def level_text(label: Any) -> str:
    """Write a label: dates without the time of day where that is midnight, numbers to 12 digits, strings unchanged.

    >>> level_text(np.datetime64("2024-01-01T00:00")), level_text(np.timedelta64(90, "m")), level_text(0.1 + 0.2)
    ('2024-01-01', '1:30:00', '0.3')
    """
    if isinstance(label, (float, np.floating)):
        return f"{label:.12g}"
    if isinstance(label, np.timedelta64):
        return str(label.astype("m8[us]").item())
    if isinstance(label, datetime) and label.tzinfo is None:
        label = np.datetime64(label)
    if isinstance(label, np.datetime64):
        day = label.astype("datetime64[D]")
        return str(day if day == label else np.datetime_as_string(label, unit="auto"))
    return str(label)


def _as_python(value: Any) -> Any:
    """Turn NumPy's scalars into Python's own, so that labels of both kinds are found in one dictionary."""
    return value.item() if isinstance(value, np.generic) else value


def _as_date(value: Any, levels: AnyArray) -> Any:
    """Read a date (NumPy's, Python's or a string) in the unit of a mode's levels; ``None`` if it is not one."""
    try:
        return np.asarray(value, dtype=levels.dtype).item()
    except (ValueError, TypeError):
        return None


def have_rank(labels: Any) -> bool:
    """Whether a caller's labels are ordered categories (pandas or polars Enum), listed in their order or its reverse.

    Such levels have a rank: they are not rearranged, and answers contain ordered categories again.

    >>> import pandas as pd
    >>> [have_rank(pd.Categorical(list(sizes), list("smlx"), ordered=True)) for sizes in ("sml", "lms", "msl")]
    [True, True, False]
    """
    kind = getattr(labels, "dtype", None)
    known = getattr(kind, "categories", None)
    if known is None or not (getattr(kind, "ordered", False) or type(kind).__name__ == "Enum"):
        return False
    place = {label: i for i, label in enumerate(known)}
    steps = np.diff([place.get(label, -1) for label in labels])
    return bool((steps > 0).all() or (steps < 0).all())


# --- strings that have a natural order -------------------------------------------------------------------------------

# a number, a range of numbers, or one with a sign of comparison: "7", "-1.5e3", "18-24", "18 to 24", "<18", "65+", "5%"
NUMBER = re.compile(r"[<>]?=? ?[-+]?\d+(\.\d+)?([eE][-+]?\d+)?( ?(-|–|to) ?\d+(\.\d+)?)?[%+]?")
# a date or month, "2019-01-31" or "2019/1", perhaps with a time of day; or a time of day, "9:30" or "9h30"
TIME = re.compile(r"\d{4}([-/]\d\d?){1,2}([ T].*)?|\d\d?[:h]\d\d.*")
WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
YEAR = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november")


def sort_keys(texts: Sequence[str]) -> list[Any] | None:
    """Return keys that sort strings by what they represent; ``None`` for strings that are names.

    Sorted as strings, "10" would come before "9". All strings must be numbers, ranges or times, or all days of the
    week, or all months.

    >>> texts = ["65+", "18-24", "<18"]
    >>> [text for _, text in sorted(zip(sort_keys(texts), texts))]
    ['<18', '18-24', '65+']
    >>> sort_keys(["Mon", "Wed"]), sort_keys(["9:30", "10:00"]), sort_keys(["BOS", "LAX"])
    ([0, 2], [(9.0, 0, 30.0), (10.0, 0, 0.0)], None)
    """
    stripped = [text.strip() for text in texts]
    if all(NUMBER.fullmatch(text) or TIME.fullmatch(text) for text in stripped):
        return [_number_key(text) for text in stripped]
    words = [text.lower().rstrip(".") for text in stripped]
    # in full (no name is longer than 9 letters), or their first letters; two would not tell june from july
    for names, cuts in ((WEEK, (2, 3, 4, 9)), ((*YEAR, "december"), (3, 4, 9))):
        places = {name[:n]: place for place, name in enumerate(names) for n in cuts}
        if all(word in places for word in words):
            return [places[word] for word in words]
    return None


def _number_key(text: str) -> tuple[float, ...]:
    """Return the numbers in a string that `NUMBER` or `TIME` matches, as a key to sort by.

    After the first number comes -1 if the string means numbers below it ("<18"), 1 if above ("65+", ">65"), else 0:
    "<18" sorts before "18-24", and "65+" after "65". Hours with am or pm are turned into hours of 24.
    """
    clock = re.compile(r"(\d+)([:h].*)([ap])\.?m\b.*", re.IGNORECASE)
    text = clock.sub(lambda half: f"{int(half[1]) % 12 + 12 * (half[3] in 'pP')}{half[2]}", text)
    # a "-" after a digit separates two numbers, so it is not the sign of the second
    first, *others = re.findall(r"(?<!\d)[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\d+", text)
    return float(first), text.endswith("+") + (">" in text) - ("<" in text), *map(float, others)


def is_ascending(texts: Sequence[str]) -> bool:
    """Whether strings have a natural order and are listed in it or in its reverse; a week may begin with any day.

    Levels that are listed otherwise count as names: no line is drawn through them, and they may be arranged.

    >>> [is_ascending(texts) for texts in (["7", "10"], ["10", "7", "9"], ["Sun", "Mon", "Tue"], ["Fri", "Mon", "Sat"])]
    [True, False, True, False]
    """
    keys = sort_keys(texts)
    if keys is None:
        return False
    breaks = sum(a > b for a, b in pairwise(keys))  # how often a key is followed by a smaller one
    # days of the week and months, whose keys are integers, may begin anywhere and go on from the start
    rotated = isinstance(keys[0], int) and breaks == 1 and keys[-1] <= keys[0]
    return breaks == 0 or rotated or keys == sorted(keys, reverse=True)


def sorted_levels(values: AnyArray, label: str = "the list") -> AnyArray:
    """Return different values once each, sorted: strings that have a natural order in that order.

    Values without a common order, such as numbers and strings, are refused; `label` is what the error calls them.

    >>> sorted_levels(np.array(["Tue", "Sun", "Mon", "Tue"])).tolist(), sorted_levels(np.array(["9", "10"])).tolist()
    (['Mon', 'Tue', 'Sun'], ['9', '10'])
    """
    try:
        found = np.unique(values)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values.tolist()})
        raise InvalidSamples(
            f"{label} mixes values of types {', '.join(kinds)}, which have no order. Convert it to one type, or list "
            "its levels (levels= or categories=)."
        ) from None
    # only strings may need another order: NumPy's (U, T) or Python's (O)
    if found.dtype.kind not in "UTO" or not all(isinstance(value, str) for value in found.tolist()):
        return found
    keys = sort_keys(found.tolist())
    return found if keys is None else found[sorted(range(len(found)), key=keys.__getitem__)]
