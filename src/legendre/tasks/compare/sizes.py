"""Which basis of the paper has about so many parameters, and which numbers of parameters are worth a look."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from legendre.basis.basis import Basis
from legendre.basis.paper import B1, B2, B3
from legendre.data.dense import Dense

Family = Literal["B1 + B2(l) + B3(l)", "B3(l)"]
FAMILIES: dict[Family, Callable[[int], Basis]] = {
    "B1 + B2(l) + B3(l)": lambda l: B1() | B2(l) | B3(l),  # noqa: E741 - the paper's name
    "B3(l)": lambda l: B3(l),  # noqa: E741 - the paper's name
}
"""The two families of the paper's experiments: of faces, and of MNIST."""
STEPS, SHARE, ENOUGH = 5, 4, 5000
"""The ladder: so many steps, up to a quarter of the cells and up to so many parameters."""


@dataclass(frozen=True)
class Chosen:
    """A member of a family and its size on the data at hand; with l = 0 for none, the size is that of l = 1."""

    l: int  # noqa: E741 - the paper's name
    n_params: int


def largest(data: Dense, n_params: int, family: Family) -> Chosen:
    """Find the l whose basis is the largest with at most `n_params` cells.

    The size grows with l, up to cells that two parts share, so bisection finds it.

    Examples
    --------
    >>> from legendre.data.dense import observe
    >>> largest(observe([[[1] * 4] * 5] * 6), 40, "B1 + B2(l) + B3(l)")
    Chosen(l=6, n_params=39)
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
    return Chosen(low, size(max(low, 1)))


def ladder(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of nonnegative CP of rank 1, 2, 4, 8, 16, as far as they are a decomposition at all.

    >>> ladder((92, 112, 20))
    (224, 448, 896, 1792, 3584)
    >>> ladder((2, 3))
    (1,)
    """
    one, cells = sum(shape), math.prod(shape)
    most = min(cells // SHARE, max(ENOUGH, one))
    return tuple(one << k for k in range(STEPS) if one << k <= most) or (max(1, most),)
