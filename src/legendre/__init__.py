"""Legendre decomposition: nonnegative tensors of any order, decomposed by information geometry.

The method of Sugiyama, Nakahara and Tsuda, *Legendre Decomposition for Tensors* (NeurIPS 2018): the answer is unique,
minimises the KL divergence, and comes with its certificate.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legendre import solvers
    from legendre.basis.adaptive import adaptive
    from legendre.basis.basis import Basis, cells, empty, full
    from legendre.basis.interactions import boltzmann, interactions, rbm
    from legendre.basis.paper import B1, B2, B3
    from legendre.core import errors
    from legendre.core.errors import ConvergenceWarning, LegendreError
    from legendre.data.readers.coordinates import from_coords
    from legendre.data.readers.tables import from_batches, from_rows
    from legendre.data.readers.tns import read_tns
    from legendre.data.sparse_tensor import SparseTensor
    from legendre.fitting.decompose import decompose
    from legendre.fitting.plan import Plan, plan
    from legendre.model import dual
    from legendre.results.decomposition import Decomposition
    from legendre.results.inference.ratio import LikelihoodRatio, likelihood_ratio
    from legendre.results.inference.result import Inference
    from legendre.results.rounds import Round
    from legendre.solvers.status import Status
    from legendre.tasks import geometry
    from legendre.tasks.balance.balance import balance
    from legendre.tasks.balance.result import Balanced
    from legendre.tasks.compare.run import compare
    from legendre.tasks.complete.complete import complete
    from legendre.tasks.complete.crossval import CrossValidation
    from legendre.tasks.complete.result import Completion
    from legendre.tasks.estimators.boltzmann import BoltzmannMachine
    from legendre.tasks.estimators.density import LegendreDensity
    from legendre.tasks.hidden.hidden import hidden
    from legendre.tasks.hidden.result import HiddenDecomposition
    from legendre.tasks.load import load
    from legendre.tasks.smooth.result import Smoothed
    from legendre.tasks.smooth.smooth import smooth

__version__ = "0.1.0"

__all__ = [
    "B1",
    "B2",
    "B3",
    "Balanced",
    "Basis",
    "BoltzmannMachine",
    "Completion",
    "ConvergenceWarning",
    "CrossValidation",
    "Decomposition",
    "HiddenDecomposition",
    "Inference",
    "LegendreDensity",
    "LegendreError",
    "LikelihoodRatio",
    "Plan",
    "Round",
    "Smoothed",
    "SparseTensor",
    "Status",
    "adaptive",
    "balance",
    "boltzmann",
    "cells",
    "compare",
    "complete",
    "decompose",
    "dual",
    "empty",
    "errors",
    "from_batches",
    "from_coords",
    "from_rows",
    "full",
    "geometry",
    "hidden",
    "interactions",
    "likelihood_ratio",
    "load",
    "plan",
    "rbm",
    "read_tns",
    "smooth",
    "solvers",
]

_PLACES = {
    "basis.adaptive": "adaptive",
    "basis.basis": "Basis cells empty full",
    "basis.interactions": "boltzmann interactions rbm",
    "basis.paper": "B1 B2 B3",
    "core.errors": "ConvergenceWarning LegendreError",
    "data.readers.coordinates": "from_coords",
    "data.readers.tables": "from_batches from_rows",
    "data.readers.tns": "read_tns",
    "data.sparse_tensor": "SparseTensor",
    "fitting.decompose": "decompose",
    "fitting.plan": "Plan plan",
    "results.decomposition": "Decomposition",
    "results.inference.ratio": "LikelihoodRatio likelihood_ratio",
    "results.inference.result": "Inference",
    "results.rounds": "Round",
    "solvers.status": "Status",
    "tasks.balance.balance": "balance",
    "tasks.balance.result": "Balanced",
    "tasks.compare.run": "compare",
    "tasks.complete.complete": "complete",
    "tasks.complete.crossval": "CrossValidation",
    "tasks.complete.result": "Completion",
    "tasks.estimators.boltzmann": "BoltzmannMachine",
    "tasks.estimators.density": "LegendreDensity",
    "tasks.hidden.hidden": "hidden",
    "tasks.hidden.result": "HiddenDecomposition",
    "tasks.load": "load",
    "tasks.smooth.result": "Smoothed",
    "tasks.smooth.smooth": "smooth",
}
"""Where each public name lives: it is imported when it is first used, so that importing the package is quick."""


_SUBMODULES = {"dual": "model.dual", "errors": "core.errors", "geometry": "tasks.geometry", "solvers": "solvers"}
"""Where each public submodule lives."""


if not TYPE_CHECKING:  # type checkers know the names from above, and complain of others

    def __getattr__(name: str) -> object:
        if name in _SUBMODULES:
            found = import_module(f"legendre.{_SUBMODULES[name]}")
        else:
            place = next((place for place, names in _PLACES.items() if name in names.split()), None)
            if place is None:
                raise AttributeError(f"module 'legendre' has no attribute {name!r}")
            found = getattr(import_module(f"legendre.{place}"), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
