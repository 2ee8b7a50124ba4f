"""What X was before it was read: its array library, its labels and the kind of object. Answers have the same form.

For an xarray DataArray answers are DataArrays; for a pandas Series or cross table they are the same; for the rows of a
data frame they are data frames with a row for each cell. Arrays of torch, JAX and CuPy are copied to NumPy arrays, with
which everything is computed, and answers are arrays of their library on their device. None of these libraries is
imported before one of its arrays is seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Literal

import numpy as np

from legendre.core.arguments import check_choice, check_installed
from legendre.core.errors import InvalidTensor, LegendreError
from legendre.core.labels import Labels
from legendre.core.types import AnyArray, IntArray, Modes, Shape, frozen


@dataclass(frozen=True)
class Device:
    """An array library and one of its devices."""

    library: str
    unit: Any = "cpu"  # as the library names it; for JAX its platform and number, since its devices cannot be pickled

    def bring(self, array: AnyArray) -> Any:
        """Turn a NumPy array into an array of this library on this device; on the processor they may share memory."""
        if self.library == "numpy":
            return array
        # torch takes no negative strides, and warns of read-only memory
        fresh, library = np.require(array, requirements=["C", "W"]), import_module(self.library)
        if self.library == "torch":
            return library.as_tensor(fresh, device=self.unit)
        if self.library == "jax":
            platform, number = self.unit  # see `device_of`
            return library.device_put(fresh, next(d for d in library.devices(platform) if d.id == number))
        with self.unit:  # CuPy's device is a context manager
            return library.asarray(fresh)


HERE = Device("numpy")  # NumPy's memory


def device_of(X: Any) -> Device:
    """Find the library and the device of X, on which answers will be; refuse one that has no double precision."""
    library = _library_of(X)
    if library == "numpy":
        return HERE
    if library == "jax":
        if not import_module("jax").config.jax_enable_x64:
            raise InvalidTensor(
                "X is a JAX array, but JAX is set to float32, and results need float64. Call "
                "jax.config.update('jax_enable_x64', True) at the start of the program, or pass np.asarray(X)."
            )
        unit = min(X.devices(), key=lambda device: device.id)  # X may be spread over several; answers go to one
        return Device(library, (unit.platform, unit.id))
    if library == "torch" and X.device.type == "mps":
        raise InvalidTensor("X is on a device without float64 (mps), which results need. Pass X.cpu().")
    return Device(library, X.device)


def package_of(X: object) -> str:
    """Name the package of X's type, such as "pandas": readers recognise objects by it, without importing a library."""
    return type(X).__module__.partition(".")[0]


def _library_of(X: Any) -> str:
    """Name the library that X is an array of, from the modules of its type and base types, without importing any.

    "numpy" is the answer for everything that is not an array of torch, JAX or CuPy.
    """
    for kind in type(X).__mro__ if hasattr(X, "__array__") and not isinstance(X, np.ndarray) else ():
        root = "jax" if kind.__module__.startswith("jaxlib") else kind.__module__.partition(".")[0]
        if root in ("torch", "jax", "cupy"):
            return root
    return "numpy"


def host(X: Any, name: str = "X", error: type[LegendreError] = InvalidTensor) -> Any:
    """Copy an array of torch, JAX or CuPy into a NumPy array; return anything else unchanged.

    `name` is what errors call it. Sparse arrays, and those that a transformation of JAX traces, have no values.
    """
    library = _library_of(X)
    if library == "numpy":
        return X
    try:
        if library == "torch":
            return (X.double() if "bfloat16" in str(X.dtype) else X).numpy(force=True)  # NumPy has no bfloat16
        values = X.get() if library == "cupy" else np.asarray(X)
    except (TypeError, RuntimeError, NotImplementedError) as problem:
        raise error(
            f"{name} is a {library} array that cannot be read ({str(problem).splitlines()[0]}). It must be dense and "
            f"have values: pass {name}.to_dense() of a sparse one, and call this outside jit, grad and vmap."
        ) from None
    # "V": JAX's bfloat16, a type that NumPy does not compute with
    return values.astype(np.float32) if values.dtype.kind == "V" else values


