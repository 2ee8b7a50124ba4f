"""From anything that a decomposition can be made of to an observation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.errors import InvalidSupport, InvalidTensor
from legendre.core.origin import PLAIN, Origin
from legendre.core.types import HasShape
from legendre.data.dask import Say, is_dask, observe_blocks
from legendre.data.dense import observe
from legendre.data.observation import Observation, Rankings
from legendre.data.readers.coordinates import as_sparse_tensor
from legendre.data.readers.labelled import Levels, Names, unwrap
from legendre.data.sparse import observe_entries

TensorLike = ArrayLike | HasShape  # what a decomposition can be made of


def read(
    X: TensorLike,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    *,
    rankings: Rankings | None = None,
    watch: Say | None = None,
    prior: bool = False,
    names: Names = None,
    levels: Levels = None,
) -> Observation:
    """Check X, however it is held, and find its sample space; `watch` is called with the progress of a long pass.

    An X that is costly to read ranks its slices in its first pass, see `Rankings`; for `prior` see `observe`.
    Names of modes and levels come with X, or are given.
    """
    if isinstance(X, Observation):  # tasks hand on what they have read
        return X
    if type(X) is np.ndarray and names is None and levels is None:  # what most callers pass
        return observe(X, support, base, rankings=rankings, prior=prior)
    held, origin = unwrap(X, names, levels)
    support, base = align_with(support, origin), align_with(base, origin)
    data: Observation
    if is_dask(held):
        wanted = None if rankings is None else rankings(held.shape)
        data = observe_blocks(held, support, base, rankings=wanted, watch=watch)
    elif (listed := as_sparse_tensor(held)) is None:
        try:  # what is not an array is refused there
            data = observe(held, support, base, rankings=rankings, prior=prior)
        except InvalidTensor as problem:
            raise InvalidTensor(" ".join([str(problem), *origin.notes])) from None
    elif base is not None:
        raise InvalidSupport("X is sparse: a base measure has a value for every cell. Pass a dense X with it.")
    else:
        data = observe_entries(listed.cells, listed.values, listed.shape, support)
    return data if origin is PLAIN else replace(data, origin=origin)


def align_with(array: Any, origin: Origin, name: str = "the support or base measure") -> Any:
    """Take an array that belongs to X out of the object that holds it; one with labels is put in the order of X's.

    Modes are matched by their names, levels by their labels; those that X does not have, or that are absent, are
    refused.
    """
    if type(array).__module__.partition(".")[0] not in ("xarray", "pandas"):
        return array
    marks = type(array).__module__.startswith("pandas") and array.to_numpy().dtype == np.bool_
    held, own = unwrap(array.astype(np.int64) if marks else array)
    values = np.asarray(held)
    values = values.astype(np.bool_) if marks else values
    known, mine = origin.labels, own.labels
    if known is None or mine is None:
        return values
    if known.names is not None and mine.names is not None:
        if sorted(known.names) != sorted(mine.names):
            raise InvalidSupport(f"the modes of X are {known.names}, those of {name} {mine.names}.")
        order = [mine.names.index(own) for own in known.names]
        values, mine = values.transpose(order), mine.part(order)
    for k in range(values.ndim):
        levels, others = known.levels_of(k).tolist(), mine.levels_of(k).tolist()
        shared = set(levels) & set(others)
        for level in [*others, *levels]:
            if level not in shared:
                which = "has" if level in others else "lacks"
                raise InvalidSupport(f"{name} {which} the level {level!r} of {known.mode(k)}, unlike X.")
        values = values.take([others.index(level) for level in levels], axis=k)
    return values
