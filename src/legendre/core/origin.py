"""Where X came from: its array library, its labels and the object that held it. Answers go back in the same form.

A DataArray of xarray gives DataArrays, a Series or a cross table of pandas the same, rows of a data frame a data frame
with a row for each cell. Arrays of NumPy, torch, JAX and CuPy stay arrays of their library.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from legendre.core.array_libraries import HERE, Device
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
from legendre.core.level_values import level_text
from legendre.core.types import AnyArray, IntArray

Form = Literal["array", "xarray", "series", "table", "rows"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True, eq=False)
class Origin:
    """What X was, so that answers can be the same kind of thing.

    Parameters
    ----------
    labels
        Names of modes and levels; ``None`` where X had none.
    device
        The array library of X and its device.
    form
        "array"; "xarray", a DataArray; "series", a Series of pandas, and "table", a cross table of it; "rows", a data
        frame with a row for each event.
    index
        Of a cross table: how many modes are in its index.
    library
        Of rows: the library of their data frame.
    own_names
        The names of the modes as that library has them, where some have none.
    notes
        Sentences about how X was read, for summaries.
    ranked
        Modes whose labels have an order of their own: ordered categories.
    completed
        Whether a model shared out rows that lack values: whole numbers are then no counts.
    """

    labels: Labels | None = None
    device: Device = HERE
    form: Form = "array"
    index: int = 0
    library: str = "pandas"
    own_names: tuple[Hashable, ...] | None = None
    notes: tuple[str, ...] = ()
    ranked: tuple[int, ...] = ()
    completed: bool = False

    def of(self, shape: tuple[int, ...]) -> Labels:
        """Return the labels of X, which has this shape."""
        return Labels(shape) if self.labels is None else self.labels

    def part(self, modes: Sequence[int]) -> Origin:
        """Return the same for some of the modes."""
        if self.labels is None:
            return self
        names = None if self.own_names is None else tuple(self.own_names[k] for k in modes)
        inside = sum(k < self.index for k in modes)
        ranked = tuple(i for i, k in enumerate(modes) if k in self.ranked)
        return replace(self, labels=self.labels.part(modes), own_names=names, index=inside, ranked=ranked)

    def unlabelled(self) -> Origin:
        """Return the origin of an array of NumPy with the same arrangement of levels."""
        order = None if self.labels is None else self.labels.order
        return PLAIN if self.labels is None or order is None else Origin(Labels(self.labels.shape, order=order))

    def give(self, array: AnyArray, modes: Sequence[int] | None = None, what: str = "value") -> Any:
        """Bring an array over some modes (all by default) into the form of X; `what` names the numbers of a row."""
        if self.labels is not None and self.labels.order is not None and array.ndim:
            own = self.labels if modes is None else self.labels.part(modes)
            return replace(self, labels=self.labels.straight()).give(own.straighten(array), modes, what)
        if self.form == "array" or not array.ndim:
            return self.device.bring(array)
        kept = range(len(self._labels.shape)) if modes is None else modes
        part = self.part(kept)
        if self.form == "xarray":
            return part._data_array(array)
        if self.form == "rows":
            return part._frame_of_cells(array, what)
        inside = [i for i, k in enumerate(kept) if k < self.index]
        outside = [i for i, k in enumerate(kept) if k >= self.index]
        if self.form == "series" or not inside or not outside:
            return part._series(array)
        pandas, sizes = _library("pandas"), array.shape
        flat = array.transpose(*inside, *outside).reshape(int(np.prod([sizes[i] for i in inside])), -1)
        return pandas.DataFrame(flat, index=part._pandas_index(inside), columns=part._pandas_index(outside))

    def give_cells(self, cells: IntArray) -> Any:
        """Bring a list of cells into the form of X: a data frame with a row for each where X had labels in one."""
        if self.form == "array":
            return cells if self.labels is None else self.labels.indices(cells)
        columns = {self._labels.mode(k): self._labels.levels_of(k)[cells[:, k]] for k in range(cells.shape[1])}
        return self._data_frame(columns)

    @property
    def _labels(self) -> Labels:
        assert self.labels is not None  # every form but "array" has labels
        return self.labels

    def _own_name(self, k: int) -> Hashable:
        return self._labels.mode(k) if self.own_names is None else self.own_names[k]

    def _data_array(self, array: AnyArray) -> Any:
        xarray, labels = _library("xarray"), self._labels
        dims = [self._own_name(k) for k in range(array.ndim)]
        known = labels.levels or (None,) * array.ndim
        coords = {dims[k]: level for k, level in enumerate(known) if level is not None}
        return xarray.DataArray(array, dims=dims, coords=coords)

    def _series(self, array: AnyArray) -> Any:
        return _library("pandas").Series(array.ravel(), index=self._pandas_index(range(array.ndim)))

    def _pandas_index(self, modes: Sequence[int]) -> Any:
        pandas = _library("pandas")
        lists = [self._labels.levels_of(k) for k in modes]
        names = [self._own_name(k) for k in modes]
        if len(lists) == 1:
            return pandas.Index(lists[0], name=names[0])
        return pandas.MultiIndex.from_product(lists, names=names)

    def _frame_of_cells(self, array: AnyArray, what: str) -> Any:
        """List every cell with its labels and its number."""
        columns = {}
        for k, length in enumerate(array.shape):
            side = np.arange(length).reshape([-1 if i == k else 1 for i in range(array.ndim)])
            places = np.broadcast_to(side, array.shape).ravel()
            columns[self._labels.mode(k)] = self._labels.levels_of(k)[places]
        while what in columns:
            what = f"{what}_"
        return self._data_frame({**columns, what: array.ravel()})

    def _data_frame(self, columns: dict[str, AnyArray]) -> Any:
        import narwhals.stable.v2 as nw

        backend: Any = self.library
        _library(self.library)
        return nw.from_dict(columns, backend=backend).to_native()

    def to_arrays(self) -> dict[str, Any]:
        """List what a file holds of it: texts, numbers and dates as they are, other labels as texts."""
        if self.labels is None and not self.notes:
            return {}
        about: dict[str, Any] = {
            "form": self.form,
            "index": self.index,
            "library": self.library,
            "notes": list(self.notes),
        }
        if self.labels is None:
            return {"about": json.dumps(about)}
        own = [None if level is None else _stored(level) for level in self.labels.levels or ()]
        about |= {"names": self.labels.names, "own_names": self.own_names and [*map(_plain, self.own_names)]}
        about["ranked"] = list(self.ranked)
        about["levels"] = [None if level is None else _group(level) for level in own]
        order = self.labels.order or ()
        about["arranged"] = [k for k, by in enumerate(order) if by is not None]
        groups: dict[str, list[AnyArray]] = {}
        for level in own:
            if level is not None:
                groups.setdefault(_group(level), []).append(level)
        arrays = {f"levels.{name}": np.concatenate(g) for name, g in groups.items()}
        if about["arranged"]:
            arrays["order"] = np.concatenate([by for by in order if by is not None])
        return {"about": json.dumps(about), **arrays}


def _stored(level: AnyArray) -> AnyArray:
    """Make labels an array that a file can hold: objects become texts."""
    return np.array([level_text(value) for value in level]) if level.dtype.kind == "O" else level


def _group(level: AnyArray) -> str:
    """Name the array of a file that holds labels of a type: those of all its modes, one after the other."""
    return "text" if level.dtype.kind == "U" else str(level.dtype)


PLAIN = Origin()  # an array of NumPy without labels


def read_origin(about: str, shape: tuple[int, ...], stored: Mapping[str, AnyArray], order: IntArray) -> Origin:
    """Make an origin of what a file holds; ValueError, KeyError or TypeError where that cannot be one."""
    found = json.loads(about)
    if not isinstance(found, dict) or found["form"] not in FORMS:
        raise ValueError("no form of X is named")
    names, own = found.get("names"), found.get("own_names")
    levels = _cut(found.get("levels") or [], shape, stored)
    labels = Labels.read(shape, names, levels or None) if names or levels else None
    if (by := _read_order(found.get("arranged") or [], shape, order)) is not None:
        labels = replace(labels or Labels(shape), order=by)
    if (found["form"] != "array" and labels is None) or (own is not None and len(own) != len(shape)):
        raise ValueError("names are missing")
    return Origin(
        labels,
        form=found["form"],
        index=int(found["index"]),
        library=str(found["library"]),
        own_names=None if own is None else tuple(own),
        notes=tuple(map(str, found["notes"])),
        ranked=_read_ranked(found.get("ranked") or [], len(shape)),
    )


def _read_ranked(modes: list[int], order: int) -> tuple[int, ...]:
    if not all(isinstance(k, int) and 0 <= k < order for k in modes):
        raise ValueError(f"{modes} are no modes")
    return tuple(modes)


def _read_order(modes: list[int], shape: tuple[int, ...], stored: IntArray) -> tuple[IntArray | None, ...] | None:
    """Share out among the modes that were arranged what a file holds for all of them."""
    if not modes:
        return None
    order: list[IntArray | None] = [None] * len(shape)
    for k, by in zip(modes, np.split(stored, np.cumsum([shape[k] for k in modes])[:-1]), strict=True):
        if not np.array_equal(np.sort(by), np.arange(shape[k])):
            raise ValueError(f"the levels of mode {k} are in no order")
        order[k] = by
    return tuple(order)


def _cut(groups: list[str | None], shape: tuple[int, ...], stored: Mapping[str, AnyArray]) -> list[AnyArray | None]:
    """Share out among the modes what the arrays of a file hold for all of them."""
    used = dict.fromkeys(stored, 0)
    levels: list[AnyArray | None] = []
    for name, size in zip(groups, shape, strict=bool(groups)):
        levels.append(None if name is None else stored[name][used[name] : used[name] + size])
        if name is not None:
            used[name] += size
    if any(len(stored[name]) != count for name, count in used.items()):
        raise ValueError("there are labels of no mode")
    return levels


def _plain(name: Hashable) -> Any:
    return name if name is None or isinstance(name, (str, int, float)) else str(name)


def _library(name: str) -> Any:
    """Import the library of X; that of a fit from a file may not be installed here."""
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise InvalidQuery(
            f"answers are objects of {name}, as X was, and it is not installed: pip install {name}. Or ask for arrays: "
            "fit.without_labels()."
        ) from None
