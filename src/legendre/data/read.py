"""From anything that a decomposition can be made of to an observation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from legendre.core.array_libraries import HERE, home_of
from legendre.core.errors import InvalidSupport
from legendre.core.types import HasShape
from legendre.data.dask.observation import Say, is_dask, observe_blocks
from legendre.data.dense import observe
from legendre.data.device import observe_there
from legendre.data.observation import Observation, Rankings
from legendre.data.readers.coordinates import as_sparse_tensor
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
) -> Observation:
    """Check X, however it is held, and find its sample space; `watch` is called with the progress of a long pass.

    An X that is costly to read ranks its slices in its first pass, see `Rankings`; for `prior` see `observe`.
    """
    if type(X) is np.ndarray:  # what most callers pass is no other library's
        return observe(X, support, base, rankings=rankings, prior=prior)
    if isinstance(X, Observation):
        return X
    if is_dask(X):
        shape: tuple[int, ...] = X.shape  # type: ignore[union-attr]  # a dask array has one
        wanted = None if rankings is None else rankings(shape)
        return observe_blocks(X, support, base, rankings=wanted, watch=watch)
    listed = as_sparse_tensor(X)
    if listed is None:
        home = home_of(X)
        if home is not HERE:
            return observe_there(X, home, support, base)
        # what is no array is refused there
        return observe(X, support, base, rankings=rankings, prior=prior)  # type: ignore[arg-type]
    if base is not None:
        raise InvalidSupport("X is sparse: a base measure has a value for every cell. Pass a dense X with it.")
    return observe_entries(listed.cells, listed.values, listed.shape, support)
