"""Legendre decomposition: nonnegative tensors of any order, decomposed by information geometry.

The method of Sugiyama, Nakahara and Tsuda, *Legendre Decomposition for Tensors* (NeurIPS 2018): the answer is unique,
minimises the KL divergence, and comes with its certificate.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from legendre import results as results
    from legendre import solvers as solvers
    from legendre.basis import ties as ties
    from legendre.basis.adaptive import adaptive as adaptive
    from legendre.basis.adaptive import boxes as boxes
    from legendre.basis.basis import B1 as B1
    from legendre.basis.basis import B2 as B2
    from legendre.basis.basis import B3 as B3
    from legendre.basis.basis import Basis as Basis
    from legendre.basis.basis import full as full
    from legendre.basis.features import features as features
    from legendre.basis.graph import graph as graph
    from legendre.basis.interactions import interactions as interactions
    from legendre.core import errors as errors
    from legendre.core.errors import ConvergenceWarning as ConvergenceWarning
    from legendre.core.errors import LegendreError as LegendreError
    from legendre.data import datasets as datasets
    from legendre.data.readers.coordinates import from_coords as from_coords
    from legendre.data.readers.rows import from_rows as from_rows
    from legendre.data.readers.tns import read_tns as read_tns
    from legendre.data.sparse_tensor import SparseTensor as SparseTensor
    from legendre.fitting.fit import decompose as decompose
    from legendre.fitting.fit import plan as plan
    from legendre.model import dual as dual
    from legendre.results.decomposition import Decomposition as Decomposition
    from legendre.results.files import load as load
    from legendre.tasks import geometry as geometry
    from legendre.tasks.balance.balance import balance as balance
    from legendre.tasks.compare import compare as compare
    from legendre.tasks.complete.complete import complete as complete
    from legendre.tasks.estimators import BoltzmannMachine as BoltzmannMachine
    from legendre.tasks.estimators import LegendreDensity as LegendreDensity
    from legendre.tasks.hidden import hidden as hidden
    from legendre.tasks.loglinear.anova import anova as anova
    from legendre.tasks.loglinear.loglinear import loglinear as loglinear

__version__ = "0.3.0"

_PLACES = {
    "basis.adaptive": "adaptive boxes",
    "basis.basis": "B1 B2 B3 Basis full",
    "basis.features": "features",
    "basis.graph": "graph",
    "basis.interactions": "interactions",
    "core.errors": "ConvergenceWarning LegendreError",
    "data.readers.coordinates": "from_coords",
    "data.readers.rows": "from_rows",
    "data.readers.tns": "read_tns",
    "data.sparse_tensor": "SparseTensor",
    "fitting.fit": "decompose plan",
    "results.decomposition": "Decomposition",
    "results.files": "load",
    "tasks.balance.balance": "balance",
    "tasks.compare": "compare",
    "tasks.complete.complete": "complete",
    "tasks.estimators": "BoltzmannMachine LegendreDensity",
    "tasks.hidden": "hidden",
    "tasks.loglinear.anova": "anova",
    "tasks.loglinear.loglinear": "loglinear",
}
"""Where each public name lives: it is imported when it is first used, so that importing the package is quick."""


_SUBMODULES = {
    "datasets": "data.datasets",
    "dual": "model.dual",
    "errors": "core.errors",
    "geometry": "tasks.geometry",
    "results": "results",
    "solvers": "solvers",
    "ties": "basis.ties",
}
"""Where each public submodule lives."""

__all__ = sorted({name for names in _PLACES.values() for name in names.split()} | set(_SUBMODULES))


if not TYPE_CHECKING:  # type checkers know the names from above, and complain of others

    def __getattr__(name: str) -> object:
        place = next((place for place, names in _PLACES.items() if name in names.split()), _SUBMODULES.get(name))
        if place is None:
            raise AttributeError(f"module 'legendre' has no attribute {name!r}")
        module = import_module(f"legendre.{place}")
        globals()[name] = found = module if name in _SUBMODULES else getattr(module, name)
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
