"""Names of modes and of their levels: read at the door, carried through to every answer."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from legendre.core.arguments import entries, is_whole
from legendre.core.cells import cell_name, frozen
from legendre.core.errors import InvalidLabels, InvalidQuery, LegendreError, unknown_name
from legendre.core.level_order import along_modes, inverse, mapped, taken
from legendre.core.level_values import as_date, comparable, level_text, of_another_type, places
from legendre.core.types import AnyArray, IntArray

Mode = int | str  # a mode, counted from 0 or by its name
MOST_TOGETHER = 3  # levels of an arranged mode that are listed where several are meant
MOST_NAMED = 12  # valid names that an error lists


@dataclass(frozen=True, eq=False)
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
        levels stand as in X. `levels` stand as arranged.

    Examples
    --------
    >>> labels = Labels.read((2, 24), ["dest", "hour"], {"dest": ["BOS", "SFO"]})
    >>> labels.mode(1), labels.level(0, 1), labels.cell((0, 8))
    ('hour', 'SFO', 'dest BOS, hour 8')
    >>> labels.find_mode("dest"), labels.find_level(0, "SFO")
    (0, 1)
    """

    shape: tuple[int, ...]
    names: tuple[str, ...] | None = None
    levels: tuple[AnyArray | None, ...] | None = None
    order: tuple[IntArray | None, ...] | None = None

    @classmethod
    def read(
        cls,
        shape: tuple[int, ...],
        names: Sequence[Hashable] | None = None,
        levels: Sequence[Any] | Mapping[Any, Any] | None = None,
    ) -> Labels:
        """Check names and levels that a caller gives for a tensor of this shape.

        `levels` has one list for each mode (``None`` for a mode without), or is a mapping of modes to lists.
        """
        called = _checked_names(names, len(shape))
        bare = cls(shape, called)
        if levels is None:
            return bare
        if isinstance(levels, Mapping):
            found: dict[int, Any] = {bare.find_mode(key, "levels", InvalidLabels): v for key, v in levels.items()}
            listed = [found.get(k) for k in range(len(shape))]
        else:
            listed = entries(levels) or []
            if len(listed) != len(shape):
                raise InvalidLabels(
                    f"levels has {len(listed)} lists, X has {len(shape)} modes: give one list for each mode, None for "
                    "a mode without, or a mapping of modes to lists."
                )
        read = tuple(None if given is None else _checked_levels(given, bare, k) for k, given in enumerate(listed))
        return cls(shape, called, read if any(level is not None for level in read) else None)

    @property
    def given(self) -> bool:
        """Whether there are any labels."""
        return self.names is not None or self.levels is not None

    def mode(self, k: int) -> str:
        """Name a mode."""
        return f"mode {k}" if self.names is None else self.names[k]

    def levels_of(self, k: int) -> AnyArray:
        """List the labels of a mode's levels: 0, 1, ... where they have none."""
        own = None if self.levels is None else self.levels[k]
        return own if own is not None else np.arange(self.shape[k]) if (by := self.order_of(k)) is None else by

    def level(self, k: int, i: int) -> str:
        """Name a level of a mode."""
        return level_text(self._label(k, int(i)))

    def _label(self, k: int, i: int) -> Any:
        own = None if self.levels is None else self.levels[k]
        return own[i] if own is not None else i if (by := self.order_of(k)) is None else int(by[i])

    def order_of(self, k: int) -> IntArray | None:
        """Return the index in X of the level at each place of a mode; ``None`` where that is the place itself."""
        return None if self.order is None else self.order[k]

    def from_on(self, k: int, i: int, sign: str = ">=") -> str:
        """Name the levels of a mode from one on: by that one, or one by one where they were arranged.

        >>> labels = Labels.read((4,), ["dest"], [["BOS", "LAX", "ORD", "SFO"]])
        >>> labels.from_on(0, 1), labels.from_on(0, 3), labels.arranged([np.array([2, 0, 3, 1])]).from_on(0, 2)
        ('dest >= LAX', 'dest = SFO', 'dest in SFO, LAX')
        """
        last = self.shape[k] - 1
        if i == last or self.order_of(k) is None:
            return f"{self.mode(k)} {'=' if i == last else sign} {self.level(k, i)}"
        return f"{self.mode(k)} in {self.together(k, i, last + 1)}"

    def together(self, k: int, first: int, end: int) -> str:
        """Name neighbouring levels of a mode, up to `end`: by the first and the last, or one by one where arranged.

        Between two levels of an arranged mode stand others than a reader expects there.

        >>> labels = Labels.read((5,), ["dest"], [["BOS", "LAX", "ORD", "SEA", "SFO"]])
        >>> labels.together(0, 0, 4), labels.arranged([np.array([4, 0, 3, 1, 2])]).together(0, 0, 4)
        ('BOS to SEA', 'SFO, BOS, SEA and 1 more')
        """
        if self.order_of(k) is None:
            return " to ".join(dict.fromkeys((self.level(k, first), self.level(k, end - 1))))
        shown = range(first, min(end, first + MOST_TOGETHER))
        more = f" and {end - shown.stop} more" if shown.stop < end else ""
        return f"{', '.join(self.level(k, j) for j in shown)}{more}"

    def cell(self, cell: Sequence[int] | IntArray) -> str:
        """Name a cell: each mode with its level, or the indices where there are no labels."""
        if not self.given:
            return cell_name([self._label(k, int(i)) for k, i in enumerate(cell)])
        return ", ".join(f"{self.mode(k)} {self.level(k, int(i))}" for k, i in enumerate(cell))

    def values_at(self, cell: Sequence[int] | IntArray) -> tuple[Any, ...]:
        """Return the labels of a cell; indices where there are none."""
        return tuple(comparable(self._label(k, int(i))) for k, i in enumerate(cell))

    def part(self, modes: Sequence[int]) -> Labels:
        """Return the labels of some modes, in the order given."""
        return Labels(
            tuple(self.shape[k] for k in modes),
            None if self.names is None else tuple(self.names[k] for k in modes),
            None if self.levels is None else tuple(self.levels[k] for k in modes),
            None if self.order is None else tuple(self.order[k] for k in modes),
        )

    def arranged(self, order: Sequence[IntArray | None]) -> Labels:
        """Return the labels of X with its levels in another order: for each mode the level that comes first, ..."""
        return replace(self, levels=taken(self.levels, order), order=tuple(order))

    def straight(self) -> Labels:
        """Return the labels in the order of X."""
        if self.order is None:
            return self
        return replace(self, levels=taken(self.levels, [inverse(by) for by in self.order]), order=None)

    def arrange(self, array: AnyArray) -> AnyArray:
        """Put an array over all modes, with its levels as in X, in the order of these labels."""
        return along_modes(array, self.order)

    def straighten(self, array: AnyArray) -> AnyArray:
        """Put an array over all modes in the order of X."""
        return along_modes(array, None if self.order is None else [inverse(by) for by in self.order])

    def places(self, cells: IntArray) -> IntArray:
        """Find the cells (k x N) of X that a caller names, by indices in X."""
        return mapped(cells, None if self.order is None else [inverse(by) for by in self.order])

    def indices(self, cells: IntArray) -> IntArray:
        """Return the indices in X of some cells (k x N)."""
        return mapped(cells, self.order)

    def find_mode(self, key: object, door: str = "", error: type[LegendreError] = InvalidQuery) -> int:
        """Return the number of a mode that a caller names, or counts from 0; `door` begins the error."""
        order, start = len(self.shape), f"{door}: " if door else ""
        if is_whole(key, 0) and key < order:
            return int(key)
        if self.names is not None:
            if isinstance(key, str) and key in self.names:
                return self.names.index(key)
            if not is_whole(key):
                raise error(start + unknown_name("mode", str(key), self.names[:MOST_NAMED]))
        raise error(f"{start}{key!r} is no mode of X, which has {order}, counted from 0 to {order - 1}.")

    def find_level(self, k: int, value: Any, door: str = "", error: type[LegendreError] = InvalidQuery) -> int:
        """Return the place of a level that a caller names.

        A mode with labels takes those; an index does as well where no label is a number. Other modes take indices.
        """
        known, size, start = self._places[k], self.shape[k], f"{door}: " if door else ""
        if known is None:
            if is_whole(value, 0) and value < size:
                return self._place(k, int(value))
            name = f"mode {k}" if self.names is None else f"mode {self.names[k]!r}"
            raise error(f"{start}{name} has no index {value!r}; its indices are integers from 0 to {size - 1}.")
        key = as_date(value, self.levels_of(k)) if self.levels_of(k).dtype.kind == "M" else comparable(value)
        if isinstance(key, Hashable) and (found := known.get(key)) is not None:
            return found
        numbers = any(isinstance(label, (int, float)) for label in known)
        if is_whole(value, 0) and value < size and not numbers:
            return self._place(k, int(value))
        raise error(f"{start}{self._no_such_level(k, value)}")

    def _place(self, k: int, i: int) -> int:
        """Find the level of a mode with an index in X."""
        return i if (by := self.order_of(k)) is None else int(np.flatnonzero(by == i)[0])

    @cached_property
    def _places(self) -> tuple[dict[Hashable, int] | None, ...]:
        """The place of each label of each mode."""
        return tuple(None if own is None else places(own) for own in self.levels or (None,) * len(self.shape))

    def _no_such_level(self, k: int, value: Any) -> str:
        own = self.levels_of(k)
        texts = [level_text(label) for label in own]
        if isinstance(value, (int, float)) and own.dtype.kind in "iuf":
            nearest = level_text(own[int(np.abs(own.astype(np.float64) - float(value)).argmin())])
            hint = f"the nearest is {nearest}"
        elif not (hint := of_another_type(value, own)):
            said = unknown_name("level", str(value), texts[:10_000])
            hint = said.partition("; ")[2].partition("?")[0] if "did you mean" in said else ""
        some = ", ".join(texts[:MOST_NAMED]) + (", ..." if len(texts) > MOST_NAMED else "")
        ask = f" {hint[0].upper()}{hint[1:]}{'?' if hint.startswith('did') else '.'}" if hint else ""
        return f"{self.mode(k)} has no level {value!r}.{ask} Its levels: {some}."


