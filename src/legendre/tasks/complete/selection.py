"""The choice of a basis, and of the size of one that grows, by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Basis
from legendre.basis.parse import as_basis
from legendre.core.array_libraries import HERE
from legendre.core.errors import ConvergenceWarning
from legendre.core.types import BoolArray, FloatArray
from legendre.data.dense import Dense, observe
from legendre.fitting.decompose import fit_recipe
from legendre.fitting.plan import Settings
from legendre.fitting.progress import ProgressLine
from legendre.results.decomposition import Decomposition
from legendre.tasks.complete.crossval import CrossValidation, cross_validate
from legendre.tasks.complete.folds import Folding

ROUGH = 1e-3
"""Fits to folds are exact to this share of a mean cell (or to tol): held-out errors are far larger."""
SIZES = 8
"""Sizes of an adaptive basis that are compared, from its start to the size asked for."""


@dataclass(frozen=True)
class Candidate:
    """A basis that is fitted to each fold; if it grows, also the basis of each size that is compared."""

    recipe: Basis
    sizes: dict[int, Basis]

    @classmethod
    def of(cls, recipe: Basis, data: Dense) -> Candidate:
        """Space the sizes of a growing basis evenly in the logarithm."""
        if not isinstance(recipe, Adaptive) or isinstance(recipe.size, str):
            return cls(recipe, {})
        least = max(1, len(as_basis(recipe.start).select(data)))
        sizes = np.geomspace(min(least, recipe.size), recipe.size, SIZES).round()
        return cls(recipe, {n: replace(recipe, size=n) for n in sorted({int(size) for size in sizes})})

    @property
    def compared(self) -> list[Basis]:
        """The bases in the table."""
        return list(self.sizes.values()) or [self.recipe]

    def fits(self, data: Dense, settings: Settings) -> list[Decomposition]:
        """Fit some of the observed cells, once for each basis in the table."""
        fit = fit_recipe(data, HERE, self.recipe, settings, ProgressLine(None))
        return [fit.at(min(n, fit.n_params)) for n in self.sizes] or [fit]


def select(
    data: Dense,
    seen: BoolArray,
    recipes: list[Basis],
    settings: Settings,
    folding: Folding,
    criterion: str,
    values_of: Callable[[Decomposition], FloatArray],
) -> tuple[Basis, CrossValidation]:
    """Compare the candidates, and the sizes of those that grow; return the best one and the table.

    `values_of` computes the tensor that a fit fills in, NaN where the cells left do not determine it.
    """
    offers = [Candidate.of(recipe, data) for recipe in recipes]
    every = [recipe for offer in offers for recipe in offer.compared]
    values = np.where(seen, np.asarray(data.values, dtype=np.float64), 0.0)

    def fill(left: BoolArray) -> list[FloatArray]:
        part = observe(values, left, data.base)
        rough = replace(settings, tol=max(settings.tol, ROUGH / int(left.sum())), ranked=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fold's last digits do not matter
            return [values_of(fit) for offer in offers for fit in offer.fits(part, rough)]

    # a cell of base measure 0 is no test of a model
    turns = folding.deal(seen if data.base is None else seen & (data.base > 0))
    table = cross_validate(values, turns, [repr(r) for r in every], fill, criterion=criterion, folds=folding.name)
    return every[table.best], table
