"""The choice of a basis by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from legendre.basis.adaptive import Adaptive
from legendre.basis.basis import Basis
from legendre.core.errors import ConvergenceWarning
from legendre.core.types import BoolArray, FloatArray
from legendre.data.dense import Dense, observe
from legendre.fitting.decompose import decompose
from legendre.fitting.fit import fit_on
from legendre.fitting.plan import Settings
from legendre.results.decomposition import Decomposition
from legendre.tasks.complete.candidates import Candidate, candidates
from legendre.tasks.complete.crossval import CrossValidation, cross_validate
from legendre.tasks.complete.extrapolate import determined_values
from legendre.tasks.complete.folds import Folding

ROUGH = 1e-3
"""Fits to folds are exact to this share of a mean cell (or to tol): held-out errors are far larger."""


def select(
    data: Dense,
    seen: BoolArray,
    recipes: list[Basis],
    settings: dict[str, Any],
    folding: Folding,
    criterion: str,
) -> tuple[Basis, CrossValidation]:
    """Compare the candidates, and the sizes of those that grow; return the best one and the table."""
    offers = candidates(recipes, data)
    every = [recipe for offer in offers for recipe in offer.each()]
    values = np.where(seen, data.values, 0.0)

    def fill(left: BoolArray) -> list[FloatArray]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a fold's last digits do not matter
            rough = settings | {"tol": max(float(settings["tol"]), ROUGH / int(left.sum()))}
            fits = [fit for offer in offers for fit in _fits(values, left, offer, rough)]
            return [determined_values(fit) for fit in fits]

    # a cell of base measure 0 is no test of a model
    turns = folding.deal(seen if data.base is None else seen & (data.base > 0))
    table = cross_validate(values, turns, [repr(r) for r in every], fill, criterion=criterion, folds=folding.name)
    return every[table.best], table


def _fits(values: FloatArray, left: BoolArray, offer: Candidate, settings: dict[str, Any]) -> list[Decomposition]:
    """Fit a candidate, at all of its sizes, to the cells that are left; ranks are not asked for."""
    if not isinstance(offer.recipe, Adaptive):
        data = observe(values, left, settings["base"])
        asked = Settings.read(settings["solver"], settings["tol"], settings["max_iter"])
        return [fit_on(data, offer.recipe, replace(asked, ranked=False))]
    fit = decompose(values, offer.recipe, support=left, **settings)
    return [fit.at(min(n, fit.n_params)) for n in offer.sizes] or [fit]