def _checked_names(names: Sequence[Hashable] | None, order: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    listed = entries(names)
    if listed is None or len(listed) != order:
        count = "no list" if listed is None else f"{len(listed)} names"
        raise InvalidLabels(f"names: {count} for the {order} modes of X; give one name for each mode.")
    texts = tuple(map(str, listed))
    for k, (name, text) in enumerate(zip(listed, texts, strict=True)):
        if name is None or name != name or not text:
            raise InvalidLabels(f"names[{k}] is {name!r}; a mode needs a name that can be asked for.")
        if texts.index(text) < k:
            raise InvalidLabels(f"names: modes {texts.index(text)} and {k} are both called {text!r}. Rename one.")
    return texts


def _checked_levels(given: Any, labels: Labels, k: int) -> AnyArray:
    listed, name = given if isinstance(given, np.ndarray) else entries(given), labels.mode(k)
    if listed is None or np.ndim(listed) == 0:
        raise InvalidLabels(f"levels of {name}: {given!r} is no list of labels.")
    if len(listed) != labels.shape[k]:
        raise InvalidLabels(f"levels of {name}: {len(listed)} labels, but the mode has {labels.shape[k]} levels.")
    array = _as_array(listed)
    seen: dict[Any, int] = {}
    for i, label in enumerate(array.tolist()):
        if label is None or label != label or not isinstance(label, Hashable):
            raise InvalidLabels(f"levels of {name}: label {i} is {label!r}; give each level a text, number or date.")
        if seen.setdefault(label, i) < i:
            raise InvalidLabels(f"levels of {name}: {label!r} stands for levels {seen[label]} and {i}. Rename one.")
    return frozen(array)


def _as_array(listed: Any) -> AnyArray:
    """Keep texts, numbers and dates in an array of their own type; anything else stays a list of objects."""
    array: AnyArray = listed if isinstance(listed, np.ndarray) else np.empty(0)
    if not isinstance(listed, np.ndarray):
        kinds = {type(label) for label in listed}
        if kinds <= {str} or kinds <= {int, float, np.float64, np.int64} or kinds <= {np.datetime64}:
            return np.array(listed)
        array = np.empty(len(listed), dtype=object)
        array[:] = listed
    if array.dtype.kind == "O" and all(isinstance(label, str) for label in array):
        return array.astype(np.str_)
    return array if array.dtype.kind in "OUiufMmb" else array.astype(object)
