"""Whatever a decomposition can be made of."""

from __future__ import annotations

from numpy.typing import ArrayLike

from legendre.arrays import HasShape
from legendre.errors import InvalidSupport
from legendre.homes import HERE, home_of
from legendre.intake.blocks import is_dask, observe_blocks
from legendre.intake.dense import observe
from legendre.intake.observation import Observation
from legendre.intake.passes import Watch
from legendre.intake.remote import observe_there
from legendre.intake.sparse import observe_entries
from legendre.sparse import as_coordinates

TensorLike = ArrayLike | HasShape
"""What a decomposition can be made of."""


def read(
    X: TensorLike,
    support: str | ArrayLike = "all",
    base: ArrayLike | None = None,
    *,
    rankings: dict[int, int] | None = None,
    watch: Watch | None = None,
) -> Observation:
    """Check X, however it is held, and find its sample space.

    Parameters
    ----------
    X, support, base
        As in `decompose`.
    rankings
        What will be asked of `Observation.largest` (see `Basis.rankings`), for one pass over X to find on its way.
    watch
        Told how far a long pass over X is.

    Examples
    --------
    >>> from legendre.sparse import from_coords
    >>> read(from_coords([[0, 0], [999_999, 5]], [1, 2])).shape
    (1000000, 6)
    """
    if isinstance(X, Observation):
        return X
    if is_dask(X):
        return observe_blocks(X, support, base, rankings=rankings, watch=watch)
    listed = as_coordinates(X)
    if listed is None:
        home = home_of(X)
        # what is no array is refused there
        return observe(X, support, base) if home is HERE else observe_there(X, home, support, base)  # type: ignore[arg-type]
    if base is not None:
        raise InvalidSupport("X is sparse: a base measure has a value for every cell. Pass a dense X with it.")
    return observe_entries(listed.cells, listed.values, listed.shape, support)