def read_array(value: Any, name: str, error: type[LegendreError], advice: str = "") -> AnyArray:
    """Return a caller's value as a NumPy array, of any dtype; refuse what is not one, such as rows of unequal length.

    `name` is what the error calls the value, and `advice` its last sentence.
    """
    in_numpy = unmask(host(value, name, error))
    try:
        return np.asarray(in_numpy)
    except MemoryError:
        raise
    except Exception as problem:  # each library has errors of its own
        uneven = "inhomogeneous" in str(problem)
        reason = "its rows differ in length" if uneven else str(problem).rstrip(".")
        raise error(f"{name} is not a rectangular array: {reason}. {advice}".rstrip()) from None


def unmask(X: Any) -> Any:
    """Turn the masked entries of a NumPy masked array into NaN, or None among strings: they are missing values.

    Anything else comes back unchanged. np.asarray would silently drop the mask.
    """
    if not isinstance(X, np.ma.MaskedArray):
        return X
    absent: Any = np.nan if X.dtype.kind in "biuf" else None
    return np.where(np.ma.getmaskarray(X), absent, np.ma.getdata(X))


Form = Literal["array", "xarray", "series", "table", "rows"]


@frozen
class Origin:
    """What X was, so that answers can be the same kind of thing.

    Parameters
    ----------
    labels
        Names of modes and levels; ``None`` where X had none.
    device
        The array library of X and its device.
    form
        "array"; "xarray", a DataArray; "series", a pandas Series; "table", a pandas cross table; "rows", a data frame
        with a row for each event.
    index
        Of a cross table: how many modes are in its index. They are the first modes; the others are in its columns.
    library
        Of rows: the library of their data frame.
    own_names
        The names of the dimensions (xarray) or index levels (pandas) as that library has them, strings or not; some
        may be ``None``. Without this tuple the names of `labels` are used.
    notes
        Sentences about how X was read, for summaries.
    ranked
        Modes whose labels have an order of their own: ordered categories.
    completed
        Whether rows that lack values were divided among cells by the EM algorithm: integers are then not counts.
    counted
        Whether the caller says that X holds counts; ``None``: it does if its entries are integers.
    """

    labels: Labels | None = None
    device: Device = HERE
    form: Form = "array"
    index: int = 0
    library: str = "pandas"
    own_names: tuple[Hashable, ...] | None = None
    notes: tuple[str, ...] = ()
    ranked: Modes = ()
    completed: bool = False
    counted: bool | None = None

    def __post_init__(self) -> None:
        """Refuse unknown libraries: a saved fit names its library, which is imported, and a file may name any."""
        check_choice(self.library, "library", ("pandas", "polars", "pyarrow"))

    def of(self, shape: Shape) -> Labels:
        """Return the labels of X, which has this shape."""
        return Labels(shape) if self.labels is None else self.labels

    def part(self, modes: Sequence[int]) -> Origin:
        """Return the origin of an array over some of the modes of X: a marginal, for example."""
        if self.labels is None:
            return self
        names = self.own_names and tuple(self.own_names[k] for k in modes)
        in_index = sum(k < self.index for k in modes)  # of a cross table: those that are in its index
        ranked = tuple(i for i, k in enumerate(modes) if k in self.ranked)
        return replace(self, labels=self.labels.part(modes), own_names=names, index=in_index, ranked=ranked)

    def drop_labels(self) -> Origin:
        """Return the origin of a NumPy array with the same arrangement of levels: answers are then plain arrays."""
        if self.labels is None or self.labels.order is None:
            return PLAIN
        return Origin(Labels(self.labels.shape, order=self.labels.order))

    def give(self, array: AnyArray, modes: Sequence[int] | None = None, what: str = "value") -> Any:
        """Turn an array over some modes (all by default) into an object of the kind that X was, with its labels.

        The array is indexed by places (see `legendre.core.labels`), the answer as X is. If X was rows of a data frame,
        `what` is the name of the column that holds the numbers. Marginals, tensors and other answers of a fit use it.
        """
        kept_modes = range(array.ndim) if modes is None else modes
        part = self.part(kept_modes)
        if part.labels is not None and array.ndim:  # undo the arrangement of levels
            array, part = part.labels.straighten(array), replace(part, labels=part.labels.restore_order())
        if self.form == "array" or not array.ndim:
            return self.device.bring(array)
        if self.form == "rows":
            columns = part._list_levels(np.indices(array.shape).reshape(array.ndim, -1))
            while what in columns:  # a mode has that name
                what = f"{what}_"
            return self._data_frame({**columns, what: array.ravel()})
        labels = part.of(array.shape)
        names = part.own_names or [labels.mode(k) for k in range(array.ndim)]
        if self.form == "xarray":
            pairs = zip(names, labels.levels or (), strict=False)  # none at all if no mode has labels
            coords = {name: levels for name, levels in pairs if levels is not None}
            return _import_library("xarray").DataArray(array, dims=names, coords=coords)
        return part._as_pandas(array, labels, names, [k < self.index for k in kept_modes])

    def _as_pandas(self, array: AnyArray, labels: Labels, names: Sequence[Hashable], in_index: Sequence[bool]) -> Any:
        """Make a Series or a cross table of an array; `in_index` marks the axes that were in the index of X.

        A margin of a cross table that has no modes left on one side is a Series too.
        """
        pandas = _import_library("pandas")

        def as_index(axes: Sequence[int]) -> Any:
            """Make a pandas index of all combinations of the levels of some axes; ordered categories stay ordered."""
            lists = []
            for k in axes:
                levels = labels.levels_of(k)
                lists.append(pandas.Categorical(levels, levels, ordered=True) if k in self.ranked else levels)
            if len(lists) == 1:
                return pandas.Index(lists[0], name=names[axes[0]])
            return pandas.MultiIndex.from_product(lists, names=[names[k] for k in axes])

        if self.form == "series" or all(in_index) or not any(in_index):
            return pandas.Series(array.ravel(), index=as_index(range(array.ndim)))
        down, across = ([axis for axis, yes in enumerate(in_index) if yes is side] for side in (True, False))
        height = int(np.prod([array.shape[axis] for axis in down]))
        flat = array.transpose(*down, *across).reshape(height, -1)
        return pandas.DataFrame(flat, index=as_index(down), columns=as_index(across))

    def give_cells(self, cells: IntArray) -> Any:
        """Turn cells (n x N, by places) into rows as the user knows them, e.g. samples of Q.

        If X was an array they are an array of indices in X, else a data frame with a column of labels for each mode.
        """
        if self.form == "array":
            return cells if self.labels is None else self.labels.indices(cells)
        return self._data_frame(self._list_levels(cells.T))

    def _list_levels(self, columns: IntArray) -> dict[str, Any]:
        """Return for each mode the labels of some cells (N x n, by places), by name: the columns of a data frame.

        Ordered categories become those of the data frame's library: pandas Categorical, polars Enum (of strings only),
        a pyarrow dictionary.
        """
        assert self.labels is not None  # every form but "array" has labels
        found, library = {}, _import_library(self.library)
        for k, places in enumerate(columns):
            levels = self.labels.levels_of(k)
            column = levels[places]
            if k in self.ranked and self.library == "pandas":
                column = library.Categorical(column, levels, ordered=True)
            elif k in self.ranked and self.library == "polars" and all(isinstance(label, str) for label in levels):
                column = library.Series(column.tolist(), dtype=library.Enum(levels.tolist()))
            elif k in self.ranked and self.library == "pyarrow":
                column = library.DictionaryArray.from_arrays(places, levels.tolist(), ordered=True)
            elif levels.dtype.kind == "O" and len(set(map(type, levels))) == 1:
                column = column.tolist()  # such as dates with time zones: NumPy has no type for them, the library has
            found[self.labels.mode(k)] = column
        return found

    def _data_frame(self, columns: dict[str, Any]) -> Any:
        """Make a data frame of these columns, in the library of X's own."""
        import narwhals.stable.v2 as nw

        backend: Any = self.library
        return nw.from_dict(columns, backend=backend).to_native()


PLAIN = Origin()  # a NumPy array without labels


def _import_library(name: str) -> Any:
    """Import the library that X was an object of; if the fit was read from a file, it may not be installed."""
    check_installed("an answer like X (fit.without_labels() gives arrays)", [name], name)
    return import_module(name)
