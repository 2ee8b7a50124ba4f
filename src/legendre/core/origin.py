"""Where X came from: its array library, its labels and the object that held it. Answers go back in the same form.

A DataArray of xarray gives DataArrays, a Series or a cross table of pandas the same, rows of a data frame a data frame
with a row for each cell. Arrays of NumPy, torch, JAX and CuPy stay arrays of their library.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from legendre.core.array_libraries import HERE, Device
from legendre.core.errors import InvalidQuery
from legendre.core.labels import Labels
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


PLAIN = Origin()  # an array of NumPy without labels


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
