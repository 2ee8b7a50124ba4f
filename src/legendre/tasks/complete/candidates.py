"""Bases for a tensor with gaps, and the list of those that cross-validation compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.errors import InvalidBasis, InvalidSetting
from legendre.core.types import IntArray
from legendre.data.dense import in_memory
from legendre.data.observation import Observation
from legendre.data.support import Support

SIZES = 8
"""Sizes of an adaptive basis that cross-validation compares, from its start to the size asked for."""


@dataclass(frozen=True)
class OnGrid(Basis):
    """A basis laid out on the whole grid: a gap in X is no gap in the model.

    The paper's builders keep to the support, so that the slice of a missing cell would lose its parameter.
    """

    recipe: Basis

    def select(self, data: Observation) -> IntArray:
        """List the cells of the recipe as if missing cells were observed to be 0."""
        mask = data.support.mask
        if mask is None:
            return self.recipe.select(data)
        dense = in_memory(data, "completion")
        filled = np.where(mask, dense.values, 0)
        return self.recipe.select(replace(dense, values=filled, missing=None, support=Support(data.shape)))

    def __repr__(self) -> str:
        return repr(self.recipe)


@dataclass(frozen=True)
class Candidate:
    """A basis and, if it grows, the sizes at which it is compared."""

    recipe: Basis
    sizes: tuple[int, ...] = ()

    def each(self) -> list[Basis]:
        """List one basis per size."""
        if not isinstance(self.recipe, Adaptive) or not self.sizes:
            return [self.recipe]
        return [replace(self.recipe, size=n) for n in self.sizes]


def read_bases(basis: Basis | str | ArrayLike | Sequence[Basis | str], cv: int | None) -> list[Basis]:
    """Read one basis, or a list of several if there is a way to choose.

    Examples
    --------
    >>> read_bases(["interactions(1)", "interactions(2)"], 5)
    [interactions(1), interactions(2)]
    """
    if not isinstance(basis, (list, tuple)) or not any(isinstance(item, (Basis, str)) for item in basis):
        return [_on_grid(as_basis(basis))]  # type: ignore[arg-type]  # no list of candidates, so cells
    if wrong := [item for item in basis if not isinstance(item, (Basis, str))]:
        raise InvalidBasis(f"a list of candidates holds Basis objects and strings; this one holds {wrong[0]!r}.")
    if len(basis) > 1 and cv is None:
        raise InvalidSetting(f"{len(basis)} candidate bases need cv, a number of folds, to choose from them: cv=5.")
    return [_on_grid(as_basis(item)) for item in basis]


def _on_grid(recipe: Basis) -> Basis:
    if not isinstance(recipe, Adaptive):
        return OnGrid(recipe)
    return replace(recipe, start=OnGrid(as_basis(recipe.start)))


def candidates(recipes: list[Basis], data: Observation) -> list[Candidate]:
    """Give growing bases their sizes, spaced evenly in the logarithm."""
    return [Candidate(recipe, _sizes(recipe, data)) for recipe in recipes]


def _sizes(recipe: Basis, data: Observation) -> tuple[int, ...]:
    if not isinstance(recipe, Adaptive) or isinstance(recipe.size, str):
        return ()
    least = max(1, len(as_basis(recipe.start).select(data)))
    return tuple(sorted({int(n) for n in np.geomspace(min(least, recipe.size), recipe.size, SIZES).round()}))
