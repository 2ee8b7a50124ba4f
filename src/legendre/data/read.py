"""From anything that a caller may pass as X to an `Observation`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.errors import InvalidSupport, LegendreError
from legendre.core.origin import PLAIN, Origin, package_of
from legendre.core.types import HasShape
from legendre.data.dask import is_dask, observe_blocks
from legendre.data.dense import observe
from legendre.data.observation import Observation, Ranked
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.readers.labelled import Levels, Names, unwrap
from legendre.data.sparse import observe_entries

TensorLike = ArrayLike | HasShape  # what a decomposition can be made of


def read(
    X: TensorLike,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    *,
    ranked: Ranked = (),
    names: Names = None,
    levels: Levels = None,
) -> Observation:
    """Check X, of any kind that the library accepts, and find its sample space: where every fit begins.

    `support` and `base` describe the sample space and the base measure. `ranked` says which largest entries a basis
    will ask for, so that blocks of a dask array are read once. Names of modes and levels come with X, unless they are
    given.
    """
    if isinstance(X, Observation):  # tasks hand on what they have read
        return X
    if type(X) is np.ndarray and names is None and levels is None:  # what most callers pass needs no reader
        return observe(X, align_with(support, PLAIN), align_with(base, PLAIN))
    array, origin = unwrap(X, names, levels)
    support, base = align_with(support, origin), align_with(base, origin)
    data: Observation
    if is_dask(array):
        data = observe_blocks(array, support, base, ranked)
    elif (listed := as_sparse_tensor(array)) is None:
        data = observe(array, support, base)
    elif base is not None:
        raise InvalidSupport("X is sparse: a base measure has a value for every cell. Pass a dense X with it.")
    else:
        data = observe_entries(listed.cells, listed.values, listed.shape, support)
    return data if origin is PLAIN else replace(data, origin=origin)


def align_with(array: Any, origin: Origin, name: str = "the support or base measure") -> Any:
    """Return an array that belongs to X, such as a support or a base measure, with its axes in the order of X's.

    An xarray or pandas object is aligned: modes are matched by their names, levels by their labels. A mode or level
    that only one of the two has is refused. Anything else comes back unchanged. `name` is what errors call the array.
    """
    if array is None or isinstance(array, str) or package_of(array) not in ("xarray", "pandas"):
        return array
    try:
        plain, array_origin = unwrap(array)
    except LegendreError:
        raise InvalidSupport(f"{name} has no labels of levels: give it those of X, or pass an array.") from None
    values = np.asarray(plain)
    labels, array_labels = origin.labels, array_origin.labels
    if labels is None or array_labels is None:
        return values
    if labels.names is not None and array_labels.names is not None:
        if sorted(labels.names) != sorted(array_labels.names):
            raise InvalidSupport(f"the modes of X are {labels.names}, those of {name} {array_labels.names}.")
        order = [array_labels.names.index(mode) for mode in labels.names]
        values, array_labels = values.transpose(order), array_labels.part(order)
    for k in range(values.ndim):  # each mode has the same levels; put them in the order of X's
        levels, array_levels = labels.levels_of(k).tolist(), array_labels.levels_of(k).tolist()
        shared = set(levels) & set(array_levels)
        for level in [*array_levels, *levels]:
            if level not in shared:
                which = "has" if level in array_levels else "lacks"
                raise InvalidSupport(f"{name} {which} the level {level!r} of {labels.mode(k)}, unlike X.")
        values = values.take([array_levels.index(level) for level in levels], axis=k)
    return values
