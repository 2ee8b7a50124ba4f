"""Numbers of parameters: those compared by default, and the largest of the paper's bases that has at most so many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from legendre.basis.basis import Basis
from legendre.basis.paper import B1, B2, B3
from legendre.core.arguments import entries, is_whole
from legendre.core.errors import InvalidSetting
from legendre.data.observation import Observation

Family = Literal["B1 + B2(l) + B3(l)", "B3(l)"]
FAMILIES: dict[Family, Callable[[int], Basis]] = {
    "B1 + B2(l) + B3(l)": lambda l: B1() | B2(l) | B3(l),  # noqa: E741 - the paper's name
    "B3(l)": lambda l: B3(l),  # noqa: E741 - the paper's name
}
"""The two families of the paper's experiments: of faces, and of MNIST."""
STEPS, SHARE, ENOUGH = 5, 4, 5000
"""The default numbers of parameters: at most 5 of them, none above a quarter of the cells, none above 5000."""


def largest(data: Observation, n_params: int, family: Family) -> tuple[int, int]:
    """Find the l whose basis is the largest with at most `n_params` cells; return l and that number of cells.

    The size grows with l, up to cells that two parts share, so bisection finds it. If all are too large, l is 0 and the
    size that of l = 1.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> largest(observe([[[1] * 4] * 5] * 6), 40, "B1 + B2(l) + B3(l)")
    (6, 39)
    """

    def size(l: int) -> int:  # noqa: E741 - the paper's name
        return len(FAMILIES[family](l).select(data))

    slice_cells = math.prod(data.shape[:-1])
    low, high = 0, 1
    while high <= slice_cells and size(high) <= n_params:  # doubling: a huge l would list a huge basis
        low, high = high, 2 * high
    high = min(high, slice_cells + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= n_params else (low, middle)
    return low, size(max(low, 1))


def ladder(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of parameters of nonnegative CP of rank 1, 2, 4, 8, 16, as far as `SHARE` and `ENOUGH` allow.

    >>> ladder((92, 112, 20))
    (224, 448, 896, 1792, 3584)
    >>> ladder((2, 3))
    (1,)
    """
    one, cells = sum(shape), math.prod(shape)
    most = min(cells // SHARE, max(ENOUGH, one))
    return tuple(one << k for k in range(STEPS) if one << k <= most) or (max(1, most),)


def checked_params(params: Sequence[int] | None, data: Observation) -> tuple[int, ...]:
    """Return the numbers of parameters, sorted."""
    if params is None:
        return ladder(data.shape)
    listed = entries(params)
    if listed is None:
        raise InvalidSetting(f"params must be a list of numbers of parameters such as [100, 300], got {params!r}.")
    for n in listed:
        if not is_whole(n, 1):
            raise InvalidSetting(f"params: {n!r} is not a number of parameters; give integers >= 1.")
    if not listed:
        raise InvalidSetting("params is empty; give at least one number of parameters.")
    if (most := max(listed)) >= data.support.n_cells:
        raise InvalidSetting(
            f"params: {most} parameters are too many: the sample space has {data.support.n_cells} cells, so that "
            f"{data.support.n_cells - 1} reproduce any X."
        )
    return tuple(sorted({int(n) for n in listed}))
